"""Errors in terms of the op that was called, where a kernel or NumPy would speak of itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.ops.spec import is_floating


def explain(op: Any, inputs: Sequence[Any], attrs: dict[str, Any], error: Exception) -> None:
    """Raise an error in terms of the op, if its shapes or dtypes are to blame for the kernel's."""
    for value in inputs:
        check_numeric(op.name, value)
    op.infer_from(inputs, attrs)
    if isinstance(error, ValueError | TypeError | IndexError | OverflowError) and not str(error).startswith(
        f"{op.name}:"
    ):
        if attrs and isinstance(error, TypeError):
            raise attributed(op, attrs, error) from None
        # Some of NumPy's own kinds of TypeError are not made from a message.
        kind = TypeError if isinstance(error, TypeError) else type(error)
        raise kind(f"{op.name}: {error}") from None


def check_numeric(name: str, value: Any) -> None:
    """Refuse an array of text, dates, complex numbers or objects."""
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind not in "biu" and not is_floating(dtype):
        raise TypeError(
            f"{name}: an array of dtype {dtype} can't take part in an operation; expected booleans, integers or "
            "floating numbers."
        )


def attributed(op: Any, attrs: dict[str, Any], error: Exception) -> Exception:
    """The error of a row that met an attribute of a kind it was not written for."""
    given = ", ".join(f"{name}={value!r:.60}" for name, value in attrs.items())
    kind = ValueError if isinstance(error, ValueError | OverflowError) else TypeError
    return kind(f"{op.name}: can't be called with {given} ({error}). It takes {op.signature()}.")


def checked_number(name: str, value: Any) -> np.ndarray:
    """A Python number as a 0-d array; it must fit into 64 bits."""
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise OverflowError(
            f"{name}: an integer of {value.bit_length()} bits does not fit into 64. Write it as a float."
        )
    return array
