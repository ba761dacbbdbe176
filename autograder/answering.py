"""What the warm process answers: one check, or one submission. Runs in a child of its own."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy.random  # noqa: F401  the children share it

from autograder import grade, notebook, sandbox, slicing, spec
from autograder.feedback import html, terminal
from autograder.report import Report

Reply = Callable[[dict[str, Any]], None]


def import_everything() -> None:
    """Load what a check needs and this module does not import by itself: strategies, specs, templates."""
    import hypothesis.extra.numpy  # noqa: F401  the children share it

    for name in spec.lab_names():
        lab = spec.load_lab(name)
        spec.driver_source(lab)
        for task in lab.tasks:
            task.strategy()
    sandbox.best(mode="practice")
    empty = Report("", "", "", "practice", "", "", 0, "")
    html.fragment(empty)
    terminal.brief(empty)


def answer(request: dict[str, Any], reply: Reply) -> None:
    """Answer one request: any number of progress replies, then one with a report or an error in words."""
    try:
        if request.get("do") == "check":
            reply(check(request, lambda sentence: reply({"progress": sentence})))
        elif request.get("do") == "submit":
            from autograder import submission

            reply(submission.answer(request, reply))
        else:
            reply({"error": "The checker does not know this request."})
    except (grade.GradeError, notebook.NotebookError, ValueError) as error:
        reply({"error": str(error)})


def check(request: dict[str, Any], progress: Callable[[str], None]) -> dict[str, Any]:
    """Grade the tasks asked for on the cells that the kernel has run."""
    history = [slicing.Executed(number, source, succeeded) for number, source, succeeded in request["cells"]]
    saved = read_saved(request["file"])
    names: list[str] = request["tasks"]
    lab = find_lab(request["lab"] or (saved.lab if saved else ""), names)
    tasks = [lab.task(name) for name in names] or list(lab.tasks)
    cells, unbound = cells_for(lab, [task.name for task in tasks], history, saved)
    digest = hashlib.sha256("\0".join(cell.source for cell in cells).encode(errors="replace")).hexdigest()
    taken = notebook.Notebook(cells, lab.name, digest)
    grader = grade.Grader(mode="practice", progress=progress)
    report = grader.grade_notebook(taken, os.path.basename(request["file"]), lab, [task.name for task in tasks])
    add_unbound(report, unbound, request["defined"])
    if note := sandbox_note():
        report.notes.append(note)
    return {"report": report.to_json(), "html": html.fragment(report), "text": terminal.brief(report)}


def read_saved(file: str) -> notebook.Notebook | None:
    """The notebook on the disk, for its tags and its lab's name; a check works without it."""
    if not file:
        return None
    try:
        return notebook.read_notebook(file)
    except notebook.NotebookError:
        return None


def find_lab(named: str, tasks: Sequence[str]) -> spec.Lab:
    """The lab that is named, or the one that has these tasks."""
    if named:
        return spec.load_lab(named)
    labs = [spec.load_lab(name) for name in spec.lab_names()]
    having = [lab for lab in labs if set(tasks) <= {task.name for task in lab.tasks}] if tasks else labs
    if len(having) == 1:
        return having[0]
    asked = " and ".join(repr(task) for task in tasks)
    if having:
        raise ValueError(
            f"{', '.join(lab.name for lab in having)} could be meant; say which: check({asked or ''}, lab=...)."
        )
    known = "; ".join(f"{lab.name}: {', '.join(task.name for task in lab.tasks)}" for lab in labs)
    raise ValueError(f"no lab has a task {asked}. The tasks are {known}.")


def cells_for(
    lab: spec.Lab, tasks: Sequence[str], history: Sequence[slicing.Executed], saved: notebook.Notebook | None
) -> tuple[list[notebook.Cell], set[str]]:
    """The cells that the tasks need, in the order they ran, and the names that no cell binds."""
    passed_over = {cell.source.strip() for cell in saved.cells if cell.skip} if saved else set()
    names = [name for task in tasks for name in lab.task(task).names]
    found = slicing.cut([cell for cell in history if cell.source.strip() not in passed_over], names)
    cells = [notebook.make_cell(cell.number, cell.source) for cell in found.cells]
    # A check at the end, so that everything that was taken runs before the names are looked at.
    end = max((cell.number for cell in history), default=0) + 1
    closing = "from autograder import check\n" + "\n".join(f"check({task!r})" for task in tasks)
    return [*cells, notebook.make_cell(end, closing)], found.unbound


def add_unbound(report: Report, unbound: set[str], defined: Sequence[str]) -> None:
    """Where the kernel knows a name that no cell binds, say why the check can't see it."""
    hidden = sorted(unbound & set(defined))
    if hidden and not report.full_marks:
        them = ", ".join(f"`{name}`" for name in hidden)
        report.notes.append(
            f"{them} exists in this kernel, but no cell that ran here binds it: define it in a cell of this notebook."
        )


def sandbox_note() -> str:
    """Said when practice runs in a sandbox that official grading would refuse."""
    try:
        sandbox.best(mode="official")
    except sandbox.SandboxUnavailable as error:
        return f"This machine's sandbox is only partly proven: enough for practice, not for official grading. {error}"
    return ""
