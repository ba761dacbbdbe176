"""What the warm process answers: one check, or one submission. Runs in a child of its own."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy.random  # noqa: F401  the children share it

from autograder import grade, notebook, sandbox, slicing, spec
from autograder.feedback import html, terminal
from autograder.feedback.catalogue import speaking
from autograder.gradebook import place
from autograder.hints import open_hints
from autograder.oracles import OracleError
from autograder.report import Report

Reply = Callable[[dict[str, Any]], None]


class Prepared:
    """Cases with their answers, and a sandbox that has started, before anybody has asked.

    Parameters
    ----------
    lab, task : str
        What will probably be asked for. Its cases are drawn first, then those of the tasks that follow it.
    """

    def __init__(self, lab: str, task: str = "") -> None:
        self.lab = spec.load_lab(lab)
        self.tell: Callable[[str], None] = lambda sentence: None
        self.grader = grade.Grader(mode="practice", progress=self._progress)
        self.box: sandbox.Box | None = sandbox.open(self.lab, kind=sandbox.best(mode="practice"))
        self.asked = False
        names = [one.name for one in self.lab.tasks]
        first = names.index(task) if task in names else 0
        order = self.lab.tasks[first:] + self.lab.tasks[:first]
        threading.Thread(target=self._draw, args=(order,), daemon=True).start()

    def _progress(self, sentence: str) -> None:
        self.tell(sentence)

    def _draw(self, order: Sequence[spec.Task]) -> None:
        # One after another: the likeliest is ready soonest, and a request does not wait for the rest.
        for task in order:
            if self.asked:
                return
            try:
                self.grader.key(self.lab, [task]).cases(task)
            except OracleError:
                continue  # whoever asks for this task will be told

    def take_box(self) -> sandbox.Box | None:
        """The sandbox, once; whoever takes it closes it."""
        box, self.box = self.box, None
        return box

    def close(self) -> None:
        if box := self.take_box():
            box.close()


def import_everything() -> None:
    """Load what a check needs and this module does not import by itself: strategies, specs, templates."""
    import hypothesis.extra.numpy  # noqa: F401  the children share it

    for name in spec.lab_names():
        lab = spec.load_lab(name)
        spec.driver_source(lab)
        for task in lab.tasks:
            task.strategy()
    empty = Report("", "", "", "practice", "", "", 0, "")
    html.fragment(empty)
    terminal.brief(empty)


def likely_lab(file: str) -> str:
    """The lab of the notebook that is being worked on; "" where there is no telling."""
    saved = read_saved(file)
    known = spec.lab_names()
    if saved and saved.lab in known:
        return saved.lab
    return known[0] if len(known) == 1 else ""


def prepare(about: str) -> Prepared | None:
    """Get ready for a check of "lab" or "lab task", if one is likely and a sandbox is there."""
    if not about:
        return None
    try:
        return Prepared(*about.split(" ", 1))
    except (ValueError, sandbox.SandboxUnavailable):
        return None  # the check will say what is wrong


def answer(request: dict[str, Any], reply: Reply, prepared: Prepared | None = None) -> None:
    """Answer one request: any number of progress replies, then one with a report or an error in words."""
    # The asking kernel's language: this process may have been started by another.
    with speaking(request.get("language", "")):
        try:
            if request.get("do") == "check":
                reply(check(request, lambda sentence: reply({"progress": sentence}), prepared))
            elif request.get("do") == "submit":
                from autograder import submission

                reply(submission.answer(request, reply))
            else:
                reply({"error": "The checker does not know this request."})
        except (grade.GradeError, notebook.NotebookError, ValueError) as error:
            reply({"error": str(error)})


def check(request: dict[str, Any], progress: Callable[[str], None], prepared: Prepared | None = None) -> dict[str, Any]:
    """Grade the tasks asked for on the cells that the kernel has run."""
    history = [slicing.Executed(number, source, succeeded) for number, source, succeeded in request["cells"]]
    saved = read_saved(request["file"])
    names: list[str] = request["tasks"]
    lab = find_lab(request["lab"] or (saved.lab if saved else ""), names)
    tasks, written = lab.ask(names) if names else (lab.tasks, ())
    asked = [*(task.name for task in tasks), *(question.name for question in written)]
    cells, unbound = cells_for(lab, [task.name for task in tasks], history, saved)
    digest = hashlib.sha256("\0".join(cell.source for cell in cells).encode(errors="replace")).hexdigest()
    # Markdown cells are not run: what they say is what was saved.
    taken = notebook.Notebook(cells, lab.name, digest, words=saved.words if saved else {})
    if prepared is not None and prepared.lab.name == lab.name:
        prepared.asked, prepared.tell = True, progress
        grader, box = prepared.grader, prepared.take_box()
    else:
        grader, box = grade.Grader(mode="practice", progress=progress), None
    report = grader.grade_notebook(taken, os.path.basename(request["file"]), lab, asked, box)
    learner = request.get("learner") or place.learner_name()
    open_hints(report, lab, taken, learner=learner, folder=place.home() / "hints")
    add_unbound(report, unbound, request["defined"])
    if note := sandbox_note():
        report.notes.append(note)
    return {
        "report": report.to_json(),
        "html": html.fragment(report),
        "text": terminal.brief(report),
        "about": f"{lab.name} {tasks[0].name if tasks else ''}".strip(),
    }


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
    having = [lab for lab in labs if set(tasks) <= {one.name for one in lab.parts}] if tasks else labs
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
    hidden = sorted(unbound & set(defined) - {"check", "submit"})
    if hidden and not report.nothing_lost:
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
