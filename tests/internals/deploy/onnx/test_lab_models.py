"""The models that the labs train, as their notebooks define them: in onnxruntime, and in it again after being read."""

from __future__ import annotations

import ast
import collections
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_onnxruntime import run_onnx

from internals import Tensor, fold, layers, nn, no_grad, ops
from internals.data.syntax import KINDS
from internals.deploy import Signature, TensorSpec
from internals.deploy.onnx import from_onnx, to_onnx
from internals.fold.tree_lstm import TreeLSTM
from internals.graph import Session

NOTEBOOKS = Path(__file__).parents[4] / "labs" / "solutions"
rng = np.random.default_rng()


def pieces_of(lab: str, *wanted: str) -> list[Any]:
    """Functions, classes and values of a lab's notebook, and what is done with them, without the rest of it."""
    (path,) = NOTEBOOKS.glob(f"{lab}_*.ipynb")
    cells = [cell["source"] for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    statements = [one for cell in cells for one in ast.parse("".join(cell)).body]
    kept = [one for one in statements if isinstance(one, ast.ImportFrom | ast.Import) and is_light(one)]
    for one in statements:
        targets: list[ast.AST] = list(one.targets) if isinstance(one, ast.Assign) else []
        if isinstance(one, ast.With) and isinstance(one.items[0].context_expr, ast.Name):
            targets = [one.items[0].context_expr]
        names = {getattr(one, "name", "")} | {name.id for t in targets for name in ast.walk(t) if hasattr(name, "id")}
        if names & set(wanted):
            kept.append(one)
    space: dict[str, Any] = {}
    exec(compile(ast.Module(kept, []), str(path), "exec"), space)  # the repository's own notebook
    return [space[name] for name in wanted]


def is_light(statement: ast.Import | ast.ImportFrom) -> bool:
    root = getattr(statement, "module", "") or statement.names[0].name
    return root.split(".")[0] in ("internals", "numpy")


def rows_of(*shape: Any, dtype: str = "float32") -> Signature:
    return Signature({"x": TensorSpec(("batch", *shape), dtype)}, ("y",))


def perceptron(inputs: int, hidden: int, outputs: int) -> Callable[[], Any]:
    def make() -> Any:
        model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
        return model, rows_of(inputs), model

    return make


def tensors() -> Any:
    new_weights, network = pieces_of("lab01", "new_weights", "network")
    weights = new_weights()
    return (function := lambda x: network(x, *weights)), rows_of(8, 8), function


def net_of_layers() -> Any:
    (config,) = pieces_of("lab03", "CONFIG")
    net = layers.Net(config, rng=rng)

    def run(x: Any) -> Any:
        found = net.forward({"pixels": x.numpy(), "label": np.zeros(len(x), np.int64)}, test=True)
        return Tensor(found["logits"].value)

    return net, Signature({"pixels": TensorSpec(("batch", 1, 8, 8))}, ("logits",)), run


def session(lab: str) -> Callable[[], Any]:
    def make() -> Any:
        *_, graph = pieces_of(lab, "weights", "rng", "graph")
        for node in graph.nodes:
            node.device = None  # tasks of a cluster, in lab 15
        return graph

    return make


def rules() -> Any:
    (model,) = pieces_of("lab06", "DigitNet")
    made = model(rng)
    return made, rows_of(8, 8, dtype="int64"), made


def traced() -> Any:
    network, ran = pieces_of("lab07", "network", "ran")
    assert ran == []
    network.python.__globals__["ran"] = collections.deque(maxlen=0)  # what it notes as it is traced is no part of it
    weights = [Tensor(rng.standard_normal(s).astype(np.float32)) for s in ((64, 48), (48,), (48, 10), (10,))]
    return (function := lambda x: network(x, *weights, 1.5)), rows_of(64), function


def tree() -> Any:
    """One tree; every batch of it reads other leaves' states."""
    model = TreeLSTM(len(KINDS), 6, 3, rng=rng, whole_cells=False)

    def run(x: Any) -> Any:
        left, right = model.compose(*x[0], *x[1]), model.compose(*x[2], *x[3])
        return model.scores(model.compose(*left, *right)[0])

    return run, Signature({"x": TensorSpec((4, 2, 6))}, ("y",)), run


def attention() -> Any:
    (model,) = pieces_of("lab10", "Reader")
    made = model()
    return made, rows_of(8, 8), made


def formats() -> Any:
    _, model = pieces_of("lab16", "rng", "Reader")
    made = model()
    return made, rows_of(1, 8, 8), made


MODELS: dict[str, Callable[[], Any]] = {
    "lab01": tensors,
    "lab02": perceptron(64, 128, 10),
    "lab03": net_of_layers,
    "lab05": perceptron(64, 128, 10),
    "lab06": rules,
    "lab07": traced,
    "lab08": tree,
    "lab10": attention,
    "lab13": perceptron(64, 32, 10),
    "lab14": perceptron(64, 64, 10),
    "lab16": formats,
    "lab17": perceptron(64, 48, 10),
    "lab18": perceptron(64, 64, 10),
}
GRAPHS = ("lab04", "lab15")
WITHOUT = {"lab09": "it minimises a function of weights, in float64; there is no model but the weights"}


def test_every_lab_is_here() -> None:
    labs = {path.name.partition("_")[0] for path in NOTEBOOKS.glob("*.ipynb")}
    assert labs == {*MODELS, *GRAPHS, *WITHOUT}


@pytest.mark.parametrize("lab", [lab for lab, make in MODELS.items() if make.__name__ == "make"])
def test_the_perceptrons_are_those_of_the_notebooks(lab: str) -> None:
    (path,) = NOTEBOOKS.glob(f"{lab}_*.ipynb")
    _, _, model = MODELS[lab]()
    sizes = [one.weight.shape for one in model.modules() if isinstance(one, nn.Linear)]
    first, second = [f"nn.Linear({a}, {b}, rng=rng)" for a, b in sizes]
    assert f"{first}, nn.ReLU(), {second}" in path.read_text()


def check(proto: Any, feeds: dict[str, np.ndarray], wanted: list[np.ndarray]) -> None:
    importlib.import_module("onnx").checker.check_model(proto, full_check=True)
    for came, one in zip(run_onnx(proto, feeds), wanted, strict=True):
        assert came.shape == one.shape
        np.testing.assert_allclose(came, one, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("lab", MODELS)
def test_a_lab_model_in_onnxruntime(lab: str) -> None:
    source, signature, run = MODELS[lab]()
    if isinstance(source, nn.Module):
        source.eval()
    proto = to_onnx(source, {"serve": signature})
    again = to_onnx(from_onnx(proto))
    ((name, spec),) = signature.inputs.items()
    for batch in (1, 5) if spec.symbols else (4,):
        shape = [size if isinstance(size, int) else batch for size in spec.shape]
        x = rng.integers(0, 17, shape) if spec.dtype.kind == "i" else rng.standard_normal(shape).astype(spec.dtype)
        with no_grad():
            wanted = [run(Tensor(x)).numpy()]
        for one in (proto, again):
            check(one, {name: x}, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("lab", GRAPHS)
def test_a_lab_graph_in_onnxruntime(lab: str) -> None:
    """The scores, and the loss, of a graph that also trains; its variables as a session has them."""
    graph = session(lab)()
    nodes = {node.name: node for node in graph.nodes}
    scores = [node for node in graph.nodes if node.shape in ((None, 10), (24, 10)) and node.op.name == "add"]
    losses = [node for node in graph.nodes if node.op.name == "cross_entropy"]
    assert scores
    assert losses
    outputs = {f"scores_{i}": one for i, one in enumerate(scores)} | {f"loss_{i}": n for i, n in enumerate(losses)}
    x, y = rng.standard_normal((10, 64)).astype(np.float32), rng.integers(0, 10, 10)
    with Session(graph) as running:
        running.initialise()
        wanted = running.run(list(outputs.values()), {nodes["x"]: x, nodes["y"]: y})
        proto = to_onnx(running, {"serve": Signature({"x": nodes["x"], "y": nodes["y"]}, outputs)})
    check(proto, {"x": x, "y": y}, wanted)


@pytest.mark.slow
def test_one_tree_of_lab08_as_it_is_read_there() -> None:
    """The recursion itself, over one tree's kinds."""

    class Leaf:
        def __init__(self, kind: int, *children: Any) -> None:
            self.kind, self.children = kind, children

    model = TreeLSTM(len(KINDS), 6, 3, rng=rng)
    one = Leaf(3, Leaf(1), Leaf(4, Leaf(1), Leaf(5)), Leaf(0))
    kinds = np.array([3, 1, 4, 1, 5, 0])

    def run(x: Any) -> Any:
        places = iter(range(len(kinds)))
        return model.forward(one, lambda kind: x[next(places)])

    proto = to_onnx(run, {"serve": Signature({"x": TensorSpec((len(kinds),), "int64")}, ("y",))})
    with fold.Batch() as batch, no_grad():
        found = fold.stacked([model(one)])
        del batch
    check(proto, {"x": kinds}, [np.asarray(ops.reshape(found, shape=(3,)).numpy())])
