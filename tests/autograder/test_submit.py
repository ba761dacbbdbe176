"""Handing in: stored before anything else, refused when the file is behind, and never lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from classroom_samples import RIGHT, UNGRADED, WRONG, report
from notebook_kernel import ACCUMULATE, RULES, WRONG_RULES, Kernel, write_notebook

from autograder import grade, practice, sandbox, saved, slicing, spec, submission, warm
from autograder.feedback import words
from autograder.gradebook import Gradebook, GradebookError, open_gradebook, queries
from autograder.gradebook.place import learner_name
from autograder.notebook import parse_notebook
from autograder.submission import SubmissionError, submit_file

IMPORTS = "import numpy as np\nfrom autograder import check, submit"


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("AUTOGRADER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def notebook(tmp_path) -> Path:
    return write_notebook(tmp_path / "lab05_tape.ipynb", IMPORTS, RULES, ACCUMULATE)


@pytest.fixture
def graded_as(monkeypatch):
    """Put a report in place of grading, to test what surrounds it."""

    def install(*tasks, fault: str = ""):
        calls = []

        def grade_bytes(raw, name, lab=None, *, grader=None, learner=""):
            calls.append(name)
            assert learner  # whoever handed it in may have inputs of their own
            if fault:
                raise grade.GradeError(fault)
            sha256 = submission.hashlib.sha256(raw).hexdigest()
            return report(*tasks, sha256=sha256, mode=grader.mode, spec_version=lab.version)

        monkeypatch.setattr(grade, "grade_bytes", grade_bytes)
        monkeypatch.setattr(sandbox, "best", lambda mode="official": "bubblewrap")
        return calls

    return install


def test_stored_before_graded_and_shown_in_that_order(home, notebook, graded_as):
    graded_as(RIGHT)
    said: list[str] = []

    def say(line: str) -> None:
        with open_gradebook() as book:
            said.append(f"{line} {queries.counts(book)}")

    done = submit_file(notebook, say=say)
    assert said == ["lab05_tape.ipynb is stored as submission 1 for lab05_tape. (1, 1)"]
    assert done
    with open_gradebook() as book:
        assert queries.notebook(book, done.submission_id) == notebook.read_bytes()
        assert queries.report(book, done.submission_id).mode == "official"


def test_failure_to_grade_keeps_the_submission(home, notebook, graded_as):
    graded_as(fault="the oracle is on fire.")
    done = submit_file(notebook)
    assert not done
    assert "on fire" in done.reason
    with open_gradebook() as book:
        assert queries.counts(book) == (1, 1)


@pytest.mark.slow
def test_settled_submission_is_not_graded_twice_but_an_ungraded_one_is(home, notebook, graded_as):
    calls = graded_as(UNGRADED)
    submit_file(notebook)
    calls = graded_as(WRONG)
    submit_file(notebook)
    again = submit_file(notebook)
    assert len(calls) == 1
    assert "attempt 3" in again.line
    assert again.report.tasks[0].verdict == "wrong"


def test_unproven_sandbox_grades_in_practice_and_says_so(home, notebook, graded_as, monkeypatch):
    graded_as(RIGHT)

    def best(mode="official"):
        raise sandbox.SandboxUnavailable("nothing is proven here.")

    monkeypatch.setattr(sandbox, "best", best)
    done = submit_file(notebook)
    assert done.report.mode == "practice"
    assert "an instructor's machine has the last word" in words.mode(done.report, submitted=True)


def _of_size(path: Path, size: int) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.truncate(descriptor, size)
    return descriptor


BAD = {
    "no such file": (None, "can't be opened"),
    "a pipe that nobody writes to": (os.mkfifo, "not a regular file"),
    "a directory": (os.mkdir, "not a regular file"),
    "a link to itself": (lambda path: path.symlink_to(path), "can't be opened"),
    "a device without end": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "too large": (lambda path: os.close(_of_size(path, 60 << 20)), "60 MB, at most 50 MB"),
    "not a notebook": (b"hello", "not a notebook"),
    "empty": (b"", "empty"),
    "truncated": (b'{"cells": [{"cell_type": "code", "sour', "cut off"),
    "another language": (
        b'{"nbformat": 4, "cells": [], "metadata": {"kernelspec": {"language": "R"}}}',
        "labs are Python",
    ),
    "an unknown lab": (b'{"nbformat": 4, "cells": [], "metadata": {"autograder": {"lab": "lab99"}}}', "lab99"),
    "a newer version": (
        b'{"nbformat": 4, "cells": [], "metadata": {"autograder": {"lab": "lab05_tape", "version": 9}}}',
        "version 9",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("data", "reason"), BAD.values(), ids=BAD)
def test_bad_file_is_one_line_and_nothing_is_stored(home, tmp_path, data, reason):
    path = tmp_path / "bad.ipynb"
    if callable(data):
        data(path)
    elif data is not None:
        path.write_bytes(data)
    with pytest.raises(SubmissionError, match=reason) as error:
        submit_file(path)
    assert "\n" not in str(error.value)
    assert "Nothing was handed in." in str(error.value)
    with open_gradebook() as book:
        assert queries.counts(book) == (0, 0)


def test_huge_file_is_refused_without_reading_it(home, tmp_path):
    path = tmp_path / "huge.ipynb"
    with open(path, "wb") as file:
        file.truncate(500 << 20)
    with pytest.raises(SubmissionError, match="500 MB"):
        submit_file(path)


def test_wrong_lab_named(home, notebook):
    with pytest.raises(SubmissionError, match="no lab is called 'lab77'"):
        submit_file(notebook, lab="lab77")


def test_gradebook_that_cannot_be_opened_keeps_a_copy_and_says_where(home, notebook):
    home.mkdir()
    (home / "gradebook.sqlite").write_bytes(b"rubbish, and long enough to be looked at" * 50)
    with pytest.raises(SubmissionError, match=r"Not handed in: gradebook .* A copy is kept at") as error:
        submit_file(notebook)
    kept = Path(str(error.value).split("kept at ")[1].split(". Submit")[0])
    assert kept.read_bytes() == notebook.read_bytes()
    assert "\n" not in str(error.value)


def test_home_that_cannot_be_written_keeps_the_copy_elsewhere(tmp_path, notebook, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOGRADER_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    with pytest.raises(SubmissionError, match=r"A copy is kept at .*temporary"):
        submit_file(notebook)


@pytest.mark.parametrize("plant", ["a link", "open to others"])
def test_no_copy_is_kept_where_others_can_write(tmp_path, notebook, monkeypatch, plant):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOGRADER_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    planted = tmp_path / f"autograder-kept-{os.getuid()}"
    there = tmp_path / "elsewhere" if plant == "a link" else planted
    there.mkdir()
    if plant == "a link":
        planted.symlink_to(there)
    else:
        there.chmod(0o777)
    with pytest.raises(SubmissionError, match="No copy could be kept"):
        submit_file(notebook)
    assert list(there.iterdir()) == []


def test_fault_while_storing_keeps_a_copy(home, notebook, monkeypatch):
    def full(*args, **kwargs):
        raise GradebookError("gradebook: could not store the submission: the disk is full.")

    monkeypatch.setattr(Gradebook, "submit", full)
    with pytest.raises(SubmissionError, match=r"the disk is full. A copy is kept at (.*)\. Submit again") as error:
        submit_file(notebook)
    assert str(home / "kept") in str(error.value)
    assert [path.read_bytes() for path in (home / "kept").iterdir()] == [notebook.read_bytes()]


def test_fault_while_recording_the_grade_keeps_the_submission(home, notebook, graded_as, monkeypatch):
    def full(*args, **kwargs):
        raise GradebookError("gradebook: could not record the grade: the disk is full.")

    graded_as(RIGHT)
    monkeypatch.setattr(Gradebook, "record", full)
    done = submit_file(notebook)
    assert (done.submission_id, done.report) == (1, None)
    assert "could not record the grade" in done.reason


def test_nowhere_to_keep_a_copy_is_said(tmp_path, notebook, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOGRADER_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with pytest.raises(SubmissionError, match="your notebook file is untouched"):
        submit_file(notebook)


def executed(*sources: str) -> list[slicing.Executed]:
    return [slicing.Executed(number, source) for number, source in enumerate(sources, 1)]


def missing(notebook: Path, *sources: str) -> list[str]:
    return saved.missing(parse_notebook(notebook.read_bytes()), spec.load_lab("lab05_tape"), executed(*sources))


def test_saved_notebook_lacks_nothing(notebook):
    assert missing(notebook, IMPORTS, RULES, ACCUMULATE) == []


def test_layout_and_comments_make_no_difference(notebook):
    assert missing(notebook, IMPORTS, "# mine\n" + RULES.replace("g * y", "g*y")) == []


def test_definition_that_is_not_in_the_file_is_named(notebook):
    assert missing(notebook, IMPORTS, RULES, WRONG_RULES) == ["mul_rule"]
    assert missing(notebook, "def topological_order(root, inputs_of): return [root]") == ["topological_order"]


def test_only_the_last_run_counts(notebook):
    assert missing(notebook, WRONG_RULES, RULES) == []


def test_cell_that_failed_is_not_asked_for(notebook):
    assert (
        saved.missing(
            parse_notebook(notebook.read_bytes()),
            spec.load_lab("lab05_tape"),
            [slicing.Executed(1, WRONG_RULES, False)],
        )
        == []
    )


def test_notebook_file_is_found_and_a_renamed_one_is_not(notebook, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", str(notebook))
    assert practice.notebook_file({}) == str(notebook)
    monkeypatch.setenv("JPY_SESSION_NAME", str(notebook) + "-gone.ipynb")
    assert practice.notebook_file({}) == ""
    assert practice.notebook_file({"__vsc_ipynb_file__": str(notebook)}) == str(notebook)


def test_outside_a_notebook_it_says_what_to_do():
    result = submission.submit()
    assert not result
    assert "autograder submit FILE.ipynb" in repr(result)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("class")


@pytest.fixture(scope="module")
def kernel(place):
    file = write_notebook(place / "lab05_tape.ipynb", IMPORTS, RULES, ACCUMULATE)
    with Kernel(file, AUTOGRADER_HOME=str(place / "home")) as kernel:
        for cell in (IMPORTS, RULES, ACCUMULATE):
            kernel.run(cell)
        yield kernel
    warm.stop()


@pytest.mark.slow
class TestFromTheNotebook:
    """submit() in a real kernel, with a real grading behind it."""

    def test_stored_graded_and_shown_with_the_link(self, kernel, place):
        output = kernel.run("submit()", timeout=180)
        assert "lab05_tape.ipynb is stored as submission 1 for lab05_tape." in output.text
        assert 'href="/autograder/"' in output.html
        assert "2 of 6 tasks are right" in output.text
        with open_gradebook(place / "home" / "gradebook.sqlite") as book:
            [one] = queries.submissions(book)
            assert queries.notebook(book, one.id) == (place / "lab05_tape.ipynb").read_bytes()
            assert (one.learner, one.points) == (learner_name(), 40.0)

    def test_unsaved_work_is_refused_by_name_and_not_stored(self, kernel, place):
        kernel.run(WRONG_RULES)
        output = kernel.run("submit()")
        assert "Save the notebook first" in output.text
        assert "`mul_rule`" in output.text
        with open_gradebook(place / "home" / "gradebook.sqlite") as book:
            assert queries.counts(book)[0] == 1
        assert "attempt 2" in kernel.run("submit(as_saved=True)", timeout=180).text
        kernel.run(RULES)

    def test_renamed_file_asks_for_its_path(self, kernel, place):
        (place / "lab05_tape.ipynb").rename(place / "renamed.ipynb")
        try:
            assert "Give its path" in kernel.run("submit()").text
            assert "stored as submission 1" in kernel.run(f"submit({str(place / 'renamed.ipynb')!r})", timeout=180).text
        finally:
            (place / "renamed.ipynb").rename(place / "lab05_tape.ipynb")
