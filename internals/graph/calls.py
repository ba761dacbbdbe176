"""Whether a node that was read from a file is one that could have been made: inputs and attributes that its op takes.

Nodes that code makes need no such check, since Python binds the arguments of a row. A file is believed nothing.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from internals.graph.function import Function
from internals.graph.gradients import GRADIENT
from internals.graph.graph import APPLY, ASSIGN, ASSIGN_ADD, CONSTANT, READ, VARIABLE
from internals.graph.node import GraphError, Node, spec_text
from internals.ops.spec import Spec
from internals.ops.table import TABLE, Op
from internals.tensor.results import RESULT

LARGEST_VALUE = 2**32
"""Bytes of one value in a model that comes from somewhere else."""

_OF_GRAPHS: dict[str, dict[str, Any]] = {
    "placeholder": {"shape": tuple[int | None, ...], "dtype": np.dtype},
    "constant": {"value": np.ndarray | np.generic},
    "variable": {"initial": np.ndarray | np.generic | Node},
    "gradient": {"index": int, "outputs": int},
    "result": {"index": int},
    "run_seed": {"seed": int},
    "apply": {"optimizer": str, "settings": Mapping[str, Any]},
}
_NUMBERS: dict[str, dict[str, Any]] = {
    "cond": {},
    "call": {},
    "while_loop": {"n": int, "most": int},
    "while_loop_gradient": {"n": int, "most": int, "floating": Sequence[bool]},
    "scan": {"n": int, "m": int},
}
_FUNCTIONS = {
    "cond": ("then", "otherwise"),
    "call": ("function",),
    "while_loop": ("condition", "body"),
    "while_loop_gradient": ("condition", "body"),
    "scan": ("body",),
}


def checked_attrs(op: Op, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a call of a row or of an operation of graphs, with those that were left out.

    Raises
    ------
    GraphError
        The number of inputs, an input that is neither node nor number, an attribute that is missing, unknown or of
        another type.
    """
    least, several = _arity(op)
    if len(inputs) < least or (len(inputs) > least and not several):
        names = ", ".join(op.inputs) or "none"
        raise GraphError(f"{op.name}: takes {least}{' or more' * several} inputs ({names}), got {len(inputs)}.")
    _check_inputs(op.name, inputs)
    nodes = [one for one in inputs if isinstance(one, Node)]
    if inputs and not nodes:
        raise GraphError(f"{op.name}: none of its inputs is a node.")
    _check_attrs(op.name, attrs, _tests(op), op.attrs)
    if op is GRADIENT:
        _check_gradient(inputs, attrs["index"], attrs["outputs"])
    if op in (READ, ASSIGN, ASSIGN_ADD, APPLY):
        _check_variable(op.name, inputs)
    if op is RESULT:
        bundle = inputs[0]
        if not isinstance(bundle, Node) or not isinstance(bundle.dtype, tuple):
            raise GraphError(f"result: {getattr(bundle, 'name', bundle)} has one result, of which none can be picked.")
        if not 0 <= attrs["index"] < len(bundle.dtype):
            raise GraphError(f"result: {bundle.name} has {len(bundle.dtype)} results, none of number {attrs['index']}.")
    elif [one for one in nodes if isinstance(one.dtype, tuple)] and op is not GRADIENT:
        raise GraphError(f"{op.name}: an input has several results; `result` picks one.")
    left_out = {name: value for name, value in op.attrs.items() if name not in attrs}
    return {**attrs, **left_out}


def check_call(kind: str, functions: Mapping[str, Function], numbers: Mapping[str, Any], inputs: Sequence[Any]) -> None:
    """Refuse a branch, a loop or a call whose functions, numbers and inputs do not go together.

    Raises
    ------
    GraphError
    """
    if functions.keys() != set(_FUNCTIONS[kind]):
        raise GraphError(f"{kind}: takes the functions {', '.join(_FUNCTIONS[kind])}, got {', '.join(functions)}.")
    wanted = _NUMBERS[kind]
    tests = {key: (one, _test(one)) for key, one in wanted.items()}
    _check_attrs(kind, numbers, tests, dict.fromkeys(wanted, inspect.Parameter.empty))
    _check_inputs(kind, inputs)
    if any(not isinstance(one, Node) or isinstance(one.dtype, tuple) for one in inputs):
        raise GraphError(f"{kind}: an input is no node of one result.")
    if min((value for value in numbers.values() if type(value) is int), default=0) < 0:
        raise GraphError(f"{kind}: a number is negative: {dict(numbers)}.")
    if kind == "call":
        _check_given(kind, functions["function"], functions["function"].inputs, inputs)
    elif kind == "cond":
        _check_cond(functions["then"], functions["otherwise"], inputs)
    elif kind == "scan":
        _check_scan(functions["body"], numbers["n"], numbers["m"], inputs)
    else:
        _check_while(kind, functions["condition"], functions["body"], numbers, inputs)


class Sizes:
    """How large the values of a graph are at least: at a batch of 1, where a size is open.

    Parameters
    ----------
    largest : int, optional
        Bytes that one value may have.
    """

    def __init__(self, largest: int | None) -> None:
        self.largest = largest
        self._at_one: dict[Node, Any] = {}

    def check(self, node: Node) -> None:
        """Refuse a node of a negative size, or whose result, or image with its padding, is too large.

        Raises
        ------
        GraphError
        """
        if node.op in (CONSTANT, VARIABLE):
            return
        shape = self.at_one(node)
        shapes = list(zip(shape, node.dtype, strict=True)) if isinstance(node.dtype, tuple) else [(shape, node.dtype)]
        if [size for one, _ in shapes for size in one if size < 0]:
            raise GraphError(f"{node.op.name}: the result would have a negative size: {node.shape}.")
        if self.largest is None:
            return
        asked = [math.prod(one) * dtype.itemsize for one, dtype in shapes]
        padding = node.attrs.get("padding", 0) if node.op.name in TABLE else 0
        source = node.inputs[0] if node.inputs else None
        if isinstance(source, Node) and not isinstance(source.dtype, tuple) and len(source.shape) > 2 and padding:
            most = 2 * max([padding] if isinstance(padding, int) else padding)
            asked.append(math.prod(size + most for size in self.at_one(source)[2:]) * source.dtype.itemsize)
        if max(asked, default=0) > self.largest:
            raise GraphError(
                f"{node.op.name}: one value would have {max(asked):,} bytes; more than {self.largest:,} are refused."
            )

    def take(self, node: Node, shape: Any) -> None:
        """Take a node's shape at a batch of 1 to be this, as that of another was that is like it."""
        self._at_one[node] = shape

    def at_one(self, node: Node) -> Any:
        """The shape of a node, or of each of its results, at a batch of 1."""
        if node.is_known:
            return node.shape
        if node not in self._at_one:
            self._at_one[node] = _ones(node.shape)
            if node.op is RESULT:
                self._at_one[node] = self.at_one(node.inputs[0])[node.attrs["index"]]
            elif self.largest is not None and node.inputs and node.op is not GRADIENT:
                given = [Spec(self.at_one(v), v.dtype) if isinstance(v, Node) else v for v in node.inputs]
                try:
                    found = node.op.infer_from(given, node.attrs)
                except (ValueError, TypeError, IndexError, AttributeError):
                    pass  # it may need another batch
                else:
                    self._at_one[node] = tuple(one.shape for one in found) if isinstance(found, tuple) else found.shape
        return self._at_one[node]


def _ones(shape: Any) -> Any:
    return tuple([1 if size is None else _ones(size) if isinstance(size, tuple) else size for size in shape])


Tests = Mapping[str, tuple[Any, Callable[[Any], bool]]]
"""By the names of attributes: a type, and what tells whether a value is of it."""

_INPUTS = (Node, bool, int, float, np.number, np.bool)


def _check_inputs(name: str, inputs: Sequence[Any]) -> None:
    for position, value in enumerate(inputs):
        if not isinstance(value, _INPUTS):
            raise GraphError(f"{name}: input {position} is {_told(value)}; expected a node or a number.")


def _check_attrs(name: str, attrs: Mapping[str, Any], tests: Tests, defaults: Mapping[str, Any]) -> None:
    if attrs.keys() - defaults.keys():
        unknown = ", ".join(sorted(attrs.keys() - defaults.keys()))
        raise GraphError(f"{name}: unknown attribute {unknown}; it takes {', '.join(defaults) or 'none'}.")
    missing = [key for key, value in defaults.items() if value is inspect.Parameter.empty and key not in attrs]
    if missing:
        raise GraphError(f"{name}: attribute {', '.join(missing)} is missing.")
    for key, value in attrs.items():
        if key in tests and not tests[key][1](value):
            wanted = tests[key][0]
            expected = getattr(wanted, "__name__", str(wanted).replace("collections.abc.", ""))
            raise GraphError(f"{name}: attribute {key} is {_told(value)}; expected {expected}.")


@functools.cache
def _arity(op: Op) -> tuple[int, bool]:
    """How many inputs an op takes at least, and whether it takes more."""
    if op.variadic:
        return 1, True
    parameters = inspect.signature(op.infer).parameters.values()
    more = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return op.arity - more, more


@functools.cache
def _tests(op: Op) -> Tests:
    """The types of a row's attributes, as its `infer` has them, each with what tells whether a value is of it."""
    wanted = _OF_GRAPHS.get(op.name) or typing.get_type_hints(inspect.unwrap(op.infer))
    return {key: (one, _test(one)) for key, one in wanted.items()}


@functools.cache
def _test(wanted: Any) -> Callable[[Any], bool]:
    """Tells of a value whether it is of a type, as far as types of attributes go; numbers of NumPy are numbers."""
    if wanted is Any:
        return lambda value: True
    origin, parts = typing.get_origin(wanted), tuple(map(_test, typing.get_args(wanted)))
    if origin in (typing.Union, types.UnionType):
        return lambda value: any(fits(value) for fits in parts)
    if origin is not None and issubclass(origin, Mapping):
        return lambda value: isinstance(value, dict) and all(map(parts[1], value.values()))
    if origin is not None and issubclass(origin, Sequence):
        return lambda value: isinstance(value, (tuple, list)) and all(map(parts[0], value))
    kinds, but = {
        bool: ((bool, np.bool), ()),
        int: ((int, np.integer), (bool,)),
        float: ((int, float, np.number), (bool,)),
    }.get(wanted, (wanted, ()))
    return lambda value: isinstance(value, kinds) and not isinstance(value, but)


def _told(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text[:40]}{'...' * (len(text) > 40)}"


def _check_variable(name: str, inputs: Sequence[Any]) -> None:
    kept = inputs[:1] if name != "apply" else [inputs[0], *inputs[3:]]
    for one in kept:
        if not isinstance(one, Node) or one.op is not VARIABLE:
            raise GraphError(f"{name}: {getattr(one, 'name', one)} is no variable, which it reads or changes.")
    if name == "apply" and inputs[0].dtype.kind in "biu":
        raise GraphError(
            f"apply: the variable {inputs[0].name} is {inputs[0].dtype}; only floating numbers are trained."
        )
    for one in inputs[1:2]:
        if not isinstance(one, Node) or (one.shape, one.dtype) != (inputs[0].shape, inputs[0].dtype):
            raise GraphError(f"{name}: {getattr(one, 'name', one)} does not fit the variable {inputs[0].name}.")


def _check_gradient(inputs: Sequence[Any], index: int, outputs: int) -> None:
    sources = len(inputs) - 2 * outputs
    if outputs < 1 or not 0 <= index < sources or not all(isinstance(one, Node) for one in inputs):
        raise GraphError(
            f"gradient: of {outputs} outputs by input {index}, from {len(inputs)} nodes; expected the outputs, as many "
            "starts, and the inputs."
        )


# Functions


def _check_given(kind: str, function: Function, nodes: Sequence[Node], values: Sequence[Node]) -> None:
    if len(nodes) != len(values):
        raise GraphError(f"{kind}: {function.name} takes {len(nodes)} inputs, got {len(values)}.")
    for position, (node, value) in enumerate(zip(nodes, values, strict=True)):
        if node.dtype != value.dtype or not _meets(node.shape, value.shape):
            raise GraphError(f"{kind}: input {position} of {function.name} is {_spec(node)}, but got {_spec(value)}.")


def _check_alike(kind: str, what: str, one: Sequence[Node], two: Sequence[Node]) -> None:
    alike = len(one) == len(two) and all(
        a.dtype == b.dtype and _meets(a.shape, b.shape) for a, b in zip(one, two, strict=True)
    )
    if not alike:
        kinds = [", ".join(map(_spec, nodes)) or "nothing" for nodes in (one, two)]
        raise GraphError(f"{kind}: {what} differ: {kinds[0]} and {kinds[1]}.")


def _meets(one: Sequence[Any], two: Sequence[Any]) -> bool:
    return len(one) == len(two) and all(a is None or b is None or a == b for a, b in zip(one, two, strict=True))


def _spec(node: Node) -> str:
    return spec_text(node.shape, node.dtype)


def _check_truth(kind: str, node: Node) -> None:
    if node.dtype != np.bool_ or node.shape not in ((), (1,)):
        raise GraphError(f"{kind}: the condition must be one boolean, got {_spec(node)}.")


def _check_cond(then: Function, otherwise: Function, inputs: Sequence[Node]) -> None:
    split = 1 + len(then.inputs)
    if len(inputs) != split + len(otherwise.inputs):
        raise GraphError(
            f"cond: takes a condition and the inputs of both branches, {split + len(otherwise.inputs)}, got "
            f"{len(inputs)}."
        )
    _check_truth("cond", inputs[0])
    _check_given("cond", then, then.inputs, inputs[1:split])
    _check_given("cond", otherwise, otherwise.inputs, inputs[split:])
    _check_alike("cond", "the branches", then.outputs, otherwise.outputs)


def _check_while(kind: str, test: Function, step: Function, numbers: Mapping[str, Any], inputs: Sequence[Node]) -> None:
    n, asked, used = numbers["n"], len(test.captures), len(step.captures)
    floating = [one for one in step.outputs if one.dtype.kind not in "biu"]
    count = n + asked + used
    starts = len(floating) if kind == "while_loop_gradient" else 0
    if (len(test.inputs), len(step.inputs), len(inputs)) != (n + asked, n + used, count + starts):
        raise GraphError(
            f"{kind}: its state has {n} parts, and condition and body use {asked} and {used} values more; got "
            f"functions of {len(test.inputs)} and {len(step.inputs)} inputs, and {len(inputs)} inputs."
        )
    if starts and len(numbers["floating"]) != count:
        raise GraphError(f"{kind}: of {count} inputs it says of {len(numbers['floating'])} whether they are floating.")
    if len(test.outputs) != 1:
        raise GraphError(f"{kind}: the condition has {len(test.outputs)} outputs; expected one boolean.")
    _check_truth(kind, test.outputs[0])
    _check_given(kind, test, test.inputs, inputs[: n + asked])
    _check_given(kind, step, step.inputs, [*inputs[:n], *inputs[n + asked : count]])
    _check_alike(kind, "the state before and after the body", step.inputs[:n], step.outputs)


def _check_scan(step: Function, n: int, m: int, inputs: Sequence[Node]) -> None:
    used = len(step.captures)
    if m < 1 or not len(step.inputs) == len(inputs) == n + m + used or len(step.outputs) < n:
        raise GraphError(
            f"scan: carries {n}, reads rows of {m} and uses {used} values more; got {len(inputs)} inputs, and a body "
            f"of {len(step.inputs)} inputs and {len(step.outputs)} outputs."
        )
    rows = inputs[n : n + m]
    if any(not row.shape for row in rows) or len({row.shape[0] for row in rows}) > 1:
        raise GraphError(f"scan: rows of {', '.join(map(_spec, rows))} have no one length.")
    for position, (node, row) in enumerate(zip(step.inputs[n:], rows, strict=False)):
        if node.dtype != row.dtype or not _meets(node.shape, row.shape[1:]):
            raise GraphError(f"scan: row {position} of its body is {_spec(node)}, but the rows are {_spec(row)}.")
    _check_given("scan", step, [*step.inputs[:n], *step.inputs[n + m :]], [*inputs[:n], *inputs[n + m :]])
    _check_alike("scan", "the carry before and after the body", step.inputs[:n], step.outputs[:n])
