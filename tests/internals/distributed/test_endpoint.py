"""What every transport does alike: one table of tests for threads, sockets and shared memory."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from internals.distributed.errors import DeadlineExceeded, DistributedError, PeerLost
from internals.distributed.transport import LATER, Endpoint, Message, Reply
from internals.distributed.transport import endpoint as endpoints

RANDOM = np.random.default_rng(21)
WAIT = 20.0

Opener = Callable[[str], Endpoint]


def arrays_of(message: Message) -> list[list[Any]]:
    return [array.tolist() for array in message.arrays]


def echo(message: Message, reply: Reply) -> Message:
    return Message("echo", message.fields, message.arrays)


@pytest.mark.parametrize("sizes", [[], [0], [1], [5, 0, 7], [20_000], [3, 400_000, 0, 9]], ids=str)
def test_a_message_arrives_with_all_it_holds(two: tuple[Endpoint, Endpoint], sizes: list[int]) -> None:
    one, other = two
    arrays = [RANDOM.normal(size=size).astype(np.float32) for size in sizes]
    one.send("two", Message("push", {"step": 3, "names": ["w", "b"]}, arrays))
    arrived = other.receive("push", "one", WAIT)
    assert (arrived.kind, arrived.fields, arrived.source) == ("push", {"step": 3, "names": ["w", "b"]}, "one")
    assert [array.dtype for array in arrived.arrays] == [np.dtype(np.float32)] * len(sizes)
    assert arrays_of(arrived) == [array.tolist() for array in arrays]
    assert not any(array.flags.writeable for array in arrived.arrays)


def test_the_one_connected_to_can_answer_and_send(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    one.on("echo", echo)
    assert other.call("one", Message("echo", {"x": 1}), WAIT).fields == {"x": 1}
    other.send("one", Message("note", {"y": 2}))
    assert one.receive("note", None, WAIT).fields == {"y": 2}


@pytest.mark.parametrize("size", [10, 30_000])
def test_arrays_may_be_written_to_once_they_are_sent(two: tuple[Endpoint, Endpoint], size: int) -> None:
    one, other = two
    array = np.empty(size)
    for number in range(20):
        array[:] = number
        one.send("two", Message("x", {}, [array]))
    array[:] = -1
    assert [set(other.receive("x", "one", WAIT).arrays[0].tolist()) for _ in range(20)] == [{i} for i in range(20)]


def test_one_kind_from_one_peer_arrives_in_the_order_sent_small_and_large(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    for number in range(200):
        one.send("two", Message("x" if number % 3 else "y", {"n": number}, [np.zeros(int(RANDOM.integers(0, 20_000)))]))
    got = {
        kind: [other.receive(kind, "one", WAIT).fields["n"] for _ in range(count)]
        for kind, count in (("y", 67), ("x", 133))
    }
    assert got["x"] == [number for number in range(200) if number % 3]
    assert got["y"] == list(range(0, 200, 3))


def test_a_message_is_received_by_peer_or_from_anyone_in_order_of_arrival(opener: Opener) -> None:
    hub, senders = opener("hub"), [opener(f"s{number}") for number in range(3)]
    for sender in senders:
        sender.connect("hub", hub.address)
    for sender in senders:
        sender.send("hub", Message("x", {"n": sender.name}))
    assert hub.receive("x", "s2", WAIT).source == "s2"
    assert {hub.receive("x", None, WAIT).source for _ in range(2)} == {"s0", "s1"}


def test_an_endpoint_sends_and_calls_to_itself(opener: Opener) -> None:
    one = opener("one")
    one.on("echo", echo)
    array = RANDOM.normal(size=30_000)
    for _ in range(2):
        one.send("one", Message("x", {}, [array]))
        assert (one.receive("x", "one", WAIT).arrays[0] == array).all()
        assert one.call("one", Message("echo", {"a": 1}), WAIT).fields == {"a": 1}


def test_who_was_not_connected_to_is_named(two: tuple[Endpoint, Endpoint]) -> None:
    one, _ = two
    for ask in (one.send, one.call, one.start):
        with pytest.raises(ValueError, match="connect to 'three' first; known are .*two"):
            ask("three", Message("x"))


@pytest.mark.parametrize("peer", ["two", None])
def test_a_message_that_does_not_come_is_named_with_the_deadline(two: tuple[Endpoint, Endpoint], peer: Any) -> None:
    with pytest.raises(
        DeadlineExceeded, match=rf"one: a message 'x' from {peer or 'anyone'} did not come within 0.05 s"
    ):
        two[0].receive("x", peer, 0.05)


def test_who_left_is_lost_after_what_it_sent_was_received(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    told: list[tuple[str, str]] = []
    one.when_lost(lambda peer, reason: 1 / 0)
    one.when_lost(lambda peer, reason: told.append((peer, reason)))
    other.on("later", lambda message, reply: LATER)
    call = one.start("two", Message("later"))
    for number in range(30):
        other.send("one", Message("x", {"n": number}, [np.zeros(number * 1000)]))
    other.close()
    assert [one.receive("x", "two", WAIT).fields["n"] for _ in range(30)] == list(range(30))
    with pytest.raises(PeerLost, match="lost two: it left") as raised:
        one.receive("x", "two", WAIT)
    assert raised.value.peer == "two"
    with pytest.raises(PeerLost):
        one.finish(call, WAIT)
    with pytest.raises(PeerLost):
        one.send("two", Message("x"))
    assert one.lost == {"two": "it left"}
    end = time.monotonic() + WAIT
    while not told and time.monotonic() < end:
        time.sleep(0.01)
    assert told == [("two", "it left")]


def test_one_of_a_lost_ones_name_can_come_back(opener: Opener) -> None:
    one, first = opener("one"), opener("two")
    first.connect("one", one.address)
    first.send("one", Message("x", {"of": "first"}))
    one.receive("x", "two", WAIT)
    first.send("one", Message("stale"))
    first.close()
    with pytest.raises(PeerLost):
        one.receive("x", "two", WAIT)
    second = opener("two")
    second.on("echo", echo)
    second.connect("one", one.address)
    second.send("one", Message("x", {"of": "second"}))
    assert one.receive("x", "two", WAIT).fields == {"of": "second"}
    assert one.call("two", Message("echo", {"n": 1}, [np.arange(30_000)]), WAIT).fields == {"n": 1}
    assert one.lost == {}
    with pytest.raises(DeadlineExceeded):
        one.receive("stale", "two", 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 5])
def test_closing_ends_every_wait_with_an_error(two: tuple[Endpoint, Endpoint], threads: int) -> None:
    one, other = two
    other.on("never", lambda message, reply: LATER)
    waits = [
        lambda: one.receive("x", "two"),
        lambda: one.receive("y"),
        lambda: one.call("two", Message("never")),
    ]
    with ThreadPoolExecutor(len(waits) * threads) as pool:
        waiting = [pool.submit(wait) for wait in waits * threads]
        time.sleep(0.1)
        one.close()
        errors = [wait.exception(WAIT) for wait in waiting]
    assert {type(error) for error in errors} == {DistributedError}
    assert all("closed" in str(error) for error in errors)
    one.close()
    for use in (
        lambda: one.send("two", Message("x")),
        lambda: one.receive("x", "two", WAIT),
        lambda: one.connect("z", "a:1"),
    ):
        with pytest.raises(DistributedError, match="closed"):
            use()


def test_a_peers_loss_ends_every_wait_for_it_and_no_other(opener: Opener) -> None:
    hub, gone, stays = opener("hub"), opener("gone"), opener("stays")
    for peer in (gone, stays):
        hub.connect(peer.name, peer.address)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(hub.receive, f"k{n}", "gone", WAIT) for n in range(3)]
        other = pool.submit(hub.receive, "x", "stays", WAIT)
        time.sleep(0.05)
        gone.close()
        assert all(isinstance(wait.exception(WAIT), PeerLost) for wait in waiting)
        assert not other.done()
        stays.send("hub", Message("x", {"n": 1}))
        assert other.result(WAIT).fields == {"n": 1}


@pytest.mark.slow
def test_a_sender_waits_for_who_does_not_receive(
    two: tuple[Endpoint, Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "WINDOW", 2_000_000)
    monkeypatch.setattr(endpoints, "PATIENCE", 0.05)
    one, other = two
    array = RANDOM.normal(size=30_000)
    for _ in range(8):
        one.send("two", Message("x", {}, [array]))
    with pytest.raises(DeadlineExceeded, match=r"room at two, which has left \d+ bytes unread"):
        one.send("two", Message("x", {}, [array]))
    monkeypatch.setattr(endpoints, "PATIENCE", WAIT)
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(lambda: [one.send("two", Message("x", {"n": n}, [array])) for n in range(60)])
        got = [other.receive("x", "one", WAIT) for _ in range(8 + 60)]
        sending.result(WAIT)
    assert [message.fields["n"] for message in got[8:]] == list(range(60))
    one.send("two", Message("x", {}, [RANDOM.normal(size=600_000)]))  # larger than the window, and alone in it
    assert other.receive("x", "one", WAIT).nbytes == 4_800_000


@pytest.mark.parametrize("count", [1, 3])
def test_one_message_goes_to_several(opener: Opener, count: int) -> None:
    hub, peers = opener("hub"), [opener(f"p{number}") for number in range(count)]
    for peer in peers:
        hub.connect(peer.name, peer.address)
    time.sleep(0.05)
    for size in (3, 50_000):
        array = RANDOM.normal(size=size)
        hub.send_all([peer.name for peer in peers], Message("all", {"size": size}, [array]))
        kept = array.copy()
        array[:] = 0
        for peer in peers:
            message = peer.receive("all", "hub", WAIT)
            assert message.fields == {"size": size}
            assert (message.arrays[0] == kept).all()


@pytest.mark.slow
def test_received_arrays_stay_what_they_are_while_more_arrives(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    sums, kept = [], []
    for number in range(12):
        array = RANDOM.normal(size=40_000)
        sums.append(array.sum())
        one.send("two", Message("x", {}, [array]))
        message = other.receive("x", "one", WAIT)
        if number % 2:
            kept.append(message.arrays[0][10:])
            kept.append(message.arrays[0])
        del message
        gc.collect()
    assert [array.sum() for array in kept[1::2]] == sums[1::2]


def test_an_endpoint_is_of_no_use_in_a_fork(two: tuple[Endpoint, Endpoint], monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = two
    real = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: real + 1)
    with pytest.raises(DistributedError, match=f"opened by process {real}, used in its fork {real + 1}"):
        one.send("two", Message("x"))


@pytest.mark.parametrize("name", ["", "x" * 201, None, 3])
def test_a_name_is_a_short_str(opener: Opener, name: Any) -> None:
    with pytest.raises(ValueError, match="an endpoint's name is a str"):
        opener(name)


def test_connecting_again_changes_nothing(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    for _ in range(3):
        one.connect("two", other.address)
        other.connect("one", one.address)
    one.send("two", Message("x", {"n": 1}))
    assert other.receive("x", "one", WAIT).fields == {"n": 1}


def test_both_may_connect_at_once(opener: Opener) -> None:
    ends = [opener(f"e{number}") for number in range(4)]
    with ThreadPoolExecutor(12) as pool:
        connects = [pool.submit(a.connect, b.name, b.address) for a in ends for b in ends if a is not b]
        for connect in connects:
            connect.result(WAIT)
    for a in ends:
        for b in ends:
            a.send(b.name, Message("x", {"from": a.name}))
    assert all(
        {end.receive("x", peer.name, WAIT).fields["from"] for peer in ends} == {e.name for e in ends} for end in ends
    )
