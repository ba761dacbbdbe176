"""Pictures of a memory pool: segments, and the blocks they are cut into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from internals.memory import SegmentShown, bytes_as_text
from internals.observe import picture
from internals.observe.picture import CHARACTER, Picture, text

WIDTH, BAR, GAP, LINE = 620.0, 34.0, 10.0, 18.0


def draw_pool(snapshots: Mapping[str, Sequence[SegmentShown]], *, title: str) -> Picture:
    """Draw what a pool holds, at one moment or at several.

    A segment is a bar, to one scale in the whole picture. Blocks in use are filled; the darker end of one is what was
    rounded up. Free blocks are dashed.

    Parameters
    ----------
    snapshots : mapping of name to what ``Pool.snapshot()`` gave
    title : str

    Raises
    ------
    ValueError
        No segment is in any of them.
    """
    largest = max((segment.size for segments in snapshots.values() for segment in segments), default=0)
    if not largest:
        raise ValueError(f"draw_pool: the {len(snapshots)} snapshots given have no segment; allocate something first.")
    body, down = [], 14.0
    for name, segments in snapshots.items():
        body.append(text(1, down, name, anchor="start", weight="bold"))
        body.append(text(WIDTH - 1, down, _figures(segments), anchor="end", fill=picture.MUTED))
        down += 8
        if not segments:
            body.append(text(1, down + LINE, "no segment", anchor="start", fill=picture.MUTED))
            down += LINE
        for segment in segments:
            body.append(_bar(segment, down, (WIDTH - 2) / largest))
            down += BAR + GAP
        down += LINE + 8
    return Picture("".join(body), WIDTH, down - LINE - 10, title=title, description=_in_words(snapshots))


def _bar(segment: SegmentShown, top: float, scale: float) -> str:
    drawn = []
    for block in segment.blocks:
        x, width = 1 + (block.address - segment.address) * scale, block.size * scale
        place = f'x="{x:.2f}" y="{top:.1f}" width="{width:.2f}" height="{BAR:.1f}"'
        if block.free:
            drawn.append(
                f'<rect {place} fill="{picture.FILL_FREED}" stroke="{picture.LINE}" stroke-dasharray="4 3">'
                f"<title>free: {bytes_as_text(block.size)} at {block.address:#x}</title></rect>"
            )
        else:
            drawn.append(
                f'<rect {place} fill="{picture.FILL_LEAF}" stroke="{picture.LEAF}" stroke-width="1.5">'
                f"<title>in use: {bytes_as_text(block.requested)} at {block.address:#x}</title></rect>"
            )
            over = (block.size - block.requested) * scale
            if over >= 1:
                place = f'x="{x + width - over:.2f}" y="{top:.1f}" width="{over:.2f}" height="{BAR:.1f}"'
                drawn.append(f'<rect {place} fill="{picture.LEAF}" fill-opacity="0.35"/>')
        label = bytes_as_text(block.size if block.free else block.requested)
        if len(label) * CHARACTER + 4 <= width:
            colour = picture.MUTED if block.free else picture.LEAF
            drawn.append(text(x + width / 2, top + BAR / 2 + 4, label, fill=colour))
    return "".join(drawn)


def _figures(segments: Sequence[SegmentShown]) -> str:
    free = sum(block.size for segment in segments for block in segment.blocks if block.free)
    used = sum(segment.size for segment in segments) - free
    return f"{bytes_as_text(used)} in use, {bytes_as_text(free)} free"


def _in_words(snapshots: Mapping[str, Sequence[SegmentShown]]) -> str:
    sentences = []
    for name, segments in snapshots.items():
        parts = [
            f"a segment of {bytes_as_text(segment.size)} with "
            + ", ".join(f"{bytes_as_text(b.size)} {'free' if b.free else 'in use'}" for b in segment.blocks)
            for segment in segments
        ]
        sentences.append(f"{name}: {'; '.join(parts) or 'no segment'}.")
    return " ".join(sentences)
