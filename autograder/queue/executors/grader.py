"""``python -m autograder.queue.executors.grader FD``: grades what comes over a socket, and ends with its sender."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection

from autograder.queue.grading import Fault, Outcome, Work, grade


def serve(descriptor: int, run: Callable[[Work], Outcome] = grade) -> None:
    """Answer until the other end is closed; then end at once, in the middle of a grading too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt at the terminal is the worker's to handle
    connection = Connection(descriptor)
    waiting: queue.SimpleQueue[Work] = queue.SimpleQueue()

    def listen() -> None:
        try:
            while True:
                waiting.put(connection.recv())
        except (EOFError, OSError):
            os._exit(0)  # its sandboxes end with this process

    threading.Thread(target=listen, daemon=True).start()
    while True:
        work = waiting.get()
        try:
            outcome = run(work)
        except Exception as error:  # noqa: BLE001  a fault of ours must not end the process
            outcome = Fault(f"A fault in the autograder: {type(error).__name__}: {error}")
        connection.send(outcome)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
