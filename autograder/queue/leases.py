"""Finding workers that died, without trusting any clock: by whether their leases move."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from sqlalchemy import select

from autograder.gradebook.models import Job as Row
from autograder.gradebook.store import Gradebook
from autograder.queue import holders
from autograder.queue.taking import STANDARD, Patience, put_back


class Watchman:
    """Looks at all leases again and again, and puts back the jobs of those that stand still.

    Parameters
    ----------
    clock : callable
        Seconds that only go forward, for this process alone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, patience: Patience = STANDARD) -> None:
        self._clock, self._patience = clock, patience
        self._seen: dict[str, tuple[int, float]] = {}
        """By the lease's token: its last beat that was seen, and when it was first seen."""

    def look(self, book: Gradebook, mine: Collection[str] = ()) -> list[int]:
        """Look once; returns the numbers of the jobs that were put back. `mine` are tokens not to look at."""
        query = select(Row.id, Row.token, Row.beat, Row.holder, Row.lease_seconds).where(Row.state == "leased")
        with book.reading("look at the leases") as session:
            leases = session.execute(query).all()
        moment, back = self._clock(), []
        seen = {}
        for job_id, token, beats, holder, seconds in leases:
            if token in mine:
                continue
            last, first = self._seen.get(token, (-1, moment))
            seen[token] = (beats, first if beats == last else moment)
            still = moment - seen[token][1]
            who = f"The worker that had it ({holders.shown(holder)})"
            if holders.is_gone(holder):
                words = f"{who} ended in the middle of it."
            elif still > seconds:
                words = f"{who} has not been heard of for {still:.0f} s."
            else:
                continue
            if put_back(book, job_id, token, beats, words, self._patience):
                back.append(job_id)
        self._seen = seen
        return back
