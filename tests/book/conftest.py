"""The built site, served as a static host would, and a headless Chromium to look at it."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import http.server
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]

MARK = "TEST_BROWSER"
"""The variable that all processes of one browser have."""
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'"
)


def load(path: str) -> ModuleType:
    """Import one file of the book, which is not a package."""
    file = ROOT / path
    spec = importlib.util.spec_from_file_location(f"book_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def book() -> Callable[[str], ModuleType]:
    """Import a module of the book by its path, such as ``book/build.py``."""
    return load


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make book` builds it from this checkout; quick where nothing changed."""
    built = ROOT / "book" / "_build" / "html"
    if os.environ.get("COURSE_SITE_IS_BUILT"):  # tools/test.py builds it before the tests
        return built
    lock = ROOT / "book" / "_build" / ".test-lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:  # several test processes must not build into one folder at once
        fcntl.flock(held, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "book/build.py"], cwd=ROOT, check=False, capture_output=True, text=True, timeout=500
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return built


@pytest.fixture(scope="session")
def pages(site: Path) -> list[Path]:
    """Every page that a reader can come to, the generated ones included."""
    return sorted(p for p in site.rglob("*.html") if "_static" not in p.parts)


@pytest.fixture(scope="session")
def served(site: Path) -> Iterator[str]:
    """The address of the site on a static server that lets pages load nothing from elsewhere and run no eval.

    A worker has a policy of its own; the one that runs WebAssembly may compile.
    """

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(site))

        def end_headers(self) -> None:
            compiles = self.path.endswith("/_static/edge/worker.js")
            policy = POLICY.replace("'unsafe-inline'", "'unsafe-inline' 'unsafe-eval'", 1) if compiles else POLICY
            self.send_header("Content-Security-Policy", policy)
            super().end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing: the test run has its own output."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


class Browser:
    """One tab of a headless Chromium, driven over its DevTools socket."""

    def __init__(self, profile: Path) -> None:
        import websocket

        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            pytest.skip("no Chromium on this machine; on Debian: apt install chromium")
        flags = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
        flags += " disable-breakpad disable-crash-reporter disable-component-update disable-sync"
        flags += f" remote-debugging-port=0 user-data-dir={profile}"
        self._mark = str(profile)
        self.process = subprocess.Popen(
            [program, *(f"--{flag}" for flag in flags.split()), "about:blank"],
            env={**os.environ, MARK: self._mark},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        port_file = profile / "DevToolsActivePort"
        deadline = time.monotonic() + 30
        while not (port_file.exists() and port_file.read_text().strip()):
            assert time.monotonic() < deadline, "Chromium did not open its DevTools port within 30 s"
            time.sleep(0.05)
        port = port_file.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=10) as reply:
            tab = next(t for t in json.load(reply) if t["type"] == "page")
        self.socket = websocket.create_connection(tab["webSocketDebuggerUrl"], suppress_origin=True, timeout=30)
        self.number = 0
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def open(self, url: str, settle: float = 0.6) -> None:
        """Load `url` and wait until the page, and what its scripts ask for, is there."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + 30
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            assert time.monotonic() < deadline, f"{url} did not load within 30 s"
            self.call("Runtime.evaluate", expression="1")
            time.sleep(0.05)
        time.sleep(settle)
        self.call("Runtime.evaluate", expression="1")

    def requested(self) -> list[str]:
        """Every URL the page asked for since it was opened; data and blob URLs leave nothing."""
        urls = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [u for u in urls if not u.startswith(("data:", "blob:", "about:"))]

    def complaints(self) -> list[str]:
        """Script errors, refused and failed requests since the page was opened."""
        found = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("text", "exception"))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"])
            elif event["method"] == "Network.responseReceived" and params["response"]["status"] >= 400:
                found.append(f"{params['response']['status']} {params['response']['url']}")
            elif event["method"] == "Network.loadingFailed" and not params.get("canceled"):
                found.append(params["errorText"])
        return found

    def ask(self, expression: str) -> Any:
        reply = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    def wait(self, expression: str, seconds: float = 15) -> Any:
        """Ask until the answer is truthy."""
        deadline = time.monotonic() + seconds
        while not (answer := self.ask(expression)):
            assert time.monotonic() < deadline, f"not within {seconds} s: {expression}"
            time.sleep(0.1)
        return answer

    def show(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, file: Path, *, whole: bool = True) -> None:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **({"clip": clip} if whole else {}))
        file.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """End the program. Asked to close, it could wait for an answer to a page's question whether to leave it."""
        self.socket.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # Its crash handlers are no children of it, and may outlive it.
        left = [one for one in psutil.process_iter() if is_marked(one, self._mark)]
        for one in psutil.wait_procs(left, timeout=5)[1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(left, timeout=5)


def is_marked(process: psutil.Process, mark: str) -> bool:
    """Whether a process was started by the browser that has this mark."""
    try:
        return process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:  # ended meanwhile, or another user's
        return False


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    tab = Browser(tmp_path_factory.mktemp("chromium"))
    yield tab
    tab.close()
