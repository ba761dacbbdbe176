"""The mixed layer: a sum of projections of its bottoms, PaddlePaddle's way to be flexible without new layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from internals import ops
from internals.device import Array, device_of
from internals.layers.argument import Argument, Form, Parameter
from internals.layers.dense import numbers, positive
from internals.layers.layer import Layer, layer, settings_of


class Projection(Layer):
    """One term of a mixed layer: a layer without a bias, an activation and a name in the configuration."""

    roles: tuple[str, ...] = ("weight",)
    weight: Parameter
    size: int

    def out(self, x: Form) -> Form:
        return Form((self.size,), sequence=x.sequence)


class FullMatrix(Projection):
    """x W."""

    def setup(self, x: Form) -> Form:
        numbers("full_matrix", x)
        self.weight = self.parameter("weight", (x.size, self.size), fan_in=x.size)
        return self.out(x)

    def forward(self, x: Argument) -> Array:
        return ops.matmul(x.value, self.weight.value)

    def backward(self, g: Array, x: Argument) -> None:
        self.weight.accumulate(ops.matmul(x.value.T, g))
        if x.wants:
            x.accumulate(ops.matmul(g, self.weight.value.T))


class TransFullMatrix(Projection):
    """x W^T: with the name of another projection's weight, the way back through the same matrix."""

    def setup(self, x: Form) -> Form:
        numbers("trans_full_matrix", x)
        self.weight = self.parameter("weight", (self.size, x.size), fan_in=x.size)
        return self.out(x)

    def forward(self, x: Argument) -> Array:
        return ops.matmul(x.value, self.weight.value.T)

    def backward(self, g: Array, x: Argument) -> None:
        self.weight.accumulate(ops.matmul(x.value.T, g).T)
        if x.wants:
            x.accumulate(ops.matmul(g, self.weight.value))


class Identity(Projection):
    """x, or the columns of it that begin at `offset`."""

    roles = ()

    def setup(self, x: Form, *, offset: int = 0) -> Form:
        numbers("identity", x)
        if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= x.size - self.size:
            raise ValueError(f"columns {offset} to {offset}+{self.size} are not all there: the bottom is {x}.")
        self.columns = (slice(None), slice(offset, offset + self.size))
        return self.out(x)

    def forward(self, x: Argument) -> Array:
        return ops.getitem(x.value, key=self.columns)

    def backward(self, g: Array, x: Argument) -> None:
        if x.wants:
            x.accumulate(ops.unindex(g, key=self.columns, shape=tuple(x.value.shape)))


class DotMul(Projection):
    """x times a weight for each column."""

    def setup(self, x: Form) -> Form:
        numbers("dotmul", x)
        if x.shape != (self.size,):
            raise ValueError(f"a dotmul projection keeps the size: the bottom is {x}, the layer's size {self.size}.")
        self.weight = self.parameter("weight", (self.size,), init="constant", value=1.0)
        return self.out(x)

    def forward(self, x: Argument) -> Array:
        return x.value * self.weight.value

    def backward(self, g: Array, x: Argument) -> None:
        self.weight.accumulate(ops.sum(g * x.value, axis=(0,)))
        if x.wants:
            x.accumulate(g * self.weight.value)


class Table(Projection):
    """The row of a table that each id names: an embedding."""

    def setup(self, x: Form) -> Form:
        if not x.ids:
            raise ValueError(f"a table projection looks up ids, but its bottom is {x}.")
        self.weight = self.parameter("weight", (x.ids, self.size), fan_in=self.size)
        return self.out(x)

    def forward(self, x: Argument) -> Array:
        return ops.take(self.weight.value, x.ids, axis=0)

    def backward(self, g: Array, x: Argument) -> None:
        self.weight.accumulate(ops.untake(g, x.ids, axis=0, size=self.weight.value.shape[0]))


class Context(Projection):
    """Each step of a sequence with its neighbours side by side; zeros beyond the ends."""

    roles = ()

    def setup(self, x: Form, *, start: int = -1, length: int = 3) -> Form:
        numbers("context", x)
        positive(length=length)
        if not x.sequence or len(x.shape) != 1:
            raise ValueError(f"a context projection needs sequences of vectors, but its bottom is {x}.")
        if x.size * length != self.size:
            raise ValueError(
                f"{length} steps of {x.size} are {x.size * length} columns; the layer's size is {self.size}."
            )
        self.offsets = range(start, start + length)
        return self.out(x)

    def forward(self, x: Argument) -> Array:
        padded = with_zeros(x.value)
        self.places = [neighbours(x, offset) for offset in self.offsets]
        return ops.concat([ops.take(padded, place, axis=0) for place in self.places], axis=1)

    def backward(self, g: Array, x: Argument) -> None:
        rows, width = x.value.shape
        for i, place in reversed(list(enumerate(self.places))):
            part = ops.getitem(g, key=(slice(None), slice(i * width, (i + 1) * width)))
            x.accumulate(ops.untake(part, place, axis=0, size=rows + 1)[:rows])


def with_zeros(rows: Array) -> Array:
    """`rows`, and one row of zeros behind them: what is looked up where there is nothing."""
    return ops.pad(rows, width=((0, 1), *[(0, 0)] * (rows.ndim - 1)))


def neighbours(x: Argument, offset: int) -> Array:
    """For each step, where the step `offset` away is; one behind the last row where the sequence has none."""
    assert x.starts is not None
    steps = np.arange(x.value.shape[0])
    sequence = np.repeat(np.arange(x.examples), x.lengths)
    there = steps + offset
    inside = (there >= x.starts[sequence]) & (there < x.starts[sequence + 1])
    return device_of(x.value).from_host(np.where(inside, there, len(steps)))


PROJECTIONS: dict[str, type[Projection]] = {
    "full_matrix": FullMatrix,
    "trans_full_matrix": TransFullMatrix,
    "identity": Identity,
    "dotmul": DotMul,
    "table": Table,
    "context": Context,
}


@layer("mixed")
class Mixed(Layer):
    """The sum of one projection for each bottom, and a bias."""

    roles = ("bias",)
    bias: Parameter | None

    def setup(self, *forms: Form, size: int, projection: Any) -> Form:
        positive(size=size)
        given = projection if isinstance(projection, list | tuple) else [projection]
        self.terms = [self._projection(i, one, size) for i, one in enumerate(given)]
        found = [term.build([form]) for term, form in zip(self.terms, forms, strict=True)]
        for form in found:
            if form != found[0]:
                raise ValueError(f"a sum of {found[0]} and {form} is not possible.")
        for i, term in enumerate(self.terms):
            self.parameters |= {f"{i}.{role}": parameter for role, parameter in term.parameters.items()}
        self.settings.setdefault("bias", False)
        self.bias = self.optional("bias", (size,), init="constant")
        return found[0]

    def _projection(self, place: int, given: Mapping[str, Any], size: int) -> Projection:
        kind = PROJECTIONS[given["type"]]
        settings = {key: value for key, value in given.items() if key not in ("type", "bottom")}
        unknown = set(settings) - set(settings_of(kind)) | set(settings) & {"act"}
        if unknown:
            raise ValueError(f"projection {given['type']} has no setting {', '.join(sorted(unknown))}.")
        term = kind(f"{self.name}.{place}", [given["bottom"]], settings, self.store)
        term.size = size
        return term

    def forward(self, *bottoms: Argument) -> Array:
        total = self.terms[0].forward(bottoms[0])
        for term, bottom in zip(self.terms[1:], bottoms[1:], strict=True):
            total = total + term.forward(bottom)
        return total if self.bias is None else total + self.bias.value

    def backward(self, g: Array, *bottoms: Argument) -> None:
        if self.bias is not None:
            self.bias.accumulate(ops.sum(g, axis=(0,)))
        for term, bottom in reversed(list(zip(self.terms, bottoms, strict=True))):
            term.backward(g, bottom)

    def replica(self, shadows: Mapping[str, Parameter]) -> Layer:
        twin = super().replica(shadows)
        assert isinstance(twin, Mixed)
        terms: Sequence[Any] = [term.replica(shadows) for term in self.terms]
        twin.terms = list(terms)
        return twin
