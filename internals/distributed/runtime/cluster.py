"""Which tasks there are, where they listen, and how the devices on them are called: ``/job:worker/task:1/sim:0``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from internals.device import DeviceError, device
from internals.distributed.errors import MismatchError

_PART = re.compile(
    r"/job:(?P<job>[A-Za-z][\w-]*)|/task:(?P<task>\d+)|/?(?:device:)?(?P<device>(?:cpu|sim|cuda)(?::\d+)?)",
    re.IGNORECASE,
)


@dataclass(frozen=True, order=True)
class Place:
    """A device of a task.

    Attributes
    ----------
    job : str
    task : int
    device : str
        As the task itself calls it: ``"cpu"``, ``"sim:0"``.
    """

    job: str
    task: int
    device: str = "cpu"

    @property
    def peer(self) -> str:
        """What the task's endpoint is called: ``"worker:1"``."""
        return f"{self.job}:{self.task}"

    def __str__(self) -> str:
        return f"/job:{self.job}/task:{self.task}/{'cpu:0' if self.device == 'cpu' else self.device}"


@dataclass(frozen=True)
class Asked:
    """What a device name says; None for what it leaves open."""

    job: str | None = None
    task: int | None = None
    device: str | None = None

    @property
    def names_a_task(self) -> bool:
        return self.job is not None or self.task is not None


def parse(name: str) -> Asked:
    """What a device name says: all of ``"/job:ps/task:0/cpu:0"``, or a part, such as ``"/job:ps"`` or ``"sim:1"``.

    Raises
    ------
    DeviceError
        It is no device name.
    """
    found: dict[str, str] = {}
    position = 0
    while isinstance(name, str) and position < len(name):
        part = _PART.match(name, position)
        if part is None or any(key in found for key, value in part.groupdict().items() if value is not None):
            break
        found.update({key: value for key, value in part.groupdict().items() if value is not None})
        position = part.end()
    if not isinstance(name, str) or not name or position < len(name):
        raise DeviceError(
            f"device: {name!r} is no device name; write '/job:worker/task:1/sim:0', or a part: '/job:ps', 'sim:0'."
        )
    local = found.get("device", "").lower()
    if local in ("cpu", "cpu:0"):
        local = "cpu"
    elif local:
        local = local if ":" in local else f"{local}:0"
        if local.startswith("cpu"):
            raise DeviceError(f"device: {name!r}: a task has one cpu, cpu:0; its cores are threads of the session.")
    return Asked(found.get("job"), int(found["task"]) if "task" in found else None, local or None)


class ClusterSpec:
    """The tasks of a cluster, by job.

    Parameters
    ----------
    jobs : mapping of str to sequence of str
        The address of each task: ``{"worker": ["tcp://10.0.0.1:2222", "tcp://10.0.0.2:2222"], "ps": [...]}``.

    Raises
    ------
    ValueError
        No task at all, a job without a proper name, or one address twice.
    TypeError
        An address is no string.
    """

    def __init__(self, jobs: Mapping[str, Sequence[str]]) -> None:
        if not isinstance(jobs, Mapping) or not jobs:
            raise ValueError("cluster: expected a dict from job to addresses: {'worker': ['tcp://127.0.0.1:2222']}.")
        self.jobs = {job: list(addresses) for job, addresses in jobs.items()}
        where: dict[str, str] = {}
        for job, addresses in self.jobs.items():
            if not isinstance(job, str) or not re.fullmatch(r"[A-Za-z][\w-]*", job):
                raise ValueError(f"cluster: a job is called by letters, digits and _, such as 'worker'; got {job!r}.")
            if isinstance(jobs[job], str) or not addresses:
                raise ValueError(f"cluster: the job {job!r} needs a list of addresses, one for each task.")
            for task, address in enumerate(addresses):
                if not isinstance(address, str) or not address:
                    raise TypeError(f"cluster: the address of {job}:{task} must be a string, got {address!r}.")
                if address in where:
                    raise ValueError(f"cluster: {where[address]} and {job}:{task} have the same address, {address}.")
                where[address] = f"{job}:{task}"

    @property
    def tasks(self) -> list[tuple[str, int]]:
        return [(job, task) for job, addresses in self.jobs.items() for task in range(len(addresses))]

    def address(self, job: str, task: int) -> str:
        """Where a task listens.

        Raises
        ------
        DeviceError
            There is no such job or task; says which there are.
        """
        if job not in self.jobs:
            raise DeviceError(f"cluster: there is no job {job!r}; there are {', '.join(self.jobs)}.")
        if not 0 <= task < len(self.jobs[job]):
            raise DeviceError(f"cluster: the job {job!r} has no task {task}; it has 0 to {len(self.jobs[job]) - 1}.")
        return self.jobs[job][task]

    def place(self, name: str | None, default: Place) -> Place:
        """The device that a name means; what it leaves open is task 0, the cpu, or all of `default`.

        Raises
        ------
        DeviceError
            No device name, or no such job, task or device.
        """
        asked = Asked() if name is None else parse(name)
        if asked.names_a_task:
            job = asked.job if asked.job is not None else default.job
            task = asked.task if asked.task is not None else 0
        else:
            job, task = default.job, default.task
        self.address(job, task)
        local = asked.device or (default.device if not asked.names_a_task else "cpu")
        if local.startswith("sim"):
            device(local)  # simulated accelerators are everywhere; whether there is a GPU, its task knows
        return Place(job, task, local)

    def check_same(self, other: ClusterSpec, one: str, two: str) -> None:
        """Refuse to work with a task that was started with another cluster.

        Raises
        ------
        MismatchError
            Names the first job or address that differs.
        """
        for job in dict.fromkeys([*self.jobs, *other.jobs]):
            mine, yours = self.jobs.get(job), other.jobs.get(job)
            if mine != yours:
                raise MismatchError(
                    f"{one} and {two} were started with different clusters: job {job!r} is {mine or 'absent'} for "
                    f"{one} and {yours or 'absent'} for {two}. Start all tasks with the same one."
                )

    def __iter__(self) -> Iterator[str]:
        return iter(self.jobs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self.jobs == other.jobs

    def __hash__(self) -> int:
        return hash(tuple((job, *addresses) for job, addresses in self.jobs.items()))

    def __repr__(self) -> str:
        return f"ClusterSpec({self.jobs})"
