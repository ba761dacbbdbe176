"""Frames carry data exactly, and nothing else."""

# ruff: noqa: E501  one case, one line: a table is read by its rows
from __future__ import annotations

import os
import threading
import time
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from autograder import frames
from autograder.frames import FrameError, decode, encode, read_frame, write_frame

X = np.arange(24.0).reshape(2, 3, 4)
VALUES = {
    "none": None, "true": True, "int": 3, "negative": -7, "int64-edge": 2**63, "big": -(2**4000), "float": 2.5, "inf": float("inf"),
    "text": "é\0\n", "bytes": b"\xff\0", "list": [1, [2, []]], "tuple": (1, (2, ())), "mixed": [(1, [2, (3,)]), {"a": (None,)}],
    "dict": {"": {"b": [1]}}, "slice": slice(1, None, -1), "slices": (slice(None), ..., 3, None), "ellipsis": ..., "float32": np.float32(2.5),
    "bool_": np.bool_(False), "int8": np.int8(-3), "complex": np.complex64(1 + 2j), "str_": np.str_("ab"), "empty-str_": np.str_(""), "datetime": np.datetime64("2020-01-01"),
}  # fmt: skip
ARRAYS = {
    "contiguous": X, "reversed": X[:, ::-1], "transposed": X.T, "strided": X[..., ::2], "column": X[..., 0], "0-d": np.array(3.0),
    "size-0": np.zeros((0, 3)), "size-0-view": np.zeros((3, 0))[::-1], "broadcast": np.broadcast_to(np.float32(3), (4, 5)),
    "huge-broadcast-axis": np.broadcast_to(np.arange(3.0), (1000, 3)), "windows": np.lib.stride_tricks.sliding_window_view(np.arange(5), 3),
    "text": np.array(["a", "bc"]), "big-endian": X.astype(">f4"), "bool": X > 3, "fortran": np.asfortranarray(X), "float16": X.astype("f2"),
    "complex": X * 1j, "nan": np.array([np.nan, -0.0, np.inf]),
}  # fmt: skip


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_values_come_back_as_they_went(value: Any) -> None:
    back = decode(encode(value))
    assert type(back) is type(value)
    assert back == value


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_arrays_keep_dtype_shape_and_layout(array: np.ndarray) -> None:
    back = decode(encode(array))
    assert type(back) is np.ndarray
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)
    if array.size:
        assert back.strides == array.strides


@pytest.mark.slow
@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, min_side=0)), st.data())
@settings(max_examples=60, deadline=None)
def test_any_view_keeps_its_bytes(array: np.ndarray, data: st.DataObject) -> None:
    view = (
        array[data.draw(hnp.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True))]
        if array.ndim
        else array
    )
    view = np.asarray(view)
    if view.dtype.kind not in "biufcSUmM":
        return
    assert decode(encode(view)).tobytes() == view.tobytes()


def test_what_lies_between_strided_elements_is_not_sent() -> None:
    table = np.full((50, 2), 0x41, dtype=np.uint8)
    table[:, 1] = 0x5A  # the answer, next to the question
    assert b"\x5a\x5a" not in encode(table[:, 0])
    assert encode(table[:, 0]).count(b"\x5a") == 0


class Text(str):
    pass


class Number(int):
    pass


class Array(np.ndarray):
    pass


class Deep(list):
    pass


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "value",
    [object(), len, 1j, {1}, {1: 2}, {Text("a"): 1}, Text("a"), Number(3), Deep(), X.view(Array), np.ma.array([1]), np.array([None]),
     np.zeros(2, dtype=[("a", int)]), 1 << 9000, "\ud800", LOOP, range(3), bytearray(b"a"), slice("a", None), np.zeros(frames.LIMIT + 8, np.uint8)],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(FrameError):
        encode(value)


def ext(code: int, *parts: Any) -> bytes:
    return msgpack.packb(msgpack.ExtType(code, msgpack.packb(list(parts))))


HOSTILE = {
    "empty": b"", "reserved": b"\xc1", "cut": b"\x93\x01", "trailing": b"\x01\x01", "bad-utf8": b"\xa2\xff\xfe", "int-key": msgpack.packb({1: 2}),
    "timestamp": msgpack.packb(msgpack.Timestamp(1, 1)), "unknown-extension": msgpack.packb(msgpack.ExtType(99, b"")),
    "million-lists": msgpack.packb([[]] * 600_000), "deep": b"\x91" * 5000 + b"\x01", "claims-4-billion": b"\xdd\xff\xff\xff\xff",
    "claims-4-gb": b"\xc6\xff\xff\xff\xff", "object-dtype": ext(3, "|O", [1], b"12345678"), "void-dtype": ext(3, "|V8", [1], b"12345678"),
    "struct-dtype": ext(3, "i4,i4", [1], b"12345678"), "negative-shape": ext(3, "<f8", [-1], b""), "huge-shape": ext(3, "<f8", [10**6, 10**6, 10**6], b""),
    "short-array": ext(3, "<f8", [2], b"12345678"), "view-outside": ext(3, "<f8", [2], [8], 0, b"12345678"), "view-before": ext(3, "<f8", [2], [-8], 0, b"12345678"),
    "view-terabyte": ext(3, "<f8", [10**12], [0], 0, b"12345678"), "view-overflow": ext(3, "<f8", [2], [2**63], 0, b"12345678"), "array-of-nothing": ext(3),
    "many-dimensions": ext(3, "<f8", [1] * 100, b"12345678"), "boolean-2": ext(3, "|b1", [2], b"\1\2"), "boolean-scalar-7": ext(4, "|b1", b"\7"),
    "beyond-unicode": ext(3, "<U1", [1], b"\0\0\x11\0"), "beyond-unicode-big-endian": ext(3, ">U1", [1], b"\0\x11\0\0"),
    "surrogate": ext(3, "<U1", [1], b"\0\xd8\0\0"), "text-scalar": ext(4, "<U1", b"\xff" * 4), "scalar-short": ext(4, "<f8", b"1"), "slice-short": ext(5, 1), "slice-of-text": ext(5, "a", None, None),
    "tuple-of-nothing": msgpack.packb(msgpack.ExtType(2, b"")), "big-int-too-big": msgpack.packb(msgpack.ExtType(1, b"\x7f" * 5000)), "pickle": b"\x80\x04]\x94.",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_hostile_frames_raise_frame_error_and_nothing_else(body: bytes) -> None:
    with pytest.raises(FrameError):
        decode(body)


@pytest.mark.slow
@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_noise_raises_frame_error_or_is_data(body: bytes) -> None:
    try:
        value = decode(body)
    except FrameError:
        return
    encode(value)


def test_nested_extensions_are_capped() -> None:
    body = msgpack.packb([])
    for _ in range(200):
        body = msgpack.packb(msgpack.ExtType(2, b"\x91" + body))
    with pytest.raises(FrameError, match="deep"):
        decode(body)


def test_many_views_count_as_what_they_claim() -> None:
    one = msgpack.ExtType(3, msgpack.packb(["<f8", [2**20], [0], 0, b"12345678"]))
    assert len(decode(msgpack.packb([one] * 4))) == 4
    with pytest.raises(FrameError, match="more than"):
        decode(msgpack.packb([one] * 20))


def test_frames_over_a_pipe() -> None:
    read, write = os.pipe()
    big = np.arange(200_000.0)  # more than a pipe holds
    writer = threading.Thread(target=lambda: [write_frame(write, value) for value in (1, {"a": big}, None)])
    writer.start()
    assert read_frame(read, timeout=10) == 1
    np.testing.assert_array_equal(read_frame(read, timeout=10)["a"], big)
    assert read_frame(read, timeout=10) is None
    writer.join()
    os.close(write)
    with pytest.raises(EOFError):
        read_frame(read, timeout=1)
    os.close(read)


@pytest.mark.slow
def test_a_slow_or_lying_writer_costs_no_more_than_the_timeout() -> None:
    read, write = os.pipe()
    started = time.monotonic()
    os.write(write, b"\0\0\0\xff123")
    with pytest.raises(TimeoutError):
        read_frame(read, timeout=0.2)
    os.write(write, b"\xff\xff\xff\xff")
    with pytest.raises(FrameError, match="at most 1000"):
        read_frame(read, limit=1000, timeout=0.2)
    assert time.monotonic() - started < 2
    os.set_blocking(write, True)
    with pytest.raises(TimeoutError):
        write_frame(write, bytes(1 << 20), timeout=0.2)
    os.close(read)
    os.close(write)
