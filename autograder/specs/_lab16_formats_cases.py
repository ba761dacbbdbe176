"""On what ``lab16_formats`` is tried: calls and graphs that are always tried, and random ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.spec import Inputs

Node = dict[str, Any]

# --- signature ------------------------------------------------------------------------------------


def _call(rng: np.random.Generator, signature: list[list[Any]], **given: Any) -> Inputs:
    arrays = {}
    for name, (shape, dtype) in given.items():
        arrays[name] = (10 * rng.standard_normal(shape)).astype(dtype)
    return {"signature": signature, "given": arrays}


def signature_edges(rng: np.random.Generator) -> list[Inputs]:
    x = ["x", ["batch", 3], "float32"]
    y = ["y", ["batch"], "int64"]
    z = ["z", ["time", "batch", "time"], "float32"]
    n = int(rng.integers(2, 9))
    f, i, d = "float32", "int64", "float64"
    return [
        _call(rng, []),
        _call(rng, [x], x=((n, 3), f)),
        _call(rng, [x], x=((0, 3), f)),
        _call(rng, [x], x=((3, 3), f)),
        _call(rng, [x, y], x=((n, 3), f), y=((n,), i)),
        _call(rng, [x, y], x=((n, 3), f), y=((n + 1,), i)),
        _call(rng, [x, y], y=((n,), i), x=((n, 3), f)),
        _call(rng, [x, y], x=((1, 3), f), y=((n,), i)),
        _call(rng, [x, y], x=((0, 3), f), y=((n,), i)),
        _call(rng, [z], z=((n, 4, n), f)),
        _call(rng, [z], z=((n, 4, n + 1), f)),
        _call(rng, [x], x=((n, 4), f)),
        _call(rng, [x], x=((n,), f)),
        _call(rng, [x], x=((n, 3, 1), f)),
        _call(rng, [x], x=((n, 3), d)),
        _call(rng, [x], x=((n, 3), i)),
        _call(rng, [x, y], x=((n, 3), f)),
        _call(rng, [x], x=((n, 3), f), extra=((), f)),
        _call(rng, [["s", [], "float32"]], s=((), f)),
        _call(rng, [["s", [], "float32"]], s=((1,), f)),
        _call(rng, [["k", [1, 2], "int64"]], k=((1, 2), i)),
        # What NumPy would let pass: a type of the same size, a smaller type, an array that broadcasts.
        _call(rng, [x], x=((n, 3), "int32")),
        _call(rng, [["r", ["batch"], d]], r=((n,), f)),
        _call(rng, [x, y], x=((n, 3), f), y=((1,), i)),
        _call(rng, [x], x=((n, 2), f)),
    ]


def signature_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        sizes = {"batch": draw(st.integers(0, 4)), "time": draw(st.integers(0, 4))}
        signature, given = [], {}
        for name in draw(st.permutations(["a", "b", "c"]))[: draw(st.integers(1, 3))]:
            shape = draw(st.lists(st.sampled_from(["batch", "time", 1, 2]), max_size=3))
            dtype = draw(st.sampled_from(["float32", "int64"]))
            signature.append([name, shape, dtype])
            given[name] = tuple(sizes.get(size, size) for size in shape), dtype
        if draw(st.booleans()):
            name = draw(st.sampled_from(sorted(given)))
            shape, dtype = given[name]
            axis = draw(st.integers(0, len(shape)))
            longer = (*shape[:axis], draw(st.integers(0, 4)), *shape[axis + 1 :])
            given[name] = longer, draw(st.sampled_from([dtype, dtype, "float64"]))
        return _call(rng, signature, **given)

    return cases()


# --- freeze ---------------------------------------------------------------------------------------


def node(name: str, op: str, *inputs: str, **attrs: Any) -> Node:
    return {"name": name, "op": op, "inputs": list(inputs), "attrs": attrs}


def _network(rng: np.random.Generator, *extra: Node, outputs: tuple[str, ...] = ("y",)) -> Inputs:
    nodes = [
        node("x", "placeholder", shape=["batch", 3]),
        node("t", "placeholder", shape=["batch", 2]),
        node("w", "variable"),
        node("b", "variable"),
        node("step", "variable"),
        node("h", "matmul", "x", "w"),
        node("y", "add", "h", "b"),
        node("d", "sub", "y", "t"),
        node("loss", "mean", "d", axis=[0, 1]),
        node("dw", "gradient", "loss", "w"),
        node("w1", "assign", "w", "dw"),
        *extra,
    ]
    values = {"w": rng.standard_normal((3, 2)), "b": rng.standard_normal(2), "step": rng.standard_normal(())}
    return {"nodes": nodes, "values": values, "outputs": list(outputs)}


def freeze_edges(rng: np.random.Generator) -> list[Inputs]:
    w2 = node("v", "mul", "w", "w")
    return [
        _network(rng),
        _network(rng, outputs=("loss",)),
        _network(rng, outputs=("h", "y")),
        _network(rng, outputs=("y", "h", "y")),
        _network(rng, outputs=("w",)),
        _network(rng, outputs=("x",)),
        _network(rng, outputs=("dw",)),
        _network(rng, outputs=("w1",)),
        _network(rng, node("z", "add", "y", "w1"), outputs=("z",)),
        _network(rng, w2, node("z", "matmul", "x", "v"), outputs=("z", "y")),
        _network(rng, node("c", "constant", value=rng.standard_normal(2)), node("z", "add", "y", "c"), outputs=("z",)),
        _network(rng, node("z", "add", "y", "y"), outputs=("z",)),
        _network(rng, node("z", "sub", "b", "h", axis=1), outputs=("z",)),
        {"nodes": [node("v", "variable")], "values": {"v": rng.standard_normal((0, 3))}, "outputs": ["v"]},
        {"nodes": [node("v", "variable"), node("u", "variable")], "values": {"v": rng.standard_normal(3),
         "u": rng.standard_normal(3)}, "outputs": ["u"]},
    ]  # fmt: skip


def freeze_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        nodes: list[Node] = []
        values: dict[str, np.ndarray] = {}
        for i in range(draw(st.integers(1, 9))):
            name = f"n{i}"
            kind = (
                draw(st.sampled_from(["placeholder", "variable", "add", "add", "mul", "assign"])) if i else "variable"
            )
            if kind == "placeholder":
                nodes.append(node(name, kind, shape=["batch"]))
            elif kind == "variable":
                nodes.append(node(name, kind))
                values[name] = rng.standard_normal(draw(st.integers(0, 3)))
            else:
                before = st.sampled_from([one["name"] for one in nodes])
                held = st.sampled_from([one["name"] for one in nodes if one["op"] == "variable"])
                nodes.append(node(name, kind, draw(held if kind == "assign" else before), draw(before)))
        outputs = draw(st.lists(st.sampled_from([one["name"] for one in nodes]), min_size=1, max_size=3))
        return {"nodes": nodes, "values": values, "outputs": outputs}

    return cases()


# --- sizes ----------------------------------------------------------------------------------------


def _step(op: str, *inputs: int, **attrs: Any) -> Node:
    return {"op": op, "inputs": list(inputs), "attrs": attrs}


def _records(batches: tuple[int, int], make: Callable[[int], list[Node]]) -> Inputs:
    return {"first": make(batches[0]), "second": make(batches[1]), "batches": list(batches)}


def sizes_edges(rng: np.random.Generator) -> list[Inputs]:
    a, b = (int(one) for one in rng.permutation([3, 5, 7])[:2])
    both = a, b

    def program(n: int) -> list[Node]:
        return [
            _step("placeholder", shape=[n, 4, 3]), _step("reshape", 0, shape=[n, 12]),
            _step("softmax", 1, axis=1), _step("slice", 2, start=0, stop=6), _step("zeros", shape=[n, 1]),
            _step("concat", 2, 4, axis=1),
        ]  # fmt: skip

    return [
        _records(both, lambda n: []),
        _records(both, program),
        _records(both, lambda n: [_step("placeholder", shape=[n])]),
        _records(both, lambda n: [_step("placeholder", shape=[n, n])]),
        _records(both, lambda n: [_step("placeholder", shape=[a])]),
        _records(both, lambda n: [_step("placeholder", shape=[n, a, b])]),
        _records(both, lambda n: [_step("placeholder", shape=[n, 3]), _step("reshape", 0, shape=[3 * n])]),
        _records(both, lambda n: [_step("placeholder", shape=[n, 3]), _step("slice", 0, start=0, stop=n - 1)]),
        _records(both, lambda n: [_step("placeholder", shape=[n]), _step("mul", 0, by=1.5)]),
        _records(both, lambda n: [_step("placeholder", shape=[n]), _step("mul", 0, by=1 / n)]),
        _records(both, lambda n: [_step("placeholder", shape=[n]), _step("relu" if n == a else "tanh", 0)]),
        _records(both, lambda n: [_step("placeholder", shape=[n]), *[_step("relu", 0)] * (n != a)]),
        _records(both, lambda n: [_step("placeholder", shape=[n]), _step("relu", 0), _step("add", 0, n == a)]),
        _records(both, lambda n: [_step("placeholder", shape=[n] if n == a else [n, 1])]),
        _records(both, lambda n: [_step("placeholder", shape=[n]), _step("sum", 0, keepdims=True, axis=0)]),
        _records(both, lambda n: [_step("placeholder", shape=[n]), _step("sum", 0, **({"axis": 0} if n == a else {}))]),
        _records(both, lambda n: [_step("placeholder", shape=[n]), _step("sum", 0, **({"axis": 0} if n == b else {}))]),
        _records(both, lambda n: [_step("placeholder", shape=[n]), _step("sum", 0, keepdims=True if n == a else 1)]),
        _records(
            both, lambda n: [_step("placeholder", shape=[n]), _step("relu", 0), _step("sub", int(n == a), int(n == b))]
        ),
        _records(both, lambda n: [_step("placeholder", shape=[n]), _step("repeat", 0, count=n)]),
        _records(both, lambda n: [_step("placeholder", shape=[n]), _step("roll", 0, shift=-n)]),
        _records(both, lambda n: [_step("placeholder", shape=[n]), _step("zeros", shape=[a + b - n])]),
        _records(
            (1, 2), lambda n: [_step("placeholder", shape=[n]), _step("relu", 0), _step("relu", 1), _step("add", 0, n)]
        ),
        _records((1, 0), lambda n: [_step("placeholder", shape=[n]), _step("sum", 0, keepdims=n == 1)]),
        _records((b, a), program),
    ]


def sizes_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        a = draw(st.integers(2, 7))
        b = draw(st.integers(2, 7).filter(lambda n: n != a))
        entry = st.sampled_from(["n", "n", 1, 2, a, b, "2n"])
        steps: list[tuple[str, list[int], list[Any]]] = [
            ("placeholder", [], draw(st.lists(entry, min_size=1, max_size=3)))
        ]
        for i in range(draw(st.integers(0, 4))):
            steps.append((draw(st.sampled_from(["reshape", "slice"])), [draw(st.integers(0, i))],
                          draw(st.lists(entry, min_size=1, max_size=3))))  # fmt: skip

        def program(n: int) -> list[Node]:
            sizes = {"n": n, "2n": 2 * n}
            return [_step(op, *inputs, shape=[sizes.get(one, one) for one in shape]) for op, inputs, shape in steps]

        return _records((a, b), program)

    return cases()


# --- export ---------------------------------------------------------------------------------------


class _Writer:
    """A random network of the five operations, with the shapes it has for a batch."""

    def __init__(self, rng: np.random.Generator, *shape: int) -> None:
        self.rng, self.shape = rng, list(shape)
        self.nodes: list[Node] = [node("x", "placeholder", shape=["batch", *shape[1:]])]
        self.weights: dict[str, np.ndarray] = {}
        self.last = "x"

    def _array(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = self.rng.standard_normal(shape).astype(np.float32)
        self.nodes.append(node(name, "variable"))
        return name

    def _add(self, op: str, *more: str, **attrs: Any) -> _Writer:
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(node(name, op, self.last, *more, **attrs))
        self.last = name
        return self

    def linear(self, units: int) -> _Writer:
        weight, bias = self._array(self.shape[-1], units), self._array(units)
        self.shape[-1] = units
        return self._add("linear", weight, bias)

    def relu(self) -> _Writer:
        return self._add("relu")

    def conv(self, channels: int, window: tuple[int, int], stride: int, padding: int) -> _Writer:
        weight = self._array(channels, self.shape[1], *window)
        sizes = [(n + 2 * padding - k) // stride + 1 for n, k in zip(self.shape[2:], window, strict=True)]
        self.shape = [self.shape[0], channels, *sizes]
        return self._add("conv2d", weight, stride=stride, padding=padding)

    def pool(self, window: int, stride: int) -> _Writer:
        self.shape[2:] = [(n - window) // stride + 1 for n in self.shape[2:]]
        return self._add("max_pool2d", window=window, stride=stride)

    def flatten(self) -> _Writer:
        size = int(np.prod(self.shape[1:]))
        self.shape = [self.shape[0], size]
        return self._add("reshape", shape=[-1, size])

    def reshape(self, *shape: int) -> _Writer:
        self.shape = [self.shape[0], *shape]
        return self._add("reshape", shape=[-1, *shape])

    def inputs(self, batch: int) -> Inputs:
        first = self.nodes[0]["attrs"]["shape"]
        x = self.rng.standard_normal((batch, *first[1:])).astype(np.float32)
        return {"nodes": self.nodes, "weights": self.weights, "x": x}


def export_edges(rng: np.random.Generator) -> list[Inputs]:
    def new(*shape: int) -> _Writer:
        return _Writer(rng, *shape)

    shared = new(1, 3).linear(3)
    shared.nodes.append(node("again", "linear", shared.last, "w0", "w1"))
    return [
        new(1, 3).relu().inputs(4),
        new(1, 3).linear(2).inputs(4),
        new(1, 1).linear(1).inputs(1),
        new(1, 3).linear(3).inputs(3),
        new(1, 3).linear(4).relu().linear(2).inputs(5),
        new(1, 2, 5, 4).conv(3, (3, 3), 1, 0).inputs(2),
        new(1, 2, 5, 4).conv(3, (3, 2), 1, 1).inputs(2),
        new(1, 2, 7, 6).conv(3, (2, 3), 2, 1).inputs(2),
        new(1, 1, 4, 4).conv(1, (1, 1), 1, 0).inputs(1),
        new(1, 2, 6, 4).pool(2, 2).inputs(3),
        new(1, 2, 6, 5).pool(3, 1).inputs(2),
        new(1, 2, 3, 4).flatten().inputs(3),
        new(1, 12).reshape(3, 4).inputs(2),
        new(1, 16).reshape(1, 4, 4).conv(2, (2, 2), 2, 0).flatten().inputs(2),
        new(1, 12).reshape(3, 2, 2).conv(2, (2, 2), 1, 1).relu().inputs(2),
        new(1, 1, 8, 8).conv(4, (3, 3), 1, 1).relu().pool(2, 2).flatten().linear(10).inputs(3),
        shared.inputs(3),
    ]


def export_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        writer = _Writer(rng, 1, draw(st.integers(1, 2)), draw(st.integers(4, 6)), draw(st.integers(4, 6)))
        for kind in draw(st.lists(st.sampled_from(["conv", "relu", "pool"]), max_size=3)):
            if kind == "conv":
                window = draw(st.integers(1, 2)), draw(st.integers(1, 3))
                writer.conv(draw(st.integers(1, 3)), window, draw(st.integers(1, 2)), draw(st.integers(1, 2)))
            elif kind == "relu":
                writer.relu()
            elif min(writer.shape[2:]) >= 2:
                writer.pool(2, draw(st.integers(1, 2)))
        if draw(st.booleans()):
            writer.flatten().linear(draw(st.integers(1, 4)))
        elif writer.last == "x":
            writer.relu()
        return writer.inputs(draw(st.integers(1, 3)))

    return cases()
