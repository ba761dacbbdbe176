"""Layers that keep activations in range, and one that drops them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from internals import ops
from internals.nn.module import Module, parameter, positive, tensors
from internals.ops.normalise import per_channel
from internals.tensor import Tensor, no_grad


def _constant(shape: Sequence[int], value: float) -> Tensor:
    return parameter(np.full(shape, value, np.float32))


class _BatchNorm(Module):
    """Normalise each channel, over the batch in training, by running statistics in evaluation (Ioffe & Szegedy 2015).

    Parameters
    ----------
    channels : int
        x is (batch, channels, height, width); of BatchNorm1d (batch, channels) or (batch, channels, length).
    eps : float
    momentum : float
        The share of the newest batch in the running statistics, as in PyTorch; Keras's momentum is the share of
        the old ones. The running variance is the unbiased one (divided by n - 1), as in PyTorch; Keras keeps the other.
    """

    buffers = ("running_mean", "running_var", "num_batches_tracked")
    ndims: tuple[int, ...] = (4,)
    layout = "height, width"

    def __init__(self, channels: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        positive(type(self).__name__, channels=channels)
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = _constant((channels,), 1), _constant((channels,), 0)
        self.running_mean = Tensor(np.zeros(channels, np.float32))
        self.running_var = Tensor(np.ones(channels, np.float32))
        self.num_batches_tracked = Tensor(0)

    def forward(self, x: Tensor) -> Tensor:
        channels, name = self.weight.shape[0], type(self).__name__
        tensors(name, x=x)
        if x.ndim not in self.ndims or x.shape[1] != channels:
            raise ValueError(f"{name}: x has shape {x.shape}; expected (batch, {channels}, {self.layout}).")
        if not self.training:
            scale = self.weight * ops.rsqrt(self.running_var + self.eps)
            return per_channel(x, scale, self.bias - self.running_mean * scale)
        n = x.size // channels
        if n < 2:
            raise ValueError(
                f"{name}: x of shape {x.shape} has {n} value(s) for each channel, and no variance. Train on "
                "more, or call eval()."
            )
        self._note(x, n)
        return ops.batch_norm(x, self.weight, self.bias, eps=self.eps)

    def _note(self, x: Tensor, n: int) -> None:
        """Move the running statistics towards those of x."""
        axes = (0, *range(2, x.ndim))
        x = x.detach()  # a buffer can't hold the tangent of a jvp
        with no_grad():
            mean = ops.mean(x, axis=axes)
            centred = x - ops.reshape(mean, shape=(-1, *(1,) * (x.ndim - 2)))
            variance = ops.sum(centred * centred, axis=axes) * (1 / (n - 1))
            for running, newest in ((self.running_mean, mean), (self.running_var, variance)):
                running *= 1 - self.momentum
                running += newest * self.momentum
            self.num_batches_tracked += 1

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}"


class BatchNorm1d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    ndims, layout = (2, 3), "length) or (batch, channels"


class BatchNorm2d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__


class LayerNorm(Module):
    """Normalise each example over its last axes, of sizes `shape`; weight and bias have that shape (Ba et al. 2016)."""

    def __init__(self, shape: int | Sequence[int], *, eps: float = 1e-5, bias: bool = True) -> None:
        self.shape, self.eps = (shape,) if isinstance(shape, int) else tuple(shape), eps
        if not self.shape or not all(isinstance(size, int) and size > 0 for size in self.shape):
            raise ValueError(f"LayerNorm: shape must be positive integers, got {shape!r}.")
        self.weight, self.bias = _constant(self.shape, 1), _constant(self.shape, 0) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        tensors("LayerNorm", x=x)
        if x.shape[-len(self.shape) :] != self.shape:
            raise ValueError(f"LayerNorm: an input of shape {x.shape} does not end in {self.shape}.")
        return ops.layer_norm(x, self.weight, self.bias, ndim=len(self.shape), eps=self.eps)

    def extra_repr(self) -> str:
        return f"{self.shape}"


class RMSNorm(Module):
    """Divide each example by its root mean square over the last axis, of `size` (Zhang & Sennrich 2019).

    PyTorch's eps, unless given, is the dtype's own: torch.finfo(x.dtype).eps.
    """

    def __init__(self, size: int, *, eps: float = 1e-6) -> None:
        positive("RMSNorm", size=size)
        self.eps, self.weight = eps, _constant((size,), 1)

    def forward(self, x: Tensor) -> Tensor:
        tensors("RMSNorm", x=x)
        if x.shape[-1:] != self.weight.shape:
            raise ValueError(f"RMSNorm: an input of shape {x.shape} does not end in {self.weight.shape}.")
        return ops.rms_norm(x, self.weight, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}"


class GroupNorm(Module):
    """Normalise each example over groups of channels (Wu & He 2018); x is (batch, channels, ...)."""

    def __init__(self, groups: int, channels: int, *, eps: float = 1e-5) -> None:
        positive("GroupNorm", groups=groups, channels=channels)
        if channels % groups:
            raise ValueError(f"GroupNorm: {channels} channels don't divide into {groups} groups.")
        self.groups, self.eps = groups, eps
        self.weight, self.bias = _constant((channels,), 1), _constant((channels,), 0)

    def forward(self, x: Tensor) -> Tensor:
        tensors("GroupNorm", x=x)
        if x.ndim < 2 or x.shape[1:2] != self.weight.shape:
            raise ValueError(f"GroupNorm: x has shape {x.shape}; expected (batch, {self.weight.shape[0]}, ...).")
        return ops.group_norm(x, self.groups, self.weight, self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{self.groups}, {self.weight.shape[0]}"


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
        if not self.training or not self.p:
            return x
        return ops.dropout(x, p=self.p, seed=ops.draw_seed(self.rng))

    def extra_repr(self) -> str:
        return f"{self.p}"
