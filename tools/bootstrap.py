"""Make the environment that everything else runs in: .venv, with what requirements.lock says.

Pure standard library, run by `make` before every target. When nothing changed it is a check of one stamp; it may be
interrupted and run again at any time.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 13)  # NEWEST: the last Python that TensorFlow has a build for
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed"
UNFINISHED = VENV / "unfinished"
LOG = VENV / "install.log"


class SetupError(Exception):
    """Something is missing; the message says what, and how to get it."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def digest(*paths: Path) -> str:
    """One digest of several files' contents."""
    total = hashlib.sha256()
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()


def find_python() -> str:
    """A Python this project runs on: this one, or another on PATH."""
    names = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return sys.executable
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    have = ".".join(map(str, sys.version_info[:3]))
    raise SetupError(
        f"Python {have} found; {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]} is needed. "
        f"Install one (Debian, Ubuntu: sudo apt-get install python3 python3-venv; macOS: brew install python@3.13), "
        f"or name one: make PYTHON=/path/to/python3.13 ..."
    )


def environment() -> dict[str, str]:
    """Our own environment, less what would leave the installed packages without byte code or send them elsewhere.

    Frameworks import two to three times slower without byte code.
    """
    unwanted = {
        "PYTHONDONTWRITEBYTECODE",
        "PIP_NO_COMPILE",
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_USER",
        "PYTHONPATH",
        "PYTHONHOME",
    }
    return {name: value for name, value in os.environ.items() if name not in unwanted}


def create_venv() -> None:
    """Create .venv, or mend one whose creation was interrupted or whose Python has gone."""
    # pip is itself among the pins, so an interruption may have hit it; ensurepip brings it back.
    if (VENV / "pyvenv.cfg").exists() and (
        runs([str(PYTHON), "-m", "pip", "--version"]) or runs([str(PYTHON), "-m", "ensurepip"])
    ):
        return
    base = find_python()
    if not runs([base, "-c", "import venv, ensurepip"]):
        version = ".".join(map(str, sys.version_info[:2]))
        raise SetupError(
            f"{base} can't create virtual environments: its venv or ensurepip module is missing. "
            f"Install it (Debian, Ubuntu: sudo apt-get install python3-venv, or python{version}-venv)."
        )
    say(f"Creating {VENV.name} with {base}")
    # --clear: only reached when there is no working environment to lose.
    result = subprocess.run(
        [base, "-m", "venv", "--clear", str(VENV)], check=False, capture_output=True, text=True, env=environment()
    )
    if result.returncode:
        raise SetupError(f"{VENV.name} could not be created: {(result.stderr or result.stdout).strip()}")


def runs(command: list[str]) -> bool:
    """Whether a command exits with 0."""
    try:
        return subprocess.run(command, check=False, capture_output=True, env=environment()).returncode == 0
    except OSError:
        return False


def site_packages() -> Path:
    return next((VENV / "lib").glob("python3*/site-packages"))


def forget_half_installed() -> None:
    """After an interrupted install: drop the records of packages that lack files, so that pip installs them again."""
    for record in site_packages().glob("*.dist-info"):
        listing = record / "RECORD"
        if listing.exists():
            names = [line.split(",", 1)[0].strip('"') for line in listing.read_text(encoding="utf-8").splitlines()]
            if all((record.parent / name).exists() for name in names if not name.endswith(".pyc")):
                continue
        say(f"  {record.name.removesuffix('.dist-info')} was only half installed; installing it again")
        shutil.rmtree(record)


class Progress:
    """Tells how far pip is: what it prints goes to the log, packages are counted as they arrive in site-packages."""

    def __init__(self, expected: int) -> None:
        self.expected, self.phase, self.started = expected, "looking up", time.monotonic()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> Progress:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")

    def read(self, line: str) -> None:
        """Take the phase from a line that pip printed."""
        word, _, rest = line.strip().partition(" ")
        if word in ("Collecting", "Downloading", "Building"):
            self.phase = f"{word.lower()} {rest.split(' (from')[0]}"
        elif line.startswith("Installing collected packages"):
            self.phase = "unpacking and compiling"

    def watch(self) -> None:
        terminal = sys.stderr.isatty()
        while not self.done.wait(0.5 if terminal else 10):
            arrived = min(self.expected, sum(1 for _ in site_packages().glob("*.dist-info")))
            line = f"  {arrived}/{self.expected} packages, {time.monotonic() - self.started:.0f} s: {self.phase}"
            if terminal:
                sys.stderr.write("\r\033[K" + line[: shutil.get_terminal_size().columns - 1])
                sys.stderr.flush()
            else:
                say(line)


def pip(*arguments: str, expected: int) -> None:
    """Run pip install in .venv with progress; its whole output is kept in the log."""
    command = [
        str(PYTHON),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--progress-bar",
        "off",
        *arguments,
    ]
    with LOG.open("a", encoding="utf-8") as log, Progress(expected) as progress:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()
        )
        tail: list[str] = []
        try:
            for line in process.stdout or ():
                log.write(line)
                progress.read(line)
                tail = [*tail[-11:], line]
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if code:
        raise SetupError(
            f"pip could not install the requirements (exit {code}):\n{''.join(tail)}"
            f"Once that is put right, run the same command again; it goes on from here. Everything pip said: {LOG}"
        )


def install_python() -> None:
    """Bring .venv to what requirements.lock and pyproject.toml say."""
    lock, project = ROOT / "requirements.lock", ROOT / "pyproject.toml"
    wanted = digest(lock, project)
    if PYTHON.exists() and STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted:
        return
    create_venv()
    first = not STAMP.exists()
    STAMP.unlink(missing_ok=True)
    if UNFINISHED.exists():
        forget_half_installed()
    UNFINISHED.touch()
    pins = [line for line in lock.read_text(encoding="utf-8").splitlines() if "==" in line and not line.startswith("#")]
    started = time.monotonic()
    took = "about 3.5 GB, a few minutes" if first else "only what changed"
    say(f"Installing {len(pins)} packages into {VENV.name}: {took}")
    pip("--requirement", str(lock), expected=len(pins))
    pip("--no-deps", "--editable", str(ROOT), expected=len(pins))
    compile_missing()
    UNFINISHED.unlink()
    STAMP.write_text(wanted, encoding="utf-8")
    say(f"Requirements in place after {time.monotonic() - started:.0f} s")


def compile_missing() -> None:
    """Byte-compile packages that came without (installed earlier, under another setting)."""
    packages = site_packages()
    bare = [path.parent for path in packages.glob("*/__init__.py") if not (path.parent / "__pycache__").exists()]
    if bare:
        say(f"Compiling {len(bare)} packages")
        # Some packages ship templates that aren't valid Python; compileall's exit code counts those.
        subprocess.run(
            [str(PYTHON), "-m", "compileall", "-q", "-j", "0", *map(str, bare)],
            check=False,
            capture_output=True,
            env=environment(),
        )


def mention_sandbox() -> None:
    """Say once, after an install, what would make grading stronger here."""
    if sys.platform == "linux" and not shutil.which("bwrap"):
        say(
            "bubblewrap is not installed: learners' code runs under Landlock and seccomp, where the kernel has them.\n"
            "For the stronger sandbox: sudo apt-get install bubblewrap. `make doctor` shows what is proven here."
        )
    elif sys.platform != "linux":
        say("No sandbox on this system: checks work as practice; grade officially on Linux or in a container.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    try:
        with (ROOT / ".venv.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("Another make is installing; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            before = STAMP.exists()
            install_python()
            if not before:
                mention_sandbox()
    except SetupError as error:
        say(f"set-up: {error}")
        return 1
    except OSError as error:
        say(f"set-up: {error}. Put that right and run the same command again.")
        return 1
    except KeyboardInterrupt:
        say("\nset-up: interrupted; run the same command again to go on.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
