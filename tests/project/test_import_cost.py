"""What an import brings with it, seen from a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "IPython", "alembic", "cffi", "cupy", "hypothesis", "jinja2", "matplotlib", "nbformat", "numpy", "onnx",
    "scipy", "sklearn", "sqlalchemy", "tensorflow", "torch", "tornado", "zmq",
}  # fmt: skip
PROBE = """
import json, sys
before = set(sys.modules)
{statement}
after = {{name.split(".")[0] for name in set(sys.modules) - before}}
print(json.dumps(sorted(after - set(sys.stdlib_module_names))), file=sys.__stderr__)
"""


def brought_by(statement: str) -> set[str]:
    """Top-level names of what is not in the standard library and was imported by `statement`."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(statement=statement)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.slow
def test_internals_brings_numpy_only() -> None:
    assert brought_by("import internals") == {"internals", "numpy"}


@pytest.mark.parametrize(
    "name", ["autograder", "autograder.spec", "autograder.report", "autograder.doctor", "autograder.cli"]
)
def test_autograder_brings_nothing_heavy(name: str) -> None:
    assert not brought_by(f"import {name}") & HEAVY


def test_frames_bring_only_what_the_sandbox_mounts() -> None:
    brought = brought_by("import autograder.frames")  # msgpack is compiled by Cython, which leaves modules of its own
    assert {name for name in brought if "cython" not in name} <= {"autograder", "msgpack", "numpy"}


def test_help_brings_nothing_heavy() -> None:
    assert not brought_by("import autograder.cli; assert autograder.cli.run(['--help']) == 0") & HEAVY


def test_the_probe_sees_what_is_imported() -> None:
    assert "numpy" in brought_by("import numpy") & HEAVY
