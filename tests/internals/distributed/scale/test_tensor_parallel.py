"""Layers over ranks are the single layers: forward, gradients, training, state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from internals import Tensor, grad, nn, ops, optim
from internals.autodiff import jvp
from internals.distributed.group import Group, run_threads
from internals.distributed.scale.tensor_parallel import (
    ColumnParallelLinear,
    ParallelAttention,
    ParallelMLP,
    ParallelTransformerBlock,
    RowParallelLinear,
    VocabularyParallelEmbedding,
    copied,
    gathered,
    scattered,
    summed,
    vocabulary_parallel_cross_entropy,
)

Make = Callable[[], Any]
WIDTH, HIDDEN, HEADS = 8, 24, 4


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


class MLP(nn.Module):
    def __init__(self) -> None:
        source = rng()
        self.linear1 = nn.Linear(WIDTH, HIDDEN, rng=source)
        self.linear2 = nn.Linear(HIDDEN, WIDTH, rng=source)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(ops.gelu(self.linear1(x)))


class Cross(nn.Module):
    """Two blocks in a row, so that what the first hands on is checked by the second."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


MODULES: dict[str, tuple[Make, Callable[[Group], Any]]] = {
    "columns": (
        lambda: nn.Linear(WIDTH, HIDDEN, rng=rng()),
        lambda group: ColumnParallelLinear(WIDTH, HIDDEN, group=group, rng=rng()),
    ),
    "columns, no bias": (
        lambda: nn.Linear(WIDTH, HIDDEN, bias=False, rng=rng()),
        lambda group: ColumnParallelLinear(WIDTH, HIDDEN, group=group, bias=False, rng=rng()),
    ),
    "rows": (
        lambda: nn.Linear(WIDTH, HIDDEN, rng=rng()),
        lambda group: RowParallelLinear(WIDTH, HIDDEN, group=group, rng=rng()),
    ),
    "MLP": (MLP, lambda group: ParallelMLP(WIDTH, HIDDEN, group=group, activation="gelu", rng=rng())),
    "attention": (
        lambda: nn.MultiheadAttention(WIDTH, HEADS, rng=rng()),
        lambda group: ParallelAttention(WIDTH, HEADS, group=group, rng=rng()),
    ),
    "block": (
        lambda: nn.TransformerBlock(WIDTH, HEADS, HIDDEN, rng=rng()),
        lambda group: ParallelTransformerBlock(WIDTH, HEADS, HIDDEN, group=group, rng=rng()),
    ),
    "block, normalised first, silu": (
        lambda: nn.TransformerBlock(WIDTH, HEADS, HIDDEN, norm_first=True, activation="silu", rng=rng()),
        lambda group: ParallelTransformerBlock(
            WIDTH, HEADS, HIDDEN, norm_first=True, activation="silu", group=group, rng=rng()
        ),
    ),
}


def trained(module: Any, x: np.ndarray, cotangent: np.ndarray, make_optimizer: Any) -> dict[str, Any]:
    """A forward and a backward pass, and three steps of training."""
    given = Tensor(x, requires_grad=True)
    out = module(given)
    (out * Tensor(cotangent)).sum().backward()
    first = {"out": out.detach().numpy().copy(), "by x": given.grad.numpy().copy()}
    first["gradients"] = {name: one.grad.numpy().copy() for name, one in module.named_parameters()}
    optimizer = make_optimizer(module.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        (module(Tensor(x)) * Tensor(cotangent)).sum().backward()
        optimizer.step()
    whole = getattr(module, "whole_state_dict", module.state_dict)
    return {**first, "state": whole()}


def beside(group: Group, make: Any, *arguments: Any) -> dict[str, Any]:
    return trained(make(group), *arguments)


@pytest.mark.parametrize("optimizer", ["sgd", pytest.param("adam", marks=pytest.mark.slow)])
@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODULES)
def test_equal_to_the_single_module(name: str, size: int, optimizer: str) -> None:
    single, parallel = MODULES[name]
    source = np.random.default_rng(3)
    x = source.standard_normal((2, 3, WIDTH)).astype(np.float32)
    out = single()(Tensor(x))
    cotangent = source.standard_normal(out.shape).astype(np.float32)
    # A bias of the keys has no influence, so its gradient is rounding only, which Adam would blow up but for eps.
    makers = {"sgd": lambda p: optim.SGD(p, lr=0.05, momentum=0.9), "adam": lambda p: optim.Adam(p, lr=0.01, eps=1e-3)}
    expected = trained(single(), x, cotangent, makers[optimizer])
    for found in run_threads(size, beside, parallel, x, cotangent, makers[optimizer]):
        np.testing.assert_allclose(found["out"], expected["out"], rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(found["by x"], expected["by x"], rtol=2e-5, atol=2e-5)
        assert found["state"].keys() == expected["state"].keys()
        for key, value in expected["state"].items():
            np.testing.assert_allclose(found["state"][key], value, rtol=1e-3, atol=1e-4, err_msg=key)


def gradients_cut(group: Group, name: str, x: np.ndarray, cotangent: np.ndarray) -> Any:
    from internals.distributed.scale.tensor_parallel.parallel import cuts_of

    module = MODULES[name][1](group)
    (module(Tensor(x)) * Tensor(cotangent)).sum().backward()
    cuts = cuts_of(module)
    return {key: (one.grad.numpy(), cuts.get(key)) for key, one in module.named_parameters()}


@pytest.mark.parametrize("name", ["columns", "rows", "MLP", "attention", "block"])
def test_each_rank_has_its_part_of_the_gradients(name: str) -> None:
    """Before any optimizer, which would hide a factor: Adam does not see one."""
    source = np.random.default_rng(5)
    x = source.standard_normal((2, 3, WIDTH)).astype(np.float32)
    module = MODULES[name][0]()
    out = module(Tensor(x))
    cotangent = source.standard_normal(out.shape).astype(np.float32)
    (out * Tensor(cotangent)).sum().backward()
    by_rank = run_threads(2, gradients_cut, name, x, cotangent)
    for key, one in module.named_parameters():
        parts, cut = [found[key][0] for found in by_rank], by_rank[0][key][1]
        for found in [cut.whole(parts)] if cut else parts:
            np.testing.assert_allclose(found, one.grad.numpy(), rtol=2e-5, atol=2e-5, err_msg=key)


def holds(group: Group) -> tuple[int, int]:
    block = ParallelTransformerBlock(WIDTH, HEADS, HIDDEN, group=group)
    return block.num_parameters(), sum(value.size for value in block.whole_state_dict().values())


def test_a_rank_holds_its_share_only() -> None:
    single = nn.TransformerBlock(WIDTH, HEADS, HIDDEN)
    cut = sum(one.size for key, one in single.named_parameters() if "proj" in key or "linear" in key)
    cut -= 2 * WIDTH  # the biases that are added after a sum
    for mine, whole in run_threads(4, holds):
        assert whole == single.num_parameters()
        assert mine == whole - cut + cut // 4


def loaded_whole(group: Group, state: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    block = ParallelTransformerBlock(WIDTH, HEADS, HIDDEN, group=group)
    block.load_whole_state_dict(state)
    return block(Tensor(x), causal=True).detach().numpy()


def test_a_state_of_the_single_module_is_taken() -> None:
    single = nn.TransformerBlock(WIDTH, HEADS, HIDDEN)
    x = np.random.default_rng(4).standard_normal((2, 5, WIDTH)).astype(np.float32)
    expected = single(Tensor(x), causal=True).detach().numpy()
    for found in run_threads(2, loaded_whole, single.state_dict(), x):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def words(group: Group, ids: np.ndarray, target: np.ndarray, reduction: str) -> Any:
    source = rng()
    embedding = VocabularyParallelEmbedding(12, WIDTH, group=group, rng=source)
    head = ColumnParallelLinear(WIDTH, 12, group=group, gather_output=False, rng=source)
    loss = vocabulary_parallel_cross_entropy(
        head(embedding(Tensor(ids))), Tensor(target), group=group, reduction=reduction
    )
    weights = Tensor(np.linspace(-1, 2, loss.size).astype(np.float32).reshape(loss.shape))
    (loss * weights).sum().backward()
    return loss.detach().numpy(), embedding.weight.grad.numpy(), head.weight.grad.numpy()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_vocabulary_over_ranks(size: int, reduction: str) -> None:
    source = np.random.default_rng(11)
    ids, target = source.integers(12, size=9), source.integers(12, size=9)
    own = rng()
    embedding, head = nn.Embedding(12, WIDTH, rng=own), nn.Linear(WIDTH, 12, rng=own)
    loss = ops.cross_entropy(head(embedding(Tensor(ids))), Tensor(target), reduction=reduction)
    weights = Tensor(np.linspace(-1, 2, loss.size).astype(np.float32).reshape(loss.shape))
    (loss * weights).sum().backward()
    found = run_threads(size, words, ids, target, reduction)
    for value, _, _ in found:
        np.testing.assert_allclose(value, loss.detach().numpy(), rtol=1e-5, atol=1e-6)
    rows = np.concatenate([one for _, one, _ in found])
    np.testing.assert_allclose(rows, embedding.weight.grad.numpy(), rtol=1e-4, atol=1e-6)
    columns = np.concatenate([one for _, _, one in found], 1)
    np.testing.assert_allclose(columns, head.weight.grad.numpy(), rtol=1e-4, atol=1e-6)


def large_logits(group: Group, logits: np.ndarray, target: np.ndarray) -> float:
    mine = np.split(logits, group.size, 1)[group.rank]
    return vocabulary_parallel_cross_entropy(Tensor(mine), Tensor(target), group=group).item()


def test_large_logits_do_not_overflow() -> None:
    logits = np.random.default_rng(0).uniform(-1e4, 1e4, (4, 6)).astype(np.float32)
    target = np.array([0, 5, 3, 2])
    expected = ops.cross_entropy(Tensor(logits), Tensor(target)).item()
    for found in run_threads(2, large_logits, logits, target):
        assert found == pytest.approx(expected, rel=1e-5)


def conjugates(group: Group, x: np.ndarray, tangent: np.ndarray) -> Any:
    own = Tensor(x[group.rank], requires_grad=True)
    total = summed(own, group=group)
    slope = grad((copied(total, group=group) * Tensor(x[group.rank])).sum(), own, create_graph=True)
    second = grad((slope * slope).sum(), own) if slope.requires_grad else None
    pushed = jvp(lambda one: summed(one, group=group), (Tensor(x[group.rank]),), (Tensor(tangent[group.rank]),))[1]
    back = scattered(gathered(own, group=group), group=group)
    return total.detach().numpy(), slope.detach().numpy(), second, pushed.detach().numpy(), back.detach().numpy()


def test_the_conjugate_pairs() -> None:
    source = np.random.default_rng(2)
    x, tangent = (source.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
    for rank, (total, slope, second, pushed, back) in enumerate(run_threads(3, conjugates, x, tangent)):
        np.testing.assert_allclose(total, x.sum(0), rtol=1e-5)
        np.testing.assert_allclose(slope, x.sum(0), rtol=1e-5)  # the sum over ranks of what each multiplied by
        assert second is None
        np.testing.assert_allclose(pushed, tangent.sum(0), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(back, x[rank])


BAD = {
    "columns": (lambda g: ColumnParallelLinear(8, 9, group=g), "out_features 9 does not divide into 2"),
    "rows": (lambda g: RowParallelLinear(9, 8, group=g), "in_features 9 does not divide into 2"),
    "heads": (lambda g: ParallelAttention(9, 3, group=g), "3 heads do not divide over 2 ranks"),
    "words": (lambda g: VocabularyParallelEmbedding(9, 2, group=g), "num_embeddings 9 does not divide"),
    "activation": (lambda g: ParallelMLP(8, 8, group=g, activation="step"), "activation 'step' is not one of"),
    "width": (
        lambda g: ColumnParallelLinear(8, 8, group=g)(Tensor(np.zeros((2, 7), np.float32))),
        r"an input of shape \(2, 7\) does not end in in_features = 8",
    ),
    "width of rows": (
        lambda g: RowParallelLinear(8, 8, group=g, split_input=False)(Tensor(np.zeros((2, 8), np.float32))),
        r"does not end in in_features = 4",
    ),
    "time": (
        lambda g: ParallelAttention(8, 2, group=g)(Tensor(np.zeros((2, 8), np.float32))),
        r"expected \(batch, time, 8\)",
    ),
    "a word too many": (
        lambda g: VocabularyParallelEmbedding(8, 2, group=g)(Tensor(np.array([3, 8]))),
        "ids go from 3 to 8, but there are rows 0 to 7",
    ),
    "a word that is no number": (
        lambda g: VocabularyParallelEmbedding(8, 2, group=g)(Tensor(np.array([0.5]))),
        "ids must be integers",
    ),
    "a target too many": (
        lambda g: vocabulary_parallel_cross_entropy(
            Tensor(np.zeros((1, 4), np.float32)), Tensor(np.array([8])), group=g
        ),
        "targets go from 8 to 8, but there are 8 classes",
    ),
    "targets of another length": (
        lambda g: vocabulary_parallel_cross_entropy(
            Tensor(np.zeros((2, 4), np.float32)), Tensor(np.array([1])), group=g
        ),
        "expected .n, classes. and n integers",
    ),
    "an odd last axis": (lambda g: scattered(Tensor(np.zeros(3, np.float32)), group=g), "can't be cut into 2"),
}


def does(group: Group, make: Any) -> None:
    make(group)


@pytest.mark.parametrize("case", BAD)
def test_what_can_not_be_is_named(case: str) -> None:
    make, told = BAD[case]
    with pytest.raises((ValueError, TypeError, IndexError), match=told):
        run_threads(2, does, make)


def test_ranks_without_a_generator_start_with_the_same_numbers() -> None:
    first, second = run_threads(2, lambda group: ParallelMLP(4, 4, group=group).whole_state_dict())
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key])
