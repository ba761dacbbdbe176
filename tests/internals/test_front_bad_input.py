"""What the front says to bad input: the thing, what came, what was expected, and the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from front_models import X, Y, compiled, small

from internals import Tensor, data, front, nn, optim
from internals.front import (
    Add,
    Conv2D,
    Dense,
    Dropout,
    Input,
    Layer,
    Model,
    Sequential,
)


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
        "can't be filled in .'val_loss'.; it may name epoch, loss, accuracy"),
    "checkpoint brackets": (lambda: fitted(callbacks=[front.ModelCheckpoint("{}.safetensors")]), ValueError,
        "ModelCheckpoint: .*can't be filled in .*; it may name epoch, loss"),
    "checkpoint format": (lambda: fitted(callbacks=[front.ModelCheckpoint("{epoch:zz}")]), ValueError,
        "ModelCheckpoint: .*can't be filled in .*; it may name epoch, loss"),
    "load no path": (lambda: front.load(None), TypeError, "^load: expected the path of a file, got None"),
    "save no path": (lambda: compiled().save(""), TypeError, "^save: expected the path of a file, got ''"),
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
