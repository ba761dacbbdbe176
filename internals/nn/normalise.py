"""Layers that keep activations in range, and one that drops them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from internals import ops
from internals.nn.module import Module
from internals.ops.normalise import per_channel
from internals.tensor import Tensor, no_grad


def _parameter(shape: Sequence[int], value: float) -> Tensor:
    return Tensor(np.full(shape, value, np.float32), requires_grad=True)


class BatchNorm2d(Module):
    """Normalise each channel, over the batch in training, by running statistics in evaluation.

    Parameters
    ----------
    channels : int
        x is (batch, channels, height, width).
    eps : float
    momentum : float
        The share of the newest batch in the running statistics, as in PyTorch; Keras's momentum is the share of
        the old ones. The running variance is the unbiased one (divided by n - 1), as in PyTorch; Keras keeps the other.
    """

    buffers = ("running_mean", "running_var", "num_batches_tracked")

    def __init__(self, channels: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        if not isinstance(channels, int) or channels < 1:
            raise ValueError(f"BatchNorm2d: channels must be a positive integer, got {channels!r}.")
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = _parameter((channels,), 1), _parameter((channels,), 0)
        self.running_mean = Tensor(np.zeros(channels, np.float32))
        self.running_var = Tensor(np.ones(channels, np.float32))
        self.num_batches_tracked = Tensor(0)

    def forward(self, x: Tensor) -> Tensor:
        channels = self.weight.shape[0]
        if x.ndim != 4 or x.shape[1] != channels:
            raise ValueError(f"BatchNorm2d: x has shape {x.shape}; expected (batch, {channels}, height, width).")
        if not self.training:
            scale = self.weight * ops.rsqrt(self.running_var + self.eps)
            return per_channel(x, scale, self.bias - self.running_mean * scale)
        n = x.size // channels
        if n < 2:
            raise ValueError(
                f"BatchNorm2d: x of shape {x.shape} has {n} value(s) for each channel, and no variance. Train on "
                "more, or call eval()."
            )
        self._note(x, n)
        return ops.batch_norm(x, self.weight, self.bias, eps=self.eps)

    def _note(self, x: Tensor, n: int) -> None:
        """Move the running statistics towards those of x."""
        with no_grad():
            mean = ops.mean(x, axis=(0, 2, 3))
            centred = x - ops.reshape(mean, shape=(-1, 1, 1))
            variance = ops.sum(centred * centred, axis=(0, 2, 3)) * (1 / (n - 1))
            for running, newest in ((self.running_mean, mean), (self.running_var, variance)):
                running *= 1 - self.momentum
                running += newest * self.momentum
            self.num_batches_tracked += 1

    def __repr__(self) -> str:
        return f"BatchNorm2d({self.weight.shape[0]})"


class LayerNorm(Module):
    """Normalise each example over its last axes, of sizes `shape`; weight and bias have that shape."""

    def __init__(self, shape: int | Sequence[int], *, eps: float = 1e-5) -> None:
        self.shape, self.eps = (shape,) if isinstance(shape, int) else tuple(shape), eps
        if not self.shape or not all(isinstance(size, int) and size > 0 for size in self.shape):
            raise ValueError(f"LayerNorm: shape must be positive integers, got {shape!r}.")
        self.weight, self.bias = _parameter(self.shape, 1), _parameter(self.shape, 0)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-len(self.shape) :] != self.shape:
            raise ValueError(f"LayerNorm: an input of shape {x.shape} does not end in {self.shape}.")
        return ops.layer_norm(x, self.weight, self.bias, ndim=len(self.shape), eps=self.eps)

    def __repr__(self) -> str:
        return f"LayerNorm({self.shape})"


class Dropout(Module):
    """In training, each entry is 0 with probability p; in evaluation nothing happens.

    Parameters
    ----------
    p : float
    rng : numpy.random.Generator, optional
        Each call draws the seed of its mask from it.
    """

    def __init__(self, p: float = 0.5, *, rng: np.random.Generator | None = None) -> None:
        if not isinstance(p, int | float) or not 0 <= p <= 1:
            raise ValueError(f"Dropout: p is the probability of a zero and must lie in [0, 1], got {p!r}.")
        self.p, self.rng = p, rng or np.random.default_rng()

    def forward(self, x: Tensor) -> Tensor:
        return ops.dropout(x, p=self.p, seed=ops.draw_seed(self.rng)) if self.training else x

    def __repr__(self) -> str:
        return f"Dropout({self.p})"
