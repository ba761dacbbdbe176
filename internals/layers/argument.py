"""What a net of layers holds: parameters between layers, arguments that flow through them, and forms known beforehand.

There is no tape here. A layer adds to ``gradient`` in the places it knows, and the net says when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from internals import ops
from internals.device import Array, device_of


@dataclass(frozen=True)
class Form:
    """What is known of an argument before any data is there.

    Parameters
    ----------
    shape : tuple of int
        Of one example, or of one step of a sequence; without the batch axis.
    ids : int
        How many ids there are, 0 and up, where an entry is an id; 0 where entries are numbers.
    sequence : bool
        An example is a sequence of such entries.
    """

    shape: tuple[int, ...] = ()
    ids: int = 0
    sequence: bool = False

    @property
    def size(self) -> int:
        """How many numbers one example, or one step, has."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __str__(self) -> str:
        sizes = " x ".join(map(str, self.shape)) or "one number"
        what = f"ids below {self.ids}" if self.ids else sizes
        return f"sequences of {what}" if self.sequence else what


class Parameter:
    """What a layer learns: a value, its gradient, and its momentum.

    Parameters
    ----------
    name : str
    value : array
    lr_mult, decay_mult : float
        What the learning rate and the weight decay are multiplied by for this parameter.
    static : bool
        It does not learn: no gradient is kept, and the optimizer passes it over.
    """

    def __init__(
        self, name: str, value: Array, *, lr_mult: float = 1.0, decay_mult: float = 1.0, static: bool = False
    ) -> None:
        self.name, self._value = name, value
        self.lr_mult, self.decay_mult, self.static = lr_mult, decay_mult, static
        self.gradient: Array | None = None
        self.momentum: Array | None = None

    @property
    def value(self) -> Array:
        return self._value

    @value.setter
    def value(self, new: Array) -> None:
        """Written in place: all who share the parameter see it."""
        new = device_of(self._value).from_host(new) if isinstance(new, np.ndarray) else new
        if tuple(new.shape) != tuple(self._value.shape):
            raise ValueError(
                f"Parameter {self.name!r}: a value of shape {tuple(new.shape)} was given; it has shape "
                f"{tuple(self._value.shape)}."
            )
        self._value[...] = new.astype(self._value.dtype, copy=False)

    def accumulate(self, piece: Array) -> None:
        """Add to the gradient; a parameter that several layers share gets a piece from each."""
        if self.static:
            return
        if tuple(piece.shape) != tuple(self._value.shape) or piece.dtype != self._value.dtype:
            raise ValueError(
                f"Parameter {self.name!r}: a gradient of {ops.Spec(piece.shape, piece.dtype)} came for a value of "
                f"{ops.Spec(self._value.shape, self._value.dtype)}; they must agree."
            )
        self.gradient = piece if self.gradient is None else self.gradient + piece

    def shadow(self) -> Parameter:
        """The same value, with a gradient of its own: what a thread works with."""
        return Parameter(self.name, self._value, lr_mult=self.lr_mult, decay_mult=self.decay_mult, static=self.static)

    def __repr__(self) -> str:
        return f"<parameter {self.name!r}: {ops.Spec(self._value.shape, self._value.dtype)}>"


class Argument:
    """What goes into a layer or comes out of it, for all examples of a batch.

    Parameters
    ----------
    value : array, (examples, ...), or (steps of all sequences, ...), optional
    ids : integer array, (examples,) or (steps of all sequences,), optional
        Instead of a value: words, classes.
    starts : integers, (sequences + 1,), optional
        Where in the first axis each sequence starts, and at last where the last one ends. Sequences lie one after
        another, without padding: PaddlePaddle's ``sequenceStartPositions``.

    Attributes
    ----------
    gradient : array or None
        What the layers above have added up.
    wants : bool
        Whether a gradient is of any use: a parameter lies below. Set it on an Argument that is fed, to have the
        gradient by a net's input in ``net.arguments``.
    """

    def __init__(
        self, value: Array | None = None, *, ids: Array | None = None, starts: Sequence[int] | Array | None = None
    ) -> None:
        if (value is None) == (ids is None):
            raise ValueError("Argument: give either a value or ids.")
        entries: Any = value if ids is None else ids
        if not hasattr(entries, "dtype") or not hasattr(entries, "shape"):
            entries = np.asarray(entries)
        if ids is not None and entries.dtype.kind not in "iu":
            raise TypeError(f"Argument: ids must be integers, got {entries.dtype}.")
        if not entries.ndim:
            raise ValueError("Argument: the first axis is the batch; a 0-d array has none.")
        self.value: Any = entries if ids is None else None
        self.ids: Any = None if ids is None else entries
        self.starts: Any = None if starts is None else _checked(starts, len(entries))
        self.gradient: Array | None = None
        self.wants = False

    @property
    def entries(self) -> Array:
        return self.value if self.ids is None else self.ids

    @property
    def examples(self) -> int:
        """How many examples: sequences, where there are sequences."""
        return int(self.entries.shape[0] if self.starts is None else len(self.starts) - 1)

    @property
    def lengths(self) -> np.ndarray:
        """How long each sequence is; 1 where there are none."""
        return np.ones(self.examples, np.int64) if self.starts is None else np.diff(self.starts)

    def part(self, first: int, last: int) -> Argument:
        """The examples from `first` on, up to `last`: views of the same memory."""
        if self.starts is None:
            begin, end, starts = first, last, None
        else:
            begin, end = int(self.starts[first]), int(self.starts[last])
            starts = self.starts[first : last + 1] - begin
        entries = self.entries[begin:end]
        share = Argument(entries, starts=starts) if self.ids is None else Argument(ids=entries, starts=starts)
        share.wants = self.wants
        return share

    def accumulate(self, piece: Any) -> None:
        """Add to the gradient; a layer whose result several layers read gets a piece from each."""
        if not self.wants or piece is None:
            return
        if tuple(piece.shape) != tuple(self.entries.shape) or piece.dtype != self.entries.dtype:
            raise ValueError(
                f"Argument: a gradient of {ops.Spec(piece.shape, piece.dtype)} came for a value of "
                f"{ops.Spec(self.entries.shape, self.entries.dtype)}; they must agree."
            )
        self.gradient = piece if self.gradient is None else self.gradient + piece

    def __repr__(self) -> str:
        kind = "value" if self.ids is None else "ids"
        many = "" if self.starts is None else f", {self.examples} sequences"
        return f"<argument: {kind} {ops.Spec(self.entries.shape, self.entries.dtype)}{many}>"


def _checked(starts: Any, count: int) -> np.ndarray:
    found = np.asarray(starts)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not found.size:
        raise ValueError(
            f"Argument: starts must be a row of integers, one more than there are sequences, got {starts!r}."
        )
    found = found.astype(np.int64)
    if found[0] != 0 or found[-1] != count or (np.diff(found) < 1).any():
        raise ValueError(
            f"Argument: starts must go up from 0 to {count}, the number of steps, with one step or more for each "
            f"sequence; got {found.tolist()}."
        )
    return found
