"""JupyterLab as the classroom configures it, in a process of its own that ends with the test."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOKEN = "test-token"


@contextmanager
def running(home: Path, labs: Path, *options: str, **environment: str) -> Iterator[int]:
    """Start the server on a free port with `home` for all it keeps; yields the port."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY"))} | {
        "HOME": str(home),
        "JUPYTER_RUNTIME_DIR": str(home / "run"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "XDG_RUNTIME_DIR": str(home / "run"),
    }
    command = [sys.executable, "-m", "jupyterlab", "--config", str(ROOT / "classroom" / "jupyter_server_config.py")]
    command += ["--no-browser", "--allow-root", "--ServerApp.port=0", f"--IdentityProvider.token={TOKEN}"]
    command += [f"--ServerApp.root_dir={labs}", *options]
    log = home / "log"
    with open(log, "wb") as out:
        process = subprocess.Popen(command, env=env | environment, stdout=out, stderr=out, cwd=home)
    try:
        yield _wait_for_port(process, home / "run", log)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_port(process: subprocess.Popen[bytes], folder: Path, log: Path) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        for found in folder.glob("jpserver-*.json"):
            try:
                port = json.loads(found.read_text())["port"]
                http.client.HTTPConnection("127.0.0.1", port, timeout=1).connect()
            except (OSError, ValueError, KeyError):
                continue
            return port
        time.sleep(0.05)
    raise AssertionError(f"the server did not start:\n{log.read_text()[-3000:]}")
