"""`make serve`: one server on 127.0.0.1 with three places, behind one token; it starts, says where, and stops."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "tools/serve.py", "--no-browser", "--no-site"]
LINK = re.compile(r"(http://127\.0\.0\.1:(\d+))/\?token=(\w{32,})")


@dataclass
class Served:
    process: subprocess.Popen[str]
    base: str
    port: int
    token: str
    seconds: float


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(port: int) -> Served:
    began = time.monotonic()
    process = subprocess.Popen(
        [*COMMAND, "--port", str(port)], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if match := LINK.search(line):
            return Served(process, match[1], int(match[2]), match[3], time.monotonic() - began)
    raise AssertionError(f"no link was printed; exit {process.wait()}")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    found = start(free_port())
    yield found
    found.process.terminate()
    found.process.wait(20)


def get(url: str, *, cookies: bool = False) -> tuple[int, str, str]:
    """Status, final address and text of a page."""
    handlers = [urllib.request.ProxyHandler({})] + (
        [urllib.request.HTTPCookieProcessor(CookieJar())] if cookies else []
    )
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=10) as reply:
            return reply.status, reply.url, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.url, error.read().decode()


PLACES = {"/lab": "JupyterLab", "/book/": "", "/autograder/": "<html"}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_place_opens_with_the_token(served: Served, place: str) -> None:
    status, url, text = get(f"{served.base}{place}?token={served.token}")
    built = (ROOT / "book" / "_build" / "html" / "index.html").is_file()
    assert status == (404 if place == "/book/" and not built else 200)
    assert "/login" not in url
    assert PLACES[place] in text
    if place == "/book/" and not built:
        assert "make book" in text


@pytest.mark.slow
@pytest.mark.parametrize("place", [*PLACES, "/api/contents"])
@pytest.mark.parametrize("token", ["", "?token=" + "0" * 48])
def test_place_is_closed_without_the_token(served: Served, place: str, token: str) -> None:
    status, url, _ = get(f"{served.base}{place}{token}")
    assert status == 403 or url.startswith(f"{served.base}/login")


@pytest.mark.slow
def test_printed_link_leads_into_jupyterlab(served: Served) -> None:
    status, url, text = get(f"{served.base}/?token={served.token}", cookies=True)
    assert status == 200
    assert url.startswith(f"{served.base}/lab")
    assert "JupyterLab" in text


@pytest.mark.slow
def test_the_list_of_files_shows_the_labs_and_no_solutions(served: Served) -> None:
    status, _, text = get(f"{served.base}/api/contents?token={served.token}")
    assert status == 200
    names = [entry["name"] for entry in json.loads(text)["content"]]
    assert "lab05_tape.ipynb" in names
    assert "solutions" not in names


@pytest.mark.slow
def test_listens_on_this_machine_only(served: Served) -> None:
    # psutil.net_connections of one process needs no privileges.
    family = [served.process.pid, *(child.pid for child in psutil.Process(served.process.pid).children(recursive=True))]
    heard = {
        row.laddr for pid in family for row in psutil.Process(pid).net_connections("tcp") if row.status == "LISTEN"
    }
    assert (("127.0.0.1", served.port)) in heard
    assert {address.ip for address in heard} <= {"127.0.0.1", "::1"}


@pytest.mark.slow
def test_token_is_on_no_command_line(served: Served) -> None:
    family = [psutil.Process(served.process.pid), *psutil.Process(served.process.pid).children(recursive=True)]
    assert not [process for process in family if served.token in " ".join(process.cmdline())]


@pytest.mark.slow
def test_is_up_within_15_seconds(served: Served) -> None:
    assert served.seconds < 15


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_stops_everything(number: signal.Signals) -> None:
    served = start(free_port())
    children = psutil.Process(served.process.pid).children(recursive=True)
    servers = [child for child in children if "autograder.oracles" not in " ".join(child.cmdline())]
    assert servers
    os.kill(served.process.pid, number)
    rest, _ = served.process.communicate(timeout=20)
    assert served.process.returncode == 0
    assert "Traceback" not in rest
    assert not [child for child in servers if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", served.port)) != 0


@pytest.mark.slow
def test_busy_port_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*COMMAND, "--port", str(port)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"serve: port {port} is in use; choose another, or leave --port out to take the next free one."
    ]


@pytest.mark.parametrize("port", ["99999", "0", "-1", "abc"])
def test_a_port_that_is_none_is_one_clear_line(port: str) -> None:
    done = subprocess.run(
        [*COMMAND, f"--port={port}"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[1:] == [
        f"make serve: error: argument --port: {port!r} is not a port; expected a number from 1 to 65535"
    ]


def test_next_free_port_is_taken(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import serve

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        first = taken.getsockname()[1]
        monkeypatch.setattr(serve, "FIRST_PORT", first)
        chosen = serve.choose_port(None)
    assert first < chosen < first + serve.PORTS
    assert f"Port {first} is in use; taking {chosen}." in capsys.readouterr().out


def test_site_is_built_again_when_a_source_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import serve

    for name in ("book", "chapters", "labs", "internals", "book/_build"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(serve, "ROOT", tmp_path)
    before = serve.sources_digest()
    (tmp_path / "book" / "_build" / "page.html").write_text("built")
    assert serve.sources_digest() == before
    (tmp_path / "internals" / "tape.py").write_text("rule = 1")
    assert serve.sources_digest() != before
