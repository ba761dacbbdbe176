"""Gradings in threads of this process: nothing to start, and nothing that can be ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from autograder.queue.grading import Fault, Outcome, Work, grade


class Here:
    """For one machine with little to do, and for tests.

    A grading that is given up runs on in its thread, unheard, until its sandbox's limits end it.

    Parameters
    ----------
    run : callable
        Grades; by default with this process's own grader.
    """

    def __init__(self, slots: int = 1, run: Callable[[Work], Outcome] = grade) -> None:
        if slots < 1:
            raise ValueError(f"slots {slots}: give at least 1")
        self.slots, self._run = slots, run

    def submit(self, work: Work) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_running_or_notify_cancel()
        # A thread of its own each: one that never returns must not be waited for, nor take another's place.
        threading.Thread(
            target=self._grade, args=(work, future), name=f"grading {work.submission_id}", daemon=True
        ).start()
        return future

    def _grade(self, work: Work, future: Future[Outcome]) -> None:
        try:
            outcome = self._run(work)
        except BaseException as error:  # noqa: BLE001  whatever it is, the worker must hear of it
            outcome = Fault(f"A fault in the autograder: {type(error).__name__}: {error}")
        future.set_result(outcome)

    def cancel(self, future: Future[Outcome]) -> None:
        """It can't be ended; its result is left alone."""

    def close(self) -> None:
        """Nothing was started."""
