"""A message: a kind, plain fields and arrays; and its form on the wire, which holds data only, never code.

On the wire a message is a list of frames: a header (msgpack: version, kind, fields, the arrays' dtypes and shapes),
then the bytes of each array. Nothing in it can name a class or a function, so reading one can run nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals.distributed.errors import ProtocolError

VERSION = 1
MAX_HEADER = 16 << 20
"""Bytes: fields are for small things; what is large is an array."""
MAX_BYTES = 8 << 30
"""Bytes of all arrays of one message."""
MAX_ARRAYS = 1 << 16
MAX_DEPTH = 32
"""Of lists and dicts in fields."""

DTYPES = {
    name: np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128",
    )
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass
class Message:
    """What one process tells or asks another.

    Attributes
    ----------
    kind : str
        What it is about: ``"push"``, ``"reduce/7/2"``. Receivers match on it, exactly.
    fields : dict
        Plain data: None, bool, int, float, str, bytes, and lists and dicts (with str keys) of these.
    arrays : list of numpy.ndarray
        Any shape. A received array is read-only, and may be a view of memory the transport owns, which is valid as
        long as the message is alive: copy what is to be kept.
    source : str
        The peer it came from; set by the receiving transport, whatever the sender wrote.
    """

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    arrays: list[np.ndarray] = field(default_factory=list)
    source: str = ""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays)


def _checked(array: Any) -> np.ndarray:
    if not isinstance(array, np.ndarray | np.generic):
        raise TypeError(
            f"message: arrays holds a {type(array).__name__}; expected numpy.ndarray: a Tensor through .numpy(), "
            "a list through numpy.array(), a number as a field"
        )
    return array  # type: ignore[return-value]


def _laid_out(array: np.ndarray) -> np.ndarray:
    """`array` as its bytes go on the wire: contiguous, in this machine's byte order."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _name_of(dtype: np.dtype) -> str:
    known = NAMES.get(dtype)
    if known is not None:
        return known
    if dtype.name == "bfloat16":
        return "bfloat16"
    raise TypeError(f"message: an array of dtype {dtype} can't be sent; one of {', '.join(DTYPES)}, bfloat16")


def _dtype_of(name: Any, source: str) -> np.dtype:
    if isinstance(name, str):
        if name in DTYPES:
            return DTYPES[name]
        if name == "bfloat16":
            from ml_dtypes import bfloat16

            return np.dtype(bfloat16)
    raise ProtocolError(f"{source} sent an array of dtype {name!r:.40}, which is not one of the known")


def check_fields(value: Any, depth: int = 0) -> None:
    """Refuse what would not arrive as it was sent.

    Raises
    ------
    TypeError
        Names the type: not plain data.
    """
    if depth > MAX_DEPTH:
        raise TypeError(f"message: fields nested more than {MAX_DEPTH} deep")
    if value is None or type(value) in (bool, int, float, str, bytes):
        return
    if type(value) is list:
        for entry in value:
            check_fields(entry, depth + 1)
    elif type(value) is dict:
        for key, entry in value.items():
            if type(key) is not str:
                raise TypeError(f"message: a dict's keys are str, not {type(key).__name__}")
            check_fields(entry, depth + 1)
    else:
        raise TypeError(
            f"message: {type(value).__name__} is not plain data (None, bool, int, float, str, bytes, list, dict); "
            "an array goes into arrays, a NumPy number through .item()"
        )


def encode(message: Message) -> list[Any]:
    """The frames of `message`: the header's bytes, then each array, contiguous and not copied where it already was.

    Raises
    ------
    TypeError
        Fields that are not plain data, or an array that can't be sent.
    ValueError
        Larger than a message may be.
    """
    import msgpack

    if type(message.kind) is not str or type(message.fields) is not dict:
        raise TypeError(
            f"message: kind is a {type(message.kind).__name__} and fields a {type(message.fields).__name__}; "
            "expected str and dict"
        )
    check_fields(message.fields)
    arrays = [_checked(array) for array in message.arrays]
    nbytes = sum(array.nbytes for array in arrays)
    if len(arrays) > MAX_ARRAYS or nbytes > MAX_BYTES:
        raise ValueError(
            f"message {message.kind!r}: {len(arrays)} arrays of {nbytes} bytes in all; "
            f"at most {MAX_ARRAYS} and {MAX_BYTES}: send it in parts"
        )
    arrays = [_laid_out(array) for array in arrays]
    layout = [[_name_of(array.dtype), list(array.shape)] for array in arrays]
    try:
        header = msgpack.packb([VERSION, message.kind, message.fields, layout], use_bin_type=True)
    except (OverflowError, ValueError) as error:
        raise ValueError(
            f"message {message.kind!r}: fields that can't be sent ({error}): an int has at most 64 bits, and a str no "
            "lone surrogates"
        ) from None
    if len(header) > MAX_HEADER:
        raise ValueError(
            f"message {message.kind!r}: fields of {len(header)} bytes, at most {MAX_HEADER}: send what is large "
            "as an array"
        )
    return [header, *(np.ravel(array).view(np.uint8).data for array in arrays)]


def decode(frames: Sequence[Any], source: str) -> Message:
    """The message that `frames` (bytes-like) are, checked: nothing in them is trusted.

    Raises
    ------
    ProtocolError
        Not a message of this version, or one over the limits.
    """
    kind, fields, layout = _header(frames, source)
    if len(layout) != len(frames) - 1:
        raise ProtocolError(f"{source} sent a header of {len(layout)} arrays with {len(frames) - 1} arrays")
    arrays = [_array(frame, spec, source) for frame, spec in zip(frames[1:], layout, strict=True)]
    return Message(kind, fields, arrays, source)


def _header(frames: Sequence[Any], source: str) -> tuple[str, dict[str, Any], list[Any]]:
    import msgpack

    if not frames or len(frames) > MAX_ARRAYS + 1 or memoryview(frames[0]).nbytes > MAX_HEADER:
        raise ProtocolError(f"{source} sent {len(frames)} frames that are no message")
    try:
        header = msgpack.unpackb(frames[0], raw=False, strict_map_key=True, max_ext_len=0)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ProtocolError(f"{source} sent bytes that are no message ({type(error).__name__})") from None
    if not isinstance(header, list) or not header:
        raise ProtocolError(f"{source} sent bytes that are no message")
    if header[0] != VERSION:
        raise ProtocolError(
            f"{source} speaks version {header[0]!r:.20} of the protocol, this process version {VERSION}: "
            "run the same release on all"
        )
    if len(header) != 4:
        raise ProtocolError(f"{source} sent a header of {len(header)} parts, expected 4")
    _, kind, fields, layout = header
    if not isinstance(kind, str) or not isinstance(fields, dict) or not isinstance(layout, list):
        raise ProtocolError(f"{source} sent a header that is not (version, kind, fields, arrays)")
    try:
        check_fields(fields)
    except TypeError as error:
        raise ProtocolError(f"{source} sent fields that no sender of this version makes ({error})") from None
    return kind, fields, layout


def _array(frame: Any, spec: Any, source: str) -> np.ndarray:
    if not isinstance(spec, list) or len(spec) != 2 or not isinstance(spec[1], list) or len(spec[1]) > 64:
        raise ProtocolError(f"{source} sent an array whose layout is {spec!r:.60}")
    dtype = _dtype_of(spec[0], source)
    size = 1
    for length in spec[1]:
        if type(length) is not int or not 0 <= length <= MAX_BYTES:
            raise ProtocolError(f"{source} sent an array of shape {spec[1]!r:.60}")
        size *= length
    data = memoryview(frame)
    if size * dtype.itemsize != data.nbytes:
        raise ProtocolError(
            f"{source} sent {data.nbytes} bytes for an array of {dtype} {tuple(spec[1])}, "
            f"which has {size * dtype.itemsize}"
        )
    try:
        array = np.frombuffer(data, np.uint8).view(dtype).reshape(spec[1]) if size else np.empty(spec[1], dtype)
    except ValueError:  # no elements, and more of them along the other axes than NumPy can count
        raise ProtocolError(f"{source} sent an array of shape {spec[1]!r:.60}") from None
    if not array.flags.aligned:  # a small frame lies anywhere in what was read from the wire
        array = array.copy()
    array.flags.writeable = False
    return array
