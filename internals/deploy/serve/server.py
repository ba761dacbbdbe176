"""All the models of a directory: found, loaded, switched and dropped while requests are answered."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from internals.deploy.errors import FormatError, SignatureError
from internals.deploy.serve.batcher import Batcher
from internals.deploy.serve.bodies import Bodies
from internals.deploy.serve.errors import BadRequest, NotFound, ServeError, Unavailable
from internals.deploy.serve.metrics import Metrics
from internals.deploy.serve.minute import Minute
from internals.deploy.serve.registry import AVAILABLE, FAILED, LOADING, MARKERS, Found, Model, Version, models_in
from internals.deploy.serve.runner import Observed, Runner
from internals.deploy.serve.workers import Program

Arrays = Mapping[str, np.ndarray]

log = logging.getLogger("internals.deploy.serve")

LINGER = 0.001
"""Seconds that a version with one worker lingers, unless the settings say otherwise."""


@dataclass(frozen=True)
class Settings:
    """How to serve.

    Attributes
    ----------
    size, wait, queue, linger
        See `Batcher`; of each version. Without a number, `linger` is `LINGER` for one worker and 0 for several.
    workers : int
        Processes of each version.
    threads : int
        Of a process, for linear algebra; 0 divides the processors among the workers of a version, and leaves one to the
        server itself: where they fight for processors, every thread of a product waits for the one that has none.
    fill : mapping of str to number
        Open sizes that are padded, and with what; see `Joiner`.
    keep : int
        Versions of each model that stay loaded.
    poll : float
        Seconds between looks at the directory; 0 is never.
    deadline : float
        Most seconds of a request; it may ask for fewer.
    largest : int
        Bytes of a body.
    bodies : int
        Bytes of all bodies that have come and are not answered, and of answers that their clients are slow to read; a
        body that would be more is refused.
    connections : int
        Most connections at once; others are answered that the server is full.
    limit, loading : float
        Seconds that a batch or the JSON of a large body, and loading with its warm-up, may take.
    idle : float
        Seconds that a connection may take for a request's header or body, or be silent.
    finite : bool
        Refuse NaN and infinity in what comes in.
    loader : str or None
        See `servable_at`.
    marker : str
        With a loader: the file whose presence says that a version's directory is complete. Without one a version is
        complete when it is there, so that it must be moved in, not copied.

    Raises
    ------
    ValueError
    """

    size: int = 32
    wait: float = 0.0
    queue: int = 1024
    linger: float | None = None
    workers: int = 1
    threads: int = 0
    fill: Mapping[str, float] = field(default_factory=dict)
    keep: int = 2
    poll: float = 1.0
    deadline: float = 30.0
    largest: int = 16 * 2**20
    bodies: int = 256 * 2**20
    connections: int = 4096
    limit: float = 60.0
    loading: float = 300.0
    idle: float = 60.0
    finite: bool = True
    loader: str | None = None
    marker: str = ""

    def __post_init__(self) -> None:
        self.batcher()
        Model("", keep=self.keep)

    def batcher(self) -> Batcher:
        """A version's queue."""
        linger = self.linger if self.linger is not None else LINGER if self.workers == 1 else 0.0
        return Batcher(size=self.size, wait=self.wait, queue=self.queue, linger=linger)


class Server:
    """Answers with the models of a directory.

    Parameters
    ----------
    base : path
        ``BASE/NAME/1``, or ``NAME/1`` itself.
    settings : Settings, optional
    batcher : callable, optional
        Makes the queue of a version; `Batcher` with the settings, unless given.

    Attributes
    ----------
    models : dict of str to Model
    draining : bool
        No new requests are taken.
    recent : deque of (float, float, int, str)
        Of the latest batches: seconds of the clock, seconds it took, rows, ``NAME/VERSION``.
    minute : Minute
        What happened in each of the last sixty seconds.
    bodies : Bodies
        Reads and writes JSON.
    """

    def __init__(self, base: str | os.PathLike[str], settings: Settings | None = None, *, batcher: Any = None) -> None:
        self.base, self.settings = Path(base), settings or Settings()
        if not self.base.is_dir():
            raise FileNotFoundError(f"serve: {self.base} is no directory; it must hold NAME/1 with a saved model.")
        kept = self.settings
        self._batcher = batcher or kept.batcher
        self._batcher()  # settings that make no sense fail here, and not when the first version loads
        self.models: dict[str, Model] = {}
        self.draining = self._started = False
        self.metrics = Metrics(self)
        self.recent: deque[tuple[float, float, int, str]] = deque(maxlen=2000)
        self.minute = Minute()
        self.bodies = Bodies(kept.largest, finite=kept.finite, limit=kept.limit)
        self.in_flight = 0
        self._markers = MARKERS if kept.loader is None else (kept.marker,)
        self._looks = 0
        self._unread: dict[Path, str] = {}
        self._removed: set[str] = set()
        self._loads: dict[Version, asyncio.Task[None]] = {}
        self._poll: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load what is there, and go on looking."""
        self.refresh()
        await self.settled()
        self._started = True
        if self.settings.poll > 0:
            self._poll = asyncio.create_task(self._look())

    async def settled(self) -> None:
        """Wait until nothing loads."""
        while self._loads:
            await asyncio.wait(list(self._loads.values()))

    def refresh(self, there: Mapping[str, Found] | None = None) -> None:
        """Look at the directory: start to load what is new, drop what nobody wants or uses.

        Parameters
        ----------
        there : mapping, optional
            What `models_in` has seen a moment ago.
        """
        self._looks += 1
        if there is None:
            try:
                there = models_in(self.base, self._markers)
            except OSError as error:
                self._say_unread({self.base: str(error)})
                return
        self._say_unread({path: str(found) for path, found in there.values() if isinstance(found, OSError)})
        for name in there.keys() - self.models.keys() - self._removed:
            self.models[name] = Model(name, keep=self.settings.keep)
        for name, model in self.models.items():
            path, found = there.get(name, (self.base, {}))
            if name not in self._removed and not isinstance(found, OSError):
                for version in model.found(found):
                    self._loads[version] = asyncio.create_task(self._load(model, version, path))
        self.sweep()

    def _say_unread(self, errors: dict[Path, str]) -> None:
        """A directory that can't be read is told once, and leaves all as it is."""
        for path, error in errors.items():
            if self._unread.get(path) != error:
                about = {"event": "disk", "directory": str(path), "error": error}
                log.error("the directory can't be read", extra={"about": about})
        self._unread = errors

    def sweep(self) -> None:
        """End the versions that are drained."""
        for name, model in list(self.models.items()):
            for version in model.drain():
                version.runner.close()
                self._say("dropped", model, version)
            if name in self._removed and not model.versions:
                del self.models[name]

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self.settings.poll)
            looks = self._looks
            try:
                there = await asyncio.to_thread(models_in, self.base, self._markers)  # a disk may take its time
            except OSError as error:
                self._say_unread({self.base: str(error)})
                continue
            if looks == self._looks:
                self.refresh(there)

    async def _load(self, model: Model, version: Version, path: Path) -> None:
        kept = self.settings
        program = Program(
            path / str(version.number),
            kept.loader,
            kept.size,
            kept.threads or max(1, ((os.cpu_count() or 1) - 1) // kept.workers),
            kept.limit,
            kept.loading,
        )
        name = f"{model.name}/{version.number}"
        runner = Runner(
            program,
            kept.workers,
            self._batcher(),
            kept.fill,
            Observed(partial(self._ran, name), partial(self._lost, model, version)),
        )
        began = time.monotonic()
        try:
            await runner.start()
        except (FormatError, SignatureError, ServeError, OSError) as error:
            runner.close()
            model.failed(version, str(error))
            self._say("failed", model, version, error=str(error))
        except asyncio.CancelledError:
            runner.close()
            raise
        except Exception as error:  # of the server's own: a version must not be loading for ever
            runner.close()
            model.failed(version, f"the server failed as it loaded: {error!r}")
            log.exception(
                "a version failed",
                extra={
                    "about": {"event": "failed", "model": model.name, "version": version.number, "error": repr(error)}
                },
            )
        else:
            model.loaded(version, runner)
            self._say("loaded", model, version, seconds=round(time.monotonic() - began, 3))
        finally:
            del self._loads[version]
            self.refresh()

    def _ran(self, name: str, rows: int, requests: int, began: float, ended: float) -> None:
        self.recent.append((ended, ended - began, rows, name))
        self.minute.batch(ended, rows)
        self.metrics.batch(name, rows, ended - began)

    def _lost(self, model: Model, version: Version, reason: str) -> None:
        runner = version.runner
        model.failed(version, reason)
        self._say("failed", model, version, error=reason)
        if runner is not None:
            runner.close()

    def _say(self, event: str, model: Model, version: Version, **more: Any) -> None:
        level = logging.ERROR if event == "failed" else logging.INFO
        about = {"event": event, "model": model.name, "version": version.number, **more}
        log.log(level, "version %s", event, extra={"about": about})

    @property
    def ready(self) -> bool:
        """Whether what was there at the start is loaded, something answers, and the server is not draining.

        A model that appears later and fails is told by its status: the others still answer.
        """
        answers = any(model.stable is not None for model in self.models.values())
        return self._started and not self.draining and answers

    def model(self, name: str) -> Model:
        """The model of a name.

        Raises
        ------
        NotFound
        """
        if name not in self.models or name in self._removed:
            raise NotFound(f"there is no model {name!r}; the server has {', '.join(sorted(self.models)) or 'none'}.")
        return self.models[name]

    async def run(
        self, version: Version, signature: str, arrays: Mapping[str, np.ndarray], deadline: float = math.inf
    ) -> dict[str, np.ndarray]:
        """Answer a request with a version, before a time of the loop's clock.

        Raises
        ------
        ServeError, SignatureError
        """
        self.hold(version)
        try:
            latest = asyncio.get_running_loop().time() + self.settings.deadline
            results: dict[str, np.ndarray] = await version.runner.predict(signature, arrays, min(deadline, latest))
            return results
        finally:
            self.release(version)

    def hold(self, version: Version) -> None:
        """Hold the server and a version for a request, from its body to its answer: neither goes before `release`.

        Raises
        ------
        Unavailable
            The server is draining.
        """
        if self.draining:
            raise Unavailable("the server is draining.", retry_after=1)
        self.in_flight += 1
        version.users += 1

    def release(self, version: Version) -> None:
        """A request that held a version is done with it."""
        self.in_flight -= 1
        version.users -= 1
        if version.users == 0 and version.state not in (AVAILABLE, LOADING, FAILED):
            self.sweep()

    async def change(self, name: str, action: str, version: int | None = None, weight: float = 0.0) -> dict[str, Any]:
        """What an operator can do: load, unload, canary, promote, rollback, refresh.

        Raises
        ------
        ServeError
        """
        if action == "load":
            self._removed.discard(name)
            self.refresh()
            model = self.model(name)
            if version is not None:
                model.unwanted.discard(version)
                model.wanted.add(version)
                model.retry(version)
                self.refresh()
                await self.settled()
                model.route(version=version)
            return {"model_version_status": model.status()}
        model = self.model(name)
        if action == "refresh":
            self.refresh()
            await self.settled()
        elif action == "unload":
            self._unload(model, version)
        elif action == "canary":
            model.set_canary(version, weight)
        elif action == "promote" and version is not None:
            model.promote(version)
        elif action == "rollback":
            model.rollback()
        else:
            raise BadRequest(
                f"action must be load, unload, canary, promote (with a version), rollback or refresh, got {action!r}."
            )
        self.sweep()
        return {"model_version_status": model.status()}

    def _unload(self, model: Model, version: int | None) -> None:
        if version is None:
            self._removed.add(model.name)
            model.drain_all()
            return
        model.route(version=version)
        if version == model.stable:
            raise BadRequest(f"{model.name}: version {version} is stable; promote another one before it goes.")
        if version == model.canary:
            model.set_canary(None, 0.0)
        model.wanted.discard(version)
        model.unwanted.add(version)

    async def drain(self, seconds: float = 30.0) -> bool:
        """Take no new requests, and wait for those in flight; False if some were not done in time."""
        self.draining = True
        if self._poll is not None:
            self._poll.cancel()
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self.in_flight and loop.time() < end:
            await asyncio.sleep(0.01)
        return self.in_flight == 0

    def close(self) -> None:
        """End every process."""
        self.draining = True
        if self._poll is not None:
            self._poll.cancel()
        self.bodies.close()
        for task in self._loads.values():
            task.cancel()
        for model in self.models.values():
            for version in model.versions.values():
                if version.runner is not None:
                    version.runner.close()
