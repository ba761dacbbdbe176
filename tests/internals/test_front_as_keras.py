"""The front beside Keras: the same shapes, counts, losses, metrics, events and training from the same weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from internals import data, front, optim

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def keras(tf: Any) -> Any:
    import keras

    assert keras.backend.backend() == os.environ.get("KERAS_BACKEND", "tensorflow")
    keras.utils.set_random_seed(0)
    return keras


Spec = tuple[str, tuple[Any, ...], dict[str, Any]]


def layer(name: str, *args: Any, **settings: Any) -> Spec:
    return name, args, settings


def stack(library: Any, layers: Any, shape: tuple[int | None, ...], specs: list[Spec]) -> Any:
    return library.Sequential([library.Input(shape), *[getattr(layers, n)(*a, **s) for n, a, s in specs]])


def both(keras: Any, shape: tuple[int | None, ...], *specs: Spec) -> tuple[Any, Any]:
    """Our model and Keras's, with the same weights."""
    ours, theirs = stack(front, front, shape, list(specs)), stack(keras, keras.layers, shape, list(specs))
    rng = np.random.default_rng(5)
    weights = [w + 0.1 * rng.uniform(0, 1, w.shape).astype(np.float32) for w in theirs.get_weights()]
    theirs.set_weights(weights)
    ours.set_weights(weights)
    return ours, theirs


CASES: dict[str, tuple[tuple[int | None, ...], list[Spec]]] = {
    "dense": ((7,), [layer("Dense", 5, "tanh")]),
    "dense over time": ((4, 7), [layer("Dense", 5, use_bias=False)]),
    "activations": ((6,), [layer("Activation", name) for name in
        ("relu", "sigmoid", "tanh", "gelu", "elu", "silu", "softplus", "softsign", "leaky_relu", "exponential",
         "log_softmax", "softmax")]),
    "relu, softmax": ((6,), [layer("ReLU"), layer("Softmax")]),
    "shapes": ((4, 6), [layer("Rescaling", 0.5, 1.0), layer("Reshape", (3, -1)), layer("Flatten")]),
    "embedding": ((5,), [layer("Embedding", 9, 3), layer("GlobalAveragePooling1D")]),
    "conv": ((9, 7, 2), [layer("Conv2D", 4, 3)]),
    "conv same": ((9, 7, 2), [layer("Conv2D", 4, (3, 2), padding="same", activation="relu")]),
    "conv same, strides": ((9, 8, 2), [layer("Conv2D", 4, 3, strides=(2, 3), padding="same")]),
    "conv dilated, groups": ((9, 8, 4), [layer("Conv2D", 6, 2, padding="same", dilation_rate=(2, 1), groups=2,
        use_bias=False)]),
    "max pool": ((9, 7, 2), [layer("MaxPooling2D", 2), layer("MaxPooling2D", (2, 3), strides=1, padding="same")]),
    "average pool": ((9, 7, 2), [layer("AveragePooling2D", 3, strides=2, padding="same")]),
    "global average": ((5, 4, 3), [layer("GlobalAveragePooling2D")]),
    "global max": ((5, 4, 3), [layer("GlobalMaxPooling2D")]),
    "batch norm": ((5, 4, 3), [layer("BatchNormalization", momentum=0.7)]),
    "batch norm of rows": ((6,), [layer("BatchNormalization")]),
    "layer norm": ((5, 6), [layer("LayerNormalization")]),
    "rnn": ((5, 3), [layer("SimpleRNN", 4)]),
    "lstm": ((5, 3), [layer("LSTM", 4)]),
    "lstm, any length": ((None, 3), [layer("LSTM", 4, return_sequences=True)]),
    "gru": ((5, 3), [layer("GRU", 4, return_sequences=True)]),
    "images of any size": ((None, None, 3), [layer("Conv2D", 2, 3), layer("GlobalAveragePooling2D")]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_layers(keras: Any, name: str) -> None:
    """Output shape, number of weights, result, and the weights after a step: so the derivatives too."""
    shape, specs = CASES[name]
    ours, theirs = both(keras, shape, *specs)
    assert ours.outputs[0].shape == theirs.output_shape
    assert ours.count_params() == theirs.count_params()
    rng = np.random.default_rng(2)
    size = (6, *[5 if n is None else n for n in shape])
    x = rng.integers(0, 9, size) if name == "embedding" else rng.normal(size=size).astype(np.float32)
    predicted = ours.predict(x)
    np.testing.assert_allclose(predicted, theirs.predict(x, verbose=0), rtol=1e-4, atol=1e-5)
    y = rng.normal(size=predicted.shape).astype(np.float32)
    if not ours.parameters():
        return
    ours.compile(lambda parameters: optim.SGD(parameters, lr=0.1), "mse")
    theirs.compile(keras.optimizers.SGD(0.1), "mse")
    for _ in range(2):
        ours.train_on_batch(x, y)
        theirs.train_on_batch(x, y)
    for one, other in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(keras: Any, causal: bool) -> None:
    rng = np.random.default_rng(0)
    query, value = (rng.normal(size=(3, n, 6)).astype(np.float32) for n in (4, 4 if causal else 5))
    ours = front.MultiHeadAttention(2, 3, value_dim=4, causal=causal)
    theirs = keras.layers.MultiHeadAttention(2, 3, value_dim=4)
    expected = theirs(query, value, use_causal_mask=causal)
    ours.ensure_built([query.shape, value.shape])
    ours.set_weights(theirs.get_weights())
    np.testing.assert_allclose(ours(query, value).detach().numpy(), expected, rtol=1e-4, atol=1e-5)


def digits(n: int = 256) -> tuple[np.ndarray, np.ndarray]:
    x, y = data.digits().arrays
    return np.array(x[:n]), np.array(y[:n])


LAST = layer("Dense", 10, "softmax")
TRAINED: dict[str, tuple[tuple[int, ...], list[Spec]]] = {
    "dense": ((8, 8), [layer("Flatten"), layer("Dense", 32, "relu"), LAST]),
    "deep": ((8, 8), [layer("Flatten"), layer("Dense", 24, "tanh"), layer("BatchNormalization"),
        layer("Dense", 24, "gelu"), layer("LayerNormalization"), LAST]),
    "conv": ((8, 8, 1), [layer("Conv2D", 8, 3, padding="same", activation="relu"), layer("MaxPooling2D"),
        layer("Conv2D", 8, 3, strides=2, padding="same"), layer("Flatten"), LAST]),
    "lstm": ((8, 8), [layer("LSTM", 12, return_sequences=True), layer("LSTM", 12), LAST]),
    "gru": ((8, 8), [layer("GRU", 12), LAST]),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAINED)
def test_training(keras: Any, name: str) -> None:
    """Five epochs of SGD from the same weights: loss and accuracy of each, on training and validation data."""
    shape, specs = TRAINED[name]
    ours, theirs = stack(front, front, shape, specs), stack(keras, keras.layers, shape, specs)
    ours.set_weights(theirs.get_weights())
    x, y = digits()
    x = x.reshape(-1, *shape)
    arguments: dict[str, Any] = {"batch_size": 48, "epochs": 5, "shuffle": False, "verbose": 0}
    arguments["validation_data"] = x[-50:], y[-50:]
    ours.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    theirs.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    found, expected = ours.fit(x, y, **arguments).history, theirs.fit(x, y, **arguments).history
    assert found.keys() == expected.keys() == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert found["loss"][-1] < found["loss"][0]
    for key in found:
        np.testing.assert_allclose(found[key], expected[key], atol=1e-5, err_msg=key)
    np.testing.assert_allclose(ours.evaluate(x, y), theirs.evaluate(x, y, verbose=0), atol=1e-5)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "rmsprop", "adagrad", "lion"])
def test_optimizers_by_name(keras: Any, name: str) -> None:
    """Keras's settings. Its Adam adds epsilon elsewhere (the paper's epsilon hat), so agreement is to 0.1 %."""
    shape, specs = TRAINED["dense"]
    ours, theirs = stack(front, front, shape, specs), stack(keras, keras.layers, shape, specs)
    ours.set_weights(theirs.get_weights())
    x, y = digits(128)
    ours.compile(name, "sparse_categorical_crossentropy")
    theirs.compile(name, "sparse_categorical_crossentropy")
    found = ours.fit(x, y, epochs=2, shuffle=False, verbose=0).history["loss"]
    expected = theirs.fit(x, y, epochs=2, shuffle=False, verbose=0).history["loss"]
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def graph(library: Any, layers: Any) -> Any:
    """Two inputs, a shared layer, a branch, two outputs."""
    left, right = library.Input((6,), name="left"), library.Input((4, 6), name="right")
    shared = layers.Dense(5, "relu", name="shared")
    summed = layers.GlobalAveragePooling1D(name="mean")(shared(right))
    joined = layers.Concatenate(name="join")([shared(left), summed])
    mixed = layers.Add(name="add")([joined, layers.Dense(10, name="skip")(joined)])
    return library.Model(
        [left, right], [layers.Dense(3, "softmax", name="kind")(mixed), layers.Dense(1, name="size")(mixed)]
    )


@pytest.mark.parametrize("form", ["list", "dict"])
def test_a_graph_of_layers(keras: Any, form: str) -> None:
    ours, theirs = graph(front, front), graph(keras, keras.layers)
    assert ours.count_params() == theirs.count_params()
    for name in ("shared", "skip", "kind", "size"):
        ours.get_layer(name).set_weights(theirs.get_layer(name).get_weights())
    rng = np.random.default_rng(1)
    x = [rng.normal(size=(40, 6)).astype(np.float32), rng.normal(size=(40, 4, 6)).astype(np.float32)]
    targets: Any = [rng.integers(0, 3, 40), rng.normal(size=(40, 1)).astype(np.float32)]
    losses: Any = ["sparse_categorical_crossentropy", "mse"]
    weights: Any = [1.0, 0.3]
    metrics: Any = [["accuracy"], ["mae"]]
    if form == "dict":
        targets, losses, weights, metrics = (
            dict(zip(("kind", "size"), given, strict=True)) for given in (targets, losses, weights, metrics)
        )
    histories = []
    for model in (ours, theirs):
        model.compile("sgd", losses, metrics=metrics, loss_weights=weights)
        histories.append(model.fit(x, targets, epochs=3, batch_size=10, shuffle=False, verbose=0).history)
    assert histories[0].keys() == histories[1].keys()
    for key, values in histories[0].items():
        np.testing.assert_allclose(values, histories[1][key], atol=1e-5, err_msg=key)
    for one, other in zip(ours.predict(x), theirs.predict(x, verbose=0), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def probabilities(rng: np.random.Generator, *shape: int) -> np.ndarray:
    p = rng.uniform(0, 1, shape)
    return (p / p.sum(-1, keepdims=True)).astype(np.float32)


LOSSES: dict[str, Callable[[Any, np.random.Generator], tuple[Any, Any, Any]]] = {
    "mse": lambda L, rng: (L.MeanSquaredError(), rng.normal(size=(6, 3)), rng.normal(size=(6, 3))),
    "mse of one output": lambda L, rng: (L.MeanSquaredError(), rng.normal(size=6), rng.normal(size=(6, 1))),
    "mae": lambda L, rng: (L.MeanAbsoluteError(), rng.normal(size=(6, 3)), rng.normal(size=(6, 3))),
    "huber": lambda L, rng: (L.Huber(delta=0.7), rng.normal(size=(6, 3)), rng.normal(size=(6, 3))),
    "binary": lambda L, rng: (L.BinaryCrossentropy(), rng.integers(0, 2, (6, 2)), rng.uniform(0, 1, (6, 2))),
    "binary, logits": lambda L, rng: (L.BinaryCrossentropy(from_logits=True), rng.integers(0, 2, (6, 2)),
        rng.normal(size=(6, 2))),
    "certain": lambda L, rng: (L.BinaryCrossentropy(), np.eye(6)[:, :2], np.eye(6)[::-1, :2]),
    "categorical": lambda L, rng: (L.CategoricalCrossentropy(), probabilities(rng, 6, 4), probabilities(rng, 6, 4)),
    "categorical, logits": lambda L, rng: (L.CategoricalCrossentropy(from_logits=True), probabilities(rng, 6, 4),
        rng.normal(size=(6, 4))),
    "sparse": lambda L, rng: (L.SparseCategoricalCrossentropy(), rng.integers(0, 4, 6), probabilities(rng, 6, 4)),
    "sparse over time": lambda L, rng: (L.SparseCategoricalCrossentropy(from_logits=True), rng.integers(0, 4, (6, 3)),
        rng.normal(size=(6, 3, 4))),
    "kl": lambda L, rng: ("kl_divergence", probabilities(rng, 6, 4), probabilities(rng, 6, 4)),
}  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(keras: Any, name: str, weighted: bool) -> None:
    from internals import Tensor

    ours, y, p = LOSSES[name](front.losses, np.random.default_rng(3))
    theirs, _, _ = LOSSES[name](keras.losses, np.random.default_rng(3))
    theirs = keras.losses.KLDivergence() if theirs == "kl_divergence" else theirs
    weight = np.random.default_rng(1).uniform(0, 2, p.shape[:-1]).astype(np.float32) if weighted else None
    y = y.astype(np.float32) if y.dtype == np.float64 else y
    p = p.astype(np.float32)
    found = front.losses.loss(ours)(y, Tensor(p), weight)
    np.testing.assert_allclose(found.numpy(), theirs(y, p, sample_weight=weight), rtol=1e-5, atol=1e-6)


METRICS: dict[str, Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]] = {
    "binary_accuracy": lambda rng: (rng.integers(0, 2, (9, 1)), rng.uniform(0, 1, (9, 1))),
    "categorical_accuracy": lambda rng: (np.eye(7)[rng.integers(0, 7, 9)], probabilities(rng, 9, 7)),
    "sparse_categorical_accuracy": lambda rng: (rng.integers(0, 7, 9), probabilities(rng, 9, 7)),
    "top_k_categorical_accuracy": lambda rng: (np.eye(9)[rng.integers(0, 9, 9)], probabilities(rng, 9, 9)),
    "sparse_top_k_categorical_accuracy": lambda rng: (rng.integers(0, 9, 9), probabilities(rng, 9, 9)),
    "mse": lambda rng: (rng.normal(size=(9, 3)), rng.normal(size=(9, 3))),
    "mae": lambda rng: (rng.normal(size=(9, 3)), rng.normal(size=(9, 3))),
    "auc": lambda rng: (rng.integers(0, 2, (50, 1)), rng.uniform(0, 1, (50, 1)).astype(np.float32)),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", METRICS)
def test_metrics(keras: Any, name: str, weighted: bool) -> None:
    """Over three batches, and again after a reset."""
    rng = np.random.default_rng(0)
    ours, theirs = front.metrics.metric(name), keras.metrics.get(name if name != "auc" else "AUC")
    theirs = theirs if hasattr(theirs, "update_state") else keras.metrics.MeanMetricWrapper(theirs)
    for _ in range(2):
        for _ in range(3):
            y, p = METRICS[name](rng)
            weight = rng.uniform(0, 1, len(y)) if weighted else None
            ours.update(y, p, weight)
            theirs.update_state(y, p, sample_weight=weight)
        np.testing.assert_allclose(ours.result(), theirs.result(), rtol=1e-5)
        ours.reset()
        theirs.reset_state()
    assert ours.result() == 0


def told_events(library: Any, base: Any) -> list[str]:
    """Every event of a fit with validation, an evaluate and a predict, in order."""
    told: list[str] = []

    class Teller(base):  # type: ignore[misc, valid-type]
        pass

    for event in front.callbacks.EVENTS:
        setattr(Teller, event, lambda self, *args, event=event, **named: told.append(
            f"{event} {args[0] if args and isinstance(args[0], int) else ''}"))  # fmt: skip
    model = library.Sequential([library.Input((3,)), (library if library is front else library.layers).Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((7, 3), np.float32), np.ones((7, 1), np.float32)
    quiet = {} if library is front else {"verbose": 0}
    model.fit(x, y, batch_size=3, epochs=2, validation_data=(x, y), callbacks=[Teller()], verbose=0)
    model.evaluate(x, y, batch_size=4, callbacks=[Teller()], **quiet)
    model.predict(x, batch_size=4, callbacks=[Teller()], **quiet)
    return told


def test_events_come_as_keras_calls_them(keras: Any) -> None:
    assert told_events(front, front.Callback) == told_events(keras, keras.callbacks.Callback)


@pytest.mark.parametrize("settings", [
    {"patience": 2}, {"patience": 0}, {"patience": 1, "min_delta": 0.15}, {"patience": 2, "mode": "max"},
    {"patience": 1, "start_from_epoch": 3}, {"patience": 2, "restore_best_weights": True}, {"monitor": "accuracy"},
])  # fmt: skip
def test_early_stopping_stops_where_keras_does(keras: Any, settings: dict[str, Any]) -> None:
    losses = [1.0, 0.9, 0.8, 0.85, 0.82, 0.7, 0.9, 0.95, 0.99, 0.5]

    def stopped(library: Any) -> tuple[Any, ...]:
        class Model:
            stop_training, weights, optimizer = False, 0, None
            metrics: list[Any] = []

            def get_weights(self) -> int:
                return self.weights

            def set_weights(self, weights: int) -> None:
                self.weights = weights

            state_dict, load_state_dict = get_weights, set_weights

        model = Model()
        given = {"monitor": "val_loss", **settings}
        if library is not front:  # Keras finds the mode from the model's metrics
            given.setdefault("mode", "max" if given["monitor"] == "accuracy" else "min")
        callback = library.callbacks.EarlyStopping(**given)
        if library is front:
            callback.model = model
        else:
            callback.set_model(model)
        callback.on_train_begin()
        for epoch, value in enumerate(losses):
            model.weights = epoch
            callback.on_epoch_end(epoch, {"val_loss": value, "accuracy": 1 - value})
            if model.stop_training:
                break
        callback.on_train_end()
        return epoch, callback.stopped_epoch, model.weights

    assert stopped(front) == stopped(keras)


@pytest.mark.parametrize("given", ["class_weight", "sample_weight"])
def test_weights_of_examples(keras: Any, given: str) -> None:
    shape, specs = TRAINED["dense"]
    ours, theirs = stack(front, front, shape, specs), stack(keras, keras.layers, shape, specs)
    ours.set_weights(theirs.get_weights())
    x, y = digits(96)
    named: dict[str, Any] = {}
    if given != "sample_weight":
        named["class_weight"] = {i: 0.2 * i for i in range(10)}
    if given != "class_weight":
        named["sample_weight"] = np.random.default_rng(1).uniform(0, 2, 96).astype(np.float32)
    histories = []
    for model in (ours, theirs):
        model.compile("sgd", "sparse_categorical_crossentropy")
        histories.append(model.fit(x, y, epochs=3, shuffle=False, verbose=0, **named).history["loss"])
    np.testing.assert_allclose(*histories, atol=1e-5)
