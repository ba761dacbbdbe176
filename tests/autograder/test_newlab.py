"""A lab that was just begun passes everything a lab has to pass, and a name that will not do leaves nothing behind."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder import newlab
from autograder.cli import run
from autograder.newlab import NewLabError

ROOT = Path(__file__).parents[2]
NAME = "lab97_begun"
LONGEST = "lab97_" + "a_word_" * 4 + "sixxed"


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    for folder in ("labs/solutions", "tests/labs", "tests/mutants", "autograder/specs", "autograder/drivers"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


@pytest.mark.slow
def test_a_lab_just_begun_passes_as_it_is(tmp_path: Path) -> None:
    """In a copy of the project, since a lab lives in the package; the commands are those a contributor types."""
    for folder in ("autograder", "internals"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("labs/solutions", "tests/mutants", "tests/labs"):
        (tmp_path / folder).mkdir(parents=True)
    for path in ("tests/mutants/test_mutants.py", "tests/conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / path, tmp_path / path)
    for path in [*(tmp_path / "autograder/specs").glob("*lab*.py"), *(tmp_path / "autograder/drivers").glob("lab*.py")]:
        path.unlink()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def typed(*words: str) -> str:
        command = [sys.executable, "-m", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    assert LONGEST in typed("autograder", "new-lab", LONGEST, "--title", "A title " * 10)
    assert "nothing wrong" in typed("autograder", "lint-specs")
    assert "1 released notebook is in step" in typed("autograder", "release", "--check")
    assert " failed" not in typed("pytest", "-q", "-p", "no:xdist", "-p", "no:randomly", "tests", "-m", "")
    assert "All checks passed" in typed("ruff", "check", "autograder/specs", "autograder/drivers", "tests")
    assert "reformatted" not in typed(
        "ruff", "format", "--check", "autograder/specs", "autograder/drivers", "tests/labs"
    )


def test_what_is_written_is_python_without_placeholders(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newlab, "released_text", lambda path: "{}")
    written = newlab.new_lab(NAME, root=empty)
    assert sorted(files(empty)) == sorted(written)
    assert len(written) == 6
    for path in written:
        text = path.read_text()
        assert "{{" not in text
        assert "%%%%" not in text
        if path.suffix == ".py":
            ast.parse(text)
    with pytest.raises(NewLabError, match="is there already"):
        newlab.new_lab(NAME, root=empty)


@pytest.mark.parametrize(
    ("name", "title", "words"),
    [
        ("", "", "no name for a lab"),
        ("lab9_x", "", "no name for a lab"),
        ("lab97_Upper", "", "no name for a lab"),
        ("../lab97_x", "", "no name for a lab"),
        ("lab97_x\n", "", "no name for a lab"),
        ("lab97_" + "x" * 50, "", "40 are the most"),
        ("lab05_again", "", "there is a lab 05 already"),
        ("lab97_rules", "", "has a task 'rules' already"),
        (NAME, 'a "quote"', "without quotes"),
        (NAME, "two\nlines", "one line"),
        (NAME, "{{NAME}}", "braces"),
        (NAME, "x" * 81, "80 characters"),
    ],
)
def test_a_name_that_will_not_do(empty: Path, name: str, title: str, words: str) -> None:
    with pytest.raises(NewLabError, match=words):
        newlab.new_lab(name, title, root=empty)
    assert files(empty) == []


def test_a_folder_without_labs(tmp_path: Path) -> None:
    with pytest.raises(NewLabError, match="labs/solutions"):
        newlab.new_lab(NAME, root=tmp_path)


def test_all_or_nothing(empty: Path) -> None:
    """The spec is not in the package that runs, so the notebook can't be released."""
    with pytest.raises(NewLabError, match="nothing was kept"):
        newlab.new_lab(NAME, root=empty)
    assert files(empty) == []


def test_the_command_refuses_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["new-lab", "lab"]) == 2
    assert capsys.readouterr().err.startswith("autograder: 'lab' is no name for a lab")
