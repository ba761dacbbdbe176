"""The same weights and scales in TensorFlow Lite's interpreter: results, every layer's integers, and the arena."""

import numpy as np
import pytest

from internals.deploy.lite import Builder, Interpreter

pytestmark = pytest.mark.slow
ACTIVATIONS = {0: 0, 1: 1, 3: 2}
"""Ours by theirs: none, relu, relu6."""


@pytest.fixture(scope="module")
def models():
    """A network in TensorFlow Lite, float32 and int8, and examples."""
    from frameworks import tf

    keras = tf.keras
    keras.utils.set_random_seed(0)
    layers = keras.layers
    x = layers.Input((32, 32, 3))
    a = layers.Conv2D(16, 3, padding="same", activation="relu", bias_initializer="random_normal")(x)
    b = layers.DepthwiseConv2D(3, padding="same", activation="relu6", bias_initializer="random_normal")(a)
    c = layers.Add()([a, b])
    d = layers.Conv2D(24, 1, bias_initializer="random_normal")(c)
    e = layers.MaxPooling2D(2)(layers.AveragePooling2D(2)(d))
    f = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(e)
    g = layers.Dense(20, activation="relu")(layers.GlobalAveragePooling2D()(f))
    model = keras.Model(x, layers.Softmax()(layers.Dense(10)(g)))
    examples = np.random.default_rng(1).normal(size=(48, 32, 32, 3)).astype("f4")
    found = {}
    for integer in (False, True):
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        if integer:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: ([examples[i : i + 1]] for i in range(48))
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.int8
        found[integer] = converter.convert()
    return tf, model, found, examples


def started(tf, data, kind="BUILTIN_WITHOUT_DEFAULT_DELEGATES", keep=False):
    resolver = getattr(tf.lite.experimental.OpResolverType, kind)
    made = tf.lite.Interpreter(
        model_content=data, experimental_op_resolver_type=resolver, experimental_preserve_all_tensors=keep
    )
    made.allocate_tensors()
    return made


def options_of(data, number):
    """Stride, padding and activation of an operator, which Python's interpreter does not tell."""
    from tensorflow.lite.python import schema_py_generated as schema

    operator = schema.Model.GetRootAs(data).Subgraphs(0).Operators(number)
    options = operator.BuiltinOptions()
    kinds = {getattr(schema.BuiltinOptions, n): n for n in dir(schema.BuiltinOptions) if n[0].isupper()}
    made = getattr(schema, kinds[operator.BuiltinOptionsType()])()
    made.Init(options.Bytes, options.Pos)
    return made


def same(size, kernel, stride):
    """TensorFlow's padding "same" along an axis."""
    whole = max(0, (-(-size // stride) - 1) * stride + kernel - size)
    return whole // 2, whole - whole // 2


def ours(tflite, data):
    """A file of ours with the tensors of theirs, and the numbers of their tensors by ours."""
    details = {one["index"]: one for one in tflite.get_tensor_details()}
    b, numbers = Builder(), {}

    def grid(i, axis=None):
        told = details[i]["quantization_parameters"]
        if not len(told["scales"]):
            return {}
        if len(told["scales"]) == 1:
            return {"scale": told["scales"], "zero_point": told["zero_points"]}
        return {"scale": told["scales"], "zero_point": told["zero_points"], "axis": axis}

    def constant(i, axis=0, array=None):
        array = tflite.get_tensor(i) if array is None else array
        told = grid(i, axis) if array.dtype == np.int8 else {}
        return b.constant(str(i), array, **told)

    def shape(i):
        return tuple(int(n) for n in details[i]["shape"])

    (start,) = tflite.get_input_details()
    numbers[start["index"]] = b.input("x", shape(start["index"]), start["dtype"], **grid(start["index"]))
    for op in tflite._get_ops_details():
        inputs, (out,) = [int(i) for i in op["inputs"]], (int(i) for i in op["outputs"])
        kind, x, parameters = op["op_name"], inputs[0], ()
        args = [numbers[x]]
        if kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            told = options_of(data, op["index"])
            depthwise = kind != "CONV_2D"
            weight = tflite.get_tensor(inputs[1])
            stride = told.StrideH(), told.StrideW()
            pads = [
                pad for i in (0, 1)
                for pad in (same(shape(x)[1 + i], weight.shape[1 + i], stride[i]) if told.Padding() == 0 else (0, 0))
            ]  # fmt: skip
            weight = weight[0] if depthwise else weight
            args += [constant(inputs[1], 2 if depthwise else 0, weight), constant(inputs[2])]
            parameters = (told.FusedActivationFunction(), *stride, 1, 1, *pads)
            parameters = (ACTIVATIONS[parameters[0]], *parameters[1:])
            kind = "Depthwise" if depthwise else "Conv2d"
        elif kind == "FULLY_CONNECTED":
            told = options_of(data, op["index"])
            units = shape(out)[-1]
            kind_of_bias = "i4" if details[out]["dtype"] == np.int8 else "f4"
            bias = (
                constant(inputs[2])
                if len(inputs) > 2 and inputs[2] >= 0
                else b.constant("", np.zeros(units, kind_of_bias))
            )
            args += [constant(inputs[1]), bias]
            parameters, kind = (ACTIVATIONS[told.FusedActivationFunction()],), "FullyConnected"
        elif kind == "ADD":
            args.append(numbers[inputs[1]])
            parameters, kind = (ACTIVATIONS[options_of(data, op["index"]).FusedActivationFunction()],), "Add"
        elif kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
            told = options_of(data, op["index"])
            parameters = (told.FilterHeight(), told.FilterWidth(), told.StrideH(), told.StrideW(), 0, 0, 0, 0)
            kind = "MaxPool" if kind[0] == "M" else "AveragePool"
        else:
            kind = {"MEAN": "Mean", "SOFTMAX": "Softmax"}[kind]
        numbers[out] = b.add(
            kind, args, shape(out), details[out]["dtype"], parameters=parameters, name=f"t{out}", **grid(out)
        )
    b.output(numbers[out], "y")
    return b, numbers


@pytest.mark.parametrize("integer", [False, True])
def test_results_are_theirs(models, integer):
    tf, _, found, examples = models
    theirs = started(tf, found[integer])
    b, _ = ours(theirs, found[integer])
    model = Interpreter(b.to_bytes())
    (start,), (end,) = theirs.get_input_details(), theirs.get_output_details()
    agree = 0
    for i in range(24):
        x = model.quantised("x", examples[i : i + 1]) if integer else examples[i : i + 1]
        theirs.set_tensor(start["index"], x)
        theirs.invoke()
        wanted, got = theirs.get_tensor(end["index"]), model(x=x)["y"]
        if integer:
            assert np.abs(wanted.astype(int) - got).max() <= 2  # layers of up to one step each, through a softmax
        else:
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)
        agree += int(wanted.argmax() == got.argmax())
    assert agree >= 22


def test_each_layer_is_within_one_step(models):
    """Each of our kernels is given what theirs was given, so that differences don't add up."""
    tf, _, found, examples = models
    theirs = started(tf, found[True], keep=True)
    b, numbers = ours(theirs, found[True])
    model = Interpreter(b.to_bytes())
    back = {mine: index for index, mine in numbers.items()}
    (start,) = theirs.get_input_details()
    checked = []
    for i in range(6):
        theirs.set_tensor(start["index"], model.quantised("x", examples[i : i + 1]))
        theirs.invoke()
        for operator, kernel in zip(model.model.operators, model.kernels, strict=True):
            for number in operator.inputs:
                if number in back:
                    np.copyto(model.arrays[number], theirs.get_tensor(back[number]))
            kernel.run()
            wanted = theirs.get_tensor(back[operator.outputs[0]]).astype(int)
            assert np.abs(wanted - kernel.result).max() <= 1, type(kernel).__name__
            checked.append((wanted != kernel.result).mean())
    assert {type(kernel).__name__ for kernel in model.kernels} == {
        "Conv2d", "Depthwise", "Add", "AveragePool", "MaxPool", "Mean", "FullyConnected", "Softmax",
    }  # fmt: skip
    assert np.mean(checked) < 0.02


def arena_of(tflite):
    """Bytes from the first to the last of the tensors that a run writes, by their addresses.

    The interpreter tells no sizes of its arenas. What it gives as arrays are views of them; a kernel's own working
    tensors can't be asked for, so this is the least that its arena has.
    """
    written = {int(one["index"]) for one in tflite.get_input_details()}
    written |= {int(i) for op in tflite._get_ops_details() for i in op["outputs"]}
    views = [tflite.tensor(i)() for i in written]
    starts = [view.__array_interface__["data"][0] for view in views]
    return max(start + view.nbytes for start, view in zip(starts, views, strict=True)) - min(starts)


@pytest.mark.parametrize("kernels", ["BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"])
@pytest.mark.parametrize("integer", [False, True])
def test_the_arena_is_at_most_a_fifth_larger(models, integer, kernels):
    tf, _, found, _ = models
    theirs = started(tf, found[integer], kernels)
    b, _ = ours(theirs, found[integer])
    model = Interpreter(b.to_bytes())
    least = arena_of(theirs)
    assert len(model.arena) <= 1.2 * least, (len(model.arena), least)
    # What their kernels take beside it is not told. Ours, asked to be small, stay within three tenths with it.
    tight = Interpreter(b.to_bytes(), scratch=1024)
    assert len(tight.arena) + len(tight.room) <= 1.3 * least, (len(tight.arena), len(tight.room), least)
