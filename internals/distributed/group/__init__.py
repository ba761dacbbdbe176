"""A job: ranks 0 to n - 1, each with an endpoint, all able to reach one another."""

from internals.distributed.group.member import Group
from internals.distributed.group.processes import run_processes
from internals.distributed.group.rendezvous import join
from internals.distributed.group.threads import run_threads

__all__ = ["Group", "join", "run_processes", "run_threads"]
