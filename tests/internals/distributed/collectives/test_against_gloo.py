"""Every collective, dtype, shape and number of ranks, beside torch.distributed on gloo, in real processes."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import collective_cases
import numpy as np
import pytest
from collective_cases import MOST_RANKS, Case, cases

from internals.distributed import collectives
from internals.distributed.group import Group, run_threads

pytestmark = pytest.mark.slow
GROUPS = [(call, ranks) for call in dict.fromkeys(case.call for case in cases()) for ranks in range(1, MOST_RANKS + 1)]


@pytest.fixture(scope="module")
def gloo(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What gloo's ranks came to, all cases of a session in one job."""
    directory = tmp_path_factory.mktemp("gloo")
    script = Path(collective_cases.__file__).with_name("gloo_collectives.py")  # not imported: torch takes seconds
    command = [sys.executable, str(script)]
    environment = os.environ | {"PYTHONPATH": str(script.parent), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen([*command, str(rank), str(directory)], env=environment, stderr=subprocess.PIPE)
        for rank in range(MOST_RANKS)
    ]
    try:
        told = [process.communicate(timeout=300)[1] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    assert [process.returncode for process in ranks] == [0] * MOST_RANKS, b"\n".join(told).decode()[-2000:]
    return [pickle.loads((directory / f"{rank}.pickle").read_bytes()) for rank in range(MOST_RANKS)]


def ours(group: Group, table: list[Case]) -> list[Any]:
    return [answer(case, group) for case in table]


def answer(case: Case, group: Group) -> Any:
    x = case.array(group.rank)
    if case.call == "all_reduce":
        return [
            collectives.all_reduce(x.copy(), case.op, group=group, algorithm=name) for name in collectives.ALGORITHMS
        ]
    if case.call in ("broadcast", "gather"):
        return getattr(collectives, case.call)(x, case.root, group=group)
    if case.call == "reduce":
        before = x.copy()
        got = collectives.reduce(x, case.root, case.op, group=group)
        assert group.rank == case.root or (x == before).all()
        return got if group.rank == case.root else None
    if case.call == "scatter":
        given = [case.array(group.rank, place) for place in range(group.size)]
        return collectives.scatter(x, given if group.rank == case.root else None, case.root, group=group)
    if case.call == "all_to_all":
        return collectives.all_to_all([case.array(group.rank, place) for place in range(group.size)], group=group)
    if case.call == "reduce_scatter":
        return collectives.reduce_scatter(x, case.op, group=group)
    return collectives.all_gather(x, group=group)


def check_near(got: Any, expected: np.ndarray, case: Case) -> None:
    got = np.asarray(got)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if case.op in ("sum", "prod") and got.dtype.kind not in "iu":
        # Both round after every rank, in another order.
        size = {"float64": 2e-16, "float32": 1.2e-7, "float16": 1e-3, "bfloat16": 8e-3}[case.dtype]
        most = 4.0 * case.ranks if case.op == "sum" else 2.0**case.ranks
        np.testing.assert_allclose(
            got.astype(np.float64), expected.astype(np.float64), rtol=4 * size, atol=2 * size * most
        )
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("call", "ranks"), GROUPS)
def test_the_same_as_gloo(gloo: list[dict[str, Any]], call: str, ranks: int) -> None:
    table = [case for case in cases() if case.call == call and case.ranks == ranks]
    for rank, answers in enumerate(run_threads(ranks, ours, table)):
        for case, got in zip(table, answers, strict=True):
            expected = gloo[rank][case.name]
            assert (got is None) == (expected is None), case.name
            if expected is not None:
                for one in got if call == "all_reduce" else [got]:
                    check_near(one, expected, case)


@pytest.mark.parametrize("ranks", range(1, MOST_RANKS + 1))
def test_every_rank_gets_the_same_bits(ranks: int) -> None:
    table = [case for case in cases() if case.call == "all_reduce" and case.ranks == ranks]
    for answers in zip(*run_threads(ranks, ours, table), strict=True):
        for results in zip(*answers, strict=True):
            assert len({np.asarray(result).tobytes() for result in results}) == 1


def test_the_table_has_every_kind() -> None:
    dtypes, shapes, ops = (
        {getattr(case, what) for case in cases() if case.call == "all_reduce"} for what in ("dtype", "shape", "op")
    )
    found = {(case.dtype, case.shape, case.op) for case in cases() if case.call == "all_reduce" and case.ranks == 3}
    assert found == set(itertools.product(dtypes, shapes, ops))
