"""A learner's function in several processes of a sandbox: what they send, how they end, and that all of them do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from boxes import KINDS, processes_of, small_lab

from autograder.sandbox import Box

DRIVERS = """
import os, sys, time
import numpy as np
from ranks import joined, raise_first, run_ranks
from peers import PeerLost

def tried(names, body, size, conditions=None, limit=3.0, strict=False):
    scope = {"np": np, "os": os, "sys": sys, "time": time, "PeerLost": PeerLost}
    exec(body, scope)
    ended = run_ranks(scope["f"], size, conditions=conditions, limit=limit)
    if strict:
        raise_first(ended)
    return ended

def kind_of_links(names):
    links = joined(3)
    return [str(link.family.name) for ends in links for link in ends.values()]

def children_left(names):
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:
        return -1
"""
RING = """
def f(peers):
    peers.send((peers.rank + 1) % peers.size, np.full(peers.rank + 1, float(peers.rank)))
    return peers.receive((peers.rank - 1) % peers.size)
"""
CELL = "def f(peers):\n    if peers.rank == 1:\n        return peers.missing\n    return peers.receive(1)"

LOOPS = "def loops(peers):\n    while peers.rank == 1:\n        pass\n    return peers.receive(1)"


class Sandbox:
    """A sandbox in which ranks can be run, and one call of it."""

    def __init__(self, kind: str) -> None:
        self.box = Box(small_lab(processes=8, loopback=True, total_limit=120.0), kind)
        self.box.request({"do": "load", "drivers": DRIVERS}, timeout=30.0)
        self.box.request({"do": "mark", "task": "t", "names": []}, timeout=30.0)

    def ask(self, driver: str, **inputs: Any) -> dict[str, Any]:
        return self.box.request({"do": "call", "task": "t", "driver": driver, "inputs": inputs}, timeout=20.0)

    def tried(self, body: str, size: int, **options: Any) -> list[dict[str, Any]]:
        reply = self.ask("tried", body=body, size=size, **options)
        assert "value" in reply, reply
        return reply["value"]


@pytest.fixture(scope="module", params=KINDS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    made = Sandbox(request.param)
    yield made
    made.box.close()
    if made.box.uid != os.geteuid():
        assert processes_of({made.box.uid}) == []


pytestmark = [pytest.mark.slow, pytest.mark.skipif("not KINDS", reason="no sandbox here")]


def test_messages_go_over_tcp_where_the_sandbox_has_a_network_of_its_own(sandbox: Sandbox) -> None:
    family = "AF_INET" if sandbox.box.kind == "bubblewrap" else "AF_UNIX"
    assert sandbox.ask("kind_of_links")["value"] == [family] * 6


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_ring(sandbox: Sandbox, size: int) -> None:
    ended = sandbox.tried(RING, size)
    for rank, one in enumerate(ended):
        before, after = (rank - 1) % size, (rank + 1) % size
        assert one["value"].tolist() == [float(before)] * (before + 1)
        assert one["counts"]["sent"][after] == 1
        assert one["counts"]["bytes"][after] == 8 * (rank + 1)
        assert one["log"] == [["send", after, 8 * (rank + 1)], ["receive", before, 8 * (before + 1)]]


def test_one_rank_alone(sandbox: Sandbox) -> None:
    (one,) = sandbox.tried("def f(peers): return [peers.rank, peers.size]", 1)
    assert one["value"] == [0, 1]


def test_each_rank_is_a_process(sandbox: Sandbox) -> None:
    ended = sandbox.tried("def f(peers): return os.getpid()", 4)
    assert len({one["value"] for one in ended}) == 4


def test_large_messages_both_ways_at_once(sandbox: Sandbox) -> None:
    body = """
def f(peers):
    other = 1 - peers.rank
    peers.send(other, np.full(1_500_000, peers.rank + 0.5))
    got = peers.receive(other)
    return [got.size, float(got.min()), float(got.max())]
"""
    ended = sandbox.tried(body, 2, limit=10.0)
    assert [one["value"] for one in ended] == [[1_500_000, 1.5, 1.5], [1_500_000, 0.5, 0.5]]


def test_messages_of_one_peer_keep_their_order_and_those_of_two_overtake(sandbox: Sandbox) -> None:
    body = """
def f(peers):
    if peers.rank:
        for number in range(12):
            peers.send(0, [peers.rank, number])
        return None
    return [peers.receive_any()[1] for _ in range(36)]
"""
    orders = []
    for seed in (1, 2):
        came = sandbox.tried(body, 4, conditions={"seed": seed, "delay": 0.01})[0]["value"]
        for rank in (1, 2, 3):
            assert [number for source, number in came if source == rank] == list(range(12))
        orders.append([source for source, _ in came])
        assert orders[-1] != sorted(orders[-1])
    assert orders[0] != orders[1]


def test_a_message_that_is_held_back_is_no_deadlock(sandbox: Sandbox) -> None:
    ended = sandbox.tried(RING, 3, conditions={"seed": 5, "delay": 0.1})
    assert all("value" in one for one in ended)


@pytest.mark.parametrize(("size", "stuck"), [(2, [1, 0]), (3, [1, 2, 0])])
def test_sends_that_wait_for_each_other_are_named(sandbox: Sandbox, size: int, stuck: list[int]) -> None:
    began = time.monotonic()
    ended = sandbox.tried(RING, size, conditions={"rendezvous": True}, limit=15.0)
    assert [(one["waits"], one["for"]) for one in ended] == [("send", [peer]) for peer in stuck]
    assert time.monotonic() - began < 10


def test_a_right_order_of_sends_needs_no_buffer(sandbox: Sandbox) -> None:
    body = """
def f(peers):
    left, right = (peers.rank - 1) % peers.size, (peers.rank + 1) % peers.size
    for _ in range(3):
        if peers.rank % 2 == 0:
            peers.send(right, peers.rank)
            got = peers.receive(left)
        else:
            got = peers.receive(left)
            peers.send(right, peers.rank)
    return got
"""
    for size in (2, 3, 4, 5):
        ended = sandbox.tried(body, size, conditions={"rendezvous": True, "delay": 0.002})
        assert [one["value"] for one in ended] == [(rank - 1) % size for rank in range(size)]


def test_waiting_for_one_that_has_returned_is_named(sandbox: Sandbox) -> None:
    body = """
def f(peers):
    if peers.rank == 0:
        peers.send(1, "once")
        return "done"
    return [peers.receive(0), peers.receive(0)] if peers.rank == 1 else peers.receive_any()
"""
    ended = sandbox.tried(body, 3, limit=15.0)
    assert ended[0]["value"] == "done"
    assert [(one["waits"], one["for"]) for one in ended[1:]] == [("receive", [0]), ("receive", [0, 1])]


def test_one_that_is_at_work_is_not_taken_for_stuck(sandbox: Sandbox) -> None:
    body = """
def f(peers):
    if peers.rank == 0:
        time.sleep(0.3)
        peers.send(1, 7)
        return 0
    return peers.receive(0)
"""
    assert [one["value"] for one in sandbox.tried(body, 2)] == [0, 7]


def test_a_killed_peer_is_seen_after_what_it_had_sent(sandbox: Sandbox) -> None:
    body = """
def f(peers):
    if peers.rank == 1:
        peers.send(0, "first")
        peers.send(2, "second")
        peers.send(0, "never")
    if peers.rank == 0:
        got = [peers.receive(1)]
        try:
            peers.receive(1)
        except ConnectionError as error:
            return [*got, str(error), error.peer]
    return peers.receive(1)
"""
    ended = sandbox.tried(body, 3, conditions={"kill": [1, 2]})
    assert ended[0]["value"] == ["first", "rank 1 is gone", 1]
    assert ended[1] == {"killed": True}
    assert ended[2]["value"] == "second"


def test_the_loss_of_a_peer_spreads_where_nobody_handles_it(sandbox: Sandbox) -> None:
    ended = sandbox.tried(RING.replace("return", "peers.receive((peers.rank - 1) % peers.size); return"), 4,
                          conditions={"kill": [2, 1]})  # fmt: skip
    assert ended[2] == {"killed": True}
    assert [one["lost"] for rank, one in enumerate(ended) if rank != 2] == [3, 0, 2]
    assert {one["error"]["type"] for rank, one in enumerate(ended) if rank != 2} == {"PeerLost"}


def test_receive_any_says_once_for_each_peer_that_it_is_gone(sandbox: Sandbox) -> None:
    body = """
def f(peers):
    if peers.rank == 1:
        return peers.send(0, "one")
    if peers.rank == 2:
        peers.send(0, "two")
        raise ValueError("of its own")
    got = []
    while len(got) < 3:
        try:
            got.append(peers.receive_any()[1])
        except PeerLost as error:
            got.append(error.peer)
    return got
"""
    ended = sandbox.tried(body, 3)
    assert sorted(map(str, ended[0]["value"])) == ["2", "one", "two"]
    assert ended[2]["error"]["message"] == "of its own"


def test_an_error_is_told_as_it_was_raised(sandbox: Sandbox) -> None:
    sandbox.box.request({"do": "exec", "cell": 4, "code": CELL}, timeout=10.0)
    sandbox.box.request({"do": "mark", "task": "t", "names": ["f"]}, timeout=10.0)
    body = "import __main__\ndef f(peers): return __main__.f(peers)"
    error = sandbox.ask("tried", body=body, size=3, strict=True)["error"]
    assert (error["type"], error["cell"], error["line"], error["cause"]) == ("AttributeError", 4, 3, "exception")
    assert "return peers.missing" in error["traceback"]


def test_the_line_of_one_that_waits_is_told(sandbox: Sandbox) -> None:
    sandbox.box.request({"do": "exec", "cell": 6, "code": "def f(peers):\n    return peers.receive(0)"}, timeout=10.0)
    body = "import __main__\ndef f(peers): return __main__.f(peers) if peers.rank else None"
    ended = sandbox.tried(body, 2)
    assert (ended[1]["cell"], ended[1]["line"]) == (6, 2)


@pytest.mark.parametrize(
    ("fault", "key", "words"),
    [
        ("os._exit(5)", "died", "exit status 5"), ("os.kill(os.getpid(), 11)", "died", "signal 11"),
        ("sys.exit(3)", "error", "asked Python to exit"), ("return object()", "error", "holds, a object"),
        ("raise KeyboardInterrupt", "error", "KeyboardInterrupt"), ("while True: pass", "runs", "True"),
        ("return f(peers)", "error", "RecursionError"), ("peers.send(1, 1)", "error", "this rank itself"),
        ("peers.send(9, 1)", "error", "rank 9"), ("peers.send(True, 1)", "error", "rank True"),
        ("peers.receive(-1)", "error", "rank -1"), ("peers.send(0, f)", "error", "function"),
        ("import signal; signal.signal(15, signal.SIG_IGN); time.sleep(60)", "runs", "True"),
        ("os.close(3); os.close(4)\n        return 1", "value", "1"), ("os.closerange(3, 60)", "died", "exit"),
        ("if os.fork() == 0: time.sleep(60)", "value", "1"),
    ],
)  # fmt: skip
def test_whatever_a_rank_does_all_end_and_the_next_call_works(
    sandbox: Sandbox, fault: str, key: str, words: str
) -> None:
    body = f"def f(peers):\n    if peers.rank == 1:\n        {fault}\n    return peers.rank"
    ended = sandbox.tried(body, 3, limit=0.5 if key == "runs" else 5.0)
    assert key in ended[1], ended
    assert words in str(ended[1][key])
    assert sandbox.ask("children_left")["value"] == -1
    assert [one["value"] for one in sandbox.tried("def f(peers): return peers.rank", 2)] == [0, 1]


@pytest.mark.parametrize("rendezvous", [False, True])
def test_who_was_at_work_when_the_time_was_up_is_told_from_who_waited_for_it(
    sandbox: Sandbox, rendezvous: bool
) -> None:
    waits = "peers.send(1, 2)" if rendezvous else "peers.receive(1)"
    body = f"def f(peers):\n    while peers.rank == 1: pass\n    return peers.receive(0) if peers.rank else {waits}"
    ended = sandbox.tried(body, 3, limit=1.0, conditions={"rendezvous": rendezvous})
    assert ended[1]["runs"] is True
    doing = "send" if rendezvous else "receive"
    assert [(ended[rank]["waits"], ended[rank]["for"]) for rank in (0, 2)] == [(doing, [1]), ("receive", [0])]


def test_where_a_loop_was_when_the_time_was_up_is_told(sandbox: Sandbox) -> None:
    sandbox.box.request({"do": "exec", "cell": 7, "code": LOOPS}, timeout=10.0)
    sandbox.box.request({"do": "mark", "task": "t", "names": ["loops"]}, timeout=10.0)
    ended = sandbox.tried("import __main__\ndef f(peers): return __main__.loops(peers)", 2, limit=1.0)
    assert (ended[1]["runs"], ended[1]["cell"]) == (True, 7)
    assert ended[1]["line"] in (2, 3)
    assert (ended[0]["waits"], ended[0]["cell"], ended[0]["line"]) == ("receive", 7, 4)


def test_ranks_that_a_message_was_on_its_way_to_did_not_wait_in_vain(sandbox: Sandbox) -> None:
    body = "def f(peers):\n    peers.send(1 - peers.rank, 1)\n    return peers.receive(1 - peers.rank)"
    ended = sandbox.tried(body, 2, limit=0.5, conditions={"delay": 1000.0, "seed": 1})
    assert [one["runs"] for one in ended] == [True, True]


def test_what_ranks_print_is_heard(sandbox: Sandbox) -> None:
    reply = sandbox.ask("tried", body="def f(peers): print('here')", size=2)
    assert reply["printed"] == "[0] here\n[1] here\n"


@pytest.mark.parametrize("size", [0, 9])
def test_a_number_of_ranks_that_cannot_be_run(sandbox: Sandbox, size: int) -> None:
    assert f"{size} ranks" in sandbox.ask("tried", body=RING, size=size)["error"]["message"]
