"""JSON bodies, read and written where they hold nobody up: small ones here and now, large ones in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from internals.deploy.saved.signature import Signature
from internals.deploy.serve.errors import BadRequest, ModelFailed, NotFound, ServeError, Unavailable
from internals.deploy.serve.process import Process, WorkerDied
from internals.deploy.serve.reader import BODY
from internals.deploy.serve.servable import plain_signatures
from internals.deploy.serve.worker import frame

LARGE = 2**17
"""Bytes of a body from which another process reads it: here they take as long as some requests."""
MANY = 2**14
"""Numbers of an answer from which another process writes it."""
OWN_MEMORY, GROWTH = 2**28, 40
"""Bytes that the process has itself, and what a byte of JSON takes at most when it is read: a list for each number."""


class Bodies:
    """Reads and writes JSON.

    Parameters
    ----------
    largest : int
        Bytes of a body. The other process may take a memory that follows from it.
    finite : bool
        Refuse NaN and infinity.
    limit : float
        Seconds that reading or writing one body may take.
    """

    def __init__(self, largest: int, *, finite: bool = True, limit: float = 60.0) -> None:
        self._memory, self._finite, self._limit = OWN_MEMORY + GROWTH * largest, finite, limit
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    @staticmethod
    def reads_here(data: bytes) -> bool:
        """Whether a body is so small that `rest.request_of_json` holds nobody up."""
        return len(data) < LARGE

    @staticmethod
    def writes_here(results: Mapping[str, np.ndarray]) -> bool:
        """Whether results are so few that `rest.answer_in_json` holds nobody up."""
        return sum(one.size for one in results.values()) < MANY

    async def read(
        self, data: bytes, what: str, model: str, signatures: Mapping[str, Signature]
    ) -> tuple[str, dict[str, np.ndarray], str]:
        """`rest.request_of_json` in the other process.

        Raises
        ------
        BadRequest, NotFound, Unavailable
        """
        fields = {"do": "read", "what": what, "model": model, "finite": self._finite}
        fields["signatures"] = plain_signatures(signatures)
        answer, arrays = await self._ask(fields, {BODY: np.frombuffer(data, np.uint8)})
        return answer["signature"], arrays, answer["form"]

    async def write(self, results: Mapping[str, np.ndarray], what: str, form: str, labels: list[str]) -> bytes:
        """`rest.answer_in_json` in the other process.

        Raises
        ------
        BadRequest, Unavailable
        """
        _, arrays = await self._ask({"do": "write", "what": what, "form": form, "labels": labels}, results)
        return arrays[BODY].tobytes()

    async def _ask(
        self, fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        await self._turn.acquire()  # one whose client leaves meanwhile is never done
        # But what is begun is done all the same: half an answer would be left on the socket.
        task = asyncio.ensure_future(self._asked(fields, arrays))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        answer, found = await asyncio.shield(task)
        if "error" in answer:
            raise {400: BadRequest, 404: NotFound}.get(answer["status"], ServeError)(answer["error"])
        return answer, found

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._turn.release()
        if not task.cancelled():
            task.exception()  # who asked may have left, and then nobody else looks at it

    async def _asked(
        self, fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        data = frame(fields, arrays)
        try:
            if self._process is not None:
                with suppress(WorkerDied):  # it died while it was idle, or of the body before
                    return await self._process.ask(data, "read or write JSON", self._limit)
                self._process.kill()
            self._process = Process("internals.deploy.serve.reader", "the reader", more=[str(self._memory)])
            await self._process.begin()
            return await self._process.ask(data, "read or write JSON", self._limit)
        except (WorkerDied, OSError) as error:
            if self._process is not None:
                self._process.kill()
            self._process = None
            raise Unavailable(f"the body's JSON could not be read or written: {error}", retry_after=1) from None
        except ModelFailed as error:
            raise BadRequest(f"the body's JSON is too much: {error}.") from None

    def close(self) -> None:
        """End the process."""
        for task in self._tasks:
            task.cancel()
        if self._process is not None:
            self._process.kill()
