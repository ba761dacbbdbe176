"""Notebooks are read as learners and accidents make them; what can't be read is refused in one line."""

# ruff: noqa: E501  one case, one line: a table is read by its rows
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from boxes import small_lab, task

import autograder.cells
from autograder.cells import undisturbed
from autograder.notebook import (
    Cell,
    Notebook,
    NotebookError,
    make_cell,
    match_lab,
    parse_notebook,
    place_tasks,
    read_notebook,
    require_lab,
    to_python,
)
from autograder.spec import Lab


def document(*sources: Any, metadata: Any = None, **changes: Any) -> dict[str, Any]:
    cells = [
        source if isinstance(source, dict) else {"cell_type": "code", "metadata": {}, "source": source}
        for source in sources
    ]
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {} if metadata is None else metadata,
        "cells": cells,
    } | changes


def parse(*sources: Any, **changes: Any) -> Notebook:
    return parse_notebook(json.dumps(document(*sources, **changes)).encode(), "a.ipynb")


GOOD = json.dumps(document("x = 1"))
UNREADABLE = {
    "empty": (b"", "empty"),
    "spaces": (b" \n ", "empty"),
    "text": (b"hello", "not a notebook"),
    "truncated": (GOOD[: len(GOOD) // 2].encode(), "cut off"),
    "truncated-in-a-string": (GOOD[: GOOD.index("x = 1") + 2].encode(), "cut off"),
    "latin-1": (b'{"cells": "\xe9"}', "UTF-8"),
    "utf-16": (GOOD.encode("utf-16"), "UTF-8"),
    "png": (b"\x89PNG\r\n\x1a\n\0\0", "UTF-8"),
    "zip": (b"PK\3\4\0\0\0\0", "not a notebook"),
    "list": (b"[]", "no cells"),
    "number": (b"3", "no cells"),
    "other-json": (b'{"a": 1}', "no cells"),
    "deep": (b"[" * 200_000, "nested too deeply"),
    "deep-in-cells": (b'{"cells":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    "many-parts": (b"[" + b"[]," * 3_000_000 + b"1]", "too many parts"),
    "huge-number": (b'{"nbformat": ' + b"9" * 10_000 + b', "cells": []}', "not a notebook"),
    "format-3": (json.dumps({"nbformat": 3, "worksheets": []}).encode(), "format 3"),
    "format-5": (json.dumps(document(nbformat=5)).encode(), "newer"),
    "format-missing": (b'{"cells": []}', "nbformat"),
    "format-text": (json.dumps(document(nbformat="4")).encode(), "nbformat"),
    "cells-text": (json.dumps(document(cells="x")).encode(), "a list is needed"),
    "cells-null": (json.dumps(document(cells=None)).encode(), "a list is needed"),
    "cell-number": (json.dumps(document(cells=[3])).encode(), "cell 1"),
    "cell-without-text": (json.dumps(document(3)).encode(), "cell 1"),
    "cell-of-numbers": (json.dumps(document([1, 2])).encode(), "cell 1"),
    "cell-too-long": (json.dumps(document("x" * 600_000)).encode(), "characters"),
    "too-many-cells": (json.dumps(document(*["x"] * 6000)).encode(), "6000 cells"),
    "julia": (json.dumps(document("x", metadata={"kernelspec": {"language": "julia"}})).encode(), "julia"),
    "r": (json.dumps(document("x", metadata={"language_info": {"name": "R"}})).encode(), "R notebook"),
    "lab-of-the-future": (
        json.dumps(document("x", metadata={"autograder": {"lab": "lab05_tape", "version": 9}})).encode(),
        "version 9",
    ),
}


@pytest.mark.parametrize(("raw", "says"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_refused_in_one_line(raw: bytes, says: str) -> None:
    with pytest.raises(NotebookError) as refusal:
        parse_notebook(raw, "a.ipynb")
    message = str(refusal.value)
    assert says in message
    assert message.startswith("a.ipynb: ")
    assert "\n" not in message
    assert len(message) < 300


def test_files_that_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ipynb")
    (tmp_path / "loop.ipynb").symlink_to("loop.ipynb")
    for name in ("missing.ipynb", "pipe.ipynb", "loop.ipynb", ".", "a\0b"):
        with pytest.raises(NotebookError):
            read_notebook(tmp_path / name)
    with pytest.raises(NotebookError, match="not a regular file"):
        read_notebook("/dev/zero")


def test_500_mb_are_refused_by_size_alone(tmp_path: Path) -> None:
    path = tmp_path / "big.ipynb"
    with path.open("wb") as file:
        file.truncate(500 << 20)
    started = time.monotonic()
    with pytest.raises(NotebookError, match="500 MB, at most 50 MB"):
        read_notebook(path)
    assert time.monotonic() - started < 0.5


def test_a_good_file_gives_cells_lab_and_digest(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(
        b"\xef\xbb\xbf"
        + json.dumps(
            document(
                "a = 1",
                {"cell_type": "markdown", "source": "words"},
                ["b = 2\n", "c = 3"],
                metadata={"autograder": {"lab": "lab05_tape", "version": 1}},
            )
        ).encode()
    )
    notebook = read_notebook(path)
    assert [(cell.number, cell.source) for cell in notebook.cells] == [(1, "a = 1"), (2, "b = 2\nc = 3")]
    assert notebook.lab == "lab05_tape"
    assert len(notebook.sha256) == 64


@pytest.mark.parametrize(
    "metadata",
    [None, [], 3, {"tags": "training"}, {"tags": [3, None]}, {"nbgrader": []}, {"nbgrader": {"grade_id": 7}}],
)
def test_odd_metadata_are_no_metadata(metadata: Any) -> None:
    cell = parse({"cell_type": "code", "source": "x = 1", "metadata": metadata}).cells[0]
    assert cell == Cell(1, "x = 1", "x = 1", defines=frozenset({"x"}))


def test_missing_keys_are_survived() -> None:
    assert parse({"cell_type": "code"}).cells[0].source == ""
    assert parse({}, {"cell_type": 3}).cells == []
    assert parse("x", metadata=[]).lab == parse("x", metadata={"autograder": "lab"}).lab == ""


# --- Python or not -----------------------------------------------------------------------------------

SOURCES = {
    "plain": ("x = 1\n", "x = 1\n"),
    "await": ("await f()", "await f()"),
    "percent-continues-a-line": ("x = (5\n% 3)", "x = (5\n% 3)"),
    "percent-in-text": ('x = """\n%time\n!ls\ny?\n"""', '"""\n%time\n!ls\ny?\n"""'),
    "not-equal": ("x != y", "x != y"),
    "windows-lines": ("a = 1\r\nb = 2", "a = 1\nb = 2"),
    "line-magic": ("%matplotlib inline\nx = 1", "run_line_magic('matplotlib', 'inline')\nx = 1"),
    "magic-assigned": ("t = %timeit 1", "t = get_ipython().run_line_magic('timeit', '1')"),
    "magic-in-a-block": ("if x:\n    %time y", "    get_ipython().run_line_magic('time', 'y')"),
    "cell-magic": ("%%time\nx = 1", "run_cell_magic('time', '', 'x = 1\\n')"),
    "shell": ("!ls", "get_ipython().system('ls')"),
    "shell-assigned": ("x = !ls", "x = get_ipython().getoutput('ls')"),
    "help": ("np.sum?", "run_line_magic('pinfo', 'np.sum')"),
    "help-first": ("?np.sum", "run_line_magic('pinfo', 'np.sum')"),
    "prompts": (">>> x = 1\n>>> y = 2", "x = 1\ny = 2"),
    "ipython-prompts": ("In [1]: x = 1", "x = 1"),
    "indented-cell": ("  a = 1\n  b = 2", "a = 1\nb = 2"),
    "quoting": (",f a b", 'f("a", "b")'),
}


@pytest.mark.parametrize(("source", "expected"), SOURCES.values(), ids=SOURCES)
def test_cells_are_translated_by_ipythons_rules(source: str, expected: str) -> None:
    code, problem, _ = to_python(source)
    assert problem == ""
    assert expected in code


def test_line_numbers_stay_those_of_the_cell() -> None:
    code, problem, _ = to_python("\n\n%matplotlib inline\nx = 1")
    assert problem == ""
    assert code.split("\n")[2].startswith("get_ipython")
    assert code.split("\n")[3] == "x = 1"
    assert to_python("x = 1\n\ndef f(:\n    pass")[2] == 3


@pytest.mark.slow
def test_ipython_is_imported_only_where_it_is_needed() -> None:
    code = (
        "import sys\nfrom autograder.notebook import make_cell\nfor source in ('x = 5 % 3', 'await f()', 'def f(:', 'x = \"%time\"'):\n"
        "    make_cell(1, source)\nassert 'IPython' not in sys.modules\nmake_cell(1, '%time 1')\nassert 'IPython' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


HARD = {
    "parentheses": "(" * 20_000,
    "minus": "-" * 100_000 + "1",
    "sum": "a+" * 100_000 + "a",
    "attributes": "a" + ".a" * 100_000,
    "null": "x = '\0'",
    "surrogate": "x = '\ud800'",
    "magics": "%time 1\n" * 20_000,
    "questions": "a?\n" * 20_000,
    "backslashes": "\\\n" * 50_000,
    "digits": "x = " + "9" * 100_000,
}


@pytest.mark.parametrize("source", HARD.values(), ids=HARD)
def test_hard_sources_are_a_syntax_error_or_code_and_quick(source: str) -> None:
    started = time.monotonic()
    cell = make_cell(1, source)
    assert time.monotonic() - started < 4
    assert len(cell.problem) <= 300


# --- names, checks, places ---------------------------------------------------------------------------


def test_names_a_cell_binds() -> None:
    cell = make_cell(1, "import a.b, c as d\nfrom e import f as g\nfor h, (i, *j) in x:\n    k = 1\nif True:\n    class L:\n        not_this = 1\nwith m as n: pass\n"
                        "(o := 2)\np: int = 3\nasync def q(): inner = 1\n[r for r in s]\nlambda t: (u := 1)")  # fmt: skip
    assert cell.defines == set("adghijkLnopq")


def test_names_and_checks_inside_a_timed_cell_count() -> None:
    cell = make_cell(1, '%%time\ndef f(x): return x\ncheck("attacked")')
    assert cell.defines == {"f"}
    assert cell.checks == ("attacked",)


def test_checks_a_cell_makes() -> None:
    assert make_cell(
        1, 'check("a"); autograder.check("b", 3)\nif x:\n    check("c")\ncheck(d); other("e"); check()'
    ).checks == ("a", "b", "c")


def cells(*entries: str | tuple[str, dict[str, Any]]) -> list[Cell]:
    pairs = [(entry, {}) if isinstance(entry, str) else entry for entry in entries]
    return [make_cell(number, source, **options) for number, (source, options) in enumerate(pairs, 1)]


F, CHECK = "def f(): return 1", 'check("attacked")'
PLACES: dict[str, tuple[list[Cell], int, str]] = {
    "checked": (cells(F, CHECK, "g = 1"), 2, ""),
    "rebound-later": (cells(F, CHECK, "f = None"), 2, "bound again in cell 3"),
    "checked-twice": (cells(F, CHECK, "def f(): return 2", CHECK), 4, ""),
    "never-checked": (cells("x = 1", F, "y = 1"), 2, ""),
    "defined-twice": (cells(F, "x = 1", F, "y = 1"), 3, ""),
    "check-deleted-metadata-kept": (cells(F, ("pass", {"grade_id": "check-attacked"}), "f = 2"), 2, "bound again"),
    "checked-before": (cells(CHECK, F, "x = 1"), 2, "defines it"),
    "defined-nowhere": (cells("x = 1", "y = 2"), 2, ""),
    "only-checked": (cells("x = 1", CHECK, "y = 2"), 2, ""),
    "split": (cells("import numpy", "def helper(): return 1", "f = helper", CHECK), 4, ""),
    "in-one-cell": (cells(F + "\n" + CHECK, "f = 3"), 1, "bound again"),
    "check-skipped": (cells(F, (CHECK, {"tags": ["plot"]}), "x = 1"), 1, ""),
    "definition-skipped": (cells((F, {"tags": ["training"]}), CHECK), 2, ""),
    "no-cells": ([], 0, ""),
}


@pytest.mark.parametrize(("notebook", "stop", "note"), PLACES.values(), ids=PLACES)
def test_where_a_task_is_answered(notebook: list[Cell], stop: int, note: str) -> None:
    place = place_tasks(notebook, small_lab())["attacked"]
    assert place.stop == stop
    assert (note in " ".join(place.notes)) if note else place.notes == ()


def test_copies_of_a_cell_are_noted() -> None:
    entry = {"cell_type": "code", "source": F, "metadata": {"nbgrader": {"grade_id": "attacked"}}}
    assert "copies of the same cell" in parse(entry, "x = 1", entry).notes[0]


@pytest.mark.parametrize("kind", ["markdown", "raw", "CODE"])
@pytest.mark.parametrize(
    ("grade_id", "text", "noted"),
    [
        ("order", "def topological_order(root):\n    pass", True),
        ("stale", ["class Saved:\n", "    pass"], True),
        ("", "def f(x): pass", False),
        ("why", "I would def copy it, in a class of its own: def f(", False),
    ],
)
def test_code_in_a_cell_that_is_not_run_is_noted(kind: str, grade_id: str, text: Any, noted: bool) -> None:
    """One key in JupyterLab, M, makes a code cell one of Markdown."""
    cell = {"cell_type": kind, "source": text, "metadata": {"nbgrader": {"grade_id": grade_id}}}
    notes = parse("x = 1", cell).notes
    assert len(notes) == noted
    assert all(f"The cell {grade_id} holds code" in note and "press Y" in note for note in notes)


def test_the_lab_is_found_by_metadata_or_by_what_is_in_the_notebook() -> None:
    one = small_lab()
    two = Lab("lab01_two", "Two", (task("rules", "mul_rule", "matmul_rule"), task("order", "topological_order")))
    assert match_lab(parse("x", metadata={"autograder": {"lab": "lab01_two"}}), [one, two]) is two
    assert match_lab(parse("def topological_order(): pass", "check('rules')"), [one, two]) is two
    assert match_lab(parse(F), [one, two]) is one
    with pytest.raises(NotebookError, match="isn't among"):
        match_lab(parse("x", metadata={"autograder": {"lab": "lab99"}}), [one, two])
    with pytest.raises(NotebookError, match="--lab"):
        match_lab(parse("x = 1"), [one, two])
    with pytest.raises(NotebookError, match="not for 'lab01_two'"):
        require_lab(parse("x", metadata={"autograder": {"lab": "lab00_small"}}), two)
    require_lab(parse("x"), two)


def test_cells_are_read_while_other_threads_build_syntax_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython 3.11 counts the depth of trees for all threads together, and fails where they take turns."""
    failures = [SystemError("AST constructor recursion depth mismatch (before=57, after=30)")] * 3

    def build(*args: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return compile(*args, **options)

    monkeypatch.setattr(autograder.cells, "compile", build, raising=False)
    assert make_cell(1, "x = 1").defines == {"x"}
    assert not failures


def test_a_lasting_fault_is_not_hidden() -> None:
    def build() -> None:
        raise SystemError("always")

    with pytest.raises(SystemError, match="always"):
        undisturbed(build)
