"""What a person's server does first: fetch the labs, beside what the person wrote; then become JupyterLab.

``python -m classroom.starter``, run as the person, in their folder. It never changes a file that they changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from autograder import remote

LABS = "labs"
GIVEN = Path(".local", "share", "autograder", "given.json")
CONFIG = Path(__file__).with_name("jupyter_server_config.py")


@dataclass
class Fetched:
    """What was put where: names of files in the folder of labs."""

    new: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    """Untouched since they were given, and now of a newer version."""
    beside: list[str] = field(default_factory=list)
    """A newer version of a lab that the person works in, under another name."""
    fault: str = ""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def fetch(home: Path, ask: Callable[[str], bytes] = remote.ask) -> Fetched:
    """Put the released labs into ``labs/`` of `home`.

    Parameters
    ----------
    ask : callable
        The answer of the grading service to a path below its address.

    A lab that is not there is written. One whose file is as it was given is replaced by a newer version. One that was
    changed in any way stays, and the newer version is put beside it, once, as ``NAME.new.ipynb``.
    """
    done = Fetched()
    try:
        released = [(str(lab["name"]), str(lab["version"])) for lab in json.loads(ask("api/labs"))]
        folder = home / LABS
        folder.mkdir(exist_ok=True)
        given = _read(home / GIVEN)
        for name, version in released:
            if Path(name).name != name:  # a name is no path
                continue
            _one(folder, name, version, given, ask, done)
            _write(home / GIVEN, given)
    except (remote.RemoteError, OSError, ValueError, KeyError, TypeError) as error:
        done.fault = f"The labs could not be fetched: {error}"
    return done


def _one(
    folder: Path, name: str, version: str, given: dict[str, str], ask: Callable[[str], bytes], done: Fetched
) -> None:
    file = folder / f"{name}.ipynb"
    try:
        there: str | None = digest(file.read_bytes())
    except FileNotFoundError:
        there = None
    if there == version:
        given[name] = version
    elif there is None:
        _place(file, ask(f"api/labs/{name}.ipynb"))
        given[name] = version
        done.new.append(file.name)
    elif there == given.get(name):
        _replace(file, ask(f"api/labs/{name}.ipynb"))
        given[name] = version
        done.replaced.append(file.name)
    elif given.get(f"{name} beside") != version and given.get(name) != version:
        data = ask(f"api/labs/{name}.ipynb")
        for number in range(1, 100):
            beside = folder / (f"{name}.new.ipynb" if number == 1 else f"{name}.new-{number}.ipynb")
            with contextlib.suppress(FileExistsError):
                _place(beside, data)
                done.beside.append(beside.name)
                given[f"{name} beside"] = version
                return


def _place(file: Path, data: bytes) -> None:
    """Write a file that must not be there yet, whole or not at all."""
    whole = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        whole.write_bytes(data)
        os.link(whole, file)
    finally:
        whole.unlink(missing_ok=True)


def _replace(file: Path, data: bytes) -> None:
    whole = file.with_name(f".{file.name}.{os.getpid()}")
    whole.write_bytes(data)
    whole.replace(file)


def _read(file: Path) -> dict[str, str]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _write(file: Path, given: dict[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    _replace(file, json.dumps(given, indent=1).encode())


def in_words(done: Fetched) -> list[str]:
    """What a person is told of it."""
    lines = [f"New: {name}" for name in done.new] + [f"Newer version: {name}" for name in done.replaced]
    lines += [f"Newer version, beside your own: {name}" for name in done.beside]
    return lines + ([done.fault] if done.fault else [])


def main() -> None:
    os.umask(0o077)
    for line in in_words(fetch(Path.home())):
        print(f"labs: {line}", file=sys.stderr, flush=True)
    (Path.home() / LABS).mkdir(exist_ok=True)
    arguments = [sys.executable, "-P", "-m", "jupyterhub.singleuser", f"--config={CONFIG}", *sys.argv[1:]]
    os.execv(sys.executable, arguments)


if __name__ == "__main__":
    main()
