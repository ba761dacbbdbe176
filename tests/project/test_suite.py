"""`make test` runs every test: no folder is left out of its parts, and none stands in two."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def suite() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tools_test", ROOT / "tools" / "test.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_test_file_is_run_once(suite: ModuleType) -> None:
    runs: dict[Path, int] = dict.fromkeys((ROOT / "tests").rglob("test_*.py"), 0)
    for part in suite.PARTS.values():
        left_out = {ROOT / one.removeprefix("--ignore=") for one in part if one.startswith("--ignore=")}
        for path in {ROOT / one for one in part if one.startswith("tests/") and "*" not in one}:
            assert path.exists(), path
            for file in runs:
                runs[file] += (file == path or path in file.parents) and file not in left_out
    assert {file for file, times in runs.items() if times != 1} == set()


def test_notebooks_are_a_part(suite: ModuleType) -> None:
    assert any("--nbval" in part and "labs/solutions" in part for part in suite.PARTS.values())
