"""The tables. What is handed in is only ever added to: no row here is changed or deleted by grading.

Content is kept once per SHA-256, a submission once per learner, lab and content, and every act of handing in
is an attempt. A grade belongs to a submission and a spec version, so a regrade after a spec fix stands beside
the old one. What people decide (deadlines, extensions, adjustments, scores given by hand) stands in tables of its
own, and every change of it in the audit. A mark is worked out from these and never stored: see `scores`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

HEAD = "0004"
"""The schema this code is written for; the newest file in ``migrations/versions``."""


def now() -> datetime:
    return datetime.now(UTC)


class Moment(TypeDecorator[datetime]):
    """A moment in UTC. SQLite keeps no zone, so it is put back when read."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a moment without a zone: {value!r}; give datetime.now(UTC)")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    # Named constraints, so that later migrations can refer to them on every database.
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class Learner(Base):
    __tablename__ = "learner"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(255), unique=True)
    since: Mapped[datetime] = mapped_column(Moment, default=now)
    shown_as: Mapped[str] = mapped_column(Text, default="", server_default="")
    """The name people call them by; two may share one."""
    lti_id: Mapped[str | None] = mapped_column(String(255), index=True, unique=True)
    """Their ``sub`` on the learning platform."""
    left_at: Mapped[datetime | None] = mapped_column(Moment)
    """Since when they no longer belong to the class; what they handed in stays."""

    roles: Mapped[list[Role]] = relationship(order_by="Role.role")


class Role(Base):
    """What a person may do; one who has no role is a learner."""

    __tablename__ = "role"

    learner_id: Mapped[int] = mapped_column(ForeignKey("learner.id"), primary_key=True)
    role: Mapped[str] = mapped_column(String(20), primary_key=True)


class Content(Base):
    """The bytes of a notebook, under their SHA-256."""

    __tablename__ = "content"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    size: Mapped[int]
    data: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    stored_at: Mapped[datetime] = mapped_column(Moment, default=now)


class Submission(Base):
    """One learner's notebook for one lab."""

    __tablename__ = "submission"
    __table_args__ = (UniqueConstraint("learner_id", "lab", "sha256"), Index(None, "lab", "learner_id"))

    id: Mapped[int] = mapped_column(primary_key=True)
    learner_id: Mapped[int] = mapped_column(ForeignKey("learner.id"))
    lab: Mapped[str] = mapped_column(String(100))
    sha256: Mapped[str] = mapped_column(ForeignKey("content.sha256"))
    stored_at: Mapped[datetime] = mapped_column(Moment, default=now)

    learner: Mapped[Learner] = relationship()
    content: Mapped[Content] = relationship()
    attempts: Mapped[list[Attempt]] = relationship(order_by="Attempt.id", back_populates="submission")
    grades: Mapped[list[Grade]] = relationship(order_by="Grade.id", back_populates="submission")


class Attempt(Base):
    """One act of handing in."""

    __tablename__ = "attempt"

    id: Mapped[int] = mapped_column(primary_key=True)
    submission_id: Mapped[int] = mapped_column(ForeignKey("submission.id"), index=True)
    at: Mapped[datetime] = mapped_column(Moment, default=now)
    filename: Mapped[str] = mapped_column(Text)
    source: Mapped[str] = mapped_column(String(40))
    """Where it came from: ``notebook`` or ``command line``."""

    submission: Mapped[Submission] = relationship(back_populates="attempts")


class Grade(Base):
    """The outcome of grading one submission with one spec version."""

    __tablename__ = "grade"
    __table_args__ = (UniqueConstraint("submission_id", "spec_version", "mode", "run"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    submission_id: Mapped[int] = mapped_column(ForeignKey("submission.id"))
    spec_version: Mapped[str] = mapped_column(String(40))
    mode: Mapped[str] = mapped_column(String(20))
    run: Mapped[int]
    """1, and more where an earlier run was unsettled (a time limit, a fault of the grader)."""
    points: Mapped[float]
    max_points: Mapped[float]
    full_marks: Mapped[bool]
    """All points of what is graded at once; answers in words may still wait for a person."""
    settled: Mapped[bool]
    graded_at: Mapped[datetime] = mapped_column(Moment, default=now)
    report: Mapped[str] = mapped_column(Text, deferred=True)
    """The whole report, as JSON."""

    submission: Mapped[Submission] = relationship(back_populates="grades")
    tasks: Mapped[list[TaskGrade]] = relationship(order_by="TaskGrade.position", back_populates="grade")


class TaskGrade(Base):
    """One task of a grade, for statistics; the words are in the report."""

    __tablename__ = "task_grade"

    grade_id: Mapped[int] = mapped_column(ForeignKey("grade.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    task: Mapped[str] = mapped_column(String(100), index=True)
    verdict: Mapped[str] = mapped_column(String(20))
    cause: Mapped[str] = mapped_column(String(20))
    points: Mapped[float]
    max_points: Mapped[float]
    diagnosis: Mapped[str] = mapped_column(Text, default="", server_default="")
    """The most likely one, in words."""

    grade: Mapped[Grade] = relationship(back_populates="tasks")


class Assignment(Base):
    """What the instructor decided about a lab."""

    __tablename__ = "assignment"

    id: Mapped[int] = mapped_column(primary_key=True)
    lab: Mapped[str] = mapped_column(String(100), unique=True)
    released: Mapped[datetime | None] = mapped_column(Moment)
    due: Mapped[datetime | None] = mapped_column(Moment)
    zone: Mapped[str] = mapped_column(String(64))
    """The zone the times were given in, to show them in."""
    policy: Mapped[str] = mapped_column(String(10))
    points: Mapped[float | None]
    """What full marks are worth; the lab's own points, if not given."""
    late: Mapped[str] = mapped_column(Text)
    """The late rule as JSON: see `policy.LateRule`."""
    line_item: Mapped[str] = mapped_column(Text)
    """The address of its column in the learning platform's gradebook."""
    results: Mapped[datetime | None] = mapped_column(Moment)
    """From when learners see what they earned; at once, if not given."""


class Extension(Base):
    """A later deadline for one learner."""

    __tablename__ = "extension"
    __table_args__ = (UniqueConstraint("learner_id", "lab"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    learner_id: Mapped[int] = mapped_column(ForeignKey("learner.id"))
    lab: Mapped[str] = mapped_column(String(100))
    until: Mapped[datetime] = mapped_column(Moment)


class Adjustment(Base):
    """Points given or taken by hand, after all rules."""

    __tablename__ = "adjustment"
    __table_args__ = (Index(None, "lab", "learner_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    learner_id: Mapped[int] = mapped_column(ForeignKey("learner.id"))
    lab: Mapped[str] = mapped_column(String(100))
    points: Mapped[float]
    replaces: Mapped[bool]
    """Whether the points stand in place of the mark, or are added to it."""
    reason: Mapped[str] = mapped_column(Text)
    by: Mapped[str] = mapped_column(String(255))
    at: Mapped[datetime] = mapped_column(Moment, default=now)
    withdrawn_at: Mapped[datetime | None] = mapped_column(Moment)


class HandScore(Base):
    """The points a person gave one task of a submission; they stand through every regrade."""

    __tablename__ = "hand_score"
    __table_args__ = (UniqueConstraint("submission_id", "task"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    submission_id: Mapped[int] = mapped_column(ForeignKey("submission.id"))
    task: Mapped[str] = mapped_column(String(100))
    points: Mapped[float]
    comment: Mapped[str] = mapped_column(Text)
    by: Mapped[str] = mapped_column(String(255))
    at: Mapped[datetime] = mapped_column(Moment, default=now)


class Audit(Base):
    """Who changed what, and why. The database itself refuses to change or delete a row."""

    __tablename__ = "audit"
    __table_args__ = (Index(None, "lab", "learner_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(Moment, default=now)
    who: Mapped[str] = mapped_column(String(255))
    what: Mapped[str] = mapped_column(String(40))
    lab: Mapped[str] = mapped_column(String(100), default="")
    learner_id: Mapped[int | None] = mapped_column(ForeignKey("learner.id"))
    old: Mapped[str] = mapped_column(Text)
    new: Mapped[str] = mapped_column(Text)
    """Before and after, as JSON; ``null`` where there was nothing."""
    why: Mapped[str] = mapped_column(Text)


class Job(Base):
    """A grading that is to be done, once for a submission, a spec version and a mode. See `autograder.queue`."""

    __tablename__ = "job"
    __table_args__ = (
        UniqueConstraint("submission_id", "spec_version", "mode"),
        Index(None, "state", "priority", "turn", "id"),
        Index(None, "learner_id", "priority", "turn"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    submission_id: Mapped[int] = mapped_column(ForeignKey("submission.id"))
    learner_id: Mapped[int] = mapped_column(ForeignKey("learner.id"))
    spec_version: Mapped[str] = mapped_column(String(40))
    mode: Mapped[str] = mapped_column(String(20))
    state: Mapped[str] = mapped_column(String(10))
    """``waiting``, ``leased`` to a worker, ``done``, or ``parked``: not tried again unless somebody asks."""
    priority: Mapped[int]
    """The smallest goes first."""
    turn: Mapped[int]
    """Among equals in priority the smallest goes first; each learner has one job a turn."""
    reason: Mapped[str] = mapped_column(Text)
    """Why it is to be done."""
    tries: Mapped[int]
    fault: Mapped[str] = mapped_column(Text)
    """What went wrong last, or why it is parked."""
    parked_by: Mapped[str] = mapped_column(String(255))
    """The person who parked it; nobody, where the queue did."""
    enqueued_at: Mapped[datetime] = mapped_column(Moment)
    since: Mapped[datetime] = mapped_column(Moment)
    """Since when it has been in its state."""
    not_before: Mapped[datetime | None] = mapped_column(Moment)
    holder: Mapped[str] = mapped_column(Text)
    """The worker that has it, or had it last."""
    token: Mapped[str] = mapped_column(String(32))
    """Of the lease; only who knows it may report what came of the job."""
    beat: Mapped[int]
    """Counted up by the holder while it is at work."""
    lease_seconds: Mapped[float]
    """For how long the holder may stand still before others take it for dead."""
