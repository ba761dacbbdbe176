"""Python's control flow in a graph: the same values and gradients as Python's own, decided anew at each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from frameworks import tf

from internals import Tensor, ops
from internals.trace import TraceError, function
from internals.trace.convert import rewritten

# Programs that eager code of ours, traced code of ours, and torch's eager code all run


def branch(x: Any) -> Any:
    y = x * 2
    if x.sum() > 0:
        y = y * x
        scale = 3
    else:
        scale = 0.5
    return (y * scale).sum()


def without_else(x: Any) -> Any:
    if x.sum() > 0:
        x = x * x
    return x.sum()


def early_return(x: Any) -> Any:
    if x.sum() > 4:
        return (x * x).sum()
    elif x.sum() < -4:
        return -x.sum()
    x = x * 3
    return x.sum()


def ternary(x: Any) -> Any:
    return (x * x if x.sum() > 0 else x * 3).sum()


def connectives(x: Any) -> Any:
    if x.sum() > 0 and not x[0] < 0 or x[1] > 2:  # noqa: RUF021 - the precedence is what is asked
        return (x * 2).sum()
    return (x * x).sum()


def between(x: Any) -> Any:
    total, low, high = x.sum(), -2, 2
    if low < total < high:
        total = total * 5
    return total


def halved(x: Any) -> Any:
    while (x * x).sum() > 1:
        x = x * 0.5
    return x.sum()


def halved_with_count(x: Any) -> Any:
    count = 0
    while True:
        if (x * x).sum() < 1:
            break
        x = x * 0.5
        count += 1
        if count > 3:
            break
    return x.sum() * count


def skipping(x: Any) -> Any:
    total = x.sum() * 0.0
    for i in range(4):
        if i == 1:
            continue
        if x[i] < 0:
            continue
        total = total + x[i] * x[i]
        if total > 6:
            break
    return total


def nested(x: Any) -> Any:
    total = x.sum() * 0.0
    for i in range(4):
        if x[i] > 0:
            y = x[i]
            while y < 3:
                y = y * 2
            total = total + y
        elif x[i] < -1:
            total = total - x[i]
    return total


def in_a_function_inside(x: Any) -> Any:
    factor = 2.0

    def clipped(y: Any) -> Any:
        if y.sum() > 1:
            return y * factor
        return y

    return clipped(x[:2]).sum() + clipped(x[2:]).sum()


PROGRAMS = [
    branch,
    without_else,
    early_return,
    ternary,
    connectives,
    between,
    halved,
    halved_with_count,
    skipping,
    nested,
    in_a_function_inside,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_captured_program_is_the_program(program: Callable[..., Any]) -> None:
    traced, rng = function(program), np.random.default_rng()
    for scale in (0.3, 1, 2, 3, 0.5, 1.5):
        values = (rng.standard_normal(4) * scale).astype(np.float32)
        found = []
        for run in (program, traced):
            x = Tensor(values, requires_grad=True)
            y = run(x)
            y.backward()
            found.append((y.item(), x.grad.numpy()))
        np.testing.assert_array_equal(found[0][0], found[1][0])
        np.testing.assert_array_equal(found[0][1], found[1][1])
        leaf = torch.tensor(values, requires_grad=True)
        theirs = program(leaf)
        theirs.backward()
        np.testing.assert_allclose(found[1][0], theirs.item(), rtol=1e-5)
        np.testing.assert_allclose(found[1][1], leaf.grad.numpy(), rtol=1e-5)
    assert len(traced.traces) == 1


@pytest.mark.slow
@pytest.mark.parametrize("program", [branch, halved, skipping], ids=lambda program: program.__name__)
def test_autograph_gives_the_same(program: Callable[..., Any]) -> None:
    source = {
        "branch": lambda x: tf.cond(
            tf.reduce_sum(x) > 0, lambda: tf.reduce_sum(2 * x * x * 3), lambda: tf.reduce_sum(2 * x * 0.5)
        ),
        "halved": lambda x: tf.reduce_sum(
            tf.while_loop(lambda x: tf.reduce_sum(x * x) > 1, lambda x: (x * 0.5,), (x,))[0]
        ),
    }
    tf_program = source.get(program.__name__, _skipping_in_tensorflow)
    values = np.random.default_rng().standard_normal(4).astype(np.float32) * 2
    theirs = tf.function(tf_program)(tf.constant(values))
    np.testing.assert_allclose(function(program)(Tensor(values)).item(), theirs.numpy(), rtol=1e-5)


def _skipping_in_tensorflow(x: Any) -> Any:
    total = tf.constant(0.0)
    going = tf.constant(True)
    for i in (0, 2, 3):
        total = tf.where(going & (x[i] >= 0), total + x[i] * x[i], total)
        going = going & (total <= 6)
    return total


def test_python_conditions_stay_pythons() -> None:
    def chosen(x: Any, flag: bool, steps: int) -> Any:
        if flag and steps > 1:
            for i in range(steps):
                x = x + i
        return x if flag else -x

    traced = function(chosen)
    assert traced(Tensor([1.0]), True, 3).tolist() == [4.0]
    assert {node.op.name for node in traced.traces[0].function.graph.nodes} == {"placeholder", "add"}
    assert traced(Tensor([1.0]), False, 3).tolist() == [-1.0]


def test_a_range_over_a_value_is_a_loop_of_the_graph() -> None:
    def doubled(n: Any, x: Any) -> Any:
        for i in range(1, n, 2):
            x = x * 2 + i
        return x

    traced = function(doubled)
    for n in (0, 1, 2, 6, 9):
        assert traced(Tensor(n), Tensor(1.0)).item() == doubled(n, Tensor(1.0)).item()
    assert len(traced.traces) == 1


def test_structures_and_python_values_go_through_a_branch() -> None:
    def both(x: Any) -> Any:
        state = {"h": x, "name": "a"}
        if x.sum() > 0:
            state = {"h": x + 1, "name": "a"}
            pair = (x, 2)
        else:
            pair = (x * 2, 3)
        return state["h"] + pair[1], state["name"], pair[0]

    traced = function(both)
    for sign in (1.0, -1.0):
        x = Tensor([sign, 2 * sign])
        assert [str(one) for one in traced(x)] == [str(one) for one in both(x)]


def test_loops_go_on_in_the_graph_from_where_python_stops_knowing() -> None:
    def grown(x: Any) -> Any:
        steps = 0
        while True:
            x = x + 1
            steps += 1
            if x.sum() > 10:
                break
        return x, steps

    x, steps = function(grown)(Tensor([0.0, 3.0]))
    assert (x.tolist(), steps.item()) == ([4.0, 7.0], 4)


def test_a_converted_function_is_the_function_elsewhere() -> None:
    """Defaults, closures, keyword-only arguments and the module's names are those of the original."""
    outside = Tensor([3.0])

    def scaled(x: Any, factor: float = 2.0, *, shift: float = 1.0) -> Any:
        """Scaled."""
        if x.sum() > 0:
            x = x * outside
        return x * factor + shift + GLOBAL

    traced = function(scaled)
    assert traced(Tensor([1.0])).tolist() == [17.0]
    assert traced(Tensor([1.0]), 3.0, shift=0.0).tolist() == [19.0]
    assert (traced.__name__, traced.__doc__) == ("scaled", "Scaled.")


GLOBAL = 10.0


# What is refused

outside_list: list[Any] = []


class Box:
    value: Any = None


box = Box()


def undefined(x: Any) -> Any:
    if x.sum() > 0:
        y = x
    return y


def undefined_used(x: Any) -> Any:
    if x.sum() > 0:
        y = x
    return y + 1


def shapes(x: Any) -> Any:
    return x[:1] if x.sum() > 0 else x


def dtypes(x: Any) -> Any:
    if x.sum() > 0:
        y = x
    else:
        y = x > 0
    return y


def kinds(x: Any) -> Any:
    y = None
    if x.sum() > 0:
        y = x
    return y


def appends(x: Any) -> Any:
    if x.sum() > 0:
        outside_list.append(x)
    return x


def assigns_an_attribute(x: Any) -> Any:
    if x.sum() > 0:
        box.value = x
    return x


def grows(x: Any) -> Any:
    rows: list[Any] = []
    while x.sum() < 9:
        x = x + 1
        rows = [*rows, x]
    return rows


def changes_shape(x: Any) -> Any:
    while x.sum() < 9:
        x = ops.concat([x, x])
    return x


def integer_start(x: Any) -> Any:
    total = 0
    while total < x.sum():
        total = total + 0.5
    return total


def returns_in_a_loop(x: Any) -> Any:
    while x.sum() > 0:
        if x[0] > 3:
            return x
        x = x - 1
    return x


def breaks_a_python_loop(x: Any) -> Any:
    for row in (1, 2, 3):
        if x.sum() > row:
            break
        x = x + 1
    return x


def many_entries(x: Any) -> Any:
    if x > 0:
        x = x + 1
    return x


def writes(x: Any) -> Any:
    if x.sum() > 0:
        held.add_(1)
    return x


def asserts(x: Any) -> Any:
    assert x.sum() > 0
    return x


def leaks(x: Any) -> Any:
    kept = []

    def keep(y: Any) -> Any:
        kept.append(y)
        return y

    y = keep(x * 2) if x.sum() > 0 else x
    return y + kept[0]


held = Tensor([1.0, 2.0, 3.0])

REFUSED: dict[Callable[..., Any], str] = {
    undefined: r"test_capture.py:\d+: the if: 'y' has no value on every way through it. Assign it before.",
    undefined_used: r"test_capture.py:\d+: the if: 'y' has no value on every way through it. Assign it before.",
    shapes: r"'the value' is float32\[1\] on one way.*float32\[3\] on the other.*Bring both to one shape and dtype",
    dtypes: r"'y' is float32\[3\] on one way.*bool\[3\] on the other",
    kinds: r"'y' is float32\[3\] on one way through the if and None on the other",
    appends: r"test_capture.py:\d+: the condition of this if.*line \d+ calls outside_list.append.*afterwards",
    assigns_an_attribute: r"line \d+ assigns box.value",
    grows: r"'rows' is a list of 0 before the loop and a list of 1 after one round",
    changes_shape: r"test_capture.py:\d+: 'x' is float32\[3\] before the loop and float32\[6\] after one round",
    integer_start: r"'total' is int64\[\] before the loop and float32\[\] after one round.*0\.0 for floats",
    returns_in_a_loop: r"test_capture.py:\d+:.*can't be part of a graph: return, yield",
    breaks_a_python_loop: r"can't be part of a graph: break or continue of a loop that Python runs",
    many_entries: r"test_capture.py:\d+: if: the condition must be one boolean, got bool\[3\].*any\(\), all\(\)",
    writes: r"in-place add of a Tensor in a branch or a loop.*afterwards",
    asserts: r"a node has no value while the graph is built \(made at test_capture.py:\d+\)",
    leaks: r"a value made inside a branch, a loop or another trace \(at test_capture.py:\d+\) is used outside",
}


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_what_cannot_be_captured_is_refused_with_its_line(program: Callable[..., Any]) -> None:
    with pytest.raises(TraceError, match=REFUSED[program]):
        function(program)(Tensor([1.0, 2.0, 3.0]))


def test_without_capture_an_if_is_refused() -> None:
    with pytest.raises(TraceError, match=r"traced as it stands, because capture is off"):
        function(branch, capture=False)(Tensor([1.0, 2.0, 3.0, 4.0]))


def test_code_without_a_source_is_traced_as_it_stands() -> None:
    names: dict[str, Any] = {}
    exec("def f(x, up):\n    return x + 1 if up else x", names)
    assert function(names["f"])(Tensor([1.0]), True).tolist() == [2.0]
    exec("def f(x):\n    return x + 1 if x.sum() > 0 else x", names)
    with pytest.raises(TraceError, match="its source can't be read"):
        function(names["f"])(Tensor([1.0]))


def test_the_rewritten_source_can_be_looked_at() -> None:
    text = rewritten(without_else)
    assert "choose(__called__(x.sum)() > 0, _part_1, _part_2" in text
    assert "return __called__(x.sum)()" in rewritten(lambda x: x.sum())
    with pytest.raises(ValueError, match="'len' stays as it is: it is no Python function"):
        rewritten(len)
