"""Answers as plain data: exact built-in types and base arrays, stripped of what a subclass claims to be.

Mounted in the sandbox as the module ``plain``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from autograder import frames
else:
    import frames


class NotPlain(TypeError):
    """What came back isn't numbers, strings, arrays, or lists, tuples and dicts of them."""


def plain(value: Any, depth: int = 40) -> Any:
    """`value` as exact built-in types and base arrays; subclasses are stripped of what they claim to be."""
    if value is None or value is Ellipsis or type(value) in (bool, float, bytes):
        return value
    kind = type(value)
    if kind is int or isinstance(value, int):
        number = int.__add__(value, 0)
        if number.bit_length() > frames.INT_BITS:
            raise NotPlain(
                f"the result holds an integer of {number.bit_length()} bits; at most {frames.INT_BITS} are read."
            )
        return number
    if isinstance(value, numpy.ndarray):
        array = numpy.array(value, copy=True, order="C", subok=False)
        if array.dtype.hasobject or array.dtype.kind == "V":
            raise NotPlain(
                f"the result is an array of dtype {array.dtype}; numbers were expected. "
                "Check that its parts have equal shapes."
            )
        if array.nbytes > frames.LIMIT // 2:
            raise NotPlain(
                f"the result is an array of {array.nbytes >> 20} MB, shape {array.shape}; "
                "far more than any right answer."
            )
        return array
    if isinstance(value, numpy.generic):
        return value
    if isinstance(value, float):
        return float.__add__(value, 0.0)
    if isinstance(value, str):
        return sendable(str.__str__(value)) if kind is str else sendable("".join(str.__iter__(value)))
    if depth == 0:
        raise NotPlain("the result is nested more than 40 deep, or contains itself.")
    if isinstance(value, list):
        return [plain(item, depth - 1) for item in list.__iter__(value)]
    if isinstance(value, tuple):
        return tuple(plain(item, depth - 1) for item in tuple.__iter__(value))
    if isinstance(value, dict):
        result = {}
        for key, item in dict.items(value):
            if not isinstance(key, str):
                raise NotPlain(f"the result is a dict with a {type(key).__name__} as a key; strings were expected.")
            result[plain(key)] = plain(item, depth - 1)
        return result
    raise NotPlain(
        f"the result is, or holds, a {sendable(str(kind.__name__)[:100])}; "
        "numbers, arrays, strings, and lists, tuples or dicts of them can be compared."
    )


def sendable(text: str) -> str:
    """Without halves of surrogate pairs, which are no text."""
    return text.encode("utf-8", "replace").decode("utf-8")
