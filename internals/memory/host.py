"""The host's own allocator: how much of what is freed it keeps for what comes next."""

from __future__ import annotations

import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 << 20


def keep_freed_memory(most: int = 256 << 20) -> bool:
    """Let the C library keep up to `most` bytes that were freed, rather than give them back to the system at once.

    A training step frees and asks for the same sizes again and again. Each page that was given back in between is
    zeroed and mapped anew when it is touched, which can take a third of a step.

    Parameters
    ----------
    most : int
        Bytes, not negative.

    Returns
    -------
    bool
        Whether that was done: it is glibc's `mallopt`. It is not where there is none, nor where the environment says
        otherwise (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_).
    """
    if most < 0:
        raise ValueError(f"keep_freed_memory: the number of bytes must not be negative, got {most}.")
    if {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"} & os.environ.keys():
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    limit = min(most, (1 << 31) - 1)
    return bool(mallopt(_TRIM_THRESHOLD, limit) and mallopt(_MMAP_THRESHOLD, min(limit, _LARGEST_MMAP_THRESHOLD)))
