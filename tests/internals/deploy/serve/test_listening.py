"""Connections: as many as there is room for, and a clear word to those that are more."""

from __future__ import annotations

import asyncio
import resource
import socket
import subprocess
import sys
import time

import pytest

from internals.deploy.serve.listening import OWN_FILES, PAUSE, Listener, room_for

from .conftest import PATIENCE, save_version
from .test_bad_requests import read_answer, request
from .test_connection import Answers


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "room", "raised"),
    [
        (1024, 1024, 4096, 1024 - OWN_FILES, 1024),
        (1024, 2048, 4096, 2048 - OWN_FILES, 2048),
        (1024, resource.RLIM_INFINITY, 4096, 4096, 4096 + OWN_FILES),
        (10_000, 10_000, 100, 100, 10_000),
        (100, 100, 4096, 50, 100),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 4096, 4096, resource.RLIM_INFINITY),
    ],
)
def test_room_for_connections_and_for_files_of_ones_own(monkeypatch, soft, hard, wanted, room, raised):
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, to: limits.append(to))
    assert room_for(wanted) == room
    assert limits[-1] == (raised, hard)


@pytest.mark.parametrize("turns", range(6))
def test_connections_that_come_together_are_counted_once(turns):
    """Those that are about to open take no room twice, and what they are answered is sent without delay."""

    async def tried():
        listener = Listener(Answers(), 10)
        address = "127.0.0.1", listener.listen("127.0.0.1", 0)
        clients = [socket.create_connection(address, PATIENCE) for _ in range(7)]
        for _ in range(turns):
            await asyncio.sleep(0)
        clients += [socket.create_connection(address, PATIENCE) for _ in range(3)]
        opened = listener._shared.open
        while len(opened) + len(listener._tasks) < len(clients) or listener._opening:
            await asyncio.sleep(0)
        sockets = [one._transport.get_extra_info("socket") for one in opened]
        assert len(sockets) == 10
        assert all(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in sockets)
        await listener.close()
        for one in clients:
            one.close()

    asyncio.run(asyncio.wait_for(tried(), PATIENCE))


@pytest.mark.slow
def test_a_server_that_is_full_says_so_and_takes_others_when_one_goes(serve, tmp_path):
    save_version(tmp_path / "m", 1)
    server = serve(tmp_path, "--connections", "5", "--quiet")
    server.event("loaded")

    def asked(connection):
        connection.sendall(request("GET", "/readyz"))
        return read_answer(connection)

    held = [socket.create_connection(("127.0.0.1", server.port), PATIENCE) for _ in range(5)]
    try:
        assert [asked(one)[0] for one in held] == [200] * 5
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as more:
            status, answer = read_answer(more)
            assert (status, b"the server has 5 connections" in answer) == (503, True)
        assert asked(held[0])[0] == 200
        held.pop().close()
        status, end = 503, time.monotonic() + PATIENCE
        while status != 200:
            assert time.monotonic() < end
            with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as more:
                status = read_answer_of(more)
    finally:
        for one in held:
            one.close()


def read_answer_of(connection):
    """The status of an answer to a request, whether it is asked for or not."""
    try:
        connection.sendall(request("GET", "/readyz"))
        return read_answer(connection)[0]
    except OSError:
        return 0


@pytest.mark.slow
def test_a_server_without_files_left_waits_and_writes_little(serve, tmp_path):
    """It must not try, and log, as fast as it can."""
    save_version(tmp_path / "m", 1)
    server = serve(tmp_path, "--quiet", "--poll", "0")
    server.event("loaded")
    soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    began = time.monotonic()
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (3, hard))
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as waiting:
        server.event("connections")
        time.sleep(2 * PAUSE)
        lines = [line for line in server.lines if '"connections"' in line]
        assert (len(lines) - 1) * PAUSE <= time.monotonic() - began
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        waiting.sendall(request("GET", "/readyz"))
        assert read_answer(waiting)[0] == 200


@pytest.mark.slow
def test_an_address_that_is_taken_is_named(tmp_path):
    save_version(tmp_path / "m", 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "internals.deploy.serve", str(tmp_path), "--port", port]
        ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 2
    assert f"serve: can't listen on 127.0.0.1:{port}: " in ran.stderr
    assert "Choose another --host or --port" in ran.stderr
