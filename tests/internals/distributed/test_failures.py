"""Peers that are killed, stopped, busy or restarted; strangers, garbage and other versions: named, and no more."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq

from internals.distributed.errors import (
    AddressInUse,
    AuthenticationError,
    DeadlineExceeded,
    DistributedError,
    DuplicateName,
    PeerLost,
    ProtocolError,
)
from internals.distributed.transport import Endpoint, Message, open_endpoint
from internals.distributed.transport.host import advertised, split
from internals.distributed.transport.message import VERSION
from internals.distributed.transport.security import is_loopback
from internals.distributed.transport.wire import HEAD, HELLO, NUMBERS, pack
from internals.distributed.transport.zmq import ZmqEndpoint

ROOT = Path(__file__).parents[3]
WAIT = 30.0
NOTICED = 10.0
"""Seconds: on a quiet machine it is under 2."""
Starter = Callable[..., tuple[subprocess.Popen[str], str]]

pytestmark = pytest.mark.slow


@pytest.fixture
def start() -> Iterator[Starter]:
    """Starts peers in processes of their own; kills all at the end."""
    started: list[subprocess.Popen[str]] = []

    def starts(name: str, transport: str, bind: str = "127.0.0.1:0") -> tuple[subprocess.Popen[str], str]:
        script = Path(__file__).with_name("peer_process.py")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            [sys.executable, str(script), name, transport, bind], stdout=subprocess.PIPE, text=True, env=environment
        )
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    yield starts
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(params=["tcp", "shm"])
def either(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    with open_endpoint("one", transport=request.param) as endpoint:
        yield endpoint


@pytest.fixture
def one() -> Iterator[Endpoint]:
    with open_endpoint("one", transport="tcp") as endpoint:
        yield endpoint


def transport_of(endpoint: Endpoint) -> str:
    return "tcp" if type(endpoint) is ZmqEndpoint else "shm"


def send_until_lost(endpoint: Endpoint, peer: str, message: Message) -> None:
    """Raises `PeerLost`; returns if that takes too long."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        endpoint.send(peer, message)
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM], ids=lambda how: how.name)
def test_a_peer_that_dies_or_stops_is_noticed_and_named(either: Endpoint, start: Starter, how: signal.Signals) -> None:
    process, address = start("two", transport_of(either))
    either.connect("two", address, WAIT)
    assert either.call("two", Message("echo", {"n": 1}, [np.arange(50_000)]), WAIT).fields == {"n": 1}
    process.send_signal(how)
    with pytest.raises(PeerLost, match="lost two: its connection broke") as raised:
        either.receive("x", "two", NOTICED)
    assert raised.value.peer == "two"


def test_what_a_killed_peer_had_sent_is_received_first(either: Endpoint, start: Starter) -> None:
    process, address = start("two", transport_of(either))
    either.connect("two", address, WAIT)
    either.call("two", Message("say", {"size": 200_000}), WAIT)
    process.kill()
    assert (either.receive("said", "two", NOTICED).arrays[0] == 7).all()
    with pytest.raises(PeerLost):
        either.receive("said", "two", NOTICED)


def test_a_large_array_to_a_peer_that_stops_does_not_block_for_ever(start: Starter) -> None:
    with open_endpoint("one", transport="tcp") as one:
        process, address = start("two", "tcp")
        one.connect("two", address, WAIT)
        process.send_signal(signal.SIGSTOP)
        message = Message("x", {}, [np.ones(12_500_000)])
        with pytest.raises(PeerLost):
            send_until_lost(one, "two", message)


def test_a_peer_that_holds_the_interpreter_is_slow_and_not_dead(one: Endpoint, start: Starter) -> None:
    _, address = start("two", transport_of(one))
    one.connect("two", address, WAIT)
    hogging = one.start("two", Message("hog", {"seconds": 2.0}))
    for _ in range(3):
        one.send("two", Message("meanwhile", {}, [np.ones(100_000)]))
    one.finish(hogging, WAIT)
    assert one.lost == {}
    assert one.call("two", Message("echo", {"n": 2}), WAIT).fields == {"n": 2}


def test_a_peer_comes_back_at_its_address_under_its_name(either: Endpoint, start: Starter) -> None:
    process, address = start("two", transport_of(either))
    either.connect("two", address, WAIT)
    process.kill()
    with pytest.raises(PeerLost):
        either.receive("x", "two", NOTICED)
    _, again = start("two", transport_of(either), "127.0.0.1:" + address.rpartition(":")[2])
    assert again == address
    either.connect("two", address, WAIT)
    array = np.arange(40_000)
    assert (either.call("two", Message("echo", {}, [array]), WAIT).arrays[0] == array).all()


def test_a_restarted_peer_may_come_before_its_death_was_noticed(start: Starter) -> None:
    with open_endpoint("one", transport="tcp") as one:
        process, address = start("two", "tcp")
        one.connect("two", address, WAIT)
        process.send_signal(signal.SIGSTOP)
        with open_endpoint("two", transport="tcp") as second:
            second.connect("one", one.address, WAIT)
            second.send("one", Message("x", {"of": "second"}))
            assert one.receive("x", "two", WAIT).fields == {"of": "second"}


def test_two_that_live_cant_have_one_name(logged: Any) -> None:
    with open_endpoint("hub") as hub, open_endpoint("two") as first, open_endpoint("two") as second:
        first.connect("hub", hub.address, WAIT)
        with pytest.raises(DuplicateName, match="a living process goes by the name 'two' already"):
            second.connect("hub", hub.address, WAIT)
        assert isinstance(hub, ZmqEndpoint)
        assert hub.contested == {"two"}
        first.send("hub", Message("x", {"n": 1}))
        assert hub.receive("x", "two", WAIT).fields == {"n": 1}
    with open_endpoint("hub") as hub, open_endpoint("hub") as other, pytest.raises(DuplicateName, match="own name"):
        other.connect("hub2", hub.address, WAIT)


def test_a_port_in_use_is_named(one: Endpoint) -> None:
    port = one.address.rpartition(":")[2]
    with pytest.raises(AddressInUse, match=f"late: port {port} of 127.0.0.1 is in use by another process"):
        open_endpoint("late", bind=f"127.0.0.1:{port}")


def test_nobody_there_is_named_with_the_deadline(one: Endpoint) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        where = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(DeadlineExceeded, match=rf"nobody named 'two' answers at {where} within 0.3 s"):
            one.connect("two", where, 0.3)


def test_a_peer_that_appears_within_the_deadline_is_waited_for(one: Endpoint, start: Starter) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    with ThreadPoolExecutor(1) as pool:
        connecting = pool.submit(one.connect, "two", f"tcp://127.0.0.1:{port}", WAIT)
        time.sleep(0.2)
        start("two", transport_of(one), f"127.0.0.1:{port}")
        connecting.result(WAIT)
    assert one.call("two", Message("echo", {"n": 1}), WAIT).fields == {"n": 1}


def test_who_answers_is_another(one: Endpoint) -> None:
    with open_endpoint("three") as three, pytest.raises(ProtocolError, match="is 'three', not 'two'"):
        one.connect("two", three.address, WAIT)


@pytest.mark.parametrize(
    "says", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4, b"\xff" * 300, b"\0" * 9], ids=["http", "ff", "zeros"]
)
def test_a_port_of_another_protocol_is_named(one: Endpoint, says: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(says)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(DistributedError, match="another protocol|another way to authenticate|nobody named"):
            one.connect("two", f"tcp://127.0.0.1:{server.getsockname()[1]}", 1.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "error"),
    [
        ("right", "wrong", AuthenticationError),
        ("right", None, AuthenticationError),
        (None, "wrong", AuthenticationError),
    ],
)
def test_another_secret_on_loopback_is_refused_and_logged(
    ours: Any, theirs: Any, error: type, logged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOB_SECRET", raising=False)
    with open_endpoint("one", secret=ours) as one, open_endpoint("two", secret=theirs) as two:
        with pytest.raises(error, match="does not hold the key of this job"):
            two.connect("one", one.address, WAIT)
        assert "one: refused two" in logged.text
        assert one.lost == {}
        with pytest.raises(ValueError, match="connect to 'two' first"):
            one.send("two", Message("x"))


def test_another_job_is_refused(logged: Any) -> None:
    with (
        open_endpoint("one", job="run/1") as one,
        open_endpoint("two", job="run/0") as two,
        pytest.raises(AuthenticationError, match="two belongs to job 'run/0', this is 'run/1'"),
    ):
        two.connect("one", one.address, WAIT)


@pytest.fixture
def outside() -> str:
    """An address of this machine that is not loopback."""
    host = split(advertised("0.0.0.0:1"))[0]
    if is_loopback(host):
        pytest.skip("this machine has only loopback")
    return host


def test_off_loopback_a_secret_is_needed_and_what_is_sent_is_encrypted(
    outside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOB_SECRET", raising=False)
    for bind in (f"{outside}:0", "0.0.0.0:0"):
        with pytest.raises(ValueError, match="needs a secret, the same on all: pass secret="):
            open_endpoint("one", bind=bind)
    with (
        open_endpoint("one", bind=f"{outside}:0", secret="s3") as one,
        open_endpoint("two", bind="0.0.0.0:0", secret="s3") as two,
    ):
        assert outside in two.address
        one.connect("two", two.address, WAIT)
        array = np.random.default_rng(0).normal(size=30_000)
        two.send("one", Message("x", {}, [array]))
        assert (one.receive("x", "two", WAIT).arrays[0] == array).all()
        assert isinstance(one, ZmqEndpoint)
        assert one._router.get(zmq.MECHANISM) == zmq.CURVE
        assert one._links["two"].socket.get(zmq.MECHANISM) == zmq.CURVE


@pytest.mark.parametrize("theirs", ["wrong", b"\0"])
def test_another_secret_off_loopback_is_refused(outside: str, theirs: Any) -> None:
    with (
        open_endpoint("one", bind=f"{outside}:0", secret="right") as one,
        open_endpoint("two", bind=f"{outside}:0", secret=theirs) as two,
        open_endpoint("three", bind=f"{outside}:0", secret="right") as three,
    ):
        with pytest.raises(AuthenticationError, match="refuses our key"):
            two.connect("one", one.address, WAIT)
        three.connect("one", one.address, WAIT)
        three.send("one", Message("x", {"n": 1}))
        assert one.receive("x", "three", WAIT).fields == {"n": 1}


def test_a_plain_endpoint_and_a_protected_one_dont_mix(outside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_SECRET", "s3")
    with open_endpoint("one", bind=f"{outside}:0") as one, open_endpoint("two", bind="127.0.0.1:0") as two:
        port = two.address.rpartition(":")[2]
        with pytest.raises((AuthenticationError, DeadlineExceeded)):
            one.connect("two", f"tcp://{outside}:{port}", 1.0)
        two.connect("one", one.address, WAIT)


@pytest.fixture
def stranger(one: Endpoint) -> Iterator[zmq.Socket[bytes]]:
    """Somebody who speaks ZeroMQ, and is not of ours."""
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.linger = 0
    dealer.connect(one.address)
    yield dealer
    context.destroy(0)


HELLO_FIELDS = {
    "name": "evil", "job": "", "incarnation": "1", "address": "tcp://127.0.0.1:1", "host": "h", "pid": 1, "probe": [],
    "proof": "",
}  # fmt: skip


def hello_of(**changes: Any) -> list[bytes]:
    fields = {key: value for key, value in {**HELLO_FIELDS, **changes}.items() if value is not None}
    return [bytes(frame) for frame in pack(Message(HELLO, fields), HELLO, 0)]


@pytest.mark.parametrize(
    ("frames", "says"),
    [
        ([b"garbage"], "no message"),
        ([b""], "no message"),
        ([os.urandom(100)] * 50, "no message"),
        (
            [HEAD.pack(b"fi", VERSION + 1, NUMBERS[HELLO], 0, 0) + b"later"],
            f"speaks version {VERSION + 1} of the protocol",
        ),
        ([HEAD.pack(b"fi", VERSION, NUMBERS[HELLO], 0, 0) + b"\xc1"], "no message"),
        (hello_of(), "does not hold the key"),
        (hello_of(proof="0" * 64), "does not hold the key"),
        (hello_of(proof="\u00e9"), "does not hold the key"),
        (hello_of(name=None), "a hello with"),
        (hello_of(more=1), "a hello with"),
        (hello_of(pid="1"), "a hello with"),
        (hello_of(probe=["a", 1]), "a probe"),
        (hello_of(probe=[1]), "a probe"),
        (hello_of(name=""), "a hello from a name"),
        (hello_of(name="x" * 300), "a hello from a name"),
        (hello_of(address="x" * 3000), "a hello from a name"),
    ],
)
def test_a_stranger_is_told_logged_and_nothing_else(
    one: Endpoint, stranger: zmq.Socket[bytes], frames: list[bytes], says: str, logged: Any
) -> None:
    stranger.send_multipart(frames)
    assert stranger.poll(int(1000 * WAIT))
    answer = stranger.recv_multipart()
    assert HEAD.unpack_from(answer[0])[2] == NUMBERS["no"]
    assert says in logged.text
    with open_endpoint("two") as two:
        two.connect("one", one.address, WAIT)
        two.send("one", Message("x", {"n": 1}))
        assert one.receive("x", "two", WAIT).fields == {"n": 1}


def test_a_stranger_who_sends_garbage_without_end_does_not_fill_the_log(
    one: Endpoint, stranger: zmq.Socket[bytes], logged: Any
) -> None:
    for _ in range(100):
        stranger.send(os.urandom(30))
        assert stranger.poll(int(1000 * WAIT))
        assert HEAD.unpack_from(stranger.recv_multipart()[0])[2] == NUMBERS["no"]
    said = [record.getMessage() for record in logged.records]
    assert len(said) == 7
    assert "(64 times by now)" in said[-1]


@pytest.mark.parametrize("way", ["", "call", "answer", "bye", "credit", "attached", "welcome"])
def test_a_message_before_a_hello_is_dropped(one: Endpoint, stranger: zmq.Socket[bytes], way: str) -> None:
    one.on("x", lambda message, reply: pytest.fail("a stranger's call was answered"))
    stranger.send_multipart(pack(Message("x", {"n": 1}), way, 1))
    with pytest.raises(DeadlineExceeded):
        one.receive("x", None, 0.2)
    assert one.lost == {}


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", os.urandom(5000), b"\xff\0\0\0\0\0\0\0\x01\x7f", b""])
def test_bytes_that_are_not_even_zeromq_leave_the_endpoint_serving(one: Endpoint, garbage: bytes) -> None:
    host, port = split(one.address)
    for _ in range(3):
        with socket.create_connection((host, port)) as raw:
            raw.sendall(garbage)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with open_endpoint("two") as two:
        two.connect("one", one.address, WAIT)
        two.send("one", Message("x", {"n": 1}))
        assert one.receive("x", "two", WAIT).fields == {"n": 1}


def test_a_frame_over_the_limit_disconnects_its_sender_and_nobody_else() -> None:
    with ZmqEndpoint("one", max_bytes=1 << 20) as one, ZmqEndpoint("two") as two, ZmqEndpoint("three") as three:
        for peer in (two, three):
            peer.connect("one", one.address, WAIT)
        two.send("one", Message("x", {}, [np.ones(1 << 17, np.uint8)]))
        assert one.receive("x", "two", WAIT).nbytes == 1 << 17
        with pytest.raises(PeerLost):
            send_until_lost(two, "one", Message("x", {}, [np.ones(1 << 21, np.uint8)]))
        three.send("one", Message("x", {"n": 3}))
        assert one.receive("x", "three", WAIT).fields == {"n": 3}


def test_a_peer_that_sends_what_is_no_message_is_lost_with_the_reason(one: Endpoint) -> None:
    with open_endpoint("two") as two:
        two.connect("one", one.address, WAIT)
        assert isinstance(two, ZmqEndpoint)
        two._links["one"].send([HEAD.pack(b"fi", VERSION, 0, 0, 0) + b"\xc1"])
        with pytest.raises(PeerLost, match="what it sent can't be taken .two sent bytes that are no message"):
            one.receive("x", "two", NOTICED)
        with pytest.raises(PeerLost):
            two.receive("x", "one", NOTICED)
        assert "it gave this one up: what it sent can't be taken" in two.lost["one"]


@pytest.mark.parametrize("address", ["", "x", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "a/b:1", ":5"])
def test_an_address_that_is_none_is_named(one: Endpoint, address: str) -> None:
    for use in (lambda: one.connect("two", address, 1.0), lambda: open_endpoint("x", bind=address)):
        with pytest.raises(ValueError, match="expected host:port"):
            use()


def test_a_host_that_nobody_knows_is_named() -> None:
    with pytest.raises((DistributedError, ValueError), match=r"no\.such\.host\.invalid|needs a secret"):
        open_endpoint("x", bind="no.such.host.invalid:0", secret="s3")


def test_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    with open_endpoint("one", bind="[::1]:0") as one, open_endpoint("two") as two:
        two.connect("one", one.address, WAIT)
        one.send("two", Message("x", {"n": 1}))
        assert two.receive("x", "one", WAIT).fields == {"n": 1}
