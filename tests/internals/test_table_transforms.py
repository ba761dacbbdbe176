"""Every row under vjp, and forward over reverse: against the tape, which is held against torch elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_answers import assert_close, call, laid_out, to_host
from op_examples import GROUPS, Example, Group

from internals import Tensor, grad
from internals.autodiff import jvp, vjp
from internals.ops import TABLE

ROWS = [group for group in GROUPS if group.dtype == "float64" and TABLE[group.case.op].differentiable]


def floating(out: Any) -> list[Any]:
    outs = list(out) if isinstance(out, tuple | list) else [out]
    return [one for one in outs if one.dtype.kind == "f"]


def function_of(example: Example) -> tuple[Any, list[Tensor]]:
    inputs = [laid_out(array, "plain") for array in example.inputs()]
    wrt = example.wrt()

    def function(*moving: Any) -> Any:
        full: list[Any] = list(inputs)
        for i, value in zip(wrt, moving, strict=True):
            full[i] = value
        return floating(call(example, full))

    return function, [inputs[i] for i in wrt]


def normal(rng: np.random.Generator, like: Any) -> Tensor:
    return Tensor(np.asarray(rng.standard_normal(like.shape)).astype(like.dtype), device=like.device)


@pytest.mark.parametrize("group", ROWS, ids=str)
@pytest.mark.parametrize("some", [slice(0, 1), pytest.param(slice(1, None), marks=pytest.mark.slow)], ids=["1", "all"])
def test_first_and_second_order_as_on_the_tape(group: Group, some: slice) -> None:
    for example in group.examples[some]:
        function, points = function_of(example)
        if not points or example.layout != "plain":
            continue
        rng = np.random.default_rng(example.rng.integers(1 << 30))
        outs, pull = vjp(function, *points)
        if not outs:
            continue
        starts = [normal(rng, out) for out in outs]
        directions = [normal(rng, x) for x in points]
        found = pull(starts)
        slopes, products = jvp(lambda *x, function=function, g=starts: vjp(function, *x)[1](g), points, directions)

        leaves = [Tensor(x.data, requires_grad=True) for x in points]
        results = [(out, g) for out, g in zip(function(*leaves), starts, strict=True) if out.requires_grad]
        if not results:
            continue
        first = grad([out for out, _ in results], leaves, [g for _, g in results], create_graph=True, allow_unused=True)
        along = [(g, t) for g, t in zip(first, directions, strict=True) if g is not None and g.requires_grad]
        second: Any = [None] * len(leaves)
        if along:
            second = grad([g for g, _ in along], leaves, [t for _, t in along], allow_unused=True)
        for i, x in enumerate(points):
            want = np.zeros(x.shape) if first[i] is None else to_host(first[i])
            assert_close(to_host(found[i]), want, f"{example}: {i}", (1e-10, 1e-11))
            assert_close(to_host(slopes[i]), want, f"{example}: {i}, under jvp", (1e-10, 1e-11))
            want = np.zeros(x.shape) if second[i] is None else to_host(second[i])
            assert_close(to_host(products[i]), want, f"{example}: {i}, second order", (1e-7, 1e-8))
