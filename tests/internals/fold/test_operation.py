"""A whole function noted as one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from internals import Tensor, fold


def test_an_operation_with_several_results_and_a_number() -> None:
    pair = fold.operation(lambda x, by: (x * by, x.sum()))
    out = fold.each(lambda k: pair(fold.defer(np.float32([k, 1])), 2.0 if k < 3 else 3.0), range(5))
    assert [(x.numpy().tolist(), float(s)) for x, s in out] == [
        ([k * by, by], k + 1) for k, by in zip(range(5), (2, 2, 2, 3, 3), strict=True)
    ]
    one, total = pair(Tensor(np.float32([4, 1])), 2.0)
    assert (one.numpy().tolist(), float(total)) == ([8, 2], 5)


def test_an_operation_may_give_one_result_or_several() -> None:
    either = fold.operation(lambda x, both: (x, x * 2) if both else x * 3)
    out = fold.each(lambda k: either(fold.defer(float(k)), k % 2 == 0), range(4))
    assert [[float(x) for x in one] if isinstance(one, tuple) else float(one) for one in out] == [[0, 0], 3, [2, 4], 9]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x if x.sum() > 0 else -x, "can't ask for a value or branch"),
        (lambda x: x.sum().item(), "can't ask for a value"),
        (lambda x: None, "got NoneType"),
        (lambda x: Tensor(1.0), "computed from its inputs.*got Tensor"),
    ],
)
def test_what_can_not_be_an_operation(function: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words), fold.Batch():
        fold.operation(function)(fold.defer(np.ones(2, np.float32)))
