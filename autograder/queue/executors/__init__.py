"""Where gradings run: in this process, in processes of this machine, on a Dask cluster."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from autograder.queue.grading import Outcome, Work

KINDS = ("process", "pool", "dask", "kubernetes")


class Executor(Protocol):
    """What a worker hands its work to."""

    @property
    def slots(self) -> int:
        """How many gradings it takes at a time."""

    def submit(self, work: Work) -> Future[Outcome]:
        """Begin to grade; never raises. What goes wrong is a `Fault` in the future."""

    def cancel(self, future: Future[Outcome]) -> None:
        """Give a grading up, and end it if that can be. Its future may never come to an end."""

    def close(self) -> None:
        """End everything that was started for this."""
