"""What every transport does alike: one table of tests for threads, sockets and shared memory."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from internals.distributed.errors import DeadlineExceeded, DistributedError, PeerLost, RemoteError
from internals.distributed.transport import LATER, Endpoint, Message, Network, Reply, open_endpoint
from internals.distributed.transport import endpoint as endpoints

RANDOM = np.random.default_rng(21)
WAIT = 20.0
Opener = Callable[[str], Endpoint]
REAL = [pytest.param(name, marks=pytest.mark.slow) for name in ("tcp", "shm")]


@pytest.fixture(params=["inproc", *REAL])
def opener(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens endpoints that can reach one another; all are closed at the end, whatever the test did."""
    network, opened = Network(), []

    def opens(name: str) -> Endpoint:
        one = network.endpoint(name) if request.param == "inproc" else open_endpoint(name, transport=request.param)
        opened.append(one)
        return one

    yield opens
    for one in opened:
        one.close()


@pytest.fixture
def two(opener: Opener) -> tuple[Endpoint, Endpoint]:
    one, other = opener("one"), opener("two")
    one.connect("two", other.address)
    return one, other


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


def test_many_calls_are_on_their_way_at_once(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    other.on("square", lambda message, reply: Message("", {"value": message.fields["value"] ** 2}))
    numbers = [one.start("two", Message("square", {"value": value})) for value in range(1000)]
    order = RANDOM.permutation(1000)
    answers = {int(place): one.finish(numbers[place], WAIT).fields["value"] for place in order}
    assert [answers[value] for value in range(1000)] == [value**2 for value in range(1000)]
    with pytest.raises(ValueError, match="each is finished once"):
        one.finish(numbers[0])


def test_many_threads_call_at_once_and_each_gets_its_own_answer(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    other.on("echo", echo)

    def ask(value: int) -> bool:
        size = value % 5 * 4000
        answer = one.call("two", Message("echo", {"value": value}, [np.full(size, value)]), WAIT)
        return (
            answer.fields["value"] == value
            and bool((answer.arrays[0] == value).all())
            and answer.arrays[0].size == size
        )

    with ThreadPoolExecutor(20) as threads:
        assert all(threads.map(ask, range(1000)))


def test_a_handler_may_answer_later_from_another_thread(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    kept: list[Reply] = []

    def keep(message: Message, reply: Reply) -> Any:
        kept.append(reply)
        if len(kept) == 3:
            threading.Thread(target=lambda: [each(Message("", {"n": n})) for n, each in enumerate(kept)]).start()
        return LATER

    other.on("barrier", keep)
    calls = [one.start("two", Message("barrier")) for _ in range(3)]
    assert [one.finish(call, WAIT).fields["n"] for call in calls] == [0, 1, 2]


class Odd(BaseException):
    """Not an Exception, as KeyboardInterrupt is none."""


def twice(message: Message, reply: Reply) -> Any:
    reply(Message("", {"n": 1}))
    reply(Message("", {"n": 2}))
    return LATER


def raiser(error: BaseException) -> Callable[..., Any]:
    def handler(message: Message, reply: Reply) -> Any:
        raise error

    return handler


@pytest.mark.parametrize(
    ("handler", "kind", "says"),
    [
        (raiser(ValueError("no such table")), "ValueError", "no such table"),
        (raiser(Odd("out")), "Odd", "out"),
        (raiser(SystemExit(3)), "SystemExit", "3"),
        (raiser(ValueError("\ud800")), "ValueError", "?"),
        (lambda message, reply: 3, "TypeError", "returned a int"),
        (lambda message, reply: Message("", {"a": (1, 2)}), "TypeError", "tuple is not plain data"),
        (lambda message, reply: Message("", {}, [np.array(["a"])]), "TypeError", "can't be sent"),
        (lambda message, reply: reply.fail(KeyError("gone")) or LATER, "KeyError", "gone"),
        (lambda message, reply: open_endpoint.nothing, "AttributeError", "nothing"),  # type: ignore[attr-defined]
    ],
)
def test_what_a_handler_does_wrong_is_the_callers_error_and_the_next_call_works(
    two: tuple[Endpoint, Endpoint], handler: Any, kind: str, says: str
) -> None:
    one, other = two
    other.on("bad", handler)
    other.on("echo", echo)
    with pytest.raises(RemoteError, match="two answered with") as raised:
        one.call("two", Message("bad"), WAIT)
    assert (raised.value.peer, raised.value.kind) == ("two", kind)
    assert says in str(raised.value)
    assert one.call("two", Message("echo", {"x": 1}), WAIT).fields == {"x": 1}


def test_a_call_has_one_answer(two: tuple[Endpoint, Endpoint], caplog: pytest.LogCaptureFixture) -> None:
    one, other = two
    other.on("twice", twice)
    other.on("echo", echo)
    assert one.call("two", Message("twice"), WAIT).fields == {"n": 1}
    assert one.call("two", Message("echo", {"n": 5}), WAIT).fields == {"n": 5}
    assert "already given" in caplog.text


def test_a_handler_that_waits_is_told_that_it_cant(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    one.on("echo", echo)
    other.on("ask back", lambda message, reply: other.call("one", Message("echo"), WAIT))
    with pytest.raises(RemoteError, match="Return LATER"):
        one.call("two", Message("ask back"), WAIT)


def test_what_nobody_answers_is_named_with_what_is(
    two: tuple[Endpoint, Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "SETTLING", 0.0)
    one, other = two
    other.on("echo", echo)
    with pytest.raises(RemoteError, match="two does not answer 'eco'; it answers echo"):
        one.call("two", Message("eco"), WAIT)


def test_a_call_that_comes_before_its_handler_is_registered_waits_for_it(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    early = one.start("two", Message("echo", {"x": 4}))
    with pytest.raises(DeadlineExceeded):
        one.finish(one.start("two", Message("echo", {"x": 5})), 0.1)
    other.on("echo", echo)
    assert one.finish(early, WAIT).fields == {"x": 4}


def test_a_call_that_comes_before_a_handler_that_never_is_registered_is_refused(
    two: tuple[Endpoint, Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "SETTLING", 0.15)
    one, other = two
    other._opened = time.monotonic()
    with pytest.raises(RemoteError, match="it answers nothing"):
        one.call("two", Message("echo"), WAIT)


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


def test_an_answer_that_is_late_is_named_and_forgotten(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    kept: list[Reply] = []
    other.on("slow", lambda message, reply: kept.append(reply) or LATER)
    other.on("echo", echo)
    with pytest.raises(DeadlineExceeded, match=r"the answer of two did not come within 0.1 s"):
        one.call("two", Message("slow"), 0.1)
    one.call("two", Message("echo"), WAIT)
    kept[0](Message("", {"n": "late"}))
    assert one.call("two", Message("echo", {"n": 1}), WAIT).fields == {"n": 1}
    assert not one._answers
    assert not one._calls


def test_who_left_is_lost_after_what_it_sent_was_received(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    told: list[tuple[str, str]] = []
    one.when_lost(lambda peer, reason: 1 / 0)
    one.when_lost(lambda peer, reason: told.append((peer, reason)))
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
