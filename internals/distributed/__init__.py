"""Training over several processes: messages, parameter server, collectives, data parallel, distributed graphs."""

from internals.distributed.errors import (
    AddressInUse,
    AuthenticationError,
    DeadlineExceeded,
    DistributedError,
    DuplicateName,
    MismatchError,
    PeerLost,
    ProtocolError,
    RemoteError,
)
from internals.distributed.group import Group, join, run_processes, run_threads
from internals.distributed.transport import LATER, Endpoint, Faults, Message, Network, Reply, open_endpoint

__all__ = [
    "LATER",
    "AddressInUse",
    "AuthenticationError",
    "DeadlineExceeded",
    "DistributedError",
    "DuplicateName",
    "Endpoint",
    "Faults",
    "Group",
    "Message",
    "MismatchError",
    "Network",
    "PeerLost",
    "ProtocolError",
    "RemoteError",
    "Reply",
    "join",
    "open_endpoint",
    "run_processes",
    "run_threads",
]
