"""Who works on which data shard: each on its own, and the others take over what a lost trainer had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


class Ownership:
    """The trainer of each data shard; one server of a job keeps it.

    Parameters
    ----------
    shards : int
    """

    def __init__(self, shards: int) -> None:
        self._owner: list[str | None] = [None] * shards
        self._living: dict[str, int] = {}

    def check(self, trainer: str, rank: int, clocks: Mapping[str, int]) -> None:
        """Refuse a trainer of a rank that a living one has, or of clocks that are none.

        Raises
        ------
        ValueError
            Names both trainers, or the clock.
        """
        if not isinstance(rank, int) or rank < 0:
            raise ValueError(f"{trainer} says that its rank is {rank!r}; ranks are counted from 0")
        other = next((name for name, has in self._living.items() if has == rank and name != trainer), None)
        if other is not None:
            raise ValueError(
                f"{trainer} says that its rank is {rank}, and so is that of {other}, which is alive; each "
                "trainer needs a rank of its own"
            )
        for shard, clock in clocks.items():
            if not shard.isdecimal() or int(shard) >= len(self._owner) or not isinstance(clock, int) or clock < 0:
                raise ValueError(
                    f"{trainer} is at step {clock!r} of data shard {shard}; there are {len(self._owner)} shards"
                )

    def join(self, trainer: str, rank: int, claims: Sequence[int] = ()) -> bool:
        """A trainer is there: shard `rank` is its own, and what lost trainers left is shared out anew.

        Parameters
        ----------
        claims : sequence of int
            What it has been working on, as far as it knows; it is right where nobody else is known to.

        Returns
        -------
        bool
            Whether somebody else's shards changed.
        """
        before = list(self._owner)
        self._living[trainer] = rank
        for shard in claims:
            if 0 <= shard < len(self._owner) and self._owner[shard] is None:
                self._owner[shard] = trainer
        if rank < len(self._owner):
            self._owner[rank] = trainer
        self._share_out()
        return any(was not in (None, now) for was, now in zip(before, self._owner, strict=True))

    def lose(self, trainer: str) -> None:
        """A trainer is gone: those with the fewest shards get its own."""
        self._living.pop(trainer, None)
        self._share_out()

    def share_all(self) -> bool:
        """Nobody else will come: shards that no trainer has come for are shared out too; whether there were any."""
        absent = [shard for shard, owner in enumerate(self._owner) if owner is None]
        if not absent or not self._living:
            return False
        for shard in absent:
            self._owner[shard] = ""
        self._share_out()
        return True

    def of(self, trainer: str) -> list[int]:
        """The shards of a trainer."""
        return [shard for shard, owner in enumerate(self._owner) if owner == trainer]

    def owner(self, shard: int) -> str | None:
        return self._owner[shard]

    def _share_out(self) -> None:
        if not self._living:
            return
        load = Counter(owner for owner in self._owner if owner in self._living)
        for shard, owner in enumerate(self._owner):
            if owner is not None and owner not in self._living:
                chosen = min(self._living, key=lambda one: (load[one], self._living[one], one))
                self._owner[shard] = chosen
                load[chosen] += 1
