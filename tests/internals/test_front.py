"""The front by itself: graphs of layers, data in all its forms, and callbacks."""

from __future__ import annotations

import csv
import multiprocessing
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from front_models import RNG, ROOT, X, Y, compiled, same_weights, small

from internals import Tensor, data, front, ops, optim
from internals.front import (
    Add,
    Conv2D,
    Dense,
    Flatten,
    Input,
    Layer,
    Model,
    Sequential,
    load,
)

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

    script = "from front_models import *; compiled().fit(X, Y, epochs=2, batch_size=2)"
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150", "PYTHONPATH": str(ROOT / "tests/internals")}
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


@pytest.mark.slow
def test_workers_end_when_fit_is_stopped() -> None:
    """While the error is still held, as a notebook holds the last one."""

    def stop(batch: int, logs: Any) -> None:
        raise KeyboardInterrupt

    reader = data.read(data.ArrayDataset(X, Y)).batch(4).prefetch(2, processes=True)
    with pytest.raises(KeyboardInterrupt) as held:
        compiled().fit(reader, verbose=0, callbacks=[front.LambdaCallback(on_train_batch_end=stop)])
    assert held is not None
    assert not multiprocessing.active_children()
