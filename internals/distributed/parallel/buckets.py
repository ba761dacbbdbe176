"""Buckets: gradients that become known one after the other, gathered to be sent together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from internals.device import device_of, move
from internals.tensor import Tensor, wrap

Named = tuple[str, Tensor]


class Bucket:
    """Parameters of one dtype, and where their entries lie in one flat array.

    Parameters
    ----------
    named : sequence of (str, Tensor)
    parts : int
        The flat array's length is a multiple of it, so that each of so many ranks has an equal part; the last entries
        may belong to no parameter.

    Attributes
    ----------
    names : list of str
    parameters : list of Tensor
    dtype : dtype
    size : int
        Entries of the flat array.
    """

    def __init__(self, named: Sequence[Named], parts: int = 1) -> None:
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.dtype = self.parameters[0].dtype
        self._cuts = np.cumsum([0, *(parameter.size for parameter in self.parameters)]).tolist()
        self.size = -(-self._cuts[-1] // parts) * parts

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def empty(self) -> np.ndarray:
        """A flat array for the entries; what belongs to no parameter is 0."""
        flat = np.empty(self.size, self.dtype)
        flat[self._cuts[-1] :] = 0
        return flat

    def view(self, flat: np.ndarray, place: int) -> np.ndarray:
        """A parameter's entries in a flat array, in the parameter's shape."""
        return flat[self._cuts[place] : self._cuts[place + 1]].reshape(self.parameters[place].shape)

    def part(self, flat: np.ndarray, rank: int, size: int) -> np.ndarray:
        """One rank's share of a flat array."""
        each = self.size // size
        return flat[rank * each : (rank + 1) * each]

    def collect_values(self) -> np.ndarray:
        """The parameters' values, flat."""
        flat = self.empty()
        for place, parameter in enumerate(self.parameters):
            self.view(flat, place)[...] = device_of(parameter.data).to_host(parameter.data)
        return flat

    def collect_gradient(self, flat: np.ndarray, place: int) -> None:
        """Copy one parameter's gradient to its place; 0 where there is none."""
        gradient = self.parameters[place].grad
        self.view(flat, place)[...] = 0 if gradient is None else device_of(gradient.data).to_host(gradient.data)

    def hand_out_gradient(self, flat: np.ndarray, place: int) -> None:
        """Make what is at a parameter's place its gradient; on the cpu without a copy."""
        parameter, value = self.parameters[place], self.view(flat, place)
        parameter.grad = wrap(move(value, parameter.device))


def in_buckets(named: Sequence[Named], bucket_bytes: int, parts: int = 1) -> list[Bucket]:
    """Put parameters into buckets, the last registered first: their gradients are known first.

    Parameters
    ----------
    named : sequence of (str, Tensor), in the order of registration
    bucket_bytes : int
        A bucket is closed when it has so many; each holds one parameter at least, and one dtype.
    parts : int
        See `Bucket`.

    References
    ----------
    Li et al. (2020), PyTorch Distributed: experiences on accelerating data parallel training, §3.2.3.
    """
    buckets: list[Bucket] = []
    opened: dict[np.dtype, list[Named]] = {}
    for name, parameter in reversed(named):
        inside = opened.setdefault(parameter.dtype, [])
        inside.append((name, parameter))
        if sum(one.nbytes for _, one in inside) >= bucket_bytes:
            buckets.append(Bucket(opened.pop(parameter.dtype), parts))
    buckets.extend(Bucket(inside, parts) for inside in opened.values())
    return buckets
