"""One script for servers and trainers: which of them a process is, and where the others are, the launcher says.

``python -m internals.distributed.launch --servers 2 -n 4 script.py`` starts 6 processes of the same script::

    from internals.distributed import server as ps

    if ps.role() == "server":
        ps.serve(optimizer=lambda parameters: SGD(parameters, lr=0.1))
    else:
        with ps.connect() as client:
            client.init(first_values)
            values = ps.Trainer(client, work).run(steps=100)
"""

from __future__ import annotations

import os
from typing import Any

from internals.distributed.server.client import Client
from internals.distributed.server.dense import MakeOptimizer
from internals.distributed.server.server import Server
from internals.distributed.transport import open_endpoint

ROLES = ("server", "trainer")


def role() -> str:
    """``"server"`` or ``"trainer"``: what the launcher started this process as (the variable ROLE).

    Raises
    ------
    RuntimeError
        It was not started by the launcher, or without servers.
    """
    found = os.environ.get("ROLE", "")
    if found not in ROLES:
        raise RuntimeError(
            f"role: the variable ROLE is {found!r}, expected server or trainer; start the script with "
            "python -m internals.distributed.launch --servers 2 -n 4 script.py"
        )
    return found


def serve(*, optimizer: MakeOptimizer, transport: str = "shm", shards: int | None = None, **settings: Any) -> Server:
    """Be the server that the launcher started, until all trainers are done.

    Parameters
    ----------
    optimizer
        See `Server`.
    transport : {"shm", "tcp"}
    shards : int, optional
        Data shards; one for each trainer unless given.
    settings
        Of `Server`: mode, backup, staleness, checkpoint, every.

    Returns
    -------
    Server
        Closed; its ``stats()`` say how it went.
    """
    addresses, index = _servers(), _whole("RANK")
    if not 0 <= index < len(addresses):
        raise RuntimeError(f"serve: RANK is {index}, but SERVERS has {len(addresses)} addresses: {','.join(addresses)}")
    endpoint = open_endpoint(f"server:{index}", transport=transport, bind=addresses[index])
    try:
        server = Server(
            endpoint,
            optimizer=optimizer,
            shards=_whole("TRAINERS") if shards is None else shards,
            index=index,
            servers=len(addresses),
            peers={f"server:{number}": address for number, address in enumerate(addresses)},
            **settings,
        )
        server.serve()
    finally:
        endpoint.close()
    return server


def connect(*, transport: str = "shm", **settings: Any) -> Client:
    """The client of the trainer that the launcher started.

    Parameters
    ----------
    transport : {"shm", "tcp"}
    settings
        Of `Client`: how, compression, nonfinite, deadline.

    Raises
    ------
    DeadlineExceeded
        A server is not there.
    """
    rank = _whole("RANK")
    endpoint = open_endpoint(f"trainer:{rank}", transport=transport)
    try:
        return Client(endpoint, _servers(), rank=rank, **settings)
    except BaseException:
        endpoint.close()
        raise


def _servers() -> list[str]:
    addresses = [one.strip() for one in os.environ.get("SERVERS", "").split(",") if one.strip()]
    if not addresses:
        raise RuntimeError(
            "there are no servers: the variable SERVERS is empty; it holds their addresses, host:port, with commas"
        )
    return addresses


def _whole(name: str) -> int:
    value = os.environ.get(name, "")
    if not value.isdigit():
        raise RuntimeError(f"the variable {name} is {value!r}, expected a whole number; the launcher sets it")
    return int(value)
