"""A task of a cluster: an endpoint on which a worker and a master answer."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType

from internals.distributed.errors import DistributedError
from internals.distributed.runtime.cluster import ClusterSpec, Place
from internals.distributed.runtime.master import Master
from internals.distributed.runtime.worker import Worker
from internals.distributed.transport import Endpoint


class Server:
    """One task. It runs parts of graphs for any master, and is a master to any client.

    Parameters
    ----------
    cluster : ClusterSpec
        The same for all tasks.
    job : str
    task_index : int
    endpoint : Endpoint, optional
        One that is open already, called ``"job:index"``; else one is opened at the task's address of the cluster.
    threads : int, optional
        How many operations of one part may run at once; as many as there are cores unless given.
    secret : str, optional
        The key of the cluster; see `internals.distributed.transport.open_endpoint`.
    clock : callable, optional
        Seconds, for timelines.

    Raises
    ------
    DeviceError
        The cluster has no such task.
    ValueError
        The endpoint has another name.

    Examples
    --------
    >>> server = Server(ClusterSpec({"worker": ["tcp://127.0.0.1:2222"]}), "worker", 0)
    >>> server.join()
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        job: str,
        task_index: int,
        *,
        endpoint: Endpoint | None = None,
        threads: int | None = None,
        secret: str | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        address = cluster.address(job, task_index)
        name = f"{job}:{task_index}"
        self._owned = endpoint is None
        if endpoint is None:
            from internals.distributed.transport import open_endpoint

            transport, _, bind = address.rpartition("://")
            endpoint = open_endpoint(name, transport=transport or "tcp", bind=bind, secret=secret)
        if endpoint.name != name:
            raise ValueError(f"server: the endpoint of task {task_index} of job {job!r} is called {endpoint.name!r}.")
        self.cluster, self.job, self.task_index, self.endpoint = cluster, job, task_index, endpoint
        self.worker = Worker(endpoint, threads=threads or os.cpu_count() or 1, clock=clock)
        self.master = Master(endpoint, self.worker, cluster, Place(job, task_index))
        self._closed = threading.Event()
        endpoint.on("shut down", lambda message, reply: self._closed.set())

    @property
    def target(self) -> str:
        """What a client's session takes: ``"worker:0@tcp://127.0.0.1:2222"``."""
        return f"{self.endpoint.name}@{self.endpoint.address}"

    def join(self) -> None:
        """Serve until a client shuts the task down, or the process is told to end."""
        while not self._closed.wait(1.0):
            pass

    def close(self) -> None:
        """End the task; its variables are gone. Steps that it takes part in fail, with its name."""
        self._closed.set()
        self.master.close()
        self.worker.close()
        if self._owned:
            self.endpoint.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except DistributedError:
            pass
