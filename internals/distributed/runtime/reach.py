"""Reaching a task that may not be started yet."""

from __future__ import annotations

from internals.distributed.errors import DeadlineExceeded, PeerLost
from internals.distributed.transport import Endpoint


def connected(endpoint: Endpoint, peer: str, address: str, deadline: float) -> None:
    """Reach a task, waiting for it to be started.

    Raises
    ------
    DeadlineExceeded
        Nobody answers there; names the task.
    """
    try:
        endpoint.connect(peer, address, deadline)
    except (DeadlineExceeded, PeerLost) as error:
        raise DeadlineExceeded(
            f"{endpoint.name}: {peer} did not answer at {address} within {deadline:.3g} s. Is it started? ({error})"
        ) from error
