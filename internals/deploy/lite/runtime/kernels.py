"""Operations that write into memory they are given: what a step needs is counted first, and nothing is allocated later.

A kernel is made once for known shapes, when it checks them and says how much working room it wants. `bind` then gives
it its arrays, and `run` can be called for ever. int8 products are exact: float32 holds sums of up to 1,024 of them,
longer ones are added up in int64. Results are brought to their scale by a fixed-point multiplier of 31 bits (Jacob et
al. 2018, section 2.2), rounding halves up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .layout import LiteError, Tensor

F4, I1, I8, F8 = np.dtype("f4"), np.dtype("i1"), np.dtype("i8"), np.dtype("f8")
EXACT = 1024
"""Products of two int8 whose sum float32 holds exactly: 1024 * 128 * 128 = 2**24."""
RELU, RELU6 = 1, 2


class Kernel:
    """One operator at known shapes.

    Attributes
    ----------
    room : list of (shape, dtype)
        The working arrays it wants.
    in_place : bool
        Whether the result may lie where its first input does, if that is not needed again.
    """

    version = 1
    arity = (1, 1)
    parameters: tuple[int, int] = (0, 0)
    in_place = False
    limits: tuple[float, float] = (-math.inf, math.inf)
    plain = False
    """Whether it only moves numbers, of any dtype and any one scale."""

    def __init__(self, values: Sequence[Value], out: Value, parameters: tuple[int, ...], budget: int) -> None:
        self.values, self.out, self.parameters_given, self.budget = values, out, parameters, budget
        self.room: list[tuple[tuple[int, ...], np.dtype]] = []
        self.x = values[0]
        self.integer = out.dtype == I1
        self.check()

    def check(self) -> None:
        """Refuse shapes and dtypes that make no sense; say what room is wanted."""

    def bind(self, arrays: Sequence[np.ndarray], out: np.ndarray, room: Sequence[np.ndarray]) -> None:
        """Where inputs, result and working arrays lie from now on."""
        self.arrays, self.result, self.working = arrays, out, room

    def run(self) -> None:
        raise NotImplementedError

    def need(self, *shape: int, dtype: np.dtype) -> None:
        self.room.append((shape, dtype))

    def expect(self, shape: Sequence[int], *, same: bool = True) -> None:
        """The result must have this shape, and the first input's dtype."""
        wrong_kind = same and (self.out.dtype != self.x.dtype or (self.plain and self.out.grid != self.x.grid))
        if tuple(shape) != self.out.shape or wrong_kind:
            raise LiteError(f"{self.told()}: expected a result of shape {tuple(shape)}, and the first input's grid.")
        if not self.plain and any(
            v.dtype not in (F4, I1) or (v.dtype == I1 and v.scale is None) for v in (self.x, self.out)
        ):
            raise LiteError(f"{self.told()}: values must be float32, or int8 with a scale.")

    def refuse(self, why: str) -> None:
        raise LiteError(f"{self.told()}: {why}.")

    def told(self) -> str:
        shapes = ", ".join(f"{value.dtype}{list(value.shape)}" for value in self.values)
        return f"lite: {type(self).__name__} of {shapes} to {self.out.name!r} {self.out.dtype}{list(self.out.shape)}"

    def bounds(self, activation: int) -> tuple[float, float]:
        """Between which numbers an activation leaves the result, on the result's grid."""
        if activation not in (0, RELU, RELU6):
            self.refuse(f"activation {activation} is not known")
        real = {0: (-math.inf, math.inf), RELU: (0.0, math.inf), RELU6: (0.0, 6.0)}[activation]
        if not self.integer:
            return real
        low, high = (one / float(self.out.scale[0]) + int(self.out.zero[0]) for one in real)
        return max(-128, low), min(127, high if math.isinf(high) else round(high))

    def clip(self, x: np.ndarray) -> None:
        low, high = self.limits
        if low > -math.inf:
            np.maximum(x, x.dtype.type(low), out=x)
        if high < math.inf:
            np.minimum(x, x.dtype.type(high), out=x)

    def chunks(self, count: int, each: int) -> int:
        """How many of `count` parts of `each` bytes fit the budget: at least one."""
        return max(1, min(count, self.budget // max(1, each)))


class Value:
    """A tensor at a batch, as a kernel sees it."""

    def __init__(self, tensor: Tensor, batch: int) -> None:
        self.name, self.dtype, self.shape = tensor.name, tensor.dtype, tensor.at(batch)
        self.data: Any = tensor.data
        self.scale: Any = tensor.scale
        self.zero: Any = tensor.zero_point
        self.axis = tensor.axis
        self.size = math.prod(self.shape)

    @property
    def grid(self) -> Any:
        """What tells one quantisation from another."""
        return None if self.scale is None else (self.axis, self.scale.tobytes(), self.zero.tobytes())

    @property
    def one(self) -> tuple[float, int]:
        """Scale and zero point of a value that has one of each."""
        if self.scale is None or self.scale.size != 1:
            raise LiteError(f"lite: {self.name!r} needs one scale and one zero point.")
        return float(self.scale[0]), int(self.zero[0])


class Rescale:
    """``round(steps * ratio) + zero`` in integers: a multiplier of 31 bits, and a shift that rounds."""

    def __init__(self, ratio: Any, zero: int = 0) -> None:
        fraction, exponent = np.frexp(np.atleast_1d(np.asarray(ratio, F8)))
        self.multiplier = np.rint(fraction * 2.0**31).astype(I8)
        self.shift = 31 - exponent.astype(I8)
        if (self.shift < 1).any():
            raise LiteError(f"lite: a result's scale is {float(np.max(ratio)):.3g} times too fine for its inputs.")
        self.multiplier[self.shift > 62] = 0
        self.shift = np.minimum(self.shift, 62)
        self.zero = I8.type(zero)
        self.half = np.left_shift(I8.type(1), self.shift - 1)

    def __call__(self, steps: np.ndarray, part: slice = slice(None)) -> None:
        """In place, on int64."""
        np.multiply(steps, self.multiplier[part], out=steps)
        np.add(steps, self.half[part], out=steps)
        np.right_shift(steps, self.shift[part], out=steps)
        np.add(steps, self.zero, out=steps)


class Product(Kernel):
    """Rows times a weight of (out, in), plus a bias: what fully connected layers and convolutions come to."""

    arity = (3, 3)

    def prepare(self, rows: int, width: int, columns: int, least: int) -> None:
        """Look at the weight; room for `least` rows at least, which are cast here if that is 0."""
        weight, bias = self.values[1], self.values[2]
        if self.x.dtype != self.out.dtype or weight.dtype != self.x.dtype or weight.data is None or bias.data is None:
            self.refuse("weight and bias must be constants, and the weight of the input's dtype")
        if bias.shape != (columns,) or bias.dtype != (np.dtype("i4") if self.integer else F4) or not width:
            self.refuse(f"the bias must be {columns} numbers, int32 beside int8")
        self.weight = weight.data.reshape(columns, width)
        self.limits = self.bounds(self.parameters_given[0])
        if not self.integer:
            self.bias, self.rows = bias.data, self.chunks(rows, 4 * width)
            return
        if weight.scale is None or weight.zero.any() or (weight.scale.size > 1 and weight.axis != 0):
            self.refuse("an int8 weight has zero points of 0, and one scale or one per row")
        (scale, zero), (out_scale, out_zero) = self.x.one, self.out.one
        sums = np.array([row.sum(dtype=I8) for row in self.weight], I8)
        self.bias = bias.data.astype(I8) - zero * sums
        self.rescale = Rescale(np.broadcast_to(scale * weight.scale.astype(F8) / out_scale, (columns,)), out_zero)
        self.piece = min(width, EXACT)
        self.each = 12 if self.piece == width else 20
        self.columns = self.chunks(columns, 2 * (4 * self.piece + self.each * max(1, least)))
        self.rows = self.chunks(rows, 2 * (4 * self.piece + self.each * self.columns))
        self.need(self.columns, self.piece, dtype=F4)
        if not least:
            self.products(self.rows)
            self.need(self.rows, self.piece, dtype=F4)

    def products(self, rows: int) -> None:
        """Room for the sums of so many rows."""
        for dtype in (F4, I8, I8)[: 2 if self.each == 12 else 3]:
            self.need(rows, self.columns, dtype=dtype)

    def bind(self, arrays: Sequence[np.ndarray], out: np.ndarray, room: Sequence[np.ndarray]) -> None:
        super().bind(arrays, out, room)
        self.loaded: tuple[int, int] | None = None

    def multiply(self, rows: np.ndarray, out: np.ndarray) -> None:
        """`rows` of (n, in) into `out` of (n, out)."""
        if not self.integer:
            np.matmul(rows, self.weight.T, out=out)
            np.add(out, self.bias, out=out)
            self.clip(out)
            return
        n = len(rows)
        for start in range(0, len(self.weight), self.columns):
            part = slice(start, min(start + self.columns, len(self.weight)))
            count = part.stop - start
            sums = self.working[1 : 3 if self.each == 12 else 4]
            product, steps, *more = (one.reshape(-1)[: n * count].reshape(n, count) for one in sums)
            for at in range(0, self.weight.shape[1], self.piece):
                depth = min(self.piece, self.weight.shape[1] - at)
                weight = self.working[0].reshape(-1)[: count * depth].reshape(count, depth)
                if self.loaded != (start, at):
                    np.copyto(weight, self.weight[part, at : at + depth])
                    self.loaded = start, at
                left = rows[:, at : at + depth]
                if rows.dtype != F4:
                    cast = self.working[-1].reshape(-1)[: n * depth].reshape(n, depth)
                    np.copyto(cast, left)
                    left = cast
                np.matmul(left, weight.T, out=product)
                np.copyto(more[0] if at else steps, product, casting="unsafe")
                if at:
                    np.add(steps, more[0], out=steps)
            np.add(steps, self.bias[part], out=steps)
            self.rescale(steps, part)
            self.clip(steps)
            np.copyto(out[:, part], steps, casting="unsafe")


class FullyConnected(Product):
    """(..., in) to (..., out). Version 1 has one scale for a weight; version 2 also one per row of it."""

    version = 2
    parameters = (1, 1)

    def check(self) -> None:
        weight = self.values[1]
        if len(weight.shape) != 2 or not self.x.shape or self.x.shape[-1] != weight.shape[1]:
            self.refuse("expected (..., in) and a weight of (out, in)")
        self.expect((*self.x.shape[:-1], weight.shape[0]), same=False)
        out, width = weight.shape
        self.prepare(math.prod(self.x.shape[:-1]), width, out, least=0)

    def run(self) -> None:
        self.loaded = None
        rows = self.arrays[0].reshape(-1, self.weight.shape[1])
        out = self.result.reshape(-1, len(self.weight))
        step = self.rows if self.integer else max(1, len(rows))
        for start in range(0, len(rows), step):
            self.multiply(rows[start : start + step], out[start : start + step])
