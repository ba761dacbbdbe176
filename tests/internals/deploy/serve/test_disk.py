"""Disks that fail, are full, or hang: what serves goes on serving, and what was found is told once."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from internals.deploy.serve import server as server_module
from internals.deploy.serve.__main__ import token_in
from internals.deploy.serve.registry import models_in, versions_in
from internals.deploy.serve.server import Server, Settings

from .conftest import PATIENCE, save_version, weight

WRONG = OSError(5, "Input/output error")


@pytest.fixture
def broken(monkeypatch):
    """Paths that can't be read from now on."""
    paths = set()
    listed, looked = Path.iterdir, os.stat

    def iterdir(path):
        if path in paths:
            raise WRONG
        return listed(path)

    def stat(path, **settings):
        if any(str(path).startswith(f"{one}/") for one in paths):
            raise WRONG
        return looked(path, **settings)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    monkeypatch.setattr(os, "stat", stat)
    return paths


@pytest.fixture
def models(tmp_path):
    """Two models that look like models."""
    for name in ("one", "two"):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "model.onnx").write_bytes(b"")
    return tmp_path


def test_a_model_that_can_not_be_read_has_its_error_in_place_of_versions(models, broken):
    broken.add(models / "two")
    found = models_in(models)
    assert list(found["one"][1]) == [1]
    assert found["two"][1] is WRONG
    broken.add(models)
    with pytest.raises(OSError, match="Input/output"):
        models_in(models)


def test_a_version_that_can_not_be_looked_at_is_there_and_changes_when_it_can(models, broken):
    before = versions_in(models / "one")
    broken.add(models / "one" / "1")
    during = versions_in(models / "one")
    assert "Input/output error" in during[1]
    broken.clear()
    assert versions_in(models / "one") == before != during


def test_only_directories_are_versions_of_a_loader(tmp_path):
    (tmp_path / "m" / "2").mkdir(parents=True)
    (tmp_path / "m" / "3").write_text("a file")
    assert list(versions_in(tmp_path / "m", [""])) == [2]
    assert list(versions_in(tmp_path / "m", ["done"])) == []
    (tmp_path / "m" / "2" / "done").touch()
    assert list(versions_in(tmp_path / "m", ["done"])) == [2]


@pytest.mark.parametrize("which", ["the model", "all"])
def test_a_directory_that_can_not_be_read_leaves_all_as_it_is(models, broken, logged, monkeypatch, which):
    async def load(self, model, version, path):
        model.loaded(version, "what runs it")
        del self._loads[version]

    monkeypatch.setattr(server_module.Server, "_load", load)

    async def tried():
        server = Server(models, Settings(poll=0))
        await server.start()
        broken.add(models / "one" if which == "the model" else models)
        for _ in range(3):
            server.refresh()
        during = {name: model.stable for name, model in server.models.items()}
        broken.clear()
        server.refresh()
        broken.add(models / "one")
        server.refresh()
        return during

    assert asyncio.run(tried()) == {"one": 1, "two": 1}
    told = [record.about for record in logged.records if record.levelno >= logging.ERROR]
    assert [one["event"] for one in told] == ["disk", "disk"], "once for each time that it went wrong"
    assert "Input/output error" in told[0]["error"]


def test_a_disk_that_takes_its_time_does_not_stop_the_server(models, monkeypatch):
    monkeypatch.setattr(server_module.Server, "_load", lambda self, *_: asyncio.sleep(0))
    began, goes_on = threading.Event(), threading.Event()
    came = []

    def slow(*arguments):
        began.set()
        came.append(goes_on.wait(PATIENCE))
        return {}

    async def tried():
        server = Server(models, Settings(poll=0.001))
        server._poll = asyncio.create_task(server._look())
        while not began.is_set():
            await asyncio.sleep(0.001)
        goes_on.set()  # which the loop can do only if it does not wait for the disk
        while not came:
            await asyncio.sleep(0.001)
        server._poll.cancel()

    monkeypatch.setattr(server_module, "models_in", slow)
    asyncio.run(tried())
    assert came[0]


@pytest.mark.parametrize("data", [b"", b"  \n", b"two\nlines", "sch\u00f6n".encode(), b"\xff\xfe"])
def test_a_token_file_that_holds_no_token(tmp_path, data):
    (tmp_path / "token").write_bytes(data)
    with pytest.raises(ValueError, match=r"token|utf-8"):
        token_in(tmp_path / "token")


@pytest.mark.slow
def test_a_log_that_can_not_be_written_does_not_stop_the_server(tmp_path):
    save_version(tmp_path / "m", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(
            [sys.executable, "-m", "internals.deploy.serve", str(tmp_path), "--port", str(port)], stderr=full
        )
    try:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE) as answer:
                    assert answer.status == 200
                    break
            except OSError:
                time.sleep(0.05)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_file_that_can_not_be_read_fails_its_version_and_no_other(serve, tmp_path, rows):
    """A weight file that is a directory reads as an error of the disk, to root as well."""
    save_version(tmp_path / "m", 1)
    server = serve(tmp_path, "--poll", "0.1", "--quiet")
    server.event("loaded", version=1)
    save_version(tmp_path / "away", 2)
    weights = tmp_path / "away" / "2" / "weights.safetensors"
    weights.unlink()
    weights.mkdir()
    shutil.move(tmp_path / "away" / "2", tmp_path / "m" / "2")
    assert "weights.safetensors" in server.event("failed", version=2)["error"]
    np.testing.assert_allclose(server.predict(rows), rows @ weight(1), rtol=1e-4)


@pytest.mark.slow
def test_a_link_to_itself_fails_its_version_and_no_other(serve, tmp_path, rows):
    save_version(tmp_path / "m", 1)
    (tmp_path / "m" / "2").symlink_to(tmp_path / "m" / "2")
    server = serve(tmp_path, "--quiet")
    assert "symbolic links" in server.event("failed", version=2)["error"]
    server.event("loaded", version=1)
    np.testing.assert_allclose(server.predict(rows), rows @ weight(1), rtol=1e-4)


def test_a_fault_of_the_server_as_it_loads_is_told_and_the_version_is_not_loading_for_ever(models, logged, monkeypatch):
    async def broken(self):
        raise RuntimeError("nobody thought of it")

    monkeypatch.setattr(server_module.Runner, "start", broken)

    async def tried():
        server = Server(models, Settings(poll=0))
        await server.start()
        return server.models["one"].status(1)

    (status,) = asyncio.run(tried())
    assert status["state"] == "END"
    assert "nobody thought of it" in status["status"]["error_message"]
    assert [record.about["event"] for record in logged.records if record.exc_info] == ["failed", "failed"]
