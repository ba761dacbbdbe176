"""Bodies as they come, without a network: what all of them together may take."""

from __future__ import annotations

import json
from types import SimpleNamespace

from internals.deploy.serve.exchanged import Answer, Asked
from internals.deploy.serve.http import Exchange, Held
from internals.deploy.serve.server import Settings


class Wire:
    """A connection that remembers what was written; it is always the turn of who asks."""

    def __init__(self):
        self.written = []

    def is_turn_of(self, exchange):
        return True

    def no_hurry(self):
        pass

    def reply(self, head, body):
        self.written.append((int(head.split()[1]), json.loads(body)))


def begun(held, asked, wire=None):
    """A request whose header has come."""

    def begin(request, done):
        asked.append(request.body)
        done(Answer(b"{}"))

    answers = SimpleNamespace(server=SimpleNamespace(settings=Settings(largest=1000), draining=False), begin=begin)
    exchange = Exchange(answers, wire or Wire(), held, Asked("POST", "/x", {"host": "x"}))
    exchange.header(100, "1.1", keep=True)
    return exchange


def test_all_bodies_together_are_bounded_and_make_room_when_they_are_answered():
    held, asked, wire = Held(1500), [], Wire()
    first, second = begun(held, asked), begun(held, asked, wire)
    first.data(b"1" * 900)
    second.data(b"2" * 500)
    assert (held.size, wire.written) == (1400, [])
    second.data(b"2" * 200)
    ((status, body),) = wire.written
    assert (status, "have more than 1,500 bytes" in body["error"]) == (503, True)
    assert (second.last, second.lingers) == (True, True)
    assert held.size == 900
    second.data(b"2" * 500)  # what still comes is not kept
    second.finish()
    assert (held.size, len(wire.written)) == (900, 1)
    first.finish()
    assert (held.size, asked) == (0, [b"1" * 900])


def test_a_client_that_leaves_makes_room():
    held, asked = Held(1500), []
    for _ in range(3):
        exchange = begun(held, asked)
        exchange.data(b"1" * 900)
        assert held.size == 900
        exchange.leave()
        assert held.size == 0
    assert asked == []
