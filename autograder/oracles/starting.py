"""Starting an oracle process. Imports only the standard library, so that it can be the first thing a command does."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from autograder.oracles import runtime

FRAMEWORKS = ("tensorflow", "torch")
"""The slower to import first: they are started in this order."""

ON_DEMAND = ("onnxruntime",)
"""Quick to import and asked by few tasks: started when they are first asked."""


class OracleError(RuntimeError):
    """An oracle cannot answer. Never the learner's fault."""


_children: dict[Path, subprocess.Popen[bytes]] = {}
"""By their sockets: a process may have had more than one directory for them."""


def launch(framework: str) -> bool:
    """Start the process of `framework` in the background, unless one runs or is starting. Returns at once.

    Returns
    -------
    bool
        Whether this call started it.
    """
    if importlib.util.find_spec(framework) is None:
        raise OracleError(f"{framework} is not installed in {sys.prefix}. Run: pip install -e '.[frameworks]'")
    home = runtime.directory()
    # The child inherits the lock and holds it while it lives: no lock goes stale, and two starters can't start two.
    with open(home / f"{framework}.lock", "a+b") as lock, open(home / f"{framework}.log", "ab") as log:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        log.truncate(0)
        command = [
            sys.executable,
            "-P",
            "-m",
            "autograder.oracles.server",
            framework,
            os.fspath(socket_path(framework)),
        ]
        command += ["--idle", os.environ.get("AUTOGRADER_ORACLE_IDLE", "900")]
        _children[socket_path(framework)] = subprocess.Popen(
            command,
            cwd="/",
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(lock.fileno(),),
        )
    return True


def socket_path(framework: str) -> Path:
    return runtime.directory() / f"{framework}.sock"


def environment() -> dict[str, str]:
    """The oracle's environment: byte code is written, no accelerator is taken, one thread does the small cases."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONSTARTUP")
    }
    kept["PYTHONPATH"] = os.fspath(runtime.PACKAGE.parent)
    return kept | {
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def is_locked(framework: str) -> bool:
    with open(runtime.directory() / f"{framework}.lock", "a+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def reap(framework: str) -> None:
    """Wait for a process that this one started and that has been told to end."""
    child = _children.pop(socket_path(framework), None)
    if child is not None:
        child.wait()


def launch_all() -> None:
    """Start every framework that is installed; what keeps one from starting is told to whoever asks it."""
    for framework in FRAMEWORKS:
        try:
            launch(framework)
        except (OracleError, runtime.RuntimeUnsafe, OSError):
            continue
