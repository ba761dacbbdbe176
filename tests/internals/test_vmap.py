"""vmap: every row on a batch against a loop over its examples, and what nests in what, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from op_answers import assert_close, call, laid_out, to_host
from op_examples import GROUPS, Example, Group

from internals import Tensor, device, nn, no_grad, ops
from internals.autodiff import grad, gradient, hessian, jvp, vjp, vmap
from internals.autodiff.batching import batching_rule
from internals.ops import TABLE

DEVICES = ["cpu", "sim:0"]
ROWS = [group for group in GROUPS if group.dtype == "float64"]
COUNT = 3


def variants(example: Example) -> list[list[np.ndarray]]:
    """`COUNT` draws of the example's inputs, from where its own come from."""
    rng, values = np.random.default_rng(example.rng.integers(1 << 30)), example.case.values
    sources = values if isinstance(values, tuple) else (values,) * len(example.shapes)
    return [
        [
            x if x.dtype.kind != "f" else np.asarray(source(rng, shape)).astype(x.dtype)
            for x, source, shape in zip(example.inputs(), sources, example.shapes, strict=True)
        ]
        for _ in range(COUNT)
    ]


def row(example: Example, where: str) -> Any:
    return lambda *inputs: call(example, list(inputs), where)


def results(out: Any) -> list[Any]:
    return list(out) if isinstance(out, tuple | list) else [out]


def check_against_a_loop(example: Example, where: str, shared: tuple[int, ...]) -> None:
    """Values and gradients; the inputs at `shared` are the same for all examples."""
    each = variants(example)
    stacked = [each[0][i] if i in shared else np.stack([one[i] for one in each]) for i in range(len(each[0]))]
    in_axes = tuple(None if i in shared else 0 for i in range(len(stacked)))
    batch = [laid_out(array, "plain", where) for array in stacked]
    wrt = [batch[i] for i in example.wrt() if TABLE[example.case.op].differentiable]
    for x in wrt:
        x.requires_grad = True
    outs = results(vmap(row(example, where), in_axes=in_axes)(*batch))
    with no_grad():
        slices = [
            [laid_out(stacked[i] if i in shared else stacked[i][b], "plain", where) for i in range(len(stacked))]
            for b in range(COUNT)
        ]
    wanted = []
    for one in slices:
        for i in example.wrt() if wrt else ():
            one[i].requires_grad = True
        wanted.append(results(row(example, where)(*one)))
    for k, out in enumerate(outs):
        want = np.stack([to_host(one[k]) for one in wanted])
        assert out.dtype == want.dtype, str(example)
        assert_close(to_host(out), want, str(example), (1e-10, 1e-12) if want.dtype == np.float64 else None)
        if not out.requires_grad:
            continue
        start = np.random.default_rng(1).standard_normal(out.shape).astype(out.dtype)
        found = grad(out, wrt, Tensor(start, device=out.device), allow_unused=True, retain_graph=True)
        for position, gradient_found in zip(example.wrt(), found, strict=True):
            pieces = [
                grad(one[k], ins[position], Tensor(g, device=out.device), allow_unused=True, retain_graph=True)
                for one, ins, g in zip(wanted, slices, start, strict=True)
            ]
            if all(piece is None for piece in pieces):
                assert gradient_found is None or not np.any(to_host(gradient_found))
                continue
            full = np.stack([to_host(piece) for piece in pieces])
            want = full.sum(axis=0) if position in shared else full
            assert_close(to_host(gradient_found), want, f"{example}: input {position}", (1e-9, 1e-10))


@pytest.mark.parametrize("group", ROWS, ids=str)
def test_every_row_on_a_batch_is_a_loop_over_its_examples(group: Group) -> None:
    check_against_a_loop(group.examples[0], "cpu", ())


@pytest.mark.slow
@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize("group", ROWS, ids=str)
def test_whatever_inputs_the_examples_share(group: Group, where: str) -> None:
    for example in group.examples if where == "cpu" else group.examples[:1]:
        if example.layout != "plain":
            continue
        count = len(example.shapes)
        choices = {(), *[(i,) for i in range(count)], *[tuple(j for j in range(count) if j != i) for i in range(count)]}
        for shared in sorted(choices):
            if len(shared) < count:
                check_against_a_loop(example, where, shared)


# Rows that run once for the whole batch, besides the element-wise ones; what is not named may go example by example.
ONCE = """
    adaptive_avg_pool2d adaptive_avg_unpool2d all any argmax argmin argsort avg_pool2d avg_unpool2d
    binary_cross_entropy broadcast_to cast cholesky clip concat conv1d conv1d_weight conv2d conv2d_weight
    conv_transpose1d conv_transpose2d cross_entropy cumprod cumsum det diag_embed diagonal dropout eigh einsum
    expand_dims flip gather getitem huber index_put inverse kl_div l1 linear log_softmax logsumexp matmul max
    max_pool2d max_pool2d_index mean min mse nll norm normalise one_hot outer pad pick2d prod products_of_others
    qr repeat reshape rms_normalise roll scaled_dot_product scatter scatter_add slogdet softmax solve sort squeeze
    stack std sum svd take tile topk transfer transpose triangular_solve tril triu unindex unpool2d untake var
"""


def test_which_rows_run_once_for_the_whole_batch() -> None:
    for name in [*ONCE.split(), *[name for name, op in TABLE.items() if op.expr]]:
        assert batching_rule(TABLE[name]) is not None, name
    assert batching_rule(TABLE["ctc"]) is None


def launches(where: Any, run: Any) -> int:
    where.reset()
    run()
    return int(where.counters.launches)


@pytest.mark.parametrize("op", ["tanh", "matmul", "linear", "conv2d", "softmax", "sum", "getitem", "cross_entropy"])
def test_a_fast_row_does_as_many_launches_for_100_examples_as_for_2(op: str) -> None:
    sim: Any = device("sim:0")
    weight = Tensor(np.ones((4, 4)), device="sim:0")
    filters = Tensor(np.ones((2, 1, 3, 3)), device="sim:0")
    target = Tensor(np.array([0, 2, 1, 1]), device="sim:0")
    run = {
        "tanh": ops.tanh,
        "matmul": lambda x: x @ weight,
        "linear": lambda x: ops.linear(x, weight, 0.0),
        "conv2d": lambda x: ops.conv2d(x[None, None], filters),
        "softmax": lambda x: ops.softmax(x, axis=0),
        "sum": lambda x: x.sum(),
        "getitem": lambda x: x[[0, 2], 1:],
        "cross_entropy": lambda x: ops.cross_entropy(x, target),
    }[op]
    few, many = (Tensor(np.ones((n, 4, 4)), device="sim:0") for n in (2, 100))
    assert launches(sim, lambda: vmap(run)(few)) == launches(sim, lambda: vmap(run)(many))


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    return [rng.standard_normal(shape) for shape in shapes]


def test_gradients_for_each_example_of_a_network_as_torch() -> None:
    """Every parameter's gradient for every example, in one pass (Goodfellow 2015)."""
    x, kernel, w, b = arrays((6, 1, 5, 5), (3, 1, 2, 2), (48, 4), (4,))
    y = np.array([0, 3, 1, 2, 2, 0])

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = ops.tanh(ops.conv2d(x[None], p["kernel"]))
        return ops.cross_entropy(ops.linear(h.reshape(1, -1), p["w"], p["b"]), y[None])

    def theirs(p: Any, x: Any, y: Any) -> Any:
        h = torch.tanh(torch.nn.functional.conv2d(x[None], p["kernel"]))
        return torch.nn.functional.cross_entropy(h.reshape(1, -1) @ p["w"] + p["b"], y[None])

    found = vmap(gradient(loss), in_axes=(None, 0, 0))(
        {"kernel": Tensor(kernel), "w": Tensor(w), "b": Tensor(b)}, Tensor(x), Tensor(y)
    )
    want = torch.func.vmap(torch.func.grad(theirs), in_dims=(None, 0, 0))(
        {"kernel": torch.tensor(kernel), "w": torch.tensor(w), "b": torch.tensor(b)}, torch.tensor(x), torch.tensor(y)
    )
    for name, gradient_wanted in want.items():
        assert_close(to_host(found[name]), gradient_wanted.numpy(), name, (1e-9, 1e-11))


@pytest.mark.parametrize("in_axes", [(0, 1), (1, None), (None, -1), (-1, 0)])
@pytest.mark.parametrize("out_axes", [0, 1, -1])
def test_axes_in_and_out_as_torch(in_axes: Any, out_axes: int) -> None:
    x, y = arrays((3, 3, 3), (3, 3, 3))
    found = vmap(lambda a, b: a @ b.T, in_axes, out_axes)(Tensor(x), Tensor(y))
    want = torch.func.vmap(lambda a, b: a @ b.T, in_axes, out_axes)(torch.tensor(x), torch.tensor(y))
    assert_close(to_host(found), want.numpy(), "product", (1e-12, 1e-12))


def test_batches_of_batches_as_torch() -> None:
    x, y = arrays((3, 4), (5, 4))

    def pairs(map_over: Any) -> Any:
        def distance(a: Any, b: Any) -> Any:
            return ((a - b) ** 2).sum()

        return map_over(map_over(distance, (None, 0)), (0, None))

    found = pairs(vmap)(Tensor(x), Tensor(y))
    assert_close(to_host(found), pairs(torch.func.vmap)(torch.tensor(x), torch.tensor(y)).numpy(), "pairs")


def test_structures_in_and_out() -> None:
    x, y = arrays((3, 2), (2, 3))
    out = vmap(lambda p, s: {"sum": p["x"] + p["y"] * s, "shared": Tensor([1.0, 2.0])}, ({"x": 0, "y": 1}, None), 0)(
        {"x": Tensor(x), "y": Tensor(y)}, 2.0
    )
    np.testing.assert_allclose(to_host(out["sum"]), x + 2 * y.T)
    np.testing.assert_array_equal(to_host(out["shared"]), [[1, 2]] * 3)
    shared = vmap(lambda x: (x, Tensor([1.0])), out_axes=(0, None))(Tensor(x))[1]
    assert shared.shape == (1,)


def test_an_index_that_differs_from_example_to_example() -> None:
    (x,) = arrays((3, 4))
    index = Tensor([[0, 2], [1, 1], [3, 0]])
    want = np.take_along_axis(x, index.data, 1)
    np.testing.assert_array_equal(to_host(vmap(lambda x, i: x[i])(Tensor(x), index)), want)
    np.testing.assert_array_equal(to_host(vmap(lambda i: ops.take(Tensor(x[0]), i))(index)), x[0][index.data])
    slope = vmap(gradient(lambda x, i: (x[i] ** 2).sum()))(Tensor(x), index)
    theirs = torch.tensor(x, requires_grad=True)
    (torch.take_along_dim(theirs, torch.tensor(index.data), 1) ** 2).sum().backward()
    assert_close(to_host(slope), theirs.grad.numpy(), "gradient")


def test_random_rows_share_a_mask_or_not() -> None:
    """With one seed "same" is what a loop over the examples gives; "different" is a mask for each."""
    x = Tensor(np.ones((50, 8)))

    def f(x: Any) -> Any:
        return ops.dropout(x, p=0.5, seed=3)

    same = to_host(vmap(f)(x))
    np.testing.assert_array_equal(same, np.stack([to_host(f(x[i])) for i in range(50)]))
    apart = to_host(vmap(f, randomness="different")(x))
    assert len({tuple(row) for row in apart}) > 10
    slope = to_host(vmap(gradient(lambda x: f(x).sum()), randomness="different")(x))
    np.testing.assert_array_equal(slope, apart)
    kept = to_host(vmap(f)(Tensor(np.full((2, 8), np.inf))))
    assert not np.isnan(kept).any()


@pytest.mark.parametrize("f", [ops.tanh, lambda x: x @ x, lambda x: ops.tensordot(x, x, axes=1), lambda x: x[0]])
def test_no_examples_and_one(f: Any) -> None:
    for count in (0, 1):
        out = vmap(f)(Tensor(np.ones((count, 3))))
        assert out.shape == (count, *f(Tensor(np.ones(3))).shape)
    slope = gradient(lambda x: vmap(f)(x).sum())(Tensor(np.ones((0, 3))))
    assert slope.shape == (0, 3)


def test_what_comes_out_is_on_the_tape() -> None:
    x = Tensor(np.ones((3, 2)), requires_grad=True)
    out = vmap(lambda x: x)(x)
    assert out.requires_grad
    out.sum().backward()
    np.testing.assert_array_equal(to_host(x.grad), np.ones((3, 2)))


@pytest.mark.slow
def test_under_the_transformations_and_over_them() -> None:
    (x,) = arrays((3, 4))
    f, g = lambda x: (ops.sin(x) * x).sum(), lambda x: (torch.sin(x) * x).sum()
    found = vmap(hessian(f))(Tensor(x))
    assert_close(to_host(found), torch.func.vmap(torch.func.hessian(g))(torch.tensor(x)).numpy(), "Hessians")
    value, tangent = jvp(vmap(gradient(f)), Tensor(x), Tensor(x))
    want = torch.func.jvp(torch.func.vmap(torch.func.grad(g)), (torch.tensor(x),), (torch.tensor(x),))
    assert_close(to_host(value), want[0].numpy(), "value")
    assert_close(to_host(tangent), want[1].numpy(), "tangent")
    out, pull = vjp(vmap(f), Tensor(x))
    theirs, their_pull = torch.func.vjp(torch.func.vmap(g), torch.tensor(x))
    assert_close(to_host(pull(out)[0]), their_pull(theirs)[0].numpy(), "cotangent")


def test_a_module_on_every_example() -> None:
    (x,) = arrays((5, 3))
    layer = nn.Linear(3, 2)
    np.testing.assert_allclose(
        to_host(vmap(layer)(Tensor(x, dtype="float32"))), to_host(layer(Tensor(x, dtype="float32"))), rtol=1e-6
    )
