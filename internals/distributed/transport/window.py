"""How much may be on its way to a peer that does not take it: what a sender counts, so that no memory fills up."""

from __future__ import annotations

from collections import Counter

from internals.distributed.transport.message import Message

PER_MESSAGE = 1 << 10
"""Bytes that a message counts for besides its arrays."""


def cost(message: Message) -> int:
    """Bytes that a message counts for."""
    return PER_MESSAGE + sum(getattr(array, "nbytes", 0) for array in message.arrays)


class Window:
    """Bytes that each peer was sent and has not taken yet. Its owner's lock is held in all of this."""

    def __init__(self) -> None:
        self._sent: Counter[str] = Counter()
        self._calls: dict[int, tuple[str, int]] = {}

    def __getitem__(self, peer: str) -> int:
        return self._sent[peer]

    def take(self, peer: str, nbytes: int, limit: int, call: int | None = None) -> bool:
        """Take room for so many bytes, of a call of a number perhaps, if there is; for one message there always is."""
        if self._sent[peer] and self._sent[peer] + nbytes > limit:
            return False
        self._sent[peer] += nbytes
        if call is not None:
            self._calls[call] = peer, nbytes
        return True

    def give(self, peer: str, nbytes: int) -> None:
        """`peer` has taken so many bytes."""
        self._sent[peer] = max(0, self._sent[peer] - nbytes)

    def answered(self, call: int, peer: str) -> bool:
        """Whether this was a call to `peer`, which has answered it now."""
        asked, nbytes = self._calls.get(call, ("", 0))
        if asked != peer:
            return False
        del self._calls[call]
        self.give(peer, nbytes)
        return True

    def lose(self, peer: str) -> None:
        """What `peer` had not taken went with it."""
        self._sent.pop(peer, None)
        self._calls = {number: one for number, one in self._calls.items() if one[0] != peer}
