"""Who knows the answers of ``lab07_tracing``: torch.fx and tf.function trace the same functions; so do we."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.specs._lab07_tracing_programs import KERNELS, in_tensorflow, in_torch, needed, run

# --- record: the operations in their order, and the value -------------------------------------------


def _function(text: str) -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(text, names)
    found: Callable[..., Any] = names["f"]
    return found


TORCH_NAMES = {"truediv": "div", "neg": "neg"}


def record_torch(torch: Any, text: str, n: int, arrays: list[np.ndarray]) -> list[Any]:
    """By torch.fx, which runs the function on proxies."""
    import torch.fx as fx

    graph = fx.symbolic_trace(_function(text)).graph
    ops = []
    for node in graph.nodes:
        if node.op in ("call_function", "call_method"):
            name = node.target if isinstance(node.target, str) else node.target.__name__
            ops.append(TORCH_NAMES.get(name, name))
    return [ops, _function(text)(*[torch.tensor(array) for array in arrays]).numpy()]


TF_NAMES = {
    "AddV2": "add", "Sub": "sub", "Mul": "mul", "RealDiv": "div", "MatMul": "matmul", "Neg": "neg", "Exp": "exp",
    "Tanh": "tanh", "Relu": "relu", "Sum": "sum",
}  # fmt: skip


class _Value:
    """A TensorFlow tensor with the methods that the functions call."""

    def __init__(self, tf: Any, tensor: Any) -> None:
        self.tf, self.tensor = tf, tensor

    def _with(self, kernel: Callable[..., Any], *others: Any) -> _Value:
        return _Value(self.tf, kernel(*[one.tensor if isinstance(one, _Value) else one for one in others]))

    def __add__(self, other: Any) -> _Value:
        return self._with(lambda a, b: a + b, self, other)

    def __radd__(self, other: Any) -> _Value:
        return self._with(lambda a, b: a + b, other, self)

    def __sub__(self, other: Any) -> _Value:
        return self._with(lambda a, b: a - b, self, other)

    def __rsub__(self, other: Any) -> _Value:
        return self._with(lambda a, b: a - b, other, self)

    def __mul__(self, other: Any) -> _Value:
        return self._with(lambda a, b: a * b, self, other)

    def __rmul__(self, other: Any) -> _Value:
        return self._with(lambda a, b: a * b, other, self)

    def __truediv__(self, other: Any) -> _Value:
        return self._with(lambda a, b: a / b, self, other)

    def __rtruediv__(self, other: Any) -> _Value:
        return self._with(lambda a, b: a / b, other, self)

    def __neg__(self) -> _Value:
        return self._with(lambda a: -a, self)

    def tanh(self) -> _Value:
        return self._with(self.tf.tanh, self)

    def exp(self) -> _Value:
        return self._with(self.tf.exp, self)

    def relu(self) -> _Value:
        return self._with(self.tf.nn.relu, self)

    def sum(self) -> _Value:
        return self._with(self.tf.reduce_sum, self)


def record_tensorflow(tf: Any, text: str, n: int, arrays: list[np.ndarray]) -> list[Any]:
    """By tf.function, which runs the function while a graph is built."""
    f = _function(text)

    def whole(*tensors: Any) -> Any:
        return f(*[_Value(tf, tensor) for tensor in tensors]).tensor

    traced = tf.function(whole, autograph=False)
    concrete = traced.get_concrete_function(*[tf.TensorSpec(array.shape, array.dtype) for array in arrays])
    ops = [TF_NAMES[op.type] for op in concrete.graph.get_operations() if op.type in TF_NAMES]
    return [ops, traced(*[tf.constant(array) for array in arrays]).numpy()]


# --- programs ------------------------------------------------------------------------------------------


def replay_numpy(np_: Any, program: list[Any], arrays: list[np.ndarray]) -> list[Any]:
    if len(arrays) != program[0]:
        return ["ValueError", []]
    return [np.asarray(run(program, arrays)), [op for op, _ in program[1]]]


def replay_torch(torch: Any, program: list[Any], arrays: list[np.ndarray]) -> list[Any]:
    if len(arrays) != program[0]:
        return ["ValueError", []]
    result = run(program, [torch.tensor(np.array(array)) for array in arrays], in_torch(torch))
    return [result.numpy(), [op for op, _ in program[1]]]


def replay_tensorflow(tf: Any, program: list[Any], arrays: list[np.ndarray]) -> list[Any]:
    if len(arrays) != program[0]:
        return ["ValueError", []]
    result = run(program, [tf.constant(array) for array in arrays], in_tensorflow(tf))
    return [result.numpy(), [op for op, _ in program[1]]]


# --- signature -----------------------------------------------------------------------------------------


def _described(value: Any) -> Any:
    """A Python value as text, with its type: tf.function takes 1, 1.0 and True for one value, and 0.0 and -0.0."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, list):
        return [_described(part) for part in value]
    return f"{type(value).__name__} {value!r}"


def signature_tensorflow(tf: Any, calls: list[dict[str, Any]]) -> list[bool]:
    """Whether tf.function traces; what it would capture in silence is handed to it as an argument."""
    count = [0]

    def body(args: Any, state: Any) -> Any:
        count[0] += 1
        return tf.constant(0)

    traced, found = tf.function(body, autograph=False), []
    for call in calls:
        before = count[0]
        given = [
            [tf.constant(one) if isinstance(one, np.ndarray) else _described(one) for one in values]
            for values in (call["args"], [call["state"][name] for name in sorted(call["state"])])
        ]
        traced([len(given[0]), *given[0]], [sorted(call["state"]), *given[1]])
        found.append(count[0] > before)
    return found


def signature_numpy(np_: Any, calls: list[dict[str, Any]]) -> list[bool]:
    """By comparing each call with those before."""
    found: list[bool] = []
    for i, call in enumerate(calls):
        found.append(not any(_alike(call, before) for before in calls[:i]))
    return found


def _alike(one: Any, two: Any) -> bool:
    if type(one) is not type(two):
        return False
    if isinstance(one, np.ndarray):
        return one.shape == two.shape and one.dtype == two.dtype
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(_alike(one[name], two[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(_alike, one, two))
    if isinstance(one, float):
        return (one == two and math.copysign(1, one) == math.copysign(1, two)) or (one != one and two != two)
    return bool(one == two)


# --- prune: how many steps stay, and the value ----------------------------------------------------------


def prune_numpy(np_: Any, program: list[Any], arrays: list[np.ndarray]) -> list[Any]:
    return [len(needed(program)), np.asarray(run(program, arrays))]


def prune_torch(torch: Any, program: list[Any], arrays: list[np.ndarray]) -> list[Any]:
    """By torch.fx's own elimination of dead code."""
    import torch.fx as fx

    kernels, graph = in_torch(torch), fx.Graph()
    slots = [graph.placeholder(f"x{i}") for i in range(program[0])]
    for op, operands in program[1]:
        given = tuple(slots[one] if isinstance(one, int) else one for one in operands)
        slots.append(graph.call_function(kernels[op], given))
    graph.output(slots[program[2]])
    graph.eliminate_dead_code()
    kept = sum(node.op == "call_function" for node in graph.nodes)
    return [kept, run(program, [torch.tensor(array) for array in arrays], kernels).numpy()]


def prune_tensorflow(tf: Any, program: list[Any], arrays: list[np.ndarray]) -> list[Any]:
    """By TensorFlow's extraction of the part of a graph that an output needs."""
    kernels = in_tensorflow(tf)
    with tf.Graph().as_default() as graph:
        slots = [tf.compat.v1.placeholder(array.dtype, array.shape) for array in arrays]
        for op, operands in program[1]:
            slots.append(kernels[op](*[slots[one] if isinstance(one, int) else one for one in operands]))
        result = tf.identity(slots[program[2]], name="result")
        part = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), ["result"])
        names = {slot.op.name for slot in slots[program[0] :]}
        kept = sum(node.name in names for node in part.node)
        with tf.compat.v1.Session(graph=graph) as session:
            value = session.run(result, dict(zip(slots[: program[0]], arrays, strict=True)))
    return [kept, value]


# --- merge ------------------------------------------------------------------------------------------------


def merge_numpy(np_: Any, programs: list[Any], arrays: list[np.ndarray]) -> np.ndarray:
    test, then, otherwise = programs
    return np.asarray(run(then if run(test, arrays, KERNELS) else otherwise, arrays))


def merge_torch(torch: Any, programs: list[Any], arrays: list[np.ndarray]) -> np.ndarray:
    kernels, tensors = in_torch(torch), [torch.tensor(array) for array in arrays]
    test, then, otherwise = (run(program, tensors, kernels) for program in programs)
    found: np.ndarray = torch.where(test, then, otherwise).numpy()
    return found


def merge_tensorflow(tf: Any, programs: list[Any], arrays: list[np.ndarray]) -> np.ndarray:
    kernels, tensors = in_tensorflow(tf), [tf.constant(array) for array in arrays]
    test, then, otherwise = programs
    chosen = tf.cond(
        run(test, tensors, kernels), lambda: run(then, tensors, kernels), lambda: run(otherwise, tensors, kernels)
    )
    found: np.ndarray = chosen.numpy()
    return found
