"""Nodes that no code would have made, in a file: refused when it is read, by node and operation."""

from __future__ import annotations

import copy
import functools
import json
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_case import Case
from op_cases import CASES

from internals import ops
from internals.graph import Graph, GraphError, Session, assign, cond, from_json, minimize, scan, to_json, while_loop
from internals.graph.calls import LARGEST_VALUE
from internals.ops import TABLE
from internals.optim import SGD

Record = dict[str, Any]
NUMBER = {"array": ["int64", [1], "AAAAAAAAAAA="]}
JUNK: list[Any] = [
    None, True, -1, 0, 1, 7, 10**12, 2.5, {"float": "nan"}, "x", "", [], [1], [1, 2], {"tuple": []}, {"tuple": [0]},
    {"tuple": [1, 2, 3]}, {"tuple": [-1, 10**9]}, {"tuple": [None]}, {"tuple": [[1], 2]}, {"dict": {}},
    {"slice": [0, 3, None]}, {"ellipsis": True}, {"dtype": "int64"}, {"dtype": "O"}, NUMBER,
    {"scalar": ["float32", [], "AACAPw=="]}, {"tuple": [{"slice": ["a", None, None]}]}, {"tuple": [5, 5, 5, 5, 5, 5]},
]  # fmt: skip


def everything() -> Record:
    """A graph with a row, a variable that is trained, a row with several results, a branch and two loops."""
    graph = Graph()
    with graph:
        x = graph.placeholder((4, 3), name="x")
        w = graph.variable(np.ones((3, 3), np.float32), name="w")
        y = ops.tanh(x @ w)
        minimize(y.sum(), [w], SGD, lr=0.1)
        assign(graph.variable(np.zeros((4, 3), np.float32), name="kept"), y)
        ops.topk(ops.mean(y, axis=0), 2, axis=0)
        ops.conv2d(ops.reshape(x, shape=(1, 1, 4, 3)), graph.constant(np.ones((2, 1, 2, 2), np.float32)))
        cond(y.sum() > 0, lambda: y * 2, lambda: y - x)
        while_loop(lambda v: v.sum() < 9, lambda v: [v * w.sum() + 1], [x])
        scan(lambda c, r: ([c[0] + r[0]], [r[0] * 2]), [x[0]], [x])
    found: Record = json.loads(to_json(graph))
    for record in found["nodes"]:
        record.pop("type")
    return found


def attr(key: str, value: Any) -> Callable[[Record], Any]:
    return lambda record: record.setdefault("attrs", {}).update({key: value})


def put(key: str, value: Any) -> Callable[[Record], Any]:
    return lambda record: record.update({key: value})


def drop(key: str) -> Callable[[Record], Any]:
    return lambda record: record["attrs"].pop(key)


def inputs(change: Callable[[list[Any]], Any]) -> Callable[[Record], Any]:
    return lambda record: record.update(inputs=change(record["inputs"]))


X, W = {"node": "x"}, {"node": "w"}
FORGED: dict[str, tuple[str, Callable[[Record], Any], str]] = {
    "an input too few": ("matmul", inputs(lambda i: i[:1]), "takes 2 inputs (x, y), got 1"),
    "an input too many": ("tanh", inputs(lambda i: [*i, X]), "takes 1 inputs (x), got 2"),
    "an input that is text": ("tanh", inputs(lambda i: ["x"]), "input 0 is str 'x'; expected a node or a number"),
    "an input that is nothing": ("matmul", inputs(lambda i: [i[0], None]), "input 1 is NoneType None"),
    "numbers alone": ("tanh", inputs(lambda i: [1.5]), "none of its inputs is a node"),
    "an input with several results": ("conv2d", inputs(lambda i: [{"node": "topk"}, i[1]]), "`result` picks one"),
    "an attribute too many": ("tanh", attr("speed", 3), "unknown attribute speed; it takes none"),
    "an attribute too few": ("reshape", drop("shape"), "attribute shape is missing"),
    "an attribute of another type": ("mean", attr("keepdims", "yes"), "attribute keepdims is str 'yes'; expected bool"),
    "a number that is none": ("conv2d", attr("groups", 1.5), "attribute groups is float 1.5; expected int"),
    "sizes that are text": ("conv2d", attr("stride", {"tuple": [1, "2"]}), "attribute stride is tuple (1, '2')"),
    "an axis that is not there": ("mean", attr("axis", 5), "axis 5"),
    "another dtype": ("placeholder", attr("dtype", "float32"), "attribute dtype is str 'float32'"),
    "a placeholder's size": ("placeholder", attr("shape", {"tuple": [-4, 3]}), "non-negative"),
    "a constant that is no array": ("constant", attr("value", 3), "attribute value is int 3"),
    "no name": ("tanh", put("name", 3), "its name are missing or of the wrong kind"),
    "a device that is a number": ("tanh", put("device", 3), "its device are missing or of the wrong kind"),
    "a value that is too large": ("reshape", attr("shape", {"tuple": [10**6, 10**6]}), "reshape"),
    "a padding that is too large": ("conv2d", attr("padding", 10**6), "more than 4,294,967,296 are refused"),
    "a result that is not there": ("result", attr("index", 2), "topk has 2 results, none of number 2"),
    "a result of one": ("result", inputs(lambda i: [X]), "x has one result"),
    "what is assigned is no variable": ("assign", inputs(lambda i: [X, X]), "x is no variable"),
    "what is assigned does not fit": ("assign", inputs(lambda i: [W, X]), "x does not fit the variable w"),
    "a step of no variable": ("apply", inputs(lambda i: [X, *i[1:]]), "x is no variable"),
    "a branch of no boolean": ("cond", inputs(lambda i: [X, *i[1:]]), "must be one boolean, got float32[4, 3]"),
    "a branch with an input less": ("cond", inputs(lambda i: i[:-1]), "takes a condition and the inputs of both"),
    "a branch of one function": ("cond", lambda r: r["functions"].pop("then"), "takes the functions then, otherwise"),
    "branches that differ": ("cond", lambda r: r["functions"].update(then="f2"), "cond"),
    "a loop with another state": ("while_loop", attr("n", 2), "its state has 2 parts"),
    "a loop that carries less than nothing": ("while_loop", attr("n", -1), "a number is negative"),
    "a loop whose body is its condition": (
        "while_loop", lambda r: r["functions"].update(body=r["functions"]["condition"]), "while_loop"),
    "a scan of no rows": ("scan", attr("m", 0), "reads rows of 0"),
    "a scan of rows of another size": ("scan", inputs(lambda i: [i[0], i[0], *i[2:]]), "row 0 of its body"),
    "a loop with a number of its own": ("scan", attr("most", 3), "unknown attribute most; it takes n, m"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_node(name: str) -> None:
    op, change, message = FORGED[name]
    whole = everything()
    record = next(one for one in whole["nodes"] if one["op"] == op)
    change(record)
    with pytest.raises(GraphError) as caught:
        from_json(json.dumps(whole), largest=LARGEST_VALUE)
    assert message in str(caught.value)
    assert op in str(caught.value)
    assert str(record["name"]) in str(caught.value)


@pytest.mark.parametrize(("key", "value"), [("captures", 10**12), ("captures", -1), ("inputs", "x"), ("outputs", None)])
def test_a_forged_function(key: str, value: Any) -> None:
    whole = everything()
    whole["functions"]["f1"][key] = value
    with pytest.raises(GraphError, match=f"the function 'f1': its {key} are missing or of the wrong kind"):
        from_json(json.dumps(whole))


def test_a_graph_of_ones_own_may_be_as_large_as_it_is() -> None:
    whole = everything()
    record = next(one for one in whole["nodes"] if one["op"] == "conv2d")
    record["attrs"]["padding"] = 10**6
    assert from_json(json.dumps(whole)).by_name[record["name"]].shape == (1, 2, 2000003, 2000002)


def test_what_was_left_out_has_its_default() -> None:
    whole = everything()
    record = next(one for one in whole["nodes"] if one["op"] == "mean")
    record["attrs"].pop("keepdims")
    assert from_json(json.dumps(whole)).by_name[record["name"]].attrs["keepdims"] is False


def graph_of(case: Case) -> tuple[Record, dict[str, np.ndarray]]:
    shapes, attrs = case.samples[-1]
    attrs = attrs | ({"source": "cpu"} if case.op == "transfer" else {})
    rng, row, graph = np.random.default_rng(zlib.crc32(case.op.encode())), TABLE[case.op], Graph()
    sources = case.values if isinstance(case.values, tuple) else (case.values,) * len(shapes)
    arrays = [np.asarray(source(rng, shape)) for source, shape in zip(sources, shapes, strict=True)]
    arrays = [one.astype(np.float32) if one.dtype.kind == "f" else one for one in arrays]
    with graph:
        given = [graph.placeholder(one.shape, one.dtype, name=f"x{i}") for i, one in enumerate(arrays)]
        row(list(given), **attrs) if row.variadic else row(*given, **attrs)
    return json.loads(to_json(graph)), {one.name: array for one, array in zip(given, arrays, strict=True)}


def forgeries(record: Record, rng: np.random.Generator, count: int) -> list[Callable[[Record], Any]]:
    changes = [attr(key, junk) for key in record.get("attrs", {}) for junk in JUNK]
    changes += [drop(key) for key in record.get("attrs", {})]
    for i in range(len(record["inputs"])):
        changes += [inputs(lambda given, i=i, junk=junk: [*given[:i], junk, *given[i + 1 :]]) for junk in JUNK]
    always = [attr("axis2", 1), inputs(lambda given: given[:-1]), inputs(lambda given: [*given, given[0]])]
    return [*always, *[changes[i] for i in rng.permutation(len(changes))[:count]]]


def attempted(what: Callable[[], Any]) -> tuple[Any, str]:
    """What came, or what the GraphError said."""
    try:
        return what(), ""
    except GraphError as error:
        return None, str(error)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_with_junk() -> None:
    """Each row, with junk for an input or an attribute: refused by node and row, or a graph that runs."""
    rng = np.random.default_rng(0)
    refused = ran = 0
    tracemalloc.start()
    for case in {case.op: case for case in CASES}.values():
        whole, arrays = graph_of(case)
        place = next(i for i, one in enumerate(whole["nodes"]) if one["op"] == case.op)
        for change in forgeries(whole["nodes"][place], rng, 10):
            forged = copy.deepcopy(whole)
            for record in forged["nodes"][place:]:
                record.pop("type")
            change(forged["nodes"][place])
            graph, told = attempted(functools.partial(from_json, json.dumps(forged), largest=LARGEST_VALUE))
            if graph is None:
                assert case.op in told
                assert forged["nodes"][place]["name"] in told
                refused += 1
                continue
            outputs = [one for one in graph.nodes if one.name not in arrays and not isinstance(one.dtype, tuple)]
            if max(one.size for one in outputs) > 10**6:
                continue
            feeds = {graph.by_name[name]: array for name, array in arrays.items()}
            with Session(graph, passes=()) as session:
                came, told = attempted(functools.partial(session.run, outputs, feeds))
            assert came is not None or case.op in told  # such as an index that is none of these data
            ran += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 256 * 2**20
    assert refused > 10 * ran > 0
