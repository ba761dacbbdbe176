"""Readers: a source of examples, and the stages they go through on their way to the model.

A stage splits its work in two. Its `plan` says what the items of an epoch are, in order: cheap, done by one thread, and
the same each time for a seed. Its `make` turns one recipe of the plan into an item: the costly part, done anywhere and
in any order. So shuffling moves numbers and not images, the items do not depend on how many workers make them, and a
place within an epoch is two numbers: to resume is to plan the epoch again and to make nothing of what was handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from internals.data.collate import collate as stack

Plan = Iterator[Any]


class Reader:
    """Items, epoch after epoch; each ``iter(reader)`` is the next epoch. Made by `read`, extended by its stages.

    Subclasses write `plan`, and `make` if a recipe is not the item itself.
    """

    def plan(self, epoch: int, start: int = 0) -> Plan:
        """Recipes for the items of an epoch, from item number `start` on."""
        raise NotImplementedError(f"{type(self).__name__} has no plan; write one.")

    def make(self, recipe: Any) -> Any:
        """The item of a recipe."""
        return recipe

    def make_batch(self, recipes: Sequence[Any], collate: Callable[[Sequence[Any]], Any]) -> Any:
        """The items of some recipes, put together."""
        return collate([self.make(recipe) for recipe in recipes])

    def __len__(self) -> int:
        raise TypeError(f"len: how many items {self!r} has is known only once they are read.")

    # Epochs, and a place within one

    _next = (0, 0)
    _place = (0, 0)

    def __iter__(self) -> Iterator[Any]:
        epoch, start = self._next
        self._next = (epoch + 1, 0)
        return self._items(epoch, start)

    def _items(self, epoch: int, start: int) -> Iterator[Any]:
        self._place = (epoch, start)
        position = start
        plan = self.plan(epoch, start)
        try:
            for recipe in plan:
                try:
                    item = self.make(recipe)
                except Exception as error:
                    name_item(error, f"while making item {position} of epoch {epoch} of {self!r}")
                    raise
                position += 1
                self._place = (epoch, position)
                yield item
        finally:
            if hasattr(plan, "close"):
                plan.close()
        self._place = (epoch + 1, 0)

    def state_dict(self) -> dict[str, Any]:
        """Where the newest iteration is; of numbers and a string, so any format can hold it.

        Items that workers have made but that were not handed out yet do not count as read.
        """
        epoch, position = self._place
        return {"reader": repr(self), "epoch": epoch, "position": position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on from a place: it gives exactly the rest of that epoch.

        Raises
        ------
        ValueError
            The state is no state, or that of a reader with other stages.
        """
        if set(state) != {"reader", "epoch", "position"}:
            raise ValueError(f"load_state_dict: expected reader, epoch and position, got {', '.join(map(str, state))}.")
        if state["reader"] != repr(self):
            raise ValueError(f"load_state_dict: the state is that of {state['reader']}, but this is {self!r}.")
        place = state["epoch"], state["position"]
        if not all(isinstance(number, int) and number >= 0 for number in place):
            raise ValueError(f"load_state_dict: epoch and position must be whole numbers, got {place}.")
        self._place = self._next = place

    # Stages

    # Imported where they are made: a stage is a Reader itself.

    def map(self, function: Callable[..., Any], *, seed: int | None = None) -> Reader:
        """``function(item)`` for each item.

        With a seed, ``function(item, rng)``: a generator of its own for each item of each epoch, so that augmentation
        at random is the same for any number of workers, and after resuming. (NumPy's global generator would not be, and
        forked workers would all draw the same numbers from it.)
        """
        from internals.data.stages import Map

        return Map(self, function, seed)

    def filter(self, keep: Callable[[Any], bool]) -> Reader:
        """The items for which ``keep(item)`` is true. Items are made to be asked, so put it before costly stages."""
        from internals.data.stages import Filter

        return Filter(self, keep)

    def shuffle(self, seed: int, *, buffer: int | None = None, every_epoch: bool = True) -> Reader:
        """The items in random order.

        Parameters
        ----------
        seed : int
            With the epoch it decides the order; see also `every_epoch`.
        buffer : int, optional
            Draw from this many items at a time: an item comes at most `buffer` places early. None: from the whole
            epoch, every order equally likely.
        every_epoch : bool
            False: the same order in all epochs.
        """
        from internals.data.stages import Shuffle

        return Shuffle(self, seed, buffer, every_epoch)

    def batch(self, size: int, *, drop_last: bool = False, collate: Callable[[Sequence[Any]], Any] = stack) -> Reader:
        """`size` items at a time, put together by `collate`; the last batch may be smaller, or is dropped."""
        from internals.data.stages import Batch

        return Batch(self, size, drop_last, collate)

    def cache(self) -> Reader:
        """Keep the items in memory once they are made; what stages before it do at random is then fixed."""
        from internals.data.stages import Cache

        return Cache(self)

    def repeat(self, times: int | None = None) -> Reader:
        """The epochs of this reader one after the other as one, `times` of them or without end."""
        from internals.data.stages import Repeat

        return Repeat(self, times)

    def zip(self, *others: Any) -> Reader:
        """Tuples of one item from each reader, until the shortest ends."""
        from internals.data.stages import Zip

        return Zip(self, *map(read, others))

    def chain(self, *others: Any) -> Reader:
        """The items of this reader, then those of the others."""
        from internals.data.stages import Chain

        return Chain(self, *map(read, others))

    def shard(self, rank: int, world: int, *, remainder: str = "keep") -> Reader:
        """Every `world`-th item, from item `rank` on: the share of one trainer.

        Parameters
        ----------
        rank, world : int
            The number of this trainer, from 0, and how many there are. Shuffle before, with one seed for all.
        remainder : {"keep", "drop", "wrap"}
            Where the items do not divide: some trainers get one more; the last ones are left out; or the first ones
            stand in again. Trainers that wait for each other in every step need one of the last two.
        """
        from internals.data.stages import Shard

        return Shard(self, rank, world, remainder)

    def prefetch(self, workers: int = 1, *, processes: bool = False, ahead: int | None = None) -> Reader:
        """Make items before they are asked for, in the same order; see `internals.data.prefetch.Prefetch`."""
        from internals.data.prefetch import Prefetch

        return Prefetch(self, workers, processes, ahead)


def read(source: Any) -> Reader:
    """A reader of `source`.

    Parameters
    ----------
    source : Dataset or sequence, iterable, callable, or Reader
        With ``len()`` and ``[i]``, items are fetched by number. Another iterable is read through in each epoch.
        A callable is called for each epoch and returns an iterator: what PaddlePaddle's first
        versions call a reader.

    Raises
    ------
    TypeError
        `source` is none of these, or an iterator, which could be read for one epoch only.
    """
    if isinstance(source, Reader):
        return source
    if hasattr(source, "__len__") and hasattr(source, "__getitem__") and not isinstance(source, Mapping | str | bytes):
        return Indexed(source)
    if hasattr(source, "__next__"):
        raise TypeError(
            f"read: a {type(source).__name__} can be read once, and an epoch later it is empty. Pass the function that "
            "makes it, without calling it."
        )
    if callable(source) or (hasattr(source, "__iter__") and not isinstance(source, Mapping | str | bytes)):
        return Stream(source)
    raise TypeError(f"read: {type(source).__name__} is no source; expected a dataset, an iterable or a function.")


class Indexed(Reader):
    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def plan(self, epoch: int, start: int = 0) -> Plan:
        return iter(range(start, len(self.dataset)))

    def make(self, recipe: int) -> Any:
        return self.dataset[recipe]

    def make_batch(self, recipes: Sequence[Any], collate: Callable[[Sequence[Any]], Any]) -> Any:
        if collate is stack and hasattr(self.dataset, "fetch"):
            return self.dataset.fetch(recipes)
        return super().make_batch(recipes, collate)

    def __repr__(self) -> str:
        return f"{type(self.dataset).__name__}[{len(self)}]"


class Stream(Reader):
    def __init__(self, source: Any) -> None:
        self.source = source

    def plan(self, epoch: int, start: int = 0) -> Plan:
        made = self.source() if callable(self.source) else self.source
        if not hasattr(made, "__iter__"):
            raise TypeError(f"read: {name_of(self.source)} returned {type(made).__name__}; expected an iterator.")
        return islice(made, start, None)

    def __repr__(self) -> str:
        return name_of(self.source) if callable(self.source) else type(self.source).__name__


def name_item(error: BaseException, note: str) -> None:
    """Say in an error's notes which item it came from, once."""
    if not any("while making item" in one for one in getattr(error, "__notes__", ())):
        error.add_note(note)


def name_of(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def checked_callable(stage: str, function: Any) -> Any:
    if not callable(function):
        raise TypeError(f"{stage}: expected a function, got {type(function).__name__}.")
    return function


def checked_size(stage: str, name: str, size: Any) -> int:
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
        raise ValueError(f"{stage}: {name} must be a positive whole number, got {size!r}.")
    return int(size)
