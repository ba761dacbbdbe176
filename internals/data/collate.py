"""Examples put together into a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.ops.spec import DEFAULT_FLOAT
from internals.tensor import Tensor


def collate(items: Sequence[Any]) -> Any:
    """Stack examples along a new first axis, field by field.

    Parameters
    ----------
    items : sequence, at least one
        Arrays of one shape, Tensors of the cpu, numbers, strings, or tuples, lists and mappings of these, nested to any
        depth and all built alike. Python floats become float32, integers int64, as in a Tensor; strings stay a list.

    Raises
    ------
    ValueError
        Nothing to stack, or examples of different shapes or with different fields.
    """
    return _by_field("collate", items, _stacked)


def pad(
    sequences: Sequence[Any], *, value: float = 0, length: int | None = None, left: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Bring sequences to one length, and stack them.

    Parameters
    ----------
    sequences : sequence of arrays, shapes (length_i, ...)
        Alike in all axes but the first.
    value : number
        What is put where a sequence has ended.
    length : int, optional
        The longest sequence's unless given. Longer sequences are cut.
    left : bool
        Put the padding, and cut, at the front.

    Returns
    -------
    array, shape (number of sequences, length, ...)
    array of int64, shape (number of sequences,)
        How much of each row is the sequence's own.
    """
    arrays = [_array("pad", sequence) for sequence in sequences]
    if not arrays:
        raise ValueError("pad: there are no sequences to pad.")
    if any(array.ndim == 0 for array in arrays):
        raise ValueError("pad: a number has no length; expected sequences, arrays of one axis or more.")
    tails = {array.shape[1:] for array in arrays if len(array)} or {arrays[0].shape[1:]}
    if len(tails) > 1:
        raise ValueError(f"pad: sequences may differ in their first axis only, got shapes {_told(arrays)}.")
    if length is not None and (not isinstance(length, int) or length < 1):
        raise ValueError(f"pad: length must be a positive integer, got {length!r}.")
    longest = max(len(array) for array in arrays) if length is None else length
    dtype = np.result_type(*[array.dtype for array in arrays if len(array)] or [arrays[0].dtype])
    padded = np.full((len(arrays), longest, *tails.pop()), value, dtype)
    lengths = np.array([min(len(array), longest) for array in arrays], np.int64)
    for row, array, n in zip(padded, arrays, lengths, strict=True):
        if n:
            row[longest - n if left else 0 : longest if left else n] = array[len(array) - n if left else 0 :][:n]
    return padded, lengths


def pad_batch(items: Sequence[Any], *, value: float = 0, length: int | None = None, left: bool = False) -> Any:
    """`collate`, with fields that are sequences of different lengths brought to one length by `pad`.

    With `length`, every field that has an axis is brought to that length.
    """

    def stacked(name: str, values: Sequence[Any]) -> Any:
        arrays = [_array(name, one) for one in values]
        ragged = len({array.shape for array in arrays}) > 1 or length is not None
        if ragged and all(array.ndim for array in arrays):
            return pad(arrays, value=value, length=length, left=left)[0]
        return _stacked(name, values)

    return _by_field("pad_batch", items, stacked)


def _by_field(name: str, items: Sequence[Any], stack: Any) -> Any:
    if not len(items):
        raise ValueError(f"{name}: there is nothing to put together; a batch needs one example or more.")
    first = items[0]
    kinds = {type(item) for item in items if isinstance(item, tuple | list | dict | str)}
    if kinds and (len(kinds) > 1 or not isinstance(first, tuple(kinds)) or not all(type(i) in kinds for i in items)):
        raise ValueError(
            f"{name}: examples are built differently: {', '.join(sorted({type(i).__name__ for i in items}))}."
        )
    if isinstance(first, dict):
        if any(item.keys() != first.keys() for item in items):
            raise ValueError(f"{name}: examples have different fields: {sorted({tuple(item) for item in items})}.")
        return {key: _by_field(name, [item[key] for item in items], stack) for key in first}
    if isinstance(first, tuple):
        if len({len(item) for item in items}) > 1:
            raise ValueError(f"{name}: examples have different numbers of fields: {sorted({len(i) for i in items})}.")
        fields = [_by_field(name, field, stack) for field in zip(*items, strict=True)]
        return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)
    return list(items) if isinstance(first, str) else stack(name, items)


def _stacked(name: str, values: Sequence[Any]) -> np.ndarray:
    arrays = [_array(name, value) for value in values]
    if len({array.shape for array in arrays}) > 1:
        raise ValueError(
            f"{name}: examples of shapes {_told(arrays)} do not stack. For sequences of different lengths use "
            "batch(..., collate=pad_batch)."
        )
    return np.stack(arrays)


def _array(name: str, value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        return value.detach().to("cpu").numpy()
    if isinstance(value, float) and not isinstance(value, np.generic):
        return np.asarray(value, DEFAULT_FLOAT)
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(
            f"{name}: an example is a list that is no regular array; make it one before batching."
        ) from None
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise TypeError(f"{name}: a field of {type(value).__name__} can't be stacked; expected arrays or numbers.")
    listed = isinstance(value, list) and array.dtype == np.float64
    return array.astype(DEFAULT_FLOAT) if listed else array


def _told(arrays: Sequence[np.ndarray]) -> str:
    return ", ".join(str(shape) for shape in sorted({array.shape for array in arrays})[:4])
