"""A request to a model, from its body to its answer.

What is small is read and written here and now, and its way to the queue and back is plain calls: a task for each
request, and a turn of the loop at each of its steps, would cost more than all else that the server does for it. Large
JSON is read and written by another process, and for that there is a task.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np

from internals.deploy.errors import SignatureError
from internals.deploy.serve import rest
from internals.deploy.serve.batcher import Request
from internals.deploy.serve.errors import BadRequest, ServeError, TooLate
from internals.deploy.serve.exchanged import Answer, Asked, refusal
from internals.deploy.serve.registry import Version
from internals.deploy.serve.server import Server
from internals.deploy.serve.workers import Outcome

log = logging.getLogger("internals.deploy.serve")

TIMEOUT = "x-timeout-ms"


class Asking:
    """A request that holds a version until it has its answer.

    Parameters
    ----------
    server : Server
    model : str
        Its name.
    version : Version
    asked : Asked
    what : {"predict", "classify", "regress"}
    done : callable of Answer
        Called once, now or later; unless `stop` is called before.

    Raises
    ------
    Unavailable
        The server is draining; then nothing is held.
    """

    def __init__(
        self, server: Server, model: str, version: Version, asked: Asked, what: str, done: Callable[[Answer], None]
    ) -> None:
        server.hold(version)
        self._server, self._model, self._version, self._what = server, model, version, what
        self._asked = asked
        self._tell: Callable[[Answer], None] | None = done
        self._form, self._deadline = "", math.inf
        self._request: Request | None = None
        self._task: asyncio.Task[None] | None = None
        self._kind = asked.headers.get("content-type", rest.JSON).partition(";")[0].strip().lower()

    def begin(self) -> None:
        """Read the body and put it into the queue."""
        self._carefully(self._read)

    def stop(self) -> None:
        """The client left: nobody waits for the answer any more."""
        request, task = self._request, self._task
        if self._end() is not None:
            if request is not None:
                self._version.runner.cancel(request)
            if task is not None:
                task.cancel()

    def _end(self) -> Callable[[Answer], None] | None:
        """Let go of all that it holds, and of what holds it; whom to tell, unless it has ended before."""
        tell, self._tell = self._tell, None
        self._request = self._task = None
        if tell is not None:
            self._server.release(self._version)
        return tell

    def _answer(self, answer: Answer) -> None:
        if (tell := self._end()) is not None:
            tell(answer)

    def _carefully(self, step: Callable[..., None], *given: Any) -> None:
        """A step; whatever goes wrong in it is an answer too."""
        try:
            step(*given)
        except Exception as error:  # noqa: BLE001 - a fault of the server's own must not leave the client waiting
            self._answer(refused(error, self._asked))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(self._is_over)

    def _is_over(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._answer(refused(error, self._asked))

    def _read(self) -> None:
        settings = self._server.settings
        asked, signatures = self._asked, self._version.runner.signatures
        now = asyncio.get_running_loop().time()
        self._deadline = deadline = now + min(_timeout(asked.headers.get(TIMEOUT)), settings.deadline)
        if self._kind in (rest.SAFETENSORS, rest.MSGPACK):
            if self._what != rest.PREDICT:
                raise BadRequest(f"{self._what} takes JSON; {self._kind} is for predict.")
            name = rest.signature_of(self._model, signatures, asked.headers.get("x-signature-name"))
            arrays = rest.arrays_of_bytes(self._kind, asked.body)
            self._submit(name, rest.checked(name, signatures[name], arrays, finite=settings.finite), deadline)
        elif self._server.bodies.reads_here(asked.body):
            name, arrays, self._form = rest.request_of_json(
                asked.body, self._what, self._model, signatures, finite=settings.finite
            )
            self._submit(name, arrays, deadline)
        else:
            self._later(self._read_elsewhere())

    async def _read_elsewhere(self) -> None:
        signatures = self._version.runner.signatures
        reading = self._server.bodies.read(self._asked.body, self._what, self._model, signatures)
        name, arrays, self._form = await self._in_time(reading, "while the body was read")
        self._submit(name, arrays, self._deadline)

    async def _in_time(self, work: Coroutine[Any, Any, Any], when: str) -> Any:
        try:
            async with asyncio.timeout_at(self._deadline):
                return await work
        except TimeoutError:
            raise TooLate(f"the deadline came {when}.") from None

    def _submit(self, name: str, arrays: dict[str, np.ndarray], deadline: float) -> None:
        if self._tell is not None:
            self._request = self._version.runner.submit(name, arrays, deadline, self._ran)

    def _ran(self, outcome: Outcome) -> None:
        self._carefully(self._write, outcome)

    def _write(self, outcome: Outcome) -> None:
        if isinstance(outcome, Exception):
            raise outcome
        if self._kind in (rest.SAFETENSORS, rest.MSGPACK):
            self._answer(Answer(rest.bytes_of_arrays(self._kind, outcome), self._kind))
        elif self._server.bodies.writes_here(outcome):
            self._answer(Answer(rest.answer_in_json(outcome, self._what, self._form, self._version.runner.labels)))
        else:
            self._later(self._write_elsewhere(outcome))

    async def _write_elsewhere(self, results: dict[str, np.ndarray]) -> None:
        labels = self._version.runner.labels
        writing = self._server.bodies.write(results, self._what, self._form, labels)
        self._answer(Answer(await self._in_time(writing, "while the answer was written")))


def refused(error: BaseException, asked: Asked) -> Answer:
    """The answer to a request in which something went wrong; what is a fault of the server's own is logged."""
    if isinstance(error, SignatureError):
        return refusal(BadRequest(str(error)))
    if isinstance(error, ServeError):
        return refusal(error)
    about = {"event": "error", "path": asked.path[:500]}
    log.error("a request failed", exc_info=error, extra={"about": about})
    return refusal(ServeError("the server failed; its log says why."))


def _timeout(text: str | None) -> float:
    if text is None:
        return math.inf
    try:
        milliseconds = float(text)
    except ValueError:
        milliseconds = math.nan
    if not 0 < milliseconds < math.inf:
        raise BadRequest(f"X-Timeout-Ms must be milliseconds, more than 0, got {text[:50]!r}.")
    return milliseconds / 1000
