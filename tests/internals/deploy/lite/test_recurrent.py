"""Operations over steps, beside the rows of the op table; what they refuse; what a run takes from the heap."""

import tracemalloc

import numpy as np
import pytest

from internals import ops
from internals.deploy.lite import Builder, Interpreter, LiteError

RNG = np.random.default_rng(0)


def lstm(steps, units, *, weight=None, out=None, dtype="f4"):
    weight = RNG.normal(size=(4 * units, units)).astype(dtype) if weight is None else weight
    b = Builder()
    told = {"scale": 0.1} if dtype == "i1" else {}
    x = b.input("x", (steps, -1, 4 * units), dtype, **told)
    b.output(b.add("Lstm", [x, b.constant("w", weight, **told)], out or (steps, -1, units), **told), "y")
    return b, weight


@pytest.mark.parametrize(("steps", "batch", "units"), [(1, 1, 1), (6, 3, 5), (20, 2, 16), (3, 7, 1)])
def test_a_memory_of_steps(steps, batch, units):
    b, weight = lstm(steps, units)
    x = RNG.normal(size=(steps, batch, 4 * units)).astype("f4")
    zeros = np.zeros((batch, units), np.float32)
    model = Interpreter(b.to_bytes(), batch=batch)
    for _ in range(2):  # nothing of a run is left to the next
        model.set("x", x)
        model.invoke()
        np.testing.assert_allclose(model.outputs["y"], ops.lstm(x, zeros, zeros, weight).hidden, rtol=1e-5, atol=1e-6)


def test_a_run_allocates_no_tensor():
    """NumPy has buffers of 8,192 entries of its own; the gates of a step alone are four of them."""
    model = Interpreter(lstm(10, 128)[0].to_bytes(), batch=64)
    model.invoke()
    tracemalloc.start()
    try:
        model.invoke()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        model.invoke()
        assert tracemalloc.get_traced_memory()[1] - before < 100_000 < 64 * 4 * 128 * 4
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", ["f4", "i1", "i8"])
@pytest.mark.parametrize(("axis", "start", "count"), [(0, 0, 1), (1, 2, 3), (2, 3, 1), (1, 0, 5), (2, 1, 0)])
def test_a_part_of_an_axis(axis, start, count, dtype):
    shape = [3, 5, 4]
    b = Builder()
    told = {"scale": 0.5, "zero_point": 3} if dtype == "i1" else {}
    x = b.input("x", shape, dtype, **told)
    out = [count if i == axis else size for i, size in enumerate(shape)]
    b.output(b.add("Part", [x], out, dtype, parameters=(axis, start), **told), "y")
    given = RNG.integers(-128, 128, shape).astype(dtype)
    np.testing.assert_array_equal(
        Interpreter(b.to_bytes())(x=given)["y"], np.take(given, range(start, start + count), axis)
    )


@pytest.mark.parametrize(("parameters", "out"), [
    ((0, 3), (1, 5)), ((0, -1), (1, 5)), ((2, 0), (3, 5)), ((-1, 0), (3, 5)), ((1, 4), (3, 2)), ((1, 0), (2, 5)),
    ((0, 2**31 - 1), (1, 5)), ((1, 0), (3, 5, 1)),
])  # fmt: skip
def test_parts_that_are_not_there(parameters, out):
    b = Builder()
    b.output(b.add("Part", [b.input("x", (3, 5))], out, parameters=parameters), "y")
    with pytest.raises(LiteError, match="Part of"):
        Interpreter(b.to_bytes())


@pytest.mark.parametrize("settings", [
    {"weight": np.zeros((8, 3), np.float32)}, {"weight": np.zeros((12, 3), np.float32)},
    {"weight": np.zeros(16, np.float32)}, {"out": (3, -1, 3)}, {"out": (2, -1, 2)}, {"dtype": "i1"},
])  # fmt: skip
def test_memories_that_make_no_sense(settings):
    with pytest.raises(LiteError, match="Lstm of"):
        Interpreter(lstm(3, 2, **settings)[0].to_bytes())
