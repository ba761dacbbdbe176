"""Operations that take entries one by one, along one axis, or only move them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .kernels import F4, I1, I8, Kernel, Rescale

INTP = np.dtype(np.intp)


class Chunked(Kernel):
    """int8 arithmetic on a few rows at a time: of the last axis, unless `width` says how many entries a row has."""

    def rows(self, each: int, width: int) -> None:
        self.width = max(1, width)
        self.step = self.chunks(self.out.size // self.width, each * self.width)

    def parts(self) -> Any:
        flat = self.result.reshape(-1, self.width)
        for start in range(0, len(flat), self.step):
            part = slice(start, min(start + self.step, len(flat)))
            yield part, flat[part], part.stop - start


class Binary(Chunked):
    """Two values of one shape, or one that is broadcast to the other; an activation.

    On int8, version 1 repeats one number or a last axis, version 2 also several last axes.
    """

    version = 2
    arity = (2, 2)
    parameters = (1, 1)
    in_place = True
    function: Callable[..., Any]

    def check(self) -> None:
        other = self.values[1]
        try:
            shape = np.broadcast(*(np.broadcast_to(0, value.shape) for value in self.values)).shape
        except ValueError:
            self.refuse("the shapes do not fit one another")
        self.expect(shape)
        if other.dtype != self.x.dtype or self.x.shape != shape:
            self.refuse("both have one dtype, and the first has the shape of the result")
        self.limits = self.bounds(self.parameters_given[0])
        if self.integer:
            if other.shape not in ((), (1,), shape[len(shape) - len(other.shape) :]):
                self.refuse("an int8 value is repeated as one number, or along all axes before its own")
            single = other.size == 1 or other.shape == shape
            self.rows(16, (shape[-1] if shape else 1) if single else other.size)
            self.whole = other.shape == shape
            self.columns = self.chunks(self.width, 16 * self.step)
            self.need(self.step, self.columns, dtype=I8)
            self.need(self.step if self.whole else 1, self.columns, dtype=I8)
            self.grids()

    def grids(self) -> None:
        raise NotImplementedError

    def combine(self, a: np.ndarray, b: np.ndarray) -> None:
        raise NotImplementedError

    def run(self) -> None:
        if not self.integer:
            type(self).function(self.arrays[0], self.arrays[1], out=self.result)
            self.clip(self.result)
            return
        first = self.arrays[0].reshape(-1, self.width)
        second = self.arrays[1].reshape(-1, self.width if self.arrays[1].size > 1 else 1)
        for part, out, count in self.parts():
            for start in range(0, self.width, self.columns):
                columns = slice(start, min(start + self.columns, self.width))
                a, b = (one[:count, : columns.stop - start] for one in self.working)
                np.copyto(a, first[part, columns])
                np.copyto(
                    b, second[part if self.whole else slice(None), columns if second.shape[1] > 1 else slice(None)]
                )
                self.combine(a, b)
                self.clip(a)
                np.copyto(out[:, columns], a, casting="unsafe")


class Add(Binary):
    """On int8, both are first brought to one finer grid (20 more bits), as in TensorFlow Lite."""

    function = np.add

    def grids(self) -> None:
        (a, self.a_zero), (b, self.b_zero), (out, zero) = self.x.one, self.values[1].one, self.out.one
        common = 2 * max(a, b)
        self.a_scale, self.b_scale = Rescale(a / common), Rescale(b / common)
        self.rescale = Rescale(common / (2.0**20 * out), zero)

    def combine(self, a: np.ndarray, b: np.ndarray) -> None:
        for one, zero, scale in ((a, self.a_zero, self.a_scale), (b, self.b_zero, self.b_scale)):
            np.subtract(one, zero, out=one)
            np.left_shift(one, 20, out=one)
            scale(one)
        np.add(a, b, out=a)
        self.rescale(a)


class Multiply(Binary):
    """On int8, the product of the steps from the zero points."""

    function = np.multiply

    def grids(self) -> None:
        (a, self.a_zero), (b, self.b_zero), (out, zero) = self.x.one, self.values[1].one, self.out.one
        self.rescale = Rescale(a * b / out, zero)

    def combine(self, a: np.ndarray, b: np.ndarray) -> None:
        np.subtract(a, self.a_zero, out=a)
        np.subtract(b, self.b_zero, out=b)
        np.multiply(a, b, out=a)
        self.rescale(a)


def _relu(x: np.ndarray) -> None:
    np.maximum(x, 0, out=x)


def _relu6(x: np.ndarray) -> None:
    np.maximum(x, 0, out=x)
    np.minimum(x, 6, out=x)


def _sigmoid(x: np.ndarray) -> None:
    np.multiply(x, 0.5, out=x)
    np.tanh(x, out=x)
    np.multiply(x, 0.5, out=x)
    np.add(x, 0.5, out=x)


def _tanh(x: np.ndarray) -> None:
    np.tanh(x, out=x)


UNARY = (_relu, _relu6, _sigmoid, _tanh)


class Unary(Chunked):
    """relu, relu6, sigmoid or tanh; on int8 by a table of 256 answers."""

    parameters = (1, 1)
    in_place = True

    def check(self) -> None:
        self.expect(self.x.shape)
        if not 0 <= self.parameters_given[0] < len(UNARY):
            self.refuse(f"function {self.parameters_given[0]} is not known")
        self.function = UNARY[self.parameters_given[0]]
        if self.integer:
            (scale, zero), (out_scale, out_zero) = self.x.one, self.out.one
            real = (np.arange(-128, 128) - zero) * scale
            self.function(real)
            self.table = np.clip(np.rint(real / out_scale) + out_zero, -128, 127).astype(I1)
            self.rows(8, self.x.shape[-1] if self.x.shape else 1)
            self.need(self.step, self.width, dtype=INTP)

    def run(self) -> None:
        if not self.integer:
            if self.result is not self.arrays[0]:
                np.copyto(self.result, self.arrays[0])
            self.function(self.result)
            return
        flat = self.arrays[0].reshape(-1, self.width)
        for part, out, count in self.parts():
            index = self.working[0][:count]
            np.copyto(index, flat[part])
            np.add(index, 128, out=index)
            np.take(self.table, index, out=out, mode="clip")


class Softmax(Chunked):
    """Along the last axis; on int8 by a table of 256 exponentials."""

    in_place = True

    def check(self) -> None:
        self.expect(self.x.shape)
        if not self.x.shape or not self.x.shape[-1]:
            self.refuse("there is no last axis, or nothing along it")
        self.rows(16, self.x.shape[-1])
        self.need(self.step, 1, dtype=F4)
        if self.integer:
            scale, (self.out_scale, self.zero) = self.x.one[0], self.out.one
            self.table = np.exp(-scale * np.arange(256)).astype(F4)
            self.need(self.step, self.width, dtype=INTP)
            self.need(self.step, self.width, dtype=F4)
            self.need(self.step, 1, dtype=INTP)

    def run(self) -> None:
        flat = self.arrays[0].reshape(-1, self.width)
        for part, out, count in self.parts():
            total = self.working[0][:count]
            if not self.integer:
                np.max(flat[part], axis=-1, keepdims=True, out=total)
                np.subtract(flat[part], total, out=out)
                np.exp(out, out=out)
                np.sum(out, axis=-1, keepdims=True, out=total)
                np.divide(out, total, out=out)
                continue
            index, power, most = (one[:count] for one in self.working[1:])
            np.copyto(index, flat[part])
            np.max(index, axis=-1, keepdims=True, out=most)
            np.subtract(most, index, out=index)
            np.take(self.table, index, out=power, mode="clip")
            np.sum(power, axis=-1, keepdims=True, out=total)
            np.multiply(total, self.out_scale, out=total)
            np.divide(power, total, out=power)
            np.rint(power, out=power)
            np.add(power, self.zero, out=power)
            np.clip(power, -128, 127, out=power)
            np.copyto(out, power, casting="unsafe")


class Quantise(Chunked):
    """float32 to int8, ties to even, NaN to -128; or int8 to another scale."""

    def check(self) -> None:
        self.expect(self.x.shape, same=False)
        if not self.integer:
            self.refuse("the result must be int8")
        self.rows(8, self.x.shape[-1] if self.x.shape else 1)
        (self.scale, self.zero), self.float = self.out.one, self.x.dtype == F4
        self.need(self.step, self.width, dtype=F4 if self.float else I8)
        if not self.float:
            scale, self.x_zero = self.x.one
            self.rescale = Rescale(scale / self.scale, self.zero)

    def run(self) -> None:
        flat = self.arrays[0].reshape(-1, self.width)
        for part, out, count in self.parts():
            steps = self.working[0][:count]
            if self.float:
                np.divide(flat[part], self.scale, out=steps)
                np.rint(steps, out=steps)
                np.add(steps, self.zero, out=steps)
            else:
                np.copyto(steps, flat[part])
                np.subtract(steps, self.x_zero, out=steps)
                self.rescale(steps)
            np.fmax(steps, -128, out=steps)
            np.fmin(steps, 127, out=steps)
            np.copyto(out, steps, casting="unsafe")


class Dequantise(Kernel):
    """int8 to float32."""

    def check(self) -> None:
        self.expect(self.x.shape, same=False)
        if self.x.dtype != I1 or self.out.dtype != F4:
            self.refuse("int8 becomes float32")
        self.scale, self.zero = self.x.one

    def run(self) -> None:
        np.copyto(self.result, self.arrays[0])
        np.subtract(self.result, self.zero, out=self.result)
        np.multiply(self.result, self.scale, out=self.result)


class Mean(Chunked):
    """Over the axes between the first and the last: (batch, ..., channels) to (batch, channels)."""

    def check(self) -> None:
        shape = self.x.shape
        if len(shape) < 3 or 0 in shape:
            self.refuse("expected (batch, ..., channels), and nothing of size 0")
        self.expect((shape[0], shape[-1]))
        self.count = math.prod(shape[1:-1])
        if self.integer:
            (scale, zero), (out_scale, out_zero) = self.x.one, self.out.one
            self.offset, self.rescale = zero * self.count, Rescale(scale / (out_scale * self.count), out_zero)
            self.step = self.chunks(self.count, 8 * shape[-1])
            self.need(self.step, shape[-1], dtype=I8)
            self.need(2, shape[-1], dtype=I8)

    def run(self) -> None:
        x = self.arrays[0].reshape(self.x.shape[0], self.count, self.x.shape[-1])
        if not self.integer:
            np.mean(x, axis=1, out=self.result)
            return
        total, more = self.working[1]
        for image, out in zip(x, self.result):
            total.fill(-self.offset)
            for start in range(0, self.count, self.step):
                part = self.working[0][: min(self.step, self.count - start)]
                np.copyto(part, image[start : start + self.step])
                np.sum(part, axis=0, out=more)
                np.add(total, more, out=total)
            self.rescale(total)
            np.clip(total, -128, 127, out=total)
            np.copyto(out, total, casting="unsafe")


class Reshape(Kernel):
    """The same entries in the same order."""

    plain = in_place = True

    def check(self) -> None:
        if self.x.size != self.out.size or self.x.axis != -1:
            self.refuse("both must have the same number of entries, and one scale")
        self.expect(self.out.shape)

    def bind(self, arrays: Sequence[np.ndarray], out: np.ndarray, room: Sequence[np.ndarray]) -> None:
        super().bind(arrays, out, room)
        self.moved = out.ctypes.data != arrays[0].ctypes.data

    def run(self) -> None:
        if self.moved:
            np.copyto(self.result, self.arrays[0].reshape(self.out.shape))


class Transpose(Kernel):
    """Axes in another order."""

    plain = True
    parameters = (0, 6)

    def check(self) -> None:
        order = self.parameters_given
        if sorted(order) != list(range(len(self.x.shape))) or self.x.axis != -1:
            self.refuse(f"{order} is no order of the axes")
        self.expect([self.x.shape[i] for i in order])

    def run(self) -> None:
        np.copyto(self.result, self.arrays[0].transpose(self.parameters_given))


class Pad(Kernel):
    """Zeros around: before and after, for each axis."""

    plain = True
    parameters = (0, 12)

    def check(self) -> None:
        given, rank = self.parameters_given, len(self.x.shape)
        if len(given) != 2 * rank or min(given, default=0) < 0:
            self.refuse("expected two counts for each axis, none below 0")
        pairs = list(zip(given[::2], given[1::2], self.x.shape))
        self.expect([before + size + after for before, after, size in pairs])
        self.inner = tuple([slice(before, before + size) for before, _, size in pairs])
        self.zero = self.x.one[1] if self.integer else 0

    def run(self) -> None:
        self.result.fill(self.zero)
        np.copyto(self.result[self.inner], self.arrays[0])


class Concat(Kernel):
    """One behind the other along an axis; all of one scale."""

    plain = True
    arity = (1, 4096)
    parameters = (1, 1)

    def check(self) -> None:
        axis, rank = self.parameters_given[0], len(self.x.shape)
        if not 0 <= axis < rank or any(len(v.shape) != rank or v.grid != self.x.grid for v in self.values):
            self.refuse("expected one rank and one scale, and an axis of them")
        rest = {(v.shape[:axis], v.shape[axis + 1 :], v.dtype) for v in self.values}
        if len(rest) > 1:
            self.refuse("the sizes of the other axes differ")
        ends = np.cumsum([0, *(v.shape[axis] for v in self.values)]).tolist()
        self.expect([*self.x.shape[:axis], ends[-1], *self.x.shape[axis + 1 :]])
        self.places = [(*[slice(None)] * axis, slice(*pair)) for pair in zip(ends, ends[1:])]

    def run(self) -> None:
        for place, array in zip(self.places, self.arrays):
            np.copyto(self.result[place], array)


class Gather(Kernel):
    """Rows of a table, by number: an embedding."""

    plain = True
    arity = (2, 2)

    def check(self) -> None:
        index = self.values[1]
        if not self.x.shape or index.dtype.kind != "i" or index.dtype.itemsize < 4 or self.x.axis != -1:
            self.refuse("expected a table with rows, and int32 or int64 numbers of rows")
        self.expect((*index.shape, *self.x.shape[1:]))
        self.need(*index.shape, dtype=INTP)

    def run(self) -> None:
        index = self.working[0]
        np.copyto(index, self.arrays[1])
        if index.size and (int(index.min()) < 0 or int(index.max()) >= len(self.arrays[0])):
            self.refuse(f"a row number is not one of 0 to {len(self.arrays[0]) - 1}")
        np.take(self.arrays[0], index, axis=0, out=self.result, mode="clip")
