"""Nodes like one that was read before are taken without its checks: with them, the same would come."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from internals import ops
from internals.graph import Graph, GraphError, cond
from internals.graph.alike import Alike
from internals.graph.calls import LARGEST_VALUE
from internals.graph.graphdef import Reader, written
from internals.graph.records import numbered

Record = dict[str, Any]
LAYERS = 2


def layers() -> tuple[Record, dict[str, np.ndarray]]:
    """A model of layers that are alike, of an open batch, and its arrays."""
    rng, graph, kept = np.random.default_rng(), Graph(), {}

    def array(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    with graph:
        x = graph.placeholder((None, 6), name="x")
        mask = graph.placeholder((None, 6), "bool", name="mask")
        for i in range(LAYERS):
            weight, bias = graph.variable(array(6, 6), name=f"w{i}"), graph.variable(array(6), name=f"b{i}")
            y = ops.leaky_relu(ops.linear(x, weight, bias), slope=0.1)
            y = ops.transpose(ops.reshape(y, shape=(-1, 2, 3)), (0, 2, 1))[:, :, 0:2] * 2 + 1.5
            y = ops.where(mask, x, ops.concat([ops.reshape(y, shape=(-1, 6)), x], axis=1)[:, 3:9])
            first, _ = ops.topk(y, 3, axis=1)
            x = y - first.sum(axis=1, keepdims=True) * graph.constant(array(6))
        cond(x.sum() > 0, lambda: x * 2 * 2, lambda: x - 1)

    def put(one: np.ndarray) -> str:
        name = f"array_{len(kept)}"
        kept[name] = one
        return name

    return written(graph, put), kept


MODEL, KEPT = layers()


def described(whole: Record, kept: Mapping[str, np.ndarray] = KEPT, *, in_order: bool = False) -> Any:
    """The graph that is read, as data with its arrays by their ids, or the error."""
    whole = copy.deepcopy(whole)
    nodes, functions = numbered(whole)
    reader = Reader(functions, kept, largest=LARGEST_VALUE, deepest=64)
    try:
        graph = reader._ordered(nodes) if in_order else reader.graph(nodes)
    except (GraphError, TypeError, AttributeError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    assert list(graph.by_name.values()) == graph.nodes
    assert [node.order for node in graph.nodes] == list(range(len(graph)))
    kinds = [sorted((key, type(value)) for key, value in node.attrs.items()) for node in graph.nodes]
    return written(graph, lambda one: str(id(one))), [node.where for node in graph.nodes], kinds


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """What is read when each node is checked by itself."""

    def read(*given: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(Alike, "make", lambda self, graph, records, start, there: start)
            return described(*given)

    return read


def test_nodes_that_are_alike_are_those_that_checks_give(
    checked: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = checked(MODEL)
    assert described(MODEL, in_order=True) == expected
    made: list[str] = []
    check = Reader._checked

    def counted(self: Reader, graph: Graph, record: Record, inputs: Any) -> Any:
        made.append(record["name"])
        return check(self, graph, record, inputs)

    monkeypatch.setattr(Reader, "_checked", counted)
    assert described(MODEL) == expected
    assert {"x", "linear", "where"} <= set(made)
    assert not [name for name in made if name.startswith(("linear_", "leaky_relu_", "where_", "w0", "b"))]


def test_nodes_have_attributes_of_their_own() -> None:
    nodes, functions = numbered(copy.deepcopy(MODEL))
    graph = Reader(functions, KEPT).graph(nodes)
    one, two = (graph.by_name[name] for name in ("leaky_relu", "leaky_relu_1"))
    assert one.attrs == two.attrs
    one.attrs["slope"] = 7.0
    assert two.attrs["slope"] == 0.1


CHANGES: dict[str, Callable[[Record], Any]] = {
    "another type": lambda r: r.update(type=["float32[7, 7]"]),
    "a type that is text": lambda r: r.update(type="float32[?, 6]"),
    "no type": lambda r: r.pop("type", None),
    "another operation": lambda r: r.update(op="tanh"),
    "no such operation": lambda r: r.update(op="teleport"),
    "an operation that is a number": lambda r: r.update(op=3),
    "a name that is there": lambda r: r.update(name="x"),
    "no name": lambda r: r.pop("name"),
    "an empty name": lambda r: r.update(name=""),
    "no inputs": lambda r: r.pop("inputs"),
    "inputs that are text": lambda r: r.update(inputs="x"),
    "an input less": lambda r: r.update(inputs=r["inputs"][:-1]),
    "an input more": lambda r: r.update(inputs=[*r["inputs"], {"node": "x"}]),
    "a number for an input": lambda r: r.update(inputs=[*r["inputs"][:-1], 2]),
    "a truth for an input": lambda r: r.update(inputs=[*r["inputs"][:-1], True]),
    "infinity for an input": lambda r: r.update(inputs=[*r["inputs"][:-1], {"float": "inf"}]),
    "nothing for an input": lambda r: r.update(inputs=[*r["inputs"][:-1], None]),
    "an input of another dtype": lambda r: r.update(inputs=[{"node": "mask"}, *r["inputs"][1:]]),
    "an input that is nowhere": lambda r: r.update(inputs=[{"node": "nobody"}, *r["inputs"][1:]]),
    "an input that is a list": lambda r: r.update(inputs=[{"node": ["x"]}, *r["inputs"][1:]]),
    "an input of two parts": lambda r: r.update(inputs=[{"node": "x", "part": 1}, *r["inputs"][1:]]),
    "itself": lambda r: r.update(inputs=[{"node": r.get("name")}, *r["inputs"][1:]]),
    "an attribute more": lambda r: r.setdefault("attrs", {}).update(speed=1),
    "an attribute less": lambda r: r.get("attrs", {}) and r["attrs"].popitem(),
    "a truth for a number": lambda r: r.get("attrs") and r["attrs"].update({next(iter(r["attrs"])): True}),
    "a number for an attribute": lambda r: r.get("attrs") and r["attrs"].update({list(r["attrs"])[-1]: 1}),
    "another array": lambda r: r.get("attrs") and r["attrs"].update({next(iter(r["attrs"])): {"kept": "array_1"}}),
    "an array that is nowhere": lambda r: r.update(attrs={"initial": {"kept": "none"}}),
    "attributes that are a list": lambda r: r.update(attrs=[]),
    "deep attributes": lambda r: r.update(attrs={"axis": deep(70)}),
    "controls": lambda r: r.update(controls=["mask"]),
    "controls that are nowhere": lambda r: r.update(controls=["nobody"]),
    "a device": lambda r: r.update(device="cpu"),
    "a device that is a number": lambda r: r.update(device=1),
    "functions that are a list": lambda r: r.update(functions=[]),
    "a part more": lambda r: r.update(colour="red"),
    "a deep part": lambda r: r.update(colour=deep(70)),
    "no line": lambda r: r.pop("where"),
    "an empty line": lambda r: r.update(where=""),
    "a line that is nothing": lambda r: r.update(where=None),
    "a line that is a number": lambda r: r.update(where=3),
}


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_a_node_that_is_nearly_alike_is_checked(change: str, checked: Callable[..., Any]) -> None:
    """One node of each kind, where others before it were as they should be."""
    last = {node["op"]: i for i, node in enumerate(MODEL["nodes"]) if i > len(MODEL["nodes"]) / 2}
    refused = 0
    for at in last.values():
        whole = {**MODEL, "nodes": [copy.deepcopy(one) if i == at else one for i, one in enumerate(MODEL["nodes"])]}
        CHANGES[change](whole["nodes"][at])
        found = described(whole)
        assert found == checked(whole)
        assert isinstance(found, str) == isinstance(described(whole, in_order=True), str)
        refused += isinstance(found, str)
    taken = ("no type", "a part more", "no line", "an empty line", "a line that is nothing", "controls", "a device")
    assert bool(refused) != (change in taken)


def test_a_size_that_grows_from_node_to_node_is_refused() -> None:
    """Each is of an open size and repeats the one before; how large it is at a batch of 1 is another each time."""
    graph = Graph()
    with graph:
        x = graph.placeholder((None,), name="x")
        for _ in range(6):
            x = ops.tile(x, (100,))
    found = described(written(graph))
    assert isinstance(found, str)
    assert "tile_4: tile: one value would have 40,000,000,000 bytes" in found


def record(name: str, op: str, *inputs: Any, **attrs: Any) -> Record:
    given = [{"node": one} if isinstance(one, str) else one for one in inputs]
    return {"name": name, "op": op, "inputs": given} | ({"attrs": attrs} if attrs else {})


def placeholder(name: str, shape: list[int], dtype: str) -> Record:
    return record(name, "placeholder", shape={"tuple": shape}, dtype={"dtype": dtype})


X, Y = placeholder("x", [3], "int64"), placeholder("y", [4], "int64")
NUMBERS = [record(f"times_{i}", "mul", "x", i) for i in range(4)]
PROGRAMS: dict[str, tuple[list[Record], str]] = {
    "numbers of other types": ([X, *NUMBERS, record("f", "mul", "x", 1.0), record("t", "mul", "x", True)], ""),
    "a node in the place of a number": ([X, Y, *NUMBERS, record("z", "mul", "x", "y")], "z: mul: shapes"),
    "a name twice": ([X, NUMBERS[0], record("u", "tanh", "x"), record("u", "tanh", "x")], "called 'u' already"),
    "one that is no variable": (
        [record(f"v{i}", "variable", initial={"kept": "v"}) for i in range(2)] + [record("a", "assign", "v0", "v1"),
         record("c", "constant", value={"kept": "v"}), record("b", "assign", "c", "v1")],
        "b: assign: c is no variable"),
    "an index that is out of bounds": (
        [X, Y, record("i", "getitem", "y", key=3), record("j", "getitem", "x", key=3)], "j: getitem"),
}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_nodes_that_only_look_alike(program: str, checked: Callable[..., Any]) -> None:
    nodes, error = PROGRAMS[program]
    whole, kept = {"nodes": nodes, "functions": {}}, {"v": np.random.default_rng().normal(size=3)}
    found = described(whole, kept)
    assert found == checked(whole, kept)
    assert (error in found) if error else found[0]["nodes"]


def test_a_list_is_of_one_node() -> None:
    nodes = [placeholder("x", [2, 3], "float32")] + [record(f"t{i}", "sum", "x", axis=[0]) for i in range(3)]
    graph = Reader({}).graph(numbered({"nodes": nodes, "functions": {}})[0])
    assert graph.by_name["t1"].attrs["axis"] is not graph.by_name["t2"].attrs["axis"]


def test_a_long_chain() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((None, 2), name="x")
        for _ in range(1500):
            x = ops.tanh(x)
        ops.exp(x)
    assert len(described(written(graph))[0]["nodes"]) == 1502


@pytest.mark.parametrize("seed", range(3))
def test_in_any_order(seed: int) -> None:
    nodes = list(MODEL["nodes"])
    np.random.default_rng(seed).shuffle(nodes)
    found = described({**MODEL, "nodes": nodes})[0]
    by_name = {node["name"]: node for node in found["nodes"]}
    assert by_name == {node["name"]: node for node in described(MODEL)[0]["nodes"]}
