"""Operations over steps: a part of an axis, and a long short-term memory, whose states are kept in working room."""

from __future__ import annotations

import numpy as np

from .kernels import F4, Kernel


class Part(Kernel):
    """Entries one behind the other along an axis: the last step of a sequence, one gate of several."""

    plain = True
    parameters = (2, 2)

    def check(self) -> None:
        (axis, start), shape = self.parameters_given, self.x.shape
        if not 0 <= axis < len(shape) == len(self.out.shape) or self.x.axis != -1:
            self.refuse("expected an axis of the input, and one scale")
        count = self.out.shape[axis]
        if start < 0 or start + count > shape[axis]:
            self.refuse(f"entries {start} to {start + count} of {shape[axis]}")
        self.expect((*shape[:axis], count, *shape[axis + 1 :]))
        self.place = (*[slice(None)] * axis, slice(start, start + count))

    def run(self) -> None:
        np.copyto(self.result, self.arrays[0][self.place])


class Lstm(Kernel):
    """(steps, batch, 4 units), what the inputs add to the gates i, f, g and o, to (steps, batch, units); float32.

    The weight is (4 units, units); the states begin as zeros (Hochreiter and Schmidhuber 1997; Gers et al. 2000).
    """

    arity = (2, 2)

    def check(self) -> None:
        weight = self.values[1]
        if len(self.x.shape) != 3 or len(weight.shape) != 2 or weight.shape != (4 * weight.shape[1], weight.shape[1]):
            self.refuse("expected (steps, batch, 4 units), and a weight of (4 units, units)")
        if weight.data is None or any(one.dtype != F4 for one in (self.x, weight, self.out)):
            self.refuse("all are float32, and the weight is a constant")
        steps, batch, gates = self.x.shape
        n = weight.shape[1]
        self.expect((steps, batch, n))
        if gates != 4 * n:
            self.refuse(f"{gates} is not four times {n}")
        # The logistic function is half a tanh of half, and a half: one pass does all four gates.
        self.half = np.repeat(np.array([0.5, 0.5, 1, 0.5], F4), n)
        self.rest = 1 - self.half
        self.need(batch, gates, dtype=F4)
        self.need(batch, n, dtype=F4)
        self.need(batch, n, dtype=F4)

    def run(self) -> None:
        gates, cell, new = self.working
        x, weight, n = self.arrays[0], self.arrays[1].T, self.out.shape[2]
        cell.fill(0)
        gates.fill(0)
        for t in range(len(x)):
            if t:
                np.matmul(self.result[t - 1], weight, out=gates)
            np.add(gates, x[t], out=gates)
            np.multiply(gates, self.half, out=gates)
            np.tanh(gates, out=gates)
            np.multiply(gates, self.half, out=gates)
            np.add(gates, self.rest, out=gates)
            np.multiply(gates[:, :n], gates[:, 2 * n : 3 * n], out=new)
            np.multiply(cell, gates[:, n : 2 * n], out=cell)
            np.add(cell, new, out=cell)
            np.tanh(cell, out=new)
            np.multiply(new, gates[:, 3 * n :], out=self.result[t])
