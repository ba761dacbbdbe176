"""The picture of a pool is its snapshot: every block where it is, to scale."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import pytest

from internals.memory import KIB, MIB, HostSource, Pool
from internals.observe import draw_pool

SVG = "{http://www.w3.org/2000/svg}"


def rectangles(svg: str) -> list[ElementTree.Element]:
    """The blocks; not what was rounded up in them."""
    return [rect for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect") if rect.get("fill-opacity") is None]


def test_every_block_is_drawn_to_scale_and_free_ones_are_dashed() -> None:
    pool = Pool(HostSource())
    handles = [pool.allocate(size) for size in (4 * MIB, 6 * MIB, 3 * MIB, 300 * KIB, 12 * MIB)]
    handles[1].free()
    snapshot = pool.snapshot()
    blocks = [block for segment in snapshot for block in segment.blocks]
    drawn = rectangles(draw_pool({"now": snapshot}, title="t").svg)
    assert len(drawn) == len(blocks)
    assert ["stroke-dasharray" in rect.attrib for rect in drawn] == [block.free for block in blocks]
    scale = 618 / (20 * MIB)
    for rect, block in zip(drawn, blocks, strict=True):
        assert float(rect.get("width")) == pytest.approx(block.size * scale, abs=0.02)
    for left, right in itertools.pairwise(drawn):
        if left.get("y") == right.get("y"):
            assert float(left.get("x")) + float(left.get("width")) == pytest.approx(float(right.get("x")), abs=0.02)


def test_moments_stand_below_one_another_with_their_figures() -> None:
    pool = Pool(HostSource())
    empty = pool.snapshot()
    handle = pool.allocate(5 * MIB)
    full = pool.snapshot()
    handle.free()
    picture = draw_pool({"before": empty, "in use": full, "after": pool.snapshot()}, title="t")
    for words in ("no segment", "5 MiB in use, 15 MiB free", "0 B in use, 20 MiB free"):
        assert words in picture.svg
    assert "in use: a segment of 20 MiB with 5 MiB in use, 15 MiB free." in picture.description


def test_what_was_rounded_up_is_marked() -> None:
    pool = Pool(HostSource())
    handles = [pool.allocate(19 * MIB + MIB // 4), pool.allocate(8 * MIB)]
    svg = draw_pool({"now": pool.snapshot()}, title="t").svg
    over = [rect for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect") if rect.get("fill-opacity")]
    assert [float(rect.get("width")) for rect in over] == [pytest.approx(0.75 / 20 * 618, abs=0.1)]
    assert handles


@pytest.mark.parametrize("snapshots", [{}, {"now": []}])
def test_nothing_is_refused(snapshots: dict) -> None:
    with pytest.raises(ValueError, match="have no segment; allocate something first"):
        draw_pool(snapshots, title="t")
