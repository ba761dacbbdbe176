"""A request and its answer in HTTP: lengths are checked before a body is read.

A body that is too long is refused by its length, with an answer, and a client that leaves is noticed while its request
still waits in the queue. Bytes come from a `connection`, and who takes connections is `listening`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache
from http.client import responses
from typing import Any

from internals.deploy.serve.answers import IDENTITY, Answers
from internals.deploy.serve.errors import ServeError, Unavailable
from internals.deploy.serve.exchanged import Answer, Asked, refusal
from internals.deploy.serve.reading import LARGEST_HEADER, LARGEST_PATH, MOST_NAMES

log = logging.getLogger("internals.deploy.serve")
requests = logging.getLogger("internals.deploy.serve.requests")

PROBES = frozenset(("/healthz", "/readyz", "/metrics", "/live"))
"""What asks for these does so every few seconds; the log has a line of it only where something is wrong."""

_HOST = re.compile(r"[-A-Za-z0-9._~!$&'()*+,;=%:\[\]]*")


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


class NoCoding(ServeError):
    """The body comes in a way that the server does not know."""

    status = 501


@lru_cache(1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)


@lru_cache(1000)
def _status(status: int, kind: str) -> str:
    """How an answer begins."""
    line = f"HTTP/1.1 {status} {responses.get(status, 'Unknown')}"
    return f"{line}\r\nContent-Type: {kind}\r\nX-Content-Type-Options: nosniff\r\nContent-Length: "


class NoHTTP(ServeError):
    """What came is no request."""

    status = 400

    def __init__(self, reason: str) -> None:
        super().__init__(f"the request is no HTTP/1.1, or not as it must be written: {reason[:100]}.")


class Held:
    """How many bytes of bodies there are, of all requests and of answers that their clients have not taken."""

    def __init__(self, most: int) -> None:
        self.most, self.size = most, 0


class Exchange:
    """One request and its answer; a `connection.Connection` calls its methods as the bytes come.

    Parameters
    ----------
    answers : Answers
    connection : Connection
    held : Held
    asked : Asked
        What its header says, or as much of it as could be read.

    Attributes
    ----------
    last : bool
        The connection ends with its answer.
    lingers : bool
        And before that, the rest of its body is waited for, though nobody wants it.
    """

    def __init__(self, answers: Answers, connection: Any, held: Held, asked: Asked) -> None:
        self._answers, self._connection, self._held, self._asked = answers, connection, held, asked
        self._largest = answers.server.settings.largest
        self._body: bytes | bytearray = b""
        self._size = 0
        self._began = time.perf_counter()
        self._is_whole = self._done = self._expects = self._is_old = self.lingers = False
        self.last = True
        self._refusal: ServeError | None = None
        self._stop: Callable[[], object] | None = None

    def header(self, size: int, version: str, keep: bool) -> None:
        """The header has come, of so many bytes; refuse what is too long before it comes.

        Parameters
        ----------
        size : int
        version : str
            Of HTTP.
        keep : bool
            The client may ask again on this connection.
        """
        path, headers = self._asked.path, self._asked.headers
        self.last, self._is_old = not keep, version == "1.0"
        length, host, coding = headers.get("content-length"), headers.get("host"), headers.get("transfer-encoding")
        if version not in ("1.0", "1.1"):
            self.refuse(NoHTTP(f"it is HTTP/{version}"))
        elif len(path) > LARGEST_PATH:
            self.refuse(LongPath(f"the address has {len(path):,} bytes, of at most {LARGEST_PATH:,}."))
        elif size > LARGEST_HEADER:
            self.refuse(LongHeader(f"the header has {size:,} bytes; the server takes at most {LARGEST_HEADER:,}."))
        elif len(headers) > MOST_NAMES:
            self.refuse(LongHeader(f"the header has more than {MOST_NAMES} names; the server takes no more."))
        elif host is None and version == "1.1":
            self.refuse(NoHTTP("it names no Host"))
        elif host is not None and not _HOST.fullmatch(host):
            self.refuse(NoHTTP(f"Host must be one name, with a port or without, got {host[:50]!r}"))
        elif coding is not None and version == "1.0":
            self.refuse(NoHTTP("HTTP/1.0 knows no Transfer-Encoding"))
        elif coding is not None and coding.lower() != "chunked":
            rule = f"Transfer-Encoding may be chunked, and nothing else, got {coding[:50]!r}"
            ends = coding.lower().rpartition(",")[2].strip() == "chunked"
            self.refuse(NoCoding(f"{rule}.") if ends else NoHTTP(rule))
        elif length is not None and int(length[-20:]) > self._largest:  # of digits, and less than 2**64
            self.refuse(self._too_large(f"{length} bytes"))
        elif version == "1.1" and headers.get("expect", "").lower() == "100-continue":
            self._expects = True
            if self._connection.is_turn_of(self):
                self.begin()

    def data(self, chunk: bytes) -> None:
        """Keep a part of the body; without a length, count what comes."""
        if self._done or self._refusal is not None:
            return
        self._expects = False
        self._size += len(chunk)
        self._held.size += len(chunk)
        if self._size > self._largest:
            self.refuse(self._too_large("more than that"))
        elif self._held.size > self._held.most:
            few = f"the bodies that wait have more than {self._held.most:,} bytes; the server takes no more now."
            self.refuse(Unavailable(few, retry_after=1))
        elif self._body:
            # One piece of memory, however small the chunks are.
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += chunk
        else:
            self._body = chunk

    def finish(self) -> None:
        """The request is whole."""
        self._is_whole = True
        if self._connection.is_turn_of(self):
            self.begin()

    def begin(self) -> None:
        """All requests before this one have their answers: answer it, if it is whole or refused."""
        if self._refusal is not None:
            self._write(refusal(self._refusal))
        elif self._is_whole:
            self._connection.no_hurry()
            self._asked.body, self._body = bytes(self._body), b""
            stop = self._answers.begin(self._asked, self._write)
            self._stop = None if self._done else stop
        elif self._expects:
            self._expects = False
            self._connection.say(b"HTTP/1.1 100 Continue\r\n\r\n")

    def refuse(self, error: ServeError) -> None:
        """The request won't be read to its end, and is the last of its connection."""
        if self._refusal is not None or self._done:
            return
        self._refusal, self.last = error, True
        self._release()
        if self._connection.is_turn_of(self):
            self.begin()

    def unreadable(self, reason: str) -> None:
        """Refuse it for what httptools says of it."""
        if reason == "Content-Length overflow":
            self.refuse(self._too_large("more bytes than can be counted"))
        elif "Content-Length" in reason:
            rule = "Content-Length must be a number of bytes, given once and not beside Transfer-Encoding"
            self.refuse(NoLength(f"{rule}: {reason[:100]}."))
        else:
            self.refuse(NoHTTP(reason))

    def leave(self) -> None:
        """The client left: nobody waits for the answer any more."""
        self._release()
        stop, self._stop, self._done = self._stop, None, True
        if stop is not None:
            stop()
            self._log(499)

    def _too_large(self, came: str) -> TooLarge:
        return TooLarge(f"the body has {came}; the server takes at most {self._largest:,} bytes.")

    def _write(self, answer: Answer) -> None:
        if self._done:
            return
        self._done, self._stop = True, None
        self._release()
        self._log(answer.status)
        asked, body = self._asked, answer.body
        self.last = self.last or self._answers.server.draining
        # A client that waits for a word before it sends its body sends none after a refusal.
        self.lingers = not self._is_whole and (self._is_old or "expect" not in asked.headers)
        more = answer.headers
        identity = asked.headers.get(IDENTITY)
        if identity is not None and len(identity) <= 200 and identity.isascii() and identity.isprintable():
            more = {**more, "X-Request-Id": identity}
        if self.last:
            more = {**more, "Connection": "close"}
        elif self._is_old:
            more = {**more, "Connection": "keep-alive"}
        lines = "".join([f"{key}: {value}\r\n" for key, value in more.items()]) if more else ""
        head = f"{_status(answer.status, answer.kind)}{len(body)}\r\nDate: {_date(int(time.time()))}\r\n{lines}\r\n"
        self._connection.reply(head.encode("latin-1"), b"" if asked.method == "HEAD" else body)

    def _release(self) -> None:
        self._held.size -= self._size
        self._size, self._body = 0, b""

    def _log(self, status: int) -> None:
        took = time.perf_counter() - self._began
        asked = self._asked
        if asked.model and not asked.path.startswith("/admin/"):
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
