"""Where a request ends: nothing can be hidden behind it, and nothing that is no request can grow without end."""

from __future__ import annotations

import asyncio
import errno

import numpy as np
import pytest

from internals.deploy.serve.connection import BUFFER, Connection
from internals.deploy.serve.reading import LARGEST_HEADER, MOST_NAMES, UNFINISHED

from .test_connection import Transport, feed, in_chunks, on_loop, opened, request, split_answers

OFFERS = ["Upgrade: h2c", "Connection: upgrade"]
CHUNKED = "Transfer-Encoding: chunked"


async def sent(data, size=BUFFER, **settings):
    """What was asked, what was answered, and the transport, after these bytes came in pieces."""
    connection, transport, answers = opened(**settings)
    for at in range(0, len(data), size):
        while not transport.reads:
            await asyncio.sleep(0)
        if not transport.closed:
            feed(connection, transport, data[at : at + size])
    for _ in range(10):
        await asyncio.sleep(0)
    return answers.asked, split_answers(transport.written), transport


LAST = [
    ("close", request("GET", "/a", b"", "Connection: close"), 200),
    ("close and a body", request("POST", "/a", b"12", "Connection: close"), 200),
    ("one of several", request("GET", "/a", b"", "Connection: keep-alive, close"), 200),
    ("close and an offer", request("GET", "/a", b"", "Upgrade: h2c", "Connection: close, upgrade"), 200),
    ("HTTP/1.0", request("GET", "/a", version="1.0"), 200),
    ("refused", request("GET", "/a", host=""), 400),
    ("refused with an offer", request("GET", "/a", b"", *OFFERS, host=""), 400),
    ("refused before its chunks", request("POST", "/a", b"0\r\n\r\n", "Transfer-Encoding: gzip, chunked"), 501),
]
BEHIND = [request("GET", "/b"), request("POST", "/b", b"", "Content-Length: 9", "Expect: 100-continue"), b"no HTTP"]


@pytest.mark.parametrize("behind", BEHIND, ids=["request", "expects", "garbage"])
@pytest.mark.parametrize("size", [1, BUFFER])
@pytest.mark.parametrize(("data", "status"), [one[1:] for one in LAST], ids=[one[0] for one in LAST])
def test_nothing_is_asked_or_answered_behind_the_last_request(data, status, behind, size):
    asked, answers, transport = asyncio.run(sent(data + behind, size))
    assert [one.path for one in asked] == (["/a"] if status == 200 else [])
    assert [(came, headers["connection"]) for came, headers, _ in answers] == [(status, "close")]
    assert transport.closed or transport.eof


FRAMINGS = [
    ("offer and zeros", request("POST", "/", b"", *OFFERS, "Content-Length: 00"), 200, b""),
    ("many zeros", request("POST", "/", b"", "Content-Length: " + "0" * 5000 + "3") + b"abc", 200, b"abc"),
    ("capitals", request("POST", "/", b"3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: CHUNKED"), 200, b"abc"),
    ("extension", request("POST", "/", b'3;a="\\"";b\r\nabc\r\n0\r\n\r\n', CHUNKED), 200, b"abc"),
    ("a coding before", request("POST", "/", b"0\r\n\r\n", "Transfer-Encoding: gzip, chunked"), 501, None),
    ("two codings", request("POST", "/", b"0\r\n\r\n", "Transfer-Encoding: identity", CHUNKED), 501, None),
    ("twice", request("POST", "/", b"0\r\n\r\n", CHUNKED, CHUNKED), 400, None),
    ("nothing", request("POST", "/", b"0\r\n\r\n", "Transfer-Encoding: "), 400, None),
    ("of HTTP/1.0", request("POST", "/", b"0\r\n\r\n", CHUNKED, "Connection: keep-alive", version="1.0"), 400, None),
    ("line end in an extension", request("POST", "/", b"3;\nx\r\nabc\r\n0\r\n\r\n", CHUNKED), 400, None),
    ("bare line ends", request("POST", "/", b"3\nabc\n0\n\n", CHUNKED), 400, None),
    ("longer than it says", request("POST", "/", b"3\r\nabcd\r\n0\r\n\r\n", CHUNKED), 400, None),
    ("a size with a sign", request("POST", "/", b"+3\r\nabc\r\n0\r\n\r\n", CHUNKED), 400, None),
    ("a size with a name", request("POST", "/", b"0x3\r\nabc\r\n0\r\n\r\n", CHUNKED), 400, None),
    ("a size beyond counting", request("POST", "/", b"1" + b"0" * 16 + b"3\r\nabc\r\n0\r\n\r\n", CHUNKED), 400, None),
    ("a length behind", request("POST", "/", b"0\r\nContent-Length: 3\r\n\r\nabc", CHUNKED), 400, None),
    ("carriage return", request("POST", "/", b"", f"X: a\r{CHUNKED}"), 400, None),
    ("zero byte", request("POST", "/", b"", "Content-Length\0: 3"), 400, None),
    ("two hosts", request("GET", "/", b"", "Host: y"), 400, None),
    ("two empty hosts", request("GET", "/", b"", "Host:", host="Host:"), 400, None),
    ("no host's name", request("GET", "/", host="Host: a/b"), 400, None),
    ("an empty host", request("GET", "/", host="Host:"), 200, b""),
    ("a host with a port", request("GET", "/", host="Host: [::1]:80"), 200, b""),
]


@pytest.mark.parametrize("size", [1, BUFFER])
@pytest.mark.parametrize(("data", "status", "body"), [one[1:] for one in FRAMINGS], ids=[one[0] for one in FRAMINGS])
def test_what_a_header_may_say_of_the_body(data, status, body, size):
    """RFC 9112, 3.2, 6 and 7; a request that is refused ends the connection."""
    asked, answers, _ = asyncio.run(sent(data + request("GET", "/b"), size))
    assert [one.body for one in asked] == ([] if body is None else [body, b""])
    assert [came for came, _, _ in answers] == ([status] if body is None else [200, 200])
    assert body is not None or answers[0][1]["connection"] == "close"


def test_a_client_of_http_1_0_is_not_told_to_go_on():
    """It would take that for the answer (RFC 9110, 10.1.1)."""
    data = request("POST", "/", b"", "Content-Length: 2", "Expect: 100-continue", version="1.0")
    _, answers, _ = asyncio.run(sent(data))
    assert not answers
    asked, answers, _ = asyncio.run(sent(data + b"12"))
    assert ([one.body for one in asked], [one[0] for one in answers]) == ([b"12"], [200])


@pytest.mark.parametrize("start", [b"0\r\nX: ", b"0\r\nX", b"3;x=", b"3;x", b"0" * 9])
def test_what_is_no_body_does_not_grow_without_end(start):
    """Lines behind the chunks would be kept whole by the parser, whatever their length."""
    connection, transport, answers = None, None, None

    async def tried():
        nonlocal connection, transport, answers
        connection, transport, answers = opened()
        feed(connection, transport, request("POST", "/", b"3\r\nabc\r\n" + start, CHUNKED))
        filler = (b"0" if start.isdigit() else b"a") * 1000
        came = 0
        while not (transport.eof or transport.closed):
            assert came < UNFINISHED + BUFFER
            feed(connection, transport, filler)
            came += len(filler)

    asyncio.run(tried())
    ((status, _, told),) = split_answers(transport.written)
    assert status in (400, 431), told
    assert not answers.asked


@on_loop
def test_of_a_header_that_is_too_long_no_more_is_kept():
    for lines in (b"a: b\r\n" * 15_000, b"".join(b"%04x:\r\n" % one for one in range(10_000))):
        connection, transport, _ = opened()
        feed(connection, transport, b"GET / HTTP/1.1\r\n" + lines)
        kept = sum(len(name) + len(value) for name, value in connection._input._headers.items())
        assert len(connection._input._headers) <= MOST_NAMES + 1
        assert kept <= 2 * LARGEST_HEADER
        feed(connection, transport, b"\r\n")
        assert [one[0] for one in split_answers(transport.written)] == [431]


def test_many_names_are_too_many():
    for number, status in ((MOST_NAMES - 1, 200), (MOST_NAMES, 431)):
        lines = [f"x{one}: 1" for one in range(number)]
        _, answers, _ = asyncio.run(sent(request("GET", "/", b"", *lines)))
        assert [one[0] for one in answers] == [status]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_is_not_held_to_the_length_of_a_header(chunked):
    rng = np.random.default_rng(6)
    body = rng.bytes(2 * UNFINISHED).hex().encode()
    sends = request("POST", "/", in_chunks(body, rng), CHUNKED) if chunked else request("POST", "/", body)
    asked, answers, _ = asyncio.run(sent(sends, 10_000))
    assert [one.body for one in asked] == [body]
    assert [one[0] for one in answers] == [200]


@on_loop
def test_a_body_in_small_chunks_is_one_piece_of_memory():
    connection, transport, answers = opened()
    body = np.random.default_rng(4).bytes(3000).hex().encode()
    whole = in_chunks(body, np.random.default_rng(1))[: -len(b"0\r\nX: of the end\r\n\r\n")]
    small = b"".join(b"2\r\n%s\r\n" % body[at : at + 2] for at in range(0, len(body), 2))
    feed(connection, transport, request("POST", "/", whole + small, CHUNKED))
    held = connection._reading._body
    assert isinstance(held, bytearray)
    assert held.__sizeof__() < 1.2 * 2 * len(body) + 200
    assert connection._shared.held.size == 2 * len(body)
    feed(connection, transport, b"0\r\n\r\n")
    assert answers.asked[0].body == 2 * body
    assert isinstance(answers.asked[0].body, bytes)


def test_requests_that_came_together_leave_others_their_turn():
    """A client could else have thousands answered at once, and all others wait."""

    async def tried():
        connection, transport, answers = opened()
        feed(connection, transport, b"".join(request("GET", f"/{one}") for one in range(100)))
        assert len(answers.asked) == 1
        assert not transport.reads
        for done in range(2, 101):
            await asyncio.sleep(0)
            assert len(answers.asked) == done
        await asyncio.sleep(0)
        assert transport.reads
        assert [told["path"] for _, _, told in split_answers(transport.written)] == [f"/{one}" for one in range(100)]

    asyncio.run(tried())


@pytest.mark.parametrize("leaves", [False, True])
def test_answers_that_are_not_read_count_as_bodies_do(leaves):
    async def tried():
        connection, transport, answers = opened(bodies=1000)
        held = connection._shared.held
        other = Connection(connection._shared)
        other.connection_made(taken := Transport())
        transport.full = 5000  # bytes that are not taken
        feed(connection, transport, request("GET", "/"))
        assert held.size == 5000
        feed(other, taken, request("POST", "/", b"1"))
        assert [one[0] for one in split_answers(taken.written)] == [503]
        transport.full = 0
        if leaves:
            connection.connection_lost(None)
        else:
            connection.resume_writing()
            await asyncio.sleep(0)
        assert held.size == 0
        assert len(answers.asked) == 1

    asyncio.run(tried())


@on_loop
def test_a_client_that_is_gone_before_the_goodbye_is_no_fault():
    connection, transport, _ = opened()

    def fails():
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    transport.write_eof = fails
    feed(connection, transport, b"no HTTP")
    assert [one[0] for one in split_answers(transport.written)] == [400]
    assert transport.aborted


@on_loop
def test_a_fault_of_the_servers_own_is_not_the_clients():
    connection, transport, answers = opened()
    answers.begin = lambda asked, done: 1 / 0
    with pytest.raises(Exception, match="callback") as caught:
        feed(connection, transport, request("GET", "/"))
    assert isinstance(caught.value.__context__, ZeroDivisionError)
    assert not transport.written
