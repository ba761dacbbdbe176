"""Models drawn at random: whatever the converter writes, in float32 and in int8, the interpreter runs."""

import itertools

import numpy as np
import pytest

from internals import Tensor, nn, no_grad, ops
from internals.deploy import Signature, TensorSpec
from internals.deploy.lite import Interpreter, to_lite

BATCH = 6


def perceptron(rng):
    """Rows through layers, norms and functions; sometimes with a part for each of a sequence."""
    sizes = [int(n) for n in rng.integers(1, 9, rng.integers(2, 5))]
    leading = tuple(int(n) for n in rng.integers(1, 5, rng.integers(0, 3)))
    layers = []
    for one, other in itertools.pairwise(sizes):
        layers.append(nn.Linear(one, other, bias=bool(rng.integers(2)), rng=rng))
        if not leading and rng.random() < 0.4:
            layers.append(settled(nn.BatchNorm1d(other), rng))
        layers.append(
            [nn.ReLU(), nn.Sigmoid(), nn.Tanh(), scaled(rng, leading, other), moved(leading)][rng.integers(5)]
        )
    layers += [nn.Flatten()] * int(rng.integers(2)) + [nn.Softmax(-1)] * int(rng.integers(2))
    return nn.Sequential(*layers), (*leading, sizes[0])


def convolutional(rng):
    """Convolutions, pools and norms in any order, so that a norm may follow anything; a head, or none."""
    channels, side = int(rng.integers(1, 5)), int(rng.integers(4, 8))
    shape, layers = (channels, side, side + int(rng.integers(3))), []
    for _ in range(rng.integers(1, 6)):
        kind = rng.integers(7)
        if kind < 2:
            groups = channels if kind and channels > 1 else 1
            out = channels if groups > 1 else int(rng.integers(1, 5))
            layers.append(nn.Conv2d(channels, out, 3, padding=1, stride=int(rng.integers(1, 3)), groups=groups,
                                    bias=bool(rng.integers(2)), rng=rng))  # fmt: skip
            channels = out
        elif kind == 2:
            layers.append(settled(nn.BatchNorm2d(channels), rng))
        elif kind == 3:
            layers.append([nn.MaxPool2d, nn.AvgPool2d][rng.integers(2)](2, stride=1, padding=1))
        elif kind == 4:
            layers.append([nn.ReLU(), nn.Tanh(), nn.Sigmoid()][rng.integers(3)])
        elif kind == 5:
            layers.append(scaled(rng, (channels, 1), 1))
        else:
            layers.append(Twice(nn.Conv2d(channels, channels, 1, rng=rng)))
    ending = rng.integers(3)
    if ending:
        layers.append(nn.AdaptiveAvgPool2d(1) if ending == 1 else nn.Identity())
        model = nn.Sequential(*layers, nn.Flatten())
        with no_grad():
            width = model.eval()(Tensor(np.zeros((1, *shape), np.float32))).shape[1]
        layers += [nn.Flatten(), nn.Linear(width, 3, rng=rng)]
    return nn.Sequential(*layers), shape


def recurrent(rng):
    """Layers of LSTMs, and a head on the last step, the mean of all, or each."""
    steps, width, units = (int(n) for n in rng.integers(1, 6, 3))
    layer = nn.LSTM(width, units, num_layers=int(rng.integers(1, 3)), batch_first=True, rng=rng)
    return Sequence(layer, nn.Linear(units, 2, rng=rng), int(rng.integers(3))), (steps, width)


class Sequence(nn.Module):
    def __init__(self, layer, head, choice):
        self.layer, self.head, self.choice = layer, head, choice

    def forward(self, x):
        found = self.layer(x)[0]
        if self.choice == 0:
            found = found[:, -1]
        elif self.choice == 1:
            found = ops.mean(found, axis=1)
        return self.head(found)


class Twice(nn.Module):
    """A layer beside its own input."""

    def __init__(self, layer):
        self.layer = layer

    def forward(self, x):
        return ops.relu(self.layer(x)) + x


class Scaled(nn.Module):
    def __init__(self, scale, shift):
        self.scale, self.shift = scale, shift

    def forward(self, x):
        return x * self.scale - self.shift


class Moved(nn.Module):
    def __init__(self, axes):
        self.axes = axes

    def forward(self, x):
        return ops.transpose(ops.transpose(x, axes=self.axes) * 0.5, axes=tuple(np.argsort(self.axes)))


def scaled(rng, leading, last):
    """A product with, and a difference from, constants that are repeated along some axes."""
    shape = tuple(size if rng.random() < 0.6 else 1 for size in (*leading, last))[rng.integers(len(leading) + 1) :]
    return Scaled(*(rng.normal(size=shape).astype("f4") for _ in range(2)))


def moved(leading):
    return Moved((0, *range(1, 2 + len(leading))[::-1]))


def settled(norm, rng):
    """A norm that has seen data."""
    norm.running_mean[...] = rng.normal(size=norm.running_mean.shape)
    norm.running_var[...] = rng.uniform(0.5, 2, norm.running_var.shape)
    return norm


def agrees(make, seed):
    rng = np.random.default_rng(seed)
    model, shape = make(rng)
    model.eval()
    x = rng.normal(size=(BATCH, *shape)).astype("f4")
    with no_grad():
        wanted = model(Tensor(x)).numpy()
    signature = {"serve": Signature({"x": TensorSpec(("batch", *shape))}, ("y",))}
    np.testing.assert_allclose(Interpreter(to_lite(model, signature))(x=x)["y"], wanted, rtol=1e-4, atol=1e-5)
    data = to_lite(model, signature, calibration=[{"x": x}])
    results = []
    for scratch in (1, 2**16):
        integer = Interpreter(data, scratch=scratch)
        results.append(integer(x=integer.quantised("x", x))["y"])
    np.testing.assert_array_equal(*results)
    error = np.abs(integer.real("y", results[0]) - wanted).mean()
    assert error <= 0.06 * max(np.ptp(wanted), float(np.abs(wanted).max())) + 1e-6, (model, error, np.ptp(wanted))


@pytest.mark.slow
@pytest.mark.parametrize("make", [perceptron, convolutional, recurrent], ids=lambda one: one.__name__)
def test_what_is_written_runs(make):
    for seed in range(30):
        agrees(make, seed)
