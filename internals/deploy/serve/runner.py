"""One loaded version: its queue, its batches and its worker processes, on an asyncio loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals.deploy.errors import SignatureError
from internals.deploy.serve.batcher import Batcher, Request
from internals.deploy.serve.errors import ModelFailed, ServeError, TooLate, Unavailable
from internals.deploy.serve.joining import Joiner
from internals.deploy.serve.process import WorkerDied
from internals.deploy.serve.workers import Pool, Program, Worker

Arrays = Mapping[str, np.ndarray]

TRIES = 3
"""How often a request is given to a process. Two may die for reasons of their own; three name the request."""


@dataclass(eq=False)
class Job:
    """A request's arrays, and where its answer goes."""

    signature: str
    arrays: Arrays
    answer: asyncio.Future[dict[str, np.ndarray]]
    tries: int = 0


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
        self.pool = Pool(program, workers, self._dispatch, self._lost)
        self.joiners: dict[str, Joiner] = {}
        self.running = 0
        self._fill = dict(fill or {})
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._dead = ""

    @property
    def signatures(self) -> dict[str, Any]:
        """By name."""
        return {name: joiner.signature for name, joiner in self.joiners.items()}

    @property
    def labels(self) -> list[str]:
        """Of the classes."""
        return self.pool.workers[0].labels or next((one.labels for one in self.pool.workers if one.labels), [])

    async def start(self) -> None:
        """Load in every worker.

        Raises
        ------
        FormatError, ServeError
        """
        await self.pool.start()
        signatures = self.pool.workers[0].signatures
        self.joiners = {name: Joiner(one, self._fill) for name, one in signatures.items()}

    async def predict(self, signature: str, arrays: Arrays, deadline: float = math.inf) -> dict[str, np.ndarray]:
        """Wait for the answer to a request. A task that is cancelled takes its request out of the queue.

        Parameters
        ----------
        signature : str
        arrays : mapping of str to array
            As the signature says.
        deadline : float
            In seconds of the loop's clock.

        Raises
        ------
        QueueFull, TooLate, Unavailable, ModelFailed, SignatureError
        """
        if self._dead:
            raise Unavailable(self._dead)
        loop = asyncio.get_running_loop()
        now = loop.time()
        if deadline <= now:
            raise TooLate("the deadline came before the request was queued.")
        joiner = self.joiners[signature]
        job = Job(signature, arrays, loop.create_future())
        request = Request(joiner.rows(arrays), (signature, joiner.key(arrays)), deadline, job, alone=not joiner.batched)
        self.batcher.submit(now, request)
        timer = loop.call_at(deadline, self._late, request) if deadline < math.inf else None
        self._dispatch()
        try:
            return await job.answer
        finally:
            if timer is not None:
                timer.cancel()
            self.batcher.cancel(request)

    def _late(self, request: Request) -> None:
        self.batcher.expire(asyncio.get_running_loop().time())
        if not request.payload.answer.done():
            request.payload.answer.set_exception(TooLate("the deadline came before the answer."))

    def _dispatch(self) -> None:
        """Give out batches while workers are free; come back when the next is due."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while (worker := self.pool.free()) is not None:
            batch = self.batcher.take(loop.time())
            if not batch:
                due = self.batcher.next_due()
                if due is not None:
                    self._timer = loop.call_at(due, self._dispatch)
                return
            worker.busy = True
            task = loop.create_task(self._run(worker, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, worker: Worker, batch: Sequence[Request]) -> None:
        jobs = [one.payload for one in batch]
        joiner = self.joiners[jobs[0].signature]
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.running += 1
        try:
            given = [job.arrays for job in jobs]
            results = await self.pool.run(worker, jobs[0].signature, joiner.join(given))
            answers = joiner.split(given, results)
        except WorkerDied as error:
            self._retry(batch, error)
        except (SignatureError, ServeError) as error:
            self._refuse(batch, error)
        except Exception as error:  # noqa: BLE001 - whatever it was, nobody may wait for ever
            self._refuse(batch, ModelFailed(f"{type(error).__name__}: {error}"))
        else:
            for job, answer in zip(jobs, answers, strict=True):
                if not job.answer.done():
                    job.answer.set_result(answer)
            self.observed.batch(sum(one.rows for one in batch), len(batch), began, loop.time())
        finally:
            self.running -= 1
            self._dispatch()

    def _retry(self, batch: Sequence[Request], error: WorkerDied) -> None:
        """Each request again and alone, so that one that kills the process does not take others with it."""
        for request in batch:
            job = request.payload
            job.tries += 1
            if job.answer.done():
                continue
            if job.tries >= TRIES:
                job.answer.set_exception(Unavailable(f"{error}, {TRIES} times with this request.", retry_after=1))
                continue
            request.alone = True
            request.key = (*request.key, "again", id(request))  # type: ignore[misc]
            try:
                self.batcher.submit(asyncio.get_running_loop().time(), request)
            except ServeError:
                job.answer.set_exception(Unavailable(f"{error}, and the queue is full.", retry_after=1))

    def _refuse(self, batch: Sequence[Request], error: Exception) -> None:
        if len(batch) > 1 and isinstance(error, ModelFailed | SignatureError):
            # Of several, one may be at fault: each gets its own answer.
            self._retry(batch, WorkerDied(f"the model failed on a batch: {error}"))
            return
        for request in batch:
            if not request.payload.answer.done():
                request.payload.answer.set_exception(error)

    def _lost(self, reason: str) -> None:
        if any(not one.busy for one in self.pool.workers) or self.running:
            return
        self._dead = f"its worker processes can't be started again: {reason}"
        self._refuse_all(Unavailable(self._dead))
        self.observed.lost(self._dead)

    def _refuse_all(self, error: ServeError) -> None:
        for request in self.batcher.clear():
            if not request.payload.answer.done():
                request.payload.answer.set_exception(error)

    def close(self) -> None:
        """End the processes; who still waits is refused."""
        if self._timer is not None:
            self._timer.cancel()
        self._refuse_all(Unavailable("the version was taken away."))
        self.pool.close()
