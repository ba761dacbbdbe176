"""Messages between processes. What is above works the same over each transport."""

from internals.distributed.transport.endpoint import LATER, Endpoint, Reply
from internals.distributed.transport.inproc import Faults, Network
from internals.distributed.transport.message import Message

__all__ = ["LATER", "Endpoint", "Faults", "Message", "Network", "Reply"]
