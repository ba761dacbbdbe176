"""`make test` runs every test, each once; a few that failed once more; and none of that hides what is broken."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
ONCE = """
from pathlib import Path

def test_passes_the_second_time():
    seen = Path(__file__).with_name("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""
NEVER = "def test_fails():\n    assert False\n"
ALWAYS = "def test_passes():\n    pass\n"
LEAVES = "def pytest_sessionfinish(session):\n    session.exitstatus = 8\n"


@pytest.fixture
def suite() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tools_test", ROOT / "tools" / "test.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_test_file_is_run_once(suite: ModuleType) -> None:
    runs: dict[Path, int] = dict.fromkeys((ROOT / "tests").rglob("test_*.py"), 0)
    for part in suite.PARTS.values():
        left_out = {ROOT / one.removeprefix("--ignore=") for one in part.options if one.startswith("--ignore=")}
        for path in {ROOT / one for one in part.paths}:
            assert path.exists(), path
            for file in runs:
                runs[file] += (file == path or path in file.parents) and file not in left_out
    assert {file for file, times in runs.items() if times != 1} == set()


def test_notebooks_are_a_part(suite: ModuleType) -> None:
    assert any("--nbval" in part.options and part.paths == ["labs/solutions"] for part in suite.PARTS.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "share", "code", "again"),
    [
        ([ONCE, ALWAYS], "", 0, ["unsteady, passed when run again"]),
        ([NEVER, ALWAYS], "", 1, ["failed again"]),
        ([ONCE, NEVER], "worksteal", 1, ["failed again", "unsteady, passed when run again"]),
        ([ONCE, ONCE, ONCE, ONCE], "", 1, []),
        (["import nowhere"], "", 2, []),
        ([ONCE, LEAVES], "", 8, []),
    ],
)
def test_a_few_failures_are_run_again(
    suite: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    files: list[str],
    share: str,
    code: int,
    again: list[str],
) -> None:
    for number, source in enumerate(files):
        (tmp_path / str(number)).mkdir()
        name = "conftest.py" if source == LEAVES else f"test_{number}.py"
        (tmp_path / str(number) / name).write_text(source)
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    monkeypatch.setattr(suite, "PARTS", {"a part": suite.Part([*suite.PLAIN, "--rootdir", "."], ["."], share)})
    assert suite.main(["-q"]) == code
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("=== unsteady", "=== failed"))]
    assert sorted(line.removeprefix("=== ").split(":")[0] for line in said) == again
