"""Workers: bounded, gone when the consumer is, and honest about what went wrong."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from internals.data import read

ROOT = Path(__file__).resolve().parents[3]
KINDS = {"threads": False, "processes": True}


class Awkward(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def fails(item: int) -> int:
    if item == 7:
        raise KeyError("seven")
    if item == 9:
        raise Awkward("ni", "ne")
    if item == 11:
        next(iter(()))
    return item


def hides(item: int) -> Any:
    return threading.Lock() if item == 2 else item


def ended() -> bool:
    """Whether no worker is left, in a moment."""
    for _ in range(100):
        left = [child for child in psutil.Process().children() if child.name().startswith("python")]
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]
        if not multiprocessing.active_children() and not left and not threads:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("items", "function", "error", "match"),
    [
        (range(5, 8), fails, KeyError, "seven[^$]*item 2 of epoch 0 .*worker"),
        (range(9, 11), fails, Exception, "ni.*ne[^$]*item 0 of epoch 0 .*worker"),
        (range(11, 13), fails, RuntimeError, "StopIteration[^$]*item 0 of epoch 0"),
        (range(3), lambda i: sys.exit(3) if i else 0, (RuntimeError, SystemExit), "3"),
    ],
    ids=["KeyError", "awkward to pickle", "StopIteration", "exit"],
)
def test_an_error_reaches_the_consumer(kind: str, items: range, function: Any, error: Any, match: str) -> None:
    reader = read(items).map(function).prefetch(2, processes=KINDS[kind])
    with pytest.raises(error, match=match) as caught:
        list(reader)
    trace = caught.getrepr(style="native")
    assert "function(item)" in str(trace), "the worker's own traceback"
    del caught, trace
    assert ended()


@pytest.mark.slow
def test_an_item_that_can_not_be_sent_is_an_error() -> None:
    with pytest.raises(TypeError, match="pickle '_thread.lock' object[^$]*item 2 "):
        list(read(range(4)).map(hides).prefetch(2, processes=True))


def test_an_error_in_the_plan_reaches_the_consumer() -> None:
    def broken() -> Any:
        yield 1
        raise OSError("the disk is gone")

    for processes in KINDS.values():
        items = iter(read(broken).prefetch(2, processes=processes))
        assert next(items) == 1
        with pytest.raises(OSError, match="the disk is gone"):
            next(items)


@pytest.mark.slow
def test_a_worker_that_is_killed_is_named() -> None:
    reader = read(range(6)).map(lambda i: os.kill(os.getpid(), signal.SIGKILL) if i == 3 else i)
    with pytest.raises(RuntimeError, match="worker process 1 ended by signal 9[^$]*item 3 of epoch 0"):
        list(reader.prefetch(2, processes=True))
    assert ended()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_workers_end_when_the_consumer_leaves(kind: str) -> None:
    for taken in range(3):
        iterator = iter(read(range(100)).map(lambda i: np.zeros(200_000)).prefetch(3, processes=KINDS[kind]))
        for _ in range(taken):
            next(iterator)
        del iterator
        assert ended()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_more_than_ahead_are_waiting(kind: str) -> None:
    planned: list[int] = []

    def counted() -> Any:
        for i in range(50):
            planned.append(i)
            yield i

    iterator = iter(read(counted).prefetch(2, processes=KINDS[kind], ahead=3))
    for taken in range(1, 6):
        next(iterator)
        time.sleep(0.03)
        assert len(planned) == taken + 3
    del iterator
    assert ended()


@pytest.mark.slow
def test_big_items_both_ways_do_not_block() -> None:
    """Each pipe holds 64 kB or so; recipes and items of 1 MB must not wait for each other."""
    stream = read(lambda: (np.full(125_000, i, np.int64) for i in range(12)))
    made = list(stream.map(lambda x: x + 1).prefetch(2, processes=True, ahead=6))
    assert [item[0] for item in made] == list(range(1, 13))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_as_many_items_are_made_at_once_as_there_are_workers(kind: str) -> None:
    """No item is ready before three are in the making."""
    barrier: Any = multiprocessing.get_context("fork").Barrier(3) if KINDS[kind] else threading.Barrier(3)
    reader = read(range(9)).map(lambda i: barrier.wait(timeout=20) * 0 + i)
    assert list(reader.prefetch(3, processes=KINDS[kind])) == list(range(9))


SPAWNED = """
import multiprocessing, numpy as np
from internals.data import ArrayDataset, prefetch, read, split
prefetch._FORK = False
digits = split(ArrayDataset(np.arange(9)), (4, 5))[1]
print(list(read(digits).batch(2).map(len).prefetch(2, processes=True)))
try:
    list(read(range(3)).map(lambda i: i).prefetch(2, processes=True))
except Exception as error:
    print("pickle" in str(error), multiprocessing.active_children())
"""


@pytest.mark.slow
def test_where_nothing_is_forked_functions_are_sent() -> None:
    done = subprocess.run([sys.executable, "-c", SPAWNED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[2, 2, 1]", "True []"], done.stderr


STOPPED = """
import os, sys, time
from internals.data import ArrayDataset, prefetch, read, split
reader = read(range(1000)).map(lambda i: time.sleep(0.005) or i).prefetch(3, processes=True)
for item in reader:
    if item == 20:
        import psutil
        print(*[child.pid for child in psutil.Process().children()], flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "group"), [(signal.SIGINT, True), (signal.SIGKILL, False)], ids=["Ctrl-C", "consumer killed"]
)
def test_no_worker_outlives_its_consumer(how: signal.Signals, group: bool) -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", STOPPED],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert running.stdout is not None
    workers = [int(pid) for pid in running.stdout.readline().split()]
    assert len(workers) == 3
    if group:
        os.killpg(running.pid, how)
    else:
        running.send_signal(how)
    _, told = running.communicate(timeout=60)
    assert ("KeyboardInterrupt" in told) == group
    assert told.count("Traceback") == group, told  # the consumer's, and none of a worker's
    deadline = time.monotonic() + 5
    while any(psutil.pid_exists(pid) for pid in workers):
        assert time.monotonic() < deadline, "a worker is still there"
        time.sleep(0.05)
