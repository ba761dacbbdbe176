"""The data provider: examples, one by one, put together into batches of the form that the data layers say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from internals.layers.argument import Argument, Form
from internals.layers.sequence import batch_of


class DataProvider:
    """Batches from any source of examples.

    Parameters
    ----------
    source : callable, or iterable that can be gone over again
        Gives examples: mappings from a data layer's name to its entry. A callable is called for each pass over the
        data, as a function decorated with ``@provider`` was.
    inputs : mapping of str to Form
        ``net.inputs``.
    batch_size : int
    shuffle : bool
        Mix the examples of each pass; all are kept in memory for it.
    seed : int
    dtype : dtype
        Of numbers.
    drop_last : bool
        Leave a last batch that is not full.

    Raises
    ------
    ValueError
        An example lacks an entry; names it.
    """

    def __init__(
        self,
        source: Callable[[], Iterable[Mapping[str, Any]]] | Iterable[Mapping[str, Any]],
        inputs: Mapping[str, Form],
        *,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        dtype: Any = "float32",
        drop_last: bool = False,
    ) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"DataProvider: batch_size must be a positive integer, got {batch_size!r}.")
        if not callable(source) and iter(source) is source:
            raise TypeError(
                "DataProvider: an iterator can be gone over once only; pass a list, or a function that returns it."
            )
        self.source, self.inputs, self.batch_size = source, dict(inputs), batch_size
        self.shuffle, self.dtype, self.drop_last = shuffle, np.dtype(dtype), drop_last
        self.rng = np.random.default_rng(seed)

    def __iter__(self) -> Iterator[dict[str, Argument]]:
        """One pass over the data."""
        examples: Iterable[Mapping[str, Any]] = self.source() if callable(self.source) else self.source
        if self.shuffle:
            kept = list(examples)
            examples = [kept[i] for i in self.rng.permutation(len(kept))]
        held: list[Mapping[str, Any]] = []
        for example in examples:
            held.append(example)
            if len(held) == self.batch_size:
                yield self._batch(held)
                held = []
        if held and not self.drop_last:
            yield self._batch(held)

    def _batch(self, examples: list[Mapping[str, Any]]) -> dict[str, Argument]:
        for example in examples:
            missing = [name for name in self.inputs if name not in example]
            if missing:
                raise ValueError(
                    f"DataProvider: an example has {', '.join(map(str, example))}, and lacks {', '.join(missing)}."
                )
        return {name: self._together(name, form, [one[name] for one in examples]) for name, form in self.inputs.items()}

    def _together(self, name: str, form: Form, entries: list[Any]) -> Argument:
        dtype = np.dtype(np.int64) if form.ids else self.dtype
        arrays = [np.asarray(entry) for entry in entries]
        if form.ids and any(array.dtype.kind not in "iu" for array in arrays):
            raise TypeError(f"DataProvider: {name!r} must be {form}, got {arrays[0].dtype}.")
        for array in arrays:
            shape = array.shape[1:] if form.sequence and array.ndim else array.shape
            if shape != form.shape or (form.sequence and (array.ndim != len(form.shape) + 1 or not len(array))):
                raise ValueError(f"DataProvider: {name!r} must be {form}, got an entry of shape {array.shape}.")
        if form.sequence:
            return batch_of([array.astype(dtype) for array in arrays], ids=bool(form.ids))
        rows = np.stack(arrays).astype(dtype)
        return Argument(ids=rows) if form.ids else Argument(rows)
