"""What `fit`, `evaluate` and `predict` were given, as batches."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from internals.data import Dataset, Reader, read
from internals.ops.spec import DEFAULT_FLOAT
from internals.ops.table import is_array
from internals.tensor import Tensor


class Batch(NamedTuple):
    """Inputs, targets for each output, and a weight for each example or None."""

    inputs: list[np.ndarray]
    targets: list[Any]
    weight: np.ndarray | None

    @property
    def size(self) -> int:
        return len(self.inputs[0])


class Examples(Dataset):
    """Arrays whose first axis is that of the examples."""

    def __init__(self, name: str, inputs: list[np.ndarray], targets: list[np.ndarray], weight: np.ndarray | None):
        self.inputs, self.targets, self.weight = inputs, targets, weight
        arrays = [*inputs, *targets, *([] if weight is None else [weight])]
        if any(array.ndim == 0 for array in arrays):
            raise ValueError(f"{name}: a 0-d array has no examples; expected shape (examples, ...).")
        counts = [len(array) for array in arrays]
        if len(set(counts)) > 1:
            told = [f"x {len(array)}" for array in inputs] + [f"y {len(array)}" for array in targets]
            told += [] if weight is None else [f"sample_weight {len(weight)}"]
            raise ValueError(f"{name}: the numbers of examples differ: {', '.join(told)}.")
        if counts[0] == 0:
            raise ValueError(f"{name}: there are no examples; x has shape {inputs[0].shape}.")

    def __len__(self) -> int:
        return len(self.inputs[0])

    def __getitem__(self, index: int) -> Batch:
        return self.fetch([index])

    def fetch(self, indices: Sequence[int]) -> Batch:
        rows = np.asarray(indices, np.intp)
        weight = None if self.weight is None else self.weight[rows]
        return Batch([x[rows] for x in self.inputs], [y[rows] for y in self.targets], weight)

    def cut(self, share: float) -> tuple[Examples, Examples]:
        """All but the last share of the examples, and that share."""
        if not isinstance(share, int | float) or not 0 < share < 1:
            raise ValueError(f"fit: validation_split must be between 0 and 1, got {share!r}.")
        at = int(len(self) * (1 - share))
        if at in (0, len(self)):
            raise ValueError(f"fit: validation_split={share} of {len(self)} examples leaves a part empty.")
        parts = [self._rows(slice(None, at)), self._rows(slice(at, None))]
        return parts[0], parts[1]

    def _rows(self, rows: slice) -> Examples:
        weight = None if self.weight is None else self.weight[rows]
        return Examples("fit", [x[rows] for x in self.inputs], [y[rows] for y in self.targets], weight)

    def __repr__(self) -> str:
        return f"Examples[{len(self)}]"


def examples(name: str, x: Any, y: Any, weight: Any) -> Examples:
    """Arrays as Examples; a list or tuple of arrays, or a mapping, is several inputs or outputs."""
    inputs = [_numbers(name, "x", one) for one in _several(x)]
    targets = [] if y is None else [_numbers(name, "y", one) for one in _several(y)]
    return Examples(name, inputs, targets, None if weight is None else _numbers(name, "sample_weight", weight))


def is_reader(x: Any) -> bool:
    """Whether `x` gives examples or batches by itself, rather than being arrays."""
    arrays = is_array(x) or isinstance(x, Tensor | list | tuple | Mapping)
    return not arrays and (isinstance(x, Reader) or callable(x) or hasattr(x, "__iter__") or hasattr(x, "__getitem__"))


def reader_of(source: Any, batch_size: int, *, shuffle: int | None) -> Reader:
    """Batches of `source`: a Reader or a stream is taken to give batches already, a dataset to give examples."""
    if isinstance(source, Reader):
        return source
    reader = read(source)
    if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
        return reader
    if shuffle is not None:
        reader = reader.shuffle(shuffle)
    return reader.batch(batch_size)


def batches(name: str, reader: Reader, outputs: Sequence[str] | None = None) -> Generator[Batch, None, None]:
    """The next epoch of a reader, as Batches."""
    for item in reader:
        yield item if isinstance(item, Batch) else as_batch(name, item, outputs)


def as_batch(name: str, item: Any, outputs: Sequence[str] | None = None) -> Batch:
    """One item of a reader: x, (x, y) or (x, y, sample_weight)."""
    parts = item if isinstance(item, tuple) else (item,)
    if not 1 <= len(parts) <= 3:
        raise ValueError(f"{name}: a batch must be x, (x, y) or (x, y, sample_weight), got a tuple of {len(parts)}.")
    x, y, weight = (*parts, None, None)[:3]
    if isinstance(y, Mapping) and outputs:
        missing = set(outputs) ^ set(y)
        if missing:
            raise ValueError(f"{name}: targets for {', '.join(sorted(y))}; the outputs are {', '.join(outputs)}.")
        y = [y[output] for output in outputs]
    made = examples(name, x, y, weight)
    return Batch(made.inputs, made.targets, made.weight)


def for_outputs(what: str, given: Any, names: list[str]) -> list[Any]:
    """One for each output, from one alone, a list, or a mapping by name."""
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"{what}: no output is called {unknown[0]!r}; the outputs are {', '.join(names)}.")
        return [given.get(name) for name in names]
    if isinstance(given, list | tuple):
        if len(given) != len(names):
            raise ValueError(f"{what}: {len(given)} for {len(names)} output(s): {', '.join(names)}.")
        return list(given)
    return [given] * len(names)


def weighted(batch: Batch, class_weight: Mapping[int, float] | None) -> np.ndarray | None:
    """A batch's weights, times those of its classes."""
    if class_weight is None:
        return batch.weight
    if len(batch.targets) != 1:
        raise ValueError("fit: class_weight goes with one output.")
    target = batch.targets[0]
    classes = target.argmax(-1) if target.ndim > 1 and target.shape[-1] > 1 else target.reshape(len(target))
    weight = np.array([class_weight.get(int(one), 1.0) for one in classes.reshape(-1)], np.float32)
    weight = weight.reshape(classes.shape)
    return weight if batch.weight is None else weight * batch.weight


def length(reader: Reader) -> int | None:
    """How many batches an epoch has, if that is known."""
    try:
        return len(reader)
    except TypeError:
        return None


def _several(value: Any) -> list[Any]:
    """The arrays of several inputs; nested lists of numbers are one array."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple) and value and all(is_array(one) or isinstance(one, Tensor) for one in value):
        return list(value)
    return [value]


def _numbers(name: str, what: str, value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        value = value.detach().to("cpu").numpy()
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name}: {what} is ragged; bring its examples to one length with data.pad.") from None
    if array.dtype == np.float64:
        array = array.astype(DEFAULT_FLOAT)
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise TypeError(f"{name}: {what} must be numbers, got {type(value).__name__} ({array.dtype}).")
    return array
