"""One loaded version: its queue, its batches and its worker processes, on an asyncio loop."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from internals.deploy.errors import SignatureError
from internals.deploy.serve.batcher import Batcher, Request
from internals.deploy.serve.errors import ModelFailed, QueueFull, ServeError, TooLate, Unavailable
from internals.deploy.serve.joining import Joiner
from internals.deploy.serve.process import WorkerDied
from internals.deploy.serve.workers import Outcome, Pool, Program, Worker

log = logging.getLogger("internals.deploy.serve")

Arrays = Mapping[str, np.ndarray]

TRIES = 3
"""How often a request is given to a process. Two may die for reasons of their own; three name the request."""


@dataclass(eq=False)
class Job:
    """A request's arrays, and who is told what came of it."""

    signature: str
    arrays: Arrays
    done: Callable[[Outcome], None] | None
    deadline: float
    among: set[Job]
    tries: int = 0

    @property
    def over(self) -> bool:
        """Whether nobody waits any more."""
        return self.done is None

    def end(self, outcome: Outcome | None = None) -> None:
        """Tell it, the first time; without an outcome, nobody wants to hear."""
        done, self.done = self.done, None
        self.among.discard(self)
        if done is not None and outcome is not None:
            done(outcome)


@dataclass
class Observed:
    """Whom a runner tells what it does; each is called with plain numbers.

    Attributes
    ----------
    batch : callable of (rows, requests, began, ended)
        After each batch; seconds of the loop's clock.
    lost : callable of str
        The processes die and can't be started again.
    """

    batch: Callable[[int, int, float, float], None] = field(default=lambda rows, requests, began, ended: None)
    lost: Callable[[str], None] = field(default=lambda reason: None)


class Runner:
    """Answers requests with one version of a model.

    Parameters
    ----------
    program : Program
    workers : int
        Processes.
    batcher : Batcher
        Anything with its methods `submit`, `take`, `next_due`, `expire`, `cancel`, `clear`.
    fill : mapping of str to number
        Open sizes that are padded; see `Joiner`.
    observed : Observed, optional

    Attributes
    ----------
    labels : list of str
        Of the classes, once it is started.
    """

    def __init__(
        self,
        program: Program,
        workers: int,
        batcher: Batcher,
        fill: Mapping[str, float] | None = None,
        observed: Observed | None = None,
    ) -> None:
        self.batcher, self.observed = batcher, observed or Observed()
        self.pool = Pool(program, workers, self._dispatch_on, self._lost)
        self.joiners: dict[str, Joiner] = {}
        self.labels: list[str] = []
        self.running = 0
        self._fill = dict(fill or {})
        self._timer: asyncio.TimerHandle | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._jobs: set[Job] = set()
        self._dead = ""

    @property
    def signatures(self) -> dict[str, Any]:
        """By name."""
        return {name: joiner.signature for name, joiner in self.joiners.items()}

    async def start(self) -> None:
        """Load in every worker.

        Raises
        ------
        FormatError, ServeError
        """
        await self.pool.start()
        first = self.pool.workers[0]
        self.labels = first.labels
        self.joiners = {name: Joiner(one, self._fill) for name, one in first.signatures.items()}

    async def predict(self, signature: str, arrays: Arrays, deadline: float = math.inf) -> dict[str, np.ndarray]:
        """`submit`, and wait for what comes of it. A task that is cancelled takes its request out of the queue.

        Raises
        ------
        QueueFull, TooLate, Unavailable, ModelFailed, SignatureError
        """
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        request = self.submit(
            signature, arrays, deadline, lambda outcome: None if answer.done() else answer.set_result(outcome)
        )
        try:
            outcome = await answer
        finally:
            self.cancel(request)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def submit(self, signature: str, arrays: Arrays, deadline: float, done: Callable[[Outcome], None]) -> Request:
        """Put a request into the queue.

        Parameters
        ----------
        signature : str
        arrays : mapping of str to array
            As the signature says.
        deadline : float
            In seconds of the loop's clock.
        done : callable
            Called once and later, with the results or with why there are none; unless it is cancelled before.

        Raises
        ------
        QueueFull, TooLate, Unavailable, SignatureError
        """
        if self._dead:
            raise Unavailable(self._dead)
        if deadline <= asyncio.get_running_loop().time():
            raise TooLate("the deadline came before the request was queued.")
        joiner = self.joiners[signature]
        job = Job(signature, arrays, done, deadline, self._jobs)
        request = Request(joiner.rows(arrays), (signature, joiner.key(arrays)), deadline, job, alone=not joiner.batched)
        self._queue(request)
        self._jobs.add(job)
        self._look_at(deadline)
        self._dispatch()
        return request

    def _queue(self, request: Request) -> None:
        now = asyncio.get_running_loop().time()
        try:
            self.batcher.submit(now, request)
        except QueueFull:
            if self.pool.free() is None:
                raise
            self._dispatch()  # who only lingered makes room
            self.batcher.submit(now, request)

    def cancel(self, request: Request) -> None:
        """Nobody waits for the answer any more."""
        if not request.payload.over:
            request.payload.end()
            self.batcher.cancel(request)

    def _look_at(self, deadline: float) -> None:
        """See to it that a deadline is noticed; one timer for all, for nearly all are answered long before."""
        if deadline < math.inf and (self._expiry is None or self._expiry.when() > deadline):
            if self._expiry is not None:
                self._expiry.cancel()
            self._expiry = asyncio.get_running_loop().call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        now = asyncio.get_running_loop().time()
        for job in [one for one in self._jobs if one.deadline <= now]:
            job.end(TooLate("the deadline came before the answer."))
        self.batcher.expire(now)
        self._look_at(min((one.deadline for one in self._jobs), default=math.inf))

    def _dispatch(self) -> None:
        """Give out batches while workers are free; come back when the next is due."""
        loop = asyncio.get_running_loop()
        while (due := self.batcher.next_due()) is not None and (worker := self.pool.free()) is not None:
            batch = self.batcher.take(loop.time())
            if batch:
                self._run(worker, batch)
                continue
            if self._timer is None or self._timer.when() > due:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = loop.call_at(due, self._is_due)
            return

    def _is_due(self) -> None:
        self._timer = None
        self._dispatch_on()

    def _dispatch_on(self) -> None:
        """The same where nobody is there to hear of a batcher of one's own that fails; who waits has a deadline."""
        try:
            self._dispatch()
        except Exception:
            log.exception(
                "the batcher failed", extra={"about": {"event": "error", "batcher": type(self.batcher).__name__}}
            )

    def _run(self, worker: Worker, batch: Sequence[Request]) -> None:
        jobs = [one.payload for one in batch]
        given = [job.arrays for job in jobs]
        signature = jobs[0].signature
        try:
            arrays = self.joiners[signature].join(given)
            self.pool.run(
                worker, signature, arrays, partial(self._ran, batch, given, asyncio.get_running_loop().time())
            )
        except Exception as error:  # noqa: BLE001 - whatever it was, nobody may wait for ever
            asyncio.get_running_loop().call_soon(self._refuse, batch, ModelFailed(f"{type(error).__name__}: {error}"))
            return
        self.running += 1

    def _ran(self, batch: Sequence[Request], given: Sequence[Arrays], began: float, outcome: Outcome) -> None:
        self.running -= 1
        self._dispatch_on()  # first, so that the worker has work while answers are written
        if isinstance(outcome, WorkerDied):
            self._retry(batch, outcome)
        elif isinstance(outcome, Exception):
            self._refuse(batch, outcome)
        else:
            try:
                answers = self.joiners[batch[0].payload.signature].split(given, outcome)
            except Exception as error:  # noqa: BLE001 - a model may give anything
                self._refuse(batch, ModelFailed(f"{type(error).__name__}: {error}"))
                return
            self.observed.batch(sum(one.rows for one in batch), len(batch), began, asyncio.get_running_loop().time())
            for request, answer in zip(batch, answers, strict=True):
                request.payload.end(answer)

    def _retry(self, batch: Sequence[Request], error: WorkerDied) -> None:
        """Each request again and alone, so that one that kills the process does not take others with it."""
        for request in batch:
            job = request.payload
            job.tries += 1
            if job.over:
                continue
            if job.tries >= TRIES:
                job.end(Unavailable(f"{error}, {TRIES} times with this request.", retry_after=1))
                continue
            request.alone = True
            request.key = (*request.key, "again", id(request))  # type: ignore[misc]
            try:
                self._queue(request)
            except Exception as full:  # noqa: BLE001 - see `_dispatch_on`
                why = "is full" if isinstance(full, QueueFull) else f"failed: {full!r}"
                job.end(Unavailable(f"{error}, and the queue {why}.", retry_after=1))
        self._dispatch_on()

    def _refuse(self, batch: Sequence[Request], error: SignatureError | ServeError) -> None:
        if len(batch) > 1 and isinstance(error, ModelFailed | SignatureError):
            # Of several, one may be at fault: each gets its own answer.
            self._retry(batch, WorkerDied(f"the model failed on a batch: {error}"))
            return
        for request in batch:
            request.payload.end(error)

    def _lost(self, reason: str) -> None:
        self._dead = f"its worker processes can't be started again: {reason}"
        self._refuse_all(Unavailable(self._dead))
        self.observed.lost(self._dead)

    def _refuse_all(self, error: ServeError) -> None:
        for request in self.batcher.clear():
            request.payload.end(error)

    def close(self) -> None:
        """End the processes; who still waits is refused."""
        for timer in (self._timer, self._expiry):
            if timer is not None:
                timer.cancel()
        self._refuse_all(Unavailable("the version was taken away."))
        self.pool.close()
