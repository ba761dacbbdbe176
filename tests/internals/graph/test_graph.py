"""The graph style: a session computes what eager code computes, to the bit, and what TensorFlow's graph says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from internals import Tensor, grad, ops
from internals.graph import Graph, GraphError, Session, assign, gradients, read, scan, while_loop
from internals.trace import function


def random(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng().standard_normal(shape).astype(dtype)


def perceptron(x: Any, w: Any, b: Any) -> Any:
    return ops.log_softmax(ops.relu(x @ w + b) * 2.5, axis=1)


def statistics(x: Any, w: Any, b: Any) -> Any:
    centred = x - x.mean(axis=0, keepdims=True)
    return (centred * centred).mean(axis=0).sqrt() @ w + 3 - b


def rearranged(x: Any, w: Any, b: Any) -> Any:
    return ops.concat([x[1:, ::-1], (x @ w)[:, [0, 2, 2, 4]] * b[:4]], axis=0).reshape(-1, 2)


MODELS: dict[str, Callable[..., Any]] = {"perceptron": perceptron, "statistics": statistics, "rearranged": rearranged}


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_equal_to_eager_to_the_bit(name: str, open_sizes: bool) -> None:
    """Values, gradients, and gradients of gradients."""
    model, values = MODELS[name], [random(6, 4), random(4, 5), random(5)]
    start = random(*model(*map(Tensor, values)).shape)

    graph = Graph()
    with graph:
        x = graph.placeholder((None if open_sizes else 6, 4), name="x")
        w, b = graph.variable(values[1], name="w"), graph.variable(values[2], name="b")
        out = model(x, w, b)
        loss = (out * graph.constant(start)).sum()
        first = gradients(loss, [x, w])
        assert all(node is not None for node in first)
        second = gradients((first[1] * first[1]).sum() + (first[0] * first[0]).sum(), [w])
    with Session(graph) as session:
        session.initialise()
        came = session.run([out, *first, *[node for node in second if node is not None]], {x: values[0]})

    leaves = [Tensor(value, requires_grad=True) for value in values]
    result = model(*leaves)
    firsts = grad((result * Tensor(start)).sum(), leaves[:2], create_graph=True, allow_unused=True)
    seconds = grad((firsts[1] * firsts[1]).sum() + (firsts[0] * firsts[0]).sum(), leaves[1:2], allow_unused=True)
    wanted = [result, *firsts, *[one for one in seconds if one is not None]]
    assert len(came) == len(wanted)
    for got, want in zip(came, wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want.detach().numpy())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["perceptron", "statistics"])
def test_gradients_as_tensorflows_graph(name: str, tf: Any) -> None:
    values = [random(6, 4, dtype=np.float64), random(4, 5, dtype=np.float64), random(5, dtype=np.float64)]
    theirs = {
        "perceptron": lambda x, w, b: tf.nn.log_softmax(tf.nn.relu(x @ w + b) * 2.5, axis=1),
        "statistics": lambda x, w, b: tf.linalg.matvec(w, tf.math.reduce_std(x, axis=0), transpose_a=True) + 3 - b,
    }[name]
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        fed = [v1.placeholder(tf.float64, value.shape) for value in values]
        wanted = v1.gradients(tf.square(theirs(*fed)), fed)
        with v1.Session() as session:
            want = session.run(wanted, dict(zip(fed, values, strict=True)))
    graph = Graph()
    with graph:
        nodes = [
            graph.placeholder((None, 4), np.float64),
            *(graph.placeholder(v.shape, np.float64) for v in values[1:]),
        ]
        found = gradients(ops.square(MODELS[name](*nodes)), nodes)
    came = Session(graph).run(found, dict(zip(nodes, values, strict=True)))
    for mine, other in zip(came, want, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)


def test_only_what_is_needed_runs() -> None:
    graph = Graph()
    with graph:
        x, unfed = graph.placeholder((2,), name="x"), graph.placeholder((2,))
        used, _ = x * 2, unfed.log()
    session = Session(graph)
    assert [node.op.name for node in session.plan([used], {x: random(2)}).nodes] == ["placeholder", "mul"]


def test_a_node_that_is_fed_is_not_computed() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((2,))
        middle = x.exp()
        out = middle + 1
    np.testing.assert_array_equal(Session(graph).run(out, {middle: np.zeros(2, np.float32)}), [1, 1])


def test_sizes_that_are_open_are_inferred_as_far_as_they_can_be() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((None, 4, 6))
        assert (x @ x.swapaxes(1, 2)).shape == (None, 4, 4)
        assert x.reshape(-1, 8, 3).shape == (None, 8, 3)
        assert x.sum(axis=0).shape == (4, 6)
        assert ops.concat([x, x], axis=0).shape == (None, 4, 6)
        with pytest.raises(ValueError, match=r"matmul: \(\?, 4, 6\)"):
            x @ x


def test_variables_change_in_the_order_that_is_asked_for() -> None:
    graph = Graph()
    with graph:
        v = graph.variable([1.0, 2.0], name="v")
        doubled = assign(v, v * 2)
        with graph.after([doubled]):
            after = read(v)
    session = Session(graph)
    session.initialise()
    before, _, later = session.run([v, doubled, after])
    np.testing.assert_array_equal(before, [1, 2])
    np.testing.assert_array_equal(later, [2, 4])
    np.testing.assert_array_equal(session.run(v), [2, 4])


def other_graph() -> Any:
    other = Graph()
    with other:
        return other.placeholder((2,))


WRONG: list[tuple[Callable[[Graph, Any], Any], str]] = [
    (lambda g, x: x + other_graph(), "another graph"),
    (lambda g, x: bool(x), "has no value while the graph is built"),
    (lambda g, x: np.asarray(x), "run it"),
    (lambda g, x: g.placeholder((2,), name="x"), "'x' is taken by a node made at test_graph"),
    (lambda g, x: assign(x, x), "only a variable"),
    (lambda g, x: assign(g.variable([1.0, 2.0]), random(3)), "does not fit"),
    (lambda g, x: gradients(x > 0, [x]), "not floating"),
    (lambda g, x: Session(g).run(x), r"x \(made at test_graph.py:\d+\), a placeholder of float32\[\?, 3\], is needed"),
    (lambda g, x: Session(g).run(x, {x: random(2, 4)}), r"takes float32\[\?, 3\], and was fed an array of shape \(2"),
    (lambda g, x: Session(g).run(x, {x: random(2, 3, dtype=np.float64)}), "takes float32, and was fed float64"),
    (lambda g, x: Session(g).run(g.variable([1.0]) * 2), "no value yet"),
    (lambda g, x: Session(g).run(other_graph()), "another graph"),
    (lambda g, x: Session(g).run("x"), "must be a node"),
    (lambda g, x: Session(g).run(x + g.placeholder((None, 3), name="y"),
                                 {x: random(2, 3), g.by_name["y"]: random(4, 3)}),
     r"add \(made at test_graph.py:\d+\): add: shapes \(2, 3\) and \(4, 3\)"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message[:30] for _, message in WRONG])
def test_refused_with_the_node_and_its_line(make: Callable[[Graph, Any], Any], message: str) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((None, 3), name="x")
        with pytest.raises(GraphError, match=message):
            make(graph, x)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loop_that_does_not_end_is_named_with_its_line(threads: int) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((), name="x")
        (last,) = while_loop(lambda v: v > 0.0, lambda v: [v + 1.0], [x], most=20)
    with pytest.raises(
        GraphError, match=r"^while_loop \(made at test_graph.py:\d+\): while_loop: still running after 20"
    ):
        Session(graph, threads=threads).run(last, {x: np.float32(1)})


def test_a_closed_session_says_so() -> None:
    session = Session(Graph())
    session.close()
    with pytest.raises(GraphError, match="closed"):
        session.run([])
    with pytest.raises(GraphError, match="closed already"):
        session.close()


WRONG_CALLS: list[tuple[Callable[[Any, Any, Any], Any], str]] = [
    (lambda graph, x, s: s.run(x * 2.0, {x: [[1, 2], [3]]}), r"x \(made at test_graph.py:\d+\).*fed what is no array"),
    (lambda graph, x, s: s.run(x * 2.0, [1]), "feeds are a dict from nodes to values, got list"),
    (lambda graph, x, s: Session(3), "session: expected a Graph, got int"),
    (lambda graph, x, s: graph.placeholder((1,), "nope"), "placeholder: .*nope"),
    (lambda graph, x, s: graph.scope(3).__enter__(), "scope: the name must be a text"),
    (lambda graph, x, s: while_loop(lambda i: i.sum() < 3, lambda i: None, [x]), "while_loop: the body gives lists"),
    (lambda graph, x, s: scan(lambda c, r: None, [x], [x]), "scan: the body gives a pair"),
    (lambda graph, x, s: scan(lambda c, r: (c, r[0]), [x], [x]), "scan: the body gives lists of values, got Node"),
    (
        lambda graph, x, s: s.run(while_loop(lambda i: i.sum() < 3, lambda i: [i * 1.0], [x], most=9)[0], {x: ZEROS}),
        r"while_loop \(made at test_graph.py:\d+\): while_loop: still running after 9 iterations",
    ),
]
ZEROS = np.zeros((2, 2), np.float32)


@pytest.mark.parametrize(("call", "message"), WRONG_CALLS)
def test_a_call_that_makes_no_sense_says_so(call: Callable[..., Any], message: str) -> None:
    graph = Graph()
    with graph, Session(graph) as session:
        x = graph.placeholder((2, 2), name="x")
        with pytest.raises((GraphError, TypeError), match=message):
            call(graph, x, session)


def fed(given: np.ndarray, x: np.ndarray) -> list[Any]:
    with Graph() as graph:
        node = graph.placeholder((2, 2))
        product = node * x
    itself, product = Session(graph).run([node, product], {node: given})
    return [itself * x, product]


def held(given: np.ndarray, x: np.ndarray) -> list[Any]:
    with Graph() as graph:
        node = graph.placeholder((2, 2))
        products = [node * given, node * graph.constant(given)]
    return Session(graph).run(products, {node: x})


def captured(given: np.ndarray, x: np.ndarray) -> list[Any]:
    return [function(lambda tensor: tensor * given)(Tensor(x)).numpy()]


@pytest.mark.parametrize("program", [fed, held, captured])
def test_arrays_of_a_subclass_are_taken_as_a_tensor_takes_them(program: Callable[..., list[Any]]) -> None:
    """The product of two matrices would be another one, and whatever reads a masked array has no entry for the mask."""
    x = random(2, 2)
    for got in program(x.view(np.matrix), x):
        assert type(got) is np.ndarray
        np.testing.assert_array_equal(got, x * x)
    with pytest.raises((GraphError, TypeError), match=r"a masked array has entries without a value.*x\.filled"):
        program(np.ma.masked_array(x, x > 0), x)
