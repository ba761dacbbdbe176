"""Each person's JupyterLab in a room of its own: another user id where the hub is root, and only its own files to see.

JupyterHub's simple spawner runs everybody's server as the hub's user, so that each can read the others' files and the
gradebook. Here bubblewrap gives each server a file system that holds the system's programs, Python, the framework, and
the person's own folder, and its own process numbers. The network is the machine's: servers must reach the hub.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jupyterhub.spawner import LocalProcessSpawner
from traitlets import Bool

from classroom.places import ROOT, Place

FIRST_UID = 200_000
"""The first user id given to a person, above those of a system's own accounts."""
PROCESSES = 1024
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/run/systemd/resolve")
# Of this checkout. What knows answers (specs, oracles, solutions, tests and their mutants) is not among it.
COURSE = ("internals", "autograder", "classroom", "book/_build/html")
ANSWERS = ("autograder/specs", "autograder/starter", "autograder/gradebook/migrations")


class CannotIsolate(RuntimeError):
    """No server can be started in a room of its own; one line that says what to do."""


@cache
def isolation() -> str:
    """Why servers can't have a file system of their own on this machine; "" where they can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed; on Debian: apt install bubblewrap"
    try:
        tried = subprocess.run(
            [*room(Path("/"), (), user=None, home=None, passwd=None), "/bin/true"],
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not run here: {error}"
    return "" if tried.returncode == 0 else f"bubblewrap does not run here: {tried.stderr.strip()[:300]}"


def python_trees() -> list[str]:
    """The folders that this Python lives in, outermost first."""
    trees = {os.path.realpath(sys.base_prefix), sys.base_prefix, sys.prefix}
    return sorted(tree for tree in trees if not tree.startswith("/usr"))


def room(
    root: Path, course: Sequence[str], *, user: int | None, home: tuple[Path, str] | None, passwd: Path | None
) -> list[str]:
    """The command that a server's own command follows.

    Parameters
    ----------
    root : Path
        The checkout, of which the parts named in `course` are seen, read-only.
    user : int or None
        The user id that it runs as; None keeps the hub's.
    home : (Path, str) or None
        The person's folder, and where they see it.
    passwd : Path or None
        Seen as ``/etc/passwd``, so that the user id has a name.
    """
    parts = ["bwrap", "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    parts += ["--hostname", "classroom", "--proc", "/proc", "--dev", "/dev"]
    for folder in ("/dev/shm", "/tmp", "/var/tmp"):
        parts += ["--perms", "1777", "--tmpfs", folder]
    for path in SYSTEM:
        if os.path.islink(path):
            parts += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            parts += ["--ro-bind", path, path]
    seen = [*python_trees(), *(str(root / part) for part in course), *([home[1]] if home else [])]
    above = {str(folder) for path in seen for folder in Path(path).parents}
    for folder in sorted(
        one for one in above - {"/"} if not f"{one}/".startswith(tuple(f"{tree}/" for tree in SYSTEM))
    ):
        parts += ["--perms", "755", "--dir", folder]  # made by itself, only root could pass it
    if passwd is not None:
        parts += ["--ro-bind", str(passwd), "/etc/passwd"]
    for tree in python_trees():
        parts += ["--ro-bind", tree, tree]
    for part in course:
        if (root / part).exists():
            parts += ["--ro-bind", str(root / part), str(root / part)]
    for part in ANSWERS if course else ():
        if (root / part).is_dir():
            parts += ["--tmpfs", str(root / part), "--remount-ro", str(root / part)]
    if home is not None:
        parts += ["--bind", str(home[0]), home[1], "--chdir", home[1]]
    parts += ["--"]
    if shutil.which("prlimit"):
        parts += ["prlimit", "--core=0", *([f"--nproc={PROCESSES}"] if user is not None else []), "--"]
    if user is not None:
        parts += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs", "--"]
    return parts


class UserIds:
    """The user id of each person, given once and never to another."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def of(self, name: str) -> int:
        try:
            known: dict[str, int] = json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            known = {}
        if name not in known:
            known[name] = max(known.values(), default=FIRST_UID - 1) + 1
            beside = self.file.with_suffix(".new")
            with open(beside, "w", encoding="utf-8") as file:
                json.dump(known, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.file)
        return known[name]


class ClassSpawner(LocalProcessSpawner):
    """A person's server, in a room of its own."""

    cmd: Any
    isolated = Bool(True, help="Refuse to start a server that is not in a room of its own.").tag(config=True)

    @property
    def place(self) -> Place:
        return Place.current()

    @property
    def seen_home(self) -> str:
        """Where the server sees the person's folder."""
        return f"/home/{self.user.name}" if self.in_room else str(self.place.homes / self.user.name)

    @property
    def in_room(self) -> bool:
        return self.isolated and not isolation()

    def make_preexec_fn(self, name: str) -> Any:
        return None

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        home = self.seen_home
        kept = {name: value for name, value in env.items() if not name.startswith(("CLASSROOM_", "XDG_"))}
        return kept | {"USER": self.user.name, "HOME": home, "SHELL": "/bin/bash", "LOGNAME": self.user.name}

    async def start(self) -> tuple[str, int]:
        if self.isolated and (why := isolation()):
            raise CannotIsolate(f"{why}. Or start the hub with --without-isolation, where everybody trusts everybody.")
        home = self.place.homes / self.user.name
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        user = self.user_id()
        if user is not None and home.stat().st_uid != user:
            os.chown(home, user, user)
        self.popen_kwargs = {"cwd": str(home)}
        cmd = self.cmd
        if self.in_room:
            self.cmd = [
                *room(ROOT, COURSE, user=user, home=(home, self.seen_home), passwd=self.passwd(user)),
                *cmd,
            ]
        try:
            return await super().start()
        finally:
            self.cmd = cmd

    def user_id(self) -> int | None:
        return UserIds(self.place.users).of(self.user.name) if self.in_room and os.geteuid() == 0 else None

    def passwd(self, user: int | None) -> Path:
        """A table of users with this one in it; no other person's name is told."""
        number = os.getuid() if user is None else user
        file = self.place.runtime / f"passwd-{number}"
        line = f"{self.user.name}:x:{number}:{number}::{self.seen_home}:/bin/bash\n"
        root = "" if number == 0 else "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
        file.write_text(root + line, encoding="utf-8")
        file.chmod(0o644)
        return file
