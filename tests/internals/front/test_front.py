"""The front by itself: graphs of layers, data in all its forms, callbacks, saving and resuming, and bad input."""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from internals import Tensor, data, front, nn, ops, optim
from internals.front import (
    Add,
    BatchNormalization,
    Conv2D,
    Dense,
    Dropout,
    Flatten,
    Input,
    Layer,
    Model,
    Sequential,
    load,
)

ROOT = Path(__file__).resolve().parents[3]
RNG = np.random.default_rng(8)
X = RNG.normal(size=(64, 5)).astype(np.float32)
Y = (X @ RNG.normal(size=(5, 3))).argmax(1)


def small(*, dropout: float = 0.0, shape: Any = (5,)) -> Sequential:
    front.set_random_seed(3)
    return Sequential([Input(shape), Dense(8, "relu"), BatchNormalization(), Dropout(dropout), Dense(3, "softmax")])


def compiled(model: Any = None, optimizer: Any = "adam") -> Any:
    model = model or small()
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def same_weights(one: Any, other: Any) -> None:
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, value in one.state_dict().items():
        np.testing.assert_array_equal(value, other.state_dict()[name], err_msg=name)


# Graphs and shapes


def test_shapes_are_found_before_there_is_data() -> None:
    image = Input((None, 10, 3))
    x = Conv2D(4, 3, padding="same")(image)
    assert x.shape == (None, None, 10, 4)
    assert front.MaxPooling2D()(x).shape == (None, None, 5, 4)
    assert front.GlobalAveragePooling2D()(x).shape == (None, 4)
    assert front.LSTM(6, return_sequences=True)(Input((None, 2))).shape == (None, None, 6)
    assert front.MultiHeadAttention(2, 4)(Input((None, 6)), Input((7, 6))).shape == (None, None, 6)
    assert front.Embedding(9, 2)(Input((4,), "int64")).shape == (None, 4, 2)


def test_a_sequential_without_input_is_built_by_its_first_batch() -> None:
    model = Sequential([Flatten(), Dense(4), Dense(3, "softmax")])
    with pytest.raises(ValueError, match="summary: sequential is not built yet"):
        model.summary()
    compiled(model).fit(X, Y, epochs=1, verbose=0)
    assert model.count_params() == 5 * 4 + 4 + 4 * 3 + 3
    assert model.optimizer is not None


def test_a_layer_that_is_called_twice_has_its_weights_once() -> None:
    left, right, shared = Input((5,)), Input((5,)), Dense(4)
    model = Model([left, right], Add()([shared(left), shared(right)]))
    assert model.count_params() == 24
    x = [X[:3], X[3:6]]
    expected = shared(X[:3]).detach().numpy() + shared(X[3:6]).detach().numpy()
    np.testing.assert_allclose(model.predict(x), expected, rtol=1e-6)
    rows = [line.split() for line in model.summary().splitlines()]
    assert [row[-2] for row in rows if row[:1] == ["dense"]].count("-") == 1


def test_a_model_is_a_layer_of_another() -> None:
    inner = Sequential([Input((5,)), Dense(4, "tanh")], name="inner")
    outer = Sequential([Input((5,)), inner, Dense(2)])
    assert outer.count_params() == 24 + 10
    np.testing.assert_allclose(outer.predict(X), outer.layers[1](inner(X)).detach().numpy(), rtol=1e-6)
    assert "inner.dense.kernel" in outer.state_dict()


def test_several_results_of_one_layer() -> None:
    class Halves(Layer):
        def forward(self, x: Any) -> Any:
            n = x.shape[1] // 2
            return x[:, :n], x[:, n:]

    image = Input((6,))
    first, second = Halves()(image)
    assert (first.shape, second.shape) == ((None, 3), (None, 3))
    model = Model(image, [second, Add()([first, second])])
    x = RNG.normal(size=(4, 6)).astype(np.float32)
    found = model.predict(x)
    np.testing.assert_array_equal(found[0], x[:, 3:])
    np.testing.assert_allclose(found[1], x[:, :3] + x[:, 3:], rtol=1e-6)


def test_summary() -> None:
    told = small().summary()
    assert "batch_normalization  BatchNormalization  (None, 8)     32" in told
    assert told.splitlines()[-3:] == ["Total params: 107", "Trainable params: 91", "Non-trainable params: 16"]


def test_channels_first_is_the_same_convolution() -> None:
    last, first = Conv2D(4, 3, padding="same"), Conv2D(4, 3, padding="same", data_format="channels_first")
    x = RNG.normal(size=(2, 6, 5, 3)).astype(np.float32)
    expected = last(x).detach().numpy()
    first(x.transpose(0, 3, 1, 2))
    first.set_weights(last.get_weights())
    found = first(x.transpose(0, 3, 1, 2)).detach().numpy()
    np.testing.assert_allclose(found.transpose(0, 2, 3, 1), expected, rtol=1e-5, atol=1e-6)


def test_on_another_device() -> None:
    here, there = compiled(optimizer="sgd"), compiled(optimizer="sgd")
    there.set_weights(here.get_weights())
    there.to("sim:0")
    for model in (here, there):
        model.fit(X, Y, epochs=2, verbose=0, shuffle=False, validation_data=(X, Y))
    np.testing.assert_allclose(here.predict(X), there.predict(X), atol=1e-5)


# Data in all its forms


FORMS: dict[str, Callable[[], dict[str, Any]]] = {
    "arrays": lambda: {"x": X, "y": Y},
    "lists": lambda: {"x": X.tolist(), "y": Y.tolist()},
    "tensors": lambda: {"x": Tensor(X), "y": Tensor(Y)},
    "columns": lambda: {"x": X.astype(np.float64), "y": Y[:, None]},
    "dataset": lambda: {"x": data.ArrayDataset(X, Y)},
    "reader": lambda: {"x": data.read(data.ArrayDataset(X, Y)).batch(16)},
    "prefetched": lambda: {"x": data.read(data.ArrayDataset(X, Y)).batch(16).prefetch(2)},
    "weighted": lambda: {"x": X, "y": Y, "sample_weight": np.ones(64)},
    "weights in a reader": lambda: {"x": data.read(data.ArrayDataset(X, Y, np.ones(64, np.float32))).batch(16)},
    "generator": lambda: {"x": lambda: ((X[i : i + 16], Y[i : i + 16]) for i in range(0, 64, 16))},
}


@pytest.mark.parametrize("form", FORMS)
def test_data_may_come_in_any_form(form: str) -> None:
    def trained(given: dict[str, Any]) -> Any:
        model = compiled()
        history = model.fit(**given, epochs=2, batch_size=16, shuffle=False, verbose=0)
        return history.history["loss"], model.evaluate(**given, batch_size=16)

    assert trained(FORMS[form]()) == trained(FORMS["arrays"]())


def test_validation_is_the_end_of_the_data() -> None:
    model = compiled()
    split = model.fit(X, Y, validation_split=0.25, epochs=2, verbose=0, seed=1).history
    other = compiled()
    given = other.fit(X[:48], Y[:48], validation_data=(X[48:], Y[48:]), epochs=2, verbose=0, seed=1).history
    assert split == given
    assert split.keys() == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert split["val_loss"][-1] == other.evaluate(X[48:], Y[48:])[0]


def test_shuffling_is_by_seed_and_epoch() -> None:
    def order(**named: Any) -> list[list[float]]:
        seen: list[list[float]] = [[]]

        class Seen(Layer):
            def forward(self, x: Any) -> Any:
                if isinstance(x, Tensor) and self.training:
                    seen[-1] += x.numpy()[:, 0].tolist()
                return x

        model = Sequential([Input((5,)), Seen(), Dense(3, "softmax")])
        following = front.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append([]))
        compiled(model).fit(X, Y, verbose=0, callbacks=[following], **named)
        return seen[:-1]

    first = order(epochs=2, seed=4)
    assert first == order(epochs=2, seed=4)
    assert first[0] != first[1]
    assert sorted(first[0]) == sorted(first[1]) == sorted(X[:, 0].tolist())
    assert order(epochs=2, seed=4, initial_epoch=1) == first[1:]
    assert order(epochs=1, shuffle=False) == [X[:, 0].tolist()]
    assert first != order(epochs=2, seed=5)


def test_train_on_batch_is_a_step_of_fit() -> None:
    one, other = compiled(), compiled()
    history = one.fit(X, Y, batch_size=64, verbose=0)
    logs = other.train_on_batch(X, Y)
    assert logs["loss"] == pytest.approx(history.history["loss"][0], rel=1e-6)
    assert other.train_on_batch(X, Y)["loss"] < logs["loss"]


def test_own_losses_metrics_and_optimizers() -> None:
    def loss(y: Any, p: Tensor) -> Tensor:
        return -ops.sum(Tensor(np.eye(3, dtype=np.float32)[y]) * ops.log(p), axis=-1)

    def hits(y: np.ndarray, p: np.ndarray) -> np.ndarray:
        return p.argmax(-1) == y

    model = small()
    model.compile(optim.SGD(model.parameters(), lr=0.1, momentum=0.5), loss, metrics=[hits, "accuracy"])
    history = model.fit(X, Y, epochs=10, verbose=0, seed=0).history
    assert history["hits"] == history["accuracy"]
    assert history["loss"][-1] < 0.7 * history["loss"][0]
    assert model.metrics_names == ["loss", "hits", "accuracy"]
    assert model.evaluate(X, Y, return_dict=True).keys() == {"loss", "hits", "accuracy"}


@pytest.mark.slow
def test_digits_are_learned() -> None:
    digits = data.digits()
    train, test = data.split(digits, (0.8, 0.2), seed=0, stratify=digits.arrays[1])
    front.set_random_seed(0)
    model = Sequential([Input((8, 8)), Flatten(), Dense(32, "relu"), Dense(10, "softmax")])
    compiled(model).fit(train, epochs=8, verbose=0)
    assert model.evaluate(test, return_dict=True)["accuracy"] > 0.9


# Callbacks


def test_early_stopping_gives_back_the_best_weights() -> None:
    model = compiled(optimizer=lambda parameters: optim.SGD(parameters, lr=0.5))
    weights: list[dict[str, np.ndarray]] = []
    note = front.LambdaCallback(on_epoch_end=lambda epoch, logs: weights.append(model.state_dict()))
    rate = front.LearningRateScheduler(lambda epoch, lr: 0.5 if epoch < 3 else 50.0)
    stop = front.EarlyStopping("loss", patience=2, restore_best_weights=True)
    history = model.fit(X, Y, epochs=30, verbose=0, callbacks=[rate, stop, note], seed=0)
    losses = history.history["loss"]
    assert len(losses) == int(np.argmin(losses)) + 3 < 30
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, weights[int(np.argmin(losses))][name])
    assert history.history["learning_rate"][2:4] == [0.5, 50.0]


def test_checkpoints_keep_the_best(tmp_path: Path) -> None:
    model = compiled(optimizer=lambda parameters: optim.SGD(parameters, lr=0.5))
    rate = front.LearningRateScheduler(lambda epoch, lr: 0.5 if epoch < 3 else 50.0)
    best = front.ModelCheckpoint(tmp_path / "best", "loss", save_best_only=True)
    each = front.ModelCheckpoint(tmp_path / "{epoch:02d}-{loss:.3f}", save_weights_only=True)
    losses = model.fit(X, Y, epochs=6, verbose=0, callbacks=[rate, best, each], seed=0).history["loss"]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [*(f"{i + 1:02d}-{loss:.3f}" for i, loss in enumerate(losses)), "best"]
    number = int(np.argmin(losses))
    one, other = small(), load(tmp_path / "best")
    one.load_weights(tmp_path / names[number])
    same_weights(one, other)
    assert other.epochs_done == number + 1 < 6


def test_csv_lambda_and_plot(tmp_path: Path) -> None:
    path, chart = tmp_path / "log.csv", tmp_path / "loss.svg"
    told: list[int] = []
    callbacks = [
        front.CSVLogger(path),
        front.HistoryPlot(["loss", "accuracy"], chart),
        front.LambdaCallback(on_train_batch_end=lambda batch, logs: told.append(batch)),
    ]
    model = compiled()
    history = model.fit(X, Y, epochs=2, batch_size=32, verbose=0, validation_split=0.5, callbacks=callbacks)
    model.fit(X, Y, epochs=3, initial_epoch=2, verbose=0, callbacks=[front.CSVLogger(path, append=True)])
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["epoch"]) for row in rows] == [0, 1, 2]
    assert [float(row["val_loss"]) for row in rows[:2]] == history.history["val_loss"]
    assert rows[2]["val_loss"] == "NA"
    assert told == [0, 0]
    drawn = chart.read_text()
    assert drawn.startswith("<svg")
    assert drawn.count("<polyline") == 3


def test_a_loss_that_is_nan_is_said_and_stops_where_asked() -> None:
    bad = X.copy()
    bad[40] = np.nan
    model = compiled()
    with pytest.warns(RuntimeWarning, match="loss is nan in batch 2 of epoch 0"):
        model.fit(bad, Y, epochs=1, batch_size=16, shuffle=False, verbose=0)
    model, told = compiled(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = model.fit(
            bad, Y, epochs=3, batch_size=16, shuffle=False, verbose=0,
            callbacks=[front.TerminateOnNaN(), front.LambdaCallback(on_train_batch_end=lambda b, logs: told.append(b))],
        )  # fmt: skip
    assert told == [0, 1, 2]
    assert history.epoch == [0]


def test_a_line_for_each_epoch_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    compiled().fit(X, Y, epochs=2, validation_split=0.5)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["Epoch 1/2", "Epoch 2/2"]
    assert "val_accuracy 0." in lines[1]


@pytest.mark.slow
def test_a_bar_on_a_terminal() -> None:
    """In a pseudo-terminal the bar is drawn over, and lines of epochs stay."""
    import os
    import pty

    script = "from tests.internals.front.test_front import *; compiled().fit(X, Y, epochs=2, batch_size=2)"
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150", "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=follower, env=environment)
    os.close(follower)
    told = b""
    while True:
        try:
            told += os.read(leader, 65536)
        except OSError:  # the other side is closed
            break
    os.close(leader)
    assert running.wait() == 0
    assert b"Epoch 1/2  " in told
    assert "━".encode() in told
    assert b"32/32" in told


# Saving


def resumable(model: Any, epochs: int, initial_epoch: int = 0) -> Any:
    return model.fit(X, Y, epochs=epochs, initial_epoch=initial_epoch, batch_size=10, verbose=0).history["loss"]


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
from tests.internals.front.test_front import X, Y, compiled, load, small
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
            [sys.executable, "-c", TRAINS, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
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


# Bad input


class Unsaved(Layer):
    def __init__(self) -> None:
        super().__init__(function=print)

    def forward(self, x: Any) -> Any:
        return x


def fitted(x: Any = X, y: Any = Y, model: Any = None, **named: Any) -> Any:
    return compiled(model).fit(x, y, verbose=0, **named)


def shaped(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "fit before compile": (lambda: small().fit(X, Y), RuntimeError, r"fit: the model is not compiled; call compile"),
    "evaluate before compile": (lambda: small().evaluate(X, Y), RuntimeError, "evaluate: the model is not compiled"),
    "no loss": (lambda: (m := small(), m.compile("sgd"), m.fit(X, Y, verbose=0)), ValueError, "compile .* with a loss"),
    "optimizer": (lambda: small().compile("adan", "mse"), ValueError, "optimizer: .*'adan'. Did you mean 'adam'"),
    "loss": (lambda: small().compile("sgd", "sparse_categorical_cross_entropy"), ValueError,
        "Did you mean 'sparse_categorical_crossentropy'"),
    "metric": (lambda: small().compile("sgd", "mse", metrics=["acuracy"]), ValueError, "Did you mean 'accuracy'"),
    "activation": (lambda: Dense(3, "rely"), ValueError, "activation: .*'rely'. Did you mean 'relu'"),
    "initializer": (lambda: Dense(3, kernel_initializer="xx")(X), ValueError, "There are glorot_uniform"),
    "loss of a kind": (lambda: small().compile("sgd", 3), TypeError, "loss: expected a name or a function, got int"),
    "SGD as a class": (lambda: small().compile(optim.SGD, "mse"), TypeError, "SGD needs a step size"),
    "another's optimizer": (lambda: small().compile(optim.SGD([Tensor([1.0], requires_grad=True)], lr=1.0), "mse"),
        ValueError, "parameters that are not this model's"),
    "features": (lambda: fitted(shaped(8, 4), Y[:8]), ValueError, r"shape \(8, 4\), and was built for \(None, 5\)"),
    "rank": (lambda: fitted(shaped(8, 5, 2), Y[:8]), ValueError, r"\(8, 5, 2\), and was built for \(None, 5\)"),
    "labels too large": (lambda: fitted(y=Y + 1), ValueError, "labels go from 1 to 3, .*3 outputs, for classes 0 to 2"),
    "labels negative": (lambda: fitted(y=Y - 1), ValueError, "labels go from -1 to 1"),
    "labels broken": (lambda: fitted(y=Y + 0.5), ValueError, r"class numbers, got [012]\.5"),
    "one-hot labels": (lambda: fitted(y=np.eye(3)[Y]), ValueError, "For one-hot targets use the loss without"),
    "class numbers": (lambda: (m := small(), m.compile("sgd", "categorical_crossentropy"), m.fit(X, Y, verbose=0)),
        ValueError, "For class numbers use a sparse loss"),
    "counts": (lambda: fitted(y=Y[:-1]), ValueError, "fit: the numbers of examples differ: x 64, y 63"),
    "counts of weights": (lambda: fitted(sample_weight=np.ones(3)), ValueError, "x 64, y 64, sample_weight 3"),
    "no examples": (lambda: fitted(X[:0], Y[:0]), ValueError, r"no examples; x has shape \(0, 5\)"),
    "no batches": (lambda: compiled().fit(data.read(lambda: iter(()))), ValueError, "epoch 0 has no batches"),
    "no targets": (lambda: fitted(y=None), ValueError, r"fit: y is missing; arrays are given as fit\(x, y\)"),
    "no targets in a reader": (lambda: compiled().fit(data.read(X).batch(4), verbose=0), ValueError,
        r"has 1 output\(s\), and there are 0 targets"),
    "targets twice": (lambda: compiled().fit(data.read(X).batch(4), Y), ValueError, "a reader gives targets"),
    "ragged": (lambda: fitted([[1.0], [1.0, 2.0]], Y[:2]), ValueError, "x is ragged; .*data.pad"),
    "words": (lambda: fitted(np.array(["a"] * 64)), TypeError, "x must be numbers"),
    "objects": (lambda: fitted(None), TypeError, "x must be numbers, got NoneType"),
    "0-d": (lambda: fitted(np.float32(3), Y), ValueError, "a 0-d array has no examples"),
    "split": (lambda: fitted(validation_split=1.5), ValueError, "between 0 and 1, got 1.5"),
    "split of too little": (lambda: fitted(X[:1], Y[:1], validation_split=0.1), ValueError, "leaves a part empty"),
    "validation": (lambda: fitted(validation_data=(X,)), ValueError, r"must be \(x, y\) or .*got 1 parts"),
    "validation counts": (lambda: fitted(validation_data=(X, Y[:3])), ValueError, "x 64, y 3"),
    "epochs": (lambda: fitted(epochs=0), ValueError, "epochs must be a whole number of at least 1, got 0"),
    "batch size": (lambda: fitted(batch_size=2.5), ValueError, "batch_size .*got 2.5"),
    "verbose": (lambda: compiled().fit(X, Y, verbose=7), ValueError, "verbose must be 'auto', 0, 1 or 2, got 7"),
    "callback class": (lambda: fitted(callbacks=[front.TerminateOnNaN]), TypeError, r"got type. Was it made with \(\)"),
    "monitor": (lambda: fitted(callbacks=[front.EarlyStopping()]), RuntimeWarning, "'val_loss' is not in the logs"),
    "mode": (lambda: front.EarlyStopping(mode="up"), ValueError, "'auto', 'min' or 'max', got 'up'"),
    "checkpoint name": (lambda: fitted(callbacks=[front.ModelCheckpoint("{val_loss}")]), ValueError,
        "names 'val_loss'; the logs have loss, accuracy"),
    "event": (lambda: front.LambdaCallback(on_epoch=print), TypeError, "no event on_epoch; there are on_train_begin"),
    "rate": (lambda: fitted(callbacks=[front.LearningRateScheduler(lambda epoch, lr: -1)]), ValueError, "gave -1"),
    "plot": (lambda: fitted(callbacks=[front.HistoryPlot(["f1"])]), ValueError, "f1 not in the logs"),
    "evaluate without data": (lambda: compiled().evaluate(data.read(lambda: iter(()))), ValueError, "no data"),
    "predict without data": (lambda: small().predict(X[:0]), ValueError, "predict: there are no examples"),
    "units": (lambda: Dense(0), ValueError, "Dense: units must be a positive integer, got 0"),
    "rate of dropout": (lambda: Dropout(1.0), ValueError, r"rate must be in \[0, 1\), got 1.0"),
    "padding": (lambda: Conv2D(2, 3, padding="full"), ValueError, "padding must be 'valid' or 'same', got 'full'"),
    "kernel": (lambda: Conv2D(2, (3, 3, 3)), ValueError, "one number or two"),
    "format": (lambda: Conv2D(2, 3, data_format="NCHW"), ValueError, "'channels_last' or 'channels_first'"),
    "images": (lambda: Conv2D(2, 3)(Input((5, 5))), ValueError, r"images of 3 axes .*\(None, 5, 5\)"),
    "window too large": (lambda: Conv2D(2, 9)(Input((5, 5, 1))), ValueError, r"conv2d: inputs of shape \(None, 5, 5"),
    "sequence": (lambda: front.LSTM(2)(Input((5,))), ValueError, r"expected \(batch, time, features\)"),
    "no steps": (lambda: front.LSTM(2)(shaped(2, 0, 3)), ValueError, "a sequence of no steps"),
    "tokens": (lambda: front.Embedding(4, 2)(np.array([[1, 4]])), ValueError, "tokens go from 1 to 4, .*rows 0 to 3"),
    "reshape": (lambda: front.Reshape((4, -1))(shaped(2, 6)), ValueError, "6 entries and does not fill"),
    "merging": (lambda: Add()([Input((3,)), Input((4,))]), ValueError, r"\(None, 3\) and \(None, 4\)"),
    "merging one": (lambda: Add()([Input((3,))]), ValueError, "two inputs or more, got 1"),
    "unknown features": (lambda: Dense(2)(Input((None,))), ValueError, "must be known when the layer is built"),
    "size as shape": (lambda: Input(3), TypeError, r"One axis of that size is \(3,\)"),
    "size of nothing": (lambda: Input((0,)), TypeError, "positive integers or None, got 0"),
    "symbol and value": (lambda: Add()(Input((3,)), shaped(2, 3)), TypeError, "some inputs are symbols and others"),
    "nothing": (lambda: Dense(2)(), TypeError, "called without an input"),
    "a string": (lambda: Dense(2)("x"), TypeError, "expected a Tensor or an array, got str"),
    "a number": (lambda: Dense(2)(3.0), ValueError, "needs a batch axis"),
    "name": (lambda: Dense(2, name="a.b"), ValueError, "name must be a string without dots, got 'a.b'"),
    "names": (lambda: Sequential([Input((2,)), Dense(2, name="a"), Dense(2, name="a")]), ValueError,
        "two layers are called 'a'"),
    "modules": (lambda: Sequential([nn.ReLU()]), TypeError, "expected layers, got ReLU. Modules .* nn.Sequential"),
    "a layer twice": (lambda: (d := Dense(2), Sequential([d, d])), ValueError, "is there twice"),
    "inputs missing": (lambda: (a := Input((2,)), b := Input((2,)), Model(a, Add()([a, b]))), ValueError,
        "not among the inputs"),
    "inputs made": (lambda: (a := Input((2,)), Model(Dense(2)(a), Dense(2)(a))), ValueError, "is no input"),
    "outputs": (lambda: Model(Input((2,)), X), TypeError, "outputs must be made by Input and layers, got"),
    "inputs of a model": (lambda: small().predict([X, X]), ValueError, r"has 1 input\(s\), got 2"),
    "layer": (lambda: small().get_layer("x"), ValueError, "no layer is called 'x'; there are dense"),
    "set_weights": (lambda: small().set_weights([]), ValueError, "has 8 weights, got 0 arrays"),
    "set_weights early": (lambda: Dense(2).set_weights([X]), ValueError, "It is not built yet: give it an Input"),
    "losses by name": (lambda: small().compile("sgd", {"x": "mse"}), ValueError, "no output is called 'x'"),
    "losses": (lambda: small().compile("sgd", ["mse", "mse"]), ValueError, r"loss: 2 for 1 output\(s\)"),
    "save before build": (lambda: Sequential([Dense(2)]).save("x"), ValueError, "save: the model is not built"),
    "weights before build": (lambda: Sequential([Dense(2)]).save_weights("x"), ValueError, "has no weights"),
    "settings": (lambda: Sequential([Input((2,)), Unsaved()]).save("x"), ValueError, "can't be written down"),
    "auc": (lambda: front.metrics.AUC().update(Y[:2], np.array([2.0, 0])), ValueError, "from 0 to 2. Put a sigmoid"),
    "top k": (lambda: front.metrics.TopK(0), ValueError, "k must be a positive integer, got 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_bad_input(name: str) -> None:
    call, error, match = WRONG[name]
    if issubclass(error, Warning):
        with pytest.warns(error, match=match):
            call()
    else:
        with pytest.raises(error, match=match):
            call()


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
