"""A job: ranks 0 to n - 1, each with an endpoint, all able to reach one another."""

from internals.distributed.group.member import Group
from internals.distributed.group.threads import run_threads

__all__ = ["Group", "run_threads"]
