"""An endpoint of the transport that is asked for by name."""

from __future__ import annotations

from internals.distributed.transport.endpoint import Endpoint
from internals.distributed.transport.inproc import Network

TRANSPORTS = ("tcp", "shm", "inproc")

_network = Network()


def open_endpoint(
    name: str,
    *,
    transport: str = "tcp",
    bind: str = "127.0.0.1:0",
    secret: str | bytes | None = None,
    job: str = "",
) -> Endpoint:
    """A new endpoint. Peers reach it at its `address`; what is above it is the same over each transport.

    Parameters
    ----------
    name : str
        By which peers know it.
    transport : str
        ``"tcp"``: sockets. ``"shm"``: sockets, and shared memory for large arrays to peers on this machine.
        ``"inproc"``: threads of this process, on one network for all.
    bind : str
        ``"host:port"`` to listen at; port 0: a free one. ``"inproc"`` has none.
    secret : str or bytes, optional
        Of the job, the same on all; JOB_SECRET of the environment where none is given. Needed off loopback.
    job : str
        Which job it belongs to: those of another are refused.

    Raises
    ------
    ValueError
        No such transport; no secret, where others than this machine can reach it.
    AddressInUse
        Another process listens there.
    """
    if transport == "inproc":
        return _network.endpoint(name)
    if transport == "tcp":
        from internals.distributed.transport.zmq import ZmqEndpoint

        return ZmqEndpoint(name, bind, secret=secret, job=job)
    if transport == "shm":
        from internals.distributed.transport.shm import ShmEndpoint

        return ShmEndpoint(name, bind, secret=secret, job=job)
    raise ValueError(f"transport {transport!r}: expected one of {', '.join(TRANSPORTS)}")
