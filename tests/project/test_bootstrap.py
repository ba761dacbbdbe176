"""`make setup` on a small project: what it installs, when it does nothing, how it takes an interruption."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A build backend in the project itself, so that no test needs a network.
BACKEND = """
import pathlib, time, zipfile
INFO = "mini-1.0.dist-info"
def build_editable(folder, settings=None, metadata=None):
    if pathlib.Path("slow").exists():
        pathlib.Path("reached").touch()
        time.sleep(60)
    with zipfile.ZipFile(pathlib.Path(folder, "mini-1.0-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("mini.pth", str(pathlib.Path.cwd()))
        wheel.writestr(f"{INFO}/METADATA", "Metadata-Version: 2.1\\nName: mini\\nVersion: 1.0\\n")
        tag = "Root-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\\nGenerator: mini\\n" + tag)
        wheel.writestr(f"{INFO}/RECORD", "")
    return "mini-1.0-py3-none-any.whl"
build_wheel = build_editable
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "mini"
version = "1.0"
"""


def write_wheel(folder: Path, name: str, version: str) -> None:
    """A wheel with one package of two modules."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        files = {
            f"{name}/__init__.py": f"version = {version!r}\n",
            f"{name}/part.py": "here = True\n",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"]))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    (root / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "bootstrap.py", root / "tools")
    (root / "backend.py").write_text(BACKEND)
    (root / "pyproject.toml").write_text(PYPROJECT)
    (root / "wheels").mkdir()
    for version in ("1.0", "2.0"):
        write_wheel(root / "wheels", "tiny", version)
    (root / "requirements.lock").write_text("tiny==1.0\n")
    done = bootstrap(root)
    assert done.returncode == 0, done.stderr
    return root


COMMAND = [sys.executable, "tools/bootstrap.py"]


def environment(root: Path) -> dict[str, str]:
    """No network, and settings of the user's that would leave packages without byte code."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    local = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(root / "wheels")}
    return kept | local | {"PYTHONDONTWRITEBYTECODE": "1", "PIP_NO_COMPILE": "1"}


def bootstrap(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(COMMAND, cwd=root, env=environment(root), capture_output=True, text=True, check=False)


def in_venv(root: Path, program: str) -> str:
    command = [str(root / ".venv" / "bin" / "python"), "-c", program]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
def test_installs_the_lock_and_the_project(project: Path) -> None:
    assert in_venv(project, "import tiny, backend; print(tiny.version)") in ("1.0", "2.0")


@pytest.mark.slow
def test_byte_code_is_there_whatever_the_environment_says(project: Path) -> None:
    assert (
        in_venv(
            project,
            "import importlib.util, os, tiny; print(os.path.exists(importlib.util.cache_from_source(tiny.__file__)))",
        )
        == "True"
    )


@pytest.mark.slow
def test_second_run_does_nothing_and_is_quick(project: Path) -> None:
    started = time.monotonic()
    done = bootstrap(project)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - started < 2


@pytest.mark.slow
def test_changed_lock_is_followed(project: Path) -> None:
    (project / "requirements.lock").write_text("tiny==2.0\n")
    assert bootstrap(project).returncode == 0
    assert in_venv(project, "import tiny; print(tiny.version)") == "2.0"


@pytest.mark.slow
def test_half_installed_package_is_mended_after_an_interruption(project: Path) -> None:
    venv = project / ".venv"
    next(venv.glob("lib/python3*/site-packages/tiny/part.py")).unlink()
    (venv / "installed").unlink()
    (venv / "unfinished").touch()
    done = bootstrap(project)
    assert done.returncode == 0
    assert "half installed" in done.stderr
    assert in_venv(project, "import tiny.part; print(tiny.part.here)") == "True"


@pytest.mark.slow
def test_interrupted_run_says_so_and_the_next_goes_on(project: Path) -> None:
    (project / ".venv" / "installed").unlink()
    (project / "slow").touch()
    process = subprocess.Popen(
        COMMAND, cwd=project, env=environment(project), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (project / "reached").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    _, said = process.communicate(timeout=20)
    (project / "slow").unlink()
    assert process.returncode == 130
    assert "interrupted; run the same command again" in said
    assert "Traceback" not in said
    assert not (project / ".venv" / "installed").exists()
    assert bootstrap(project).returncode == 0
    assert (project / ".venv" / "installed").exists()


@pytest.mark.slow
def test_missing_version_is_said_and_a_later_run_goes_on(project: Path) -> None:
    good = (project / "requirements.lock").read_text()
    (project / "requirements.lock").write_text("tiny==9.9\n")
    done = bootstrap(project)
    assert done.returncode == 1
    assert "tiny==9.9" in done.stderr
    assert "Traceback" not in done.stderr
    (project / "requirements.lock").write_text(good)
    assert bootstrap(project).returncode == 0


@pytest.mark.slow
def test_broken_environment_is_made_again(project: Path) -> None:
    (project / ".venv" / "pyvenv.cfg").unlink()
    (project / ".venv" / "installed").unlink()
    assert bootstrap(project).returncode == 0
    assert in_venv(project, "import tiny; print(tiny.__name__)") == "tiny"


def test_python_that_is_too_old_is_named(tmp_path: Path) -> None:
    program = (
        "import runpy, sys, shutil\nshutil.which = lambda name: None\nsys.version_info = (3, 9, 2)\n"
        "tool = runpy.run_path(sys.argv[1])\n"
        "try: tool['find_python']()\nexcept tool['SetupError'] as error: print(error)"
    )
    path = str(ROOT / "tools" / "bootstrap.py")
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert "Python 3.9.2 found; 3.11 to 3.13 is needed" in done.stdout
    assert "apt-get install python3" in done.stdout
