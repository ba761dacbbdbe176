"""A worker: takes jobs from the queue, has an executor grade them, and records what came of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass

from autograder.gradebook import Gradebook, GradebookError, GradebookTooNew, open_gradebook
from autograder.queue import holders, taking
from autograder.queue.executors import Executor
from autograder.queue.grading import Fault, Outcome
from autograder.queue.leases import Watchman
from autograder.queue.taking import Lease, Patience
from autograder.report import Report

LEASE = 30.0
LIMIT = 900.0
POLL = 0.2
SLOWEST = 10.0
"""Seconds between two tries to reach a database that is gone."""


@dataclass
class _Running:
    lease: Lease
    since: float


class Worker:
    """Grades until it is told to stop.

    Parameters
    ----------
    where : str
        The gradebook's address or file.
    executor : Executor
    lease : float
        Seconds this worker may stand still before others take its jobs.
    limit : float
        Seconds a grading may take; then it is ended and tried again. Above all limits of the labs: what it ends is a
        fault of the grader or its machine, not a learner's endless loop.
    poll : float
        Seconds between two looks into an empty queue.
    until_empty : bool
        Whether to end as soon as nothing is left to take.
    tell : callable, optional
        Told in a sentence what happens.
    """

    def __init__(
        self,
        where: str,
        executor: Executor,
        *,
        lease: float = LEASE,
        limit: float = LIMIT,
        poll: float = POLL,
        patience: Patience = taking.STANDARD,
        until_empty: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        if min(lease, limit, poll) <= 0:
            raise ValueError(f"lease {lease:g}, limit {limit:g}, poll {poll:g}: seconds, more than 0")
        self.executor = executor
        self.graded = self.failed = 0
        self._where, self._lease, self._limit, self._poll = where, lease, limit, poll
        self._patience, self._until_empty, self._tell = patience, until_empty, tell or (lambda sentence: None)
        self._stop, self._now = threading.Event(), threading.Event()
        self._running: dict[Future[Outcome], _Running] = {}
        self._unwritten: list[tuple[Lease, Outcome]] = []
        self._watchman = Watchman(patience=patience)
        self._trouble = ""
        self._last_beat = float("-inf")

    def stop(self, *, at_once: bool = False) -> None:
        """Take nothing more; finish what is at work, or with `at_once` give it back."""
        self._stop.set()
        if at_once:
            self._now.set()

    def run(self) -> int:
        """Work; returns how many reports were recorded.

        Raises
        ------
        GradebookError
            The gradebook can't be opened at the start. Later it is waited for.
        """
        with open_gradebook(self._where) as book:
            try:
                while not self._step(book):
                    pass
            finally:
                self._leave(book)
                self.executor.close()
        return self.graded

    def _step(self, book: Gradebook) -> bool:
        """Do all that can be done now, and wait for a while; whether this was the end."""
        self._collect()
        moment = time.monotonic()
        try:
            self._write(book)
            if moment - self._last_beat >= self._lease / 4:
                self._keep(book)
                self._last_beat = moment
            taken = 0 if self._stop.is_set() else self._take(book)
        except GradebookTooNew:
            raise
        except GradebookError as error:
            if not self._trouble:
                self._tell(f"{error} What is graded is kept and recorded as soon as that is put right.")
            self._trouble = str(error)
            self._pause(min(SLOWEST, 5 * self._poll))
            return self._now.is_set()
        if self._trouble:
            self._tell(f"The gradebook {book.where} is there again.")
            self._trouble = ""
        idle = not self._running and not self._unwritten
        if self._now.is_set() or (idle and self._stop.is_set()):
            return True
        if idle and not taken and self._until_empty and not self._more(book):
            return True
        self._pause(self._poll)
        return False

    def _pause(self, seconds: float) -> None:
        if self._running:
            wait(list(self._running), timeout=seconds, return_when=FIRST_COMPLETED)
        elif not self._stop.is_set():
            self._stop.wait(seconds)
        else:
            time.sleep(min(seconds, 0.05))

    def _more(self, book: Gradebook) -> bool:
        """Whether something waits for a time to come, or for another worker that may have died."""
        from autograder.queue.views import counts

        found = counts(book)
        return found["waiting"] + found["leased"] > 0

    def _take(self, book: Gradebook) -> int:
        free = self.executor.slots - len(self._running) - len(self._unwritten)
        if free <= 0:
            return 0
        leases = taking.claim(book, holders.me(), limit=free, seconds=self._lease)
        for lease in leases:
            self._running[self.executor.submit(lease.work)] = _Running(lease, time.monotonic())
        return len(leases)

    def _collect(self) -> None:
        """Fetch what is done, and give up on what takes too long."""
        for future, running in list(self._running.items()):
            if future.done():
                del self._running[future]
                self._unwritten.append((running.lease, _outcome(future)))
            elif time.monotonic() - running.since > self._limit:
                del self._running[future]
                self.executor.cancel(future)
                fault = Fault(f"Its grading did not end within {self._limit:g} s, and was ended.")
                self._unwritten.append((running.lease, fault))

    def _write(self, book: Gradebook) -> None:
        while self._unwritten:
            lease, outcome = self._unwritten[0]
            what = f"submission {lease.work.submission_id} ({lease.work.lab}, {lease.work.learner})"
            if isinstance(outcome, Fault):
                known = taking.fail(book, lease, outcome, self._patience)
                self.failed += known
                self._tell(f"{what}: {outcome.words}")
            else:
                known = self._record(book, lease, outcome)
                self.graded += known
                self._tell(f"{what}: {'graded' if known else 'another worker has it by now; this grading is dropped'}")
            del self._unwritten[0]

    def _record(self, book: Gradebook, lease: Lease, report: str) -> bool:
        try:
            return taking.finish(book, lease, Report.from_json(report), self._patience)
        except GradebookError as error:
            if error.__cause__ is not None:  # the database's; it will be there again
                raise
            fault = Fault(f"Its report cannot be recorded: {error}", final=True)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            fault = Fault(f"What the grader sent is no report: {type(error).__name__}: {error}")
        taking.fail(book, lease, fault, self._patience)
        return False

    def _keep(self, book: Gradebook) -> None:
        """Move our own leases, drop what is not ours any more, and look for those that others let lie."""
        ours = [running.lease for running in self._running.values()] + [lease for lease, _ in self._unwritten]
        lost = taking.beat(book, ours) if ours else set()
        for future, running in list(self._running.items()):
            if running.lease.job_id in lost:
                del self._running[future]
                self.executor.cancel(future)
                self._tell(f"job {running.lease.job_id}: it was taken from this worker; its grading is ended.")
        for job_id in self._watchman.look(book, {lease.token for lease in ours}):
            self._tell(f"job {job_id}: its worker is gone; it goes back into the queue.")

    def _leave(self, book: Gradebook) -> None:
        """On the way out: what is done is recorded, what is not goes back into the queue."""
        self._collect()
        try:
            self._write(book)
            for future, running in self._running.items():
                self.executor.cancel(future)
                taking.give_back(book, running.lease)
        except GradebookError as error:
            self._tell(f"{error} Other workers take over what this one had when its leases have run out.")
        self._running.clear()


def _outcome(future: Future[Outcome]) -> Outcome:
    try:
        return future.result(timeout=0)
    except BaseException as error:  # noqa: BLE001  an executor's fault concerns this grading alone
        return Fault(f"A fault in the executor: {type(error).__name__}: {error}")
