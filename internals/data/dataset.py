"""Datasets: examples by number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from internals.data.collate import collate


class Dataset:
    """Examples that can be fetched by number, in any order: subclasses write `__len__` and `__getitem__`.

    A class may also write ``fetch(indices)``, which gives many examples stacked; `batch` calls it where it is there.
    """

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__; write one.")

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__; write one.")


class IterableDataset:
    """Examples that come one after the other, such as lines of a log: subclasses write `__iter__`.

    Each call of `__iter__` begins again from the first example.
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__; write one.")


class ArrayDataset(Dataset):
    """Examples that lie in arrays, along their first axis.

    Parameters
    ----------
    arrays : array-like, shapes (examples, ...)
        Example i is the tuple of their i-th entries; of one array, the entry alone. They are handed out as read-only
        views: a step that wrote into an example would change it for every later epoch.
    names : mapping of str to sequence of str, optional
        Keyword arguments that describe the data, kept as attributes: ``classes=("setosa", ...)``.

    Raises
    ------
    ValueError
        No array, an array without a first axis, or arrays of different lengths.
    """

    def __init__(self, *arrays: Any, **names: Sequence[str]) -> None:
        self.arrays = tuple(_read_only(np.asarray(array)) for array in arrays)
        self.names: Mapping[str, Sequence[str]] = names
        if not self.arrays:
            raise ValueError("ArrayDataset: expected one array or more.")
        if any(array.ndim == 0 for array in self.arrays):
            raise ValueError("ArrayDataset: a 0-d array has no examples; expected shape (examples, ...).")
        if len({len(array) for array in self.arrays}) > 1:
            raise ValueError(
                f"ArrayDataset: arrays of {', '.join(str(len(array)) for array in self.arrays)} examples; each needs "
                "as many as the others."
            )

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["names"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.") from None

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int) -> Any:
        example = tuple(array[index] for array in self.arrays)
        return example if len(example) > 1 else example[0]

    def fetch(self, indices: Sequence[int]) -> Any:
        """Many examples at once, each field one array."""
        fields = tuple(array[np.asarray(indices, np.intp)] for array in self.arrays)
        return fields if len(fields) > 1 else fields[0]

    def __repr__(self) -> str:
        return f"ArrayDataset({', '.join(f'{array.dtype}{list(array.shape)}' for array in self.arrays)})"


class Subset(Dataset):
    """Some examples of another dataset, by their numbers there."""

    def __init__(self, dataset: Any, indices: Sequence[int] | np.ndarray) -> None:
        self.dataset, self.indices = dataset, np.asarray(indices, np.intp)
        if self.indices.ndim != 1:
            raise ValueError(f"Subset: indices of shape {self.indices.shape}; expected one axis.")
        outside = self.indices[(self.indices < 0) | (self.indices >= len(dataset))]
        if outside.size:
            raise IndexError(f"Subset: example {outside[0]} of a dataset of {len(dataset)}.")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[int(self.indices[index])]

    def fetch(self, indices: Sequence[int]) -> Any:
        """Many examples at once, each field one array."""
        if hasattr(self.dataset, "fetch"):
            return self.dataset.fetch(self.indices[np.asarray(indices, np.intp)])
        return collate([self[index] for index in indices])

    def __repr__(self) -> str:
        return f"Subset({self.dataset!r}, {len(self)} examples)"


def split(
    dataset: Any, shares: Sequence[float], *, seed: int | None = None, stratify: Any = None
) -> tuple[Subset, ...]:
    """Cut a dataset into parts that have no example in common, such as training, validation and test.

    Parameters
    ----------
    dataset : Dataset or sequence
    shares : sequence of numbers
        Of each part: fractions that sum to 1, or numbers of examples that sum to at most ``len(dataset)``.
    seed : int, optional
        Examples are dealt out in random order, always the same for a seed. None: in the order they have.
    stratify : sequence, shape (examples,), optional
        A class for each example; each part then gets its share of every class, rounded to whole examples.

    Raises
    ------
    ValueError
        Shares that can't be met, a part that would be empty, or `stratify` of another length.
    """
    n = len(dataset)
    sizes = _sizes(shares, n)
    order = np.arange(n) if seed is None else np.random.default_rng(seed).permutation(n)
    if stratify is not None:
        labels = np.asarray(stratify)
        if labels.shape != (n,):
            raise ValueError(f"split: stratify has shape {labels.shape}; expected one class for each of {n} examples.")
        order = _stratified(order, labels[order], sizes)
    ends = np.cumsum(sizes)
    return tuple(Subset(dataset, np.sort(order[end - size : end])) for size, end in zip(sizes, ends, strict=True))


def _stratified(order: np.ndarray, labels: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """`order` rearranged so that parts of these sizes, cut from its front, have their share of each class."""
    left = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    chosen = []
    for size in sizes:
        counts = np.array([len(own) for own in left])
        exact = counts * (size / counts.sum())
        taken = np.floor(exact).astype(int)
        # Largest remainder; among equal ones, the class whose next example stands first in `order`.
        ahead = [own[k] if k < len(own) else len(order) for own, k in zip(left, taken, strict=True)]
        for i in np.lexsort((ahead, np.round(taken - exact, 9)))[: size - taken.sum()]:
            taken[i] += 1
        chosen += [own[:k] for own, k in zip(left, taken, strict=True)]
        left = [own[k:] for own, k in zip(left, taken, strict=True)]
    return order[np.concatenate(chosen)]


def _sizes(shares: Sequence[float], n: int) -> list[int]:
    numbers = list(shares)
    if not numbers or not all(isinstance(share, int | float | np.number) and share > 0 for share in numbers):
        raise ValueError(f"split: shares must be positive numbers, got {shares!r}.")
    if all(isinstance(share, int | np.integer) for share in numbers):
        if sum(numbers) > n:
            raise ValueError(f"split: parts of {', '.join(map(str, numbers))} examples, but there are {n}.")
        return [int(share) for share in numbers]
    if abs(sum(numbers) - 1) > 1e-6:
        raise ValueError(f"split: fractions {', '.join(map(str, numbers))} sum to {sum(numbers):g}; expected 1.")
    ends = np.round(np.cumsum([0.0, *numbers]) * n).astype(int)
    sizes = np.diff(ends).tolist()
    if 0 in sizes:
        raise ValueError(f"split: {n} examples are too few for parts of {', '.join(map(str, numbers))}: one is empty.")
    return sizes


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
