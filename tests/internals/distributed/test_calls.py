"""Calls and answers, alike over threads, sockets and shared memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from internals.distributed.errors import DeadlineExceeded, PeerLost, RemoteError
from internals.distributed.transport import LATER, Endpoint, Message, Reply, open_endpoint
from internals.distributed.transport import endpoint as endpoints

RANDOM = np.random.default_rng(21)
WAIT = 20.0


def echo(message: Message, reply: Reply) -> Message:
    return Message("echo", message.fields, message.arrays)


def test_many_calls_are_on_their_way_at_once(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    other.on("square", lambda message, reply: Message("", {"value": message.fields["value"] ** 2}))
    numbers = [one.start("two", Message("square", {"value": value})) for value in range(1000)]
    order = RANDOM.permutation(1000)
    answers = {int(place): one.finish(numbers[place], WAIT).fields["value"] for place in order}
    assert [answers[value] for value in range(1000)] == [value**2 for value in range(1000)]
    with pytest.raises(ValueError, match="each is finished once"):
        one.finish(numbers[0])


@pytest.mark.slow
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


def test_a_call_has_one_answer(two: tuple[Endpoint, Endpoint], logged: Any) -> None:
    one, other = two
    other.on("twice", twice)
    other.on("echo", echo)
    assert one.call("two", Message("twice"), WAIT).fields == {"n": 1}
    assert one.call("two", Message("echo", {"n": 5}), WAIT).fields == {"n": 5}
    assert "already given" in logged.text


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


@pytest.mark.slow
def test_a_call_that_comes_before_its_handler_is_registered_waits_for_it(two: tuple[Endpoint, Endpoint]) -> None:
    one, other = two
    early = one.start("two", Message("echo", {"x": 4}))
    with pytest.raises(DeadlineExceeded):
        one.finish(one.start("two", Message("echo", {"x": 5})), 0.1)
    other.on("echo", echo)
    assert one.finish(early, WAIT).fields == {"x": 4}


@pytest.mark.slow
def test_a_call_that_comes_before_a_handler_that_never_is_registered_is_refused(
    two: tuple[Endpoint, Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "SETTLING", 0.15)
    one, other = two
    other._opened = time.monotonic()
    with pytest.raises(RemoteError, match="it answers nothing"):
        one.call("two", Message("echo"), WAIT)


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_peer_that_answers_nothing_is_asked_no_more_than_it_has_room_for(
    two: tuple[Endpoint, Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gives up waiting has not got the memory back: the peer still holds what it was sent."""
    monkeypatch.setattr(endpoints, "WINDOW", 2_000_000)
    one, other = two
    kept: list[Reply] = []
    came = threading.Semaphore(0)

    def keep(message: Message, reply: Reply) -> Any:
        kept.append(reply)
        came.release()
        return LATER

    other.on("keep", keep)
    array = RANDOM.normal(size=30_000)
    started = [one.start("two", Message("keep", {}, [array])) for _ in range(8)]
    with pytest.raises(DeadlineExceeded, match="the answer of two did not come within 0 s"):
        one.finish(started[0], 0)
    with pytest.raises(
        DeadlineExceeded,
        match=r"room at two, which has left calls of 19\d{5} bytes unanswered, did not come within 0.05",
    ):
        one.call("two", Message("keep", {}, [array]), 0.05)
    one.send("two", Message("x", {}, [array]))  # messages have room of their own
    for _ in range(8):
        assert came.acquire(timeout=WAIT)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(one.call, "two", Message("keep", {}, [array]), WAIT)
        kept[0](Message("", {"n": 0}))  # to a call that was given up
        assert came.acquire(timeout=WAIT)
        kept[8](Message("", {"n": 8}))
        assert waiting.result(WAIT).fields == {"n": 8}
    for number, reply in enumerate(kept[1:8], 1):
        reply(Message("", {"n": number}))
    assert [one.finish(call, WAIT).fields["n"] for call in started[1:]] == list(range(1, 8))
    assert one._unanswered["two"] == 0


@pytest.mark.slow
def test_one_call_may_be_larger_than_the_room_and_a_lost_peer_ends_the_wait_for_it(
    opener: Callable[[str], Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "WINDOW", 100_000)
    one, other = opener("one"), opener("two")
    one.connect("two", other.address)
    other.on("echo", echo)
    other.on("keep", lambda message, reply: LATER)
    array = RANDOM.normal(size=30_000)
    assert (one.call("two", Message("echo", {}, [array]), WAIT).arrays[0] == array).all()
    one.start("two", Message("keep", {}, [array]))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(one.start, "two", Message("keep", {}, [array]), WAIT)
        other.close()
        with pytest.raises(PeerLost, match="lost two"):
            waiting.result(WAIT)
    assert one._unanswered["two"] == 0
