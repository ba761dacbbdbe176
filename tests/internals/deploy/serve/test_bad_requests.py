"""Requests that are wrong, against a real server: each has a clear answer, and the server goes on serving."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time

import numpy as np
import psutil
import pytest

from .conftest import FEATURES, PATIENCE, weight

pytestmark = pytest.mark.slow

ROW = np.random.default_rng(3).normal(size=FEATURES).round(3).tolist()
GOOD = json.dumps({"instances": [ROW]}).encode()
PREDICT = "/v1/models/m:predict"


def serves(server):
    """The server still answers, and right."""
    np.testing.assert_allclose(server.predict([ROW]), [np.float32(ROW) @ weight(1)], rtol=1e-5)


BODIES = [
    ("no json", b"{'x': 1}", "no JSON"),
    ("empty", b"", "no JSON"),
    ("a list", b"[1, 2]", "must be a JSON object, got list"),
    ("cut off", GOOD[:-3], "no JSON"),
    ("not utf-8", b'{"instances": "\xff\xfe"}', "not UTF-8: byte 15 is 0xff"),
    ("deep", b'{"instances": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    ("deep in arrays", b'{"instances": ' + b"[" * 200 + b"1" + b"]" * 200 + b"}", "serve: x"),
    ("huge int", b'{"instances": [[' + b"9" * 10_000 + b", 1, 1, 1]]}", "no JSON"),
    ("large int", json.dumps({"instances": [[10**400, 1, 1, 1]]}).encode(), "serve: x"),
    ("1e400", b'{"instances": [[1e400, 1, 1, 1]]}', "NaN, infinite, or too large for float32"),
    ("beyond float32", b'{"instances": [[1e39, 1, 1, 1]]}', "NaN, infinite, or too large for float32"),
    ("NaN", b'{"instances": [[NaN, 1, 1, 1]]}', "NaN is no number of JSON"),
    ("neither", b"{}", "either instances (rows) or inputs (columns)"),
    ("both", b'{"instances": [], "inputs": []}', "either instances (rows) or inputs (columns)"),
    ("unknown key", b'{"instances": [[1, 2, 3, 4]], "secret": 1}', "unknown key 'secret'"),
    ("no rows", b'{"instances": []}', "at least one row"),
    ("no rows in columns", b'{"inputs": []}', "serve: x has shape (0,)"),
    ("null", b'{"instances": [null]}', "serve: x"),
    ("texts", b'{"instances": [["a", "b", "c", "d"]]}', "serve: x holds"),
    ("booleans in place of rows", b'{"instances": true}', "at least one row"),
    ("ragged", b'{"instances": [[1, 2, 3, 4], [1, 2]]}', "serve: x is no array"),
    ("too narrow", b'{"instances": [[1, 2]]}', "expected float32[batch, 4]: axis 1 is 4"),
    ("too deep", b'{"instances": [[[1, 2, 3, 4]]]}', "expected float32[batch, 4], of 2 axes"),
    ("unknown input", b'{"inputs": {"y": [[1, 2, 3, 4]]}}', "missing input x"),
    ("one too many", b'{"inputs": {"x": [[1, 2, 3, 4]], "y": 1}}', "unknown input y"),
    ("rows that differ", b'{"instances": [{"x": [1, 2, 3, 4]}, {"y": 1}]}', "instance 1 has not the same inputs"),
    ("a row and an object", b'{"instances": [[1, 2, 3, 4], {"x": [1, 2, 3, 4]}]}', "instance 0"),
    ("a key twice", b'{"instances": [[1, 2, 3, 4]], "instances": [[0, 0, 0, 0]]}', "the key 'instances' comes twice"),
    ("an input twice", b'{"instances": [{"x": [1, 2, 3, 4], "x": [0, 0, 0, 0]}]}', "the key 'x' comes twice"),
    ("large and wrong", b'{"instances": [' + b"[1, 2, 3]," * 20_000 + b"[1, 2, 3]]}", "expected float32[batch, 4]"),
    ("large and deep", b'{"instances": ' + b"[" * 300_000 + b"]" * 300_000 + b"}", "nested too deeply"),
    ("large and cut off", b'{"instances": [' + b"[1, 2, 3, 4]," * 20_000, "no JSON"),
    ("signature's kind", b'{"instances": [[1, 2, 3, 4]], "signature_name": 5}', "must be a text"),
]


@pytest.mark.parametrize(("body", "said"), [case[1:] for case in BODIES], ids=[case[0] for case in BODIES])
def test_a_bad_body_is_a_400(shared, body, said):
    status, answer = shared.ask(PREDICT, body)
    assert status == 400, answer
    assert said in answer["error"]
    serves(shared)


ADDRESSES = [
    ("GET", "/", None, 200, ""),
    ("GET", "/nothing", None, 404, "nothing at '/nothing'"),
    ("POST", "/v1/models/other:predict", GOOD, 404, "no model 'other'; the server has m"),
    ("POST", "/v1/models/m/versions/9:predict", GOOD, 404, "version 9 is not served; served: 1"),
    ("POST", "/v1/models/m/versions/99999999999:predict", GOOD, 404, "nothing at"),
    ("POST", "/v1/models/m/labels/beta:predict", GOOD, 404, "no label 'beta'"),
    ("POST", "/v1/models/m/labels/canary:predict", GOOD, 404, "no version is canary"),
    ("POST", PREDICT, b'{"instances": [[1, 2, 3, 4]], "signature_name": "other"}', 404, "no signature 'other'"),
    ("POST", "/v1/models/m:explain", GOOD, 404, "nothing at"),
    ("POST", "/v1/models/..%2f..%2fetc:predict", GOOD, 404, "nothing at"),
    ("GET", PREDICT, None, 405, "GET is not for this address; use POST"),
    ("DELETE", "/v1/models/m", None, 405, "use GET"),
    ("POST", "/healthz", GOOD, 405, "use GET"),
    ("POST", "/v1/models/m:classify", GOOD, 400, "must have examples"),
    ("POST", "/v1/models/m:classify", b'{"examples": [1]}', 400, "must have examples"),
    ("POST", "/v1/models/m:regress", b'{"examples": [{"x": [1, 2, 3, 4]}]}', 400, "does not regress"),
    (
        "POST",
        "/v1/models/m:classify",
        b'{"examples": [{"x": [1, 2, 3, 4]}], "context": {"x": [1, 2, 3, 4]}}',
        400,
        "example 0 and the context both have x",
    ),
    ("GET", "/v1/models/m/versions/9", None, 404, "there is no version 9; it has 1"),
    ("GET", "http://elsewhere:80/healthz", None, 200, "alive"),
    ("GET", "/" + "a" * 9000, None, 414, "the address has 9,001 bytes"),
    ("POST", "/admin/models/m", b'{"action": "rollback"}', 403, "operators' calls"),
]


def exchange(server, data, *, port=None):
    """Send bytes as they are; what comes until the server closes, or is silent."""
    with socket.create_connection(("127.0.0.1", port or server.port), PATIENCE) as connection:
        connection.sendall(data)
        return read_answer(connection)


def read_answer(connection):
    """The status and the body of one answer."""
    came = b""
    while b"\r\n\r\n" not in came:
        part = connection.recv(65536)
        if not part:
            return 0, came
        came += part
    head, _, body = came.partition(b"\r\n\r\n")
    sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while sizes and len(body) < int(sizes[0].split(b":")[1]):
        body += connection.recv(65536)
    return int(head.split()[1]), body


def request(method, path, body=b"", *headers):
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *headers]
    if body and not any(line.lower().startswith("content-length") for line in lines):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"), ADDRESSES, ids=[f"{one[0]} {one[1]} {one[4]}" for one in ADDRESSES]
)
def test_a_wrong_address_or_method(shared, method, path, body, status, said):
    came, answer = exchange(shared, request(method, path, body or b""))
    assert came == status, answer
    assert said in answer.decode()
    assert status == 200 or set(json.loads(answer)) == {"error"}
    serves(shared)


@pytest.mark.parametrize(
    ("headers", "status", "said"),
    [
        (["X: " + "a" * 20_000], 431, b"the server takes at most 16,384"),
        (["Content-Length: 5", "Content-Length: 6"], 400, b"Content-Length must be a number"),
        (["Content-Length: 1000000000"], 413, b"the body has 1000000000 bytes; the server takes at most 1,000,000"),
        (["Content-Length: 99999999999999999999"], 413, b"the server takes at most"),
        (["Content-Length: -5"], 400, b"Content-Length must be a number"),
        (["Content-Length: 1000000000", "Expect: 100-continue"], 413, b"the server takes at most"),
    ],
)
def test_a_length_is_refused_before_the_body_is_read(shared, headers, status, said):
    came, answer = exchange(shared, request("POST", PREDICT, b"", *headers))
    assert (came, said in answer) == (status, True), answer
    serves(shared)


def test_a_body_without_a_length_is_counted(shared):
    chunk = b"10000\r\n" + b"1" * 0x10000 + b"\r\n"
    head = request("POST", PREDICT, b"", "Transfer-Encoding: chunked")
    came, answer = exchange(shared, head + chunk * 17)
    assert came == 413, answer
    serves(shared)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_client_that_sends_all_before_it_reads_hears_why(shared, chunked):
    """As Python's own client does; it would find the connection broken if the server closed it at once."""
    connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=PATIENCE)
    parts = (b"1" * 2**20 for _ in range(8))
    if chunked:
        connection.request("POST", PREDICT, parts, {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    else:
        connection.request("POST", PREDICT, b"".join(parts))
    answer = connection.getresponse()
    assert (answer.status, b"the server takes at most 1,000,000" in answer.read()) == (413, True)
    connection.close()
    serves(shared)


def test_one_answer_for_each_request_that_is_refused(shared):
    """What comes behind a refusal, and is no HTTP, has no answer of its own; a 100 is not said after a refusal."""
    head = request("POST", PREDICT, b"", "Transfer-Encoding: chunked")
    broken = head + b"fffff\r\n" + b"1" * 0xFFFFF + b"\r\n" + b"1\r\n1\r\nzz\r\n\r\n"
    expects = request("POST", PREDICT, b"", "Content-Length: 2000000", "Expect: 100-continue")
    for data in (broken, expects):
        assert whole(shared, data).count(b"HTTP/1.1") == 1
    for expected in ("100-continue", "100-Continue"):
        said = whole(shared, request("POST", PREDICT, GOOD, f"Expect: {expected}", "Connection: close"))
        assert [said.count(one) for one in (b"HTTP/1.1 100", b"HTTP/1.1 200")] == [1, 1], said


def whole(server, data):
    """All that comes until the server closes."""
    came = b""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
        connection.sendall(data)
        while part := connection.recv(65536):
            came += part
    return came


def test_head_and_the_methods_that_are_allowed(shared):
    said = whole(shared, request("HEAD", "/v1/models/m", b"", "Connection: close"))
    head, _, rest = said.partition(b"\r\n\r\n")
    assert (head[:15], rest) == (b"HTTP/1.1 200 OK", b"")
    for method, path, allowed in (("PUT", "/v1/models/m", b"GET, HEAD"), ("GET", PREDICT, b"POST")):
        said = whole(shared, request(method, path, b"", "Connection: close"))
        assert b"\r\nAllow: " + allowed + b"\r\n" in said, said


def test_who_does_not_read_the_answers_is_cut_off(shared):
    rows = ",".join(["[1, 2, 3, 4]"] * 60_000)
    one = request("POST", PREDICT, f'{{"instances": [{rows}]}}'.encode())
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", shared.port))
        port = connection.getsockname()[1]
        sending = threading.Thread(target=send_until_broken, args=(connection, one))
        sending.start()
        process, end = psutil.Process(shared.process.pid), time.monotonic() + PATIENCE
        while any(found.raddr and found.raddr.port == port for found in process.net_connections("tcp")):
            assert time.monotonic() < end
            time.sleep(0.1)
        sending.join(PATIENCE)
        assert not sending.is_alive()
    serves(shared)


def send_until_broken(connection, data):
    try:
        for _ in range(1000):
            connection.sendall(data)
    except OSError:
        return


def test_silence_is_cut_off(shared):
    """A client that sends a byte now and then, and one that sends nothing, hold no connection for ever."""
    for data in (b"", b"POST /v1/mod"):
        assert whole(shared, data) == b""
    head, _, body = whole(shared, request("POST", PREDICT, b"{", "Content-Length: 50")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(body) == {"error": "the body did not come within 3 s."}
    serves(shared)


def test_clients_that_leave(shared):
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", shared.port), PATIENCE) as connection:
            connection.sendall(request("POST", PREDICT, GOOD))
    serves(shared)


def test_pipelined_requests_are_answered_in_order(shared):
    with socket.create_connection(("127.0.0.1", shared.port), PATIENCE) as connection:
        connection.sendall(request("GET", "/v1/models") + request("POST", PREDICT, GOOD) + request("GET", "/nothing"))
        came = b""
        while came.count(b"HTTP/1.1") < 3 or b"nothing at" not in came:
            part = connection.recv(65536)
            assert part, came
            came += part
    assert came.index(b'"models"') < came.index(b'"predictions"') < came.index(b"nothing at")


@pytest.mark.parametrize("data", [b"\x00" * 100, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20, b"GET\r\n\r\n"])
def test_what_is_no_http(shared, data):
    status, answer = exchange(shared, data + b"\r\n\r\n")
    assert status == 400
    assert "no HTTP" in json.loads(answer)["error"]
    serves(shared)


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("application/x-safetensors", b"", "no safetensors file|its header"),
        ("application/x-safetensors", b"\xff" * 100, "its header has"),
        ("application/x-msgpack", b"\xc1", "no msgpack map of arrays"),
        ("application/x-msgpack", b"\x93\x01\x02\x03", "no msgpack map of arrays"),
        ("application/x-msgpack", b"\x81\xa1x\xc0", "an array is a map with dtype, shape and data"),
        ("application/x-msgpack", b"\xdd\xff\xff\xff\xff", "no msgpack map of arrays"),
    ],
)
def test_a_bad_binary_body(shared, kind, body, said):
    status, answer = exchange(
        shared, request("POST", PREDICT, body, f"Content-Type: {kind}", f"Content-Length: {len(body)}")
    )
    assert status == 400, answer
    assert any(one in answer.decode() for one in said.split("|"))
    serves(shared)


@pytest.mark.parametrize("timeout", ["soon", "-1", "0", "nan", "inf"])
def test_a_timeout_that_makes_no_sense(shared, timeout):
    status, answer = shared.ask(PREDICT, GOOD, headers={"X-Timeout-Ms": timeout})
    assert (status, "must be milliseconds" in answer["error"]) == (400, True)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"action": "explode"}, "action must be"),
        ({"action": "rollback"}, "no loaded version to go back to"),
        ({"action": "canary", "version": 1, "weight": 2}, "weight must be 0 to 1"),
        ({"action": "unload", "version": 1}, "is stable"),
        ({"action": "promote", "version": "1"}, "whole number"),
    ],
)
def test_bad_operators_calls(shared, body, said):
    status, answer = shared.ask("/admin/models/m", body, admin=True)
    assert (status, said in answer["error"]) == (400, True), answer
    serves(shared)


def test_an_operators_call_needs_a_kind_that_other_sites_cannot_send(shared):
    status, answer = shared.ask(
        "/admin/models/m", {"action": "refresh"}, admin=True, headers={"Content-Type": "text/plain"}
    )
    assert status == 400, answer
