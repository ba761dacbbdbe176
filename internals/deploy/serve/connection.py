"""One connection: requests are answered in their order, and silence is cut off; `reading` tells them apart.

A connection has a queue of exchanges. The first of it is answered; those behind it came before they were asked for
("pipelined"), and while there are any, nothing more is read. Only what was read in the same moment waits here, so that
a client can't fill the memory.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Any

from internals.deploy.serve.answers import Answers
from internals.deploy.serve.exchanged import Asked
from internals.deploy.serve.http import Exchange, Held, LongHeader, LongPath, TooSlow
from internals.deploy.serve.reading import Reading, library

BUFFER = 2**16
"""Bytes that are read at once, into memory that all connections share: what is kept of them is copied."""
LINGER = 30.0
"""Seconds that are waited, at most, for the rest of a body that is refused: most clients read no answer before they
have sent all, and would find the connection broken in place of the reason."""
GOODBYE = 1.0
"""Seconds for a client that has sent what nobody wants to read its answer: it would find the connection broken in place
of the answer."""


class Shared:
    """What the connections of one port share.

    Parameters
    ----------
    answers : Answers

    Attributes
    ----------
    open : set of Connection
    held : Held
        The bodies of all requests, and what is left of the answers.
    buffer : memoryview
        Where all read to.

    Raises
    ------
    ImportError
        httptools is not installed.
    """

    def __init__(self, answers: Answers) -> None:
        library()  # now, and not when the first client comes
        self.answers, self.held = answers, Held(answers.server.settings.bodies)
        self.open: set[Connection] = set()
        self.buffer = memoryview(bytearray(BUFFER))


class Connection(asyncio.BufferedProtocol):
    """A client's connection; asyncio and a `Reading` call its methods."""

    def __init__(self, shared: Shared) -> None:
        self._shared, self._idle = shared, shared.answers.server.settings.idle
        self._loop = asyncio.get_running_loop()
        self._input = Reading(self)  # over when no more requests are taken
        self._queue: deque[Exchange] = deque()
        self._reading: Exchange | None = None
        self._replied = self._full = False  # the first of the queue has its answer; which is not written to its end
        self._feeding = self._rests = False  # what came is being read; others have their turn before the next answer
        self._paused = False  # nothing is read
        self._behind = False  # something came behind the last request
        self._lingers = False  # the rest of the last body is waited for
        self._unwritten = 0
        self._due = math.inf
        self._timer: asyncio.TimerHandle | None = None

    # What asyncio calls.

    def connection_made(self, transport: Any) -> None:
        """It is open."""
        self._transport = transport
        transport.set_write_buffer_limits(high=0)  # so that `resume_writing` means that all is written
        self._shared.open.add(self)
        self._wait(self._idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left: nobody waits for the answers any more."""
        self._shared.open.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._is_written()
        for one in self._queue:
            one.leave()
        self._queue.clear()
        self._reading = None
        self._replied = False
        self._input.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to read to."""
        return self._shared.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes came."""
        self._feeding = True
        if self._input.feed(self._shared.buffer[:nbytes]):
            self._behind = True
        self._feeding = False

    def pause_writing(self) -> None:
        """The client does not read as fast as it is answered. It has as long for it as for asking."""
        self._full = True
        self._wait(self._idle)

    def resume_writing(self) -> None:
        """All is written. What follows waits for asyncio to come back: it would close twice what is closed here."""
        self._full = False
        if self._replied:
            self._loop.call_soon(self._written)

    def _written(self) -> None:
        if self._replied and not self._full:
            self._done()

    # What the reading calls.

    def begun(self) -> None:
        """The first byte of a request."""
        if self._queue and not self._paused and not self._input.over:
            self._paused = True
            self._transport.pause_reading()

    def header(self, method: str, path: str, headers: dict[str, str], size: int, version: str, *, keep: bool) -> None:
        """The header of a request."""
        self._reading = exchange = self._exchange(method, path, headers)
        if self._queue[0] is exchange:
            self._wait(self._idle)
        exchange.header(size, version, keep)

    def body(self, part: bytes) -> None:
        """A part of its body."""
        if self._reading is not None:
            self._reading.data(part)

    def whole(self) -> None:
        """The request is whole."""
        exchange, self._reading = self._reading, None
        if exchange is None:
            return
        if exchange.last:
            self._input.over = True
        if self._lingers:
            self._transport.close()
        else:
            exchange.finish()

    def unreadable(self, path: str, headers: dict[str, str], reason: str) -> None:
        """What came is no HTTP, and neither can what follows be read."""
        if exchange := self._last(path, headers):
            exchange.unreadable(reason)

    def endless(self, path: str, headers: dict[str, str], what: str) -> None:
        """What is no body goes on and on."""
        if exchange := self._last(path, headers):
            kind = LongPath if what == "address" else LongHeader
            exchange.refuse(kind(f"the {what} is longer than the server takes."))

    def _last(self, path: str, headers: dict[str, str]) -> Exchange | None:
        """The exchange that is to say that nothing more is read; none if the last one has its answer already."""
        self._behind = True
        if self._lingers:
            self._transport.close()
            return None
        exchange, self._reading = self._reading, None
        return exchange or self._exchange("", path, headers)

    def _exchange(self, method: str, path: str, headers: dict[str, str]) -> Exchange:
        exchange = Exchange(self._shared.answers, self, self._shared.held, Asked(method, path, headers))
        self._queue.append(exchange)
        return exchange

    # What an exchange calls.

    def is_turn_of(self, exchange: Exchange) -> bool:
        """Whether all requests before it have their answers, and others have had their turn since the last."""
        return bool(self._queue) and self._queue[0] is exchange and not self._rests

    def say(self, data: bytes) -> None:
        """Write what is no answer yet."""
        self._transport.write(data)

    def no_hurry(self) -> None:
        """A request is whole, and waits for its answer."""
        self._due = math.inf

    def reply(self, head: bytes, body: bytes) -> None:
        """Write the answer of the exchange whose turn it is."""
        self._replied = True
        if len(body) < BUFFER:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        if self._full:
            # The client decides how long this stays, so it counts as what comes in does.
            self._unwritten = self._transport.get_write_buffer_size()
            self._shared.held.size += self._unwritten
        elif self._replied:
            self._done()

    def _is_written(self) -> None:
        self._shared.held.size -= self._unwritten
        self._unwritten = 0

    def _done(self) -> None:
        """An answer is written to the end."""
        self._is_written()
        self._replied = False
        exchange = self._queue.popleft()
        if exchange.last and (self._behind or self._queue):
            self._input.over = True
            self._say_goodbye()
        elif exchange.lingers:
            self._lingers = True
            self._listen()
            self._wait(LINGER)
        elif exchange.last:
            self._input.over = True
            self._transport.close()
        else:
            self._wait(self._idle)
            if self._queue or self._feeding:
                self._rests = True
                self._loop.call_soon(self._next)
            else:
                self._listen()

    def _say_goodbye(self) -> None:
        try:
            self._transport.write_eof()
        except OSError:  # the client has left, and asyncio does not know it yet
            self._transport.abort()
        else:
            self._listen()
            self._wait(GOODBYE)

    def _next(self) -> None:
        self._rests = False
        if not self._queue or self._queue[0] is self._reading:
            self._listen()
        if self._queue:
            self._queue[0].begin()

    def _listen(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    # One timer, which looks whether it is time and else waits on: it costs a request nothing.

    def _wait(self, seconds: float) -> None:
        self._due = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._loop.time() < self._due:
            if self._due < math.inf:
                self._timer = self._loop.call_at(self._due, self._look)
        elif self._replied or self._full:
            self._transport.abort()
        elif self._queue and not self._lingers and not self._input.over:
            self._queue[0].refuse(TooSlow(f"the body did not come within {self._idle:g} s."))
            self._transport.close()
        else:
            self._transport.close()

    @property
    def writing(self) -> bool:
        """Whether the client has not read its answer to the end."""
        return bool(self._transport.get_write_buffer_size())

    def close(self) -> None:
        """End it."""
        self._transport.close()
