"""What a file says of a graph makes the same graph again; a file that makes none says where."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from internals import ops, optim
from internals.graph import (
    Graph,
    GraphError,
    Session,
    assign_add,
    cond,
    from_json,
    from_text,
    gradients,
    minimize,
    read,
    scan,
    to_json,
    to_text,
    while_loop,
)
from internals.ops.table import Op

BOTH = pytest.mark.parametrize(("write", "parse"), [(to_json, from_json), (to_text, from_text)], ids=["json", "text"])


def trained(g: Graph, x: Any) -> list[Any]:
    w, b = g.variable(np.full((3, 5), 0.5, np.float32), name="w"), g.variable(x[0, 0] * 0 + 2.0, name="odd name: ü\n")
    with g.scope("loss"), g.device("cpu"):
        loss = ops.cross_entropy((x * b) @ w, g.constant(np.array([0, 4, 1, 2])))
    train = minimize(loss, [w], optim.Adam, lr=0.1, betas=(0.8, 0.99))
    count = assign_add(g.variable(0, name="count"), 1)
    with g.after([train, count]):
        return [loss, train, read(w), *gradients(loss, [x])]


def sliced(g: Graph, x: Any) -> list[Any]:
    y = x[::-1, ..., None, 1:][:, [0, 0, -1]].sum(axis=(0, 2))
    values, order = ops.topk(y, 2, axis=0)
    return [y, values, order, ops.where(y > np.inf, y, -np.inf), ops.cast(x, dtype=np.float64), x.mean(keepdims=True)]


def halves(g: Graph, x: Any) -> list[Any]:
    return [ops.cast(x, dtype=ml_dtypes.bfloat16) * g.constant(np.array([1.5], ml_dtypes.bfloat16))]


def branched(g: Graph, x: Any) -> list[Any]:
    w = g.variable(np.full(3, 0.7, np.float32), name="w")
    out = cond(x.sum() > 0, lambda: (x * w).tanh().sum(), lambda: cond(x[0, 0] > 1, lambda: w.sum(), lambda: w[0] * 2))
    return [out, *gradients(out, [x, w])]


def looped(g: Graph, x: Any) -> list[Any]:
    w = g.variable(np.full(3, 0.7, np.float32), name="w")
    last, count = while_loop(lambda v, n: (v * v).sum() > 0.01, lambda v, n: [v * w, n + 1], [x, g.constant(0)])
    return [last, count, *gradients((last * last).sum(), [x, w])]


def scanned(g: Graph, x: Any) -> list[Any]:
    w = g.variable(np.eye(3, dtype=np.float32), name="w")
    (last,), (rows,) = scan(lambda c, r: ([(c[0] @ w + r[0]).tanh()], [c[0] * r[0]]), [x[0]], [x])
    (first,) = gradients((last * last).sum() + rows.sum(), [w])
    return [last, rows, first, *gradients((first * first).sum(), [x])]


def dropped(g: Graph, x: Any) -> list[Any]:
    return [ops.dropout(x, p=0.5, seed=2**62 + 3)]


PROGRAMS: dict[str, Callable[[Graph, Any], list[Any]]] = {
    one.__name__: one for one in (trained, sliced, halves, branched, looped, scanned, dropped)
}


@BOTH
@pytest.mark.parametrize("name", PROGRAMS)
def test_there_and_back(name: str, write: Any, parse: Any) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((4, 3), name="x")
        fetches = PROGRAMS[name](graph, x)
    again = parse(write(graph))
    assert write(again) == write(graph)
    assert [repr(node) for node in again.nodes] == [repr(node) for node in graph.nodes]
    assert [node.where for node in again.nodes] == [node.where for node in graph.nodes]
    values = [np.random.default_rng(seed).standard_normal((4, 3)).astype(np.float32) for seed in range(3)]
    sessions = [Session(one) for one in (graph, again)]
    for session in sessions:
        if name == "trained":
            for node in session.graph.variables:
                session.values[node.name] = np.zeros(node.shape, node.dtype) + 1
        else:
            session.initialise()
    for value in values:
        one, two = (
            session.run([session.graph.by_name[node.name] for node in fetches], {session.graph.by_name["x"]: value})
            for session in sessions
        )
        for got, want in zip(two, one, strict=True):
            np.testing.assert_array_equal(got, want)


@BOTH
def test_open_sizes_stay_open(write: Any, parse: Any) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((None, 3), name="x")
        (slope,) = gradients((x.mean(axis=0) ** 2).sum(), [x])
    again = parse(write(graph))
    value = np.random.default_rng().standard_normal((5, 3)).astype(np.float32)
    got = Session(again).run(again.by_name[slope.name], {again.by_name["x"]: value})
    np.testing.assert_array_equal(got, Session(graph).run(slope, {x: value}))
    assert again.by_name[slope.name].shape == (None, 3)


def test_a_loaded_graph_is_built_on_and_differentiated() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((4, 3), name="x")
        branched(graph, x)
    again = from_text(to_text(graph))
    with again:
        loss = again.by_name["cond"].inputs[0]
        assert loss.dtype == bool
        more = again.by_name["x"].exp().sum()
        assert more.name not in {node.name for node in graph.nodes}
        gradients(more, [again.by_name["x"]])


def test_lines_may_come_in_any_order() -> None:
    text = "\n".join([
        "z : float32[2] = add(y, x) after (late)",
        "",
        "# a note",
        'y : float32[2] = mul(x, 2.5) on "sim:0" from "model.py:3"',
        'x : float32[2] = placeholder() {"shape": {"tuple": [2]}, "dtype": {"dtype": "float32"}}',
        "late : float32[2] = exp(x)",
    ])  # fmt: skip
    graph = from_text(text)
    got = Session(graph).run(graph.by_name["z"], {graph.by_name["x"]: np.ones(2, np.float32)})
    np.testing.assert_array_equal(got, [3.5, 3.5])
    assert graph.by_name["y"].where == "model.py:3"
    assert graph.by_name["z"].where == "line 1"


X = 'x : float32[2] = placeholder() {"shape": {"tuple": [2]}, "dtype": {"dtype": "float32"}}\n'
WRONG = {
    "a : float32[2] = exp(b)\nb : float32[2] = exp(a)\n": r"line 1, line 2: a <- b <- a is a cycle",
    "a : float32[2] = exp(a)": "line 1: a <- a is a cycle",
    X + "a : float32[2] = exp(x) after (c)\nc : float32[2] = exp(a)": "line 2, line 3: a <- c <- a is a cycle",
    X + X: r"line 2: there is a node called 'x' already \(line 1\)",
    X + "y : float32[2] = exp(z)": "line 2: y reads 'z', and no node is called that",
    X + "y : float32[2] = explode(x)": "line 2: y: there is no operation called 'explode'",
    X + "y : float32[3] = exp(x)": r"line 2: y is said to be float32\[3\], but exp of its inputs is float32\[2\]",
    X + "y : float32[2] = matmul(x, 1.0)": "line 2: y: matmul",
    X + "y : float32[2] = add(x)": "line 2: y: ",
    X + 'y : float32[2] = sum(x) {"axes": 0}': "line 2: y: ",
    X + "y float32[2] = exp(x)": "line 2: expected ':', got 'float32",
    X + "y : float32[2] = exp(x": r"line 2: expected ',', got 'the end'",
    X + "y : float32[2] = exp(x) {": "line 2: expected a value in JSON",
    X + "y : float32[2] = exp(x) quickly": "line 2: expected the end of the line, got 'quickly'",
    X + "y : float = exp(x)": "line 2: expected a dtype and shape",
    "7 : float32[2] = exp(x)": "line 1: expected a name",
    X + 'y : float32[] = cond(x) with {"then": "f", "otherwise": "g"}': "line 2: y: .*no function called 'f'",
    'x : float32[] = constant() {"value": {"array": ["float32", [], "!!"]}}': "line 1: array .* can't be read",
    'x : float32[] = constant() {"value": {"array": ["float99", [], ""]}}': "line 1: array .* can't be read",
    'x : float32[] = constant() {"value": {"sphere": 3}}': "line 1: a value of kind .*sphere",
    'x : float32[] = constant() {"value": {"node": "y"}}': "line 1: x reads 'y'",
    X + 'y : float32[2] = call(x) with {"function": "f"}\nfunction f(a) -> (b) {"captures": 0, "name": "f"}\n    '
    + X.replace("x", "a", 1) + '    b : float32[2] = call(a) with {"function": "f"}': "uses itself: f -> f",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_refused_with_the_line(text: str) -> None:
    with pytest.raises(GraphError, match=WRONG[text]):
        from_text(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "this is no JSON"),
        ("[]", "expected an object with format"),
        ('{"format": "internals.graph", "version": 7}', "version 7; this program reads version 1"),
        ('{"format": "internals.graph", "version": 1}', "nodes are missing"),
        ('{"format": "internals.graph", "version": 1, "nodes": [3], "functions": {}}', "node 1 is int '3'"),
        ('{"format": "internals.graph", "version": 1, "nodes": [{"name": "a"}], "functions": {}}', "missing"),
    ],
)
def test_json_that_is_no_graph(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        from_json(text)


def test_python_code_is_in_no_file() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((2,), name="x")
        graph.add(Op("mine", lambda xp, x: x, vjp=None, infer=lambda x: x), (x,))
    with pytest.raises(GraphError, match=r"mine \(made at test_graphdef.py:\d+\) runs mine, which is Python code"):
        to_json(graph)


@pytest.mark.slow
@pytest.mark.parametrize("cut", range(0, 900, 37))
def test_a_file_that_was_cut_off_is_a_graph_or_an_error(cut: int) -> None:
    graph = Graph()
    with graph:
        scanned(graph, graph.placeholder((4, 3), name="x"))
    for write, parse in ((to_json, from_json), (to_text, from_text)):
        text = write(graph)
        try:
            parse(text[: len(text) - cut - 1])
        except GraphError:
            continue
        assert parse is from_text


def test_json_is_plain() -> None:
    graph = Graph()
    with graph:
        sliced(graph, graph.placeholder((4, 3), name="x"))
    json.loads(to_json(graph), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
