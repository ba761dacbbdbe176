"""Each operation against what it means: floats against a plain formula, int8 against exact sums and half a step."""

import itertools
import tracemalloc

import numpy as np
import pytest

from internals.deploy.lite import Builder, Interpreter, LiteError

HALF = 0.5 + 1e-6
"""How far a rounded result lies from the real one, in steps; a multiplier of 31 bits adds less than the rest."""


def windows(x, size, stride, dilation, padding, fill=0):
    """(n, rows, columns, kernel height, kernel width, channels), by loops."""
    top, bottom, left, right = padding
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    counts = [(n - (d * (k - 1) + 1)) // s + 1 for n, k, s, d in zip(x.shape[1:3], size, stride, dilation, strict=True)]
    out = np.empty((x.shape[0], *counts, *size, x.shape[3]), x.dtype)
    for r, c, i, j in itertools.product(*map(range, (*counts, *size))):
        out[:, r, c, i, j] = x[:, r * stride[0] + i * dilation[0], c * stride[1] + j * dilation[1]]
    return out


def steps(rng, *shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def weights(rng, *shape):
    return rng.integers(-127, 128, shape).astype(np.int8)


def close_to(got, real, scale, zero, low=-128, high=127):
    wanted = np.clip(real / scale + zero, low, high)
    assert got.dtype == np.int8
    assert np.abs(got - wanted).max() <= HALF


def one(kind, inputs, out, parameters=(), *, batch=1, scratch=2**14, dtype=None, **grid):
    """A model of one operation; inputs are (name, array, constant, grid)."""
    b = Builder()
    numbers = []
    for name, array, constant, own in inputs:
        make = b.constant if constant else lambda n, a, **g: b.input(n, a.shape, a.dtype, **g)
        numbers.append(make(name, array, **own))
    b.output(b.add(kind, numbers, out, dtype, parameters=parameters, name="y", **grid))
    model = Interpreter(b.to_bytes(), batch=batch, scratch=scratch)
    return model(**{name: array for name, array, constant, _ in inputs if not constant})["y"]


CONVS = [
    # kernel, stride, dilation, padding, channels in and out
    ((1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 3, 4),
    ((3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 2, 5),
    ((3, 2), (2, 1), (1, 1), (0, 1, 1, 0), 3, 2),
    ((2, 3), (1, 2), (2, 1), (3, 0, 0, 2), 1, 1),
    ((5, 5), (3, 3), (1, 1), (4, 4, 4, 4), 48, 3),
]


@pytest.mark.parametrize("scratch", [1, 700, 2**20])
@pytest.mark.parametrize("case", CONVS, ids=str)
def test_conv_of_floats(case, scratch):
    kernel, stride, dilation, padding, channels, out = case
    rng = np.random.default_rng(len(str(case)))
    x, w = (rng.normal(size=s).astype("f4") for s in ((2, 7, 6, channels), (out, *kernel, channels)))
    bias = rng.normal(size=out).astype("f4")
    found = windows(x, kernel, stride, dilation, padding)
    wanted = np.einsum("nrcijk,oijk->nrco", found.astype(float), w) + bias
    settings = (2, *stride, *dilation, *padding)
    inputs = [("x", x, False, {}), ("w", w, True, {}), ("b", bias, True, {})]
    got = one("Conv2d", inputs, wanted.shape, settings, scratch=scratch)
    np.testing.assert_allclose(got, np.clip(wanted, 0, 6), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", [0, 1, 2])
@pytest.mark.parametrize("scratch", [1, 700, 2**20])
@pytest.mark.parametrize("case", CONVS, ids=str)
def test_conv_of_integers(case, scratch, activation):
    kernel, stride, dilation, padding, channels, out = case
    rng = np.random.default_rng(len(str(case)) + activation)
    x, w, bias = steps(rng, 2, 7, 6, channels), weights(rng, out, *kernel, channels), rng.integers(-9999, 9999, out)
    scales, zero = rng.uniform(0.001, 0.01, out).astype("f4"), -37
    found = windows(x.astype(np.int64), kernel, stride, dilation, padding, zero) - zero
    sums = np.einsum("nrcijk,oijk->nrco", found, w.astype(np.int64)) + bias
    out_scale = np.float32(np.abs(sums * scales).max() * 0.05 / 140)
    inputs = [
        ("x", x, False, {"scale": 0.05, "zero_point": zero}), ("w", w, True, {"scale": scales, "axis": 0}),
        ("b", bias.astype("i4"), True, {}),
    ]  # fmt: skip
    settings = (activation, *stride, *dilation, *padding)
    got = one("Conv2d", inputs, sums.shape, settings, scratch=scratch, scale=out_scale, zero_point=5)
    low = -128 if not activation else 5
    high = 127 if activation < 2 else min(127, 5 + round(6 / float(out_scale)))
    close_to(got, sums * (np.float32(0.05) * scales.astype(float)), float(out_scale), 5, low, high)


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("scratch", [1, 900, 2**20])
@pytest.mark.parametrize("case", CONVS[:4], ids=str)
def test_depthwise(case, scratch, integer):
    kernel, stride, dilation, padding, channels, _ = case
    rng = np.random.default_rng(3)
    settings = (1, *stride, *dilation, *padding)
    if integer:
        x, w, bias = steps(rng, 2, 7, 6, channels), weights(rng, *kernel, channels), rng.integers(-99, 99, channels)
        scales = rng.uniform(0.01, 0.1, channels).astype("f4")
        found = windows(x.astype(np.int64), kernel, stride, dilation, padding, 11) - 11
        sums = np.einsum("nrcijk,ijk->nrck", found, w.astype(np.int64)) + bias
        out_scale = np.float32(np.abs(sums * scales).max() * 0.25 / 200)
        inputs = [
            ("x", x, False, {"scale": 0.25, "zero_point": 11}), ("w", w, True, {"scale": scales, "axis": 2}),
            ("b", bias.astype("i4"), True, {}),
        ]  # fmt: skip
        got = one("Depthwise", inputs, sums.shape, settings, scratch=scratch, scale=out_scale, zero_point=-60)
        close_to(got, sums * (0.25 * scales.astype(float)), float(out_scale), -60, low=-60)
        return
    x, w = (rng.normal(size=s).astype("f4") for s in ((2, 7, 6, channels), (*kernel, channels)))
    bias = rng.normal(size=channels).astype("f4")
    wanted = np.einsum("nrcijk,ijk->nrck", windows(x, kernel, stride, dilation, padding), w) + bias
    inputs = [("x", x, False, {}), ("w", w, True, {}), ("b", bias, True, {})]
    got = one("Depthwise", inputs, wanted.shape, settings, scratch=scratch)
    np.testing.assert_allclose(got, np.maximum(wanted, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("width", "scratch"), [(7, 1), (7, 2**16), (2500, 1), (2500, 3000), (2500, 2**20)])
def test_fully_connected_integers_are_exact(width, scratch):
    rng = np.random.default_rng(width)
    x, w, bias = np.full((3, 2, width), -128, np.int8), weights(rng, 9, width), rng.integers(-(2**20), 2**20, 9)
    x[1:] = steps(rng, 2, 2, width)
    sums = (x.astype(np.int64) - 127) @ w.T.astype(np.int64) + bias
    scale = np.float32(np.abs(sums).max() / 150 * 0.002)
    inputs = [
        ("x", x, False, {"scale": 0.1, "zero_point": 127}), ("w", w, True, {"scale": 0.02}),
        ("b", bias.astype("i4"), True, {}),
    ]  # fmt: skip
    got = one("FullyConnected", inputs, sums.shape, (0,), scratch=scratch, scale=scale, zero_point=3)
    close_to(got, sums * (float(np.float32(0.1)) * float(np.float32(0.02))), float(scale), 3)


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("counted", [None, 0, 1])
@pytest.mark.parametrize("scratch", [1, 2**20])
def test_pools(integer, counted, scratch):
    rng = np.random.default_rng(8)
    x = steps(rng, 2, 9, 5, 3) if integer else rng.normal(size=(2, 9, 5, 3)).astype("f4")
    grid = {"scale": 0.5, "zero_point": -9} if integer else {}
    settings = (3, 2, 2, 1, 1, 2, 1, 0)
    geometry = (3, 2), (2, 1), (1, 1), settings[4:]
    found = windows(x.astype(float), *geometry, np.nan)
    wanted = np.nanmax(found, (3, 4))
    got = one("MaxPool", [("x", x, False, grid)], wanted.shape, settings, scratch=scratch, **grid)
    np.testing.assert_array_equal(got, wanted)
    if counted == 0:
        wanted = np.nanmean(found, (3, 4))
    else:
        wanted = windows(x.astype(float), *geometry, -9.0 if integer else 0.0).mean((3, 4))
    more = () if counted is None else (counted,)
    got = one("AveragePool", [("x", x, False, grid)], wanted.shape, (*settings, *more), scratch=scratch, **grid)
    if integer:
        wanted = np.trunc(wanted + np.copysign(0.5, wanted))
    np.testing.assert_allclose(got, wanted, rtol=0 if integer else 1e-5, atol=0 if integer else 1e-5)


def exact(kind, a, b):
    return a + b if kind == "Add" else a * b


@pytest.mark.parametrize("kind", ["Add", "Multiply"])
@pytest.mark.parametrize("shape", [(2, 3, 5), (3, 5), (5,), (), (1,)])
@pytest.mark.parametrize("scratch", [1, 2**20])
def test_binary(kind, shape, scratch):
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(2, 3, 5)).astype("f4"), rng.normal(size=shape).astype("f4")
    got = one(kind, [("a", a, False, {}), ("b", b, True, {})], a.shape, (1,), scratch=scratch)
    np.testing.assert_array_equal(got, np.maximum(exact(kind, a, b), 0))
    qa, qb = steps(rng, 2, 3, 5), steps(rng, *shape)
    real = exact(kind, (qa.astype(float) + 30) * 0.25, (qb.astype(float) - 4) * 0.0625)
    scale = np.abs(real).max() / 64
    grids = {"scale": 0.25, "zero_point": -30}, {"scale": 0.0625, "zero_point": 4}
    inputs = [("a", qa, False, grids[0]), ("b", qb, False, grids[1])]
    got = one(kind, inputs, a.shape, (0,), scratch=scratch, scale=scale, zero_point=2)
    close_to(got, real, float(np.float32(scale)), 2)


FUNCTIONS = [
    lambda x: np.maximum(x, 0), lambda x: np.clip(x, 0, 6), lambda x: 1 / (1 + np.exp(-x)), np.tanh,
]  # fmt: skip


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("scratch", [1, 2**20])
def test_unary(number, scratch):
    rng = np.random.default_rng(number)
    x = (4 * rng.normal(size=(3, 6))).astype("f4")
    got = one("Unary", [("x", x, False, {})], x.shape, (number,), scratch=scratch)
    np.testing.assert_allclose(got, FUNCTIONS[number](x), rtol=1e-5, atol=1e-6)
    q = steps(rng, 3, 6)
    grid = {"scale": 0.05, "zero_point": 10}
    got = one("Unary", [("x", q, False, grid)], x.shape, (number,), scratch=scratch, scale=1 / 128, zero_point=-3)
    close_to(got, FUNCTIONS[number]((q - 10.0) * float(np.float32(0.05))), 1 / 128, -3)


@pytest.mark.parametrize("scratch", [1, 2**20])
def test_softmax(scratch):
    rng = np.random.default_rng(1)
    x = (5 * rng.normal(size=(4, 2, 7))).astype("f4")
    x[0, 0] = 3e38, -3e38, 0, 0, 0, 0, -np.inf
    wide = np.exp(x.astype(float) - x.max(-1, keepdims=True))
    got = one("Softmax", [("x", x, False, {})], x.shape, scratch=scratch)
    np.testing.assert_allclose(got, wide / wide.sum(-1, keepdims=True), rtol=1e-5, atol=1e-7)
    q = steps(rng, 4, 2, 7)
    wide = np.exp(0.1 * q.astype(float))
    grid = {"scale": 0.1, "zero_point": 40}
    got = one("Softmax", [("x", q, False, grid)], x.shape, scratch=scratch, scale=1 / 256, zero_point=-128)
    assert np.abs(got - np.clip(wide / wide.sum(-1, keepdims=True) * 256 - 128, -128, 127)).max() <= 0.501


@pytest.mark.parametrize("scratch", [1, 2**20])
def test_between_floats_and_integers(scratch):
    rng = np.random.default_rng(5)
    x = np.append(rng.normal(size=(39)) * 9, [np.nan]).astype("f4").reshape(4, 10)
    q = one("Quantise", [("x", x, False, {})], x.shape, dtype="i1", scratch=scratch, scale=0.1, zero_point=-7)
    close_to(q.ravel()[:-1], x.ravel()[:-1].astype(float), float(np.float32(0.1)), -7)
    assert q.ravel()[-1] == -128
    grid = {"scale": 0.1, "zero_point": -7}
    back = one("Dequantise", [("x", q, False, grid)], x.shape, dtype="f4")
    np.testing.assert_allclose(back, (q + 7.0) * 0.1, rtol=1e-6)
    again = one("Quantise", [("x", q, False, grid)], x.shape, scratch=scratch, scale=0.3, zero_point=20)
    close_to(again, (q + 7.0) * 0.1, 0.3, 20)


def test_mean():
    rng = np.random.default_rng(6)
    x, q = rng.normal(size=(3, 4, 5, 6)).astype("f4"), steps(rng, 3, 4, 5, 6)
    np.testing.assert_allclose(one("Mean", [("x", x, False, {})], (3, 6)), x.mean((1, 2)), rtol=1e-4, atol=1e-6)
    for scratch in (1, 2**20):
        got = one("Mean", [("x", q, False, {"scale": 0.5, "zero_point": 7})], (3, 6), scratch=scratch, scale=0.125)
        close_to(got, (q.mean((1, 2)) - 7) * 0.5, 0.125, 0)


@pytest.mark.parametrize("integer", [False, True])
def test_moves(integer):
    rng = np.random.default_rng(7)
    grid = {"scale": 0.5, "zero_point": 9} if integer else {}
    x, y = (steps(rng, 2, 3, 4) if integer else rng.normal(size=(2, 3, 4)).astype("f4") for _ in range(2))
    table = [
        ("Reshape", [x], (6, 4), (), x.reshape(6, 4)),
        ("Transpose", [x], (4, 2, 3), (2, 0, 1), x.transpose(2, 0, 1)),
        ("Pad", [x], (3, 3, 9), (0, 1, 0, 0, 2, 3), np.pad(x, ((0, 1), (0, 0), (2, 3)), constant_values=9 * integer)),
        ("Concat", [x, y, x], (2, 9, 4), (1,), np.concatenate([x, y, x], 1)),
    ]
    for kind, arrays, shape, parameters, wanted in table:
        inputs = [(f"x{i}", array, False, grid) for i, array in enumerate(arrays)]
        np.testing.assert_array_equal(one(kind, inputs, shape, parameters, **grid), wanted)
    for dtype in (np.int32, np.int64):
        index = rng.integers(0, 2, (3, 2)).astype(dtype)
        inputs = [("table", x, True, grid), ("index", index, False, {})]
        np.testing.assert_array_equal(one("Gather", inputs, (3, 2, 3, 4), **grid), x[index])
        for wrong in (-1, 2):
            index[1, 1] = wrong
            with pytest.raises(LiteError, match="row number"):
                one("Gather", inputs, (3, 2, 3, 4), **grid)


def network(integer, batch_first=True):
    """A network with every kind of step, for memory."""
    rng = np.random.default_rng(9)
    b = Builder()
    kind = "i1" if integer else "f4"

    def grid(scale):
        return {"scale": scale, "zero_point": 3} if integer else {}

    def constant(name, *shape, axis=0):
        if integer:
            return b.constant(name, weights(rng, *shape), scale=rng.uniform(0.01, 0.02, shape[axis]), axis=axis)
        return b.constant(name, rng.normal(size=shape).astype("f4"))

    def bias(name, n):
        return b.constant(name, rng.integers(-99, 99, n).astype("i4") if integer else rng.normal(size=n).astype("f4"))

    x = b.input("x", (-1, 16, 16, 3), kind, **grid(0.05))
    window = (1, 1, 1, 1, 1, 1, 1, 1, 1)
    c = b.add("Conv2d", [x, constant("w1", 16, 3, 3, 3), bias("b1", 16)], (-1, 16, 16, 16), parameters=window,
              **grid(0.1))  # fmt: skip
    d = b.add("Depthwise", [c, constant("w2", 3, 3, 16, axis=2), bias("b2", 16)], (-1, 16, 16, 16), parameters=window,
              **grid(0.1))  # fmt: skip
    s = b.add("Add", [d, c], (-1, 16, 16, 16), parameters=(0,), **grid(0.2))
    p = b.add("MaxPool", [s], (-1, 8, 8, 16), parameters=(2, 2, 2, 2, 0, 0, 0, 0), **grid(0.2))
    q = b.add("AveragePool", [p], (-1, 4, 4, 16), parameters=(2, 2, 2, 2, 0, 0, 0, 0), **grid(0.2))
    t = b.add("Unary", [q], (-1, 4, 4, 16), parameters=(3,), **grid(0.2))
    r = b.add("Reshape", [t], (-1, 256), **grid(0.2))
    f = b.add("FullyConnected", [r, constant("w3", 10, 256), bias("b3", 10)], (-1, 10), parameters=(0,), **grid(0.5))
    b.output(b.add("Softmax", [f], (-1, 10), name="y", **({"scale": 1 / 256, "zero_point": -128} if integer else {})))
    return b


def allocated(model):
    """Bytes that a run takes from the heap at its peak, and keeps."""
    model.invoke()
    tracemalloc.start()
    try:
        model.invoke()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        model.invoke()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before, after - before


@pytest.mark.parametrize("integer", [False, True])
def test_a_run_allocates_no_tensor(integer):
    data = network(integer).to_bytes()
    model = Interpreter(data, batch=16)
    convs = [one.size for one in model.blocks if "Conv" in one.name]
    peak, kept = allocated(model)
    assert kept < 16384  # NumPy keeps some of the small objects that views are
    assert peak < min(49152, *convs)


@pytest.mark.parametrize("integer", [False, True])
def test_results_do_not_depend_on_room_batch_or_what_ran_before(integer):
    data = network(integer).to_bytes()
    rng = np.random.default_rng(12)
    x = steps(rng, 5, 16, 16, 3) if integer else rng.normal(size=(5, 16, 16, 3)).astype("f4")
    wanted = Interpreter(data, batch=5, scratch=2**22)(x=x)["y"]
    model = Interpreter(data, scratch=1)
    for rows in (slice(0, 2), slice(2, 5), slice(0, 5)):
        got = model(x=x[rows])["y"]
        if integer:
            np.testing.assert_array_equal(got, wanted[rows])
        else:
            np.testing.assert_allclose(got, wanted[rows], rtol=1e-4, atol=1e-6)
