"""What arrives is what was sent, to the bit; what can't be sent is refused; what is no message runs nothing."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest

from internals.distributed.errors import ProtocolError
from internals.distributed.transport import Message
from internals.distributed.transport.message import DTYPES, MAX_DEPTH, VERSION, decode, encode
from internals.distributed.transport.wire import FEW, HEAD, SMALL, WAYS, pack, unpack

RANDOM = np.random.default_rng(20)


def sent(message: Message) -> Message:
    """`message`, through the bytes."""
    arrival = unpack([bytes(frame) for frame in pack(message, "", 3)], "peer")
    assert (arrival.way, arrival.number) == ("", 3)
    return decode(arrival.frames, "peer")


def bits(array: np.ndarray) -> tuple[Any, ...]:
    return (
        array.shape,
        array.dtype.newbyteorder("="),
        np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))).tobytes(),
    )


def noise(dtype: np.dtype, *shape: int) -> np.ndarray:
    """Every bit pattern: NaNs with payloads, infinities and subnormals too."""
    if dtype.kind == "b":
        return RANDOM.random(shape) < 0.5
    return RANDOM.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", [*DTYPES.values(), "bfloat16"], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (7,), (3, 5), (1, 2, 3, 4), (300, 20)], ids=str)
def test_arrays_arrive_bit_for_bit(dtype: Any, shape: tuple[int, ...]) -> None:
    if dtype == "bfloat16":
        dtype = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    array = noise(dtype, *shape)
    (arrived,) = sent(Message("x", {}, [array])).arrays
    assert bits(arrived) == bits(array)
    assert not arrived.flags.writeable
    assert arrived.flags.aligned


BASE = RANDOM.normal(size=(6, 8))


@pytest.mark.parametrize(
    "array",
    [BASE.T, BASE[::-2, 1::3], BASE[:, 0], BASE.astype(">f8"), BASE.astype(">f8")[1:, ::2],
     np.broadcast_to(BASE[0], (3, 8)), np.asfortranarray(BASE), BASE[2, 3], BASE.astype(">i4")],
    ids=["transposed", "strided", "column", "swapped", "swapped strided", "broadcast", "fortran", "scalar", "swap int"],
)  # fmt: skip
def test_arrays_of_any_layout_arrive(array: np.ndarray) -> None:
    assert bits(sent(Message("x", {}, [array])).arrays[0]) == bits(np.asarray(array))


@pytest.mark.parametrize("count", [0, 1, FEW, FEW + 1, 70])
@pytest.mark.parametrize("size", [1, 100, SMALL // 8, 3 * SMALL])
def test_many_arrays_arrive_in_order_small_and_large(count: int, size: int) -> None:
    arrays = [noise(np.dtype("float32"), int(length)) for length in RANDOM.integers(0, size + 1, count)]
    message = Message("many", {"a": [1, {"b": None}]}, arrays)
    arrived = sent(message)
    assert [bits(array) for array in arrived.arrays] == [bits(array) for array in arrays]
    assert (arrived.kind, arrived.fields, arrived.source) == ("many", message.fields, "peer")
    assert all(array.flags.aligned for array in arrived.arrays)


@pytest.mark.parametrize("offset", range(1, 8))
def test_a_frame_that_lies_anywhere_becomes_an_aligned_array(offset: int) -> None:
    array = noise(np.dtype("float64"), 9)
    header, data = encode(Message("x", {}, [array]))
    memory = bytearray(offset) + bytes(data)
    (arrived,) = decode([header, memoryview(memory)[offset:]], "peer").arrays
    assert arrived.flags.aligned
    assert bits(arrived) == bits(array)


@pytest.mark.parametrize(
    "value",
    [None, True, -(2**63), 2**64 - 1, 1e300, float("inf"), "", "ß\x00☃", b"\x00\xff", [], [[1], ["a", b"b"]],
     {"": {"x": [None]}}],
    ids=repr,
)  # fmt: skip
def test_plain_data_arrives_as_it_is(value: Any) -> None:
    arrived = sent(Message("k", {"value": value})).fields["value"]
    assert arrived == value
    assert type(arrived) is type(value)


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


@pytest.mark.parametrize(
    ("fields", "arrays", "error", "says"),
    [
        ({"a": (1, 2)}, [], TypeError, "tuple is not plain data"),
        ({"a": {1: 2}}, [], TypeError, "keys are str, not int"),
        ({"a": np.float32(1)}, [], TypeError, "float32 is not plain data"),
        ({"a": [np.zeros(2)]}, [], TypeError, "ndarray is not plain data"),
        ({"a": {1, 2}}, [], TypeError, "set is not plain data"),
        ({"a": print}, [], TypeError, "builtin_function_or_method"),
        ({"a": nested(MAX_DEPTH + 1)}, [], TypeError, "nested more than"),
        ({"a": 2**64}, [], ValueError, "at most 64 bits"),
        ({"a": "\ud800"}, [], ValueError, "surrogates"),
        ({"a": b"x" * (17 << 20)}, [], ValueError, "send what is large as an array"),
        ([("a", 1)], [], TypeError, "fields a list"),
        ({}, [np.array([object()])], TypeError, "dtype object can't be sent"),
        ({}, [np.array(["a"])], TypeError, "can't be sent"),
        ({}, [np.zeros(2, "datetime64[s]")], TypeError, "can't be sent"),
        ({}, [np.zeros(2, [("a", "f4")])], TypeError, "can't be sent"),
        ({}, [np.zeros(2, np.longdouble)], TypeError, "can't be sent"),
        ({}, [[1, 2]], TypeError, "holds a list"),
        ({}, [None], TypeError, "holds a NoneType"),
        ({}, [np.broadcast_to(np.int8(1), (9 << 30,))], ValueError, "send it in parts"),
    ],
)  # fmt: skip
def test_what_would_not_arrive_is_refused_before_it_is_sent(fields: Any, arrays: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        encode(Message("k", fields, arrays))


def test_a_kind_is_a_str() -> None:
    with pytest.raises(TypeError, match="kind is a int"):
        encode(Message(3, {}))  # type: ignore[arg-type]


def header(*parts: Any) -> bytes:
    return msgpack.packb(list(parts))


@pytest.mark.parametrize(
    ("frames", "says"),
    [
        ([], "no message"),
        ([b""], "no message"),
        ([b"\xc1"], "no message"),
        ([msgpack.packb({"a": 1})], "no message"),
        ([b"GET / HTTP/1.1\r\n"], "no message"),
        ([header(VERSION + 1, "k", {}, [])], f"speaks version {VERSION + 1}"),
        ([header("1", "k", {}, [])], "speaks version"),
        ([header(VERSION, "k", {})], "3 parts, expected 4"),
        ([header(VERSION, 4, {}, [])], "not .version, kind, fields, arrays"),
        ([header(VERSION, "k", [], [])], "not .version, kind, fields, arrays"),
        ([header(VERSION, "k", {b"x": 1}, [])], "no sender of this version makes"),
        ([header(VERSION, "k", {"x": nested(100)}, [])], "no sender of this version makes"),
        ([header(VERSION, "k", {"x": msgpack.ExtType(5, b"ab")}, [])], "no message"),
        ([header(VERSION, "k", {"x": msgpack.Timestamp(1)}, [])], "no message"),
        ([header(VERSION, "k", {}, [["int8", [2]]])], "1 arrays with 0"),
        ([header(VERSION, "k", {}, []), b"ab"], "0 arrays with 1"),
        ([header(VERSION, "k", {}, [["int8", [2]]]), b"abc"], "3 bytes for an array of int8 .2,., which has 2"),
        ([header(VERSION, "k", {}, [["int8", [-2]]]), b"ab"], "array of shape"),
        ([header(VERSION, "k", {}, [["int8", [True]]]), b"a"], "array of shape"),
        ([header(VERSION, "k", {}, [["int8", [1.0]]]), b"a"], "array of shape"),
        ([header(VERSION, "k", {}, [["int8", [1 << 40]]]), b"a"], "array of shape"),
        ([header(VERSION, "k", {}, [["int8", [0, *[1 << 33] * 3]]]), b""], "array of shape"),
        ([header(VERSION, "k", {}, [["int8", [1] * 65]]), b"a"], "layout"),
        ([header(VERSION, "k", {}, [["object", [1]]]), b"12345678"], "dtype 'object'"),
        ([header(VERSION, "k", {}, [["O", [1]]]), b"12345678"], "dtype 'O'"),
        ([header(VERSION, "k", {}, [[3, [1]]]), b"a"], "dtype 3"),
        ([header(VERSION, "k", {}, ["int8"]), b"a"], "layout"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_named_with_its_sender(frames: list[bytes], says: str) -> None:
    with pytest.raises(ProtocolError, match=says) as raised:
        decode(frames, "rank:7")
    assert str(raised.value).startswith("rank:7")


@pytest.mark.parametrize(
    ("frames", "says"),
    [
        ([], "no message"),
        ([b"fi"], "no message"),
        ([b"xx" + bytes(11)], "no message"),
        ([HEAD.pack(b"fi", VERSION + 1, 0, 0, 0)], f"speaks version {VERSION + 1}"),
        ([HEAD.pack(b"fi", VERSION, len(WAYS), 0, 0)], f"way {len(WAYS)}"),
        ([HEAD.pack(b"fi", VERSION, 0, 3, 0)], "flags 3"),
        ([HEAD.pack(b"fi", VERSION, 0, 2, 0), b"more"], "2 frames that are said to be one"),
        ([HEAD.pack(b"fi", VERSION, 0, 2, 0)], "cut off"),
        ([HEAD.pack(b"fi", VERSION, 0, 2, 0) + b"\xff" * 8], "cut off"),
        ([HEAD.pack(b"fi", VERSION, 0, 2, 0) + b"\0\0\0\0\x09\0\0\0"], "bytes for a message of"),
    ],
)
def test_a_head_that_is_none_is_named_with_its_sender(frames: list[bytes], says: str) -> None:
    with pytest.raises(ProtocolError, match=says) as raised:
        unpack(frames, "rank:7")
    assert str(raised.value).startswith("rank:7")


@pytest.mark.parametrize("arrays", [0, 1, 3])
def test_damaged_messages_are_messages_or_errors_never_a_crash(arrays: int) -> None:
    whole = pack(Message("kind", {"a": [1, "b", {"c": 2.5}]}, [noise(np.dtype("int16"), 5)] * arrays), "call", 9)
    read = 0
    for _ in range(500):
        frames = [bytearray(bytes(frame)) for frame in whole]
        for _ in range(RANDOM.integers(1, 4)):
            frame = frames[RANDOM.integers(len(frames))]
            frame[RANDOM.integers(len(frame))] = RANDOM.integers(256)
        if RANDOM.random() < 0.3:
            frames[0] = frames[0][: RANDOM.integers(len(frames[0]))]
        try:
            message = decode(unpack([bytes(frame) for frame in frames], "peer").frames, "peer")
        except ProtocolError:
            continue
        read += 1
        assert isinstance(message.fields, dict)
        assert all(array.nbytes <= 10 for array in message.arrays)
    assert 0 < read < 500
