"""The submissions of a class compared from its page: who shares code, where, and what comes in between."""

from __future__ import annotations

import json
import sys
import threading
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from class_pages import HOSTILE, LAB, SCRIPT, Class
from classroom_work import hand_in

from autograder.web import comparing
from autograder.web.comparing import Comparisons

pytestmark = pytest.mark.slow
PAGE = f"class/similarity/{LAB}"


def program(seed: int, name: str = "total") -> str:
    """Sixty lines of code that no other seed gives."""
    draw = np.random.default_rng(seed)
    lines = [f"def rule_{name}({name}):"]
    for _ in range(60):
        a, b, c = draw.integers(2, 90, 3)
        lines.append(
            [
                f"    {name} = {name} * {a} + max({name} - {b}, {c})",
                f"    if {name} > {a}: {name} -= {b}",
                f"    while {name} < {c}: {name} += len(str({a}))",
                f"    {name} = [{name} for _ in range({b})][{c % 3}] // {a}",
                f"    assert isinstance({name}, int) or {name} % {b} != {a}",
            ][draw.integers(5)]
        )
    return "\n".join([*lines, f"    return {name}"])


def notebook(source: str) -> str:
    cell = {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": 1}
    return json.dumps({"cells": [cell], "nbformat": 4, "nbformat_minor": 5, "metadata": {"autograder": {"lab": LAB}}})


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOGRADER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def wait() -> None:
    for thread in threading.enumerate():
        if thread.name == "comparing":
            thread.join(120)
            assert not thread.is_alive()


def test_who_shares_code_is_found_from_the_page(fresh: Class, home: Path) -> None:
    with fresh.book() as book:
        hand_in(book, "ada", notebook(program(1)), late=timedelta(days=2))
        hand_in(book, HOSTILE, notebook(f"{program(1, name='mine')}\n# {SCRIPT}"))
        hand_in(book, "bob", notebook(program(2)))
    gus = fresh.as_("gus")
    assert "were not compared yet" in gus.get(PAGE).text
    assert "being compared" in gus.done(PAGE, {"do": "compare", "lab": LAB, "percent": "40"}).text
    wait()
    page = gus.get(PAGE)
    assert "1 pair among 3 submissions share at least 40 %" in page.text
    assert "100 %" in page.text
    assert "rule_mine" in page.text
    assert SCRIPT not in page.body
    assert page.body.count("class/submission/") == 2
    (kept,) = (home / "similarity").iterdir()
    assert kept.stat().st_mode & 0o077 == 0
    assert f"class/similarity/{LAB}" in gus.get(f"class/lab/{LAB}").body


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"percent": "0"}, "is no share"),
        ({"percent": "101"}, "is no share"),
        ({"percent": "half"}, "is not a number"),
        ({"percent": "50", "lab": "lab99_none"}, "There is no lab"),
        ({"percent": "50", "lab": "lab06_rules"}, "Two learners must have handed it in"),
    ],
)
def test_what_cannot_be_compared_is_said(class_: Class, form: dict[str, str], said: str) -> None:
    answer = class_.as_("ines").post(PAGE, {"do": "compare", "lab": LAB} | form)
    assert answer.status == 400
    assert said in answer.text
    assert class_.as_("ines").get("class/similarity/lab99_none").status == 404


def test_one_lab_at_a_time_and_a_comparison_that_fails_is_said(fresh: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def broken(*command: object, **options: object) -> None:
        begun.set()
        assert go_on.wait(60)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(comparing.subprocess, "run", broken)
    ines = fresh.as_("ines")
    form = {"do": "compare", "lab": LAB, "percent": "50"}
    ines.done(PAGE, form)
    assert begun.wait(60)
    assert "Being compared now" in ines.get(PAGE).text
    assert "lab at a time" in ines.get("class/similarity/lab06_rules").text
    assert "is being compared; wait" in ines.post(PAGE, form).text
    go_on.set()
    wait()
    assert "came to nothing: No space left on device" in ines.get(PAGE).text


BROAD = """
import os, resource, sys
from autograder.web import comparing
def compare(request):
    assert os.getpriority(os.PRIO_PROCESS, 0) >= 10
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    assert resource.getrlimit(resource.RLIMIT_CPU)[0] == comparing.LONGEST
    return bytearray(comparing.MOST_MEMORY)
comparing.compare = compare
sys.exit(comparing.main())
"""


def test_a_comparison_stands_back_for_grading(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process of one thread, at a low priority, with an end to its time and its memory, which is said."""
    run = comparing.subprocess.run
    monkeypatch.setattr(comparing.subprocess, "run", lambda _, **how: run([sys.executable, "-c", BROAD], **how))
    comparisons = Comparisons()
    comparisons._compare({"lab": LAB})
    assert comparisons.fault(LAB) == "it takes more than 4 GiB of memory"


@pytest.mark.parametrize(
    "kept", ["", "{", "[]", '{"found": 1}', '{"found": {}, "submissions": {}, "when": "2026-10-01", "by": "ines"}']
)
def test_a_result_that_cannot_be_read_is_none(home: Path, kept: str) -> None:
    comparisons = Comparisons(f"sqlite:///{home}/gradebook.sqlite")
    file = comparisons._file(LAB)
    file.parent.mkdir(parents=True)
    file.write_text(kept)
    assert comparisons.last(LAB) is None
