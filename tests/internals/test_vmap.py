"""vmap: every row on a batch against a loop over its examples, and what nests in what, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from op_answers import assert_close, attrs_of, call, laid_out, to_host
from op_examples import GROUPS, Example, Group

from internals import Tensor, nn, no_grad, ops
from internals.autodiff import grad, gradient, hessian, jvp, vjp, vmap
from internals.autodiff.batching import RULES, batching_rule
from internals.ops import TABLE

DEVICES = ["cpu", "sim:0"]
ROWS = [group for group in GROUPS if group.dtype == "float64"]
COUNT = 3


def variants(example: Example) -> list[list[np.ndarray]]:
    """The example's inputs, `COUNT` times over, other floating values each time."""
    inputs = example.inputs()
    rng = np.random.default_rng(example.rng.integers(1 << 30))
    return [
        [rng.permutation(x.reshape(-1)).reshape(x.shape) if x.dtype.kind == "f" and i else x for x in inputs]
        for i in range(COUNT)
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


@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize("group", ROWS, ids=str)
def test_every_row_on_a_batch_is_a_loop_over_its_examples(group: Group, where: str) -> None:
    for example in group.examples if where == "cpu" else group.examples[:1]:
        if example.layout != "plain":
            continue
        count = len(example.shapes)
        choices = {(), *[(i,) for i in range(count)], *[tuple(j for j in range(count) if j != i) for i in range(count)]}
        for shared in sorted(choices):
            if len(shared) < count:
                check_against_a_loop(example, where, shared)
