"""``python -m benchmarks.gradebook [URL]``: how long the gradebook of a large class takes to open and to export.

1,000 learners with 18 labs, two submissions for each, 4 tasks a grade; deadlines, late rules, extensions and
adjustments. In a file, or at the address that is given, which must be an empty database. Medians of several runs;
those of a file are written to ``benchmarks/results/``.
"""

from __future__ import annotations

import hashlib
import io
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import insert

from autograder.gradebook import decisions, open_gradebook
from autograder.gradebook.export import marks_csv, tasks_csv
from autograder.gradebook.models import (
    Adjustment,
    Attempt,
    Content,
    Extension,
    Grade,
    Learner,
    Submission,
    TaskGrade,
)
from autograder.gradebook.policy import LateRule
from autograder.gradebook.scores import sheet
from autograder.gradebook.statistics import of_lab
from autograder.gradebook.store import Gradebook
from autograder.web import classes, views
from benchmarks.machine import machine, written

LEARNERS, LABS, EACH, TASKS = 1000, 18, 2, 4
DUE = datetime(2026, 10, 5, 21, 59, tzinfo=UTC)
NAMES = [f"lab{number:02}" for number in range(1, LABS + 1)]


def fill(book: Gradebook) -> None:
    """Write the class, as its submissions and grades would have left it."""
    draw = random.Random(20261005)
    submissions, contents, attempts, grades, tasks = [], [], [], [], []
    key = 0
    for person in range(1, LEARNERS + 1):
        for lab in NAMES:
            for _ in range(EACH):
                key += 1
                at = DUE + timedelta(hours=draw.gauss(-20, 20))
                data = f"{key}".encode()
                sha256 = hashlib.sha256(data).hexdigest()
                points = [draw.choice([0.0, 1.0, 2.5]) for _ in range(TASKS)]
                contents.append({"sha256": sha256, "size": len(data), "data": data, "stored_at": at})
                submissions.append({"id": key, "learner_id": person, "lab": lab, "sha256": sha256, "stored_at": at})
                attempts.append({"id": key, "submission_id": key, "at": at, "filename": f"{lab}.ipynb", "source": "x"})
                grades.append(
                    {
                        "id": key,
                        "submission_id": key,
                        "spec_version": "one",
                        "mode": "official",
                        "run": 1,
                        "points": sum(points),
                        "max_points": 2.5 * TASKS,
                        "full_marks": sum(points) == 2.5 * TASKS,
                        "settled": True,
                        "graded_at": at,
                        "report": '{"tasks": []}',
                    }
                )
                tasks += [
                    {
                        "grade_id": key,
                        "position": position,
                        "task": f"task{position}",
                        "verdict": "right" if value == 2.5 else "wrong",
                        "cause": "value",
                        "points": value,
                        "max_points": 2.5,
                        "diagnosis": "" if value == 2.5 else f"Kind {draw.randrange(9)}. And its details.",
                    }
                    for position, value in enumerate(points)
                ]
    for lab in NAMES:
        decisions.assign(book, lab, by="bench", due=DUE, late=LateRule.parse("10%/day max 50%"), points=10.0)
    with book.writing("fill it") as session:
        learners = [{"id": one, "name": f"learner{one:04}"} for one in range(1, LEARNERS + 1)]
        extensions = [
            {"learner_id": draw.randrange(1, LEARNERS + 1), "lab": lab, "until": DUE + timedelta(days=2)}
            for lab in NAMES
        ]
        adjustments = [
            {"learner_id": draw.randrange(1, LEARNERS + 1), "lab": lab, "points": 1.0, "replaces": False}
            | {"reason": "x", "by": "bench"}
            for lab in NAMES * 5
        ]
        for table, rows in (
            (Learner, learners),
            (Content, contents),
            (Submission, submissions),
            (Attempt, attempts),
            (Grade, grades),
            (TaskGrade, tasks),
            (Extension, extensions),
            (Adjustment, adjustments),
        ):
            session.execute(insert(table), rows)


def measured(call: Callable[[], object], repeats: int = 5) -> float:
    """The median of the seconds it takes."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def opened(address: str) -> None:
    """What the page of the class reads, from nothing open."""
    with open_gradebook(address) as book:
        if len(sheet(book).marks) != LEARNERS * LABS:
            raise SystemExit("benchmarks: marks are missing")


def shown(address: str) -> None:
    """The page of the class as an instructor gets it: the table of labs, and one page of the learners' marks."""
    with open_gradebook(address) as book:
        found = classes.overview(book, 1, "", open_by_default=False)
    said = {"token": "", "teaches": True, "said": "", "fault": "", "typed": {}, "here": ""}
    page = views.render("class/overview.html", views.Links("/", "/lab", "/book/"), **said, **found)
    if page.count("<tr>") < LABS + classes.A_PAGE:
        raise SystemExit("benchmarks: rows are missing")


def measure(address: str) -> list[tuple[str, float, str]]:
    """What was measured, in seconds, and the goal."""
    with open_gradebook(address) as book:
        fill(book)
    with open_gradebook(address) as book:
        return [
            ("opens: every mark of 1,000 learners x 18 labs", measured(lambda: opened(address)), "<= 1 s"),
            ("the page of the class, whole", measured(lambda: shown(address)), "<= 1 s"),
            ("exports all marks as CSV", measured(lambda: marks_csv(book, io.StringIO())), "<= 3 s"),
            ("exports one lab task by task", measured(lambda: tasks_csv(book, io.StringIO(), lab=NAMES[3])), ""),
            ("statistics of one lab", measured(lambda: of_lab(book, NAMES[3])), ""),
        ]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        rows = measure(sys.argv[1] if len(sys.argv) > 1 else str(Path(home, "gradebook.sqlite")))
    lines = [f"`python -m benchmarks.gradebook` on {machine()}; medians.", ""]
    lines += ["| what | measured | goal |", "|---|---|---|"]
    lines += [f"| {what} | {seconds:.2f} s | {goal} |" for what, seconds, goal in rows]
    print("\n".join(lines))
    if len(sys.argv) < 2:  # what another database gives is only shown
        written("gradebook", lines, {"rows": rows})


if __name__ == "__main__":
    main()
