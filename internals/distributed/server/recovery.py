"""A server comes back: with the others it finds the last step that all can go back to, and it counts its trainers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress

from internals.distributed.errors import AuthenticationError, DeadlineExceeded, DistributedError, ProtocolError
from internals.distributed.server.checkpoint import Checkpoints
from internals.distributed.transport import Endpoint, Message


def agree_on_a_step(
    endpoint: Endpoint, checkpoints: Checkpoints, peers: Mapping[str, str], deadline: float
) -> tuple[int, int]:
    """The newest step of which every server has a checkpoint; the others are back at it when this returns.

    In synchronous training the servers are of one step at all times, so when one falls back all have to. No step is
    computed otherwise the second time: batches are functions of shard and step.

    Returns
    -------
    step, generation : int

    Raises
    ------
    DistributedError
        A server can't be reached, or there is no step that all have kept.
    """
    common = set(checkpoints.steps())
    generation = 0
    others = {name: address for name, address in peers.items() if name != endpoint.name}
    for name, address in others.items():
        told = _ask(endpoint, name, address, Message("saved"), deadline).fields
        common &= set(told["steps"])
        generation = max(generation, told["generation"])
    if not common:
        raise DistributedError(
            f"{endpoint.name}: there is no step of which all servers have a checkpoint; this one has "
            f"{checkpoints.steps()}. Start anew in an empty directory"
        )
    step = max(common)
    for name, address in others.items():
        message = Message("rollback", {"step": step, "generation": generation + 1})
        _ask(endpoint, name, address, message, deadline)
    return step, generation + 1


def call_later(endpoint: Endpoint, message: Message, seconds: float, over: threading.Event) -> None:
    """Let an endpoint answer a message of its own, in its own thread, after a while; not if it is `over` by then."""

    def wait() -> None:
        if not over.wait(seconds):
            with suppress(DistributedError):
                endpoint.connect(endpoint.name, endpoint.address)
                endpoint.call(endpoint.name, message, seconds + 10)

    threading.Thread(target=wait, name=f"{endpoint.name} {message.kind}", daemon=True).start()


def _ask(endpoint: Endpoint, peer: str, address: str, message: Message, deadline: float) -> Message:
    """Ask a peer that may not be up yet, again and again."""
    end = time.monotonic() + deadline
    while True:
        try:
            endpoint.connect(peer, address, max(0.1, end - time.monotonic()))
            return endpoint.call(peer, message, max(0.1, end - time.monotonic()))
        except (AuthenticationError, ProtocolError):
            raise
        except DistributedError as error:
            if time.monotonic() >= end:
                raise DeadlineExceeded(
                    f"{endpoint.name}: {peer} at {address} did not answer within {deadline:g} s ({error}); all servers "
                    "must be up before one can go back to a checkpoint"
                ) from error
            time.sleep(0.05)
