"""How often one learner's work is graded. What comes more often is kept, and graded later."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from autograder.gradebook.faults import GradebookError
from autograder.gradebook.models import Job as Row
from autograder.queue.states import LEARNER


@dataclass(frozen=True)
class RateLimit:
    """At most `count` gradings of one learner's new work in any `seconds` seconds; no limit where `count` is 0."""

    count: int = 20
    seconds: float = 3600.0

    def __post_init__(self) -> None:
        if self.count < 0 or not 0 < self.seconds <= 7 * 86400:
            raise GradebookError(
                f"rate limit: {self.count} in {self.seconds:g} s; give a count from 0 (no limit) and 1 s to 7 days."
            )


STANDARD = RateLimit()


def first_chance(session: Session, learner_id: int, limit: RateLimit, moment: datetime) -> datetime | None:
    """When one more grading of this learner's work is within the limit; None for now."""
    if not limit.count:
        return None
    span = timedelta(seconds=limit.seconds)
    # Work that already waits for its chance counts from then: it is when it will be graded.
    counts = session.execute(
        select(Row.enqueued_at, Row.not_before).where(
            Row.learner_id == learner_id,
            Row.priority == LEARNER,
            # What a clock that was put back since says to come later must not count for as long as it was wrong.
            Row.enqueued_at.between(moment - 10 * span, moment),
        )
    )
    starts = sorted(max(came, later or came) for came, later in counts)
    recent = [start for start in starts if start > moment - span]
    if len(recent) < limit.count:
        return None
    return recent[-limit.count] + span
