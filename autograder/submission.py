"""Handing in: the file is stored first, then graded, then shown.

A module of another name than `submit`, so that ``autograder.submit`` stays the function that notebooks import.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.feedback.catalogue import language, say

if TYPE_CHECKING:
    from autograder.gradebook import Gradebook
    from autograder.gradebook.store import Receipt
    from autograder.notebook import Notebook
    from autograder.report import Report
    from autograder.spec import Lab

Tell = Callable[[str], None]


class SubmissionError(RuntimeError):
    """Why nothing was handed in, in one line, and where what was to be handed in can be found."""


@dataclass(frozen=True)
class Submitted:
    """What came of handing in. True if and only if it earned full marks, but for what a person has yet to read.

    `report` is None where it is stored but could not be graded; `reason` then says why.
    """

    submission_id: int
    line: str
    report: Report | None = None
    reason: str = ""

    def __bool__(self) -> bool:
        return self.report is not None and self.report.nothing_lost


@dataclass(frozen=True)
class Stored:
    """The first half of handing in."""

    receipt: Receipt
    lab: Lab
    filename: str
    data: bytes
    line: str
    learner: str = ""


def submit_file(
    path: str | os.PathLike[str],
    lab: str | None = None,
    gradebook: str | None = None,
    *,
    learner: str | None = None,
    say: Tell | None = None,
    progress: Tell | None = None,
) -> Submitted:
    """Store a notebook file in the gradebook, then grade it.

    Parameters
    ----------
    path : path of an ``.ipynb`` file
    lab : str, optional
        By default, what the notebook says.
    gradebook : str, optional
        Address or file; by default the user's own.
    say, progress : callable, optional
        Told, in a sentence, that it is stored, and what is waited for.

    Raises
    ------
    SubmissionError
        It was not stored.
    """
    from autograder.gradebook import GradebookError

    with open_book(Path(path), gradebook) as book:
        stored = store(book, Path(path), lab, learner, "command line")
        if say:
            say(stored.line)
        try:
            report, reason = grade_stored(book, stored, progress)
        except GradebookError as error:
            report, reason = None, str(error)
    return Submitted(stored.receipt.submission_id, stored.line, report, reason)


@contextlib.contextmanager
def open_book(path: Path, where: str | None) -> Iterator[Gradebook]:
    """The gradebook; where it can't be opened, the file is kept elsewhere and the fault says where."""
    from autograder.gradebook import GradebookError, open_gradebook

    try:
        book = open_gradebook(where)
    except GradebookError as error:
        raise not_recorded(error, read(path), path.name) from error
    with book:
        yield book


def store(book: Gradebook, path: Path, lab: str | None, learner: str | None, source: str) -> Stored:
    """Put the file's bytes into the gradebook. When this returns they are on the disk."""
    from autograder.gradebook import GradebookError, place

    data = read(path)
    parsed = parse(data, path.name)
    chosen = which_lab(parsed, lab, path.name)
    who = learner or place.learner_name()
    try:
        receipt = book.submit(data, lab=chosen.name, learner=who, filename=path.name, source=source)
    except GradebookError as error:
        raise not_recorded(error, data, path.name) from error
    key = "handing_in.stored" if receipt.attempt == 1 else "handing_in.stored_again"
    line = say(key, file=path.name, id=receipt.submission_id, lab=chosen.name, attempt=receipt.attempt)
    return Stored(receipt, chosen, path.name, data, line, who)


def grade_stored(book: Gradebook, stored: Stored, progress: Tell | None = None) -> tuple[Report | None, str]:
    """The report on a stored submission, recorded; or None and why there is none.

    Graded officially where this machine's sandbox is proven, in practice mode where it is not.
    """
    from autograder import grade, sandbox

    try:
        sandbox.best(mode="official")
        mode: grade.Mode = "official"
    except sandbox.SandboxUnavailable:
        mode = "practice"
    from autograder.gradebook.written import marked

    number = stored.receipt.submission_id
    standing = book.standing(number, stored.lab.version, mode)
    if standing is not None:
        return marked(book, number, standing), ""
    try:
        grader = grade.Grader(mode=mode, progress=progress)
        report = grade.grade_bytes(stored.data, stored.filename, stored.lab, grader=grader, learner=stored.learner)
    except grade.GradeError as error:
        return None, str(error)
    book.record(number, report)
    return marked(book, number, report), ""


def read(path: Path) -> bytes:
    """The bytes of the file.

    Raises
    ------
    SubmissionError
        It can't be read, or is too large for a notebook.
    """
    from autograder.notebook import NotebookError, read_bytes

    try:
        return read_bytes(path)
    except NotebookError as error:
        raise SubmissionError(say("handing_in.nothing", fault=error)) from None


def parse(data: bytes, name: str) -> Notebook:
    from autograder.notebook import NotebookError, parse_notebook

    try:
        return parse_notebook(data, name)
    except NotebookError as error:
        raise SubmissionError(say("handing_in.nothing", fault=error)) from error


def which_lab(parsed: Notebook, lab: str | None, name: str) -> Lab:
    from autograder.grade import GradeError, find_lab, named_lab

    try:
        return find_lab(parsed, named_lab(lab))
    except (GradeError, ValueError) as error:
        raise SubmissionError(say("handing_in.nothing", fault=f"{name}: {error}")) from error


def not_recorded(error: Exception, data: bytes, name: str) -> SubmissionError:
    """The fault of the gradebook, and where the bytes were kept in its place."""
    kept = keep(data, name)
    where = say("handing_in.kept", place=kept) if kept else say("handing_in.not_kept")
    return SubmissionError(say("handing_in.not_recorded", fault=error, where=where))


def keep(data: bytes, name: str) -> Path | None:
    """Write the bytes where they can be written: beside the gradebook, else in the temporary folder."""
    from autograder.gradebook import home

    digest = hashlib.sha256(data).hexdigest()[:12]
    for folder in (home() / "kept", Path(tempfile.gettempdir()) / f"autograder-kept-{os.getuid()}"):
        target = folder / f"{Path(name).stem}-{digest}.ipynb"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _ours_alone(folder):
                continue
            with open(target, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                target.unlink(missing_ok=True)
            continue
        return target
    return None


def _ours_alone(folder: Path) -> bool:
    """Whether nobody else can read or plant files there: in a temporary folder, others may have made it first."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


# --- from a notebook ------------------------------------------------------------------------------


def submit(path: str | None = None, *, lab: str | None = None, as_saved: bool = False) -> Any:
    """Hand in this notebook, as it is saved on the disk.

    Parameters
    ----------
    path : str, optional
        The file, where it can't be found out, or to hand in another.
    lab : str, optional
        The lab, where the notebook does not say it.
    as_saved : bool
        Hand in the file even where it lacks something this kernel has run.

    Returns
    -------
    Checked
        Shows where it is stored and the feedback; true if and only if it earned full marks.
    """
    from autograder import practice, remote, warm

    shell = practice.notebook_shell()
    if shell is None and path is None:
        return practice.Checked(message=say("handing_in.no_notebook"))
    found = str(path) if path is not None else practice.notebook_file(shell.user_ns)
    if not found:
        return practice.Checked(message=say("handing_in.no_file"))
    request = {
        "do": "submit",
        "language": language(),
        "file": os.path.abspath(found),
        "lab": lab or "",
        "home": os.environ.get("AUTOGRADER_HOME", ""),
        "cells": [] if shell is None or as_saved else [list(cell) for cell in practice.executed(shell)],
    }
    if remote.address():
        return _submit_to_class(request)
    line = ""
    try:
        with practice.Waiting() as waiting:
            for reply in warm.ask(request, waiting.say):
                line = reply.get("stored", line)
                if "progress" in reply:
                    waiting.say(reply["progress"])
    except warm.WarmError as error:
        if line:
            return practice.Checked(message=say("handing_in.not_graded", line=line, fault=error))
        return practice.Checked(message=say("handing_in.not_known", fault=error))
    if "error" in reply:
        return practice.Checked(message=reply["error"])
    from autograder.report import Report

    return practice.Checked(report=Report.from_json(reply["report"]), html=reply["html"], text=reply["text"])


def _submit_to_class(request: dict[str, Any]) -> Any:
    """`submit` on a hub: the class's service stores it and has it graded, and the notebook waits for the feedback."""
    from autograder import practice, remote
    from autograder.report import Report

    try:
        with practice.Waiting() as waiting:
            taken = remote.hand_in(request["file"], request["lab"], request["cells"])
            state = remote.graded(taken["submission"], waiting.say)
    except remote.RemoteError as error:
        return practice.Checked(message=str(error))
    if state["state"] != "graded":
        return practice.Checked(message=f"{taken['line']} {state['words']} Its page: {taken['page']}")
    return practice.Checked(report=Report.from_json(state["report"]), html=state["html"], text=state["text"])


def answer(request: dict[str, Any], reply: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """The warm process's side of `submit`: store, tell, grade, record, show."""
    from autograder.feedback import Feedback
    from autograder.gradebook import GradebookError

    # This process serves notebooks with different settings; a child may change its own environment.
    os.environ.pop("AUTOGRADER_HOME", None)
    if request["home"]:
        os.environ["AUTOGRADER_HOME"] = request["home"]
    path = Path(request["file"])
    try:
        check_saved(path, request)
        with open_book(path, None) as book:
            stored = store(book, path, request["lab"] or None, None, "notebook")
            reply({"stored": stored.line})
            report, reason = grade_stored(book, stored, lambda sentence: reply({"progress": sentence}))
    except SubmissionError as error:
        return {"error": str(error)}
    except GradebookError as error:
        return {"error": say("handing_in.grade_not_recorded", line=stored.line, fault=error)}
    if report is None:
        return {"error": say("handing_in.could_not_grade", line=stored.line, fault=reason)}
    base = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/")
    from autograder.feedback import words

    before = f"{stored.line} {words.mode(report, submitted=True)}"
    shown = Feedback(report, before=before, link=f"{base}autograder/", label=say("pages.labs_and_grades"))
    return {"report": report.to_json(), "html": shown._repr_html_(), "text": repr(shown)}


def check_saved(path: Path, request: dict[str, Any]) -> None:
    """Refuse a file that lacks what the notebook's kernel has run."""
    if request["cells"]:
        parsed = parse(read(path), path.name)
        refuse_stale(parsed, which_lab(parsed, request["lab"] or None, path.name), request["cells"], path.name)


def refuse_stale(parsed: Notebook, lab: Lab, cells: list[list[Any]], name: str) -> None:
    """Refuse a notebook that lacks what its kernel has run: (number, source, ran to its end) of each cell.

    Raises
    ------
    SubmissionError
        It says what is missing.
    """
    from autograder import saved, slicing

    stale = saved.missing(parsed, lab, [slicing.Executed(*cell) for cell in cells])
    if stale:
        names = ", ".join(f"`{one}`" for one in stale)
        raise SubmissionError(say("handing_in.save_first", names=names, file=name, count=len(stale)))
