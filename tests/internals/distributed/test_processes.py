"""Jobs of processes: results by rank, the first error, and nobody left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from internals.distributed.errors import DeadlineExceeded, PeerLost, RemoteError
from internals.distributed.group import Group, run_processes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
WAIT = 60.0


def totals(group: Group, scale: float) -> dict[str, Any]:
    """Everybody sends everybody a large array."""
    array = np.random.default_rng(group.rank).normal(size=20_000) * scale
    for rank in range(group.size):
        group.send(rank, "x", array)
    total = sum(group.receive(rank, "x").arrays[0] for rank in range(group.size))
    return {"rank": group.rank, "pid": os.getpid(), "total": total}


@pytest.mark.parametrize(("transport", "size"), [("shm", 3), ("tcp", 2), ("shm", 1)])
def test_results_come_by_rank_from_processes_of_their_own(transport: str, size: int) -> None:
    results = run_processes(size, totals, 2.0, transport=transport, deadline=WAIT)
    expected = sum(np.random.default_rng(rank).normal(size=20_000) * 2.0 for rank in range(size))
    assert [result["rank"] for result in results] == list(range(size))
    assert all(np.array_equal(result["total"], expected) for result in results)
    assert len({result["pid"] for result in results} | {os.getpid()}) == size + 1


class Fussy(Exception):
    """An error that can't be pickled back."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fails(group: Group, how: str) -> Any:
    if group.rank != 1:
        group.receive(1, "never")
    if how == "value":
        raise ValueError("bad shard")
    if how == "fussy":
        raise Fussy(1, 2)
    if how == "exit":
        sys.exit(3)
    if how == "result":
        return lambda: 0
    if how == "os exit":
        os._exit(4)
    os.kill(os.getpid(), getattr(signal, how))
    return time.sleep(WAIT)


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ("value", ValueError, "bad shard"),
        ("fussy", RemoteError, "rank:1 answered with Fussy: 1 and 2"),
        ("exit", RemoteError, "rank:1 answered with SystemExit: 3"),
        ("result", Exception, "lambda|pickle"),
        ("os exit", PeerLost, "lost rank:1: its process ended with exit code 4"),
        ("SIGKILL", PeerLost, "lost rank:1: its process was killed by SIGKILL"),
        ("SIGSTOP", PeerLost, "lost rank:1: its connection broke"),
    ],
)
def test_the_rank_that_failed_is_named_and_nobody_is_left(
    how: str, error: type, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("internals.distributed.group.processes.REST", 1.0)
    with pytest.raises(error, match=says) as raised:
        run_processes(2, fails, how, deadline=WAIT)
    if how != "SIGSTOP":
        assert "raised by rank 1 of 2" in raised.value.__notes__
    if how == "value":
        assert any("in rank 1" in note and 'raise ValueError("bad shard")' in note for note in raised.value.__notes__)
    assert not children()


def children() -> list[psutil.Process]:
    """Processes started by this one that run a rank."""
    return [child for child in psutil.Process().children(recursive=True) if "spawn_main" in " ".join(child.cmdline())]


def stuck(group: Group) -> None:
    if group.rank:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)  # grandchild of a rank"])
        time.sleep(600)


def test_time_is_up_for_all_and_for_what_they_started() -> None:
    with pytest.raises(DeadlineExceeded, match=r"rank (0, )?1 had not ended within 3 s; they were killed"):
        run_processes(2, stuck, deadline=3.0)
    assert not children()
    assert not [
        p for p in psutil.process_iter(["cmdline"]) if "grandchild of a rank" in " ".join(p.info["cmdline"] or [])
    ]


def leaves_a_daemon(group: Group, fails: bool) -> int:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        time.sleep(300)
    if fails:
        raise KeyError(pid)
    return pid


@pytest.mark.skipif(sys.platform != "linux", reason="who started whom is read from /proc")
@pytest.mark.parametrize("fails", [False, True])
def test_what_a_rank_left_in_a_session_of_its_own_is_ended(fails: bool) -> None:
    if fails:
        with pytest.raises(KeyError) as caught:
            run_processes(2, leaves_a_daemon, fails, deadline=30.0)
        left = [caught.value.args[0]]
    else:
        left = run_processes(2, leaves_a_daemon, fails, deadline=30.0)
    until(lambda: not any(alive(pid) for pid in left))


SCRIPT = """
import os, time
from internals.distributed.group import run_processes

def sleeps(group):
    open(os.environ["PIDS"], "a").write(f"{os.getpid()}\\n")
    time.sleep(600)

if __name__ == "__main__":
    run_processes(2, sleeps, deadline=600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_ranks_die_with_who_started_them(how: signal.Signals, tmp_path: Path) -> None:
    pids, script = tmp_path / "pids", tmp_path / "job.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PIDS": str(pids), "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, str(script)], env=environment, stderr=subprocess.DEVNULL)
    try:
        until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        ranks = [int(pid) for pid in pids.read_text().split()]
        parent.send_signal(how)
        parent.wait(WAIT)
        until(lambda: not any(alive(pid) for pid in ranks))
    finally:
        parent.kill()
        parent.wait()


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def until(true: Any) -> None:
    end = time.monotonic() + WAIT
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    assert true()


def local(group: Group) -> None: ...


@pytest.mark.parametrize(
    ("function", "says"),
    [(lambda group: 0, "can't be found by another process"), (local, None)],
    ids=["lambda", "notebook"],
)
def test_a_function_that_no_other_process_can_find_is_named(
    function: Any, says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if says is None:
        monkeypatch.setattr(local, "__module__", "__main__")
        monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
        says = "defined in a notebook or at a prompt"
    with pytest.raises(ValueError, match=says):
        run_processes(2, function)


def test_there_is_at_least_one_rank() -> None:
    with pytest.raises(ValueError, match="0 ranks; at least 1"):
        run_processes(0, totals, 1.0)
