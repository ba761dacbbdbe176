"""The stages of a reader, as `Reader`'s methods make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from internals.data.collate import collate as stack
from internals.data.reader import Plan, Reader, checked_callable, checked_size, name_of


class Stage(Reader):
    """A reader that takes its items from another one."""

    def __init__(self, before: Reader) -> None:
        self.before = before

    def make(self, recipe: Any) -> Any:
        return self.before.make(recipe)

    def make_batch(self, recipes: Sequence[Any], collate: Callable[[Sequence[Any]], Any]) -> Any:
        return self.before.make_batch(recipes, collate)

    def __len__(self) -> int:
        return len(self.before)


class Map(Stage):
    def __init__(self, before: Reader, function: Callable[..., Any], seed: int | None) -> None:
        super().__init__(before)
        self.function, self.seed = checked_callable("map", function), seed

    def plan(self, epoch: int, start: int = 0) -> Plan:
        numbered = enumerate(self.before.plan(epoch, start), start)
        return ((recipe, epoch, position) for position, recipe in numbered)

    def make(self, recipe: Any) -> Any:
        inner, epoch, position = recipe
        item = self.before.make(inner)
        if self.seed is None:
            return self.function(item)
        return self.function(item, np.random.default_rng((self.seed, epoch, position)))

    make_batch = Reader.make_batch

    def __repr__(self) -> str:
        seeded = "" if self.seed is None else f", seed={self.seed}"
        return f"{self.before!r}.map({name_of(self.function)}{seeded})"


class Filter(Stage):
    def __init__(self, before: Reader, keep: Callable[[Any], bool]) -> None:
        super().__init__(before)
        self.keep = checked_callable("filter", keep)

    def plan(self, epoch: int, start: int = 0) -> Plan:
        made = map(self.before.make, self.before.plan(epoch))
        return islice(filter(self.keep, made), start, None)

    make, make_batch, __len__ = Reader.make, Reader.make_batch, Reader.__len__

    def __repr__(self) -> str:
        return f"{self.before!r}.filter({name_of(self.keep)})"


class Shuffle(Stage):
    def __init__(self, before: Reader, seed: int, buffer: int | None, every_epoch: bool) -> None:
        super().__init__(before)
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise TypeError(f"shuffle: seed must be a whole number, got {seed!r}; with one, training can be repeated.")
        self.seed, self.buffer, self.every_epoch = int(seed), buffer, every_epoch
        if buffer is not None:
            checked_size("shuffle", "buffer", buffer)

    def plan(self, epoch: int, start: int = 0) -> Plan:
        rng = np.random.default_rng((self.seed, epoch) if self.every_epoch else self.seed)
        recipes = self.before.plan(epoch)
        return islice(_drawn(recipes, rng, self.buffer) if self.buffer else _permuted(recipes, rng), start, None)

    def __repr__(self) -> str:
        buffer = "" if self.buffer is None else f", buffer={self.buffer}"
        return f"{self.before!r}.shuffle({self.seed}{buffer}{'' if self.every_epoch else ', every_epoch=False'})"


def _permuted(recipes: Plan, rng: np.random.Generator) -> Plan:
    everything = list(recipes)
    for i in rng.permutation(len(everything)).tolist():
        yield everything[i]


def _drawn(recipes: Plan, rng: np.random.Generator, size: int) -> Plan:
    buffer = list(islice(recipes, size))
    for recipe in recipes:
        i = int(rng.integers(size))
        yield buffer[i]
        buffer[i] = recipe
    yield from _permuted(iter(buffer), rng)


class Batch(Stage):
    def __init__(self, before: Reader, size: int, drop_last: bool, collate: Callable[[Sequence[Any]], Any]) -> None:
        super().__init__(before)
        self.size, self.drop_last = checked_size("batch", "size", size), drop_last
        self.collate = checked_callable("batch", collate)

    def plan(self, epoch: int, start: int = 0) -> Plan:
        recipes = iter(self.before.plan(epoch, start * self.size))
        while group := list(islice(recipes, self.size)):
            if len(group) == self.size or not self.drop_last:
                yield group

    def make(self, recipe: Any) -> Any:
        return self.before.make_batch(recipe, self.collate)

    make_batch = Reader.make_batch

    def __len__(self) -> int:
        return len(self.before) // self.size if self.drop_last else -(-len(self.before) // self.size)

    def __repr__(self) -> str:
        collate = "" if self.collate is stack else f", collate={name_of(self.collate)}"
        return f"{self.before!r}.batch({self.size}{', drop_last=True' if self.drop_last else ''}{collate})"


class Cache(Stage):
    def __init__(self, before: Reader) -> None:
        super().__init__(before)
        self._kept: dict[int, Any] = {}
        self._length: int | None = None

    def plan(self, epoch: int, start: int = 0) -> Plan:
        if self._length is not None and len(self._kept) == self._length:
            yield from (self._kept[i] for i in range(start, self._length))
            return
        read = start
        for position, recipe in enumerate(self.before.plan(0, start), start):
            if position not in self._kept:
                self._kept[position] = frozen(self.before.make(recipe))
            yield self._kept[position]
            read = position + 1
        if read > start or start == 0:
            self._length = read

    make, make_batch = Reader.make, Reader.make_batch

    def __repr__(self) -> str:
        return f"{self.before!r}.cache()"


class Repeat(Stage):
    def __init__(self, before: Reader, times: int | None) -> None:
        super().__init__(before)
        self.times = times if times is None else checked_size("repeat", "times", times)

    def plan(self, epoch: int, start: int = 0) -> Plan:
        # Epochs of an endless reader are numbered far apart, should one be left and another be begun.
        first = epoch * self.times if self.times else epoch << 32
        done = 0
        while self.times is None or done < self.times:
            found = False
            for recipe in self.before.plan(first + done):
                found = True
                if start:
                    start -= 1
                else:
                    yield recipe
            if not found:
                return
            done += 1

    def __len__(self) -> int:
        if self.times is None:
            raise TypeError(f"len: {self!r} has no end.")
        return self.times * len(self.before)

    def __repr__(self) -> str:
        return f"{self.before!r}.repeat({'' if self.times is None else self.times})"


class Zip(Reader):
    def __init__(self, *readers: Reader) -> None:
        self.readers = readers

    def plan(self, epoch: int, start: int = 0) -> Plan:
        return zip(*(reader.plan(epoch, start) for reader in self.readers), strict=False)

    def make(self, recipe: Any) -> Any:
        return tuple(reader.make(part) for reader, part in zip(self.readers, recipe, strict=True))

    def __len__(self) -> int:
        return min(len(reader) for reader in self.readers)

    def __repr__(self) -> str:
        return f"zip({', '.join(map(repr, self.readers))})"


class Chain(Reader):
    def __init__(self, *readers: Reader) -> None:
        self.readers = readers

    def plan(self, epoch: int, start: int = 0) -> Plan:
        everything = ((which, recipe) for which, reader in enumerate(self.readers) for recipe in reader.plan(epoch))
        return islice(everything, start, None)

    def make(self, recipe: Any) -> Any:
        which, part = recipe
        return self.readers[which].make(part)

    def __len__(self) -> int:
        return sum(len(reader) for reader in self.readers)

    def __repr__(self) -> str:
        return f"chain({', '.join(map(repr, self.readers))})"


class Shard(Stage):
    def __init__(self, before: Reader, rank: int, world: int, remainder: str) -> None:
        super().__init__(before)
        self.rank, self.world, self.remainder = rank, checked_size("shard", "world", world), remainder
        if not isinstance(rank, int) or not 0 <= rank < world:
            raise ValueError(f"shard: rank must be from 0 to {world - 1}, got {rank!r}.")
        if remainder not in ("keep", "drop", "wrap"):
            raise ValueError(f"shard: remainder must be 'keep', 'drop' or 'wrap', got {remainder!r}.")

    def plan(self, epoch: int, start: int = 0) -> Plan:
        recipes = iter(self.before.plan(epoch, start * self.world))
        while group := list(islice(recipes, self.world)):
            missing = self.world - len(group)
            if missing and self.remainder == "drop":
                return
            if missing and self.remainder == "wrap":
                again = list(islice(self.before.plan(epoch), missing))
                group += (again * missing)[:missing]
            if self.rank < len(group):
                yield group[self.rank]

    def __len__(self) -> int:
        whole, rest = divmod(len(self.before), self.world)
        return whole + {"keep": self.rank < rest, "drop": 0, "wrap": rest > 0}[self.remainder]

    def __repr__(self) -> str:
        return f"{self.before!r}.shard({self.rank}, {self.world}, remainder={self.remainder!r})"


def frozen(item: Any) -> Any:
    """The item with its arrays read-only: a later stage that wrote into them would change what is kept."""
    if isinstance(item, np.ndarray):
        item = item.view()
        item.flags.writeable = False
    elif isinstance(item, dict):
        return {key: frozen(value) for key, value in item.items()}
    elif type(item) in (tuple, list):
        return type(item)(frozen(value) for value in item)
    return item
