"""A small convolutional network on one image, in five ways: ``python -m benchmarks.edge``.

The same weights in the lite interpreter (float32 and int8), our Session, PyTorch and TensorFlow Lite: with XNNPACK, as
it starts by default, and with its own kernels. PyTorch and TensorFlow Lite run in one thread; OPENBLAS_NUM_THREADS=1 in
the environment makes NumPy do the same, and should be set on a machine that is busy.

Memory is what a run writes: our arena as it is planned, and the room in which kernels work; the Session's peak of what
it allocates in a run (tracemalloc); of TensorFlow Lite the span of the arrays it shows, without its kernels' own.
PyTorch's and XNNPACK's are not told.
"""

from __future__ import annotations

import os
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.side_by_side import compare
from internals import nn, ops
from internals.deploy import Signature, TensorSpec, load, save
from internals.deploy.lite import Interpreter, to_lite

SIZE = 32


class Net(nn.Module):
    """Three convolutions and a head."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.first = nn.Conv2d(3, 16, 3, padding=1, rng=rng)
        self.second = nn.Conv2d(16, 32, 3, padding=1, rng=rng)
        self.third = nn.Conv2d(32, 32, 3, padding=1, rng=rng)
        self.head = nn.Linear(32, 10, rng=rng)

    def forward(self, x: Any) -> Any:
        x = ops.max_pool2d(ops.relu(self.first(x)), window=2)
        x = ops.max_pool2d(ops.relu(self.second(x)), window=2)
        return self.head(ops.mean(ops.relu(self.third(x)), axis=(2, 3)))


def numbers(parameter: Any) -> np.ndarray:
    found: np.ndarray = parameter.detach().numpy().copy()
    return found


def in_torch(torch: Any, net: Net) -> Any:
    layers: list[Any] = []
    for ours, pooled in ((net.first, True), (net.second, True), (net.third, False)):
        one = torch.nn.Conv2d(ours.weight.shape[1], ours.weight.shape[0], 3, padding=1)
        one.weight.data, one.bias.data = (torch.from_numpy(numbers(p)) for p in (ours.weight, ours.bias))
        layers += [one, torch.nn.ReLU(), *([torch.nn.MaxPool2d(2)] if pooled else [])]
    head = torch.nn.Linear(32, 10)
    head.weight.data = torch.from_numpy(numbers(net.head.weight).T.copy())
    head.bias.data = torch.from_numpy(numbers(net.head.bias))
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), head).eval()


def in_keras(tf: Any, net: Net) -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((SIZE, SIZE, 3))])
    for ours, pooled in ((net.first, True), (net.second, True), (net.third, False)):
        one = layers.Conv2D(ours.weight.shape[0], 3, padding="same", activation="relu")
        model.add(one)
        one.set_weights([numbers(ours.weight).transpose(2, 3, 1, 0), numbers(ours.bias)])
        if pooled:
            model.add(layers.MaxPooling2D(2))
    model.add(layers.GlobalAveragePooling2D())
    head = layers.Dense(10)
    model.add(head)
    head.set_weights([numbers(net.head.weight), numbers(net.head.bias)])
    return model


def tflite(tf: Any, model: Any, examples: np.ndarray, *, integer: bool, delegated: bool) -> Any:
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if integer:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([one[None]] for one in examples)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    kinds = tf.lite.experimental.OpResolverType
    kind = kinds.AUTO if delegated else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    made = tf.lite.Interpreter(model_content=converter.convert(), num_threads=1, experimental_op_resolver_type=kind)
    made.allocate_tensors()
    return made


def span(made: Any) -> int:
    """Bytes from the first to the last array that a run writes."""
    numbers = {int(one["index"]) for one in made.get_input_details()}
    numbers |= {int(i) for op in made._get_ops_details() for i in op["outputs"]}
    views = [made.tensor(i)() for i in numbers]
    starts = [view.__array_interface__["data"][0] for view in views]
    return int(max(start + view.nbytes for start, view in zip(starts, views, strict=True)) - min(starts))


def peak(call: Callable[[], Any]) -> int:
    call()
    tracemalloc.start()
    call()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def main() -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    warnings.simplefilter("ignore")
    import tensorflow as tf
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    net = Net(rng)
    net.eval()
    examples = rng.normal(size=(32, 3, SIZE, SIZE)).astype(np.float32)
    laid = np.ascontiguousarray(examples.transpose(0, 2, 3, 1))
    signature = {"serve": Signature({"x": TensorSpec(("batch", 3, SIZE, SIZE))}, ("y",))}
    x = examples[:1]

    with tempfile.TemporaryDirectory() as folder:
        save(f"{folder}/net", net, signature)
        serve = load(f"{folder}/net").signatures["serve"]
    ours = Interpreter(to_lite(net, signature))
    integer = Interpreter(to_lite(net, signature, calibration=[{"x": examples}]))
    tight = Interpreter(to_lite(net, signature, calibration=[{"x": examples}]), scratch=2**10)
    steps = integer.quantised("x", x)
    theirs = in_torch(torch, net)
    keras = in_keras(tf, net)
    given = torch.from_numpy(x)
    wanted = serve(x=x)["y"]
    with torch.no_grad():
        assert np.abs(theirs(given).numpy() - wanted).max() < 1e-4
    assert np.abs(ours(x=x)["y"] - wanted).max() < 1e-4

    def in_torch_now() -> Any:
        with torch.no_grad():
            return theirs(given)

    contenders: dict[str, Callable[[], object]] = {
        "internals": lambda: ours(x=x),
        "internals, int8": lambda: integer(x=steps),
        "internals, int8, little room": lambda: tight(x=steps),
        "Session": lambda: serve(x=x),
        "torch": in_torch_now,
    }
    memory: dict[str, int | None] = {
        "internals": len(ours.arena) + len(ours.room),
        "internals, int8": len(integer.arena) + len(integer.room),
        "internals, int8, little room": len(tight.arena) + len(tight.room),
        "Session": peak(contenders["Session"]),
        "torch": None,
    }
    for kind, whole in (("float32", False), ("int8", True)):
        for delegated in (True, False):
            made = tflite(tf, keras, laid, integer=whole, delegated=delegated)
            name = f"tf.lite {kind}, {'XNNPACK' if delegated else 'builtin'}"
            told = made.get_input_details()[0]
            scale, zero = told["quantization"]
            fed = laid[:1] if not whole else np.clip(np.rint(laid[:1] / scale) + zero, -128, 127).astype(np.int8)

            def run(made: Any = made, fed: np.ndarray = fed, number: int = told["index"]) -> Any:
                made.set_tensor(number, fed)
                made.invoke()
                return made.get_tensor(made.get_output_details()[0]["index"])

            contenders[name] = run
            memory[name] = None if delegated else span(made)
    rows = compare("one image", contenders, calls=10, rounds=11)
    print(f"{'':<30} {'ms':>8} {'lite/this':>10} {'memory of a run':>16}")
    print(f"{'internals':<30} {1e3 * rows[0].ours:8.3f} {1:10.2f} {memory['internals']:>16,}")
    for row in rows:
        used = memory[row.against]
        told = "-" if used is None else f"{used:,}"
        print(f"{row.against:<30} {1e3 * row.seconds:8.3f} {row.ratio:10.2f} {told:>16}")


if __name__ == "__main__":
    main()
