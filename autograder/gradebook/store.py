"""The gradebook: hand a submission in, attach a grade to it, read both back."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, insert, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError
from sqlalchemy.orm import Session

from autograder.cells import printable
from autograder.gradebook import place, schema
from autograder.gradebook.faults import GradebookError, one_line, shown
from autograder.gradebook.models import Attempt, Content, Grade, Learner, Submission, TaskGrade, now
from autograder.report import Report

BUSY_SECONDS = 20.0
"""How long another's lock is waited for: a class that hands in at once on a slow disk takes its turns."""
CONNECT_SECONDS = 5
_DECISION_LOCK = 0x6465_6369_6465
"""Held on PostgreSQL while a decision is written; any number that nothing else uses."""
UNSETTLED = {"time", "memory", "processes", "protocol", "oracle"}
"""Causes that may come out differently on a less busy machine: such a grade may be run again for the same bytes."""


@dataclass(frozen=True)
class Receipt:
    """Proof that a submission is stored."""

    submission_id: int
    sha256: str
    attempt: int
    """1 for the first time these bytes were handed in."""
    at: datetime


def settled(report: Report) -> bool:
    """Whether grading the same bytes again could not say anything else."""
    return all(task.verdict != "ungraded" and task.cause not in UNSETTLED for task in report.tasks)


def _patience(url: URL) -> dict[str, Any]:
    """The settings by which a server or a lock that is not to be had is given up on."""
    if url.get_backend_name() == "sqlite":
        return {"connect_args": {"timeout": BUSY_SECONDS}}
    if url.get_backend_name() != "postgresql":
        return {}
    wanted: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS}
    if "options" not in url.query:
        wanted["options"] = f"-c lock_timeout={int(BUSY_SECONDS * 1000)} -c timezone=UTC"
    # A connection from before the server restarted is noticed and replaced.
    return {"connect_args": wanted, "pool_pre_ping": True}


def _configure_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, so that a migration is one transaction too
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA synchronous = FULL")  # in WAL mode only FULL syncs at every commit
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at its start: it waits its turn instead of failing half-way.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")


def _write_ahead(driver: sqlite3.Connection) -> None:
    """Put the file into write-ahead mode; waits for its lock, which SQLite itself does not do for this one change."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            if driver.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                driver.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)


class Gradebook:
    """One gradebook. Use `open_gradebook`.

    Raises
    ------
    GradebookError
        From every method, in one line, when the database or its disk does not play along.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.where = shown(url)
        try:
            parsed = make_url(url)
            is_sqlite = parsed.get_backend_name() == "sqlite"
            if is_sqlite and not parsed.database:
                raise GradebookError(
                    "gradebook: an SQLite gradebook needs a file; give sqlite:////path/to/gradebook.sqlite."
                )
            self.engine = create_engine(url, **_patience(parsed))
        except (ArgumentError, ImportError) as error:
            raise GradebookError(
                f"gradebook {self.where}: the address is not understood or its driver is missing: {error}."
            ) from error
        self._writer = self.engine.execution_options(writes=True)
        try:
            with one_line(url, "open it"):
                if is_sqlite:
                    self._prepare_sqlite(Path(str(parsed.database)))
                schema.prepare(self._writer, self.where)
        except BaseException:
            self.engine.dispose()
            raise

    def _prepare_sqlite(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():  # others on the machine must not read what learners hand in
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        _configure_sqlite(self.engine)
        with self.engine.connect() as connection:
            driver = connection.connection.driver_connection
            if driver is None:
                raise GradebookError(f"gradebook {self.where}: no connection.")
            connection.rollback()  # the mode can't change inside a transaction
            _write_ahead(driver)

    def close(self) -> None:
        self.engine.dispose()

    def __enter__(self) -> Gradebook:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def reading(self, doing: str = "read it") -> Iterator[Session]:
        with one_line(self.url, doing), Session(self.engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def writing(self, doing: str) -> Iterator[Session]:
        with one_line(self.url, doing), Session(self._writer, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def deciding(self, doing: str) -> Iterator[Session]:
        """Write, one at a time: each change is made on what the one before it left, and the audit is in that order."""
        with self.writing(doing) as session:
            if self.engine.dialect.name == "postgresql":  # SQLite has one writer anyway
                session.execute(select(func.pg_advisory_xact_lock(_DECISION_LOCK)))
            yield session

    def submit(self, data: bytes, *, lab: str, learner: str, filename: str, source: str) -> Receipt:
        """Store `data` as a submission of `learner` for `lab`. When this returns, it is on the disk.

        The same bytes handed in again are the same submission with one more attempt.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        moment = now()
        with self.writing("store the submission") as session:
            learner_id = self._once(session, Learner, {"name": learner}, since=moment)
            if session.get(Content, sha256) is None:
                self._once(session, Content, {"sha256": sha256}, size=len(data), data=data, stored_at=moment)
            submission_id = self._once(
                session, Submission, {"learner_id": learner_id, "lab": lab, "sha256": sha256}, stored_at=moment
            )
            session.add(Attempt(submission_id=submission_id, at=moment, filename=printable(filename), source=source))
            session.flush()
            count = session.scalar(select(func.count()).where(Attempt.submission_id == submission_id)) or 1
        return Receipt(submission_id, sha256, count, moment)

    @staticmethod
    def _once(session: Session, model: Any, key: dict[str, Any], **more: Any) -> Any:
        """The primary key of the row with `key`, added if it is not there; another process may add it meanwhile."""
        primary = next(iter(model.__table__.primary_key.columns))
        wanted = select(primary).where(*(getattr(model, name) == value for name, value in key.items()))
        row = session.scalar(wanted)
        if row is not None:
            return row
        try:
            with session.begin_nested():
                session.execute(insert(model).values(**key, **more))
        except IntegrityError:  # on PostgreSQL two writers can both have found nothing
            pass
        return session.scalars(wanted).one()

    def record(self, submission_id: int, report: Report) -> int:
        """Attach `report` to a submission; returns the grade's number.

        A settled grade for the same spec version and mode stands: the report is then not recorded again.
        """
        with self.writing("record the grade") as session:
            return self.record_in(session, submission_id, report)

    def record_in(self, session: Session, submission_id: int, report: Report) -> int:
        """As `record`, in a transaction that is open and writes more."""
        submission = session.get(Submission, submission_id, with_for_update=True)
        if submission is None:
            raise GradebookError(f"gradebook {self.where}: there is no submission {submission_id} to grade.")
        if submission.sha256 != report.sha256:
            raise GradebookError(
                f"gradebook {self.where}: submission {submission_id} has other bytes than the report is about."
            )
        before = session.scalars(
            select(Grade)
            .where(
                Grade.submission_id == submission_id,
                Grade.spec_version == report.spec_version,
                Grade.mode == report.mode,
            )
            .order_by(Grade.run)
        ).all()
        if before and before[-1].settled:
            return before[-1].id
        grade = Grade(
            submission_id=submission_id,
            spec_version=report.spec_version,
            mode=report.mode,
            run=len(before) + 1,
            points=report.points,
            max_points=report.max_points,
            full_marks=report.nothing_lost,
            settled=settled(report),
            graded_at=datetime.fromisoformat(report.graded_at) if report.graded_at else now(),
            report=report.to_json(),
        )
        session.add(grade)
        session.flush()
        session.add_all(
            TaskGrade(
                grade_id=grade.id,
                position=position,
                task=task.name,
                verdict=task.verdict,
                cause=task.cause,
                points=task.points,
                max_points=task.max_points,
                diagnosis=printable(task.diagnosis[0]) if task.diagnosis else "",
            )
            for position, task in enumerate(report.tasks)
        )
        if any(task.verdict == "pending" for task in report.tasks):
            from autograder.gradebook.written import carry  # which reads marks, and these this store

            carry(session, submission, report)
        return grade.id

    def standing(self, submission_id: int, spec_version: str, mode: str) -> Report | None:
        """The settled report on a submission, if there is one for this spec version and mode."""
        with self.reading() as session:
            text = session.scalar(
                select(Grade.report)
                .where(
                    Grade.submission_id == submission_id,
                    Grade.spec_version == spec_version,
                    Grade.mode == mode,
                    Grade.settled,
                )
                .order_by(Grade.run.desc())
                .limit(1)
            )
        return Report.from_json(text) if text is not None else None


def open_gradebook(where: str | os.PathLike[str] | None = None) -> Gradebook:
    """The gradebook at `where` (an address or a file; by default the user's own), with its tables up to date."""
    return Gradebook(place.url_of(where))
