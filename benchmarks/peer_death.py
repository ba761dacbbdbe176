"""How soon the death of a peer is noticed: ``python -m benchmarks.peer_death [--quick]``.

A process with an endpoint is killed (its sockets close with it) or stopped (they stay open: only its silence tells),
while this one waits for a message of it, for the answer to a call, or does nothing and is told. Seconds from the
signal until `PeerLost` is raised here, or `when_lost` calls; over each transport between processes, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from internals.distributed.errors import PeerLost
from internals.distributed.transport import LATER, Endpoint, Message, open_endpoint

RESULTS = Path(__file__).parent / "results"
GOAL = 2.0
PATIENCE = 60.0
DEATHS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}


@contextmanager
def peer(transport: str) -> Iterator[tuple[int, str]]:
    """A process with an endpoint: its pid and its address. Nothing of it is left afterwards."""
    command = [sys.executable, "-m", "benchmarks.peer_death", "--be", transport]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.pid, process.stdout.readline().strip()
        finally:
            process.kill()


def be(transport: str) -> None:
    """Be that process, until killed."""
    endpoint = open_endpoint("peer", transport=transport, secret="benchmark")
    endpoint.on("echo", lambda message, reply: Message("", message.fields, message.arrays))
    endpoint.on("never", lambda message, reply: LATER)
    print(endpoint.address, flush=True)
    threading.Event().wait()


def in_receive(endpoint: Endpoint) -> Callable[[], None]:
    def notice() -> None:
        endpoint.receive("news", "peer", deadline=PATIENCE)

    return notice


def in_call(endpoint: Endpoint) -> Callable[[], None]:
    number = endpoint.start("peer", Message("never"))

    def notice() -> None:
        endpoint.finish(number, deadline=PATIENCE)

    return notice


def in_nothing(endpoint: Endpoint) -> Callable[[], None]:
    told = threading.Event()
    endpoint.when_lost(lambda name, reason: told.set())

    def notice() -> None:
        if not told.wait(PATIENCE):
            raise SystemExit(f"benchmarks.peer_death: nothing was noticed in {PATIENCE:.0f} s")
        raise PeerLost("peer", "when_lost told of it")

    return notice


WAYS = {"waits for a message": in_receive, "waits for an answer": in_call, "does nothing": in_nothing}


def noticed(transport: str, way: str, death: signal.Signals) -> float:
    """Seconds from the signal until this process knows."""
    with peer(transport) as (pid, address), open_endpoint("here", transport=transport, secret="benchmark") as endpoint:
        endpoint.connect("peer", address, deadline=PATIENCE)
        endpoint.call("peer", Message("echo"), deadline=PATIENCE)
        notice = WAYS[way](endpoint)
        began = time.perf_counter()
        os.kill(pid, death)
        try:
            notice()
        except PeerLost:
            return time.perf_counter() - began
        raise SystemExit(f"benchmarks.peer_death: {way}, {transport}: an answer of the dead")


@dataclass(frozen=True)
class Row:
    """What was measured of one death: seconds, the median and the most."""

    death: str
    way: str
    transport: str
    median: float
    most: float


def measure(rounds: int) -> list[Row]:
    cases = [(death, way, transport) for death in DEATHS for way in WAYS for transport in ("shm", "tcp")]
    seconds: dict[tuple[str, str, str], list[float]] = {case: [] for case in cases}
    for turn in range(rounds):
        for case in cases[:: 1 if turn % 2 else -1]:
            death, way, transport = case
            seconds[case].append(noticed(transport, way, DEATHS[death]))
    return [Row(*case, statistics.median(found), max(found)) for case, found in seconds.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, and nothing is written")
    parser.add_argument("--be", metavar="TRANSPORT", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.be:
        be(chosen.be)
        return
    rounds = 1 if chosen.quick else 9
    rows = measure(rounds)
    lines = [
        f"Time until the death of a peer is noticed by a process; the median and the most of {rounds}.",
        "",
        "| the peer is | this process | over | median | most |",
        "|---|---|---|--:|--:|",
        *(
            f"| {row.death} | {row.way} | {row.transport} | {row.median * 1000:.0f} ms | {row.most * 1000:.0f} ms |"
            for row in rows
        ),
    ]
    print("\n".join(lines))
    print(f"\nThe slowest took {max(row.most for row in rows):.2f} s; the goal is {GOAL:.0f} s.")
    if not chosen.quick:
        (RESULTS / "peer_death.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (RESULTS / "peer_death.json").write_text(
            json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
