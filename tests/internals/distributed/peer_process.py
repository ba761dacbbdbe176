"""A process with an endpoint, for tests that kill, stop and restart one: ``peer_process.py NAME TRANSPORT BIND``.

It prints its address, answers calls of "echo" and "hog", and sends back what "say" asks for.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np

from internals.distributed.transport import Message, Reply, open_endpoint


def hog(message: Message, reply: Reply) -> Message:
    """Hold Python's lock, as an operation in C that does not give it up would."""
    end = time.monotonic() + message.fields["seconds"]
    held = sys.getswitchinterval()
    sys.setswitchinterval(100)
    try:
        while time.monotonic() < end:
            pow(3, 300_000)
    finally:
        sys.setswitchinterval(held)
    return Message("")


def main() -> None:
    name, transport, bind = sys.argv[1:4]
    endpoint = open_endpoint(name, transport=transport, bind=bind)

    def say(message: Message, reply: Reply) -> Any:
        endpoint.send(message.source, Message("said", {}, [np.full(message.fields["size"], 7.0)]))

    endpoint.on("echo", lambda message, reply: Message("", message.fields, message.arrays))
    endpoint.on("hog", hog)
    endpoint.on("say", say)
    print(endpoint.address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
