"""Reaching a task that may not be started yet, or may have died."""

from __future__ import annotations

from internals.distributed.errors import DeadlineExceeded, PeerLost
from internals.distributed.transport import Endpoint

BACK = 1.0
"""Seconds in which a task that is known to have died must answer again; who was never there is waited for longer."""


def connected(endpoint: Endpoint, peer: str, address: str, deadline: float, died: str | None = None) -> None:
    """Reach a task, waiting for it to be started; `died`: why it is thought to be dead, if it is.

    Raises
    ------
    DeadlineExceeded
        Nobody answers there; names the task.
    PeerLost
        It died, and is not back.
    """
    died = died or endpoint.lost.get(peer)
    try:
        endpoint.connect(peer, address, deadline if died is None else min(deadline, BACK))
    except (DeadlineExceeded, PeerLost) as error:
        if died is not None:
            raise PeerLost(peer, f"{died}, and it is not back at {address}") from error
        raise DeadlineExceeded(
            f"{endpoint.name}: {peer} did not answer at {address} within {deadline:.3g} s. Is it started? ({error})"
        ) from error
