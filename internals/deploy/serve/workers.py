"""Processes that run one version of a model, restarted when they die: a crash of the model is never one of the server.

Each version has processes of its own, so that it loads beside the others, and goes with all its memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np

from internals.deploy.errors import FormatError, SignatureError
from internals.deploy.saved.signature import Signature
from internals.deploy.serve.errors import ModelFailed, ServeError
from internals.deploy.serve.process import Answered, Process, WorkerDied
from internals.deploy.serve.servable import signatures_of
from internals.deploy.serve.worker import frame

Outcome = dict[str, np.ndarray] | SignatureError | ServeError
"""What comes of a batch: results, or why there are none."""
PATIENCE = (0.0, 0.5, 2.0, 5.0)
"""Seconds before each attempt to start again a process that died; then, if it has no other, the version has failed."""
log = logging.getLogger("internals.deploy.serve")


@dataclass(frozen=True)
class Program:
    """What a worker process is to load.

    Attributes
    ----------
    directory : Path
        Of the version.
    loader : str or None
        See `servable_at`.
    rows : int
        Of the largest batch, to warm up with.
    threads : int
        For the linear algebra of one process.
    limit, loading : float
        Seconds that one batch, and loading with its warm-up, may take.
    """

    directory: Path
    loader: str | None = None
    rows: int = 1
    threads: int = 1
    limit: float = 60.0
    loading: float = 300.0


class Worker(Process):
    """A process that has loaded a version."""

    def __init__(self, program: Program) -> None:
        super().__init__("internals.deploy.serve.worker", "the model", program.threads)
        self.program = program
        self.busy, self.is_loaded = True, False
        self.labels: list[str] = []
        self.signatures: dict[str, Signature] = {}

    async def start(self) -> None:
        """Start the process, load and warm up.

        Raises
        ------
        FormatError
            The model can't be loaded, or fails as it is warmed up; says why.
        WorkerDied
            The process ended.
        """
        await self.begin()
        ask = {
            "directory": os.path.abspath(self.program.directory),
            "loader": self.program.loader,
            "rows": self.program.rows,
            "path": [one for one in sys.path if one],
        }
        answer, _ = await self.ask(frame(ask), "load", self.program.loading)
        if "error" in answer:
            raise FormatError(answer["error"])
        self.labels, self.signatures = answer["labels"], signatures_of(answer["signatures"])
        self.busy, self.is_loaded = False, True

    def run(self, signature: str, arrays: Mapping[str, np.ndarray], done: Callable[[Outcome], None]) -> None:
        """Run one batch.

        Parameters
        ----------
        signature : str
        arrays : mapping of str to array
        done : callable
            Called with the results; or with `SignatureError` if the arrays don't fit, `ModelFailed` if the model raised
            an error or took too long, `WorkerDied` if the process ended before it answered.
        """

        def ran(outcome: Answered | ServeError) -> None:
            if isinstance(outcome, ServeError):
                done(outcome)
                return
            answer, results = outcome
            if "error" in answer:
                done((SignatureError if answer.get("bad_request") else ModelFailed)(answer["error"]))
            else:
                done(results)

        self.send(frame({"signature": signature}, arrays), "run", self.program.limit, ran)


class Pool:
    """The processes of one version.

    Parameters
    ----------
    program : Program
    count : int
    changed : callable
        Called when a process that was started again is ready.
    lost : callable of str
        Called when processes die and can't be started again, with the reason.
    """

    def __init__(self, program: Program, count: int, changed: Callable[[], None], lost: Callable[[str], None]) -> None:
        self.program, self.changed, self.lost = program, changed, lost
        self.workers = [Worker(program) for _ in range(count)]
        self.restarts = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def start(self) -> None:
        """Start all; they load at the same time.

        Raises
        ------
        FormatError, WorkerDied, ModelFailed
            One of them can't; none is left running.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for worker in self.workers:
                    group.create_task(worker.start())
        except BaseExceptionGroup as group_of:
            self.close()
            raise group_of.exceptions[0] from None
        except BaseException:
            self.close()
            raise

    def free(self) -> Worker | None:
        """A worker that has nothing to do. One that died while it was idle is replaced, and takes no request along."""
        for worker in list(self.workers):
            if worker.busy:
                continue
            if not worker.is_gone:
                return worker
            self._replace(worker)
        return None

    def run(
        self, worker: Worker, signature: str, arrays: Mapping[str, np.ndarray], done: Callable[[Outcome], None]
    ) -> None:
        """Run one batch on a free worker, see `Worker.run`; a process that dies, or is stopped, is replaced."""

        def ran(outcome: Outcome) -> None:
            if isinstance(outcome, WorkerDied) or (isinstance(outcome, ModelFailed) and worker.is_dead):
                self._replace(worker)
            else:
                worker.busy = False
            done(outcome)

        worker.run(signature, arrays, ran)
        worker.busy = True

    def _replace(self, worker: Worker) -> None:
        worker.kill()
        if self._closed:
            return
        self.restarts += 1
        task = asyncio.ensure_future(self._again(self._in_place_of(worker)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _in_place_of(self, worker: Worker) -> Worker:
        self.workers[self.workers.index(worker)] = fresh = Worker(self.program)
        return fresh

    async def _again(self, worker: Worker) -> None:
        for number in count():
            await asyncio.sleep(PATIENCE[min(number, len(PATIENCE) - 1)])
            try:
                await worker.start()
            except (FormatError, ServeError, OSError) as error:
                worker.kill()
                about = {"event": "restart", "directory": str(self.program.directory), "error": str(error)}
                log.error("a worker was not started again", extra={"about": about})
                # While the version has others it answers, and what is missing may come.
                if number + 1 >= len(PATIENCE) and not any(one.is_loaded for one in self.workers):
                    self.lost(str(error))
                    return
                worker = self._in_place_of(worker)
            else:
                self.changed()
                return

    def close(self) -> None:
        """End all processes."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        for worker in self.workers:
            worker.kill()
