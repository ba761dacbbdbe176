"""Whole models in files: they come back, training goes on exactly, and a kill leaves the last one whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from front_models import RNG, ROOT, X, Y, compiled, same_weights, small

from internals import front
from internals.front import (
    BatchNormalization,
    Conv2D,
    Dense,
    Flatten,
    Input,
    Layer,
    Model,
    Sequential,
    load,
)
from internals.nn.weights import load_arrays, save_arrays


def resumable(model: Any, epochs: int, initial_epoch: int = 0) -> Any:
    return model.fit(X, Y, epochs=epochs, initial_epoch=initial_epoch, batch_size=10, verbose=0).history["loss"]


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "rmsprop", "adagrad", "lion"])
def test_training_resumes_exactly(tmp_path: Path, optimizer: str) -> None:
    """Weights, moving statistics, the optimizer's memory, dropout and the order of examples go on as they were."""
    whole = compiled(small(dropout=0.4), optimizer)
    expected = resumable(whole, 5)
    half = compiled(small(dropout=0.4), optimizer)
    resumable(half, 2)
    half.save(tmp_path / "model.safetensors")
    resumed = load(
        tmp_path / "model.safetensors",
        compile={"optimizer": optimizer, "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]},
    )
    assert resumed.epochs_done == 2
    assert resumable(resumed, 5, resumed.epochs_done) == expected[2:]
    same_weights(resumed, whole)


def graph() -> Model:
    left, right, shared = Input((5,), name="left"), Input((None, 5)), Dense(4, "relu", name="both")
    mean = front.GlobalAveragePooling1D()(shared(right))
    joined = front.Concatenate()([shared(left), mean])
    deep = Sequential([Input((8,)), Dense(6, "tanh"), BatchNormalization()], name="deep")(joined)
    return Model([left, right], [Dense(2)(deep), front.Reshape((2, -1))(joined)], name="graph")


def picture() -> Sequential:
    return Sequential(
        [Input((8, 8, 1)), Conv2D(3, (2, 3), padding="same", activation="relu"), front.MaxPooling2D((2, 1)), Flatten()]
    )


def sequence() -> Sequential:
    return Sequential(
        [Input((None,), "int64"), front.Embedding(9, 4), front.LSTM(3, return_sequences=True), front.GRU(3)]
    )


@pytest.mark.parametrize("made", [small, graph, picture, sequence])
def test_architectures_come_back(tmp_path: Path, made: Any) -> None:
    model = made()
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert type(loaded) is type(model)
    assert loaded.summary() == model.summary()
    same_weights(loaded, model)
    assert loaded.config() == model.config()
    inputs = [
        RNG.integers(0, 9, (3, 4)) if symbol.dtype.kind == "i" else
        RNG.normal(size=(3, *[size or 4 for size in symbol.shape[1:]])).astype(np.float32)
        for symbol in model.inputs
    ]  # fmt: skip
    for one, other in zip(*([*found] if isinstance(found, list) else [found]
                            for found in (model.predict(inputs), loaded.predict(inputs))), strict=True):  # fmt: skip
        np.testing.assert_array_equal(one, other)


def test_layers_of_your_own_are_saved(tmp_path: Path) -> None:
    class Scaled(Layer):
        def __init__(self, by: float, *, name: str | None = None) -> None:
            super().__init__(name=name, by=by)

        def forward(self, x: Any) -> Any:
            return x * self.settings["by"]

    model = Sequential([Input((2,)), Scaled(3.0)])
    model.save(tmp_path / "m")
    found = load(tmp_path / "m").predict(np.ones((1, 2), np.float32))
    np.testing.assert_array_equal(found, [[3, 3]])
    del front.layer.LAYERS["Scaled"]
    with pytest.raises(ValueError, match="no layer class is called 'Scaled'"):
        load(tmp_path / "m")
    assert load(tmp_path / "m", layers={"Scaled": Scaled}).count_params() == 0


def test_weights_are_read_by_others(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    model = small()
    model.save_weights(tmp_path / "w")
    found = load_file(tmp_path / "w")
    assert found.keys() == {
        "dense.kernel", "dense.bias", "dense_1.kernel", "dense_1.bias", *(f"batch_normalization.{part}" for part in
        ("gamma", "beta", "moving_mean", "moving_variance")),
    }  # fmt: skip
    np.testing.assert_array_equal(found["dense.kernel"], model.get_weights()[0])


TRAINS = """
import sys
import numpy as np
from internals import front
from front_models import X, Y, compiled
path = sys.argv[1]
model = compiled()
print("ready", flush=True)
model.fit(X, Y, epochs=10**6, verbose=0, callbacks=[front.ModelCheckpoint(path)])
"""


@pytest.mark.slow
def test_kill_9_while_checkpoints_are_written(tmp_path: Path) -> None:
    path, rng = tmp_path / "m", np.random.default_rng(0)
    for _ in range(12):
        running = subprocess.Popen(
            [sys.executable, "-c", TRAINS, str(path)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "tests/internals")},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert running.stdout is not None
        running.stdout.readline()
        while not path.exists():
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.1))
        running.send_signal(signal.SIGKILL)
        running.wait()
        running.stdout.close()
        found = load(path, compile={"optimizer": "adam", "loss": "sparse_categorical_crossentropy"})
        assert found.optimizer is not None
        steps = {state["step"] for state in found.optimizer.state.values()}
        assert steps == {2 * found.epochs_done}, "weights, optimizer and epoch are of one moment"


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    model = compiled()
    model.save_weights(tmp_path / "w")
    with pytest.raises(ValueError, match="/w holds weights, but no model"):
        load(tmp_path / "w")
    model.save(tmp_path / "m")
    with pytest.raises(ValueError, match="trained by Adam, but compile names SGD"):
        load(tmp_path / "m", compile={"optimizer": "sgd", "loss": "mse"})
    with pytest.raises(ValueError, match="/m is of another model"):
        small(shape=(6,)).load_weights(tmp_path / "m")


def changed(value: Any, rng: np.random.Generator) -> Any:
    """JSON with one thing in it left out, replaced or renamed."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = str(rng.choice(list(value)))
        rest = {name: one for name, one in value.items() if name != key}
        which = rng.integers(4)
        if which == 0:
            return rest
        return rest | ({f"{key}x": value[key]} if which == 1 else {key: changed(value[key], rng)})
    if isinstance(value, list) and value:
        i = int(rng.integers(len(value)))
        return [*value[:i], changed(value[i], rng), *value[i + 1 :]]
    return [None, "x", -1, [], {}, 1.5][rng.integers(6)]


@pytest.mark.slow
@pytest.mark.parametrize("part", ["architecture", "training"])
def test_a_changed_description_is_told_in_one_line(tmp_path: Path, part: str) -> None:
    """Whatever is changed in the header's JSON: the model comes back, or the error names the file."""
    rng, path = np.random.default_rng(0), tmp_path / "model.safetensors"
    model = compiled(small(dropout=0.4), "adam")
    resumable(model, 1)
    model.save(path)
    arrays, header = load_arrays(path)
    refused = 0
    for _ in range(50):
        save_arrays(path, arrays, **header | {part: json.dumps(changed(json.loads(header[part]), rng))})
        try:
            load(path, compile={"optimizer": "adam", "loss": "sparse_categorical_crossentropy"})
        except ValueError as error:
            refused += 1
            assert str(error).startswith("load: "), error  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
    assert refused > 10


def test_a_description_of_a_layer_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = compiled(small())
    model.save(path)
    arrays, header = load_arrays(path)
    layer = json.dumps(model.config()["layers"][-1])
    save_arrays(path, arrays, **header | {"architecture": layer})
    with pytest.raises(ValueError, match=r"^load: .*model\.safetensors.* is no model"):
        load(path)


def test_a_file_cut_off_or_overwritten_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    compiled(small()).save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(60):
        path.write_bytes(whole[: rng.integers(len(whole))])
        with pytest.raises(ValueError, match=r"^load: .*model\.safetensors is no safetensors file, or only a part"):
            load(path)
    for text in (b"", b"{}", b"\x02\0\0\0\0\0\0\0{}", rng.bytes(100)):
        path.write_bytes(text)
        with pytest.raises(ValueError, match=r"^load: .*model\.safetensors"):
            load(path)
