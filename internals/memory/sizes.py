"""How large blocks and segments are. The figures are those of PyTorch's CUDA allocator."""

from __future__ import annotations

KIB, MIB, GIB = 2**10, 2**20, 2**30

GRANULE = 512
"""Sizes are rounded up to a multiple of this, so that blocks fit many requests and addresses are aligned."""
SMALL = 1 * MIB
"""Requests up to this size are cut from segments of their own, so that they don't riddle the large ones."""
SMALL_SEGMENT, LARGE_SEGMENT, SEGMENT_STEP = 2 * MIB, 20 * MIB, 2 * MIB


def segment_size(size: int) -> int:
    """How much to ask the device for when a block of `size` bytes is needed."""
    if size <= SMALL:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size < LARGE_SEGMENT // 2 else round_up(size, SEGMENT_STEP)


def round_up(size: int, step: int) -> int:
    return -(-size // step) * step


def bytes_as_text(size: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} B"
