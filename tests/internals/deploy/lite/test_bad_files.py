"""Files and inputs that are wrong: a clear error, bounded memory, never a crash."""

import struct
import tracemalloc
import zlib

import numpy as np
import pytest

from internals.deploy.lite import Builder, Interpreter, LiteError
from internals.deploy.lite.runtime.layout import HEADER, SECTIONS, TENSOR


def model(integer=False):
    rng = np.random.default_rng(0)
    b = Builder()
    grid = {"scale": 0.1, "zero_point": 3} if integer else {}
    kind = "i1" if integer else "f4"
    own = {"scale": [0.1] * 4, "axis": 0} if integer else {}
    x = b.input("x", (-1, 6, 6, 2), kind, **grid)
    weight = b.constant("w", (100 * rng.normal(size=(4, 3, 3, 2))).clip(-100, 100).astype(kind), **own)
    bias = b.constant("b", rng.normal(size=4).astype("i4" if integer else "f4"))
    c = b.add("Conv2d", [x, weight, bias], (-1, 4, 4, 4), parameters=(1, 1, 1, 1, 1, 0, 0, 0, 0), **grid)
    p = b.add("MaxPool", [c], (-1, 2, 2, 4), parameters=(2, 2, 2, 2, 0, 0, 0, 0), **grid)
    r = b.add("Reshape", [p], (-1, 16), **grid)
    b.output(b.add("Softmax", [r], (-1, 16), name="y", **grid))
    return b


def resealed(data):
    """The same bytes with checksums that fit, as somebody who means harm would write them."""
    data = bytearray(data)
    start, count = struct.unpack_from("<2Q", data, 40 + 16 * (len(SECTIONS) - 1))
    end = start + count
    if HEADER <= end <= len(data):
        struct.pack_into("<2I", data, 12, zlib.crc32(data[20:end]), zlib.crc32(data[end:]))
    return bytes(data)


def try_it(data):
    """Load and run; a LiteError is an answer, and so is a result."""
    try:
        loaded = Interpreter(data, limit=2**22)
        for array in loaded.inputs.values():
            array[...] = 0
        loaded.invoke()
    except LiteError as error:
        if not str(error).startswith("lite: ") or len(str(error)) > 600:
            raise
        return False
    return True


def recurrent():
    rng = np.random.default_rng(4)
    b = Builder()
    x = b.input("x", (3, -1, 8))
    hidden = b.add("Lstm", [x, b.constant("w", rng.normal(size=(8, 2)).astype("f4"))], (3, -1, 2))
    b.output(b.add("Part", [hidden], (1, -1, 2), parameters=(0, 2), name="y"))
    return b


GOOD = {integer: model(integer).to_bytes() for integer in (False, True)} | {"recurrent": recurrent().to_bytes()}


@pytest.mark.parametrize("integer", GOOD)
def test_a_file_that_is_cut_off(integer):
    data = GOOD[integer]
    assert try_it(data)
    for length in [*range(HEADER + 64), *range(HEADER, len(data), 37), len(data) - 1]:
        assert not try_it(data[:length]), length
    assert not try_it(data + b"\0")


def test_a_turned_bit_is_told():
    data = GOOD[True]
    rng = np.random.default_rng(1)
    for at in {*range(8), *rng.integers(8, len(data), 300).tolist()}:
        wrong = bytearray(data)
        wrong[at] ^= 1 << int(rng.integers(8))
        assert not try_it(bytes(wrong)), at


@pytest.mark.slow
@pytest.mark.parametrize("part", range(9))
def test_hostile_bytes_with_right_checksums(part):
    data = list(GOOD.values())[part % 3]
    rng = np.random.default_rng(part)
    start, count = struct.unpack_from("<2Q", data, 40 + 16 * (len(SECTIONS) - 1))
    end = start + count
    values = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 64]
    answers = set()
    tracemalloc.start()
    try:
        for _ in range(150):
            wrong = bytearray(data)
            for _ in range(int(rng.integers(1, 4))):
                at = int(rng.integers(20, end - 4))
                if rng.random() < 0.5:
                    at -= at % 4
                    struct.pack_into("<I", wrong, at, int(rng.choice(values)))
                else:
                    wrong[at] = int(rng.integers(256))
            answers.add(try_it(resealed(wrong)))
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
    assert False in answers


def changed(name, index, **fields):
    """The good file with one record of a section changed."""
    data = bytearray(GOOD[False])
    at = 40 + 16 * list(SECTIONS).index(name)
    start, _ = struct.unpack_from("<2Q", data, at)
    for offset, (form, value) in fields.items():
        struct.pack_into(form, data, start + index * SECTIONS[name] + int(offset[1:]), value)
    return resealed(data)


HOSTILE = {
    "a shape of 2**60 entries": lambda: changed("tensors", 3, _8=("<6i", 0), **{"_8 ": ("<i", 2**30)}),
    "an operator that reads its own result": lambda: changed("words", 2 + 0, _0=("<i", 3)),
    "an unknown tensor": lambda: changed("words", 2, _0=("<i", 999)),
    "a negative tensor": lambda: changed("words", 2, _0=("<i", -1)),
    "a stride of 0": lambda: changed("words", 2 + 4 + 1, _0=("<i", 0)),
    "a padding of 2**30": lambda: changed("words", 2 + 4 + 5, _0=("<i", 2**30)),
    "a buffer over the tables": lambda: changed("buffers", 0, _0=("<Q", 64)),
    "a buffer beyond the end": lambda: changed("buffers", 0, _0=("<Q", 2**62)),
    "a buffer of 2**63 bytes": lambda: changed("buffers", 0, _8=("<Q", 2**63)),
    "a buffer that is not aligned": lambda: changed("buffers", 0, _0=("<Q", len(GOOD[False]) - 300)),
    "an unknown dtype": lambda: changed("tensors", 0, _6=("<B", 9)),
    "a rank of 7": lambda: changed("tensors", 0, _7=("<B", 7)),
    "an unknown operation": lambda: changed("operations", 0, _0=("<H", 999)),
    "version 0": lambda: changed("operations", 0, _2=("<H", 0)),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_records(what):
    data = changed("tensors", 3, _8=("<i", 2**30)) if what.startswith("a shape") else HOSTILE[what]()
    with pytest.raises(LiteError):
        Interpreter(data)


def test_a_huge_arena_is_refused_before_it_is_taken():
    b = Builder()
    x = b.input("x", (-1, 1000, 1000))
    b.output(b.add("Unary", [x], (-1, 1000, 1000), parameters=(0,)), "y")
    with pytest.raises(LiteError, match="limit"):
        Interpreter(b.to_bytes(), batch=10**6)
    with pytest.raises(LiteError, match="limit"):
        Interpreter(b.to_bytes(), limit=10**6)


def test_versions():
    """An old operation runs, a newer one is refused by name, and so is a newer layout."""
    x = np.random.default_rng(3).normal(size=(1, 4, 4, 1)).astype("f4")

    def pool(version, *more):
        b = Builder()
        parameters = (2, 2, 2, 2, 1, 1, 1, 1, *more)
        start = b.input("x", x.shape)
        b.output(b.add("AveragePool", [start], (1, 3, 3, 1), parameters=parameters, version=version), "y")
        return b.to_bytes()

    old = Interpreter(pool(1))(x=x)["y"]
    np.testing.assert_allclose(old[0, 0, 0, 0], x[0, 0, 0, 0] / 4, rtol=1e-6)
    np.testing.assert_allclose(Interpreter(pool(2, 0))(x=x)["y"][0, 0, 0, 0], x[0, 0, 0, 0], rtol=1e-6)
    with pytest.raises(LiteError, match="version 3 of AveragePool"):
        Interpreter(pool(3))
    newer = bytearray(GOOD[False])
    struct.pack_into("<I", newer, 8, 2)
    with pytest.raises(LiteError, match="layout 2"):
        Interpreter(resealed(newer))


def test_weights_lie_in_the_file(tmp_path):
    path = tmp_path / "m.lite"
    model().write(path)
    loaded = Interpreter(path)
    weight = next(value for value in loaded.values if value.name == "w")
    assert not weight.data.flags.writeable
    assert weight.data.ctypes.data % 64 == 0
    assert not weight.data.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        weight.data[0] = 0
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(LiteError, match="no lite model"):
        Interpreter(tmp_path / "empty")


WRONG = {
    "another shape": ({"x": np.zeros((1, 6, 6, 3), "f4")}, "float32.1, 6, 6, 2."),
    "another dtype": ({"x": np.zeros((1, 6, 6, 2))}, "float64"),
    "an unknown name": ({"z": np.zeros((1, 6, 6, 2), "f4")}, "inputs are x"),
    "nothing": ({}, "inputs are x"),
    "an empty batch": ({"x": np.zeros((0, 6, 6, 2), "f4")}, "got float32"),
    "a number": ({"x": np.float32(3)}, "got float32"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_inputs(what):
    inputs, told = WRONG[what]
    with pytest.raises(LiteError, match=told):
        Interpreter(GOOD[False])(**inputs)


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, None])
def test_wrong_batches(batch):
    with pytest.raises(LiteError, match="batch"):
        Interpreter(GOOD[False], batch=batch)


def test_nan_stays_in_its_row():
    x = np.random.default_rng(5).normal(size=(3, 6, 6, 2)).astype("f4")
    x[1, 0, 0, 0] = np.nan
    got = Interpreter(GOOD[False])(x=x)["y"]
    assert np.isfinite(got[[0, 2]]).all()


def test_records_have_the_sizes_that_are_told():
    assert TENSOR.size == SECTIONS["tensors"]
