"""Every row of the op table, folded, against one example at a time: values, dtypes and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_answers import assert_close, call, laid_out, to_host
from op_examples import GROUPS, Example, Group

from internals import Tensor, fold, no_grad, ops
from internals.ops import TABLE

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


def results(out: Any) -> list[Any]:
    return list(out) if isinstance(out, tuple | list) else [out]


def check(example: Example, where: str, alone: int | None = None) -> None:
    """One by one and folded; the input at `alone` is the first example's for all, and trains."""
    drawn = variants(example)
    if alone is not None:
        drawn = [[drawn[0][i] if i == alone else x for i, x in enumerate(one)] for one in drawn]
    wrt = example.wrt() if TABLE[example.case.op].differentiable else ()

    def leaves() -> list[list[Any]]:
        with no_grad():
            made = [[laid_out(x, "plain", where) for x in one] for one in drawn]
        for one in made:
            for i in wrt:
                one[i].requires_grad = True
            if alone is not None:
                one[alone] = made[0][alone]
        return made

    mine, theirs = leaves(), leaves()
    with fold.Batch() as batch:
        noted = [
            results(call(example, [x if i == alone else fold.defer(x) for i, x in enumerate(one)], where))
            for one in mine
        ]
    wanted = [results(call(example, one, where)) for one in theirs]
    assert all(launch.size % COUNT == 0 for launch in batch.launches), str(example)
    for k in range(len(noted[0])):
        want = [to_host(one[k]) for one in wanted]
        assert noted[0][k].dtype == want[0].dtype, str(example)
        assert noted[0][k].shape == want[0].shape, str(example)
        got = fold.stacked([one[k] for one in noted])
        tolerance = (1e-9, 1e-11) if want[0].dtype == np.float64 else None
        assert_close(to_host(got), np.stack(want), str(example), tolerance)
        if not got.requires_grad:
            assert not wanted[0][k].requires_grad
            continue
        start = np.random.default_rng(1).standard_normal(got.shape).astype(got.dtype)
        for values, one in ((mine, got), (theirs, ops.stack([one[k] for one in wanted]))):
            for inputs in values:
                for i in wrt:
                    inputs[i].grad = None
            one.backward(Tensor(start, device=got.device), retain_graph=True)
        for a, b in zip(mine, theirs, strict=True):
            for i in wrt:
                assert (a[i].grad is None) == (b[i].grad is None), str(example)
                if a[i].grad is not None:
                    assert_close(to_host(a[i].grad), to_host(b[i].grad), str(example), (1e-8, 1e-10))


@pytest.mark.slow
@pytest.mark.parametrize("group", ROWS, ids=str)
def test_every_row_folded(group: Group) -> None:
    for example in group.examples:
        if example.shapes and all(0 not in shape for shape in example.shapes):
            check(example, "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("group", ROWS, ids=str)
def test_every_row_folded_with_a_shared_input(group: Group) -> None:
    for example in group.examples:
        if len(example.shapes) > 1 and TABLE[example.case.op].differentiable:
            for alone in example.wrt():
                check(example, "cpu", alone)


@pytest.mark.slow
@pytest.mark.parametrize("group", ROWS, ids=str)
def test_every_row_folded_on_the_simulated_accelerator(group: Group) -> None:
    for example in group.examples[:1]:
        check(example, "sim:0")
