"""Bodies as they come, without a network: what all of them together may take."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

from internals.deploy.serve.answers import Answer
from internals.deploy.serve.http import Exchange, Held
from internals.deploy.serve.server import Settings


class Wire:
    """A connection that remembers what was written."""

    def __init__(self):
        self.stream = SimpleNamespace(refused=False, closed=False, close=lambda: setattr(self.stream, "closed", True))
        self.written = []

    def write_headers(self, line, headers, body):
        self.written.append((line.code, json.loads(body)))
        return SimpleNamespace(done=lambda: True)

    def finish(self):
        pass


def begun(held, asked, wire=None):
    """A request whose header has come."""

    async def answer(request):
        asked.append(request.body)
        return Answer(b"{}")

    server = SimpleNamespace(settings=Settings(largest=1000), draining=False)
    exchange = Exchange(SimpleNamespace(server=server, answer=answer), wire or Wire(), held)
    exchange.headers_received(SimpleNamespace(method="POST", path="/x"), Headers())
    return exchange


class Headers(dict):
    """Of a request in chunks."""

    def get_all(self):
        return []


def test_all_bodies_together_are_bounded_and_make_room_when_they_are_answered():
    async def tried():
        held, asked, wire = Held(1500), [], Wire()
        first, second = begun(held, asked), begun(held, asked, wire)
        first.data_received(b"1" * 900)
        second.data_received(b"2" * 500)
        assert (held.size, wire.written) == (1400, [])
        second.data_received(b"2" * 200)
        ((status, body),) = wire.written
        assert (status, "have more than 1,500 bytes" in body["error"]) == (503, True)
        assert held.size == 900
        second.data_received(b"2" * 500)  # what still comes is not kept
        second.finish()
        assert (held.size, wire.stream.closed) == (900, True)
        first.finish()
        await first._task
        assert (held.size, asked) == (0, [b"1" * 900])

    asyncio.run(tried())


def test_a_client_that_leaves_makes_room():
    async def tried():
        held, asked = Held(1500), []
        for _ in range(3):
            exchange = begun(held, asked)
            exchange.data_received(b"1" * 900)
            assert held.size == 900
            exchange.on_connection_close()
            assert held.size == 0
        assert asked == []

    asyncio.run(tried())
