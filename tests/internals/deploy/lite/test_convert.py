"""Models of the framework as lite files: equal results in float32, close ones in int8, errors that name a node."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from internals import Tensor, nn, no_grad, ops, optim
from internals.deploy import Signature, TensorSpec, load, save
from internals.deploy.lite import Interpreter, LiteError, runtime, to_lite, write_lite
from internals.deploy.lite.__main__ import main
from internals.deploy.lite.show import draw_arena

IMAGE = TensorSpec(("batch", 4, 8, 6))
ROW = TensorSpec(("batch", 12))
SEQUENCE = TensorSpec(("batch", 5, 7))
RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(6, 4, 3, 3)).astype("f4")
BIAS = RNG.normal(size=(6, 1, 1)).astype("f4")
ONE_EACH = RNG.normal(size=(4, 1, 3, 3)).astype("f4")
MATRIX = RNG.normal(size=(4 * 48, 9)).astype("f4")
SMALL = RNG.normal(size=(7, 3)).astype("f4")
VECTOR = RNG.normal(size=12).astype("f4")


def folded(x):
    y = ops.conv2d(x, WEIGHT, stride=1, padding=1) + BIAS
    return ops.relu((y - 0.25) * (BIAS * 3) + BIAS / 2)


def residual(x):
    y = ops.relu(ops.conv2d(x, WEIGHT[:4], padding=1))
    return ops.relu(y + x)


FUNCTIONS = {
    "conv, bias, scale and relu in one": (folded, IMAGE, ["Transpose", "Conv2d", "Transpose"]),
    "stride and dilation": (lambda x: ops.conv2d(x, WEIGHT, stride=(2, 1), dilation=(1, 2)), IMAGE, None),
    "depthwise": (lambda x: ops.clip(ops.conv2d(x, ONE_EACH, padding=1, groups=4), low=0.0, high=6.0), IMAGE,
                  ["Transpose", "Depthwise", "Transpose"]),
    "residual": (residual, IMAGE, None),
    "max pool": (lambda x: ops.max_pool2d(x, window=(2, 3), stride=2), IMAGE, None),
    "average pool, padding counted": (lambda x: ops.avg_pool2d(x, window=3, stride=2, padding=1), IMAGE, None),
    "average pool, padding left out": (
        lambda x: ops.avg_pool2d(x, window=3, stride=2, padding=1, count_include_pad=False), IMAGE, None),
    "global pool": (lambda x: ops.mean(x, axis=(2, 3)), IMAGE, ["Transpose", "Mean"]),
    "global pool, axes kept": (lambda x: ops.mean(ops.relu(x), axis=(2, 3), keepdims=True), IMAGE, None),
    "flattened image into a matrix": (
        lambda x: ops.matmul(ops.reshape(ops.max_pool2d(x, window=1), shape=(x.shape[0], 192)), MATRIX), IMAGE,
        ["Transpose", "MaxPool", "Reshape", "FullyConnected"]),
    "flattened image as it is": (
        lambda x: ops.reshape(ops.max_pool2d(x, window=2), shape=(x.shape[0], 48)) * 2.0, IMAGE, None),
    "images one behind the other": (lambda x: ops.concat([ops.max_pool2d(x, window=1), x], axis=1), IMAGE, None),
    "softmax over channels": (lambda x: ops.softmax(ops.max_pool2d(x, window=1), axis=1), IMAGE, None),
    "padding": (lambda x: ops.pad(x, width=((0, 0), (0, 0), (1, 2), (0, 3))), IMAGE, None),
    "functions": (lambda x: ops.tanh(ops.sigmoid(x)) / 4.0, ROW, None),
    "a vector": (lambda x: (x * VECTOR + VECTOR) - 1.5, ROW, None),
    "channels of an image as it came": (
        lambda x: (x * BIAS[:4] - BIAS[2:]) * (BIAS[:4] + MATRIX[:6, 0]), IMAGE, None),
    "a constant first": (lambda x: 2.0 + x, ROW, None),
    "a sequence of rows": (
        lambda x: ops.relu(ops.matmul(ops.reshape(x, shape=(x.shape[0] * 5, 7)), SMALL)), SEQUENCE, None),
    "axes in another order": (lambda x: ops.softmax(ops.transpose(x, axes=(0, 2, 1)), axis=-1), SEQUENCE, None),
    "the last of a sequence": (lambda x: ops.relu(x)[:, -1], SEQUENCE, ["Unary", "Part", "Reshape"]),
    "parts of a sequence": (lambda x: ops.tanh(x)[:, 1:4, 2] * 2.0, SEQUENCE, ["Unary", "Part", "Part", "Reshape",
                                                                             "Multiply"]),
    "mean of a sequence": (lambda x: ops.mean(x, axis=1), SEQUENCE, ["Mean"]),
}  # fmt: skip


def example(spec, batch, seed):
    return np.random.default_rng(seed).normal(size=(batch, *spec.shape[1:])).astype("f4")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    function, spec, kinds = FUNCTIONS[name]
    signature = {"serve": Signature({"x": spec}, ("y",))}
    model = Interpreter(to_lite(function, signature))
    for batch in (1, 3):
        x = example(spec, batch, batch)
        with no_grad():
            wanted = function(Tensor(x)).numpy()
        np.testing.assert_allclose(model(x=x)["y"], wanted, rtol=1e-4, atol=1e-5)
    if kinds:
        assert [type(kernel).__name__ for kernel in model.kernels] == kinds
    seen = [{"x": example(spec, 4, seed)} for seed in range(4)]
    integer = Interpreter(to_lite(function, signature, calibration=seen))
    got = integer.real("y", integer(x=integer.quantised("x", x))["y"])
    assert all(value.dtype != np.float32 for value in integer.values)
    span = np.ptp(wanted)
    assert np.abs(got - wanted).mean() <= 0.02 * span + 1e-6


def test_an_embedding():
    table = RNG.normal(size=(20, 4)).astype("f4")
    signature = {"serve": Signature({"ids": TensorSpec(("batch", 6), "int64")}, ("y",))}

    def words(ids):
        return ops.mean(ops.take(table, ids, axis=0), axis=1)

    ids = np.random.default_rng(3).integers(0, 20, (3, 6))
    wanted = table[ids].mean(1)
    data = to_lite(words, signature)
    np.testing.assert_allclose(Interpreter(data)(ids=ids)["y"], wanted, rtol=1e-5, atol=1e-6)
    integer = Interpreter(to_lite(words, signature, calibration=[{"ids": ids}]))
    got = integer.real("y", integer(ids=ids)["y"])
    assert np.abs(got - wanted).max() < 0.03 * np.ptp(table)
    with pytest.raises(LiteError, match="row number"):
        Interpreter(data)(ids=ids + 20)


LAYER = nn.LSTM(7, 6, batch_first=True, rng=RNG)


class Recurrent(nn.Module):
    """Two layers, and a head on the last step."""

    def __init__(self):
        self.layers = nn.LSTM(7, 6, num_layers=2, batch_first=True, rng=RNG)
        self.head = nn.Linear(6, 3, rng=RNG)

    def forward(self, x):
        return self.head(self.layers(x)[0][:, -1])


def test_a_recurrent_network():
    model, signature = Recurrent(), {"serve": Signature({"x": SEQUENCE}, ("y",))}
    data = to_lite(model, signature)
    for batch in (1, 4):
        x = example(SEQUENCE, batch, batch)
        with no_grad():
            wanted = model(Tensor(x)).numpy()
        one = Interpreter(data)
        np.testing.assert_allclose(one(x=x)["y"], wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(one(x=x)["y"], one(x=x)["y"])  # a run begins anew
    assert [type(kernel).__name__ for kernel in one.kernels].count("Lstm") == 2
    integer = Interpreter(to_lite(model, signature, calibration=[{"x": example(SEQUENCE, 16, 9)}]))
    got = integer.real("y", integer(x=integer.quantised("x", x))["y"])
    assert {value.dtype.name for value in integer.values} >= {"int8", "float32"}
    assert np.abs(got - wanted).mean() <= 0.03 * np.ptp(wanted)


UNKNOWN = {
    "an operation": (lambda x: ops.erf(x), ROW, "is erf, and lite models have none of that"),
    "groups": (lambda x: ops.conv2d(x, WEIGHT[:, :2], groups=2), IMAGE, "2 groups"),
    "other bounds": (lambda x: ops.clip(x, low=-1.0, high=1.0), ROW, "clips to -1"),
    "a product of values": (lambda x: ops.matmul(x, ops.transpose(x, axes=(0, 2, 1))), SEQUENCE, "must not depend"),
    "an axis": (lambda x: ops.softmax(x, axis=1), SEQUENCE, "along axis 1"),
    "places of the batch": (lambda x: x[1:], SEQUENCE, "picks from the batch"),
    "every other": (lambda x: x[:, ::2], SEQUENCE, "by steps of 2"),
    "a cell": (lambda x: LAYER(x)[1][1][0], SEQUENCE, "is result 1 of"),
    "another beginning": (
        lambda x: (
            ops.lstm(
                ops.transpose(ops.concat([x, x, x, x], axis=2), axes=(1, 0, 2)),
                x[:, 0],
                x[:, 0] * 0.0,
                np.zeros((28, 7), np.float32),
            ).hidden
        ),
        SEQUENCE,
        "do not begin as zeros",
    ),
    "a division by a value": (lambda x: 1.0 / (x + 9.0), ROW, "by constants only"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_has_no_counterpart_is_named(name):
    function, spec, told = UNKNOWN[name]
    with pytest.raises(LiteError, match=told) as caught:
        to_lite(function, {"serve": Signature({"x": spec}, ("y",))})
    assert "made at" in str(caught.value)


def test_calibration_that_is_empty_or_not_finite():
    signature = {"serve": Signature({"x": ROW}, ("y",))}
    with pytest.raises(LiteError, match="no example"):
        to_lite(lambda x: x * 2.0, signature, calibration=[])
    with pytest.raises(LiteError, match="not finite"):
        to_lite(lambda x: x * 2.0, signature, calibration=[{"x": np.full((1, 12), np.inf, "f4")}])


class Reader(nn.Module):
    """A small convolutional network for digits."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.conv, self.norm = nn.Conv2d(1, 8, 3, padding=1, rng=rng), nn.BatchNorm2d(8)
        self.head = nn.Linear(128, 10, rng=rng)

    def forward(self, x):
        x = ops.max_pool2d(ops.relu(self.norm(self.conv(x))), window=2)
        return self.head(ops.reshape(x, shape=(x.shape[0], 128)))


DIGITS = {"serve": Signature({"x": TensorSpec(("batch", 1, 8, 8))}, ("y",))}


@pytest.fixture(scope="module")
def digits():
    """A trained model, images and labels that it has not seen, and some that it has."""
    from sklearn.datasets import load_digits

    found, model = load_digits(), Reader()
    images, labels = (found.images / 16).astype("f4")[:, None], found.target
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for step in range(60):
        rows = np.random.default_rng(step).integers(0, 1500, 64)
        optimizer.zero_grad()
        ops.cross_entropy(model(Tensor(images[rows])), Tensor(labels[rows])).backward()
        optimizer.step()
    model.eval()
    return model, images[1500:], labels[1500:], images[:200]


@pytest.mark.slow
def test_real_digits_in_float_and_in_integers(digits, tmp_path):
    model, images, labels, seen = digits
    with no_grad():
        wanted = model(Tensor(images)).numpy()
    save(tmp_path / "saved", model, DIGITS)
    data = to_lite(load(tmp_path / "saved"))
    got = Interpreter(data)(x=images)["y"]
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    write_lite(tmp_path / "m.lite", model, DIGITS, calibration=[{"x": seen}])
    integer = Interpreter(tmp_path / "m.lite")
    kinds = [type(kernel).__name__ for kernel in integer.kernels]
    assert kinds == ["Reshape", "Conv2d", "MaxPool", "Reshape", "FullyConnected"]
    steps = integer(x=integer.quantised("x", images))["y"]
    float_accuracy = (wanted.argmax(1) == labels).mean()
    assert float_accuracy > 0.85
    assert (steps.argmax(1) == labels).mean() > float_accuracy - 0.015
    assert (tmp_path / "m.lite").stat().st_size < 0.65 * len(data)


def test_it_is_shown(tmp_path, capsys):
    path = tmp_path / "m.lite"
    write_lite(path, FUNCTIONS["residual"][0], {"serve": Signature({"x": IMAGE}, ("y",))})
    assert main([str(path), "--batch", "2"]) == 0
    shown = capsys.readouterr().out
    model = Interpreter(path, batch=2)
    for part in ("Conv2d.1", "Add.1", "constant_", f"arena {len(model.arena):,} bytes", "#"):
        assert part in shown
    for i, block in model.of_value.items():
        line = next(one for one in shown.splitlines() if one.startswith(f"{model.values[i].name} "))
        assert line.endswith(f"arena {block.offset:,}")
    drawn = draw_arena(model)
    assert drawn.svg.count("<rect") == len(model.blocks)
    assert f"{len(model.arena):,} bytes" in drawn.description
    path.write_bytes(b"nothing")
    assert main([str(path)]) == 1
    assert "no lite model" in capsys.readouterr().err


def test_the_interpreter_is_short():
    """Reading, planning and running; the kernels are a table beside it."""
    folder = Path(runtime.__file__).parent
    lines = {one.name: len(one.read_text().splitlines()) for one in folder.glob("*.py")}
    assert sum(lines[name] for name in ("layout.py", "arena.py", "interpreter.py")) < 600


ALONE = """
import sys
sys.path[:0] = [{folder!r}, {numpy!r}]
before = set(sys.modules)
for name in ("mmap", "threading", "multiprocessing", "ctypes.util"):
    sys.modules[name] = None
import numpy as np
import runtime
model = runtime.Interpreter(open({model!r}, "rb").read())
x = np.load({inputs!r})
np.save({outputs!r}, model(x=x)["y"])
allowed = {{*sys.stdlib_module_names, "numpy", "runtime"}}
print(sorted(name for name in set(sys.modules) - before if name.split(".")[0] not in allowed))
"""


@pytest.mark.slow
def test_it_runs_where_there_is_only_numpy(digits, tmp_path):
    """A copied folder, no site-packages but NumPy, no files to map and no threads: what a browser's Python has."""
    model, images, _, seen = digits
    data = to_lite(model, DIGITS, calibration=[{"x": seen}])
    here = Interpreter(data)
    x = here.quantised("x", images)
    (tmp_path / "m.lite").write_bytes(data)
    np.save(tmp_path / "x.npy", x)
    copied = tmp_path / "copied" / "runtime"
    copied.mkdir(parents=True)
    for one in Path(runtime.__file__).parent.glob("*.py"):
        (copied / one.name).write_text(one.read_text())
    only = tmp_path / "only"
    only.mkdir()
    packages = Path(np.__file__).parent.parent
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (only / name).symlink_to(packages / name)
    program = ALONE.format(
        folder=str(copied.parent), numpy=str(only), model=str(tmp_path / "m.lite"), inputs=str(tmp_path / "x.npy"),
        outputs=str(tmp_path / "y.npy"),
    )  # fmt: skip
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), here(x=x)["y"])
