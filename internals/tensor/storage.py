"""Storage: the memory that a tensor's entries lie in, which several tensors may look at.

A tensor is a way to read memory: where the first entry is (its offset), how far it is to the next along each axis
(its strides), how many there are (its shape), and what each means (its dtype). The memory is a thing of its own, with
its own life, and its own count of how often it was written to.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from internals.device import Array, Device, SimArray, device_of
from internals.device import shares_memory as arrays_share_memory

if TYPE_CHECKING:
    from internals.tensor.tensor import Tensor
    from internals.tensor.views import View


class Storage:
    """What all Tensors on one piece of memory share.

    Attributes
    ----------
    version : int
        How often this memory was written to in place.
    """

    __slots__ = ("__weakref__", "_prune_at", "_tensors", "version")

    def __init__(self) -> None:
        self.version = 0
        self._tensors: list[weakref.ref[Tensor]] = []
        self._prune_at = 8

    def share(self, tensor: Tensor, view: Tensor) -> None:
        """Note that `view` is on the memory of `tensor`, whose storage this is."""
        self.note(tensor)
        if len(self._tensors) >= self._prune_at:
            self._tensors = [ref for ref in self._tensors if ref() is not None]
            self._prune_at = 2 * len(self._tensors) + 8
        self._tensors.append(weakref.ref(view))
        view._storage = self

    def note(self, tensor: Tensor) -> None:
        """Remember the first tensor on this memory; the others come by `share`."""
        if not self._tensors:
            self._tensors.append(weakref.ref(tensor))

    def is_shared(self, tensor: Tensor) -> bool:
        """Whether another tensor than this one is alive on this memory."""
        return any(ref() is not None and ref() is not tensor for ref in self._tensors)

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors alive on this memory, the oldest first."""
        return [tensor for ref in self._tensors if (tensor := ref()) is not None]

    @property
    def nbytes(self) -> int:
        """Bytes of memory in all, however few of them a view shows; 0 when no tensor is left."""
        alive = self.tensors
        return place(alive[0].data)[1] if alive else 0

    @property
    def address(self) -> int:
        """Where the memory starts, as a number; 0 when no tensor is left."""
        alive = self.tensors
        return place(alive[0].data)[0] if alive else 0

    @property
    def device(self) -> Device | None:
        alive = self.tensors
        return device_of(alive[0].data) if alive else None

    def __repr__(self) -> str:
        alive = len(self.tensors)
        where = f"{self.nbytes} bytes at {self.address:#x} on {self.device}" if alive else "gone"
        return f"<storage: {where}, {alive} tensor{'' if alive == 1 else 's'}, version {self.version}>"


def storage_of(tensor: Tensor) -> Storage:
    """The storage of a tensor, made when it is first asked for."""
    if tensor._storage is None:
        tensor._storage = Storage()
    return tensor._storage


class Stored:
    """What a tensor says about the memory it is in."""

    __slots__ = ()

    data: Array
    _storage: Storage | None

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one entry to the next along each axis."""
        return self.data.strides

    @property
    def itemsize(self) -> int:
        """Bytes of one entry."""
        return self.data.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all entries, those that share memory counted each."""
        return self.data.size * self.data.dtype.itemsize

    @property
    def offset(self) -> int:
        """Bytes from the start of the storage to the first entry."""
        return place(self.data)[2]

    @property
    def storage(self) -> Storage:
        """What is shared by all Tensors on this memory."""
        storage = storage_of(self)  # type: ignore[arg-type]  # a Tensor
        storage.note(self)  # type: ignore[arg-type]
        return storage

    @property
    def version(self) -> int:
        """How often this memory was written to in place."""
        return self._storage.version if self._storage else 0

    @property
    def is_view(self) -> bool:
        """Whether an operation made this tensor on the memory of another. A `detach()` shares memory and is no view."""
        return self.base is not None

    @property
    def base(self) -> Tensor | None:
        """The tensor that this one is a view of, itself no view; None for one that is not a view."""
        view: View | None = getattr(self, "_view", None)
        return view.base if view else None

    @property
    def is_contiguous(self) -> bool:
        """Whether the entries lie one after the other in row-major order."""
        return bool(self.data.flags.c_contiguous)

    def contiguous(self) -> Any:
        """This tensor if its entries lie in row-major order, else a copy where they do; differentiable."""
        return self if self.is_contiguous else self.clone()  # type: ignore[attr-defined]  # a Tensor's


def shares_memory(a: Tensor, b: Tensor) -> bool:
    """Whether some entry of `a` and some entry of `b` are the same place in memory.

    Parameters
    ----------
    a, b : Tensor
        On any devices; tensors of two devices never share.

    Raises
    ------
    TypeError
        One of them is not a Tensor.
    """
    for value in (a, b):
        if not isinstance(value, Stored):
            raise TypeError(f"shares_memory: expected two Tensors, got {type(value).__name__}.")
    return arrays_share_memory(a.data, b.data)


def place(array: Array) -> tuple[int, int, int]:
    """Where a bare array is: the address of the memory it lies in, the bytes of that, and those before its first entry.

    Views of memory that a library handed out are in the whole of it, so far as NumPy or CuPy knows.
    """
    if isinstance(array, SimArray):
        handle, inner = array._block.handle, array._memory
        if handle is None or not handle.nbytes:
            return 0, 0, 0
        segment, before = handle.memory
        return handle.address, array._block.nbytes, _start(inner) - _start(segment) - before
    memory = array
    while type(memory.base) is type(memory):
        memory = memory.base
    return _start(memory), int(memory.nbytes), _start(array) - _start(memory)


def _start(array: Array) -> int:
    """The address of the first entry of an array of NumPy or CuPy."""
    return int(array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data.ptr)
