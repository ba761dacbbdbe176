"""Branches and loops as ONNX: If, Loop and Scan in onnxruntime, read back, differentiated, and what is refused."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from in_onnxruntime import run_onnx

from internals import Tensor, ops
from internals.deploy import FormatError, Signature, SignatureError, TensorSpec, load, save
from internals.deploy.onnx import from_onnx, to_onnx
from internals.graph import Graph, Session, cond, gradients, scan, while_loop

rng = np.random.default_rng()
WEIGHT = Tensor(0.3 * rng.standard_normal((3, 3)).astype(np.float32), requires_grad=True)


def branch(x: Any) -> Any:
    return cond(x.sum() > 0, lambda: ops.matmul(x, WEIGHT) * 2, lambda: x - 1)


def branch_of_two(x: Any) -> Any:
    return tuple(cond(x.sum() > 0, lambda: [x, x * 2], lambda: [x - 1, x]))


def branches_in_branches(x: Any) -> Any:
    return cond(x.sum() > 0, lambda: cond(x.max() > 1, lambda: x, lambda: ops.exp(x)), lambda: x - 1)


def doubling(x: Any) -> Any:
    return while_loop(lambda v: ops.abs(v).sum() < 100, lambda v: [v * 2 + 0.1], [x])[0]


def counting(x: Any) -> Any:
    """A condition of a captured number, a body of a captured weight, two states of different dtypes."""
    end = ops.abs(x).max() * 10
    start = Tensor(np.int64(0))
    return tuple(
        while_loop(
            lambda v, n: ops.logical_and(ops.abs(v).max() < end, n < 5),
            lambda v, n: [ops.matmul(v, WEIGHT) + v, n + 1],
            [x, start],
        )
    )


def flagged(x: Any) -> Any:
    """The condition is a state of its own."""
    return tuple(
        while_loop(lambda go, v: go, lambda go, v: [ops.abs(v).sum() < 50, v * 3], [Tensor(np.array(True)), x])
    )


def flagged_by_one_entry(x: Any) -> Any:
    def body(go: Any, v: Any) -> list[Any]:
        return [ops.reshape(ops.abs(v).sum() < 50, shape=(1,)), v * 3]

    return while_loop(lambda go, v: go, body, [Tensor(np.array([True])), x])[1]


def recurrent(x: Any) -> Any:
    (h,), (hidden,) = scan(
        lambda carry, row: ([ops.tanh(ops.matmul(carry[0], WEIGHT) + row[0])], [carry[0] * 2]),
        [ops.zeros_like(x[:, 0])],
        [ops.swapaxes(x, 0, 1)],
    )
    return h, hidden


def loops_in_a_scan(x: Any) -> Any:
    def step(carry: list[Any], row: list[Any]) -> Any:
        grown = while_loop(lambda v: ops.abs(v).max() < 2, lambda v: [v * 1.5 + 0.01], [row[0]])[0]
        kept = cond(grown.sum() > 0, lambda: grown, lambda: carry[0])
        return [carry[0] + kept], [kept]

    (total,), (each,) = scan(step, [ops.zeros_like(x[0])], [x])
    return total, each


FLOW: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...], str]] = {
    "a branch": (branch, (3,), "If"),
    "branches of two values": (branch_of_two, ("batch", 3), "If"),
    "branches in branches": (branches_in_branches, ("batch", 3), "If"),
    "a loop": (doubling, ("batch", 3), "Loop"),
    "a loop that captures": (counting, ("batch", 3), "Loop"),
    "a loop whose condition is a state": (flagged, (3,), "Loop"),
    "a condition of one entry": (flagged_by_one_entry, ("batch", 3), "Loop"),
    "a scan": (recurrent, ("batch", 4, 3), "Scan"),
    "loops and branches in a scan": (loops_in_a_scan, (4, 3), "Scan"),
}


def answers(function: Callable[[Any], Any], x: np.ndarray) -> list[np.ndarray]:
    found = function(Tensor(x))
    return [one.detach().numpy() for one in (found if isinstance(found, tuple) else (found,))]


def same(came: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for one, other in zip(came, wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [17, 28])
@pytest.mark.parametrize("name", FLOW)
def test_control_flow_there_and_back(name: str, opset: int) -> None:
    """Checked, run at several batch sizes, read, and written again without a loss."""
    function, shape, kind = FLOW[name]
    first = to_onnx(function, {"f": Signature({"x": TensorSpec(shape)})}, opset=opset)
    assert kind in [node.op_type for node in first.graph.node]
    back = from_onnx(first)
    second = to_onnx(back, opset=opset)
    third = to_onnx(from_onnx(second), opset=opset)
    assert second.SerializeToString(deterministic=True) == third.SerializeToString(deterministic=True)
    for proto in (first, second):
        importlib.import_module("onnx").checker.check_model(proto, full_check=True)
    for scale in (0.1, 1.0, 3.0, -1.0):
        x = rng.standard_normal([int(rng.integers(1, 5)) if size == "batch" else size for size in shape])
        x = (abs(scale) * x + scale).astype(np.float32)
        wanted = answers(function, x)
        for proto in (first, second):
            same(run_onnx(proto, {"x": x}), wanted)
        same(list(back.signature()(x=x).values()), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("function", [branch, recurrent])
def test_the_gradient_of_control_flow(function: Callable[[Any], Any]) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((2, 4, 3) if function is recurrent else (3,), name="x")
        found = function(x)
        whole = found if isinstance(found, tuple) else (found,)
        total = sum((one * one).sum() for one in whole)
        (y,) = gradients([total], [x])
    given = rng.standard_normal(x.shape).astype(np.float32)
    proto = to_onnx(graph, {"f": Signature({"x": x}, {"y": y})})
    importlib.import_module("onnx").checker.check_model(proto, full_check=True)
    with Session(graph) as session:
        wanted = session.run(y, {x: given})
    np.testing.assert_allclose(run_onnx(proto, {"x": given})[0], wanted, rtol=1e-4, atol=1e-5)


def test_what_is_read_trains_and_is_saved(tmp_path: Any) -> None:
    """The weight that a loop's body captures is a variable, to which a gradient flows."""
    proto = to_onnx(recurrent, {"f": Signature({"x": TensorSpec(("batch", 4, 3))})})
    save(tmp_path / "model", from_onnx(proto))
    module = load(tmp_path / "model").module()
    x = rng.standard_normal((2, 4, 3)).astype(np.float32)
    (one,) = [p for _, p in module.named_parameters()]
    for function in (module, recurrent):
        WEIGHT.grad = None
        h = function(Tensor(x))
        h = next(iter(h.values())) if isinstance(h, dict) else h[0]
        (h * h).sum().backward()
    np.testing.assert_allclose(one.grad.numpy(), WEIGHT.grad.numpy(), rtol=1e-5, atol=1e-6)


# What other programs write


def graph_of(body: Any, inputs: list[tuple[str, int, list[Any]]], outputs: list[tuple[str, int, list[Any]]]) -> Any:
    helper = importlib.import_module("onnx").helper
    ends = [[helper.make_tensor_value_info(*one) for one in side] for side in (inputs, outputs)]
    return helper.make_graph(body, "g", *ends)


def loop(*, most: Any, going: Any, body: list[Any], outputs: list[tuple[str, int, list[Any]]], results: int) -> Any:
    """A model of one Loop over a state `v` of two floats, with `x` as its start."""
    onnx = importlib.import_module("onnx")
    helper, arrays = onnx.helper, onnx.numpy_helper
    inner = graph_of(body, [("i", 7, []), ("go", 9, []), ("v", 1, [2])], outputs)
    names = ["" if value is None else name for name, value in (("most", most), ("going", going))]
    node = helper.make_node("Loop", [*names, "x"], [f"y{i}" for i in range(results)], "it", body=inner)
    tensors = [arrays.from_array(np.asarray(one), n) for n, one in (("most", most), ("going", going)) if n in names]
    ends = [("x", 1, [2])], [(f"y{i}", 1, None) for i in range(results)]
    whole = graph_of([node], *ends)
    whole.initializer.extend(tensors)
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def step(*extra: Any, condition: str = "Identity") -> list[Any]:
    """v + v, and whether to go on."""
    node = importlib.import_module("onnx").helper.make_node
    going = [node("Identity", ["go"], ["on"])]
    if condition == "small":
        going = [node("ReduceSum", ["w"], ["s"], keepdims=0), node("Constant", [], ["limit"], value_float=20.0),
                 node("Less", ["s", "limit"], ["on"])]  # fmt: skip
    return [node("Add", ["v", "v"], ["w"]), *going, *extra]


ON, NEXT = ("on", 9, []), ("w", 1, [2])
LOOPS: dict[str, tuple[dict[str, Any], Callable[[np.ndarray], list[np.ndarray]]]] = {
    "a number of rounds": ({"most": 3, "going": True, "body": step(), "outputs": [ON, NEXT], "results": 1},
                           lambda x: [8 * x]),
    "no condition": ({"most": 3, "going": None, "body": step(), "outputs": [ON, NEXT], "results": 1},
                     lambda x: [8 * x]),
    "no rounds": ({"most": 0, "going": None, "body": step(), "outputs": [ON, NEXT], "results": 1}, lambda x: [x]),
    "never begun": ({"most": 3, "going": False, "body": step(), "outputs": [ON, NEXT], "results": 1}, lambda x: [x]),
    "what rounds give": ({"most": 3, "going": True, "body": step(), "outputs": [ON, NEXT, ("v", 1, [2])], "results": 2},
                         lambda x: [8 * x, np.stack([x, 2 * x, 4 * x])]),
    "as long as it is small": ({"most": None, "going": True, "body": step(condition="small"), "outputs": [ON, NEXT],
                                "results": 1}, lambda x: [x * 2.0 ** max(1, np.ceil(np.log2(20 / x.sum())))]),
    "small, and at most so often": ({"most": 2, "going": True, "body": step(condition="small"), "outputs": [ON, NEXT],
                                     "results": 1}, lambda x: [x * (4 if 2 * x.sum() < 20 else 2)]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_loops_as_others_write_them(name: str) -> None:
    settings, formula = LOOPS[name]
    proto = loop(**settings)
    model = from_onnx(proto)
    for scale in (1.0, 9.0):
        x = (scale * rng.uniform(0.5, 1.0, 2)).astype(np.float32)
        came = list(model.signature()(x=x).values())
        same(came, [one.astype(np.float32) for one in formula(x)])
        same(run_onnx(to_onnx(model), {"x": x}), run_onnx(proto, {"x": x}))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_control_flow_that_torch_exports() -> None:
    torch = importlib.import_module("torch")

    class Flow(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if bool(x.sum() > 0):
                x = self.layer(x)
            else:
                x = x - 1
            for _ in range(3):
                x = torch.tanh(self.layer(x)) + x
            while bool(x.abs().sum() < 50):
                x = x * 2 + 1
            return x

    Flow.forward.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    flow = torch.jit.script(Flow())
    file = io.BytesIO()
    torch.onnx.export(flow, (torch.randn(2, 3),), file, dynamo=False, opset_version=17, input_names=["x"],
                      dynamic_axes={"x": {0: "batch"}})  # fmt: skip
    model = from_onnx(file.getvalue())
    for shift in (-1.0, 1.0):
        x = torch.randn(4, 3) + shift
        (came,) = model.signature()(x=x.numpy()).values()
        np.testing.assert_allclose(came, flow(x).detach().numpy(), rtol=1e-4, atol=1e-4)


# What is refused


def other(kind: str, **graphs: Any) -> Any:
    """A model of one node with graphs in it, on a fed x."""
    helper = importlib.import_module("onnx").helper
    inputs = graphs.pop("inputs", ["x"])
    node = helper.make_node(kind, inputs, ["y"], "it", **graphs)
    whole = graph_of([node], [("x", graphs.pop("dtype", 9), [])], [("y", 1, None)])
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def constant(value: list[float], name: str = "c") -> Any:
    node = importlib.import_module("onnx").helper.make_node("Constant", [], [name], value_floats=value)
    return graph_of([node], [], [(name, 1, [len(value)])])


def nested(depth: int) -> Any:
    graph = constant([1.0])
    for _ in range(depth):
        node = importlib.import_module("onnx").helper.make_node(
            "If", ["x"], ["c"], then_branch=graph, else_branch=constant([2.0])
        )
        graph = graph_of([node], [], [("c", 1, [1])])
    return graph


def reading(name: str) -> Any:
    return graph_of([importlib.import_module("onnx").helper.make_node("Neg", [name], ["c"])], [], [("c", 1, None)])


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "branches of different shapes": (
        lambda: other("If", then_branch=constant([1.0]), else_branch=constant([1.0, 2.0])), "branches differ"),
    "a branch that is missing": (lambda: other("If", then_branch=constant([1.0])), "else_branch"),
    "a branch that is a number": (lambda: other("If", then_branch=constant([1.0]), else_branch=3), "is no graph"),
    "a branch that reads what is not there": (
        lambda: other("If", then_branch=reading("gone"), else_branch=constant([1.0])), "reads 'gone'"),
    "a branch with an unknown operator": (lambda: other("If", then_branch=graph_of(
        [importlib.import_module("onnx").helper.make_node("Teleport", [], ["c"])], [], [("c", 1, [1])]),
        else_branch=constant([1.0])), "it is a Teleport|is a Teleport"),
    "a loop whose body takes too little": (
        lambda: other("Loop", body=constant([1.0]), inputs=["", "x"]), "its body takes 0"),
    "rounds that are stacked, as many as it happens": (
        lambda: loop(most=None, going=True, body=step(condition="small"), outputs=[ON, NEXT, ("v", 1, [2])],
                     results=2), "known only when the model runs"),
    "a state that grows": (
        lambda: loop(most=10**6, going=True, outputs=[ON, NEXT], results=1, body=[
            *step()[1:], importlib.import_module("onnx").helper.make_node("Concat", ["v", "v"], ["w"], axis=0)]),
        "carry before and after"),
    "a scan over nothing": (lambda: other("Scan", body=constant([1.0]), num_scan_inputs=0), "its body takes 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_graphs_in_nodes_that_make_no_sense(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(FormatError, match=f"(?s)from_onnx: .*({message})"):
        from_onnx(make())


def test_branches_in_branches() -> None:
    model = from_onnx(other("If", then_branch=nested(8), else_branch=constant([3.0])))
    assert [model.signature()(x=np.array(one))["y"].item() for one in (True, False)] == [1.0, 3.0]


def test_a_file_of_graphs_without_end_is_refused() -> None:
    def field(number: int, data: bytes) -> bytes:
        size, length = len(data), b""
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + data

    graph = field(1, field(4, b"If"))
    for _ in range(3000):
        graph = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, graph)))
    with pytest.raises(FormatError, match="from_onnx: this is no ONNX model"):
        from_onnx(field(7, graph))


def test_a_loop_without_end_is_not_run_while_it_is_read() -> None:
    """Nothing in it is fed; it is built, and given up when it runs."""
    proto = loop(most=None, going=True, body=step(), outputs=[ON, NEXT], results=1)
    model = from_onnx(proto, fixed={"x": np.zeros(2, np.float32)})
    assert "while_loop" in [node.op.name for node in model.content().graph.nodes]


def test_what_a_loop_can_not_be_written_as() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((3,), name="x")
        (slope,) = gradients([doubling(x).sum()], [x])
    with pytest.raises(FormatError, match="(?s)made at .*while_loop_gradient.*use scan"):
        to_onnx(graph, {"f": Signature({"x": x}, {"y": slope})})


def test_a_body_that_is_another_program_at_another_size_is_refused() -> None:
    def function(x: Any) -> Any:
        rows = x.shape[0]
        return while_loop(lambda v: v.sum() < 10, lambda v: [ops.reshape(v * rows, shape=(rows, 3)) + 1], [x])[0]

    with pytest.raises(SignatureError, match="no one graph is right for every size"):
        to_onnx(function, {"f": Signature({"x": TensorSpec(("batch", 3))})})
