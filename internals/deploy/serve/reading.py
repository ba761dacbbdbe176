"""What httptools reads from a connection, as requests: headers whole, bodies in parts, and nothing without end.

httptools is llhttp, the parser of Node.js. It says what each byte is, and refuses what RFC 9112 does not allow. Left to
us is that nothing goes on without end, and that a request which offers another protocol is read as any other.
"""

from __future__ import annotations

from typing import Any, Protocol

LARGEST_PATH, LARGEST_HEADER = 8 * 2**10, 16 * 2**10
MOST_NAMES = 256
"""Of headers: a line of a few bytes takes many times as much memory."""
UNFINISHED = 4 * (LARGEST_HEADER + LARGEST_PATH)
"""Bytes of a header, or of what is no body, after which nobody waits for the end. Shorter headers are read whole, so
that the answer can count."""


class Reader(Protocol):
    """Who is told what was read; see `Reading`."""

    def begun(self) -> None:
        """The first byte of a request."""

    def header(self, method: str, path: str, headers: dict[str, str], size: int, version: str, *, keep: bool) -> None:
        """A header is whole: names in lower case, bytes, HTTP's version, and whether the client may ask again."""

    def body(self, part: bytes) -> None:
        """A part of the body, which is followed by others or by `whole`."""

    def whole(self) -> None:
        """The request is read."""

    def unreadable(self, path: str, headers: dict[str, str], reason: str) -> None:
        """What came is no HTTP, and neither can what follows be read."""

    def endless(self, path: str, headers: dict[str, str], what: str) -> None:
        """The "address" or "header", or the "part of the body that is none", is longer than anyone waits for."""


def library() -> Any:
    """The module httptools.

    Raises
    ------
    ImportError
        It is not installed.
    """
    try:
        import httptools
    except ImportError:
        raise ImportError("The server reads HTTP with httptools: pip install httptools") from None
    return httptools


class Reading:
    """Reads one connection.

    Parameters
    ----------
    reader : Reader

    Attributes
    ----------
    over : bool
        Set to read nothing more. It is set here too, when what comes can't be read.

    Raises
    ------
    ImportError
        httptools is not installed.
    """

    def __init__(self, reader: Reader) -> None:
        self._httptools = library()
        self._reader: Reader | None = reader
        self._parser: Any = self._httptools.HttpRequestParser(self)
        self._path, self._headers, self._framing = b"", dict[str, str](), b""
        self._in_header = self._in_body = self._again = self.over = False
        self._came = self._size = 0

    def feed(self, data: memoryview) -> memoryview:
        """Read bytes; those that nobody reads any more come back.

        Raises
        ------
        httptools.HttpParserCallbackError
            The reader failed.
        """
        fed = len(data)
        while data and not self.over:
            try:
                self._parser.feed_data(data)
                data = data[:0]
            except self._httptools.HttpParserUpgrade as error:
                # It asks for another protocol too. That is no duty: the request is answered as it is.
                data = data[error.args[0] :]
                self._read_on()
            except self._httptools.HttpParserCallbackError:
                raise
            except self._httptools.HttpParserError as error:
                if not self.over:
                    self._end()
                    self._told.unreadable(self._place, self._headers, str(error))
        if not self.over and (self._in_header or self._in_body):
            self._came += fed
            if self._came > UNFINISHED:
                what = "address" if len(self._path) > LARGEST_PATH else "header"
                what = what if self._in_header else "part of the body that is none"
                self._end()
                self._told.endless(self._place, self._headers, what)
        return data

    def close(self) -> None:
        """Let go of the reader, and the parser of this: they refer to each other."""
        self.over, self._reader, self._parser = True, None, None

    @property
    def _told(self) -> Reader:
        assert self._reader is not None
        return self._reader

    @property
    def _place(self) -> str:
        return self._path.decode("latin-1")

    def _end(self) -> None:
        self.over, self._in_header, self._in_body = True, False, False

    def _read_on(self) -> None:
        """Read what follows a header that asks for another protocol: httptools takes it for that, a body too."""
        self._parser = self._httptools.HttpRequestParser(self)
        if self._framing:
            self._again = True
            self._parser.feed_data(b"POST / HTTP/1.1\r\n" + self._framing + b"\r\n\r\n")
            self._again, self._framing = False, b""

    # What httptools calls.

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        if not self._again:
            self._in_header, self._came, self._size = True, 0, 0
            self._path, self._headers = b"", {}
            self._told.begun()

    def on_url(self, part: bytes) -> None:
        """A part of the address."""
        if self._in_header:
            self._path += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the header, or of what comes after a body in chunks, which nobody asks for."""
        if not self._in_header:
            return
        self._size += len(name) + len(value) + 4
        if self._size > LARGEST_HEADER or len(self._headers) > MOST_NAMES:
            return  # it is refused: nothing more of it is kept
        key, said = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        self._headers[key] = f"{self._headers[key]}, {said}" if key in self._headers else said

    def on_headers_complete(self) -> None:
        """The body follows."""
        if self._again:
            return
        self._in_header, self._in_body, self._came = False, True, 0
        if self.over:
            return
        parser, headers = self._parser, self._headers
        if parser.should_upgrade():
            for name in ("content-length", "transfer-encoding"):
                if headers.get(name, "").strip("0"):
                    self._framing = f"{name}: {headers[name]}".encode("latin-1")
        method, version, keep = (
            parser.get_method().decode("latin-1"),
            parser.get_http_version(),
            parser.should_keep_alive(),
        )
        self._told.header(method, self._place, headers, self._size, version, keep=keep)

    def on_body(self, part: bytes) -> None:
        """A part of the body."""
        self._came = 0
        self._told.body(part)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if not self._framing:
            self._in_body = False
            self._told.whole()
