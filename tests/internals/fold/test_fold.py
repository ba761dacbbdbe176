"""What is run folded is what is run one by one: values and gradients, whatever the examples look like."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from internals import Tensor, fold, nn, no_grad, ops
from internals.autodiff import AnomalyError, detect_anomaly, gradient, vmap
from internals.device import DeviceError, device

RNG = np.random.default_rng(20)
N = 5


def parameter(*shape: int) -> Tensor:
    return Tensor(RNG.standard_normal(shape).astype(np.float32), requires_grad=True)


TABLE, W, B, V = parameter(9, N), parameter(2 * N, N), parameter(N), parameter(2 * N, N)
PARAMETERS = [TABLE, W, B, V]


def tree(rng: np.random.Generator, leaves: int) -> Any:
    if leaves == 1:
        return int(rng.integers(9))
    left = int(rng.integers(1, leaves))
    return tree(rng, left), tree(rng, leaves - left)


def encode(example: Any, start: Callable[[Any], Any], weight: Any = W) -> Any:
    """A recursive network (Socher et al. 2011)."""
    if isinstance(example, int):
        return ops.take(TABLE, start(example), axis=0)
    left, right = (encode(part, start, weight) for part in example)
    return ops.linear(ops.concat([left, right], axis=-1), weight, B).tanh()


def scan(example: list[int], start: Callable[[Any], Any]) -> Any:
    """A recurrent network that starts from a constant and uses a fixed number."""
    state = Tensor(np.zeros(N, np.float32))
    for word in example:
        x = ops.take(TABLE, start(word), axis=0)
        state = ops.linear(ops.concat([x, state], axis=-1), W, B).sigmoid() * 0.5 + state * 0.25
    return state


def mixed(example: Any, start: Callable[[Any], Any]) -> Any:
    """A tree or a sequence, with two sets of parameters, and a branch on what kind it is."""
    if isinstance(example, list):
        return scan(example, start)
    value = encode(example, start, V)
    return value - value.max() if isinstance(example, int) else value * value.softmax(axis=-1)


def several(example: Any, start: Callable[[Any], Any]) -> Any:
    """Rows with several results."""
    values, places = encode(example, start).sort(axis=-1)
    best, _ = values.topk(2, axis=-1)
    return values * (places + 1) + best[0] * best[1]


SINGLES = [tree(np.random.default_rng(k), k) for k in (1, 2, 3, 5, 8, 13)] * 2
SEQUENCES = [list(range(k % 9)) or [3] for k in range(1, 12)]
RIGHT: Any = 3
for _ in range(12):
    RIGHT = (1, RIGHT)
TABLE_OF_STRUCTURES = {
    "trees": (encode, SINGLES),
    "one tree": (encode, SINGLES[3:4]),
    "one leaf": (encode, [4]),
    "equal trees": (encode, [SINGLES[4]] * 7),
    "a comb": (encode, [RIGHT, (RIGHT, 2), 5]),
    "sequences": (scan, SEQUENCES),
    "one sequence": (scan, SEQUENCES[4:5]),
    "trees and sequences": (mixed, [*SINGLES, *SEQUENCES, 3, [1]]),
    "several results": (several, SINGLES),
}
STRUCTURES = pytest.mark.parametrize(
    ("function", "examples"), TABLE_OF_STRUCTURES.values(), ids=TABLE_OF_STRUCTURES.keys()
)
SCHEDULES = pytest.mark.parametrize("schedule", ["depth", "agenda"])


def pulled(outs: list[Any], cotangents: np.ndarray) -> list[np.ndarray | None]:
    for one in PARAMETERS:
        one.grad = None
    if outs:
        (ops.stack(outs) * Tensor(cotangents[: len(outs)])).sum().backward()
    return [None if one.grad is None else one.grad.numpy().copy() for one in PARAMETERS]


def compare(function: Any, examples: list[Any], schedule: Any, seed: int = 0) -> fold.Batch:
    cotangents = np.random.default_rng(seed).standard_normal((len(examples), N)).astype(np.float32)
    eager = [function(example, Tensor) for example in examples]
    batch = fold.Batch(schedule)
    folded = fold.each(lambda example: function(example, fold.defer), examples, batch=batch)
    for one, other in zip(folded, eager, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=2e-5, atol=1e-6)
    wanted = pulled(eager, cotangents)
    for one, other in zip(pulled(folded, cotangents), wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    with fold.Batch(schedule):
        values = [function(example, fold.defer) for example in examples]
    if values:
        whole = fold.stacked(values)
        np.testing.assert_allclose(
            whole.detach().numpy(), [one.detach().numpy() for one in eager], rtol=2e-5, atol=1e-6
        )
        for one, other in zip(pulled(list(whole), cotangents), wanted, strict=True):
            if other is not None:
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    return batch


@STRUCTURES
@SCHEDULES
def test_folded_is_one_by_one(function: Any, examples: list[Any], schedule: str) -> None:
    batch = compare(function, examples, schedule)
    assert sum(launch.size for launch in batch.launches) >= len(batch.launches)


@pytest.mark.parametrize("seed", range(12))
def test_random_structures(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    examples = [
        tree(rng, int(rng.integers(1, 12))) if rng.random() < 0.6 else rng.integers(0, 9, rng.integers(1, 8)).tolist()
        for _ in range(int(rng.integers(1, 12)))
    ]
    compare(mixed, examples, ("depth", "agenda")[seed % 2], seed)


def test_element_wise_rows_are_equal_to_the_bit() -> None:
    data = RNG.standard_normal((6, 4)).astype(np.float32)

    def function(x: Any) -> Any:
        return ((x * 1.5 - x.sigmoid()).tanh() + x.exp()).relu() * x[0]

    folded = fold.each(lambda row: function(fold.defer(row)), data)
    for one, row in zip(folded, data, strict=True):
        assert np.array_equal(one.numpy(), function(Tensor(row)).numpy())


def test_no_examples() -> None:
    assert fold.each(lambda example: fold.defer(example), []) == []
    with fold.Batch() as batch:
        pass
    assert batch.launches == []
    assert fold.run([]) == []


def test_all_of_one_kind_and_depth_is_one_launch() -> None:
    batch = fold.Batch()
    fold.each(lambda k: encode((k, k), fold.defer), range(9), batch=batch)
    assert [(launch.op, launch.size, launch.examples) for launch in batch.launches] == [
        ("take", 18, 9), ("concat", 9, 9), ("linear", 9, 9), ("tanh", 9, 9),
    ]  # fmt: skip


def test_two_sets_of_parameters_do_not_mix() -> None:
    batch = fold.Batch()
    fold.each(lambda k: encode((k, k), fold.defer, (W, V)[k % 2]), range(8), batch=batch)
    assert [launch.size for launch in batch.launches if launch.op == "linear"] == [4, 4]


def test_frozen_weights_are_not_stacked() -> None:
    frozen = [Tensor(RNG.standard_normal((N, N)).astype(np.float32)) for _ in range(2)]
    batch = fold.Batch()
    fold.each(lambda k: fold.defer(TABLE[k]) @ frozen[k % 2], range(8), batch=batch)
    assert [launch.size for launch in batch.launches] == [4, 4]


def test_a_value_that_trains_gets_its_own_gradient() -> None:
    leaves = [parameter(N) for _ in range(4)]
    outs = fold.each(lambda leaf: (fold.defer(leaf) * B).sum(), leaves)
    ops.stack(outs).sum().backward()
    for leaf in leaves:
        np.testing.assert_allclose(leaf.grad.numpy(), B.detach().numpy())


@pytest.mark.slow
def test_one_huge_tree() -> None:
    """A chain of 20,000 nodes, noted, scheduled, run and differentiated without recursion."""
    steps = 20_000
    x = Tensor(np.float32([0.3, -0.2]), requires_grad=True)
    with fold.Batch("agenda") as batch:
        value = start = fold.defer(x)
        for _ in range(steps // 2):
            value = value * 0.5 + start
    assert len(batch.launches) == steps
    fold.stacked([value]).sum().backward()
    np.testing.assert_allclose(
        value.numpy() if not value.value.requires_grad else value.value.detach().numpy(),
        2 * x.detach().numpy(),
        rtol=1e-5,
    )
    np.testing.assert_allclose(x.grad.numpy(), [2, 2], rtol=1e-5)


# Control flow on values


@SCHEDULES
def test_a_branch_on_a_value_runs_what_it_needs(schedule: str) -> None:
    data = RNG.standard_normal((6, 3)).astype(np.float32)

    def function(x: Any) -> Any:
        total = x.sum()
        while abs(float(total)) < 2:
            x = x * 1.5
            total = x.sum()
        return x if total > 0 else -x

    batch = fold.Batch(schedule)
    folded = fold.each(lambda row: function(fold.defer(row)), data, batch=batch)
    for one, row in zip(folded, data, strict=True):
        np.testing.assert_array_equal(one.numpy(), function(Tensor(row)).numpy())
    assert max(launch.examples for launch in batch.launches[:-1]) == 1  # what a branch asks for is not waited with


def test_asking_runs_only_what_is_needed() -> None:
    with fold.Batch() as batch:
        x = fold.defer(np.float32([1, 2]))
        one, other = x + 1, x * 2
        assert one.numpy().tolist() == [2, 3]
        assert one.ready
        assert not other.ready
        assert repr(batch) == "<batch: 1 calls noted, 1 run in 1 launches>"
    assert other.ready


def test_what_no_result_needs_never_runs() -> None:
    batch = fold.Batch()

    def function(k: int) -> Any:
        x = fold.defer(float(k))
        x.log()  # nobody asks
        return x + 1

    fold.each(function, range(3), batch=batch)
    assert [launch.op for launch in batch.launches] == ["add"]


def test_values_of_a_finished_batch_can_be_used_in_another() -> None:
    with fold.Batch():
        first = [fold.defer(np.float32([k])) + 1 for k in range(3)]
    with fold.Batch() as batch:
        second = [x * fold.defer(np.float32([10])) for x in first]
    assert fold.stacked(second).numpy().ravel().tolist() == [10, 20, 30]
    assert [launch.size for launch in batch.launches] == [3]


# Modes, devices, other styles


def test_each_call_records_as_it_was_noted() -> None:
    with fold.Batch():
        x = fold.defer(0)
        row = ops.take(TABLE, x, axis=0)
        with no_grad():
            constant = row * 2
        trained = row * 2
    assert not constant.value.requires_grad
    assert trained.value.requires_grad
    with fold.Batch(), no_grad():
        with fold.Batch():
            pass
        assert not (fold.defer(B) * 2).value.requires_grad
    with fold.Batch():
        y = fold.defer(B) * 2
        with no_grad():
            assert not y.value.requires_grad
        assert y.value.requires_grad
    assert not (fold.Batch().defer(B) * 2).detach().value.requires_grad


def test_on_the_simulated_accelerator() -> None:
    table = Tensor(RNG.standard_normal((9, N)).astype(np.float32)).to("sim:0")
    table.requires_grad_() if hasattr(table, "requires_grad_") else None
    batch = fold.Batch()

    def function(k: int) -> Any:
        x = ops.take(table, fold.defer(Tensor(k, device="sim:0")), axis=0)
        return (x + x.sum()).tanh() if k % 2 else x.exp().tanh()

    out = fold.each(function, range(6), batch=batch)
    assert all(one.device is device("sim:0") for one in out)
    values = table.detach().to("cpu").numpy()
    for k, one in enumerate(out):
        x = values[k]
        expected = np.tanh(x + x.sum()) if k % 2 else np.tanh(np.exp(x))
        np.testing.assert_allclose(one.detach().to("cpu").numpy(), expected, rtol=1e-5)
    with pytest.raises(DeviceError, match="add: inputs are on cpu and sim:0"), fold.Batch():
        fold.defer(np.float32([1])) + fold.defer(Tensor([1.0], device="sim:0"))


def test_inside_transformations() -> None:
    """A function that folds can be differentiated and mapped like any other."""
    data = [np.float32(RNG.standard_normal(k)) for k in (1, 2, 3)]

    def folded(w: Any) -> Any:
        with fold.Batch():
            values = [(fold.defer(row) * w).tanh().sum() for row in data]
        return fold.stacked(values).sum()

    def plain(w: Any) -> Any:
        return ops.stack([(Tensor(row) * w).tanh().sum() for row in data]).sum()

    w = Tensor(np.float32(0.7))
    np.testing.assert_allclose(gradient(folded)(w).numpy(), gradient(plain)(w).numpy(), rtol=1e-5)
    np.testing.assert_allclose(gradient(gradient(folded))(w).numpy(), gradient(gradient(plain))(w).numpy(), rtol=1e-4)
    ws = Tensor(np.float32([0.1, 0.5]))
    np.testing.assert_allclose(vmap(folded)(ws).numpy(), vmap(plain)(ws).numpy(), rtol=1e-5)


def test_dropout_draws_for_each_example() -> None:
    drop = nn.Dropout(0.5)
    out = fold.each(lambda _: drop(fold.defer(np.ones(50, np.float32))), range(4))
    assert len({tuple(one.numpy().tolist()) for one in out}) == 4


def test_modules_take_deferred_values() -> None:
    model = nn.Sequential(nn.Linear(N, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
    rows = RNG.standard_normal((6, N)).astype(np.float32)
    out = fold.each(lambda row: model(fold.defer(row)), rows)
    expected = model(Tensor(rows)).detach().numpy()
    np.testing.assert_allclose([one.detach().numpy() for one in out], expected, rtol=1e-4, atol=1e-5)


# Operations


def test_an_operation_is_noted_as_one_call() -> None:
    cell = fold.operation(lambda left, right: ops.linear(ops.concat([left, right], axis=-1), W, B).tanh())

    def function(example: Any, start: Callable[[Any], Any]) -> Any:
        if isinstance(example, int):
            return ops.take(TABLE, start(example), axis=0)
        return cell(*(function(part, start) for part in example))

    batch = compare(function, SINGLES, "depth")
    assert {launch.op for launch in batch.launches} == {"take", "<lambda>"}


def test_each_thread_has_its_own_batches() -> None:
    def work(k: int) -> float:
        return float(fold.each(lambda j: (fold.defer(float(j)) * k).sum(), range(6))[-1])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(16))) == [5.0 * k for k in range(16)]


def test_embeddings_take_deferred_ids() -> None:
    words = nn.Embedding(5, 3, padding_idx=0, rng=np.random.default_rng(0))
    batch = fold.Batch()
    out = fold.each(lambda k: words(fold.defer(k)), range(5), batch=batch)
    np.testing.assert_array_equal([one.detach().numpy() for one in out], words(Tensor(np.arange(5))).detach().numpy())
    assert max(launch.size for launch in batch.launches) == 5
    with pytest.raises(IndexError, match=r"take of example 2, called at test_fold\.py"):
        fold.each(lambda k: words(fold.defer(3 * k)), range(3))


# Bad input: what is wrong is said of one example, where it was written

ONE = np.ones(3, np.float32)


def outside(k: int) -> Any:
    return ops.take(TABLE, fold.defer(99 if k == 3 else k), axis=0)


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "shapes": (lambda: fold.each(lambda k: fold.defer(ONE) + fold.defer(ONE[:2]), [0]), ValueError, "add"),
    "an index out of range": (
        lambda: fold.each(outside, range(6)), IndexError, r"take of example 3, called at test_fold.py:\d+: .*99",
    ),
    "not deferred": (lambda: fold.each(lambda k: Tensor(1.0), [0]), TypeError, "example 0 gave a Tensor"),
    "nothing returned": (lambda: fold.each(lambda k: None, [0]), TypeError, "example 0 gave a NoneType"),
    "no batch open": (lambda: fold.defer(1), ValueError, "no batch is open"),
    "no tensor": (lambda: fold.Batch().defer("x"), TypeError, "got str"),
    "two batches": (lambda: fold.Batch().defer(ONE) + 1 + (fold.Batch().defer(ONE) + 1), ValueError, "two batches"),
    "an array in passing": (lambda: np.asarray(fold.Batch().defer(ONE)), TypeError, r"x\.numpy\(\)"),
    "writing": (lambda: fold.Batch().defer(ONE).__setitem__(0, 1), TypeError, "index_put"),
    "no such method": (lambda: fold.Batch().defer(ONE).backward(), AttributeError, "x.value.backward"),
    "run one": (lambda: fold.run(fold.Batch().defer(ONE)), TypeError, r"write \[x\]"),
    "run a tensor": (lambda: fold.run([Tensor(1.0)]), TypeError, "value 0 is a Tensor"),
    "stack nothing": (lambda: fold.stacked([]), ValueError, "no values"),
    "stack unlike": (
        lambda: fold.stacked([fold.Batch().defer(ONE), fold.Batch().defer(1)]), ValueError, r"value 1 is int64\[\]",
    ),
    "length of a number": (lambda: len(fold.Batch().defer(1)), TypeError, "0-d"),
    "a mixed index": (
        lambda: fold.Batch().defer(np.eye(3))[0, fold.Batch().defer(1)], TypeError, "stands alone",
    ),
    "a Tensor indexed by what is deferred": (lambda: TABLE[fold.Batch().defer(1)], TypeError, "deferred"),
    "no function": (lambda: fold.operation(3), TypeError, "got int"),
    "a wrong schedule": (
        lambda: fold.each(lambda k: fold.defer(k) + 1, [0], schedule=lambda inputs, signatures: []),
        ValueError, r"call 0 \(<add, example 0, test_fold.py:\d+>\) is missing",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), BAD.values(), ids=BAD.keys())
def test_bad_input(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_an_error_leaves_the_batch_closed() -> None:
    with pytest.raises(ZeroDivisionError):
        fold.each(lambda k: 1 / 0, [0])
    with pytest.raises(ZeroDivisionError), fold.Batch():
        1 / 0  # noqa: B018 - it is to fail
    with pytest.raises(ValueError, match="no batch is open"):
        fold.defer(1)


def test_zeros_of_both_signs_and_kinds_are_not_one_number() -> None:
    with np.errstate(divide="ignore"):
        out = fold.each(lambda z: fold.defer(np.float32(1)) / z, [0.0, -0.0])
    assert [float(one) for one in out] == [np.inf, -np.inf]
    kinds = fold.each(lambda z: fold.defer(3) + z, [1, 1.0, True])
    assert [one.dtype.kind for one in kinds] == ["i", "f", "i"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_anomaly_mode_sees_batches() -> None:
    with detect_anomaly(), pytest.raises(AnomalyError, match="log"):
        ops.stack(fold.each(lambda k: (fold.defer(B) * 0).log() * 0, range(2))).sum().backward()
