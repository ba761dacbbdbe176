"""Broadcasting, done and explained by one function."""

from __future__ import annotations

import itertools

import pytest
import torch

from internals import ops

SHAPES = [(), (1,), (3,), (0,), (2, 3), (2, 1), (1, 3), (4, 1, 3), (4, 2, 1), (2, 2), (0, 1)]


@pytest.mark.parametrize("shapes", [*itertools.combinations_with_replacement(SHAPES, 2), ((4, 1, 1), (2, 1), (3,))])
def test_the_explanation_ends_as_torch_does(shapes: tuple[tuple[int, ...], ...]) -> None:
    text = ops.explain_broadcast(*shapes)
    try:
        want = tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        with pytest.raises(ValueError, match="do not broadcast") as refused:
            ops.broadcast_shapes("add", *shapes)
        assert "!" in text.splitlines()[3 + len(shapes)]
        assert text.splitlines()[-1] == str(refused.value).replace("add:", "broadcast:")
        return
    assert ops.broadcast_shapes("add", *shapes) == want
    cells = text.splitlines()[-1].removeprefix(str(want)).split()
    assert cells == [str(size) for size in want]
    assert "!" not in text
    for shape, line in zip(shapes, text.splitlines()[2:], strict=False):
        added = len(want) - len(shape)
        stretched = sum(size == 1 != wanted for size, wanted in zip(shape, want[added:], strict=True))
        assert line.count("->") == added + stretched


def test_what_it_looks_like() -> None:
    assert ops.explain_broadcast((8, 1, 3), (7, 1)).splitlines() == [
        "axis         -3      -2      -1",
        "-------------------------------",
        "(8, 1, 3)     8  1 -> 7       3",
        "(7, 1)     -> 8       7  1 -> 3",
        "-------------------------------",
        "(8, 7, 3)     8       7       3",
    ]
    assert ops.explain_broadcast((2, 3), (4, 3)).splitlines() == [
        "axis    -2  -1",
        "--------------",
        "(2, 3)   2   3",
        "(4, 3)   4   3",
        "--------------",
        "none     !",
        "broadcast: shapes (2, 3) and (4, 3) do not broadcast: axis -2 has sizes 2 and 4. Axes are aligned at the "
        "right; one of two sizes must be 1, or both equal.",
    ]
