"""What one rank of a job holds: its number, how many there are, and how to send to the others by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from internals.distributed.transport import Endpoint, Message


class Group:
    """One rank's place among the ranks of a job, or of a part of it.

    Parameters
    ----------
    rank : int
        0 to ``size - 1``.
    names : sequence of str
        The endpoint's name of each rank, in the order of ranks; one name per rank.
    endpoint : Endpoint
        This rank's, connected to all the others.
    deadline : float
        Seconds, how long a wait lasts at most where none is given.

    Attributes
    ----------
    rank, size : int
    endpoint : Endpoint
        For what has no rank: calls, handlers, servers beside the ranks.
    deadline : float
    """

    def __init__(
        self, rank: int, names: Sequence[str], endpoint: Endpoint, deadline: float = 30.0, *, tag: str = ""
    ) -> None:
        self.rank = rank
        self.size = len(names)
        self.endpoint = endpoint
        self.deadline = deadline
        self._names = tuple(names)
        self._tag = tag
        self._parts: Counter[tuple[int, ...]] = Counter()

    def name_of(self, rank: int) -> str:
        """The endpoint's name of a rank: ``"rank:3"``. In a part of a job it is still the name in the whole."""
        return self._names[self._checked(rank)]

    def kind(self, kind: str) -> str:
        """What a kind of message of this group is called among all that go through its endpoint."""
        return self._tag + kind

    def send(self, to: int, kind: str, *arrays: np.ndarray, **fields: Any) -> None:
        """Send arrays and plain data to a rank; returns when the arrays may be written to again.

        Raises
        ------
        PeerLost
            The rank is known to be dead.
        """
        self.endpoint.send(self.name_of(to), Message(self._tag + kind, fields, list(arrays)))

    def receive(self, source: int, kind: str, deadline: float | None = None) -> Message:
        """The next message of `kind` from a rank; the order is the one it was sent in.

        Parameters
        ----------
        deadline : float, optional
            Seconds; the group's where none is given.

        Raises
        ------
        PeerLost, DeadlineExceeded
            Each names the rank.
        """
        name = self.name_of(source)
        message = self.endpoint.receive(self._tag + kind, name, self.deadline if deadline is None else deadline)
        message.kind = kind
        return message

    def subgroup(self, ranks: Sequence[int]) -> Group | None:
        """The group of some of the ranks, renumbered in the order given; None on a rank that is not among them.

        It uses the same endpoint, and its messages are kept apart from all other groups'. Every member calls this;
        those that make several of the same ranks make them in the same order.

        Raises
        ------
        ValueError
            No ranks, or one twice, or one that is not in this group.
        """
        chosen = tuple(self._checked(rank) for rank in ranks)
        if not chosen or len(set(chosen)) < len(chosen):
            raise ValueError(f"subgroup: ranks {list(ranks)}; expected one or more of this group, each once")
        if self.rank not in chosen:
            return None
        self._parts[chosen] += 1
        tag = f"{self._tag}{','.join(map(str, chosen))}#{self._parts[chosen]}/"
        names = [self._names[rank] for rank in chosen]
        return Group(chosen.index(self.rank), names, self.endpoint, self.deadline, tag=tag)

    def close(self) -> None:
        """Leave the job. A part of a job leaves nothing: its endpoint is the whole's."""
        if not self._tag:
            self.endpoint.close()

    def __enter__(self) -> Group:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Group(rank={self.rank}, size={self.size}{', part ' + self._tag[:-1] if self._tag else ''})"

    def _checked(self, rank: int) -> int:
        number = int(rank)
        if number != rank or not 0 <= number < self.size:
            raise ValueError(f"there is no rank {rank!r} in a group of {self.size}: ranks are 0 to {self.size - 1}")
        return number
