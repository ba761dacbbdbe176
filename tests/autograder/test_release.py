"""From a solution notebook to the learner's: what is cut, what is refused, and that it is the same every time."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from autograder import release as releasing
from autograder.release import HOLE, ReleaseError, cut, marks_of, nbgrader_problems, release, render

LAB = "lab05_tape"
TASKS = ("rules", "order", "accumulate", "backward", "stale")
SOLUTION = "def f(x):\n    ### BEGIN SOLUTION\n    return x * 12345\n    ### END SOLUTION\n"


def marks(grade_id: str, **changed: Any) -> dict[str, Any]:
    usual = {"grade": False, "solution": False, "locked": True, "task": False, "schema_version": 3}
    return usual | {"grade_id": grade_id} | changed


def code(source: str, cell_id: str, **metadata: Any) -> dict[str, Any]:
    outputs = [{"output_type": "stream", "name": "stdout", "text": "secret output"}]
    return {
        "cell_type": "code",
        "id": cell_id,
        "metadata": metadata,
        "source": source,
        "outputs": outputs,
        "execution_count": 7,
    }


def notebook(solution: str = SOLUTION) -> dict[str, Any]:
    cells = [{"cell_type": "markdown", "id": "top", "metadata": {}, "source": ["# A lab\n", "text"]}]
    for task in TASKS:
        cells.append(code(solution, task, nbgrader=marks(task, solution=True, locked=False)))
        check = marks(f"check-{task}", grade=True, points=1)
        cells.append(code(f'check("{task}")', f"c-{task}", nbgrader=check, tags=["nbval-ignore-output", "plot"]))
    words = "<!-- ### BEGIN SOLUTION -->\nNeither.\n<!-- ### END SOLUTION -->"
    question = marks("refuse", solution=True, grade=True, locked=False, points=5)
    cells.append({"cell_type": "markdown", "id": "words", "metadata": {"nbgrader": question}, "source": words})
    return {"cells": cells, "metadata": {"autograder": {"lab": LAB, "version": 1}}, "nbformat": 4, "nbformat_minor": 5}


def test_a_hole_takes_the_place_of_the_solution() -> None:
    released = release(notebook(), LAB)
    source = "".join(released["cells"][1]["source"])
    assert "12345" not in render(released)
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    with pytest.raises(NotImplementedError):
        namespace["f"](1)


def test_the_hole_is_indented_as_its_marker() -> None:
    lines, removed = cut(
        "class A:\n    def f(self):\n        ### BEGIN SOLUTION\n        a()\n\n        b()\n        ### END SOLUTION",
        "",
    )
    assert lines == ["class A:", "    def f(self):", *(f"        {part}" for part in HOLE)]
    assert removed == ["        a()", "", "        b()"]


def test_several_holes_in_a_cell() -> None:
    lines, removed = cut(SOLUTION + "\n" + SOLUTION, "")
    assert sum(line.strip() == HOLE[1] for line in lines) == 2
    assert len(removed) == 2


def test_outputs_counts_and_what_concerns_only_us_are_cleared() -> None:
    released = release(notebook(), LAB)
    assert "secret" not in render(released)
    for cell in released["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
    assert released["cells"][2]["metadata"]["tags"] == ["plot"]
    assert released["metadata"]["autograder"] == {"lab": LAB, "version": 1}


def test_the_source_is_not_changed() -> None:
    source = notebook()
    before = deepcopy(source)
    release(source, LAB)
    assert source == before


def test_same_bytes_however_the_source_is_stored() -> None:
    one, other = notebook(), notebook()
    for cell in other["cells"]:
        if isinstance(cell["source"], str):
            cell["source"] = cell["source"].splitlines(keepends=True)
        cell.get("outputs", []).clear()
        cell["metadata"] = dict(reversed(list(cell["metadata"].items())))
    other["metadata"]["widgets"] = {"state": {}}
    assert render(release(one, LAB)) == render(release(other, LAB))


@pytest.mark.slow
def test_the_result_is_a_valid_notebook() -> None:
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.reads(render(release(notebook(), LAB)), as_version=4))


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "labs").rglob("lab*.ipynb")), ids=lambda path: path.stem
)
def test_every_lab_is_a_valid_notebook(path: Path) -> None:
    """Jupyter refuses to convert one that is not, and complains when it is saved."""
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(path, as_version=4))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("### BEGIN SOLUTION\na = 1", "has no ### END"),
        ("a = 1\n### END SOLUTION", "without ### BEGIN"),
        ("### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION", "inside the solution that began in line 1"),
        ("### BEGIN SOLUTION\n### END SOLUTION\n### END SOLUTION", "line 3: ### END SOLUTION without"),
        ("### END SOLUTION\n### BEGIN SOLUTION", "line 1: ### END SOLUTION without"),
        ("a = 1", "would be released with its answer"),
    ],
)
def test_markers_that_do_not_pair_are_refused(source: str, words: str) -> None:
    with pytest.raises(ReleaseError, match=words):
        release(notebook(source), LAB)


def test_a_solution_outside_of_a_solution_cell_is_refused() -> None:
    given = notebook()
    given["cells"].append(code(SOLUTION, "stray"))
    with pytest.raises(ReleaseError, match="does not take for a solution"):
        release(given, LAB)


def test_a_solution_line_that_stands_elsewhere_is_refused() -> None:
    given = notebook()
    given["cells"].append(
        {"cell_type": "markdown", "id": "hint", "metadata": {}, "source": "Try\n\n    return x * 12345\n"}
    )
    with pytest.raises(ReleaseError, match=r"still show a solution line: 'return x \* 12345'"):
        release(given, LAB)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"schema_version": 2}, "schema_version is 2"),
        ({"grade_id": "has space"}, "characters other than"),
        ({"grade": 1}, "grade is 1"),
        ({"grade": True, "locked": True}, "needs points"),
        ({"grade": True, "locked": False, "points": 1}, "must be locked"),
        ({"points": True}, "points is True"),
        ({"colour": "red"}, "colour is not a field"),
    ],
)
def test_metadata_nbgrader_would_refuse(changed: dict[str, Any], words: str) -> None:
    assert any(words in problem for problem in nbgrader_problems(marks("a") | changed, "code"))
    given = notebook()
    given["cells"].append(code("", "extra", nbgrader=marks("a") | changed))
    with pytest.raises(ReleaseError, match=words):
        release(given, LAB)


def test_a_field_that_is_missing() -> None:
    for field in ("grade", "solution", "locked", "task", "schema_version", "grade_id"):
        short = marks("a")
        del short[field]
        assert any(f"{field} is missing" in problem for problem in nbgrader_problems(short, "code"))


def test_a_grade_id_twice_a_task_without_cell_another_lab() -> None:
    given = notebook()
    given["cells"].append(code("", "again", nbgrader=marks("rules")))
    with pytest.raises(ReleaseError, match="'rules' is used twice"):
        release(given, LAB)
    given = notebook()
    del given["cells"][-2]
    with pytest.raises(ReleaseError, match="no cell has the grade_id 'check-stale'"):
        release(given, LAB)
    with pytest.raises(ReleaseError, match="expected 'lab99_other'"):
        release(notebook(), "lab99_other")


def test_a_lab_without_its_spec() -> None:
    given = notebook()
    given["metadata"]["autograder"]["lab"] = "lab99_other"
    with pytest.raises(ReleaseError, match=r"Write its spec first, autograder/specs/lab99_other\.py"):
        release(given, "lab99_other")


def test_a_spec_that_defines_no_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.specs import lab05_tape

    monkeypatch.delattr(lab05_tape, "lab")
    with pytest.raises(ReleaseError, match=r"specs/lab05_tape\.py defines no `lab`"):
        release(notebook(), LAB)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one solution notebook, and the current directory in it."""
    (tmp_path / "labs" / "solutions").mkdir(parents=True)
    (tmp_path / "labs" / "solutions" / f"{LAB}.ipynb").write_text(json.dumps(notebook()), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "labs"


def test_main_writes_and_check_agrees(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert releasing.main(["--check"]) == 1
    assert "is missing" in capsys.readouterr().err
    assert releasing.main(["lab05"]) == 0
    first = (folder / f"{LAB}.ipynb").read_bytes()
    assert releasing.main([]) == 0
    assert (folder / f"{LAB}.ipynb").read_bytes() == first
    assert releasing.main(["--check", LAB]) == 0
    assert sorted(path.name for path in folder.iterdir()) == [f"{LAB}.ipynb", "solutions"]


def test_check_fails_when_out_of_step(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    releasing.main([])
    target = folder / f"{LAB}.ipynb"
    target.write_text(target.read_text(encoding="utf-8").replace("# A lab", "# Another lab"), encoding="utf-8")
    before = target.read_bytes()
    assert releasing.main(["--check"]) == 1
    assert f"Run: autograder release {LAB}" in capsys.readouterr().err
    assert target.read_bytes() == before


def worked_in(text: str, how: str) -> str:
    """A released notebook after somebody used it."""
    if how == "unreadable":
        return text[:-20]
    used = json.loads(text)
    cell = next(cell for cell in used["cells"] if marks_of(cell).get("solution"))
    if how == "answered":
        cell["source"] = "def f(x):\n    return 2 * x\n"
    else:
        cell["execution_count"] = 1
    return json.dumps(used)


@pytest.mark.parametrize("how", ["answered", "run", "unreadable"])
def test_nobodys_work_is_written_over(folder: Path, capsys: pytest.CaptureFixture[str], how: str) -> None:
    assert releasing.main([]) == 0
    target = folder / f"{LAB}.ipynb"
    released = target.read_text(encoding="utf-8")
    mine = worked_in(released, how)
    target.write_text(mine, encoding="utf-8")
    assert releasing.main([]) == 1
    assert "--force" in capsys.readouterr().err
    assert target.read_text(encoding="utf-8") == mine
    assert releasing.main(["--force"]) == 0
    assert target.read_text(encoding="utf-8") == released


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}'])
def test_a_file_that_is_no_notebook_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (folder / "solutions" / f"{LAB}.ipynb").write_text(text, encoding="utf-8")
    assert releasing.main([]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not (folder / f"{LAB}.ipynb").exists()


def test_an_unknown_lab_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert releasing.main(["lab77"]) == 2
    assert f"there are {LAB}" in capsys.readouterr().err
