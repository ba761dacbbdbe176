"""What the grading service does for a learner, without HTTP: hand out labs, take in notebooks, answer checks."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import exists, select

from autograder import queue, spec, submission, warm
from autograder.feedback import Feedback, words
from autograder.feedback.catalogue import language, say
from autograder.gradebook import Gradebook, GradebookError, decided, decisions, open_gradebook, queries, roster
from autograder.gradebook.models import Grade, Job, Submission, now
from autograder.gradebook.store import settled
from autograder.notebook import MAX_BYTES
from autograder.queue import JobView
from autograder.web import views

MAX_BODY = MAX_BYTES * 4 // 3 + (4 << 20)
"""Bytes of a request: a notebook in base64, and the cells of its kernel."""
MAX_CHECK = 8 << 20


class Refused(Exception):
    """What a learner asked for is not done, in words, with the HTTP status that says so."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


class Allowance:
    """So many of a thing in a time for each person; what was not used comes back evenly.

    Parameters
    ----------
    count : int
        At most so many at once.
    seconds : float
        In which as many come back.
    """

    def __init__(self, count: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.count, self.seconds, self.clock = count, seconds, clock
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, name: str) -> float:
        """Take one. 0, or the seconds until there is one again."""
        with self._lock:
            moment = self.clock()
            left, since = self._left.get(name, (float(self.count), moment))
            left = min(float(self.count), left + (moment - since) * self.count / self.seconds)
            if left < 1:
                self._left[name] = (left, moment)
                return (1 - left) * self.seconds / self.count
            self._left[name] = (left - 1, moment)
            return 0.0


class Desk:
    """The grading service's work, for any number of learners at once.

    Parameters
    ----------
    gradebook : str
        Address or file.
    labs : Path
        The folder of the released notebooks.
    checks_at_once : int
        Checks that run side by side; others wait for their turn.
    """

    def __init__(self, gradebook: str, labs: Path, *, checks_at_once: int = 2) -> None:
        self.where, self.labs = gradebook, labs
        self._book: Gradebook | None = None
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(checks_at_once)
        self._checking: set[str] = set()
        self.submissions = Allowance(30, 600.0)
        self.checks = Allowance(60, 60.0)

    @property
    def book(self) -> Gradebook:
        """The gradebook, opened once; a fault in opening it is tried again the next time."""
        with self._lock:
            if self._book is None:
                self._book = open_gradebook(self.where)
            return self._book

    # --- labs -------------------------------------------------------------------------------------

    def released(self) -> list[str]:
        """The labs that learners may have now: those with a notebook that an instructor has released."""
        terms = decisions.assignments(self.book)
        there = [name for name in spec.lab_names() if (self.labs / f"{name}.ipynb").is_file()]
        return [name for name in there if decided.is_out(terms.get(name))]

    def list(self) -> list[dict[str, Any]]:
        """Name, title and version of each released lab."""
        found = []
        for name in self.released():
            version = hashlib.sha256((self.labs / f"{name}.ipynb").read_bytes()).hexdigest()
            found.append({"name": name, "title": spec.load_lab(name).title, "version": version})
        return found

    def notebook(self, name: str) -> bytes:
        """The learners' notebook of a released lab."""
        if name not in self.released():
            raise Refused(404, say("hub.no_lab", lab=name))
        return (self.labs / f"{name}.ipynb").read_bytes()

    # --- handing in -------------------------------------------------------------------------------

    def take(self, learner: str, request: dict[str, Any]) -> dict[str, Any]:
        """Store a notebook, then put it into the queue. When this returns, it is on the disk.

        Parameters
        ----------
        request : dict
            ``filename``, ``notebook`` (base64), and where known ``lab`` and ``cells`` (what the kernel has run).
        """
        if wait := self.submissions.take(learner):
            raise Refused(429, say("hub.often", count=round(wait)))
        name = Path(text(request, "filename", "notebook.ipynb")).name[:200] or "notebook.ipynb"
        try:
            data = base64.b64decode(text(request, "notebook"), validate=True)
        except (binascii.Error, ValueError):
            raise Refused(400, say("hub.not_whole")) from None
        if len(data) > MAX_BYTES:
            raise Refused(413, say("hub.too_large", file=name, size=MAX_BYTES >> 20))
        try:
            parsed = submission.parse(data, name)
            lab = submission.which_lab(parsed, text(request, "lab", "") or None, name)
            submission.refuse_stale(parsed, lab, cells_of(request), name)
        except submission.SubmissionError as error:
            raise Refused(400, str(error)) from None
        person = roster.person(self.book, learner)
        if person is not None and person.left_at is not None:
            raise Refused(403, say("hub.left"))
        staff = person is not None and {"instructor", "grader"} & set(person.roles)
        if not staff and not decided.is_out(decisions.assignments(self.book).get(lab.name)):
            raise Refused(403, say("hub.not_released", lab=lab.name))
        receipt = self.book.submit(data, lab=lab.name, learner=learner, filename=name, source="hub")
        key = "handing_in.stored" if receipt.attempt == 1 else "handing_in.stored_again"
        line = say(key, file=name, id=receipt.submission_id, lab=lab.name, attempt=receipt.attempt)
        try:
            queue.enqueue(self.book, receipt.submission_id, reason="handed in")
        except GradebookError:
            line += " " + say("hub.graded_later")  # `catch_up` finds it
        return {"submission": receipt.submission_id, "line": line, "lab": lab.name}

    def catch_up(self) -> int:
        """Put what is stored, but neither graded nor in the queue, into it; how many there were.

        That is so where the service or the database stopped between the two.
        """
        graded = exists().where(Grade.submission_id == Submission.id)
        queued = exists().where(Job.submission_id == Submission.id)
        with self.book.reading() as session:
            found = list(session.scalars(select(Submission.id).where(~graded, ~queued).order_by(Submission.id)))
        done = 0
        for number in found:
            with contextlib.suppress(GradebookError):  # of a lab that is no more
                queue.enqueue(self.book, number, reason="handed in")
                done += 1
        return done

    def state(self, learner: str, number: int, page: str) -> dict[str, Any]:
        """Where a submission stands: its job's state, and the feedback once there is a grade."""
        one = queries.submission(self.book, number)
        if one is None or one.learner != learner:
            raise Refused(404, say("refusal.no_submission", number=number))
        terms = decisions.assignments(self.book).get(one.lab)
        if terms is not None and terms.results is not None and not decided.results_are_out(terms):
            withheld = say("refusal.not_shown", number=number, when=views.when(terms.results))
            return {"submission": number, "state": "withheld", "words": withheld}
        waiting = queue.job_of(self.book, number)
        report = queries.report(self.book, number)  # in this order: what is done has a grade
        if report is None or (waiting is not None and waiting.state in ("waiting", "leased") and not settled(report)):
            return {"submission": number, "state": waiting.state if waiting else "waiting", "words": in_words(waiting)}
        line = say("handing_in.stored", file=one.filename, id=number, lab=one.lab)
        shown = Feedback(report, before=line, link=page, label=say("pages.labs_and_grades"))
        return {
            "submission": number,
            "state": "graded",
            "words": words.points(report.points, report.max_points),
            "report": report.to_json(),
            "html": shown._repr_html_(),
            "text": repr(shown),
        }

    # --- instant checks ---------------------------------------------------------------------------

    def check(self, learner: str, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ``check("task")``: the cells that a kernel ran go into a sandbox here, and the feedback comes back."""
        if wait := self.checks.take(learner):
            raise Refused(429, say("hub.often_check", count=round(wait)))
        tasks = request.get("tasks", [])
        defined = request.get("defined", [])
        if not (is_texts(tasks) and is_texts(defined)):
            raise Refused(400, say("hub.check_not_understood"))
        with self._alone(learner), saved_as(text(request, "skeleton", ""), text(request, "filename", "")) as file:
            asked = {"do": "check", "tasks": tasks, "lab": text(request, "lab", ""), "file": file}
            asked |= {"cells": cells_of(request), "defined": defined, "language": language(), "learner": learner}
            with self._turns:
                *_, reply = warm.ask(asked)  # the last one is the answer
        return {name: reply[name] for name in ("report", "html", "text", "error") if name in reply}

    @contextlib.contextmanager
    def _alone(self, learner: str) -> Iterator[None]:
        """One check of a learner at a time: a loop in one notebook does not take the others' turns."""
        with self._lock:
            if learner in self._checking:
                raise Refused(429, say("hub.another_check"))
            self._checking.add(learner)
        try:
            yield
        finally:
            with self._lock:
                self._checking.discard(learner)


def in_words(job: JobView | None) -> str:
    """What a learner who waits is told."""
    if job is None:
        return say("hub.waits")
    if job.state == "leased":
        return say("waiting.running")
    if job.state == "parked":
        return say("hub.parked", fault=job.fault) if job.fault else say("hub.set_aside")
    if job.not_before is not None and job.not_before > now():
        return say("hub.graded_after", when=_clock(job.not_before))
    return say("waiting.place", count=(job.ahead or 0) + 1)


def _clock(moment: datetime) -> str:
    return moment.strftime("%H:%M")


def text(request: dict[str, Any], name: str, default: str | None = None) -> str:
    value = request.get(name, default)
    if not isinstance(value, str):
        raise Refused(400, f"The request's {name!r} is missing or no text.")
    return value


def is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def cells_of(request: dict[str, Any]) -> list[list[Any]]:
    """(number, source, ran to its end) of each cell, exactly so."""
    cells = request.get("cells", [])
    if isinstance(cells, list) and all(
        isinstance(cell, list) and len(cell) == 3 and type(cell[0]) is int and isinstance(cell[1], str)
        and type(cell[2]) is bool
        for cell in cells
    ):  # fmt: skip
        return cells
    raise Refused(400, say("hub.cells_not_whole"))


@contextlib.contextmanager
def saved_as(skeleton: str, filename: str) -> Iterator[str]:
    """A file with the notebook's skeleton (its lab and its cells' tags), for as long as a check needs it; or ""."""
    if not skeleton:
        yield ""
        return
    try:
        json.loads(skeleton)
    except ValueError:
        raise Refused(400, say("hub.not_saved_whole")) from None
    name = Path(filename).name
    if not (name.endswith(".ipynb") and len(name) < 100 and name.isprintable()):
        name = "notebook.ipynb"
    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        file = Path(folder, name)
        file.write_text(skeleton, encoding="utf-8")
        yield str(file)
