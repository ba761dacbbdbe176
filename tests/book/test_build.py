"""`python book/build.py`: what it does when something is missing, and that an unchanged site builds at once."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import zipfile
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
    monkeypatch.setattr(build, "install_browser", lambda: None)
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


@pytest.fixture
def beside(build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A book of its own, with the real session beside it; where the browser's Python goes."""
    edge = tmp_path / "book" / "_static" / "edge"
    edge.mkdir(parents=True)
    shutil.copy2(build.BOOK / "_static" / "edge" / "session.py", edge)
    monkeypatch.setattr(build, "BOOK", tmp_path / "book")
    return edge.parent / "pyodide"


def test_the_browser_gets_the_interpreters_own_files(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, beside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetched: list[str] = []

    def npm_ci(npm: str, folder: Path) -> None:
        fetched.append(npm)
        assert json.loads((folder / "package-lock.json").read_text())["packages"]
        dist = folder / "node_modules" / build.PYODIDE / "dist"
        dist.mkdir(parents=True)
        for part in (*build.PYODIDE_PARTS, "scipy.data"):
            (dist / part).write_text(part)
        (dist.parent / "LICENSE").write_text("terms")

    monkeypatch.setattr(build.shutil, "which", lambda *_, **__: "npm")
    monkeypatch.setattr(build, "_npm_ci", npm_ci)
    build.install_browser()
    kept = {file.name for file in beside.iterdir()}
    assert kept == {*build.PYODIDE_PARTS, "LICENSE", "VERSION", "interpreter.zip"}
    with zipfile.ZipFile(beside / "interpreter.zip") as packed:
        names = {f"runtime/{file.name}": file for file in build.RUNTIME.glob("*.py")}
        assert set(packed.namelist()) == {*names, "session.py"}
        assert all(packed.read(name) == file.read_bytes() for name, file in names.items())
    first = (beside / "interpreter.zip").read_bytes()
    build.install_browser()
    assert fetched == ["npm"]
    assert (beside / "interpreter.zip").read_bytes() == first
    (beside / "VERSION").write_text("an older one")
    build.install_browser()
    assert fetched == ["npm", "npm"]
    assert capsys.readouterr().out.count("fetching Pyodide") == 2


@pytest.mark.parametrize("missing", ["npm", "network", "a file"])
def test_without_a_python_for_browsers_the_site_is_built_all_the_same(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, beside: Path, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    def npm_ci(npm: str, folder: Path) -> None:
        if missing == "network":
            raise build.CannotBuild("npm ci failed: npm error code ENOTFOUND")

    monkeypatch.setattr(build.shutil, "which", lambda *_, **__: None if missing == "npm" else "npm")
    monkeypatch.setattr(build, "_npm_ci", npm_ci)
    build.install_browser()
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith("book: chapter 22 runs nothing in the browser: Pyodide could not be fetched: ")
    assert {"npm": "npm is not installed", "network": "ENOTFOUND", "a file": "pyodide.js"}[missing] in said
    assert not (beside / "VERSION").exists()
    assert (beside / "interpreter.zip").exists()


def test_what_the_browser_runs_is_locked_by_its_checksum(build: ModuleType) -> None:
    asked = json.loads((build.BROWSER / "package.json").read_text())["dependencies"]
    locked = json.loads((build.BROWSER / "package-lock.json").read_text())["packages"]
    for name, version in asked.items():
        entry = locked[f"node_modules/{name}"]
        assert entry["version"] == version
        assert f"{name} {version}" in (build.BOOK / "_static" / "edge" / "NOTICE.txt").read_text()
        assert entry["integrity"].startswith("sha512-")


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
