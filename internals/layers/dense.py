"""Layers of vectors, and layers that put others together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from internals import ops
from internals.device import Array
from internals.layers.argument import Argument, Form, Parameter
from internals.layers.layer import Layer, layer, pull


def positive(**sizes: Any) -> None:
    """Raise for a size that is not a positive integer."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} must be a positive integer, got {size!r}.")


def flag(**settings: Any) -> None:
    """Raise for what is neither true nor false."""
    for name, value in settings.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be true or false, got {value!r}.")


def numbers(what: str, *forms: Form) -> None:
    """Raise for ids where numbers are needed."""
    for form in forms:
        if form.ids:
            raise ValueError(f"a {what} layer needs numbers, but its bottom is {form}; look them up in a table first.")


@layer("data")
class Data(Layer):
    """Where a batch comes in: no bottoms, and nothing to compute."""

    def setup(self, *, shape: Any = (), ids: int = 0, sequence: bool = False) -> Form:
        sizes = tuple(shape) if isinstance(shape, list | tuple) else (shape,)
        for size in sizes:
            positive(shape=size)
        if ids:
            positive(ids=ids)
        flag(sequence=sequence)
        return Form(sizes, ids, sequence)


@layer("fc")
class FullyConnected(Layer):
    """y = x W + b: each example, or each step of a sequence, as one row (Caffe's InnerProduct)."""

    roles = ("weight", "bias")
    weight: Parameter
    bias: Parameter | None

    def setup(self, x: Form, *, size: int) -> Form:
        positive(size=size)
        numbers("fc", x)
        self.weight = self.parameter("weight", (x.size, size), fan_in=x.size)
        self.bias = self.optional("bias", (size,), init="constant")
        return Form((size,), sequence=x.sequence)

    def forward(self, x: Argument) -> Array:
        return ops.linear(self._rows(x), self.weight.value, 0.0 if self.bias is None else self.bias.value)

    def backward(self, g: Array, x: Argument) -> None:
        self.weight.accumulate(ops.matmul(self._rows(x).T, g))
        if self.bias is not None:
            self.bias.accumulate(ops.sum(g, axis=0))
        if x.wants:
            x.accumulate(ops.reshape(ops.matmul(g, self.weight.value.T), shape=tuple(x.value.shape)))

    def _rows(self, x: Argument) -> Array:
        return ops.reshape(x.value, shape=(x.value.shape[0], self.weight.value.shape[0]))


@layer("activation")
class Activation(Layer):
    """A layer that does nothing but its ``act``, as Caffe has it; elsewhere ``act`` is a setting of any layer."""

    def setup(self, x: Form) -> Form:
        numbers("activation", x)
        return x

    def forward(self, x: Argument) -> Array:
        return x.value

    def backward(self, g: Array, x: Argument) -> None:
        x.accumulate(g)


@layer("dropout")
class Dropout(Layer):
    """In training, each entry is 0 with probability p and the others grow; in test mode nothing happens."""

    def setup(self, x: Form, *, p: float = 0.5) -> Form:
        numbers("dropout", x)
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p < 1:
            raise ValueError(f"p is the probability of a zero and must lie in [0, 1), got {p!r}.")
        self.p, self.seed = p, 0
        return x

    def forward(self, x: Argument) -> Array:
        if not self.training or not self.p:
            return x.value
        self.seed = ops.draw_seed(self.rng)
        return ops.dropout(x.value, p=self.p, seed=self.seed)

    def backward(self, g: Array, x: Argument) -> None:
        x.accumulate(ops.dropout(g, p=self.p, seed=self.seed) if self.training and self.p else g)


@layer("batch_norm")
class BatchNorm(Layer):
    """Each channel normalised over the batch in training, by running statistics in test mode (Ioffe & Szegedy 2015).

    With several threads each share of a batch is normalised by its own statistics, as in Caffe and PaddlePaddle with
    several devices, so the result depends on how many there are.
    """

    roles = ("weight", "bias", "mean", "variance")
    weight: Parameter
    bias: Parameter
    mean: Parameter
    variance: Parameter

    def setup(self, x: Form, *, eps: float = 1e-5, momentum: float = 0.1) -> Form:
        numbers("batch_norm", x)
        if not x.shape:
            raise ValueError("a batch_norm layer needs channels, but its bottom is one number.")
        for name, value in (("eps", eps), ("momentum", momentum)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ValueError(f"{name} must be a number in [0, 1], got {value!r}.")
        self.eps, self.share = eps, momentum
        channels = (x.shape[0],)
        self.weight = self.parameter("weight", channels, init="constant", value=1.0)
        self.bias = self.parameter("bias", channels, init="constant")
        self.mean = self.parameter("mean", channels, init="constant", static=True)
        self.variance = self.parameter("variance", channels, init="constant", value=1.0, static=True)
        self.ones = (1,) * (len(x.shape) - 1)
        self.axes = (0, *range(2, len(x.shape) + 1))
        self.seen: tuple[int, Array, Array] | None = None
        return x

    def _spread(self, value: Array) -> Array:
        return ops.reshape(value, shape=(*value.shape, *self.ones))

    def forward(self, x: Argument) -> Array:
        weight, bias = self._spread(self.weight.value), self._spread(self.bias.value)
        if not self.training:
            self.scale = self.weight.value * ops.rsqrt(self.variance.value + self.eps)
            self.normal = None
            return x.value * self._spread(self.scale) + self._spread(self.bias.value - self.mean.value * self.scale)
        n = x.value.size // self.weight.value.size
        if n < 2:
            raise ValueError(
                f"layer {self.name!r}: {n} value(s) for each channel have no variance. Give each thread more examples."
            )
        mean = ops.mean(x.value, axis=self.axes)
        centred = x.value - self._spread(mean)
        self.seen = n, mean, ops.sum(centred * centred, axis=self.axes) * (1 / (n - 1))
        self.normal = ops.normalise(x.value, axis=self.axes, eps=self.eps)
        return self.normal * weight + bias

    def backward(self, g: Array, x: Argument) -> None:
        if self.normal is None:
            raise RuntimeError(f"layer {self.name!r}: a backward pass in test mode; run the forward pass in training.")
        spread = self._spread(self.weight.value)
        self.bias.accumulate(ops.reshape(ops.unbroadcast(g, spread.shape), shape=self.bias.value.shape))
        self.weight.accumulate(
            ops.reshape(ops.unbroadcast(g * self.normal, spread.shape), shape=self.weight.value.shape)
        )
        if x.wants:
            x.accumulate(pull(ops.normalise, g * spread, self.normal, [x.value], axis=self.axes, eps=self.eps)[0])

    def absorb(self, twins: Sequence[BatchNorm]) -> None:
        """Move the running statistics towards what the threads have seen, each by how much it saw."""
        seen = [twin.seen for twin in twins if twin.seen is not None]
        total = sum(n for n, _, _ in seen)
        for place, running in ((1, self.mean), (2, self.variance)):
            newest = seen[0][place] * (seen[0][0] / total)
            for one in seen[1:]:
                newest = newest + one[place] * (one[0] / total)
            running.value = running.value * (1 - self.share) + newest * self.share


@layer("concat")
class Concat(Layer):
    """Bottoms side by side, along the first axis of an example."""

    def setup(self, *forms: Form) -> Form:
        numbers("concat", *forms)
        first = forms[0]
        for form in forms:
            if form.shape[1:] != first.shape[1:] or not form.shape or form.sequence != first.sequence:
                raise ValueError(f"{first} and {form} don't go side by side; all sizes but the first must agree.")
        return Form((sum(form.shape[0] for form in forms), *first.shape[1:]), sequence=first.sequence)

    def forward(self, *bottoms: Argument) -> Array:
        return ops.concat([bottom.value for bottom in bottoms], axis=1)

    def backward(self, g: Array, *bottoms: Argument) -> None:
        begin = 0
        for bottom in bottoms:
            end = begin + bottom.value.shape[1]
            bottom.accumulate(ops.getitem(g, key=(slice(None), slice(begin, end))))
            begin = end


@layer("sum")
class Sum(Layer):
    """Bottoms added up: PaddlePaddle's addto, Caffe's Eltwise."""

    def setup(self, *forms: Form) -> Form:
        numbers("sum", *forms)
        for form in forms[1:]:
            if form != forms[0]:
                raise ValueError(f"{forms[0]} and {form} can't be added.")
        return forms[0]

    def forward(self, *bottoms: Argument) -> Array:
        total = bottoms[0].value
        for bottom in bottoms[1:]:
            total = total + bottom.value
        return total

    def backward(self, g: Array, *bottoms: Argument) -> None:
        for bottom in bottoms:
            bottom.accumulate(g)


@layer("reshape")
class Reshape(Layer):
    """The same numbers in another shape; without one, as a row."""

    def setup(self, x: Form, *, shape: Any = None) -> Form:
        numbers("reshape", x)
        sizes = (x.size,) if shape is None else tuple(shape) if isinstance(shape, list | tuple) else (shape,)
        if Form(sizes).size != x.size:
            raise ValueError(f"{x} has {x.size} numbers, {Form(sizes)} has {Form(sizes).size}.")
        return Form(sizes, sequence=x.sequence)

    def forward(self, x: Argument) -> Array:
        return ops.reshape(x.value, shape=(x.value.shape[0], *self.form.shape))

    def backward(self, g: Array, x: Argument) -> None:
        x.accumulate(ops.reshape(g, shape=tuple(x.value.shape)))
