"""Arrays written as Python a learner can paste: whole, with dtype and memory layout.

`autograder.literal` is for reading, and leaves out what is long; this is for running.
"""

from __future__ import annotations

import numpy as np


def source(array: np.ndarray) -> str:
    """An expression with `np` in it that makes `array` again.

    Negative strides come back as ``[::-1]``, columns first as ``.T``, zero strides as ``np.broadcast_to``.
    """
    array = np.asarray(array)
    dtype = "" if array.dtype == np.float64 else f", dtype=np.{array.dtype.name}"
    if not array.size:  # it has no layout, and strides that look like one
        return f"np.zeros({array.shape}{dtype})"
    stretched = [axis for axis in range(array.ndim) if array.strides[axis] == 0 and array.shape[axis] > 1]
    if stretched:
        once = array[tuple(0 if axis in stretched else slice(None) for axis in range(array.ndim))]
        if stretched == list(range(len(stretched))):
            return f"np.broadcast_to({source(once)}, {array.shape})"
        kept = array[tuple(slice(0, 1) if axis in stretched else slice(None) for axis in range(array.ndim))]
        return f"np.broadcast_to({source(np.array(kept))}, {array.shape})"
    backwards = [axis for axis in range(array.ndim) if array.strides[axis] < 0 and array.shape[axis] > 1]
    if backwards:
        turn = tuple(slice(None, None, -1) if axis in backwards else slice(None) for axis in range(array.ndim))
        index = ", ".join("::-1" if axis in backwards else ":" for axis in range(max(backwards) + 1))
        return f"{source(array[turn])}[{index}]"
    if array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous:
        return f"{source(array.T)}.T"
    return f"np.array({_entries(array)}{dtype})"


def _entries(array: np.ndarray) -> str:
    if array.ndim == 0:
        # str of a NumPy scalar has the digits of its own dtype: 0.1 in float32 is not 0.10000000149.
        return str(array[()])
    return "[" + ", ".join(_entries(part) for part in array) + "]"
