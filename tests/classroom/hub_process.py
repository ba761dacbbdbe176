"""The hub as `make hub` starts it, in a process of its own that ends with the tests."""

from __future__ import annotations

import http.cookiejar
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.gradebook import decisions, open_gradebook, roster
from autograder.gradebook.models import now
from classroom.accounts import Accounts
from classroom.places import Place

ROOT = Path(__file__).parents[2]
INSTRUCTOR, LEARNERS = "teacher", ("ada", "alan", "grace")
PATIENCE = 180.0
"""Seconds; a machine with one processor and a full load is slow."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Answer:
    status: int
    url: str
    text: str
    headers: dict[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        return json.loads(self.text)


class Session:
    """A browser without scripts: cookies, redirects, forms."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(self.jar), urllib.request.ProxyHandler({})
        )

    def ask(self, path: str, data: bytes | None = None, *, method: str | None = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.base + path, data=data, headers=named, method=method)
        try:
            with self.opener.open(request, timeout=120) as reply:
                return Answer(reply.status, reply.geturl(), reply.read().decode(errors="replace"), dict(reply.headers))
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.url, error.read().decode(errors="replace"), dict(error.headers))

    def watch_redirect(self, path: str, see: Callable[[str], None]) -> None:
        """Ask, and instead of following where it leads, tell it."""

        class Stay(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *given: Any) -> None:
                see(given[-1])

        cookies = urllib.request.HTTPCookieProcessor(self.jar)
        opener = urllib.request.build_opener(cookies, urllib.request.ProxyHandler({}), Stay())
        try:
            opener.open(self.base + path, timeout=120).close()
        except urllib.error.HTTPError as error:
            if error.code not in (301, 302, 303, 307):
                raise

    def cookie(self, name: str, path: str) -> str:
        return next((one.value or "" for one in self.jar if one.name == name and one.path == path), "")

    def log_in(self, name: str, password: str) -> Answer:
        self.ask("/hub/login")
        form = {"username": name, "password": password, "_xsrf": self.cookie("_xsrf", "/hub/")}
        return self.ask("/hub/login?next=%2Fhub%2Fhome", urllib.parse.urlencode(form).encode())


@dataclass
class Hub:
    """A running hub."""

    base: str
    state: Path
    process: subprocess.Popen[bytes]
    said: list[str]
    passwords: dict[str, str]

    def session(self, name: str = "") -> Session:
        """A new session, of a person who has logged in where one is named."""
        session = Session(self.base)
        if name:
            answer = session.log_in(name, self.passwords[name])
            assert answer.status == 200, answer
            assert answer.url.endswith("/hub/home"), answer.url
        return session

    def start_server(self, name: str) -> Session:
        """Have the person's JupyterLab running; a session that has entered it."""
        session = self.session(name)
        deadline = time.monotonic() + PATIENCE
        session.ask("/hub/spawn")
        while session.ask(f"/user/{name}/api/status").status != 200:
            assert time.monotonic() < deadline, self.log()
            session.ask(f"/user/{name}/lab")  # through the log-in of the server
            time.sleep(0.3)
        return session

    def log(self) -> str:
        return (self.state / "hub.log").read_text(errors="replace")[-6000:]

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(90)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


def command(state: Path, *words: str, given: str | None = None) -> str:
    """What ``autograder class ...`` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "autograder", "class", *words, "--state", str(state)],
        capture_output=True, text=True, check=True, timeout=120, input=given, cwd=ROOT,
    )  # fmt: skip
    return done.stdout


def demo_class(state: Path) -> dict[str, str]:
    """The class to try and a guest, with passwords that take no time to verify."""
    lines = [line for line in command(state, "create-demo").splitlines() if "password:" in line]
    lines.append(command(state, "add", "guest"))
    passwords = {line.split()[0]: line.split()[-1] for line in lines}
    accounts = Accounts(state / "accounts.json", cost=2**4)
    for name, password in passwords.items():
        accounts.set(name, password)
    return passwords


def small_class(state: Path) -> dict[str, str]:
    """An instructor and a learner, made without a command line."""
    passwords = {name: secrets.token_hex(8) for name in (INSTRUCTOR, LEARNERS[0])}
    place = Place(state)
    place.make()
    with open_gradebook(place.gradebook) as book:
        for name in passwords:
            roster.enrol(book, name, by="setup", roles=["instructor"] if name == INSTRUCTOR else [])
        decisions.assign(book, "lab05_tape", by=INSTRUCTOR, released=now())
    for name, password in passwords.items():
        Accounts(place.accounts, cost=2**4).set(name, password)
    return passwords


def start(
    state: Path, *options: str, port: int = 0, passwords: dict[str, str] | None = None, **environment: str
) -> Hub:
    """Start a hub and wait until it says that it is ready."""
    if passwords is None:
        passwords = demo_class(state)
    port = port or free_port()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY", "CLASSROOM"))}
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "tools" / "hub.py"), "--state", str(state), "--port", str(port), *options],
        env=env | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT,
    )  # fmt: skip
    said: list[str] = []
    ready = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line.decode(errors="replace").rstrip())
            if said[-1].startswith("Stop with"):
                ready.set()
        ready.set()

    threading.Thread(target=read, daemon=True).start()
    hub = Hub(f"http://127.0.0.1:{port}", state, process, said, passwords)
    if not ready.wait(PATIENCE) or process.poll() is not None:
        hub.stop()
        raise AssertionError(f"the hub did not start: {said}\n{hub.log() if (state / 'hub.log').exists() else ''}")
    return hub
