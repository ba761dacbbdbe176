"""Where oracles meet those who ask them: a directory that is one user's and one copy's, and what counts as new code."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.oracles import runtime


def test_the_directory_is_made_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOGRADER_RUNTIME_DIR", str(tmp_path / "r"))
    assert runtime.directory().stat().st_mode & 0o777 == 0o700


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a name as short as a session's: a socket's has to fit behind it."""
    with tempfile.TemporaryDirectory(prefix="s") as folder:
        monkeypatch.delenv("AUTOGRADER_RUNTIME_DIR")
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def test_the_session_directory_is_used_where_there_is_one(session: Path) -> None:
    assert runtime.directory() == session / f"autograder-{runtime.copy_name()}"


def test_a_copy_of_the_package_meets_elsewhere_and_is_other_code(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its specs may differ, though the code of its oracles is the same to the byte."""
    ours = runtime.directory(), runtime.code_version()
    copy = tmp_path / "copy"
    shutil.copytree(runtime.PACKAGE / "oracles", copy / "oracles")
    for name in ("frames.py", "spec.py"):
        shutil.copy(runtime.PACKAGE / name, copy)
    monkeypatch.setattr(runtime, "PACKAGE", copy)
    for cached in ("copy_name", "code_version"):
        monkeypatch.setattr(runtime, cached, getattr(runtime, cached).__wrapped__)
    theirs = runtime.directory(), runtime.code_version()
    assert all(one != other for one, other in zip(ours, theirs, strict=True))


def unsafe(path: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setenv("AUTOGRADER_RUNTIME_DIR", str(path))
    with pytest.raises(runtime.RuntimeUnsafe, match=words):
        runtime.directory()


def test_an_open_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r").mkdir(mode=0o755)
    unsafe(tmp_path / "r", monkeypatch, "open to other users .mode 755.*chmod 700")


def test_a_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "r").symlink_to(tmp_path / "real")
    unsafe(tmp_path / "r", monkeypatch, "not a directory of yours")


def test_another_users_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r").mkdir(mode=0o700)
    monkeypatch.setattr(runtime, "user_id", lambda: os.getuid() + 1)
    unsafe(tmp_path / "r", monkeypatch, "not a directory of yours")


def test_a_path_too_long_for_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unsafe(tmp_path / ("r" * 100), monkeypatch, "too long for a socket")


def test_a_place_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unsafe(tmp_path / "a" / "b", monkeypatch, "Set AUTOGRADER_RUNTIME_DIR")


def test_the_stamp_changes_with_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "autograder" / "specs").mkdir(parents=True)
    monkeypatch.setattr(runtime, "PACKAGE", tmp_path / "autograder")
    stamps = [runtime.source_stamp()]
    for path in ("autograder/specs/lab01.py", "internals/tape.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("x = 1\n")
        stamps.append(runtime.source_stamp())
    (tmp_path / "internals/tape.py").write_text("x = 22\n")
    stamps.append(runtime.source_stamp())
    assert len(set(stamps)) == 4
