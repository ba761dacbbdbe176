"""What is to be started: how many processes, of which roles, and the environment that tells each its place."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SECRET = "JOB_SECRET"
"""The variable that holds what the processes of one job prove themselves to each other with."""


@dataclass(frozen=True)
class Job:
    """A job, as far as this machine has a part in it.

    Attributes
    ----------
    command : tuple of str
        What each process runs.
    processes : int
        Ranks (trainers, where there are servers) on this machine.
    servers : int
        Parameter servers beside them.
    nodes, node_rank : int
        Machines in the job, and which of them this is.
    master_addr : str
    master_port : int
        0: a free one, chosen anew at each start.
    restarts : int
        How often a failure is answered by starting again.
    least, most : int or None
        An elastic job goes on with `least` ranks, and grows to `most`.
    grace : float
        Seconds between asking a process to end and ending it.
    """

    command: tuple[str, ...]
    processes: int
    servers: int = 0
    nodes: int = 1
    node_rank: int = 0
    master_addr: str = "127.0.0.1"
    master_port: int = 0
    restarts: int = 0
    least: int | None = None
    most: int | None = None
    grace: float = 5.0
    secret: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    @property
    def elastic(self) -> bool:
        """Whether ranks may leave and join while it runs."""
        return self.least is not None


@dataclass(frozen=True)
class Place:
    """One process of a job.

    Attributes
    ----------
    role : {"rank", "trainer", "server"}
    number : int
        Within the role, on all machines.
    variables : dict
        What is added to the environment.
    """

    role: str
    number: int
    variables: dict[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.role} {self.number}"


def places(job: Job, environment: Mapping[str, str], *, attempt: int = 0, rendezvous: str = "") -> list[Place]:
    """The processes of one start of a job: servers first, since trainers look for them.

    Every process is told torchrun's variables: RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR
    and MASTER_PORT, and TORCHELASTIC_RESTART_COUNT. Where there are servers, RANK and WORLD_SIZE count within the role
    that ROLE names, SERVERS lists the servers' addresses, and TRAINERS is how many trainers there are.
    """
    port = job.master_port or free_ports(1)[0]
    shared = {
        "MASTER_ADDR": job.master_addr,
        "MASTER_PORT": str(port),
        "GROUP_RANK": str(job.node_rank),
        "LOCAL_WORLD_SIZE": str(job.processes),
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(job.restarts),
        SECRET: job.secret,
        "PYTHONUNBUFFERED": "1",
        **threads(environment, job.processes + job.servers),
    }
    if job.elastic:
        shared.update(RENDEZVOUS=rendezvous, MIN_RANKS=str(job.least), MAX_RANKS=str(job.most))
    if not job.servers:
        return [_place("rank", job, local, shared) for local in range(job.processes)]
    addresses = ",".join(f"127.0.0.1:{one}" for one in free_ports(job.servers, besides=port))
    shared.update(SERVERS=addresses, TRAINERS=str(job.processes))
    servers = [
        Place(
            "server",
            number,
            {
                **shared,
                "ROLE": "server",
                "RANK": str(number),
                "LOCAL_RANK": str(number),
                "WORLD_SIZE": str(job.servers),
                "LOCAL_WORLD_SIZE": str(job.servers),
            },
        )
        for number in range(job.servers)
    ]
    return servers + [_place("trainer", job, local, {**shared, "ROLE": "trainer"}) for local in range(job.processes)]


def _place(role: str, job: Job, local: int, shared: Mapping[str, str]) -> Place:
    number = job.node_rank * job.processes + local
    world = job.nodes * job.processes
    return Place(
        role,
        number,
        {**shared, "RANK": str(number), "LOCAL_RANK": str(local), "WORLD_SIZE": str(world)},
    )


def threads(environment: Mapping[str, str], processes: int) -> dict[str, str]:
    """A fair share of the cores for each process's linear algebra, where the user has not said otherwise.

    Without it, each of n processes starts a thread for each core, and n times as many threads as cores take turns.
    """
    if any(name in environment for name in THREADS):
        return {}
    return dict.fromkeys(THREADS, str(max(1, cores() // processes)))


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_ports(count: int, *, besides: int = 0) -> list[int]:
    """Ports on which nobody listens, each another."""
    held: list[socket.socket] = []  # all open until the end, so that none is given twice
    ports: list[int] = []
    try:
        while len(ports) < count:
            one = socket.socket()
            held.append(one)
            one.bind(("127.0.0.1", 0))
            if one.getsockname()[1] != besides:
                ports.append(one.getsockname()[1])
        return ports
    finally:
        for one in held:
            one.close()


def port_in_use(address: str, port: int) -> bool:
    """Whether somebody listens on a port of this machine already."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((address, port))
        except OSError:
            return True
    return False


def python(script: Sequence[str], *, module: bool) -> tuple[str, ...]:
    """The command that runs a script, or a module, with its arguments."""
    import sys

    return (sys.executable, *(("-m",) if module else ()), *script)
