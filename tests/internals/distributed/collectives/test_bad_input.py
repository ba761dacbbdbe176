"""What a collective refuses before it sends anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from internals import Tensor
from internals.distributed import collectives
from internals.distributed.group import Group, run_threads

A = np.array([0.5, -2.0], np.float32)


def locked() -> np.ndarray:
    array = A.copy()
    array.flags.writeable = False
    return array


def on_tape() -> Tensor:
    return Tensor(A, requires_grad=True) * 2


ZERO_D = np.array(3.0)
all_reduce, all_gather = collectives.all_reduce, collectives.all_gather
all_to_all, scatter, gather = collectives.all_to_all, collectives.scatter, collectives.gather

Bad = tuple[Callable[[Group], Any], type[Exception], str]
BAD: dict[str, Bad] = {
    "a list": (lambda g: all_reduce([1.0], group=g), TypeError, "all_reduce: expected an array.*list"),
    "a number": (lambda g: collectives.broadcast(1.0, group=g), TypeError, "broadcast: expected an array.*float"),
    "nothing": (lambda g: all_gather(None, group=g), TypeError, "all_gather: .*NoneType"),
    "objects": (lambda g: all_reduce(np.array([None]), group=g), TypeError, "dtype object"),
    "text": (lambda g: all_reduce(np.array(["a"]), group=g), TypeError, "dtype <U1"),
    "read-only": (lambda g: all_reduce(locked(), group=g), ValueError, "this one is read-only"),
    "computed": (lambda g: all_reduce(on_tape(), group=g), ValueError, r"pass x\.detach\(\)"),
    "no group": (lambda g: all_reduce(A, group="world"), TypeError, "takes a Group, got str"),
    "unknown op": (lambda g: all_reduce(A.copy(), "avg", group=g), ValueError, "no operation 'avg'; one of"),
    "unknown way": (lambda g: all_reduce(A.copy(), group=g, algorithm="star"), ValueError, "no algorithm 'star'"),
    "integer mean": (lambda g: all_reduce(np.array([1, 2]), "mean", group=g), TypeError, "a mean of int64 is no"),
    "sum of bools": (lambda g: all_reduce(np.array([True]), group=g), TypeError, "bool has no sum"),
    "complex max": (lambda g: all_reduce(np.array([1j]), "max", group=g), TypeError, "complex numbers have no order"),
    "rank too high": (lambda g: gather(A, 2, group=g), ValueError, "target is rank 2; a group of 2"),
    "rank below": (lambda g: collectives.reduce(A.copy(), -1, group=g), ValueError, "target is rank -1"),
    "rank a str": (lambda g: gather(A, "0", group=g), TypeError, "a whole number, not str"),
    "rank a bool": (lambda g: gather(A, True, group=g), TypeError, "not bool"),
    "0-d to cut": (lambda g: collectives.reduce_scatter(ZERO_D, group=g), ValueError, "a 0-d array can't be cut"),
    "0-d to fill": (lambda g: all_gather(ZERO_D, into=ZERO_D, group=g), ValueError, "a 0-d array can't be cut"),
    "wrong part": (
        lambda g: all_gather(np.zeros(3), into=np.zeros(4), group=g), ValueError,
        r"part of float64 \(4,\) is float64 \(2,\), and the array is float64 \(3,\)"),
    "other dtype": (lambda g: all_gather(A[:1], into=np.zeros(2), group=g), ValueError, "array is float32"),
    "too few": (lambda g: all_to_all([A], group=g), ValueError, "1 arrays for 2 ranks"),
    "one array": (lambda g: all_to_all(np.stack([A, A]), group=g), TypeError, "expected a list"),
    "two dtypes": (lambda g: all_to_all([A, A.astype(int)], group=g), ValueError, "float32, int64"),
    "other parts": (lambda g: scatter(np.zeros(3), [A, A], g.rank, group=g), ValueError, "the part for rank 0 is"),
    "no parts": (lambda g: scatter(np.zeros(3), None, g.rank, group=g), TypeError, "expected a list of arrays"),
    "not the source": (
        lambda g: scatter(A.copy(), [A, A], 1 - g.rank, group=g), ValueError, "gives parts, and the source is"),
}  # fmt: skip


@pytest.fixture(scope="module")
def refusals() -> dict[str, list[BaseException | None]]:
    """What each rank was told, and whether the group still works after all of it."""

    def member(group: Group) -> dict[str, BaseException | None]:
        told: dict[str, BaseException | None] = {}
        for name, (call, _, _) in BAD.items():
            try:
                call(group)
                told[name] = None
            except (TypeError, ValueError) as error:
                told[name] = error
        assert collectives.all_reduce(A.copy(), group=group)[0] == 2 * A[0]
        return told

    answers = run_threads(2, member)
    return {name: [one[name] for one in answers] for name in BAD}


@pytest.mark.parametrize("name", BAD)
def test_refused_with_a_reason_and_nothing_sent(name: str, refusals: dict[str, list[BaseException | None]]) -> None:
    _, kind, says = BAD[name]
    for error in refusals[name]:
        with pytest.raises(kind, match=says):
            raise error or AssertionError("nothing was raised")
