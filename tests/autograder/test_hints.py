"""Hints that open after several different answers went wrong in the same way, and for nobody else."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
from pathlib import Path
from typing import Any

import pytest
import small_lab
from small_lab import ORACLES, double, make_lab, task

from autograder import hints, spec
from autograder.feedback import fragment, page, text
from autograder.grade import Grader
from autograder.hints import digests, holds_answer, open_hints, told
from autograder.mutants import answered, samples_of
from autograder.notebook import Notebook, parse_notebook
from autograder.report import Report, TaskResult
from autograder.spec import Hint

ROOT = Path(__file__).parents[2]
SIGN = Hint("sign", "Look at the sign of the smallest case.", after=2)
FACTOR = Hint("factor|times", "Compare two entries: by how much is each off?", after=3)
LAB = make_lab(task("double", double, unlocks=(SIGN, FACTOR)), task("parts", small_lab.parts))


def wrong(message: str, verdict: Any = "wrong") -> TaskResult:
    return TaskResult("double", "", 0.0, 10.0, verdict, message=message)


def tried(folder: Path, code: str, message: str, learner: str = "ada", verdict: Any = "wrong") -> TaskResult:
    """The result after an answer that was told `message`."""
    notebook = parse_notebook(json.dumps(small_lab.notebook(double=code)).encode())
    report = Report(LAB.name, "v", "", "practice", "", "", 1, "", [wrong(message, verdict)])
    return open_hints(report, LAB, notebook, learner=learner, folder=folder).tasks[0]


def way(number: int) -> str:
    return f"def double(x):\n    return x * {number}"


def test_a_hint_opens_after_several_answers_with_one_fault(tmp_path: Path) -> None:
    seen = [tried(tmp_path, way(number), "The sign is wrong.") for number in range(4)]
    assert [(one.hints, one.next_hint) for one in seen] == [
        ([], 1),
        ([SIGN.words], 0),
        ([SIGN.words], 0),
        ([SIGN.words], 0),
    ]
    assert tried(tmp_path, way(9), "Off by a factor.").next_hint == 2, "another fault has a count of its own"
    assert tried(tmp_path, way(9), "The shape is wrong.").hints == [], "and one that no hint is about has none"


def test_the_same_answer_again_is_no_other_try(tmp_path: Path) -> None:
    same = [way(3), "# a comment\n" + way(3), way(3).replace(" * ", "*") + "\n\n"]
    for code in same:
        assert tried(tmp_path, code, "The sign is wrong.").next_hint == 1
    assert tried(tmp_path, way(4), "The sign is wrong.").hints == [SIGN.words]


@pytest.mark.parametrize("verdict", ["right", "missing", "refused", "ungraded", "pending"])
def test_only_an_answer_that_fails_is_a_try(tmp_path: Path, verdict: str) -> None:
    for number in range(3):
        result = tried(tmp_path, way(number), "The sign is wrong.", verdict=verdict)
    assert (result.hints, result.next_hint) == ([], 0)
    assert list(tmp_path.iterdir()) == []


def test_each_learner_has_a_count_of_their_own(tmp_path: Path) -> None:
    names = ["ada", "ADA", "../ada", "ada/../../x", "", "\udcff", "é" * 300]
    for name in names:
        assert tried(tmp_path / "hints", way(1), "The sign is wrong.", name).next_hint == 1
    for name in names:
        assert tried(tmp_path / "hints", way(2), "The sign is wrong.", name).hints
    assert [path.name for path in tmp_path.iterdir()] == ["hints"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "hints").iterdir())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"lab99_small": 3}',
        b'{"lab99_small": {"double": [1]}}',
        b'{"lab99_small": {"double": {"k": [1, null, {}]}}}',
        b'"' + b"x" * (1 << 20) + b'"',
    ],
)
def test_a_file_with_anything_in_it_starts_anew(tmp_path: Path, content: bytes) -> None:
    tried(tmp_path, way(1), "The sign is wrong.")
    (file,) = tmp_path.glob("*.json")
    file.write_bytes(content)
    assert tried(tmp_path, way(1), "The sign is wrong.").next_hint == 1
    assert tried(tmp_path, way(2), "The sign is wrong.").hints


def test_where_nothing_can_be_kept_a_check_still_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert tried(tmp_path / "file" / "hints", way(1), "The sign is wrong.").next_hint == 1
    tried(tmp_path, way(1), "The sign is wrong.")
    (kept,) = tmp_path.glob("*.json")
    kept.unlink()
    elsewhere = tmp_path / "file"
    kept.symlink_to(elsewhere)
    tried(tmp_path, way(1), "The sign is wrong.")
    assert elsewhere.read_text() == "", "a link that somebody planted is not followed"


def at_once(folder: str, number: int) -> None:
    many = Hint("sign", "Look.", after=100)
    lab = make_lab(task("double", double, unlocks=(many,)))
    for step in range(5):
        notebook = parse_notebook(json.dumps(small_lab.notebook(double=way(10 * number + step))).encode())
        report = Report(lab.name, "v", "", "practice", "", "", 1, "", [wrong("The sign is wrong.")])
        open_hints(report, lab, notebook, learner="ada", folder=Path(folder))


@pytest.mark.slow
def test_no_try_is_lost_between_two_kernels(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    kernels = [context.Process(target=at_once, args=(os.fspath(tmp_path), number)) for number in range(4)]
    for kernel in kernels:
        kernel.start()
    for kernel in kernels:
        kernel.join(60)
    assert [kernel.exitcode for kernel in kernels] == [0] * 4
    (file,) = tmp_path.glob("*.json")
    ((tries,),) = [list(of_task.values()) for of_task in hints.read(file)[LAB.name].values()]
    assert len(tries) == 20


def test_a_digest_is_of_the_cells_up_to_the_check() -> None:
    def of(**cells: str) -> dict[str, str]:
        return digests(parse_notebook(json.dumps(small_lab.notebook(**cells)).encode()), LAB)

    plain = of()
    assert of(parts="def parts(x):\n    return x, x")["double"] == plain["double"]
    assert of(parts="def parts(x):\n    return x, x")["parts"] != plain["parts"]
    assert of(double="def double(:")["double"] != plain["double"]
    assert digests(Notebook([]), LAB).keys() == {"double", "parts"}


def test_it_is_shown_everywhere(tmp_path: Path) -> None:
    result = wrong("The sign is wrong.")
    result.hints, result.next_hint = ["Look at `x` <b>closely</b>."], 2
    report = Report(LAB.name, "v", "", "practice", "", "", 1, "", [result])
    assert Report.from_json(report.to_json()) == report
    assert "Look at `x` <b>closely</b>." in text(report)
    assert "after 2 more answers" in text(report)
    for shown in (page(report), fragment(report)):
        assert "Look at <code>x</code> &lt;b&gt;closely&lt;/b&gt;." in shown
        assert "after 2 more answers" in shown


@pytest.mark.parametrize("after", [1, 0, -3])
def test_a_hint_that_opens_at_once_is_refused(after: int) -> None:
    with pytest.raises(ValueError, match="2 or more"):
        make_lab(task("double", double, unlocks=(Hint("sign", "Look.", after),)))


@pytest.mark.parametrize(
    ("words", "held"),
    [
        ("Write `return np.sum( g,axis=0 )` there.", "return np.sum( g,axis=0 )"),
        ("Use `np.sum`.", ""),
        ("Call `double(x, axis=0)` twice.", ""),
        ("The answer is np.sum(g, axis=0).", ""),
        ("`return np.prod(g, axis=0)` is wrong.", ""),
    ],
)
def test_a_piece_of_the_answer_is_found_whatever_its_spacing(words: str, held: str) -> None:
    solution = "    return np.sum(g, axis=0)\ndouble(x, axis=0)"
    assert holds_answer(task("double", double), words, solution) == held


OPENS = [
    (name, one.name, hint) for name in spec.lab_names() for one in spec.load_lab(name).tasks for hint in one.unlocks
]


def test_several_labs_have_hints_that_open() -> None:
    assert len({lab for lab, _, _ in OPENS}) >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lab", "name", "hint"), OPENS, ids=lambda value: getattr(value, "about", value).replace("|", " or ")
)
def test_a_real_mistake_opens_it(lab: str, name: str, hint: Hint, tmp_path: Path) -> None:
    """Wrong answers of the lab's own, whose feedback is promised in words the hint is about."""
    wrong = [one for one in samples_of(ROOT, lab, name) if one.kind == "wrong"]
    promised = [one for one in wrong if any(re.search(part, one.words) for part in hint.about.split("|"))] or wrong
    found = spec.load_lab(lab)
    grader = Grader(seed=11, mode="practice")
    for sample in promised:
        notebook = parse_notebook(answered(ROOT, sample))
        report = grader.grade_notebook(notebook, lab=found, tasks=[name])
        if re.search(hint.about, told(report.tasks[0])):
            break
    else:
        pytest.fail(f"none of {[one.title for one in promised]} is told what the hint is about")
    first = json.loads(report.to_json())
    for number in range(hint.after):
        report = Report.from_json(json.dumps(first))
        changed = parse_notebook(
            answered(ROOT, sample).replace(b"import numpy as np", b"import numpy as np\\n%d" % number)
        )
        open_hints(report, found, changed, learner="ada", folder=tmp_path)
        assert (hint.words in report.tasks[0].hints) == (number == hint.after - 1)


@pytest.mark.slow
def test_a_check_counts_and_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through what answers ``check()`` in a notebook, with real grading."""
    from autograder import answering

    monkeypatch.setenv("AUTOGRADER_HOME", os.fspath(tmp_path))
    monkeypatch.setattr(spec, "load_lab", lambda name: LAB)
    monkeypatch.setattr(answering.grade, "Grader", lambda **given: Grader(mode="practice", oracles=ORACLES, seed=3))

    def check(code: str) -> TaskResult:
        cells = [[1, "import numpy as np", True], [2, code, True]]
        request = {"cells": cells, "file": "", "tasks": ["double"], "lab": LAB.name, "defined": []}
        return Report.from_json(answering.check(request, lambda sentence: None)["report"]).tasks[0]

    assert check("def double(x):\n    return -2 * x").next_hint == 1
    assert check("def double(x):\n    return -(x + x)").hints == [SIGN.words]
    assert check("def double(x):\n    return x + x").hints == []
