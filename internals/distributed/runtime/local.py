"""A cluster on this machine, for trying things: all of it in this process, or a process for each task."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from internals.distributed.errors import DeadlineExceeded, DistributedError
from internals.distributed.runtime.cluster import ClusterSpec
from internals.distributed.runtime.server import Server
from internals.distributed.runtime.session import RemoteSession
from internals.distributed.transport import Endpoint, Faults, Network
from internals.graph import Graph


class InprocCluster:
    """Tasks that are threads of this process.

    Parameters
    ----------
    tasks : mapping of job to number of tasks
    faults : Faults, optional
        How the network between them misbehaves.
    threads : int
        How many operations of one part may run at once.

    Examples
    --------
    >>> with InprocCluster({"worker": 2, "ps": 1}) as cluster, cluster.session(graph) as session:
    ...     session.initialise()
    ...     session.run(loss)
    """

    def __init__(self, tasks: Mapping[str, int], *, faults: Faults | None = None, threads: int = 1) -> None:
        self.network = Network(faults)
        self.threads = threads
        self.spec = ClusterSpec({job: [f"inproc://{job}:{i}" for i in range(count)] for job, count in tasks.items()})
        self.servers: dict[str, Server] = {}
        self._clients: list[Endpoint] = []
        self._numbers = itertools.count()
        for job, task in self.spec.tasks:
            self.start(job, task)

    def start(self, job: str, task: int, **settings: Any) -> Server:
        """Start a task, which may have been there before."""
        name = f"{job}:{task}"
        settings = {"threads": self.threads, **settings}
        server = Server(self.spec, job, task, endpoint=self.network.endpoint(name), **settings)
        self.servers[name] = server
        return server

    def kill(self, job: str, task: int) -> None:
        """Let a task die without a word."""
        self.network.kill(f"{job}:{task}")
        self.servers.pop(f"{job}:{task}").close()

    def session(self, graph: Graph, *, master: str = "", **settings: Any) -> RemoteSession:
        """A session whose master is a task; the first of the cluster, unless named (``"worker:1"``)."""
        client = self.network.endpoint(f"client:{next(self._numbers)}")
        self._clients.append(client)
        name = master or next(iter(self.servers))
        return RemoteSession(self.servers[name].target, graph, endpoint=client, **settings)

    def close(self) -> None:
        for server in self.servers.values():
            server.close()
        for endpoint in [*self._clients, *(server.endpoint for server in self.servers.values())]:
            endpoint.close()

    def __enter__(self) -> InprocCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ProcessCluster:
    """Tasks that are processes of this machine, on ports that were free. They end with this object, or with us.

    Parameters
    ----------
    tasks : mapping of job to number of tasks
    threads : int
        How many operations of one part may run at once.
    deadline : float
        Seconds until all must be up.

    Raises
    ------
    DeadlineExceeded
        A task did not come up; names it and says what it printed.
    """

    def __init__(self, tasks: Mapping[str, int], *, threads: int = 1, deadline: float = 60.0) -> None:
        self.threads, self.deadline = threads, deadline
        self.processes: dict[str, subprocess.Popen[str]] = {}
        try:
            names = [(job, i) for job, count in tasks.items() for i in range(count)]
            for job, task in names:
                self._launch(job, task, "127.0.0.1:0")
            addresses: dict[str, list[str]] = {job: [] for job in tasks}
            for job, task in names:
                addresses[job].append(self._line(f"{job}:{task}"))
            self.spec = ClusterSpec(addresses)
            for job, task in names:
                self._tell(f"{job}:{task}")
        except BaseException:
            self.close()
            raise

    def start(self, job: str, task: int) -> None:
        """Start a task that died, at its old address."""
        self._launch(job, task, self.spec.address(job, task).rpartition("://")[2])
        self._line(f"{job}:{task}")
        self._tell(f"{job}:{task}")

    def kill(self, job: str, task: int) -> None:
        """End a task at once, as a power cut would."""
        process = self.processes.pop(f"{job}:{task}")
        process.send_signal(signal.SIGKILL)
        process.wait()
        _shut(process)

    def session(self, graph: Graph, *, master: str = "", **settings: Any) -> RemoteSession:
        """A session whose master is a task; the first of the cluster, unless named."""
        name = master or next(iter(self.processes))
        job, _, task = name.rpartition(":")
        return RemoteSession(f"{name}@{self.spec.address(job, int(task))}", graph, **settings)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
            _shut(process)
        self.processes.clear()

    def __enter__(self) -> ProcessCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _launch(self, job: str, task: int, bind: str) -> None:
        command = [sys.executable, "-m", "internals.distributed.runtime", "--job", job, "--task", str(task)]
        command += ["--bind", bind, "--threads", str(self.threads), "--parent", str(os.getpid())]
        self.processes[f"{job}:{task}"] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _line(self, name: str) -> str:
        process = self.processes[name]
        end = time.monotonic() + self.deadline
        assert process.stdout is not None
        while time.monotonic() < end:
            if select.select([process.stdout], [], [], 0.1)[0]:
                line = process.stdout.readline()
                if line:
                    return line.strip()
            if process.poll() is not None:
                raise DistributedError(f"{name} ended with {process.returncode} before it was up")
        raise DeadlineExceeded(f"{name} was not up within {self.deadline:g} s")

    def _tell(self, name: str) -> None:
        stream = self.processes[name].stdin
        assert stream is not None
        stream.write(json.dumps(self.spec.jobs) + "\n")
        stream.flush()


def _shut(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
