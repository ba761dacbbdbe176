"""Reaching a task that may not be started yet."""

from __future__ import annotations

import time

from internals.distributed.errors import DeadlineExceeded, PeerLost
from internals.distributed.transport import Endpoint

PAUSE = 0.05
"""Seconds between two tries."""


def connected(endpoint: Endpoint, peer: str, address: str, deadline: float) -> None:
    """Reach a task, waiting for it to be started.

    Raises
    ------
    DeadlineExceeded
        Nobody answers there; names the task.
    """
    end = time.monotonic() + deadline
    while True:
        try:
            endpoint.connect(peer, address)
            return
        except (DeadlineExceeded, PeerLost) as error:
            if time.monotonic() >= end:
                raise DeadlineExceeded(
                    f"{endpoint.name}: {peer} did not answer at {address} within {deadline:g} s. Is it started?"
                ) from error
            time.sleep(min(PAUSE, deadline))
