"""One timeline of what several tasks did, though each has a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from internals.distributed.transport import Message

ASKED = 5
"""How often a clock is asked; the quickest answer says most."""


class Clocks:
    """What to add to each task's clock to have one's own.

    A task that answers "it is t" was asked at some time before t and answered at some time after. If both ways took as
    long, t was the middle of the two (Mills 1992, RFC 1305); it is off by at most half the time that the answer took.
    """

    def __init__(self) -> None:
        self._offsets: dict[str, float] = {}

    def offset(self, peer: str, here: Callable[[], float], there: Callable[[], float]) -> float:
        """Seconds to add to the clock `there`."""
        if peer not in self._offsets:
            found = []
            for _ in range(ASKED):
                asked = here()
                now = there()
                answered = here()
                found.append((answered - asked, (asked + answered) / 2 - now))
            self._offsets[peer] = min(found)[1]
        return self._offsets[peer]

    def forget(self, peer: str) -> None:
        self._offsets.pop(peer, None)


def merged(answers: Mapping[str, Message], offsets: Mapping[str, float]) -> list[list[Any]]:
    """[name, lane, start, end] of all tasks, in seconds since the first began.

    Each edge that was cut has a lane for its pair of devices, with what was on its way from the send to the arrival.
    """
    events: list[list[Any]] = []
    sent: dict[str, float] = {}
    arrived: dict[str, float] = {}
    for peer, answer in answers.items():
        offset = offsets[peer]
        for trace in answer.fields["traces"]:
            events += [[name, lane, start + offset, end + offset] for name, lane, start, end in trace["events"]]
            sent.update({key: when + offset for key, when in trace["sent"]})
            arrived.update({key: when + offset for key, when in trace["arrived"]})
    for key, when in sent.items():
        if key in arrived:
            name, _, way = key.partition(" from ")
            events.append([f"send {name}", way, when, max(when, arrived[key])])
    first = min([event[2] for event in events], default=0.0)
    return sorted(([name, lane, start - first, end - first] for name, lane, start, end in events), key=lambda e: e[2])
