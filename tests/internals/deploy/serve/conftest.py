"""A model of which every answer can be told beforehand, and a real server in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from internals import ops
from internals.deploy import Signature, TensorSpec, save

FEATURES = 4
PATIENCE = 120


def weight(version):
    """What version n multiplies with: another number in each."""
    return np.random.default_rng(version).normal(size=(FEATURES, 3)).astype("f")


def save_version(base, version, *, hidden=None):
    """Write NAME/version, in one step: ``scores = x @ weight(version)``."""
    w = hidden if hidden is not None else weight(version)
    save(
        base / str(version),
        lambda x: ops.matmul(x, w),
        {"serve": Signature({"x": TensorSpec(("batch", FEATURES))}, ("scores",), lambda x: ops.matmul(x, w))},
        assets={"labels.txt": b"ant\nbee\ncat\n"},
        overwrite=(base / str(version)).exists(),
    )


class Running:
    """A server in a process: its address, its log, and what it answers."""

    def __init__(self, base, *arguments, path=""):
        self.lines = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "internals.deploy.serve", str(base), "--port", "0", "--admin-port", "0", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([path, *sys.path])},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        about = self.event("listening")
        self.port, self.admin_port = about["port"], about["admin_port"]
        self.url = f"http://127.0.0.1:{self.port}"

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def event(self, name, **fields):
        """Wait for a line of the log."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for line in list(self.lines):
                about = json.loads(line) if line.startswith("{") else {}
                if about.get("event") == name and all(about.get(k) == v for k, v in fields.items()):
                    return about
            if self.process.poll() is not None and not self._reader.is_alive():
                break
            time.sleep(0.02)
        raise AssertionError(f"no {name} {fields} in the log: {self.lines[-20:]}")

    def ask(self, path, body=None, *, admin=False, headers=None):
        """The status and the JSON of an answer."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        port = self.admin_port if admin else self.port
        headers = {"Content-Type": "application/json", **(headers or {})}
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def predict(self, rows, **settings):
        """The predictions for rows."""
        status, answer = self.ask("/v1/models/m:predict", {"instances": np.asarray(rows).tolist()}, **settings)
        assert status == 200, answer
        return np.array(answer["predictions"])

    def end(self):
        """Stop it as Kubernetes does; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code


@pytest.fixture
def serve():
    """Starts servers, and ends them whatever happens."""
    started = []

    def start(base, *arguments):
        started.append(Running(base, *arguments))
        return started[-1]

    yield start
    for one in started:
        try:
            one.end()  # which waits for the workers too
        finally:
            one.process.kill()
            one.process.wait()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A server that the tests of a module share."""
    base = tmp_path_factory.mktemp("models")
    save_version(base / "m", 1)
    server = Running(base, "--idle", "3", "--largest", "1000000", "--limit", "30")
    server.event("loaded")
    yield server
    server.end()


@pytest.fixture
def rows():
    """Three rows of random numbers."""
    return np.random.default_rng(7).normal(size=(3, FEATURES)).astype("f")
