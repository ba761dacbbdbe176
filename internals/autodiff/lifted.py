"""Values that carry something along with a value: a tangent, an entry of a tape, a batch axis.

Each transformation (`jvp`, `vjp`, `vmap`) lifts the values it is about to one level, runs the function, and takes them
down again. Levels are numbered in the order of entry, and where values of several levels meet in one row, the highest
runs it, on values of the levels below. That is all that nesting needs: what belongs to an outer transformation is a
constant to the inner one, so perturbations are not confused (Siskind & Pearlmutter 2005; Radul's and JAX's
interpreters work the same way).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from internals.device import DeviceError
from internals.ops.operators import Operators
from internals.ops.table import TABLE, Op, style
from internals.tensor import Tensor
from internals.tensor.eager import plain_key

next_level = itertools.count(1).__next__


class Lifted(Operators):
    """A value of a transformation.

    Attributes
    ----------
    value : Tensor, or a Lifted of a lower level
    level : int
        Which transformation it belongs to.
    """

    __slots__ = ("level", "value")

    value: Any
    level: int

    def __init_subclass__(cls) -> None:
        style(cls, run_lifted, rank=20)

    @classmethod
    def run(cls, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], level: int) -> Any:
        """Run a row on inputs of which some are of this class and level; the others are constants."""
        raise NotImplementedError

    def beneath(self) -> tuple[Any, ...]:
        """The values of lower levels that this one holds."""
        return (self.value,)

    def entries(self) -> tuple[Any, ...]:
        """The entries of this level's tape that made it."""
        return ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> np.dtype:
        return self.value.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def device(self) -> Any:
        return self.value.device

    @property
    def requires_grad(self) -> bool:
        return bool(self.value.requires_grad)

    def detach(self) -> Any:
        """The value alone: a constant to every derivative."""
        return self.value.detach()

    def clone(self) -> Self:
        return TABLE["clone"](self)

    def to(self, target: Any) -> Any:
        """On another device, or in another dtype; as `Tensor.to`."""
        name, there = str(target), self.device.name
        if name.partition(":")[0] in ("cpu", "cuda", "sim"):
            return self if name == there else TABLE["transfer"](self, device=name, source=there)
        return self if self.dtype == np.dtype(target) else TABLE["cast"](self, dtype=np.dtype(target))

    def item(self) -> Any:
        return self.value.item()

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len: a 0-d tensor has no length.")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        at = [i for i, part in enumerate(parts) if isinstance(part, Lifted)]
        if not at:
            for part in parts:
                if isinstance(part, Tensor) and part.device is not self.device:
                    raise DeviceError(f"x[key]: x is on {self.device}, the index on {part.device}. Move one of them.")
            plain = tuple(part.data if isinstance(part, Tensor) else part for part in parts)
            return TABLE["getitem"](self, key=plain_key(plain if isinstance(key, tuple) else plain[0], self))  # type: ignore[arg-type]  # asked for its device
        if len(at) > 1 or any(part != slice(None) for part in parts[: at[0]]) or parts[at[0]].dtype.kind == "b":
            raise TypeError(
                "x[key]: an index that differs from example to example must be of integers, and stand behind full "
                "slices only. Use ops.take or ops.gather; for a mask, which would pick another number of entries from "
                "each, ops.where."
            )
        taken = TABLE["take"](self, parts[at[0]], axis=at[0])
        rest = parts[at[0] + 1 :]
        return taken[(slice(None),) * (at[0] + len(parts[at[0]].shape)) + rest] if rest else taken

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{type(self).__name__}: there is no {name!r} here. This is a value inside vjp, jvp or vmap: "
            "operations run on it, but numpy(), backward() and hooks are for Tensors."
        )

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            f"{type(self).__name__}: a value inside vjp, jvp or vmap can't become a NumPy array, which no "
            "derivative could follow. Use the functions of internals.ops on it; for an index, ops.take."
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            f"x[key] = value: x is a {type(self).__name__} inside a transformation and can't be written to. Use "
            "x = ops.index_put(x, value, key=key)."
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r}, level={self.level})"


def run_lifted(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Hand a row to the transformation that was entered last, of those whose values are among the inputs."""
    top = max((value for value in inputs if isinstance(value, Lifted)), key=lambda value: value.level)
    return top.run(op, inputs, attrs, top.level)


def apply(op: Op, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """Call a row with all its inputs and attributes."""
    return op(list(inputs), **attrs) if op.variadic else op(*inputs, **attrs)


def is_tensor(value: Any) -> bool:
    """Whether a function may be given this as a tensor: a Tensor, or one that a transformation lifted."""
    return isinstance(value, Tensor | Lifted)
