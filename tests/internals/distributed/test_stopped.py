"""A peer that asks for a large array and reads nothing any more: it holds up nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from internals.distributed.errors import PeerLost
from internals.distributed.transport import Message, Reply, open_endpoint

pytestmark = pytest.mark.slow

WAIT = 60.0
STOPS = """
import sys, threading
from internals.distributed.transport import Message, open_endpoint

endpoint = open_endpoint("two", transport=sys.argv[1])
endpoint.connect("one", sys.argv[2], 60)
endpoint.start("one", Message("large"))
threading.Event().wait()
"""


@pytest.fixture
def stops() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_who_asks_and_stops_holds_nobody_up(transport: str, stops: list[subprocess.Popen[bytes]]) -> None:
    """The answer is given in the endpoint's own thread, which the answers to all others need too."""
    asked, stopped = threading.Event(), threading.Event()
    array = np.random.default_rng(0).standard_normal(5_000_000)

    def large(message: Message, reply: Reply) -> Message:
        asked.set()
        assert stopped.wait(WAIT)
        return Message("", {}, [array])

    with open_endpoint("one", transport=transport) as one, open_endpoint("three", transport=transport) as three:
        one.on("large", large)
        one.on("echo", lambda message, reply: Message("", message.fields))
        three.connect("one", one.address, WAIT)
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
        process = subprocess.Popen([sys.executable, "-c", STOPS, transport, one.address], env=environment)
        stops.append(process)
        assert asked.wait(WAIT)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        stopped.set()
        assert three.call("one", Message("echo", {"n": 1}), WAIT).fields == {"n": 1}
        with pytest.raises(PeerLost, match="lost two: its connection broke"):
            one.receive("x", "two", WAIT)
