"""Write requirements.lock: exact versions for every extra of pyproject.toml. Run by `make lock`.

pip-compile resolves for the machine it runs on. What it drops because another platform needs it, and what is true
of this machine only (a local version such as ``+cpu``, an index), is put right here.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HEADER = """\
# Exact versions for every extra of pyproject.toml. Written by `make lock`; don't edit by hand.
# Installed by `make serve` and `make test`. To use it with pip alone: pip install -r requirements.lock
"""
LOCAL_VERSION = re.compile(r"^([A-Za-z0-9._-]+==[^+\s;]+)\+[^\s;]+")


def declared(root: Path = ROOT) -> list[Requirement]:
    """Every requirement in pyproject.toml: the core's and all extras'."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        lines += extra
    return [Requirement(line) for line in lines]


def compile_pins(requirements: list[Requirement], upgrade: bool) -> list[str]:
    """Let pip-compile resolve `requirements`; pins of the present lock are kept unless `upgrade`."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, pinned = Path(folder, "requirements.in"), Path(folder, "requirements.lock")
        wanted.write_text("\n".join(str(requirement) for requirement in requirements), encoding="utf-8")
        if LOCK.exists():
            pinned.write_bytes(LOCK.read_bytes())
        command = [
            sys.executable, "-m", "piptools", "compile", "--quiet", "--strip-extras", "--allow-unsafe",
            "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host",
            "--no-emit-options", "--output-file", str(pinned), str(wanted),
        ]  # fmt: skip
        if upgrade:
            command.append("--upgrade")
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        lines = pinned.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(("#", "-"))]


def with_markers(pins: list[str], requirements: list[Requirement]) -> list[str]:
    """Give pins back the markers pyproject.toml has for them, and add what other platforms need instead."""
    marked = {canonicalize_name(requirement.name): requirement for requirement in requirements if requirement.marker}
    lines = []
    for pin in pins:
        pin = LOCAL_VERSION.sub(r"\1", pin)
        requirement = marked.pop(canonicalize_name(Requirement(pin).name), None)
        lines.append(f"{pin} ; {requirement.marker}" if requirement and " ; " not in pin else pin)
    for requirement in marked.values():
        if not str(requirement.specifier).startswith("=="):
            raise ValueError(
                f"{requirement}: for other platforms only, so not resolved here; pin it with == in pyproject.toml."
            )
        lines.append(f"{requirement.name}{requirement.specifier} ; {requirement.marker}")
    return sorted(lines, key=str.lower)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that pyproject.toml allows")
    arguments = parser.parse_args()
    requirements = declared()
    here = [requirement for requirement in requirements if not requirement.marker or requirement.marker.evaluate()]
    pins = with_markers(compile_pins(here, arguments.upgrade), requirements)
    LOCK.write_text(HEADER + "\n".join(pins) + "\n", encoding="utf-8")
    print(f"requirements.lock: {len(pins)} pins.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
