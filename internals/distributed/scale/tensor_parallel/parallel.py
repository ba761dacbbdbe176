"""A module of which each rank holds a part: how its parameters were cut, and how they come together again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from internals.distributed.collectives import all_gather, broadcast
from internals.distributed.group import Group
from internals.nn import Module


@dataclass(frozen=True)
class Cut:
    """How a parameter is cut over the ranks.

    Attributes
    ----------
    axis : int
    fused : int
        So many matrices stand side by side along `axis`, and each is cut by itself: 3 for queries, keys and values.
    """

    axis: int
    fused: int = 1

    def check(self, what: str, size: int, group: Group) -> None:
        """Raise ValueError unless each rank gets an equal share of `size`."""
        if size % (self.fused * group.size):
            share = f"{self.fused} x {group.size}" if self.fused > 1 else f"{group.size}"
            raise ValueError(f"{what} {size} does not divide into {share} equal parts, one for each rank")

    def part(self, whole: np.ndarray, group: Group) -> np.ndarray:
        """This rank's part of the whole."""
        self.check("the axis of", whole.shape[self.axis], group)
        pieces = np.split(whole, self.fused, self.axis)
        return np.concatenate([np.split(piece, group.size, self.axis)[group.rank] for piece in pieces], self.axis)

    def whole(self, parts: list[np.ndarray]) -> np.ndarray:
        """The whole, from the parts of all ranks."""
        pieces = [np.split(part, self.fused, self.axis) for part in parts]
        return np.concatenate([piece[i] for i in range(self.fused) for piece in pieces], self.axis)


class Parallel(Module):
    """A module that works together with its like on the other ranks of a group.

    Every rank makes it with the same arguments. Its parameters start as those of the single module do, with the same
    generator: what is cut is cut from the same numbers.

    Attributes
    ----------
    group : Group
    cuts : dict of str to Cut
        By the name of the parameter; what is not named is whole on every rank, and stays the same on all.
    """

    group: Group
    cuts: Mapping[str, Cut] = {}

    def whole_state_dict(self) -> dict[str, np.ndarray]:
        """The state that the single module would have, on every rank. All ranks call it."""
        cuts = cuts_of(self)
        state = {}
        for name, value in self.state_dict().items():
            state[name] = cuts[name].whole(list(all_gather(value, group=self.group))) if name in cuts else value
        return state

    def load_whole_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take this rank's part of the state of the single module.

        Raises
        ------
        ValueError
            A name is missing or unknown, or a value has another shape.
        """
        cuts = cuts_of(self)
        self.load_state_dict(
            {
                name: cuts[name].part(np.asarray(value), self.group) if name in cuts else value
                for name, value in state.items()
            }
        )


def cuts_of(module: Module) -> dict[str, Cut]:
    """The cuts of a module and of all its parts, by dotted name."""
    found = {}
    for prefix, part in module.named_modules():
        if isinstance(part, Parallel):
            found.update({f"{prefix}.{name}" if prefix else name: cut for name, cut in part.cuts.items()})
    return found


def generator(group: Group, rng: np.random.Generator | None) -> np.random.Generator:
    """The generator that all ranks draw the same numbers from: the one given, or one with rank 0's seed."""
    if rng is not None:
        return rng
    seed = broadcast(np.random.default_rng().integers(2**63, size=1), group=group)
    return np.random.default_rng(int(seed[0]))
