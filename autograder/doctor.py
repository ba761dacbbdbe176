"""What this machine can do: each thing the course uses, with its version, and how to get what is missing.

Only the standard library is imported before it is known what is installed, so that this runs on a bare machine too.
No framework is imported: versions come from the installed packages' metadata.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = (3, 11), (3, 13)
GIB = 1 << 30
State = Literal["ok", "optional", "missing"]
MARKS: dict[State, str] = {"ok": "ok", "optional": "--", "missing": "!!"}


@dataclass(frozen=True)
class Finding:
    """One thing looked for.

    Parameters
    ----------
    part : str
        The heading it stands under.
    name : str
        What was looked for.
    state : "ok", "optional" or "missing"
        optional: not there, and only what `fix` names needs it. missing: the course doesn't work without it.
    detail : str
        Version, or what was seen.
    fix : str
        How to get it; empty when nothing is amiss.
    """

    part: str
    name: str
    state: State
    detail: str
    fix: str = ""


def installed(package: str) -> str | None:
    """The version of an installed distribution, without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def output(*command: str, timeout: float = 10) -> str | None:
    """What a command prints on standard output; None when it isn't there or fails."""
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def python() -> Iterator[Finding]:
    version = platform.python_version()
    where = "in .venv" if Path(sys.prefix) == ROOT / ".venv" else sys.prefix
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        yield Finding("Python", "Python", "ok", f"{version}, {where}")
    else:
        newest = f"{NEWEST[0]}.{NEWEST[1]}"
        need = f"Install Python {OLDEST[0]}.{OLDEST[1]} to {newest}; then: make setup PYTHON=python{newest}"
        yield Finding("Python", "Python", "missing", version, need)
    lock = ROOT / "requirements.lock"
    if lock.exists():
        yield packages(lock)
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        why = "unset PYTHONDONTWRITEBYTECODE: edited modules are compiled anew at every import."
        yield Finding("Python", "byte code", "optional", "not written", why)


def packages(lock: Path) -> Finding:
    """Whether the environment holds what the lock says."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)(?: ; (.*))?$", lock.read_text(encoding="utf-8"), re.MULTILINE)
    here = [
        (name, version)
        for name, version, marker in pins
        if not marker or (installed(name) or name in ("torch", "numpy"))
    ]
    differ = []
    for name, version in here:
        found = installed(name)
        if found is None or found.split("+")[0] != version:
            differ.append(f"{name} {found or 'not installed'}, locked {version}")
    if not differ:
        return Finding("Python", "packages", "ok", f"{len(here)} as locked")
    shown = "; ".join(differ[:3]) + (f" and {len(differ) - 3} more" if len(differ) > 3 else "")
    return Finding("Python", "packages", "missing", shown, "make setup")


FRAMEWORKS = {
    "NumPy": ("numpy",),
    "PyTorch": ("torch",),
    "TensorFlow": ("tensorflow-cpu", "tensorflow"),
    "scikit-learn": ("scikit-learn",),
    "JupyterLab": ("jupyterlab",),
    "Jupyter Book": ("jupyter-book",),
}
RIVALS = {"autograd": "autograd", "DeZero": "dezero", "tinygrad": "tinygrad"}


def frameworks() -> Iterator[Finding]:
    for name, candidates in FRAMEWORKS.items():
        found = [f"{version}" for candidate in candidates if (version := installed(candidate))]
        if found:
            yield Finding("Frameworks", name, "ok", found[0])
        else:
            yield Finding("Frameworks", name, "missing", "not installed", "make setup")
    for name, package in RIVALS.items():
        version = installed(package)
        fix = "" if version else f"Only make bench compares with it: pip install {package}"
        yield Finding("Frameworks", name, "ok" if version else "optional", version or "not installed", fix)


def gpu() -> Iterator[Finding]:
    listed = output("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    cupy = installed("cupy-cuda12x") or installed("cupy")
    if not listed:
        why = "Only device 'cuda' needs one; 'cpu' and 'sim' do without."
        yield Finding("Devices", "GPU", "optional", f"no NVIDIA device; CuPy {cupy or 'not installed'}", why)
        return
    yield Finding("Devices", "GPU", "ok", "; ".join(listed.splitlines()))
    if not cupy:
        yield Finding("Devices", "CuPy", "optional", "not installed", "pip install 'framework-internals[gpu]'")
        return
    probe = "import cupy; print(float(cupy.arange(4).sum()), cupy.cuda.runtime.runtimeGetVersion())"
    answer = output(sys.executable, "-c", probe, timeout=60)
    if answer:
        yield Finding("Devices", "CuPy", "ok", f"{cupy}, CUDA runtime {answer.split()[-1]}, computed on the device")
    else:
        yield Finding(
            "Devices",
            "CuPy",
            "optional",
            f"{cupy}, but it can't compute",
            f"See why: {sys.executable} -c 'import cupy; cupy.arange(4).sum()'",
        )


def resources() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding(
        "Devices", "processor", "ok", f"{cores} cores, {platform.machine()}, {platform.system()} {platform.release()}"
    )
    if "SC_PHYS_PAGES" in os.sysconf_names:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
        few = "" if total >= 4 else "TensorFlow and PyTorch together want 4 GB; close other programs while grading."
        yield Finding("Devices", "memory", "optional" if few else "ok", f"{total:.1f} GB", few)
    free = shutil.disk_usage(ROOT).free / GIB
    full = "" if free >= 1 else "Free some space: submissions and the site are written here."
    yield Finding("Devices", "disk", "missing" if full else "ok", f"{free:.1f} GB free at {ROOT}", full)


def program(name: str, commands: tuple[str, ...], need: str, fix: str) -> Finding:
    """The first of `commands` that runs, with its version."""
    for command in commands:
        found = output(command, "--version") if shutil.which(command) else None
        if found is not None:
            return Finding("Programs", name, "ok", f"{command}: {first_line(found)}")
    return Finding("Programs", name, "optional", "not found", f"{need}: {fix}")


APT = "Debian, Ubuntu: sudo apt-get install"
PROGRAMS = (
    ("C compiler", ("cc", "gcc", "clang"), "Compiled kernels need one", f"{APT} gcc"),
    ("clang", ("clang",), "Only make bench needs it, for tinygrad", f"{APT} clang"),
    ("Node.js", ("node",), "The site's formulas come from npm", f"{APT} nodejs npm; macOS: brew install node"),
    ("npm", ("npm",), "The site's formulas come from npm", f"{APT} npm; macOS: brew install node"),
    ("browser", ("chromium", "chromium-browser", "google-chrome"), "Browser tests need Chromium", f"{APT} chromium"),
)


def programs() -> Iterator[Finding]:
    with ThreadPoolExecutor() as pool:
        yield from pool.map(lambda row: program(*row), PROGRAMS)


SANDBOXES = {
    "bubblewrap": f"The stronger sandbox: {APT} bubblewrap",
    "landlock": "Needs Linux 5.13 or newer with Landlock enabled; bubblewrap does without.",
}


def sandboxes() -> Iterator[Finding]:
    """Each kind with what its canary proved (some seconds the first time), and whether official grading has one."""
    try:
        from autograder.sandbox import canary, cgroups
    except ModuleNotFoundError as error:
        yield Finding("Sandbox", "sandbox", "missing", f"not known: {error.name} is not installed", "make setup")
        return
    proven = []
    for kind, fix in SANDBOXES.items():
        if kind not in canary.kinds():
            yield Finding("Sandbox", kind, "optional", "not available", fix)
            continue
        proof = canary.prove(kind)
        detail = proof.words.removeprefix(f"{kind}: ")
        if proof.proven:
            proven.append(kind)
            yield Finding("Sandbox", kind, "ok", detail)
        else:
            yield Finding("Sandbox", kind, "optional", detail, "Good for practice; official grading refuses it.")
    group = cgroups.create(f"doctor-{os.getpid()}", memory=GIB, processes=64)
    if group:
        yield Finding("Sandbox", "cgroups", "ok", f"{group.words}: memory and processes of a whole sandbox are counted")
        group.remove()
    else:
        why = "Not needed: limits are set for each process, and the grader watches them together."
        yield Finding("Sandbox", "cgroups", "optional", "no group with memory and pids can be made", why)
    if proven:
        yield Finding("Sandbox", "grading", "ok", f"official, in {proven[0]}")
    else:
        advice = SANDBOXES["bubblewrap"] if sys.platform == "linux" else "Grade in a Linux container."
        yield Finding("Sandbox", "grading", "missing", "practice only: no sandbox is proven to hold", advice)


PARTS: tuple[Callable[[], Iterator[Finding]], ...] = (python, frameworks, sandboxes, gpu, resources, programs)


def examine() -> list[Finding]:
    """Look for everything, side by side; findings come in a fixed order."""
    with ThreadPoolExecutor() as pool:
        return [finding for part in pool.map(lambda part: list(part()), PARTS) for finding in part]


def text(findings: list[Finding]) -> str:
    """The findings as a table with a heading per part, ending in one line that sums them up."""
    lines, part = [], ""
    for finding in findings:
        if finding.part != part:
            part = finding.part
            lines += ["", part]
        lines.append(f"  {MARKS[finding.state]}  {finding.name:<14}{finding.detail}")
        if finding.fix:
            lines.append(f"      {'':<14}{finding.fix}")
    missing = [finding.name for finding in findings if finding.state == "missing"]
    lines += ["", f"Missing: {', '.join(missing)}." if missing else "Everything the course needs is here."]
    return "\n".join(lines[1:])


def main(arguments: list[str] | None = None) -> int:
    """Print the findings; 0 when nothing the course needs is missing, else 1."""
    parser = argparse.ArgumentParser(prog="autograder doctor", description="Print what this machine can do.")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    options = parser.parse_args(arguments)
    findings = examine()
    ready = all(finding.state != "missing" for finding in findings)
    if options.json:
        print(json.dumps({"ready": ready, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        print(text(findings))
    return 0 if ready else 1


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `make doctor | head` ends quietly
    sys.exit(main())
