"""The same over real processes and sockets, some of which are killed with kill -9."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from server_jobs import Job, alone, large_parameters, large_work, parameters, until

from internals.distributed.errors import DeadlineExceeded, DuplicateName, RemoteError
from internals.distributed.launch.job import free_ports
from internals.distributed.server import Checkpoints, Client
from internals.distributed.transport import Message, open_endpoint

pytestmark = pytest.mark.slow

DEADLINE = 90.0
SCRIPT = """
import os, sys, time
from pathlib import Path
import numpy as np
from internals.distributed import server as ps
from internals.optim import Adam
import server_jobs

if "VIA" in os.environ:  # whoever of the two connects first, what this trainer says goes there
    from internals.distributed.transport.zmq import ZmqEndpoint

    dial, (port, via) = ZmqEndpoint._dial, os.environ["VIA"].split("=")

    def dial_via(self, peer, address):
        link = dial(self, peer, address.replace(f":{port}", f":{via}"))
        link.address = address
        return link

    ZmqEndpoint._dial = dial_via
large = "LARGE" in os.environ
parameters = server_jobs.large_parameters if large else server_jobs.parameters
work = server_jobs.large_work if large else server_jobs.work
out, steps, slow = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
transport = os.environ["TRANSPORT"]
if ps.role() == "server":
    checkpoint = {"checkpoint": out / "checkpoints", "every": 5} if os.environ.get("CHECKPOINTS") else {}
    mode = os.environ.get("MODE", "sync")
    staleness = {"staleness": 2} if mode == "ssp" else {}
    ps.serve(
        optimizer=lambda tensors: Adam(tensors, lr=0.05), transport=transport, mode=mode, **staleness, **checkpoint
    )
else:
    rank = os.environ["RANK"]

    def told(values, shard, step):
        (out / f"step-{rank}.part").write_text(f"{step}")
        os.replace(out / f"step-{rank}.part", out / f"step-{rank}")
        while os.environ.get("HELD") == f"{rank}:{step}" and not (out / "go").exists():
            time.sleep(0.01)
        time.sleep(slow)
        return work(values, shard, step)

    with ps.connect(transport=transport, split=1 << 14 if large else 6) as client:
        client.init(parameters())
        trainer = ps.Trainer(client, told)
        values = trainer.run(steps)
        np.savez(out / f"values-{rank}.npz", **values)
        (out / f"shards-{rank}").write_text(str(sorted({shard for shard, _ in trainer.losses})))
"""


class Processes:
    """Servers and trainers of one job, each a process of its own."""

    def __init__(self, out: Path, *, transport: str, trainers: int, servers: int = 2, steps: int, **more: str) -> None:
        self.out, self.steps, self.trainers = out, steps, trainers
        self.slow = 0.0
        script = out / "script.py"
        script.write_text(SCRIPT)
        tests = Path(__file__).resolve().parents[2]
        self.ports = free_ports(servers)
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parents[1])]),
            "SERVERS": ",".join(f"127.0.0.1:{port}" for port in self.ports),
            "TRAINERS": str(trainers),
            "JOB_SECRET": "a secret",
            "TRANSPORT": transport,
            "OPENBLAS_NUM_THREADS": "1",
            **more,
        }
        self.processes: dict[str, subprocess.Popen] = {}
        self._all: list[subprocess.Popen] = []

    def start(self, role: str, rank: int, **more: str) -> None:
        command = [sys.executable, str(self.out / "script.py"), str(self.out), str(self.steps), str(self.slow)]
        environment = self._environment | {"ROLE": role, "RANK": str(rank), **more}
        with open(self.out / f"log-{role}-{rank}", "ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        self.processes[f"{role}:{rank}"] = process
        self._all.append(process)

    def start_all(self) -> None:
        for role, count in (("server", 2), ("trainer", self.trainers)):
            for rank in range(count):
                self.start(role, rank)

    def kill(self, name: str) -> None:
        self.processes.pop(name).send_signal(signal.SIGKILL)

    def until(self, rank: int, step: int) -> None:
        """Wait until a trainer is at a step."""
        end = time.monotonic() + DEADLINE
        while self.step(rank) < step:
            assert time.monotonic() < end, f"trainer {rank} never came to step {step}\n{self.logs()}"
            time.sleep(0.01)

    def step(self, rank: int) -> int:
        """The step a trainer is at; -1 before it has begun."""
        path = self.out / f"step-{rank}"
        return int(path.read_text()) if path.exists() else -1

    def finish(self) -> None:
        end = time.monotonic() + DEADLINE
        for name, process in self.processes.items():
            code = process.wait(max(0.1, end - time.monotonic()))
            assert code == 0, f"{name} ended with {code}\n{self.logs()}"

    def logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()}" for path in sorted(self.out.glob("log-*")))

    def values(self, rank: int) -> dict[str, np.ndarray]:
        with np.load(self.out / f"values-{rank}.npz") as file:
            return dict(file)

    def close(self) -> None:
        for process in self._all:
            process.kill()
            process.wait()


class Halfway:
    """Stands between a trainer and a server, and stops in the middle of what the trainer says once `begin` is true."""

    def __init__(self, port: int, begin: Callable[[], bool], nbytes: int) -> None:
        self.stopped, self.begin = threading.Event(), begin
        self._target, self._left, self._counts = port, nbytes, False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                trainer, _ = self._listener.accept()
                self._sockets.append(trainer)
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:  # it is not up yet; the trainer will try again
                    trainer.close()
                    continue
                self._sockets.append(server)
                threading.Thread(target=self._pass, args=(trainer, server, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, trainer, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 14):
                if up and (self._counts or self.begin()):
                    self._counts = True
                    data = data[: self._left]
                    self._left -= len(data)
                target.sendall(data)
                if up and not self._left:
                    self.stopped.set()
                    return  # and the connection stays as it is

    def close(self) -> None:
        for one in self._sockets:
            one.close()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Callable[..., Processes]]:
    made: list[Processes] = []

    def make(**settings: Any) -> Processes:
        out = tmp_path / str(len(made))
        out.mkdir()
        made.append(Processes(out, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


def adam(tensors: Any) -> Any:
    from internals.optim import Adam

    return Adam(tensors, lr=0.05)


def undisturbed(trainers: int, steps: int, **settings: Any) -> dict[str, np.ndarray]:
    one = Job(servers=2, shards=trainers, optimizer=adam)
    (first, *_) = one.train(trainers, steps, **{"split": 6, **settings})
    values = {name: value.copy() for name, value in first.client.values.items()}
    one.close()
    return values


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_processes_train_as_threads_do(processes: Callable[..., Processes], transport: str) -> None:
    """Another transport changes nothing, to the last bit; and all of it is one process on the joined batch."""
    job = processes(transport=transport, trainers=2, steps=15)
    job.start_all()
    job.finish()
    expected, one_process = undisturbed(2, 15), alone(2, 15, adam)
    for rank in range(2):
        for name, value in job.values(rank).items():
            assert (value == expected[name]).all()
            np.testing.assert_allclose(value, one_process[name], rtol=1e-10, atol=1e-11)


def test_a_killed_trainer_s_shard_is_taken_over(processes: Callable[..., Processes]) -> None:
    job = processes(transport="shm", trainers=3, steps=30)
    job.slow = 0.02
    job.start_all()
    job.until(1, 10)
    job.kill("trainer:1")
    job.finish()
    expected = undisturbed(3, 30)
    done = [(job.out / f"shards-{rank}").read_text() for rank in (0, 2)]
    assert sorted(done) in (["[0, 1]", "[2]"], ["[0]", "[1, 2]"])
    for rank in (0, 2):
        assert all((job.values(rank)[name] == value).all() for name, value in expected.items())


@pytest.mark.parametrize("index", [0, 1])
def test_a_killed_server_comes_back_and_the_run_ends_the_same(processes: Callable[..., Processes], index: int) -> None:
    job = processes(transport="shm", trainers=2, steps=30, CHECKPOINTS="1")
    job.slow = 0.02
    job.start_all()
    job.until(0, 13)
    job.kill(f"server:{index}")
    job.start("server", index)
    job.finish()
    expected = undisturbed(2, 30)
    for rank in range(2):
        assert all((job.values(rank)[name] == value).all() for name, value in expected.items()), job.logs()
    for server in range(2):
        assert Checkpoints(job.out / "checkpoints", server, 2).steps() == [20, 25, 30]


def test_a_server_is_killed_while_trainers_stand_in_its_barrier(processes: Callable[..., Processes]) -> None:
    job = processes(transport="shm", trainers=3, steps=20, CHECKPOINTS="1", HELD="2:13")
    job.start_all()
    with open_endpoint("watcher", secret="a secret") as watcher:

        def asked(kind: str) -> dict[str, Any]:
            return watcher.call("server:0", Message(kind, {"step": 14}), DEADLINE).fields

        watcher.connect("server:0", f"127.0.0.1:{job.ports[0]}", DEADLINE)
        until(lambda: asked("stats")["version"] == 13 and asked("missing")["shards"] == [2], DEADLINE)
        job.kill("server:0")
    job.start("server", 0)
    (job.out / "go").touch()
    job.finish()
    expected = undisturbed(3, 20)
    for rank in range(3):
        assert all((job.values(rank)[name] == value).all() for name, value in expected.items()), job.logs()


def test_a_trainer_is_killed_when_half_of_its_gradient_has_arrived(processes: Callable[..., Processes]) -> None:
    """Of what it pushes, some half a megabyte to each server, the first has got 100 KB: that counts as nothing."""
    job = processes(transport="tcp", trainers=3, steps=6, LARGE="1")
    between = Halfway(job.ports[0], lambda: job.step(1) >= 3, 100_000)
    for name in ("server:0", "server:1", "trainer:0", "trainer:2"):
        role, rank = name.split(":")
        job.start(role, int(rank))
    job.start("trainer", 1, VIA=f"{job.ports[0]}={between.port}")
    try:
        assert between.stopped.wait(DEADLINE), job.logs()
        job.kill("trainer:1")
        job.finish()
    finally:
        between.close()
    expected = undisturbed(3, 6, split=1 << 14, start=large_parameters(), work=large_work)
    for rank in (0, 2):
        assert all((job.values(rank)[name] == value).all() for name, value in expected.items()), job.logs()
    assert any("1" in (job.out / f"shards-{rank}").read_text() for rank in (0, 2))


def test_without_a_barrier_a_killed_server_comes_back(processes: Callable[..., Processes]) -> None:
    job = processes(transport="tcp", trainers=2, steps=30, CHECKPOINTS="1", MODE="ssp")
    job.slow = 0.02
    job.start_all()
    job.until(0, 13)
    job.kill("server:1")
    job.start("server", 1)
    job.finish()
    assert all(np.isfinite(value).all() for value in job.values(0).values())
    assert all((job.values(0)[name] == value).all() for name, value in job.values(1).items())


def test_the_launcher_runs_the_script(processes: Callable[..., Processes]) -> None:
    job = processes(transport="shm", trainers=3, steps=10)
    command = [sys.executable, "-m", "internals.distributed.launch", "--servers", "2", "-n", "3"]
    environment = {key: value for key, value in job._environment.items() if key not in ("SERVERS", "TRAINERS")}
    done = subprocess.run(
        [*command, str(job.out / "script.py"), str(job.out), "10", "0"],
        env=environment, capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    expected = undisturbed(3, 10)
    assert all((job.values(2)[name] == value).all() for name, value in expected.items())


# Over sockets, in this process: what a trainer is told when something is wrong.


@pytest.fixture
def served() -> Iterator[list[str]]:
    from internals.distributed.server import Server

    endpoints = [open_endpoint(f"server:{index}", secret="a secret") for index in range(2)]
    servers = [
        Server(endpoint, optimizer=adam, shards=2, index=index, servers=2) for index, endpoint in enumerate(endpoints)
    ]
    yield [endpoint.address for endpoint in endpoints]
    for server in servers:
        server.close()


def test_two_trainers_of_one_id(served: list[str]) -> None:
    with (
        open_endpoint("trainer:0", secret="a secret") as one,
        open_endpoint("trainer:0", secret="a secret") as other,
    ):
        first = Client(one, served, patience=20)
        first.init(parameters())
        with pytest.raises((DuplicateName, RemoteError), match="trainer:0"):
            Client(other, served, patience=20)
        assert first.pull().keys() == parameters().keys()


def test_a_server_that_is_not_there(served: list[str]) -> None:
    (port,) = free_ports(1)
    with (
        open_endpoint("trainer:0", secret="a secret") as endpoint,
        pytest.raises(
            DeadlineExceeded, match=f"server:1 at 127.0.0.1:{port} did not answer within 0.5 s; is it started"
        ),
    ):
        Client(endpoint, [served[0], f"127.0.0.1:{port}"], patience=0.5)


def test_servers_in_another_order(served: list[str]) -> None:
    with open_endpoint("trainer:0", secret="a secret") as endpoint, pytest.raises(Exception, match=r"server:[01]"):
        Client(endpoint, served[::-1], patience=2)
