"""A job inside one process: each rank is a thread. For learning, for tests, and for faults made on purpose."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from internals.distributed.group.member import Group
from internals.distributed.transport import Faults, Network


def run_threads(
    size: int,
    function: Callable[..., Any],
    *arguments: Any,
    faults: Faults | None = None,
    deadline: float = 30.0,
) -> list[Any]:
    """Run ``function(group, *arguments)`` once per rank, each in a thread, joined by a `Network`.

    Parameters
    ----------
    size : int
        How many ranks.
    faults : Faults, optional
        How the network between them misbehaves.
    deadline : float
        Seconds, of each wait; the group's default.

    Returns
    -------
    list
        What the function returned, by rank.

    Raises
    ------
    BaseException
        What was raised first by any rank, with a note that names the rank. A rank that raised is gone for the others,
        as a process that ended would be: they get `PeerLost`.
    """
    if size < 1:
        raise ValueError(f"run_threads: {size} ranks; at least 1")
    network = Network(faults)
    names = [f"rank:{rank}" for rank in range(size)]
    endpoints = [network.endpoint(name) for name in names]
    for place, endpoint in enumerate(endpoints):
        for other in endpoints[:place]:
            endpoint.connect(other.name, other.address)
    results: list[Any] = [None] * size
    errors: list[tuple[int, BaseException]] = []

    def member(rank: int) -> None:
        try:
            results[rank] = function(Group(rank, names, endpoints[rank], deadline), *arguments)
        except BaseException as error:  # noqa: BLE001  it is raised again, by whoever called run_threads
            errors.append((rank, error))
            endpoints[rank].close()

    threads = [threading.Thread(target=member, args=(rank,), name=name, daemon=True) for rank, name in enumerate(names)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for endpoint in endpoints:
            endpoint.close()
    if errors:
        rank, first = errors[0]
        first.add_note(f"raised by rank {rank} of {size}")
        raise first
    return results
