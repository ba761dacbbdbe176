"""Frames: how processes that do not trust each other exchange data.

A frame is a 4-byte big-endian length and a msgpack body. Data only, exact types, capped in size, depth
and count: nothing here can run code or make the reader allocate much more than it was sent.
This file is mounted into the sandbox, so it imports only the standard library, NumPy and msgpack.
"""

from __future__ import annotations

import os
import select
import struct
import time
from types import EllipsisType
from typing import Any

import msgpack
from numpy import dtype as make_dtype  # bound here: a learner may rebind them in numpy
from numpy import frombuffer, generic, ndarray

LIMIT = 64 << 20
"""Bytes one frame may have, and bytes its arrays may come to when written out in full."""
REPLY_LIMIT = 40 << 20
"""Bytes of a frame that comes out of a sandbox."""
DEPTH = 64
COUNT = 2_000_000
"""Values (list items, dict items, numbers) one frame may hold."""
INT_BITS = 8192
"""Longer integers are refused: printing one costs quadratic time, and Python refuses to beyond 4300 digits."""

_BIG_INT, _TUPLE, _ARRAY, _SCALAR, _SLICE, _ELLIPSIS = range(1, 7)
_KINDS = "biufcSUmM"
_HEADER = struct.Struct(">I")


class FrameError(ValueError):
    """What came is not a frame, or what was given is not plain data."""


# --- encode ---------------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """The body of a frame.

    Parameters
    ----------
    value : None, bool, int, float, str, bytes, list, tuple, dict with str keys, NumPy array or scalar, slice, Ellipsis
        Exact types: a subclass is refused. Arrays keep dtype, shape and strides (negative, transposed,
        zero-stride); the gaps between strided elements are sent as zeros.

    Raises
    ------
    FrameError
        Anything else, or nested deeper than `DEPTH`.
    """
    _check(value, DEPTH, [COUNT])
    try:
        body = msgpack.packb(value, default=_to_ext, strict_types=True)
    except FrameError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError, UnicodeError) as error:
        raise FrameError(f"encode: {type(error).__name__}: {str(error)[:200]}") from None
    if len(body) > LIMIT:
        raise FrameError(f"encode: {len(body)} bytes, at most {LIMIT} fit in a frame.")
    return body


def _check(value: Any, depth: int, left: list[int]) -> None:
    """Refuse what msgpack would accept or report badly: subclasses as keys, cycles, too many values."""
    left[0] -= 1
    if left[0] < 0:
        raise FrameError(f"more than {COUNT} values; send an array instead.")
    kind = type(value)
    if kind is list or kind is tuple:
        if depth == 0:
            raise FrameError(f"nested deeper than {DEPTH}, or contains itself.")
        for item in value:
            _check(item, depth - 1, left)
    elif kind is dict:
        if depth == 0:
            raise FrameError(f"nested deeper than {DEPTH}, or contains itself.")
        for key, item in value.items():
            if type(key) is not str:
                raise FrameError(f"a dict key is a {type(key).__name__}; keys must be str.")
            _check(item, depth - 1, left)
    elif kind is slice:
        if depth == 0:
            raise FrameError(f"nested deeper than {DEPTH}, or contains itself.")
        for item in (value.start, value.stop, value.step):
            if item is not None and type(item) is not int:
                raise FrameError("a slice may hold int and None only.")
            _check(item, depth - 1, left)
    elif kind is int and value.bit_length() > INT_BITS:
        raise FrameError(f"an int of {value.bit_length()} bits; at most {INT_BITS} are sent.")
    elif kind is ndarray or isinstance(value, generic):
        if value.dtype.kind not in _KINDS or value.dtype.hasobject or value.dtype.metadata:
            raise FrameError(f"an array of dtype {value.dtype} is not plain data; numbers, booleans and strings are.")
    elif kind not in (type(None), bool, int, float, str, bytes, EllipsisType):
        raise FrameError(
            f"a {kind.__module__}.{kind.__qualname__} is not plain data; "
            "send numbers, strings, arrays, lists, tuples or dicts."
        )


def _to_ext(value: Any) -> msgpack.ExtType:
    kind = type(value)
    if kind is int:
        return msgpack.ExtType(_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if kind is tuple:
        return msgpack.ExtType(_TUPLE, _pack(list(value)))
    if kind is ndarray:
        return msgpack.ExtType(_ARRAY, _pack(_array_parts(value)))
    if kind is slice:
        return msgpack.ExtType(_SLICE, _pack([value.start, value.stop, value.step]))
    if kind is EllipsisType:
        return msgpack.ExtType(_ELLIPSIS, b"")
    if isinstance(value, generic) and kind is value.dtype.type:
        return msgpack.ExtType(_SCALAR, _pack([value.dtype.str, value.tobytes()[: value.dtype.itemsize]]))
    raise FrameError(f"a {kind.__module__}.{kind.__qualname__} is not plain data.")


def _pack(value: Any) -> bytes:
    return msgpack.packb(value, default=_to_ext, strict_types=True)


def _array_parts(array: ndarray) -> list[Any]:
    """[dtype, shape, bytes] of a C-contiguous array, or [dtype, shape, strides, offset, bytes] of a view."""
    dtype, shape = array.dtype, list(array.shape)
    if array.nbytes > LIMIT:
        raise FrameError(f"an array of {array.nbytes} bytes; at most {LIMIT} fit in a frame.")
    if array.flags.c_contiguous:
        return [dtype.str, shape, array.tobytes()]
    reach = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    offset = -sum(step for step in reach if step < 0)
    span = offset + sum(step for step in reach if step > 0) + dtype.itemsize
    if span > LIMIT:
        raise FrameError(f"an array view spanning {span} bytes; at most {LIMIT} fit in a frame. Send a copy.")
    memory = bytearray(span)
    # A fresh buffer, so that what lies between the elements (perhaps another array) is not sent along.
    target = ndarray(array.shape, dtype, memory, offset, array.strides)
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)
    target[once] = array[once]
    return [dtype.str, shape, list(array.strides), offset, bytes(memory)]


# --- decode ---------------------------------------------------------------------------------------


def decode(body: bytes) -> Any:
    """The value in the body of a frame.

    Raises
    ------
    FrameError
        Not msgpack, a type that isn't plain data, or over the caps of this module.
    """
    reader = _Decoder(len(body))
    try:
        value = reader.unpack(body, DEPTH)
        _check(value, DEPTH, [COUNT])
    except FrameError:
        raise
    except (
        ValueError,
        TypeError,
        OverflowError,
        RecursionError,
        MemoryError,
        KeyError,
        msgpack.UnpackException,
    ) as error:
        raise FrameError(f"not a frame: {type(error).__name__}: {str(error)[:200]}") from None
    return value


class _Decoder:
    """Counts while msgpack unpacks, so that a small hostile frame can't become a large structure."""

    def __init__(self, size: int) -> None:
        self.containers = COUNT // 4
        self.array_bytes = LIMIT

    def unpack(self, body: bytes, depth: int) -> Any:
        if depth <= 0:
            raise FrameError(f"nested deeper than {DEPTH}.")
        return msgpack.unpackb(
            body,
            raw=False,
            strict_map_key=True,
            list_hook=self._count,
            object_hook=self._count,
            ext_hook=lambda code, data: self._from_ext(code, data, depth - 1),
            max_array_len=COUNT,
            max_map_len=COUNT,
        )

    def _count(self, container: Any) -> Any:
        self.containers -= 1
        if self.containers < 0:
            raise FrameError("too many lists and dicts in one frame.")
        return container

    def _from_ext(self, code: int, data: bytes, depth: int) -> Any:
        self._count(None)
        if code == _BIG_INT:
            if len(data) * 8 > INT_BITS + 8:
                raise FrameError(f"an int of {len(data)} bytes; at most {INT_BITS} bits are read.")
            return int.from_bytes(data, "big", signed=True)
        if code == _ELLIPSIS:
            return Ellipsis
        parts = self.unpack(data, depth)
        if type(parts) is not list:
            raise FrameError("not a frame: an extension without its parts.")
        if code == _TUPLE:
            return tuple(parts)
        if code == _SLICE:
            start, stop, step = parts
            return slice(start, stop, step)
        if code == _SCALAR:
            name, raw = parts
            dtype = _dtype(name)
            if len(raw) != dtype.itemsize:
                raise FrameError(f"a scalar of {len(raw)} bytes, {dtype} has {dtype.itemsize}.")
            return _sound(frombuffer(raw, dtype))[0] if dtype.itemsize else dtype.type()
        if code == _ARRAY:
            return self._array(parts)
        raise FrameError(f"not a frame: extension {code} is unknown.")

    def _array(self, parts: list[Any]) -> ndarray:
        if len(parts) not in (3, 5):
            raise FrameError("not a frame: an array without its parts.")
        name, shape, raw = parts[0], parts[1], parts[-1]
        dtype = _dtype(name)
        if type(raw) is not bytes or type(shape) is not list or len(shape) > 32:
            raise FrameError("not a frame: an array without a shape or without bytes.")
        size = dtype.itemsize
        for length in shape:
            if type(length) is not int or length < 0:
                raise FrameError(f"an array with the shape {shape}.")
            size *= length
        self.array_bytes -= size
        if self.array_bytes < 0:
            raise FrameError(f"arrays that would take more than {LIMIT} bytes.")
        if len(parts) == 3:
            if len(raw) != size:
                raise FrameError(f"an array of shape {shape} and dtype {dtype} with {len(raw)} bytes.")
            return _sound(ndarray(tuple(shape), dtype, bytearray(raw)))
        strides, offset = parts[2], parts[3]
        if (
            type(strides) is not list
            or len(strides) != len(shape)
            or any(type(step) is not int for step in (*strides, offset))
        ):
            raise FrameError("not a frame: an array view without strides.")
        reach = [(length - 1) * step for length, step in zip(shape, strides, strict=True)]
        low = offset + sum(step for step in reach if step < 0)
        high = offset + sum(step for step in reach if step > 0) + dtype.itemsize
        if low < 0 or high > len(raw) or 0 in shape:
            raise FrameError("an array view that reaches outside its own memory.")
        return _sound(ndarray(tuple(shape), dtype, bytearray(raw), offset, tuple(strides)))


def _sound(array: ndarray) -> ndarray:
    """Refuse bytes that are no value of the dtype, such as a boolean of 2; NumPy would trip over them later."""
    if array.size == 0 or array.dtype.kind not in "bU" or array.dtype.itemsize == 0:
        return array
    flat = array.ravel()
    if array.dtype.kind == "b":
        sound = bool((flat.view("u1") <= 1).all())
    else:
        points = flat.view(array.dtype.byteorder.replace("|", "=") + "u4")
        sound = bool(((points < 0xD800) | ((points > 0xDFFF) & (points <= 0x10FFFF))).all())
    if not sound:
        raise FrameError(f"an array of dtype {array.dtype} with bytes that are no such value.")
    return array


def _dtype(name: Any) -> make_dtype:
    if type(name) is not str or len(name) > 16:
        raise FrameError("not a frame: an array without a dtype.")
    try:
        dtype = make_dtype(name)
    except (TypeError, ValueError):
        raise FrameError(f"{name!r} is no dtype.") from None
    if dtype.kind not in _KINDS or dtype.hasobject:
        raise FrameError(f"an array of dtype {dtype} is not plain data.")
    return dtype


# --- read and write -------------------------------------------------------------------------------


def write_frame(stream: Any, value: Any, *, timeout: float | None = None) -> None:
    """Write one frame to a file descriptor, a socket, or an unbuffered file.

    Raises
    ------
    TimeoutError
        The reader took less than all of it within `timeout` seconds.
    """
    body = encode(value)
    send(stream, _HEADER.pack(len(body)) + body, timeout=timeout)


def send(stream: Any, data: bytes, *, timeout: float | None = None) -> None:
    """Write all of `data`; with a timeout, never block longer than that."""
    descriptor = _descriptor(stream)
    if descriptor is None:
        stream.write(data)
        return
    view, deadline = memoryview(data), _deadline(timeout)
    while view:
        if deadline is not None:
            _wait(descriptor, select.POLLOUT, deadline, "written")
            # A pipe that polls as writable takes at least PIPE_BUF bytes without blocking.
            view = view[os.write(descriptor, view[:4096]) :]
        else:
            view = view[os.write(descriptor, view) :]


def read_frame(stream: Any, *, limit: int = LIMIT, timeout: float | None = None) -> Any:
    """Read one frame from a file descriptor, a socket, or an unbuffered file.

    Raises
    ------
    EOFError
        The other side closed, before or in the middle of a frame.
    TimeoutError
        No whole frame within `timeout` seconds.
    FrameError
        Longer than `limit` bytes, or not a frame.
    """
    deadline = _deadline(timeout)
    (length,) = _HEADER.unpack(_read_exactly(stream, _HEADER.size, deadline))
    if length > limit:
        raise FrameError(f"a frame of {length} bytes; at most {limit} are read.")
    return decode(_read_exactly(stream, length, deadline))


def _read_exactly(stream: Any, length: int, deadline: float | None) -> bytes:
    descriptor = _descriptor(stream)
    parts: list[bytes] = []
    while length:
        if descriptor is None:
            part = stream.read(length)
        else:
            if deadline is not None:
                _wait(descriptor, select.POLLIN, deadline, "read")
            part = os.read(descriptor, min(length, 1 << 20))
        if not part:
            raise EOFError("the other side closed the connection.")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _descriptor(stream: Any) -> int | None:
    if isinstance(stream, int):
        return stream
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _wait(descriptor: int, event: int, deadline: float, what: str) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise TimeoutError(f"no whole frame was {what} in time.")
