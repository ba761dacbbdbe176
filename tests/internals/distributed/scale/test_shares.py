"""The picture of who holds what."""

from __future__ import annotations

import pytest

from internals.distributed.scale.shares import draw_shares


def test_a_bar_for_each_rank_and_kind_with_its_bytes() -> None:
    held = {"whole": [{"weights": 2048.0, "states": 4096.0}] * 3, "cut": [{"weights": 1024.0}] * 3}
    drawn = draw_shares(held, title="Shares")
    assert drawn.svg.count("<title>whole, rank") == 6
    assert "<title>cut, rank 2, weights: 1.0 KiB</title>" in drawn.svg
    assert "<title>cut, rank 2, states: 0.0 KiB</title>" in drawn.svg


@pytest.mark.parametrize("held", [{"a": [{}]}, {"a": [dict.fromkeys("vwxyz", 1.0)]}])
def test_kinds_that_can_not_be_told_apart(held: dict[str, list[dict[str, float]]]) -> None:
    with pytest.raises(ValueError, match="expected 1 to 4 kinds"):
        draw_shares(held, title="x")
