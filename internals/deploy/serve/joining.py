"""Several requests' arrays as one batch, and the batch's results as each request's own.

Rows are joined along the first axis. Where requests differ in another open size, as sequences do in their length, and
that size may be padded, the shorter are filled up to the longest, and what comes out is cut back to each request's own
length. The model must not let the fill leak into other entries: it masks it, or computes each place by itself. Long
ones are joined only with those of half their length or more, so that one request can't make all others as large.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from internals.deploy.errors import SignatureError
from internals.deploy.saved.signature import Signature, TensorSpec

Arrays = Mapping[str, np.ndarray]

SHORT = 512
"""Up to this size, whatever is padded is joined."""


def is_batched(signature: Signature) -> bool:
    """Whether rows of different requests can stand in one batch: each end has one open size first, and all the same."""
    specs = [*signature.inputs.values(), *signature.results.values()]
    if not signature.inputs or not all(spec.shape for spec in specs):
        return False
    first = {spec.shape[0] for spec in specs}
    return len(first) == 1 and not isinstance(next(iter(first)), int)


class Joiner:
    """Joins the requests of one signature, and splits what comes out.

    Parameters
    ----------
    signature : Signature
        Of a loaded model.
    fill : mapping of str to number
        The open sizes that are padded, and with what.
    """

    def __init__(self, signature: Signature, fill: Mapping[str, float] | None = None) -> None:
        self.signature = signature
        self.batched = is_batched(signature)
        self.fill = dict(fill or {}) if self.batched else {}

    def rows(self, arrays: Arrays) -> int:
        """How many rows a request has; 1 where rows can't be joined.

        Raises
        ------
        SignatureError
            None.
        """
        if not self.batched:
            return 1
        counts = {name: len(array) for name, array in arrays.items()}
        if len(set(counts.values())) != 1:
            raise SignatureError(f"inputs have different numbers of rows: {counts}. Give each as many.")
        (rows,) = set(counts.values())
        if rows == 0:
            raise SignatureError("the request has no rows. Give at least one.")
        return rows

    def key(self, arrays: Arrays) -> Hashable:
        """What must be equal for two requests to be joined: all sizes but the rows and those that are padded."""
        return tuple(
            tuple(
                None if axis == 0 else _padded_to(came) if size in self.fill else came
                for axis, (size, came) in enumerate(self._sizes(k, v))
            )
            for k, v in arrays.items()
        )

    def join(self, requests: Sequence[Arrays]) -> dict[str, np.ndarray]:
        """One array for each input."""
        if len(requests) == 1:
            return dict(requests[0])
        longest = self._longest(requests)
        return {
            name: np.concatenate([self._padded(spec, one[name], longest) for one in requests])
            for name, spec in self.signature.inputs.items()
        }

    def split(self, requests: Sequence[Arrays], results: Arrays) -> list[dict[str, np.ndarray]]:
        """Each request's own rows of the results, cut back to its own lengths.

        Raises
        ------
        ValueError
            The model gave another number of rows than it was given.
        """
        if len(requests) == 1:
            return [dict(results)]
        counts = [self.rows(one) for one in requests]
        for name, value in results.items():
            if len(value) != sum(counts):
                raise ValueError(f"{name} has {len(value)} rows for a batch of {sum(counts)}")
        longest = self._longest(requests)
        split, start = [], 0
        for one, rows in zip(requests, counts, strict=True):
            own = self._longest([one])
            split.append(
                {k: _cut(self.signature.results[k], v[start : start + rows], own, longest) for k, v in results.items()}
            )
            start += rows
        return split

    def _sizes(self, name: str, array: np.ndarray) -> list[tuple[object, int]]:
        return list(zip(self.signature.inputs[name].shape, array.shape, strict=True))

    def _longest(self, requests: Sequence[Arrays]) -> dict[str, int]:
        longest: dict[str, int] = {}
        for one in requests:
            for name, array in one.items():
                for size, came in self._sizes(name, array):
                    if size in self.fill:
                        longest[str(size)] = max(came, longest.get(str(size), 0))
        return longest

    def _padded(self, spec: TensorSpec, array: np.ndarray, longest: Mapping[str, int]) -> np.ndarray:
        for axis, size in enumerate(spec.shape):
            if size in self.fill and array.shape[axis] < longest[str(size)]:
                missing = [(0, longest[str(size)] - came if i == axis else 0) for i, came in enumerate(array.shape)]
                array = np.pad(array, missing, constant_values=self.fill[str(size)])
        return array


def _padded_to(came: int) -> int | None:
    """What must be equal of two sizes that are padded: for long ones, the next power of two."""
    return None if came <= SHORT else 1 << (came - 1).bit_length()


def _cut(spec: TensorSpec, array: np.ndarray, own: Mapping[str, int], longest: Mapping[str, int]) -> np.ndarray:
    place = tuple(
        slice(own[size]) if isinstance(size, str) and own.get(size, 0) != longest.get(size, 0) else slice(None)
        for size in spec.shape
    )
    return array[place]
