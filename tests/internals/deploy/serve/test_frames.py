"""What goes between the server and its processes, in whatever pieces it comes."""

from __future__ import annotations

import asyncio
import socket
import threading

import ml_dtypes
import numpy as np
import pytest

from internals.deploy.serve.process import BUFFER, Frames
from internals.deploy.serve.worker import HEAD, frame, next_frame, opened

RNG = np.random.default_rng(11)
DTYPES = ["float32", "float64", "float16", "int64", "int8", "uint16", "bool", ml_dtypes.bfloat16, ">f4", ">i2"]
SHAPES = [(), (3,), (0,), (0, 4), (2, 3, 4), (1, BUFFER // 4)]


def random(dtype, shape):
    return np.asarray(RNG.normal(size=shape) * 50).astype(dtype)


def same(found, arrays):
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype.newbyteorder("="), array.shape)
        np.testing.assert_array_equal(found[name], array)


def parts(data):
    header, body = HEAD.unpack_from(data)
    assert len(data) == HEAD.size + header + body
    return data[HEAD.size : HEAD.size + header], data[HEAD.size + header :]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_arrays_come_out_as_they_went_in(dtype, shape):
    arrays = {"one": random(dtype, shape), "two": random("float32", (2, 2)).T[::-1], "\u00e4": random(dtype, shape)}
    fields, found = opened(*parts(frame({"signature": "s"}, arrays)))
    assert fields == {"signature": "s"}
    same(found, arrays)
    assert not any(array.flags.writeable for array in found.values())


@pytest.mark.parametrize("arrays", [None, {}, {"empty": np.zeros((0, 3), "f")}])
def test_a_frame_without_bytes(arrays):
    fields, found = opened(*parts(frame({"error": "none"}, arrays)))
    assert fields == {"error": "none"}
    same(found, arrays or {})


def test_a_dtype_that_has_no_name_there_is_refused():
    with pytest.raises(TypeError, match="complex64"):
        frame({}, {"x": random("complex64", (2,))})


@pytest.mark.parametrize("seed", range(5))
def test_frames_in_any_pieces(seed):
    """Small ones and ones larger than the memory that is read to, by both readers."""
    rng = np.random.default_rng(seed)
    sent = [{"x": random("float32", (int(rng.choice([1, 50, BUFFER // 4, BUFFER])),))} for _ in range(8)]
    came, lost = [], []
    frames = Frames(lambda header, body: came.append(opened(header, body)), lambda: lost.append(True))
    ours, theirs = socket.socketpair()

    def write():
        with theirs:
            for number, arrays in enumerate(sent):
                data = frame({"number": number}, arrays)
                cut = int(rng.integers(1, len(data)))
                theirs.sendall(data[:cut])
                theirs.sendall(data[cut:])

    writing = threading.Thread(target=write)
    with ours:
        writing.start()
        blocking = [next_frame(ours) for _ in sent]
    writing.join()
    for number, arrays in enumerate(sent):
        data = frame({"number": number}, arrays)
        while data:
            room = frames.get_buffer(-1)
            size = min(int(rng.integers(1, 2 * BUFFER)), len(room), len(data))
            room[:size] = data[:size]
            data = data[size:]
            frames.buffer_updated(size)
    frames.connection_lost(None)
    assert (len(came), lost) == (len(sent), [True])
    for got in (blocking, came):
        for number, ((fields, found), arrays) in enumerate(zip(got, sent, strict=True)):
            assert fields == {"number": number}
            same(found, arrays)


def test_a_frame_that_is_too_large_to_hold_ends_the_connection():
    """As when a model writes to a socket that is not its own."""

    async def tried():
        ours, theirs = socket.socketpair()
        lost = asyncio.get_running_loop().create_future()
        frames = Frames(lambda header, body: None, lambda: lost.set_result(True))
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: None)
        await asyncio.get_running_loop().create_connection(lambda: frames, sock=ours)
        with theirs:
            theirs.sendall(HEAD.pack(2**62, 2**62))
            return await asyncio.wait_for(lost, 60)

    assert asyncio.run(tried())
