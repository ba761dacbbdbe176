"""Requests and answers on connections, with Tornado: lengths are checked before a body is read, and silence is cut off.

This stands on Tornado's connections, below its handlers: a body that is too long must be refused by its length, with
an answer, and a client that leaves must be noticed while its request still waits in the queue. Who takes connections is
`listening`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from email.utils import formatdate
from functools import lru_cache
from http.client import responses
from typing import Any

from internals.deploy.serve.answers import IDENTITY, Answer, Answers, Asked, refusal
from internals.deploy.serve.errors import ServeError, Unavailable

log = logging.getLogger("internals.deploy.serve")
requests = logging.getLogger("internals.deploy.serve.requests")

PROBES = frozenset(("/healthz", "/readyz", "/metrics", "/live"))
"""What asks for these does so every few seconds; the log has a line of it only where something is wrong."""

LARGEST_PATH, LARGEST_HEADER = 8 * 2**10, 16 * 2**10
LINGER = 30.0
"""Seconds that are waited, at most, for the rest of a body that is refused: most clients read no answer before they
have sent all, and would find the connection broken in place of the reason."""


class LongPath(ServeError):
    """The address is longer than the server takes."""

    status = 414


class LongHeader(ServeError):
    """The header is longer than the server takes."""

    status = 431


class TooLarge(ServeError):
    """The body is longer than the server takes."""

    status = 413


class TooSlow(ServeError):
    """The body did not come in time."""

    status = 408


class NoLength(ServeError):
    """The length is no number."""

    status = 400


@lru_cache(1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)


class Held:
    """How many bytes of bodies there are, of all requests."""

    def __init__(self, most: int) -> None:
        self.most, self.size = most, 0


class Exchange:
    """One request on a connection, and its answer; Tornado calls its methods as the bytes come."""

    def __init__(self, answers: Answers, connection: Any, held: Held) -> None:
        self._answers, self._connection, self._held = answers, connection, held
        self._largest, self._idle = answers.server.settings.largest, answers.server.settings.idle
        self._parts: list[bytes] = []
        self._size = 0
        self._began = time.perf_counter()
        self._asked = Asked("", "", {})
        self._done = self._lingers = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def headers_received(self, start_line: Any, headers: Any) -> None:
        """Refuse what is too long before it comes."""
        self._began = time.perf_counter()
        self._asked = Asked(start_line.method, start_line.path, headers)
        length, header = headers.get("Content-Length"), sum(len(key) + len(one) + 4 for key, one in headers.get_all())
        if length is not None and not (length.isascii() and length.isdigit()):
            self._refuse(NoLength(f"Content-Length must be a number of bytes, got {length[:50]!r}."))
        elif len(start_line.path) > LARGEST_PATH:
            self._refuse(LongPath(f"the address has {len(start_line.path):,} bytes, of at most {LARGEST_PATH:,}."))
        elif header > LARGEST_HEADER:
            self._refuse(LongHeader(f"the header has {header:,} bytes; the server takes at most {LARGEST_HEADER:,}."))
        elif length is not None and (len(length) > 15 or int(length) > self._largest):
            self._refuse(self._too_large(f"{length[:50]} bytes"))
        else:
            # Tornado has a time for bodies too; it costs more than the rest of a small request, and has no answer.
            self._timer = asyncio.get_running_loop().call_later(self._idle, self._wait_no_longer)
            if headers.get("Expect", "").lower() == "100-continue" != headers["Expect"]:
                # Tornado answers it only as it is usually written.
                self._connection.stream.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def data_received(self, chunk: bytes) -> None:
        """Keep a part of the body; without a length, count what comes."""
        if self._done:
            return
        self._size += len(chunk)
        self._held.size += len(chunk)
        if self._size > self._largest:
            self._refuse(self._too_large("more than that"))
        elif self._held.size > self._held.most:
            few = f"the bodies of all requests have more than {self._held.most:,} bytes; the server takes no more now."
            self._refuse(Unavailable(few, retry_after=1))
        else:
            self._parts.append(chunk)

    def finish(self) -> None:
        """The request is whole."""
        if self._lingers:
            self._end()
        elif not self._done:
            self._stop_timer()
            self._asked.body = b"".join(self._parts)
            self._parts.clear()
            self._task = asyncio.ensure_future(self._answer())

    def on_connection_close(self) -> None:
        """The client left: nobody waits for the answer any more."""
        self._release()
        self._stop_timer()
        self._done = True
        if self._task is not None:
            self._task.cancel()

    def _too_large(self, came: str) -> TooLarge:
        return TooLarge(f"the body has {came}; the server takes at most {self._largest:,} bytes.")

    async def _answer(self) -> None:
        try:
            answer = await self._answers.answer(self._asked)
        except asyncio.CancelledError:
            self._log(499)
            raise
        except Exception:  # a fault of the server's own must not leave the client waiting
            log.exception("a request failed", extra={"about": {"event": "error", "path": self._asked.path}})
            answer = refusal(ServeError("the server failed; its log says why."))
        self._write(answer)

    def _refuse(self, error: ServeError) -> None:
        self._write(refusal(error), last=True)

    def _write(self, answer: Answer, last: bool = False) -> None:
        if self._done:
            return
        self._done = True
        self._stop_timer()
        self._release()
        self._log(answer.status)
        from tornado.httputil import HTTPHeaders, ResponseStartLine
        from tornado.iostream import StreamClosedError

        headers = HTTPHeaders({"Content-Type": answer.kind, "Content-Length": str(len(answer.body)), **answer.headers})
        headers["Date"], headers["X-Content-Type-Options"] = _date(int(time.time())), "nosniff"
        identity = self._asked.headers.get(IDENTITY)
        if identity is not None and len(identity) <= 200 and identity.isascii() and identity.isprintable():
            headers[IDENTITY] = identity
        if last or self._answers.server.draining:
            headers["Connection"] = "close"
        line = ResponseStartLine("HTTP/1.1", answer.status, responses.get(answer.status, "Unknown"))
        try:
            sent = self._connection.write_headers(line, headers, None if self._asked.method == "HEAD" else answer.body)
            if last and "Expect" not in self._asked.headers:
                self._lingers = self._connection.stream.refused = True
                self._timer = asyncio.get_running_loop().call_later(LINGER, self._end)
            else:
                self._connection.finish()
                self._watch(sent)
        except StreamClosedError:
            log.debug("the client left before its answer")

    def _watch(self, sent: Any) -> None:
        """A client that does not read its answer holds the connection no longer than one that does not ask."""
        if not sent.done():
            timer = asyncio.get_running_loop().call_later(self._idle, self._connection.stream.close)
            sent.add_done_callback(lambda _: timer.cancel())

    def _end(self) -> None:
        """The rest of a refused body has come, or was waited for long enough."""
        self._stop_timer()
        self._connection.finish()
        self._connection.stream.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait_no_longer(self) -> None:
        self._refuse(TooSlow(f"the body did not come within {self._idle:g} s."))
        self._end()

    def _release(self) -> None:
        self._held.size -= self._size
        self._size = 0
        self._parts.clear()

    def _log(self, status: int) -> None:
        took = time.perf_counter() - self._began
        asked = self._asked
        if asked.model:
            self._answers.server.metrics.answered(asked.model, asked.version, status, took)
            if status == 200 and asked.method == "POST":
                self._answers.server.minute.answered(asyncio.get_running_loop().time(), took)
        level = logging.DEBUG if status == 200 and asked.path in PROBES else logging.INFO
        if requests.isEnabledFor(level):
            about = {
                "event": "request",
                "method": asked.method,
                "path": asked.path[:500],
                "status": status,
                "ms": round(1000 * took, 3),
                "model": asked.model,
                "version": asked.version,
                "id": asked.headers.get(IDENTITY, "")[:200],
            }
            requests.log(level, "request", extra={"about": about})


class Lines(logging.Formatter):
    """A line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        about = getattr(record, "about", {"message": record.getMessage()})
        line = {"time": round(record.created, 3), "level": record.levelname.lower(), **about}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
