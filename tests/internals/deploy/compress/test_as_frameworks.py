"""The same weights and the same calibration batches in torch's quantiser and in TensorFlow Lite's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from digits_nets import accuracy, cnn, digits, fit, logits, mlp
from in_onnxruntime import run_onnx

from internals import nn
from internals.deploy import Signature, TensorSpec
from internals.deploy.compress import INT8, UINT8, QuantisedConv2d, QuantisedLinear, Recipe, quantise_model
from internals.deploy.compress.fold import fold_norms
from internals.deploy.onnx import to_onnx

CALIBRATION = 200


def flat(model: nn.Sequential) -> list[Any]:
    """The layers after folding, without the Flatten that both frameworks place elsewhere."""
    return [part for part in fold_norms(model).parts if not isinstance(part, nn.Flatten)]


def in_torch(model: nn.Sequential) -> Any:
    made: list[Any] = []
    for part in fold_norms(model).parts:
        if isinstance(part, nn.Linear):
            one: Any = torch.nn.Linear(*part.weight.shape)
            one.weight.data = torch.tensor(part.weight.detach().numpy().T.copy())
        elif isinstance(part, nn.Conv2d):
            outputs, inputs, *window = part.weight.shape
            settings = {key: part.settings[key] for key in ("stride", "padding")}
            one = torch.nn.Conv2d(inputs, outputs, tuple(window), **settings)
            one.weight.data = torch.tensor(part.weight.detach().numpy())
        else:
            made.append({"ReLU": torch.nn.ReLU, "Flatten": torch.nn.Flatten}[type(part).__name__]())
            continue
        one.bias.data = torch.tensor(part.bias.detach().numpy())
        made.append(one)
    return torch.nn.Sequential(*made).eval()


def quantised_by_torch(model: Any, x: np.ndarray, per_channel: bool) -> Any:
    from torch.ao import quantization as tq

    whole = torch.nn.Sequential(tq.QuantStub(), *model, tq.DeQuantStub()).eval()
    pairs = [[str(i), str(i + 1)] for i in range(len(whole) - 1) if isinstance(whole[i + 1], torch.nn.ReLU)]
    whole = tq.fuse_modules(whole, pairs)
    weight = tq.PerChannelMinMaxObserver if per_channel else tq.MinMaxObserver
    scheme = torch.per_channel_symmetric if per_channel else torch.per_tensor_symmetric
    whole.qconfig = tq.QConfig(
        activation=tq.MinMaxObserver.with_args(dtype=torch.quint8, qscheme=torch.per_tensor_affine),
        weight=weight.with_args(dtype=torch.qint8, qscheme=scheme),
    )
    prepared = tq.prepare(whole)
    prepared(torch.tensor(x))
    return tq.convert(prepared)


@pytest.mark.slow
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("make", [mlp, cnn])
def test_as_torch(make: Any, per_channel: bool) -> None:
    """Scales and zero points are equal, weights' integers too, and accuracy is within 0.5 %."""
    model = fit(make(), epochs=4)
    x, _, test, labels = digits()
    ours = quantise_model(model, [x[:CALIBRATION]], Recipe(per_channel=per_channel, weight_grid=INT8, grid=UINT8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = quantised_by_torch(in_torch(model), x[:CALIBRATION], per_channel)
        found = theirs(torch.tensor(test)).numpy()
    mine = [part for part in ours.parts if isinstance(part, QuantisedLinear | QuantisedConv2d)]
    other = [part for part in theirs if hasattr(part, "weight") and callable(part.weight)]
    assert len(mine) == len(other)
    came_from = theirs[0]  # what made the integers that a layer reads
    for one, two in zip(mine, other, strict=True):
        weight = two.weight()
        scale = weight.q_per_channel_scales().numpy() if per_channel else np.float64(weight.q_scale())
        np.testing.assert_allclose(one.scale.numpy(), scale, rtol=1e-6)
        integers = weight.int_repr().numpy()
        want = integers if isinstance(one, QuantisedConv2d) else integers.T
        assert np.abs(one.weight.numpy().astype(int) - want).max() <= 1
        assert np.mean(one.weight.numpy() != want) < 0.002  # torch folds the norm in float32
        np.testing.assert_allclose(one.activation.scale.item(), float(came_from.scale), rtol=1e-5)
        assert one.activation.zero_point.item() == int(came_from.zero_point)
        came_from = two
    assert abs(accuracy(ours) - np.mean(found.argmax(1) == labels)) <= 0.005


def in_keras(tf: Any, model: nn.Sequential) -> Any:
    keras = tf.keras
    made, weights = [keras.Input((8, 8, 1))], []
    channels_last = False
    for part in fold_norms(model).parts:
        bias = None if not hasattr(part, "bias") else part.bias.detach().numpy()
        if isinstance(part, nn.Conv2d):
            outputs, _, *window = part.weight.shape
            if part.settings["padding"] != (0, 0):
                made.append(keras.layers.ZeroPadding2D(part.settings["padding"]))
            made.append(keras.layers.Conv2D(outputs, tuple(window), strides=part.settings["stride"]))
            weights += [part.weight.detach().numpy().transpose(2, 3, 1, 0), bias]
            channels_last = True
        elif isinstance(part, nn.Linear):
            made.append(keras.layers.Dense(part.weight.shape[1]))
            weight = part.weight.detach().numpy()
            if channels_last:  # the image was flattened with channels first
                channels = weights[-1].shape[0]
                side = round((weight.shape[0] / channels) ** 0.5)
                weight = weight.reshape(channels, side, side, -1).transpose(1, 2, 0, 3).reshape(weight.shape)
                channels_last = False
            weights += [weight, bias]
        else:
            made.append({"ReLU": keras.layers.ReLU, "Flatten": keras.layers.Flatten}[type(part).__name__]())
    whole = keras.Sequential(made)
    whole.set_weights(weights)
    return whole


@pytest.mark.slow
@pytest.mark.parametrize("make", [mlp, cnn])
def test_as_tensorflow_lite(make: Any, tf: Any) -> None:
    """The full-integer model of the same weights: equal scales and zero points, accuracy within 0.5 %."""
    model = fit(make(), epochs=4)
    x, _, test, labels = digits()
    ours = quantise_model(model, [x[:CALIBRATION]])
    converter = tf.lite.TFLiteConverter.from_keras_model(in_keras(tf, model))
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([one[None, ..., None]] for one in x[:CALIBRATION, 0])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interpreter = tf.lite.Interpreter(model_content=converter.convert())
    (entry,), (end,) = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.resize_tensor_input(entry["index"], [len(test), 8, 8, 1])
    interpreter.allocate_tensors()
    details = [d["quantization_parameters"] | d for d in interpreter.get_tensor_details() if d["dtype"] is np.int8]
    mine = [part for part in ours.parts if isinstance(part, QuantisedLinear | QuantisedConv2d)]
    for one in mine:
        scale = one.scale.numpy()
        near = [d for d in details if d["scales"].shape == scale.shape and np.allclose(d["scales"], scale, rtol=1e-5)]
        assert near, f"no weight of theirs has the scales of {one}"
        assert not near[0]["zero_points"].any()
        pair = one.activation.scale.item(), one.activation.zero_point.item()
        assert any(
            d["scales"].size == 1 and np.isclose(d["scales"][0], pair[0], rtol=1e-4) and d["zero_points"][0] == pair[1]
            for d in details
        ), f"no tensor of theirs has scale and zero point {pair}"
    scale, zero = entry["quantization"]
    integers = np.clip(np.rint(test[:, 0, :, :, None] / scale) + zero, -128, 127).astype(np.int8)
    interpreter.set_tensor(entry["index"], integers)
    interpreter.invoke()
    found = interpreter.get_tensor(end["index"])
    assert abs(accuracy(ours) - np.mean(found.argmax(1) == labels)) <= 0.005
    step, middle = end["quantization"]
    real = (found.astype(np.float32) - middle) * step
    cut_off = np.clip(logits(ours, test), (-128 - middle) * step, (127 - middle) * step)  # their result is int8 too
    assert np.abs(real - cut_off).max() < 0.05 * np.abs(real).max()


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_same_in_onnxruntime(dynamic: bool) -> None:
    model = fit(cnn(), epochs=1)
    x, _, test, _ = digits()
    quantised = quantise_model(model, [x[:CALIBRATION]], Recipe(dynamic=dynamic))
    exported = to_onnx(quantised, {"serve": Signature({"x": TensorSpec(("batch", 1, 8, 8))})})
    kinds = {node.op_type for node in exported.graph.node}
    assert {"QuantizeLinear", "ConvInteger", "MatMulInteger"} <= kinds
    (found,) = run_onnx(exported, {"x": test})
    want = logits(quantised, test)
    assert np.mean(np.abs(found - want) > 1e-4) < 0.01  # next to a tie, it divides where we multiply
