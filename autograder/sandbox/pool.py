"""Start sandboxes, and keep spare ones ready so that the next request needn't wait for one to start."""

from __future__ import annotations

from collections import deque
from types import TracebackType

from autograder.sandbox import canary
from autograder.sandbox.box import Box
from autograder.spec import Lab


def open(lab: Lab, *, kind: str | None = None) -> Box:
    """Start a sandbox for the lab; returns at once, the sandbox warms up meanwhile.

    Parameters
    ----------
    lab : Lab
    kind : str or None
        None takes the best kind for official grading.

    Raises
    ------
    SandboxUnavailable
        No kind, or not this one, has proven itself here.
    """
    return Box(lab, kind or canary.best("official"))


class Pool:
    """A few sandboxes of one lab, started and unused.

    Parameters
    ----------
    lab : Lab
    kind : str or None
    size : int
        How many wait.
    """

    def __init__(self, lab: Lab, *, kind: str | None = None, size: int = 1) -> None:
        self._lab, self._kind = lab, kind or canary.best("official")
        self._spare = deque(open(lab, kind=self._kind) for _ in range(size))

    def take(self) -> Box:
        """A sandbox nobody has used; another is started in its place. The taker closes it."""
        self._spare.append(open(self._lab, kind=self._kind))
        return self._spare.popleft()

    def close(self) -> None:
        """End the spare sandboxes."""
        while self._spare:
            self._spare.pop().close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
