"""The oracle processes: one of each, found again, replaced when old, gone when idle; and right."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autograder import frames, oracles
from autograder.answerkey import AnswerKey
from autograder.oracles import client, runtime, starting
from autograder.oracles.server import Server
from autograder.spec import Lab, Task, lab_names, load_lab

STAND_IN = "json"
"""A module that imports at once stands in for a framework where only the life of the process is looked at."""


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("o")
    path.chmod(0o700)
    monkeypatch.setenv("AUTOGRADER_RUNTIME_DIR", str(path))
    yield path
    client.stop((STAND_IN,))


def hello(patience: float = 10.0) -> dict[str, Any]:
    with client.Oracle(STAND_IN).connect(time.monotonic() + patience) as connection:
        return client.ask(connection, {"do": "hello"}, timeout=5)


def gone(pid: int, patience: float = 5.0) -> bool:
    deadline = time.monotonic() + patience
    while starting.is_locked(STAND_IN) and time.monotonic() < deadline:
        time.sleep(0.02)
    starting.reap(STAND_IN) if not starting.is_locked(STAND_IN) else None
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.slow
def test_eight_starters_start_one(home: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda _: starting.launch(STAND_IN), range(8)))
    assert sum(started) == 1
    assert hello()["pid"] == hello()["pid"]


@pytest.mark.slow
def test_it_says_what_it_is(home: Path) -> None:
    said = hello()
    assert (said["framework"], said["code"]) == (STAND_IN, runtime.code_version())
    assert said["pid"] != os.getpid()
    assert os.getsid(said["pid"]) == said["pid"], "it must outlive the terminal it was started from"


@pytest.mark.slow
def test_it_ends_when_idle(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOGRADER_ORACLE_IDLE", "0.3")
    assert gone(hello()["pid"])
    assert not starting.socket_path(STAND_IN).exists()


@pytest.mark.slow
def test_it_ends_when_told(home: Path) -> None:
    pid = hello()["pid"]
    assert client.stop((STAND_IN,)) == [STAND_IN]
    assert gone(pid, 0.1)
    assert client.stop((STAND_IN,)) == []


@pytest.mark.slow
def test_a_process_that_does_not_listen_is_killed(home: Path) -> None:
    pid = hello()["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert client.stop((STAND_IN,), patience=0.3) == [STAND_IN]
    assert gone(pid, 1.0)


@pytest.mark.slow
def test_a_killed_one_is_started_again(home: Path) -> None:
    first = hello()["pid"]
    os.kill(first, signal.SIGKILL)
    starting.reap(STAND_IN)
    assert starting.socket_path(STAND_IN).exists(), "the socket it left behind is what is looked at here"
    assert hello()["pid"] != first


@pytest.mark.slow
def test_one_with_older_code_is_replaced(home: Path) -> None:
    def old(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            for reply in ({"code": "older", "pid": 1}, {"stopping": True}):
                frames.read_frame(connection, timeout=5)
                if "stopping" in reply:
                    starting.socket_path(STAND_IN).unlink()
                frames.write_frame(connection, reply)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(starting.socket_path(STAND_IN)))
        listener.listen()
        thread = threading.Thread(target=old, args=(listener,))
        thread.start()
        assert hello()["code"] == runtime.code_version()
        thread.join()


def test_one_that_breaks_off_twice_is_an_oracle_error(home: Path, small_lab: Lab) -> None:
    asked = []

    def breaks_off(listener: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                frames.read_frame(connection, timeout=5)
                frames.write_frame(connection, {"code": runtime.code_version()})
                asked.append(frames.read_frame(connection, timeout=5)["do"])

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(starting.socket_path(STAND_IN)))
        listener.listen()
        thread = threading.Thread(target=breaks_off, args=(listener,))
        thread.start()
        with pytest.raises(oracles.OracleError, match="broke off"):
            client.Oracle(STAND_IN, patience=10).answer(small_lab, small_lab.tasks[0], [{"x": 1}])
        thread.join()
    starting.socket_path(STAND_IN).unlink()
    assert asked == ["answer", "answer"], "once more, in case it had just ended for want of work"


@pytest.mark.slow
def test_waiting_is_told_and_bounded(home: Path, small_lab: Lab) -> None:
    told: list[str] = []

    def never_done(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            frames.read_frame(connection, timeout=5)
            frames.write_frame(connection, {"code": runtime.code_version()})
            frames.read_frame(connection, timeout=5)
            for second in range(20):
                frames.write_frame(connection, {"progress": "importing", "seconds": float(second)})
                time.sleep(0.1)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(starting.socket_path(STAND_IN)))
        listener.listen()
        threading.Thread(target=never_done, args=(listener,), daemon=True).start()
        began = time.monotonic()
        with pytest.raises(oracles.OracleError):
            client.Oracle(STAND_IN, patience=0.5, progress=told.append).answer(
                small_lab, small_lab.tasks[0], [{"x": 1}]
            )
        assert time.monotonic() - began < 2
    starting.socket_path(STAND_IN).unlink()
    assert told[0] == "json: importing, 0 s"


def test_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    given = starting.environment()
    assert "PYTHONDONTWRITEBYTECODE" not in given
    assert given["PYTHONPATH"] == str(runtime.PACKAGE.parent)
    assert given["CUDA_VISIBLE_DEVICES"] == ""


def test_a_framework_that_is_not_installed(home: Path) -> None:
    with pytest.raises(oracles.OracleError, match="no_such_framework is not installed"):
        starting.launch("no_such_framework")


# --- a server in this process ---------------------------------------------------------------------


class Here:
    """A `Server` on a thread of this process."""

    def __init__(self, home: Path, framework: str = STAND_IN) -> None:
        self.path = home / f"{framework}.sock"
        self.server = Server(framework, self.path, idle=30.0)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> Here:
        self.thread.start()
        deadline = time.monotonic() + 5
        while self.server.state == "importing" and time.monotonic() < deadline:
            time.sleep(0.005)
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.jobs.put(None)
        self.thread.join(5)
        assert not self.thread.is_alive()

    def open(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.path))
        return connection

    def ask(self, request: Any) -> Any:
        with self.open() as connection:
            frames.write_frame(connection, request)
            return frames.read_frame(connection, timeout=5)


def square(module: Any, x: int) -> int:
    assert module.__name__ == STAND_IN
    return x * x


def no_answer(module: Any, x: int) -> int:
    raise ArithmeticError("too\nlarge")


def odd_answer(module: Any, x: int) -> object:
    return object()


@pytest.fixture
def small_lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    def task(name: str, oracle: Any) -> Task:
        oracles_given = {STAND_IN: oracle, "numpy": oracle}
        return Task(name, name, 1.0, (name,), name, str, lambda: None, lambda rng: [], oracles_given)

    lab = Lab("labxx_small", "Small", (task("square", square), task("none", no_answer), task("odd", odd_answer)))
    lab.__dict__["version"] = "one"
    monkeypatch.setattr("autograder.spec.load_lab", lambda name: lab)
    monkeypatch.setattr("autograder.oracles.server.forget_specs", lambda: None)
    return lab


def request(task: str, *cases: dict[str, Any], version: str = "one") -> dict[str, Any]:
    return {
        "do": "answer",
        "lab": "labxx_small",
        "task": task,
        "stamp": "now",
        "version": version,
        "cases": list(cases),
    }


def test_a_batch_is_answered_in_order(home: Path, small_lab: Lab) -> None:
    with Here(home) as here:
        answers = here.ask(request("square", {"x": 2}, {"x": 3}))["answers"]
        assert [frames.decode(answer["value"]) for answer in answers] == [4, 9]


def test_several_clients_at_once(home: Path, small_lab: Lab) -> None:
    with Here(home) as here, ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda x: here.ask(request("square", {"x": x})), range(40)))
        assert [frames.decode(reply["answers"][0]["value"]) for reply in replies] == [x * x for x in range(40)]


@pytest.mark.parametrize(
    ("task", "words"), [("none", "ArithmeticError: too large"), ("odd", "FrameError"), ("square", "unexpected keyword")]
)
def test_a_fault_in_an_oracle_is_an_answer(home: Path, small_lab: Lab, task: str, words: str) -> None:
    with Here(home) as here:
        case = {"z": 1} if task == "square" else {"x": 1}
        assert words in here.ask(request(task, case))["answers"][0]["error"]
        assert "answers" in here.ask(request("square", {"x": 1})), "and the process lives on"


def test_a_spec_that_changed_on_disk_is_told(home: Path, small_lab: Lab) -> None:
    with Here(home) as here:
        assert "the grader has two" in here.ask(request("square", {"x": 2}, version="two"))["error"]


def test_a_task_nobody_knows(home: Path, small_lab: Lab) -> None:
    with Here(home) as here:
        assert "has no task 'cube'" in here.ask(request("cube", {"x": 2}))["error"]


def test_a_framework_that_cannot_be_imported(home: Path, small_lab: Lab) -> None:
    with Here(home, "no_such_framework") as here:
        assert here.ask({"do": "hello"})["state"] == "failed"
        assert "cannot import no_such_framework" in here.ask(request("square", {"x": 2}))["error"]


@pytest.mark.parametrize("sent", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x01\xc1", b"GET / HTTP/1.1\r\n\r\n", b""])
def test_what_is_no_frame_ends_that_connection_only(home: Path, small_lab: Lab, sent: bytes) -> None:
    with Here(home) as here:
        with here.open() as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(10) == b""
        assert here.ask({"do": "hello"})["state"] == "ready"


@pytest.mark.parametrize("odd", [None, 3, {"do": "dance"}, {"do": "answer"}, request("square") | {"cases": "all"}])
def test_a_request_nobody_knows(home: Path, small_lab: Lab, odd: Any) -> None:
    with Here(home) as here:
        assert "not a request" in here.ask(odd)["error"]


def test_other_users_are_refused(home: Path, small_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with Here(home) as here:
        assert here.ask({"do": "hello"})["state"] == "ready"
        with here.open() as connection, monkeypatch.context() as patched:
            for stranger in (False, True):
                frames.write_frame(connection, {"do": "hello"})
                assert frames.read_frame(connection, timeout=5)["state"] == "ready", "who was let in before stays"
                if not stranger:
                    patched.setattr(runtime, "user_id", lambda: os.getuid() + 1)
            with here.open() as another:
                assert another.recv(10) == b""


def test_who_is_at_the_other_end() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert runtime.peer(one) == (os.getpid(), os.getuid())
        assert runtime.same_user(other)


# --- the real ones --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", lab_names())
@pytest.mark.parametrize("seed", [1, 2])
def test_torch_tensorflow_and_arithmetic_agree(name: str, seed: int) -> None:
    lab = load_lab(name)
    key = AnswerKey(lab, seed)
    for task in lab.tasks:
        cases = key.cases(task)
        assert len(cases) >= len(task.edges(__import__("numpy").random.default_rng(0)))
    states = {said["framework"]: said["state"] for said in oracles.running()}
    assert {states[framework] for task in lab.tasks for framework in task.oracles if framework != "numpy"} == {"ready"}


def test_a_process_that_has_ended_is_none_even_before_its_parent_notices() -> None:
    """`stop` once waited for ever for the lock of an oracle that had ended and been followed by another."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    try:
        assert client.is_running(child.pid)
        assert client.is_running(os.getpid())
        child.kill()
        deadline = time.monotonic() + 5
        while client.is_running(child.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not client.is_running(child.pid)
    finally:
        child.kill()
        child.wait()
    assert not client.is_running(child.pid)


def test_nobody_waits_for_an_oracle_of_another_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="ag-") as one, tempfile.TemporaryDirectory(prefix="ag-") as other:
        monkeypatch.setenv("AUTOGRADER_RUNTIME_DIR", one)
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            monkeypatch.setitem(starting._children, starting.socket_path("torch"), child)
            monkeypatch.setenv("AUTOGRADER_RUNTIME_DIR", other)
            starting.reap("torch")
            assert child.poll() is None
            child.kill()
