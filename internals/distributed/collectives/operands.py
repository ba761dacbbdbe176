"""What a collective is given: arrays, operations, ranks; checked, and laid out in one run of memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from internals.device import device_of, move
from internals.tensor import Tensor

SEGMENT = 8 << 20
"""Bytes of one message, at most. The next is on its way while one is added; but each wakes a process, which takes long
where ranks are more than cores."""

UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add,
    "mean": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "prod": np.multiply,
}
"""How two ranks' entries become one. A mean is a sum, divided once where it is complete."""


@dataclass(frozen=True)
class Operation:
    """How a reduction goes: `combine` two ranks' entries, and `finish` what has been combined over all.

    A half-precision entry is combined in float32 and rounded after every rank (so does gloo). Integers wrap around.
    A NaN on any rank is NaN in the result, of max and min too.
    """

    name: str
    size: int
    ufunc: np.ufunc

    def combine(self, mine: np.ndarray, theirs: np.ndarray) -> None:
        self.ufunc(mine, theirs, out=mine)

    def combine_behind(self, mine: np.ndarray, theirs: np.ndarray) -> None:
        """`combine` with theirs before mine: which NaN a sum of two has depends on the order."""
        self.ufunc(theirs, mine, out=mine)

    def finish(self, mine: np.ndarray) -> None:
        if self.name == "mean" and self.size > 1:
            np.divide(mine, mine.dtype.type(self.size), out=mine)


def operation(caller: str, op: Any, dtype: np.dtype, size: int) -> Operation:
    """The operation of a name, if entries of this dtype have it.

    Raises
    ------
    ValueError
        No such operation.
    TypeError
        Entries of this dtype don't have it.
    """
    if op not in UFUNCS:
        raise ValueError(f"{caller}: there is no operation {op!r}; one of {', '.join(UFUNCS)}")
    if op == "mean" and dtype.kind in "biu":
        raise TypeError(f"{caller}: a mean of {dtype} is no {dtype}; take the sum, or cast to float32 first")
    if dtype.kind == "b" and op in ("sum", "prod"):
        raise TypeError(f"{caller}: bool has no {op}; max is any, min is all, and a count is a sum of int64")
    if dtype.kind == "c" and op in ("max", "min"):
        raise TypeError(f"{caller}: complex numbers have no order, so there is no {op} of {dtype}")
    return Operation(op, size, UFUNCS[op])


class Operand:
    """An array or Tensor that a collective reads, and may write to, as one run of host memory.

    Attributes
    ----------
    flat : array, shape (n,)
        The entries: of the array itself where it is in one run of memory on the host, else of a copy.
    """

    def __init__(self, caller: str, value: Any, *, written: bool = False) -> None:
        array = value.data if isinstance(value, Tensor) else value
        if not isinstance(value, np.ndarray | Tensor):
            raise TypeError(
                f"{caller}: expected an array or a Tensor, got {type(value).__name__}. "
                "Make one: numpy.asarray(...), which is then the array that is written to."
            )
        if written and isinstance(value, Tensor) and not value.is_leaf:
            raise ValueError(
                f"{caller}: writes into the Tensor it is given, and this one was computed under the tape; pass "
                "x.detach()"
            )
        self.value, self.dtype, self.shape = value, array.dtype, array.shape
        if self.dtype.kind not in "biufc" and self.dtype.name != "bfloat16":
            raise TypeError(f"{caller}: an array of dtype {self.dtype}; expected numbers or booleans")
        if written and isinstance(array, np.ndarray) and not array.flags.writeable:
            raise ValueError(f"{caller}: writes into the array it is given, and this one is read-only; copy() it")
        host = array if isinstance(array, np.ndarray) else np.asarray(device_of(array).to_host(array))
        if not host.dtype.isnative:
            host = host.astype(host.dtype.newbyteorder("="))
        self.flat = np.ascontiguousarray(host).reshape(-1)
        self._direct = host is array and host.flags.c_contiguous

    @property
    def spec(self) -> str:
        """``"float32 (3, 4)"``, as two ranks must agree on it."""
        return f"{self.dtype.name} {self.shape}"

    def give_back(self) -> Any:
        """Let the array that was given hold what `flat` holds; returns it."""
        target = self.value.data if isinstance(self.value, Tensor) else self.value
        if not self._direct:
            target[...] = move(self.flat.reshape(self.shape).astype(target.dtype, copy=False), device_of(target))
        if isinstance(self.value, Tensor):
            self.value.storage.version += 1
        return self.value

    def fresh(self, flat: np.ndarray, shape: tuple[int, ...]) -> Any:
        """A result of this kind: an array for an array, a Tensor on its device for a Tensor."""
        array = flat.reshape(shape)
        return Tensor(array, device=self.value.device) if isinstance(self.value, Tensor) else array


def bounds(length: int, parts: int) -> list[tuple[int, int]]:
    """Where `length` entries are cut into `parts`, as even as can be: the first ``length % parts`` have one more."""
    each, more = divmod(length, parts)
    cuts = [part * each + min(part, more) for part in range(parts + 1)]
    return list(itertools.pairwise(cuts))


def pieces(flat: np.ndarray, parts: int) -> list[np.ndarray]:
    """The views that `bounds` cuts a flat array into."""
    return [flat[begin:end] for begin, end in bounds(flat.size, parts)]


def segments(flat: np.ndarray) -> Iterator[np.ndarray]:
    """A flat array in views of at most `SEGMENT` bytes; one, empty, of an empty array."""
    each = max(1, SEGMENT // flat.itemsize)
    for begin in range(0, max(flat.size, 1), each):
        yield flat[begin : begin + each]


def checked_rank(caller: str, what: str, rank: Any, size: int) -> int:
    """A rank of the group.

    Raises
    ------
    TypeError, ValueError
    """
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer):
        raise TypeError(f"{caller}: {what} is a rank, a whole number, not {type(rank).__name__}")
    if not 0 <= rank < size:
        raise ValueError(f"{caller}: {what} is rank {rank}; a group of {size} has ranks 0 to {size - 1}")
    return int(rank)


Take = Callable[[np.ndarray, np.ndarray], None]
"""What is done with a segment that came: ``take(mine, theirs)``."""


def copy(mine: np.ndarray, theirs: np.ndarray) -> None:
    """Take what came as it is."""
    mine[...] = theirs
