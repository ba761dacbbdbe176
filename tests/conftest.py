"""What all tests share: no test touches the user's gradebook or oracles, and none leaves a process behind."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from functools import cache
from pathlib import Path

import psutil
import pytest

SESSION = "AUTOGRADER_TEST_SESSION"
"""Inherited by every process the tests start, so that those left running can be told from everyone else's."""

LONG_LIVED = ("autograder.oracles", "autograder.daemon", "multiprocessing.resource_tracker")
"""Processes that are meant to outlive the one that started them; the session ends them, others are a leak."""


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what runs in the background like this, and all that a test starts would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):  # an xdist worker inherits the controller's environment
        return
    home = tempfile.mkdtemp(prefix="ag-")  # short: it holds Unix sockets
    os.environ[SESSION] = home
    os.environ["AUTOGRADER_HOME"] = str(Path(home, "home"))
    os.environ["AUTOGRADER_RUNTIME_DIR"] = str(Path(home, "run"))
    os.environ.setdefault("MPLBACKEND", "Agg")


def pytest_sessionfinish(session: pytest.Session) -> None:
    home = os.environ.get(SESSION)
    if home is None or hasattr(session.config, "workerinput"):
        return
    leaked = end_processes(home)
    shutil.rmtree(home, ignore_errors=True)
    if leaked:
        session.config.stash[LEAKED] = leaked
        session.exitstatus = LEFT_RUNNING


LEAKED = pytest.StashKey[list[str]]()
LEFT_RUNNING = 8
"""The exit code where tests left processes: another than that of tests that failed, which may pass the next time."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(LEAKED, []):
        terminalreporter.write_line(f"ERROR: a test left a process running: {line}", red=True)


def end_processes(home: str) -> list[str]:
    """End what this test session left running; return what should not have been."""
    mine = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    leaked, found = [], []
    for process in psutil.process_iter():
        if process.pid in mine:
            continue
        try:
            if process.environ().get(SESSION) != home or process.status() == psutil.STATUS_ZOMBIE:
                continue
            command = " ".join(process.cmdline())
        except psutil.Error:  # ended meanwhile, or another user's
            continue
        found.append(process)
        if not any(name in command for name in LONG_LIVED):
            leaked.append(f"{process.pid} {command}")
        process.terminate()
    for process in psutil.wait_procs(found, timeout=5)[1]:
        process.kill()
    return leaked


@cache
def has_gpu() -> bool:
    """Whether CuPy finds a CUDA device. Looks for the driver first: importing CuPy takes a second."""
    if not (Path("/dev/nvidiactl").exists() or shutil.which("nvidia-smi")):
        return False
    import cupy

    return bool(cupy.cuda.is_available())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not has_gpu():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no CUDA device (see `make doctor`)"))
    # In CI a missing browser is a fault of the set-up: the tests run, and say so.
    if not shutil.which("chromium") and not os.environ.get("CI"):
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.skip(reason="no Chromium (Debian, Ubuntu: sudo apt-get install chromium)"))
