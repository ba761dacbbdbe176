"""`python book/build.py`: what it does when something is missing, and that an unchanged site builds at once."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def build(book: Callable[[str], ModuleType]) -> ModuleType:
    return book("book/build.py")


def test_a_missing_npm_is_one_clear_line(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "MATHJAX", tmp_path / "absent")
    monkeypatch.setattr(build.shutil, "which", lambda *_, **__: None)
    assert build.main([]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("book: not built: npm is not installed")
    assert "install Node.js" in line


def test_a_missing_jupyter_book_is_one_clear_line(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "install_assets", lambda: None)
    monkeypatch.setattr(build.sys, "executable", str(tmp_path / "python"))
    assert build.main([]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "jupyter-book is not installed" in line
    assert "pip install" in line


@pytest.mark.parametrize(
    ("line", "is_problem"),
    [
        ("/a/page.md:3: WARNING: unknown document: 'x' [ref.doc]", True),
        ("WARNING: unknown config value 'x'", True),
        ("/a/page.md: ERROR: something", True),
        ("FileNotFoundError: [Errno 2] No such file", True),
        ("[IPKernelApp] WARNING | Kernel is running over TCP", False),
        ("reading sources... [ 50%] book/intro", False),
    ],
)
def test_reports_of_sphinx_are_told_from_the_rest(build: ModuleType, line: str, is_problem: bool) -> None:
    assert bool(build.PROBLEM.search(line)) == is_problem


def test_assets_are_copied_once(build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "mathjax"
    for part in build.MATHJAX_PARTS:
        file = package / "es5" / (part if part.endswith(".js") else f"{part}/file.js")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("code")
    monkeypatch.setattr(build, "MATHJAX", package)
    monkeypatch.setattr(build, "BOOK", tmp_path / "book")
    build.install_assets()
    copied = tmp_path / "book" / "_static" / "mathjax"
    assert (copied / "tex-mml-chtml.js").read_text() == "code"
    (copied / "tex-mml-chtml.js").write_text("untouched while the version is the same")
    build.install_assets()
    assert "untouched" in (copied / "tex-mml-chtml.js").read_text()
    (copied / "VERSION").write_text("an older one")
    build.install_assets()
    assert (copied / "tex-mml-chtml.js").read_text() == "code"


@pytest.mark.slow
def test_an_unchanged_site_builds_within_10_seconds(book: Callable[[str], ModuleType], site: Path, root: Path) -> None:
    def state() -> str:
        return book("book/_ext/cache_key.py").digest(
            root, ["_config.yml", "book/_ext", "chapters", "internals", "labs"], []
        )

    def build() -> float:
        # Processor time: the build is one process at a time, and other tests may run beside this one.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "book/build.py"], cwd=root, check=True, capture_output=True, timeout=300)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    for _ in range(3):  # a source that is edited while this test runs is no unchanged site
        unchanged = state()
        build()
        spent = build()
        if state() == unchanged:
            break
    assert spent <= 10
