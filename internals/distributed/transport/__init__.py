"""Messages between processes. What is above works the same over each transport."""

from internals.distributed.transport.endpoint import Endpoint
from internals.distributed.transport.inproc import Faults, Network
from internals.distributed.transport.message import Message
from internals.distributed.transport.opening import open_endpoint
from internals.distributed.transport.reply import LATER, Reply

__all__ = ["LATER", "Endpoint", "Faults", "Message", "Network", "Reply", "open_endpoint"]
