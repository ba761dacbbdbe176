"""Plain data as Python source a reader can paste; long arrays are named by shape instead."""

from __future__ import annotations

from typing import Any

import numpy as np

ENTRIES = 40
"""An array with more is not written out."""

CHARACTERS = 1200


def literal(value: Any) -> str:
    """`value` as source: ``np.array([[1.5, 2.0]], dtype=np.float32)``, ``[1, 'a']``."""
    text = _literal(value)
    return text if len(text) <= CHARACTERS else text[: CHARACTERS - 4] + " ..."


def assignments(inputs: dict[str, Any]) -> str:
    """One line per input, ``x = np.array(...)``, with a comment on an unusual memory layout."""
    return "\n".join(f"{name} = {literal(value)}{layout(value)}" for name, value in inputs.items())


def layout(value: Any) -> str:
    """A comment on what the source of an array cannot show; empty for an ordinary one."""
    if not isinstance(value, np.ndarray) or value.flags.c_contiguous:
        return ""
    if any(stride == 0 and size > 1 for stride, size in zip(value.strides, value.shape, strict=True)):
        return "  # a broadcast view"
    if any(stride < 0 for stride in value.strides):
        return "  # a view with a negative stride"
    return "  # a transposed view"


def _literal(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, np.generic):
        return f"np.{value.dtype.name}({_number(value.item())})"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_literal, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_literal(part)}" for key, part in value.items()) + "}"
    return repr(value)


def _array(array: np.ndarray) -> str:
    usual = array.dtype in (np.float64, np.int64, np.bool_)
    dtype = "" if usual else f", dtype=np.{array.dtype.name}"
    if array.size == 0:
        return f"np.zeros({array.shape}{dtype if array.dtype == np.float64 else f', dtype=np.{array.dtype.name}'})"
    if array.size > ENTRIES:
        return f"<{array.dtype.name} array of shape {array.shape}>"
    return f"np.array({_nested(array)}{dtype})"


def _nested(array: np.ndarray) -> str:
    if array.ndim == 0:
        # str of a NumPy scalar has the digits of its own dtype: 0.1 in float32 is not 0.10000000149.
        return str(array[()]) if array.dtype.kind == "f" and np.isfinite(array) else _number(array.item())
    return "[" + ", ".join(_nested(row) for row in array) + "]"


def _number(value: Any) -> str:
    if isinstance(value, float) and not np.isfinite(value):
        return "np.nan" if np.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    return repr(value)
