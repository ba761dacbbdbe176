"""Sparse tables: the index, first values, rules, eviction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from internals.distributed.server import RowIndex, SparseTable, TableSpec
from internals.distributed.server.table import summed
from internals.optim import AdaGrad
from internals.tensor import Tensor


@pytest.mark.parametrize("seed", range(4))
def test_the_index_is_a_dict(seed: int) -> None:
    rng = np.random.default_rng(seed)
    index, truth = RowIndex(), {}
    for _ in range(30):
        # Few different numbers and runs of neighbours, so that places collide and ids come again.
        ids = np.unique(np.concatenate([rng.integers(0, 3000, 40), rng.integers(0, 2**62, 40), np.arange(500, 520)]))
        new = np.array([one for one in ids.tolist() if one not in truth], np.int64)
        slots = np.arange(len(truth), len(truth) + new.size)
        index.add(new, slots)
        truth |= dict(zip(new.tolist(), slots.tolist(), strict=True))
        if rng.random() < 0.2:
            kept = sorted(truth)[::2]
            truth = {one: truth[one] for one in kept}
            index.rebuild(np.array(kept), np.array([truth[one] for one in kept]))
        asked = rng.permutation(np.concatenate([ids, rng.integers(0, 3000, 50)]))
        assert index.find(asked).tolist() == [truth.get(one, -1) for one in asked.tolist()]
        assert len(index) == len(truth)


def test_ids_that_meet_in_one_place_are_all_found() -> None:
    index = RowIndex()
    from internals.distributed.server.placement import mixed

    many = np.arange(200_000)
    same = many[(mixed(many) >> np.uint64(1)) % 64 == 5][:30]
    index.add(same, np.arange(30))
    assert index.find(same[::-1]).tolist() == list(range(29, -1, -1))
    assert index.find(np.array([200_001])).tolist() == [-1]


def test_first_values_depend_on_seed_and_id_alone() -> None:
    rng = np.random.default_rng(0)
    ids = rng.permutation(2**40 + np.arange(300))
    spec = TableSpec(5, seed=3, scale=0.25)
    whole, parts = SparseTable(spec), [SparseTable(spec), SparseTable(spec)]
    rows = whole.pull(ids)
    for one in rng.permutation(300):
        assert (parts[one % 2].pull(ids[one : one + 1])[0] == rows[one]).all()
    assert (SparseTable(replace(spec, seed=4)).pull(ids) != rows).mean() > 0.99
    assert np.unique(rows).size > 0.99 * rows.size
    assert rows.min() >= -0.25
    assert rows.max() < 0.25
    assert abs(rows.mean()) < 0.03
    assert abs(rows.std() - 0.25 / np.sqrt(3)) < 0.02
    assert (SparseTable(replace(spec, scale=0.0)).pull(ids) == 0).all()


def dense_adagrad(start: np.ndarray, pushes: list, lr: float) -> np.ndarray:
    """Row by row, each with an optimizer of its own, as the course's optimizer moves it."""
    rows = [Tensor(row, requires_grad=True) for row in start]
    moved = [AdaGrad([row], lr=lr) for row in rows]
    for ids, gradients in pushes:
        for one in np.unique(ids):
            rows[one].grad = Tensor(gradients[ids == one].sum(axis=0))
            moved[one].step()
    return np.array([row.detach().numpy() for row in rows])


@pytest.mark.parametrize("repeated", [False, True])
def test_adagrad_moves_touched_rows_only_and_as_the_optimizer_does(repeated: bool) -> None:
    rng = np.random.default_rng(1)
    spec = TableSpec(4, lr=0.3, scale=1.0)
    table = SparseTable(spec)
    start = table.pull(np.arange(20))
    pushes = []
    for _ in range(15):
        ids = rng.integers(0, 15, 8) if repeated else rng.permutation(15)[:8]
        pushes.append((ids, rng.standard_normal((8, 4)).astype(np.float32)))
        table.push(*pushes[-1])
    after = table.pull(np.arange(20))
    np.testing.assert_allclose(after, dense_adagrad(start, pushes, 0.3), rtol=2e-6, atol=1e-6)
    assert (after[15:] == start[15:]).all()


def test_row_adagrad_keeps_one_number_and_sgd_none() -> None:
    rng = np.random.default_rng(2)
    ids, gradients = np.arange(6), rng.standard_normal((3, 6, 4)).astype(np.float32)
    tables = {rule: SparseTable(TableSpec(4, lr=0.1, rule=rule)) for rule in ("sgd", "row_adagrad", "adagrad")}
    start = tables["sgd"].pull(ids).astype(np.float64)
    expected = {"sgd": start.copy(), "row_adagrad": start.copy()}
    total = np.zeros((6, 1))
    for g in gradients.astype(np.float64):
        expected["sgd"] -= 0.1 * g
        total += (g * g).mean(axis=1, keepdims=True)
        expected["row_adagrad"] -= 0.1 * g / np.sqrt(total)
    for rule, table in tables.items():
        for g in gradients:
            table.push(ids, g)
        if rule in expected:
            np.testing.assert_allclose(table.pull(ids), expected[rule], rtol=1e-5, atol=1e-6)
    bytes_of = {rule: table.nbytes for rule, table in tables.items()}
    assert bytes_of["sgd"] < bytes_of["row_adagrad"] < bytes_of["adagrad"]


def test_rows_touched_longest_ago_make_place() -> None:
    rng = np.random.default_rng(3)
    table = SparseTable(TableSpec(2, capacity=100, lr=1.0, rule="sgd"))
    last: dict[int, int] = {}
    for step in range(80):
        ids = np.unique(rng.integers(0, 400, 20))
        table.pull(ids, step)
        last |= dict.fromkeys(ids.tolist(), step)
        assert len(table) <= 100
        assert set(ids.tolist()) <= set(table.ids().tolist())
        held = table.ids().tolist()
        assert len(held) == len(set(held)) == len(table)
        gone = [last[one] for one in last if one not in held]
        assert not gone or max(gone) <= min(last[one] for one in held) + 1
    assert table.created - table.evicted == len(table)
    assert table.evicted > 100


def test_what_is_evicted_starts_again_and_what_is_in_use_stays() -> None:
    table = SparseTable(TableSpec(3, capacity=4, lr=1.0, rule="sgd", seed=9))
    first = table.pull(np.arange(4), 0)
    table.push(np.arange(4), np.ones((4, 3), np.float32), 0)
    table.pull(np.array([0, 1, 7]), 0)  # all were touched in the same step: only what is in use is safe
    assert {0, 1, 7} <= set(table.ids().tolist())
    np.testing.assert_allclose(table.pull(np.array([0, 1]), 0), first[:2] - 1)
    gone = sorted({2, 3} - set(table.ids().tolist()))
    assert gone
    assert (table.pull(np.array(gone), 1) == first[gone]).all()
    with pytest.raises(ValueError, match="'table': 5 rows are used at once, but the capacity is 4"):
        table.pull(np.arange(5), 2)


def test_old_rows_are_given_up() -> None:
    table = SparseTable(TableSpec(2, max_age=10))
    table.pull(np.array([1, 2, 3]), 0)
    table.pull(np.array([2]), 8)
    assert table.drop_old(10) == 0
    assert table.drop_old(11) == 2
    assert table.ids().tolist() == [2]
    assert table.drop_old(100) == 1
    assert len(table) == 0


def test_looking_keeps_nothing() -> None:
    table = SparseTable(TableSpec(3))
    made = table.pull(np.array([5]))
    table.push(np.array([5]), np.ones((1, 3), np.float32))
    seen = table.pull(np.array([4, 5]), create=False)
    assert len(table) == 1
    assert (seen[1] != made[0]).all()
    assert (seen[0] == table.pull(np.array([4]))[0]).all()
    assert SparseTable(TableSpec(3)).pull(np.array([4]), create=False).shape == (1, 3)


@pytest.mark.parametrize("capacity", [None, 60])
def test_a_saved_table_goes_on_as_the_other_does(capacity: int | None) -> None:
    rng = np.random.default_rng(4)

    def touch(table: SparseTable, seed: int) -> None:
        rng = np.random.default_rng(seed)
        for step in range(20):
            ids = rng.integers(0, 200, 15)
            table.pull(ids, step)
            table.push(ids, rng.standard_normal((15, 3)).astype(np.float32), step)

    one = SparseTable(TableSpec(3, capacity=capacity))
    touch(one, 1)
    plain, arrays = one.state()
    kept = {name: array.copy() for name, array in arrays.items()}
    other = SparseTable.load(plain, arrays)
    assert (other.created, other.evicted, len(other)) == (one.created, one.evicted, len(one))
    if capacity is None:
        touch(one, 2)
        touch(other, 2)
        ids = rng.permutation(200)
        assert (one.pull(ids) == other.pull(ids)).all()
    assert all((kept[name] == array).all() for name, array in arrays.items())


def test_repeated_ids_are_summed_in_order() -> None:
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 9, 40)
    gradients = rng.standard_normal((40, 3)).astype(np.float32)
    found, total = summed(ids, gradients)
    assert found.tolist() == sorted(set(ids.tolist()))
    for one, row in zip(found, total, strict=True):
        np.testing.assert_allclose(row, gradients[ids == one].sum(axis=0), rtol=1e-5, atol=1e-6)
    assert summed(np.empty(0, np.int64), np.empty((0, 3)))[0].size == 0


def test_no_ids_are_no_error() -> None:
    table = SparseTable(TableSpec(3))
    nothing = np.empty(0, np.int64)
    assert table.pull(nothing).shape == (0, 3)
    table.push(nothing, np.empty((0, 3), np.float32))
    assert len(table) == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dim": 0}, "dim=0"),
        ({"dim": 2.5}, "dim=2.5"),
        ({"dim": 2, "lr": -1}, "lr=-1"),
        ({"dim": 2, "lr": float("nan")}, "lr=nan"),
        ({"dim": 2, "rule": "adam"}, "rule='adam'"),
        ({"dim": 2, "capacity": 0}, "capacity=0"),
        ({"dim": 2, "max_age": -3}, "max_age=-3"),
        ({"dim": 2, "seed": -1}, "seed"),
        ({"dim": 2, "how": "range"}, "how='range'"),
    ],
)
def test_a_table_that_makes_no_sense(settings: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TableSpec(**settings)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([-1], "no row -1; ids are 0 to 99"),
        ([100], "no row 100"),
        ([[2, 101]], "no row 101"),
        ([0.5], "must be integers"),
    ],
)
def test_ids_that_are_none(ids: list, said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"who: .*{said}"):
        TableSpec(2, rows=100).check_ids(ids, "who")
