"""No page shows outputs that were computed from other code than is published with it (jupyter-book#1633)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def cache_key(book: Callable[[str], ModuleType]) -> ModuleType:
    return book("book/_ext/cache_key.py")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "internals" / "ops").mkdir(parents=True)
    (tmp_path / "internals" / "ops" / "table.py").write_text("one = 1\n")
    return tmp_path


def test_the_key_is_the_same_for_the_same_code(cache_key: ModuleType, tree: Path) -> None:
    before = cache_key.digest(tree, ["internals"], ["numpy"])
    os.utime(tree / "internals" / "ops" / "table.py", (1, 1))
    (tree / "internals" / "ops" / "__pycache__").mkdir()
    (tree / "internals" / "ops" / "__pycache__" / "table.cpython-311.pyc").write_bytes(b"compiled")
    assert cache_key.digest(tree, ["internals"], ["numpy"]) == before


@pytest.mark.parametrize("change", ["edit", "add", "rename", "delete"])
def test_the_key_changes_with_the_code(cache_key: ModuleType, tree: Path, change: str) -> None:
    before = cache_key.digest(tree, ["internals"], [])
    file = tree / "internals" / "ops" / "table.py"
    if change == "edit":
        file.write_text("one = 2\n")
    elif change == "add":
        (tree / "internals" / "new.py").write_text("")
    elif change == "rename":
        file.rename(file.with_name("rows.py"))
    else:
        file.unlink()
    assert cache_key.digest(tree, ["internals"], []) != before


def test_the_key_changes_with_the_version_of_a_framework(
    cache_key: ModuleType, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"torch": "2.13.0"}
    monkeypatch.setattr(cache_key.importlib.metadata, "version", versions.__getitem__)
    before = cache_key.digest(tree, ["internals"], ["torch"])
    versions["torch"] = "2.14.0"
    assert cache_key.digest(tree, ["internals"], ["torch"]) != before


def test_a_folder_that_is_not_there_is_an_error_and_not_an_empty_key(cache_key: ModuleType, tree: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        cache_key.digest(tree, ["no_such_room"], [])


def test_old_caches_go_and_the_current_one_stays(cache_key: ModuleType, tmp_path: Path) -> None:
    for age, name in enumerate(["current", "a", "b", "c"]):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (100 + age, 100 + age))
    cache_key.prune(tmp_path, "current", kept=3)
    assert {c.name for c in tmp_path.iterdir()} == {"current", "b", "c"}


PROJECT = {
    "conf.py": """
import sys
sys.path.insert(0, {ext!r})
extensions = ["myst_nb", "cache_key"]
cache_key_paths = ["internals"]
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
""",
    "index.md": """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  name: python3
  display_name: Python 3
---

# A page

```{{code-cell}}
import internals.answer
print("the answer is", internals.answer.value())
```
""",
    "internals/__init__.py": "",
    "internals/answer.py": "def value():\n    return 41\n",
}


@pytest.mark.slow
def test_a_change_in_internals_reaches_a_page_whose_source_did_not_change(root: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name, text in PROJECT.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(ext=str(root / "book" / "_ext")) if name in {"conf.py", "index.md"} else text)

    def build() -> str:
        command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", str(project), str(tmp_path / "build" / "html")]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return (tmp_path / "build" / "html" / "index.html").read_text()

    assert "the answer is 41" in build()
    (project / "internals" / "answer.py").write_text("def value():\n    return 42\n")
    assert "the answer is 42" in build()
