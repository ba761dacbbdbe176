"""Gradings on a Dask cluster. Its workers need this package, a sandbox, and a way to nothing else.

The database is not among what they reach: the work goes to them with its bytes, and the report comes back.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from autograder.queue.grading import Fault, Outcome, Work, grade

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = 10.0
"""Seconds to wait for the scheduler's answer; less than a lease lasts."""
RESTART = 60.0
"""Seconds for a worker to come back."""


class Dask:
    """Submits to a scheduler.

    Parameters
    ----------
    address : str, optional
        Of the scheduler, ``tcp://host:8786`` or ``tls://...``; by default that of Dask's own configuration
        (``DASK_SCHEDULER_ADDRESS``).
    slots : int, optional
        How many gradings to have there at a time; by default as many as its workers have threads when asked.
        A cluster that grows with its load needs it: it sees no load that is not sent.
    client : distributed.Client, optional
        In place of an address: of a cluster that is reached otherwise, as through dask-gateway.

    Raises
    ------
    ImportError
        Dask is not installed.
    ConnectionError
        No scheduler answers there.
    """

    def __init__(self, address: str = "", slots: int | None = None, client: Client | None = None) -> None:
        try:
            import dask
            from distributed import Client
        except ImportError:
            raise ImportError("the Dask executor needs dask.distributed: pip install distributed") from None
        self._address = address or dask.config.get("scheduler-address", None) or ""
        if client is None and not self._address:
            raise ConnectionError(
                "Dask: no scheduler is named; give its address (tcp://host:8786), or set DASK_SCHEDULER_ADDRESS."
            )
        self._make, self._given, self._slots = Client, client, slots
        self._lock = threading.Lock()
        self._sent: dict[int, Any] = {}
        """Dask's futures by the identity of ours."""
        self._client = client or self._connected()

    def _connected(self) -> Client:
        try:
            return self._make(self._address, set_as_default=False, timeout=PATIENCE, name="autograder")
        except (OSError, ValueError) as error:
            raise ConnectionError(f"Dask: no scheduler answers at {self._address}: {error}") from None

    @property
    def slots(self) -> int:
        if self._slots is not None:
            return self._slots
        try:
            return max(1, sum(self._client.nthreads().values()))
        except Exception:  # noqa: BLE001  a scheduler that is gone is told by what is sent to it
            return 1

    def submit(self, work: Work) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_running_or_notify_cancel()
        try:
            with self._lock:
                if self._client.status == "closed" and self._given is None:
                    self._client = self._connected()
                # Not by its content: a second try must run, and not be given the first one's result.
                key = f"grade-{work.submission_id}-{secrets.token_hex(8)}"
                sent = self._client.submit(grade, work, key=key, pure=False, retries=0)
                self._sent[id(future)] = sent
        except Exception as error:  # noqa: BLE001  Dask's connection errors have no common base
            future.set_result(Fault(f"Dask did not take it: {error}"))
            return future
        sent.add_done_callback(lambda done: self._done(done, future))
        return future

    def _done(self, done: Any, future: Future[Outcome]) -> None:
        self._sent.pop(id(future), None)
        try:
            outcome: Outcome = done.result(timeout=PATIENCE)
        except BaseException as error:  # noqa: BLE001  a lost worker, a cancelled future, an error on the way back
            outcome = Fault(f"Dask did not get it graded: {type(error).__name__}: {error}")
        future.set_result(outcome)

    def cancel(self, future: Future[Outcome]) -> None:
        """Cancel it; if a worker is at it already, that worker is restarted, which is the only way to end it."""
        sent = self._sent.pop(id(future), None)
        if sent is not None:  # in a thread: who cancels has other leases to keep
            threading.Thread(target=self._end, args=(sent,), daemon=True).start()

    def _end(self, sent: Any) -> None:
        with contextlib.suppress(Exception):
            at_it = [worker for worker, keys in self._client.processing().items() if sent.key in keys]
            self._client.cancel([sent], force=True)
            if at_it:
                self._client.restart_workers(at_it, timeout=RESTART, raise_for_error=False)

    def close(self) -> None:
        """Give up what is not done, and leave the cluster as it is."""
        for sent in list(self._sent.values()):
            with contextlib.suppress(Exception):
                sent.cancel()
        if self._given is None:
            self._client.close()
