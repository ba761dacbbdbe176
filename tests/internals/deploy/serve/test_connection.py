"""Connections without a network: what comes in any pieces is answered in order, and what can't be read ends them."""

from __future__ import annotations

import asyncio
import functools
import json
import socket
from types import SimpleNamespace

import numpy as np
import pytest

from internals.deploy.serve.connection import BUFFER, Connection, Shared
from internals.deploy.serve.errors import ServeError
from internals.deploy.serve.exchanged import Answer, refusal
from internals.deploy.serve.metrics import Metrics
from internals.deploy.serve.minute import Minute
from internals.deploy.serve.reading import LARGEST_HEADER, LARGEST_PATH, UNFINISHED
from internals.deploy.serve.server import Settings


class Transport:
    """Remembers what is done; what is written is taken at once, unless it is told to be full."""

    def __init__(self):
        self.written, self.closed, self.aborted, self.reads, self.eof = b"", False, False, True, False
        self.full, self.protocol = False, None

    def set_write_buffer_limits(self, high):
        assert high == 0

    def get_write_buffer_size(self):
        return int(self.full)

    def write(self, data):
        assert not self.closed
        self.written += data
        if self.full:
            self.protocol.pause_writing()

    def close(self):
        self.closed = True

    def abort(self):
        self.aborted = True

    def write_eof(self):
        self.eof = True

    def pause_reading(self):
        assert self.reads
        self.reads = False

    def resume_reading(self):
        assert not self.reads
        self.reads = True


class Answers:
    """Answers with what it was asked; addresses with "later" wait until they are told."""

    def __init__(self, **settings):
        self.server = SimpleNamespace(settings=Settings(**settings), draining=False, metrics=None, minute=Minute())
        self.server.metrics = Metrics(self.server)
        self.asked, self.waiting, self.left = [], [], []

    def begin(self, asked, done):
        self.asked.append(asked)
        told = {"method": asked.method, "path": asked.path, "body": asked.body.decode(), "more": asked.headers.get("x")}
        if "fails" in asked.path:
            done(refusal(ServeError("it failed")))
        elif "later" in asked.path:
            self.waiting.append(lambda: done(Answer(json.dumps(told).encode())))
        else:
            done(Answer(json.dumps(told).encode()))
        return lambda: self.left.append(asked.path)


def opened(**settings):
    """A connection, where it writes, and who answers."""
    answers, transport = Answers(**settings), Transport()
    connection = Connection(Shared(answers))
    transport.protocol = connection
    connection.connection_made(transport)
    return connection, transport, answers


def feed(connection, transport, data):
    """Give it bytes as asyncio does, which gives none while it is not read."""
    while data and not transport.closed:
        assert transport.reads
        room = connection.get_buffer(-1)
        part, data = data[: len(room)], data[len(room) :]
        room[: len(part)] = part
        connection.buffer_updated(len(part))


def on_loop(test):
    """A test that needs a running loop, though nothing in it waits."""

    @functools.wraps(test)
    def run(*arguments, **named):
        async def tried():
            return test(*arguments, **named)

        return asyncio.run(tried())

    return run


def request(method, path, body=b"", *headers, version="1.1", host="Host: x"):
    lines = [f"{method} {path} HTTP/{version}", *([host] if host else []), *headers]
    if body and not any("encoding" in one.lower() for one in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def in_chunks(data, rng):
    """A body as chunks."""
    parts, at = [], 0
    while at < len(data):
        size = int(rng.integers(1, len(data) - at + 1))
        parts.append(b"%x\r\n%s\r\n" % (size, data[at : at + size]))
        at += size
    return b"".join(parts) + b"0\r\nX: of the end\r\n\r\n"


def split_answers(data):
    """Status, header and body of each answer that was written."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        status, headers = int(lines[0].split()[1]), dict(line.lower().split(": ", 1) for line in lines[1:])
        size = int(headers.get("content-length", 0))
        body, data = data[:size], data[size:]
        assert len(body) == size
        found.append((status, headers, json.loads(body) if body else None))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_requests_in_any_pieces_are_answered_in_order(seed):
    """Many requests behind each other, cut anywhere, whose answers come at once or later."""

    async def tried():
        rng = np.random.default_rng(seed)
        connection, transport, answers = opened()
        expected, data = [], b""
        for number in range(int(rng.integers(1, 30))):
            path = f"/{number}/{rng.choice(['now', 'later', 'fails'])}"
            body = rng.bytes(int(rng.integers(0, 200))).hex().encode() if rng.random() < 0.7 else b""
            chunked = body and rng.random() < 0.5
            more = ["Transfer-Encoding: chunked"] if chunked else []
            data += request("POST", path, in_chunks(body, rng) if chunked else body, f"X: {number}", *more)
            expected.append((path, body.decode(), str(number)))
        while data or len(answers.asked) < len(expected) or answers.waiting:
            if transport.reads and data:
                size = int(rng.integers(1, 300))
                feed(connection, transport, data[:size])
                data = data[size:]
            if answers.waiting and (rng.random() < 0.3 or not transport.reads or not data):
                answers.waiting.pop(0)()
            await asyncio.sleep(0)
        assert [(one.path, one.body.decode(), one.headers["x"]) for one in answers.asked] == expected
        for (status, _, told), (path, body, more) in zip(split_answers(transport.written), expected, strict=True):
            if "fails" in path:
                assert (status, told) == (500, {"error": "it failed"})
            else:
                assert (status, told) == (200, {"method": "POST", "path": path, "body": body, "more": more})
        assert transport.reads
        assert not transport.closed

    asyncio.run(tried())


def test_while_one_is_answered_no_more_is_read_than_came_with_it():
    async def tried():
        connection, transport, answers = opened()
        feed(connection, transport, request("GET", "/later"))
        assert transport.reads  # so that a client that leaves is noticed
        feed(connection, transport, request("GET", "/second") + request("GET", "/third"))
        assert not transport.reads
        assert [one.path for one in answers.asked] == ["/later"]
        answers.waiting.pop()()
        for path in ("/second", "/third"):  # each has a turn of its own, so that others have theirs
            await asyncio.sleep(0)
            assert answers.asked[-1].path == path
        assert transport.reads
        assert [told["path"] for _, _, told in split_answers(transport.written)] == ["/later", "/second", "/third"]

    asyncio.run(tried())


def test_the_next_request_waits_until_the_answer_is_taken():
    async def tried():
        connection, transport, answers = opened()
        transport.full = True
        feed(connection, transport, request("GET", "/first"))
        assert connection.writing
        feed(connection, transport, request("GET", "/second"))
        assert (len(answers.asked), transport.reads) == (1, False)
        transport.full = False
        connection.resume_writing()
        for _ in range(2):
            await asyncio.sleep(0)
        assert [one.path for one in answers.asked] == ["/first", "/second"]

    asyncio.run(tried())


@on_loop
def test_a_client_that_leaves_is_told_to_who_answers():
    connection, transport, answers = opened()
    feed(connection, transport, request("GET", "/now") + request("GET", "/1/later") + request("GET", "/2"))
    connection._next()
    connection.connection_lost(None)
    assert answers.left == ["/1/later"]
    answers.waiting.pop()()  # it comes all the same, and is not written
    assert len(split_answers(transport.written)) == 1
    assert not connection._shared.open


@on_loop
@pytest.mark.parametrize(
    ("version", "headers", "said", "closed"),
    [
        ("1.1", [], None, False),
        ("1.1", ["Connection: close"], "close", True),
        ("1.0", [], "close", True),
        ("1.0", ["Connection: keep-alive"], "keep-alive", False),
    ],
)
def test_who_keeps_the_connection(version, headers, said, closed):
    connection, transport, _ = opened()
    feed(connection, transport, request("GET", "/", b"", *headers, version=version))
    ((status, told, _),) = split_answers(transport.written)
    assert (status, told.get("connection"), transport.closed) == (200, said, closed)


@on_loop
def test_a_server_that_drains_keeps_none():
    connection, transport, answers = opened()
    answers.server.draining = True
    feed(connection, transport, request("GET", "/"))
    ((_, told, _),) = split_answers(transport.written)
    assert (told["connection"], transport.closed) == ("close", True)


@pytest.mark.parametrize("size", [1, 50, BUFFER])
def test_another_protocol_that_is_offered_is_not_taken(size):
    """Nor is a body taken for that protocol, or for a request that somebody has hidden in it."""

    async def tried():
        connection, transport, answers = opened()
        offered = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"]
        hidden = request("POST", "/hidden", b"1")
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(hidden), hidden)
        data = b"".join(
            (
                request("GET", "/a", b"", *offered),
                request("POST", "/b", hidden, *offered),
                request("POST", "/c", chunked, *offered, "Transfer-Encoding: chunked"),
                request("POST", "/d", b"", *offered, "Content-Length: 0"),
                request("CONNECT", "e:80", hidden),
                request("GET", "/f"),
            )
        )
        for at in range(0, len(data), size):
            while not transport.reads:
                await asyncio.sleep(0)
            feed(connection, transport, data[at : at + size])
        for _ in range(6):
            await asyncio.sleep(0)
        expected = [("/a", b""), ("/b", hidden), ("/c", hidden), ("/d", b""), ("e:80", hidden), ("/f", b"")]
        assert [(one.path, one.body) for one in answers.asked] == expected
        assert [status for status, _, _ in split_answers(transport.written)] == [200] * 6

    asyncio.run(tried())


UNREADABLE = [
    ("no Host", request("GET", "/", host=""), 400, "it names no Host"),
    ("HTTP/2", request("GET", "/", version="2.0"), 400, "no HTTP/1.1"),
    ("its preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "no HTTP/1.1"),
    ("method", b"FOO / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "Invalid method"),
    ("lines", b"GET / HTTP/1.1\nHost: x\n\n", 400, "no HTTP/1.1"),
    ("folded", b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n", 400, "no HTTP/1.1"),
    ("space", b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400, "no HTTP/1.1"),
    ("two lengths", request("POST", "/", b"", "Content-Length: 5", "Content-Length: 5"), 400, "given once"),
    ("length and chunks", request("POST", "/", b"", "Content-Length: 5", "Transfer-Encoding: chunked"), 400, "beside"),
    ("signed", request("POST", "/", b"", "Content-Length: +5"), 400, "Content-Length must be a number"),
    ("hexadecimal", request("POST", "/", b"", "Content-Length: 0x5"), 400, "Content-Length must be a number"),
    ("beyond counting", request("POST", "/", b"", f"Content-Length: {10**20}"), 413, "more bytes than can be counted"),
    ("coding", request("POST", "/", b"", "Transfer-Encoding: gzip"), 400, "Transfer-Encoding"),
    ("chunk", request("POST", "/", b"zz\r\n", "Transfer-Encoding: chunked"), 400, "chunk size"),
    ("address", b"GET /" + b"a" * 3 * UNFINISHED, 414, "the address is longer"),
    ("header", b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: aaaaaaaa\r\n" * (UNFINISHED // 4), 431, "the header is longer"),
    ("one line", b"GET / HTTP/1.1\r\nX: " + b"a" * 3 * UNFINISHED, 431, "the header is longer"),
]


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("size", [1, 7, BUFFER])
@pytest.mark.parametrize(
    ("data", "status", "said"), [one[1:] for one in UNREADABLE], ids=[one[0] for one in UNREADABLE]
)
def test_what_is_no_http_has_one_answer_after_those_before_it(data, status, said, size, before):
    async def tried():
        connection, transport, answers = opened()
        whole = request("GET", "/now") * before + data + request("GET", "/behind")
        step = size if len(data) < 2000 else BUFFER
        for at in range(0, len(whole), step):
            if not transport.closed:
                while not transport.reads:
                    await asyncio.sleep(0)
                feed(connection, transport, whole[at : at + step])
        for _ in range(before + 1):
            await asyncio.sleep(0)
        *good, (came, headers, told) = split_answers(transport.written)
        assert [one[0] for one in good] == [200] * before
        assert (came, said in told["error"], headers["connection"]) == (status, True, "close"), told
        assert len(answers.asked) == before
        assert transport.eof or transport.closed or transport.reads  # it ends, or waits for the rest to be read
        connection._due = 0.0
        connection._look()
        assert transport.closed

    asyncio.run(tried())


@on_loop
@pytest.mark.parametrize(
    ("path", "headers", "status", "said"),
    [
        ("/" + "a" * LARGEST_PATH, [], 414, f"the address has {LARGEST_PATH + 1:,} bytes"),
        ("/", [f"X: {'a' * LARGEST_HEADER}"], 431, "bytes; the server takes at most"),
        ("/", ["Content-Length: 1001"], 413, "the body has 1001 bytes; the server takes at most 1,000"),
    ],
)
def test_what_is_too_long_is_counted(path, headers, status, said):
    connection, transport, answers = opened(largest=1000)
    feed(connection, transport, request("POST", path, b"", *headers))
    ((came, _, told),) = split_answers(transport.written)
    assert (came, said in told["error"]) == (status, True), told
    assert not answers.asked


@on_loop
def test_the_rest_of_a_refused_body_is_read_and_dropped():
    connection, transport, _ = opened(largest=1000)
    feed(connection, transport, request("POST", "/", b"", "Content-Length: 5000"))
    assert len(split_answers(transport.written)) == 1
    feed(connection, transport, b"1" * 4999)
    assert not transport.closed
    feed(connection, transport, b"1")
    assert transport.closed
    assert connection._shared.held.size == 0


@on_loop
def test_a_header_says_a_thing_twice_and_with_spaces():
    connection, transport, answers = opened()
    feed(connection, transport, request("GET", "/", b"", "X:  one \t", "x: two", "Y:\tthree "))
    assert answers.asked[0].headers == {"host": "x", "x": "one, two", "y": "three"}


@on_loop
def test_an_identity_comes_back_only_if_it_can_do_no_harm():
    for sent, back in (("user 7", "user 7"), ("a" * 201, None), ("\xe4", None)):
        connection, transport, _ = opened()
        feed(
            connection,
            transport,
            request("GET", "/").replace(b"Host", f"X-Request-Id: {sent}\r\nHost".encode("latin-1")),
        )
        ((_, told, _),) = split_answers(transport.written)
        assert told.get("x-request-id") == back


SILENT = [
    ("before anything", b"", None, True),
    ("in the header", b"POST /v1/mod", None, True),
    ("in the body", request("POST", "/", b"", "Content-Length: 5") + b"123", 408, True),
    ("between two", request("GET", "/now"), 200, True),
    ("while it is answered", request("GET", "/later"), None, False),
]


@on_loop
@pytest.mark.parametrize(("data", "status", "ends"), [one[1:] for one in SILENT], ids=[one[0] for one in SILENT])
def test_silence_ends_a_connection(data, status, ends):
    connection, transport, _ = opened()
    feed(connection, transport, data)
    at, loop = connection._timer.when(), asyncio.get_running_loop()
    loop.time = lambda: at + 1000  # much later
    connection._look()
    assert [one[0] for one in split_answers(transport.written)] == ([status] if status else [])
    assert transport.closed == ends


@on_loop
def test_who_does_not_read_an_answer_is_cut_off():
    connection, transport, _ = opened()
    transport.full = True
    feed(connection, transport, request("GET", "/"))
    loop, at = asyncio.get_running_loop(), connection._timer.when()
    loop.time = lambda: at - 0.001
    connection._look()
    assert not transport.aborted
    loop.time = lambda: at + 1
    connection._look()
    assert transport.aborted


@pytest.mark.parametrize("behind", [b"", b"no HTTP"])
def test_who_reads_an_answer_late_has_it_whole_and_asyncio_closes_once(behind):
    """With asyncio's own transport: what is closed while it tells that all is written would be closed twice."""
    answer = Answer(json.dumps({"path": "a" * 2**22}).encode())

    async def tried():
        loop, wrong = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda loop, about: wrong.append(about))
        answers = Answers()
        answers.begin = lambda asked, done: done(answer)
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        with ours, theirs:
            _, connection = await loop.connect_accepted_socket(lambda: Connection(Shared(answers)), ours)
            await loop.sock_sendall(theirs, request("GET", "/", b"", "Connection: close") + behind)
            while not connection.writing:
                await asyncio.sleep(0)
            came = b""
            while part := await loop.sock_recv(theirs, 2**20):
                came += part
            theirs.close()
            while connection._shared.open:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not wrong
        assert came.endswith(answer.body)

    asyncio.run(asyncio.wait_for(tried(), 60))
