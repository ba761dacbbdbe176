"""The import rules of pyproject.toml hold, and would be missed if they were broken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("internals", "autograder", "classroom")


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200"}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_rooms_are_kept() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        ("internals/device/sim.py", "import internals.tensor", "from models down to devices"),
        ("internals/ops/table.py", "import torch", "no other framework"),
        ("internals/ops/table.py", "import autograder", "no other framework"),
        ("autograder/report.py", "import internals", "in specs only"),
        ("autograder/worker.py", "import autograder.specs", "no answers"),
        ("autograder/drivers/lab05_tape.py", "import torch", "no answers"),
    ],
)
def test_a_broken_rule_is_found(tmp_path: Path, module: str, statement: str, contract: str) -> None:
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=lambda folder, names: {n for n in names if n == "__pycache__"}
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / module).open("a") as source:
        source.write(f"\n{statement}\n")
    done = lint_imports(tmp_path)
    assert done.returncode != 0
    broken = [line for line in done.stdout.splitlines() if line.endswith("BROKEN")]
    assert any(contract in line for line in broken), done.stdout
