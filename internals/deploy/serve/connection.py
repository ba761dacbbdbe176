"""One connection: httptools reads what comes, requests are answered in their order, and silence is cut off.

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
from internals.deploy.serve.http import (
    LARGEST_HEADER,
    LARGEST_PATH,
    MOST_NAMES,
    Exchange,
    Held,
    LongHeader,
    LongPath,
    TooSlow,
)

BUFFER = 2**16
"""Bytes that are read at once, into memory that all connections share: what is kept of them is copied."""
LINGER = 30.0
"""Seconds that are waited, at most, for the rest of a body that is refused: most clients read no answer before they
have sent all, and would find the connection broken in place of the reason."""
GOODBYE = 1.0
"""Seconds for a client that has sent what nobody wants to read its answer: it would find the connection broken in place
of the answer."""
UNFINISHED = 4 * (LARGEST_HEADER + LARGEST_PATH)
"""Bytes of a header, or of what is no body, after which nobody waits for the end. Shorter headers are read whole, so
that the answer can count."""


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

    Raises
    ------
    ImportError
        httptools is not installed.
    """

    def __init__(self, answers: Answers) -> None:
        try:
            import httptools
        except ImportError:
            raise ImportError("The server reads HTTP with httptools: pip install httptools") from None
        self.answers, self.held = answers, Held(answers.server.settings.bodies)
        self.open: set[Connection] = set()
        self.parser: Any = httptools.HttpRequestParser
        self.broken: Any = httptools.HttpParserError
        self.fault: Any = httptools.HttpParserCallbackError
        self.upgrade: Any = httptools.HttpParserUpgrade
        self.buffer = memoryview(bytearray(BUFFER))


class Connection(asyncio.BufferedProtocol):
    """A client's connection; asyncio and httptools call its methods."""

    def __init__(self, shared: Shared) -> None:
        self._shared, self._idle = shared, shared.answers.server.settings.idle
        self._loop = asyncio.get_running_loop()
        self._parser = shared.parser(self)
        self._queue: deque[Exchange] = deque()
        self._reading: Exchange | None = None
        self._path, self._headers, self._framing = b"", dict[str, str](), b""
        self._again = self._in_header = self._paused = self._full = self._replied = self._lingers = False
        self._deaf = False  # no more requests are taken
        self._behind = False  # and something came that might have been one
        self._feeding = self._rests = False
        self._came = self._header = self._unwritten = 0
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
        self._deaf, self._replied = True, False
        self._parser = None  # it has our methods, and we have it

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to read to."""
        return self._shared.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes came."""
        data, self._feeding = self._shared.buffer[:nbytes], True
        while data and not self._deaf:
            try:
                self._parser.feed_data(data)
                data = data[:0]
            except self._shared.upgrade as error:
                # It asks for another protocol too. That is no duty: the request is answered as it is.
                data = data[error.args[0] :]
                self._read_on()
            except self._shared.fault:
                raise  # of the server's own: asyncio ends the connection, and logs it
            except self._shared.broken as error:
                if not self._deaf and (exchange := self._unreadable()):
                    exchange.unreadable(str(error))
        self._feeding = False
        if data and self._deaf:
            self._behind = True
        elif self._in_header or self._reading is not None:
            self._came += nbytes
            if self._came > UNFINISHED:
                self._endless()

    def _endless(self) -> None:
        """Refuse what goes on and on and is no body: a header, or what comes between and behind chunks."""
        what = "header" if self._in_header else "part of the body that is none"
        kind, what = (LongPath, "address") if self._in_header and len(self._path) > LARGEST_PATH else (LongHeader, what)
        if exchange := self._unreadable():
            exchange.refuse(kind(f"the {what} is longer than the server takes."))

    def _read_on(self) -> None:
        """Read what follows a header that asks for another protocol: httptools takes it for that, a body too."""
        self._parser = self._shared.parser(self)
        if self._framing:
            self._again = True
            self._parser.feed_data(b"POST / HTTP/1.1\r\n" + self._framing + b"\r\n\r\n")
            self._again, self._framing = False, b""

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

    # What httptools calls.

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        if self._again:
            return
        self._in_header, self._came, self._header = True, 0, 0
        self._path, self._headers = b"", {}
        if self._queue and not self._paused and not self._deaf:
            self._paused = True
            self._transport.pause_reading()

    def on_url(self, part: bytes) -> None:
        """A part of the address."""
        if self._in_header:
            self._path += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the header, or of what comes after a body in chunks, which nobody asks for."""
        if not self._in_header:
            return
        self._header += len(name) + len(value) + 4
        if self._header > LARGEST_HEADER or len(self._headers) > MOST_NAMES:
            return  # it is refused: nothing more of it is kept
        key, said = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        self._headers[key] = f"{self._headers[key]}, {said}" if key in self._headers else said

    def on_headers_complete(self) -> None:
        """The body follows."""
        if self._again:
            return
        self._in_header, self._came = False, 0
        if self._deaf:
            return
        parser = self._parser
        if parser.should_upgrade():
            for name in ("content-length", "transfer-encoding"):
                if self._headers.get(name, "").strip("0"):
                    self._framing = f"{name}: {self._headers[name]}".encode("latin-1")
        self._reading = exchange = self._exchange(parser.get_method().decode("latin-1"))
        if self._queue[0] is exchange:
            self._wait(self._idle)
        exchange.header(self._header, parser.get_http_version(), parser.should_keep_alive())

    def on_body(self, part: bytes) -> None:
        """A part of the body."""
        self._came = 0
        if self._reading is not None:
            self._reading.data(part)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._framing:
            return
        exchange, self._reading = self._reading, None
        if exchange is None:
            return
        if exchange.last:
            self._deaf = True
        if self._lingers:
            self._transport.close()
        else:
            exchange.finish()

    # What an exchange calls.

    def is_turn_of(self, exchange: Exchange) -> bool:
        """Whether all requests before it have their answers, and others have had their turn since the last."""
        return bool(self._queue) and self._queue[0] is exchange and not self._replied and not self._rests

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
            self._deaf = True
            self._say_goodbye()
        elif exchange.lingers:
            self._lingers = True
            self._listen()
            self._wait(LINGER)
        elif exchange.last:
            self._deaf = True
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

    def _unreadable(self) -> Exchange | None:
        """What came can't be read, and neither can what follows; the exchange that is to say so, if one is."""
        self._deaf, self._in_header, self._behind = True, False, True
        if self._lingers:
            self._transport.close()
            return None
        exchange, self._reading = self._reading, None
        return exchange or self._exchange("")

    def _exchange(self, method: str) -> Exchange:
        asked = Asked(method, self._path.decode("latin-1"), self._headers)
        exchange = Exchange(self._shared.answers, self, self._shared.held, asked)
        self._queue.append(exchange)
        return exchange

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
        elif self._queue and not self._lingers and not self._deaf:
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
