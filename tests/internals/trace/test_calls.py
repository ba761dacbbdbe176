"""What a traced function calls is captured too: functions, methods, modules, wrappers; or refused by its name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from internals import Tensor, nn, ops
from internals.graph import Graph, Session
from internals.trace import TraceError, do_not_convert, function
from internals.trace.convert import rewritten


def clipped(x: Any, most: float = 1.0, *, scale: float = 2.0) -> Any:
    if x.sum() > most:
        return x * scale
    return x - 1


def halved(x: Any) -> Any:
    while (x * x).sum() > 1:
        x = x * 0.5
    return x


def deeper(x: Any) -> Any:
    return clipped(halved(x) + x)


def repeated(x: Any, times: int) -> Any:
    return x if not times else repeated(clipped(x), times - 1)


def timed(python: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(python)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return python(*args, **kwargs) * 1.5

    return wrapper


@timed
def wrapped(x: Any) -> Any:
    if x.sum() > 0:
        x = x * x
    return x


class Base:
    __factor = 3.0

    def moved(self, x: Any) -> Any:
        if x.sum() > 0:
            return x * self.__factor
        return x

    @classmethod
    def made(cls, x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x

    @staticmethod
    def plain(x: Any) -> Any:
        return x * 5 if x.sum() > 0 else x


class Derived(Base):
    __factor = 7.0

    def moved(self, x: Any) -> Any:
        if x.sum() > 1:
            x = super().moved(x) + self.__factor
        return super().moved(x)

    def __call__(self, x: Any) -> Any:
        return x - 1 if x.sum() > 0 else x


class Gate(nn.Module):
    def __init__(self, rounds: int = 1) -> None:
        self.linear, self.rounds = nn.Linear(4, 4, rng=np.random.default_rng(rounds)), rounds

    def forward(self, x: Any) -> Any:
        for _ in range(self.rounds):
            if x.sum() > 0:
                x = self.linear(x)
        return x


NET, NESTED = Gate(), nn.Sequential(Gate(2), nn.Tanh(), Gate(3))
OBJECT = Derived()

LAMBDAS = [lambda x: x * x if x.sum() > 0 else -x, lambda x: (lambda y: y + 1 if y.sum() > 0 else y)(clipped(x))]

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a lambda": LAMBDAS[0],
    "one of two lambdas in a line, with one inside": LAMBDAS[1],
    "a function": clipped,
    "a function's function": deeper,
    "with defaults and keywords": lambda x: clipped(x, 0.5, scale=3.0),
    "recursion that Python ends": lambda x: repeated(x, 3),
    "a wrapped function": wrapped,
    "a partial function": functools.partial(clipped, most=-1.0),
    "a method, of the class above and with private names": OBJECT.moved,
    "a class method": Derived.made,
    "a static method": OBJECT.plain,
    "an object": OBJECT,
    "a traced function": function(clipped),
    "a module": NET,
    "a module inside modules": NESTED,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_call_in_a_traced_function_is_what_it_is_in_python(name: str) -> None:
    program, rng = PROGRAMS[name], np.random.default_rng()

    @function
    def traced(x: Any) -> Any:
        return [program(part) for part in (x, -x)]

    for scale in (0.2, 1, 3, 0.7, 2):
        values = (rng.standard_normal(4) * scale).astype(np.float32)
        found = []
        for run in (lambda x: [program(part) for part in (x, -x)], traced):
            x = Tensor(values, requires_grad=True)
            one, two = run(x)
            (one.sum() + (two * two).sum()).backward()
            found.append([one.detach().numpy(), two.detach().numpy(), x.grad.numpy()])
        for mine, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    assert len(traced.traces) == 1


def test_a_called_function_is_captured_where_a_graph_is_built_by_hand() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((3,))
        y = function(deeper)(x)
    with Session(graph) as session:
        for value in (np.float32([1, 2, 3]), np.float32([-1, 0, 0.5])):
            np.testing.assert_array_equal(session.run(y, {x: value}), deeper(Tensor(value)).numpy())


def test_a_function_redefined_is_traced_anew() -> None:
    names: dict[str, Any] = {"first": clipped, "second": halved}

    @function
    def traced(x: Any) -> Any:
        return names["first"](x)

    x = Tensor([3.0, 1.0])
    assert traced(x).tolist() == [6.0, 2.0]
    names["first"] = names["second"]
    assert traced(x).tolist() == halved(x).tolist()


# What is not converted


def parts(x: Any) -> Iterator[Any]:
    if x.sum() > 0:
        yield x
    yield -x


@do_not_convert
def marked(x: Any) -> Any:
    return clipped(x)


@do_not_convert
def marked_deciding(x: Any) -> Any:
    return x if x.sum() > 0 else -x


class Marked(nn.Module):
    @do_not_convert
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


from_text: dict[str, Any] = {}
exec("def decided(x):\n    return x if x.sum() > 0 else -x", from_text)


def endless(x: Any) -> Any:
    return x if x.sum() > 0 else endless(x + 1)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a lambda without source": (eval("lambda x: x if x.sum() > 0 else -x"), "<lambda> is traced as it stands"),
    "a generator": (lambda x: next(parts(x)), "parts is traced as it stands, because it is a generator"),
    "no source": (from_text["decided"], "decided is traced as it stands, because its source can't be read"),
    "marked": (marked_deciding, "marked_deciding is traced as it stands, because it is marked with do_not_convert"),
    "called by what is marked": (marked, "clipped is traced as it stands, because marked, which calls it, is marked"),
    "a marked module": (Marked(), "forward is traced as it stands, because it is marked with do_not_convert"),
    "recursion that a value ends": (endless, r"test_calls.py:\d+: tracing traced does not end.*Write a while loop"),
    "of a library": (functools.partial(functools.reduce, max), "a node has no value while the graph is built"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_converted_is_refused_by_its_name(name: str) -> None:
    program, why = REFUSED[name]

    @function
    def traced(x: Any) -> Any:
        return program(x)

    with pytest.raises(TraceError, match=why):
        traced(Tensor([1.0, -2.0]))


def test_what_is_marked_runs_where_it_asks_nothing_of_a_node() -> None:
    @do_not_convert
    def chosen(x: Any, up: bool) -> Any:
        return x + 1 if up else x - 1

    traced = function(lambda x: chosen(x, True))
    assert traced(Tensor([1.0])).tolist() == [2.0]
    assert chosen.__name__ == "chosen"


@pytest.mark.parametrize("given", [NET, Derived, 3])
def test_only_a_function_can_be_marked(given: Any) -> None:
    with pytest.raises(TypeError, match="do_not_convert: expected a Python function"):
        do_not_convert(given)


@pytest.mark.parametrize("program", [clipped, NET, NESTED], ids=["a function", "a module", "modules"])
def test_without_capture_nothing_that_is_called_is_converted(program: Any) -> None:
    def called(x: Any) -> Any:
        return program(x)

    with pytest.raises(TraceError, match="called is traced as it stands, because capture is off"):
        function(called, capture=False)(Tensor(np.ones(4, np.float32)))


def test_a_module_with_a_hook_keeps_it() -> None:
    net = Gate()
    seen = []
    net.register_forward_hook(lambda module, inputs, out: seen.append(module))
    with pytest.raises(TraceError, match="made at"):  # with hooks the module is called as it stands
        function(net)(Tensor(np.ones(4, np.float32)))
    net.rounds = 0
    function(lambda x: net(x) * 1)(Tensor(np.ones(4, np.float32)))
    assert seen == [net]


def test_what_is_called_is_asked_for_in_the_rewritten_source() -> None:
    assert "__called__(clipped)(__called__(halved)(x) + x)" in rewritten(deeper)
    assert "super(__class__, self)" in rewritten(Derived.moved)
    assert "self._Derived__factor" in rewritten(Derived.moved)


def test_no_other_thread_is_affected_while_one_traces() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def other(_: int) -> list[float]:
        return list(NET(Tensor(np.ones(4, np.float32))).tolist())

    want = other(0)
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(other, range(50))
        for _ in range(5):
            function(deeper)(Tensor([1.0, 2.0]))
        assert all(one == want for one in found)


def test_ops_are_not_rewritten() -> None:
    from internals.trace.convert import captured

    for one in (ops.relu, ops.sum, print, len, np.sqrt, Tensor, nn.Linear, Tensor([1.0]).sum, [].append, ops.attention):
        assert captured(one) is one or captured(one) == one
