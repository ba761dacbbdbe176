"""Start the course here: one server on 127.0.0.1 with JupyterLab, the site and the grades. Run by `make serve`."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from autograder import oracles

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".run"
SITE = ROOT / "book" / "_build" / "html"
SITE_STAMP = ROOT / "book" / "_build" / "built-from"
FIRST_PORT, PORTS = 8888, 50
START_LIMIT = 60.0
STOP_LIMIT = 10.0


class CannotServe(Exception):
    """The server can't start; the message is one line that says why."""


def say(text: str) -> None:
    print(text, flush=True)


def site_sources() -> Iterator[Path]:
    """Everything the site is made from."""
    yield from (ROOT / "_config.yml", ROOT / "requirements.lock", ROOT / "package-lock.json", ROOT / "README.md")
    for folder in ("book", "chapters", "labs", "internals"):
        for directory, folders, names in os.walk(ROOT / folder):
            folders[:] = sorted(
                name for name in folders if not name.startswith((".", "_build", "__pycache__", "mathjax", "pyodide"))
            )
            yield from (Path(directory, name) for name in sorted(names))


def sources_digest() -> str:
    """A digest of the site's sources: the site is built again when it changes."""
    total = hashlib.sha256()
    for path in site_sources():
        if path.is_file():
            total.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return total.hexdigest()


def build_site() -> None:
    """Build the site unless it is up to date. A site that can't be built doesn't keep anyone from the labs."""
    wanted = sources_digest()
    if (SITE / "index.html").exists() and SITE_STAMP.exists() and SITE_STAMP.read_text(encoding="utf-8") == wanted:
        return
    say("Building the site (some minutes the first time)")
    if subprocess.run([sys.executable, "book/build.py"], cwd=ROOT, check=False).returncode == 0:
        SITE_STAMP.write_text(wanted, encoding="utf-8")
    elif (SITE / "index.html").exists():
        say("The site was not rebuilt; /book/ shows the last one that was. The labs work all the same.")
    else:
        say("There is no site under /book/ yet. The labs work all the same.")


def port_number(text: str) -> int:
    """A port that was named on the command line."""
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; expected a number from 1 to 65535")
    return int(text)


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:`port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Tornado does, so that a port whose last connections are still closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose_port(asked: int | None) -> int:
    """The port asked for, or the first free one from 8888 on."""
    if asked is not None:
        if not is_free(asked):
            raise CannotServe(f"port {asked} is in use; choose another, or leave --port out to take the next free one.")
        return asked
    for port in range(FIRST_PORT, FIRST_PORT + PORTS):
        if is_free(port):
            if port != FIRST_PORT:
                say(f"Port {FIRST_PORT} is in use; taking {port}.")
            return port
    raise CannotServe(
        f"ports {FIRST_PORT} to {FIRST_PORT + PORTS - 1} are all in use; choose one: make serve ARGS='--port N'."
    )


def log_of(port: int) -> Path:
    return STATE / f"server-{port}.log"


def start_server(port: int, token: str) -> subprocess.Popen[bytes]:
    """Start Jupyter; what it prints goes to the log."""
    command = [
        sys.executable, "-m", "jupyter", "lab", "--no-browser", "--config", "classroom/jupyter_server_config.py",
        "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
    ]  # fmt: skip
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    # The token goes through the environment: other users can read a command line.
    environment = {
        **os.environ,
        "JUPYTER_TOKEN": token,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # A session of its own: Ctrl-C comes to us alone, and Jupyter is asked to stop in order.
    with log_of(port).open("wb") as log:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def answers(port: int, token: str) -> bool:
    """Whether the server answers yet."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/status", headers={"Authorization": f"token {token}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=2) as reply:
            return isinstance(json.load(reply), dict)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def wait_until_up(server: subprocess.Popen[bytes], port: int, token: str) -> None:
    deadline = time.monotonic() + START_LIMIT
    while not answers(port, token):
        if server.poll() is not None:
            lines = log_of(port).read_text(encoding="utf-8", errors="replace").strip().splitlines() or [
                "it said nothing"
            ]
            raise CannotServe(f"the server ended with exit {server.returncode}: {lines[-1]} (log: {log_of(port)})")
        if time.monotonic() > deadline:
            raise CannotServe(f"the server did not answer within {START_LIMIT:.0f} s (log: {log_of(port)})")
        time.sleep(0.1)


def has_screen() -> bool:
    """Whether a browser opened here would be seen by the person at the keyboard."""
    if os.environ.get("CI") or os.environ.get("SSH_CONNECTION") or not sys.stdout.isatty():
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def stop(server: subprocess.Popen[bytes]) -> None:
    """Ask the server to stop, with its kernels; after a while make it."""
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def serve(port: int, open_browser: bool, started: float) -> int:
    """Run the server until it ends or we are told to stop."""
    token = secrets.token_hex(24)
    server = start_server(port, token)
    try:
        wait_until_up(server, port, token)
        base = f"http://127.0.0.1:{port}"
        say(f"\nReady after {time.monotonic() - started:.0f} s. Open this link (it holds your key: keep it private):\n")
        say(f"    {base}/?token={token}\n")
        say(f"The book: {base}/book/   Your grades: {base}/autograder/   (after the first link)")
        say("Stop with Ctrl-C.")
        if open_browser and has_screen():
            webbrowser.open(f"{base}/?token={token}")
        code = server.wait()
        raise CannotServe(f"the server ended by itself with exit {code} (log: {log_of(port)})")
    except KeyboardInterrupt:
        say("\nStopping.")
        return 0
    finally:
        stop(server)


def main() -> int:
    started = time.monotonic()
    usage = "make serve [ARGS='[--port PORT] [--no-browser] [--no-site]']"
    parser = argparse.ArgumentParser(prog="make serve", usage=usage, description=__doc__)
    parser.add_argument(
        "--port", type=port_number, help=f"port to listen on (default: the first free one from {FIRST_PORT})"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the link")
    parser.add_argument("--no-site", action="store_true", help="don't build the site first")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):  # SIGHUP: the terminal was closed
        signal.signal(number, interrupt)
    try:
        STATE.mkdir(mode=0o700, exist_ok=True)
        oracles.launch_all()  # in the background: the first grade doesn't wait for the frameworks' imports
        if not options.no_site:
            build_site()
        return serve(choose_port(options.port), not options.no_browser, started)
    except CannotServe as reason:
        print(f"serve: {reason}", file=sys.stderr)
    except OSError as reason:
        print(f"serve: {reason}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
