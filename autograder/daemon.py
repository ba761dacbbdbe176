"""The warm process of one user: everything imported, oracles started, a fork per request.

``python -m autograder.daemon``; `autograder.warm` starts it and speaks to it. One thread only, so that forking is
safe: a child shares what was imported, answers one request and ends, and can neither slow nor break the next.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import socket
import sys
import threading
import time
import traceback
from typing import Any

from autograder import frames, oracles, warm
from autograder.oracles import runtime

CHILD_PATIENCE = 5.0
"""Seconds a child whose learner has gone away may take to close its sandbox."""


def main(arguments: list[str] | None = None) -> int:
    """Serve until idle, told to stop, or asked by newer code."""
    parser = argparse.ArgumentParser(description="Answers the checks of this user's notebooks.")
    parser.add_argument("--lock", type=int, required=True, help="descriptor of the lock file, held for life")
    parser.add_argument("--idle", type=float, default=900.0, help="seconds without a request after which it ends")
    options = parser.parse_args(arguments)
    os.umask(0o077)
    stamp = warm.code_stamp()
    path = warm.socket_path()
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(os.fspath(path))
        listener.listen(64)
        oracles.launch_all()
        from autograder import answering  # all that is heavy, once the oracles are on their way

        answering.import_everything()
        gc.collect()
        gc.freeze()
        try:
            serve(listener, stamp, options.idle, options.lock)
        finally:
            path.unlink(missing_ok=True)
    return 0


def serve(listener: socket.socket, stamp: str, idle: float, lock: int) -> None:
    children: set[int] = set()
    last = time.monotonic()
    while True:
        for child in list(children):
            if os.waitpid(child, os.WNOHANG)[0]:
                children.discard(child)
                last = time.monotonic()
        listener.settimeout(1.0 if children else max(0.0, last + idle - time.monotonic()) + 0.01)
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            if not children and time.monotonic() - last >= idle:
                return
            continue
        with connection:
            connection.settimeout(None)
            if not runtime.same_user(connection):
                continue
            last = time.monotonic()
            if not greet(connection, stamp):
                return
            child = os.fork()
            if child == 0:
                become_child(connection, listener, lock)
            children.add(child)


def greet(connection: socket.socket, stamp: str) -> bool:
    """Say which code runs here. False when this process must make way for newer code, or was told to stop."""
    try:
        request = frames.read_frame(connection, timeout=2.0)
        if isinstance(request, dict) and request.get("do") == "stop":
            frames.write_frame(connection, {"stopping": True})
            return False
        # A changed file on disk counts as well as a client of another version.
        current = warm.code_stamp()
        frames.write_frame(connection, {"stamp": current if current == stamp else "", "pid": os.getpid()})
    except (OSError, EOFError, frames.FrameError):
        return True
    return current == stamp == request.get("stamp")


def become_child(connection: socket.socket, listener: socket.socket, lock: int) -> None:
    """Answer one request in a process of its own, and end. Never returns."""
    status = 1
    try:
        listener.close()
        os.close(lock)  # the lock is the parent's alone
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        converse(connection)
        status = 0
    except (KeyboardInterrupt, OSError, EOFError, frames.FrameError):
        pass  # the learner went away; there is nobody to tell
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        os._exit(status)


def converse(connection: socket.socket) -> None:
    from autograder import answering

    request = frames.read_frame(connection, timeout=30.0)
    lock = threading.Lock()

    def reply(message: dict[str, Any]) -> None:
        with lock:
            frames.write_frame(connection, message)

    if request.get("do") == "check":
        threading.Thread(target=watch, args=(connection,), daemon=True).start()
    else:
        # What is handed in is graded and recorded even when the notebook closes meanwhile.
        unheard = reply

        def reply(message: dict[str, Any]) -> None:
            with contextlib.suppress(OSError):
                unheard(message)

    answering.answer(request, reply)


def watch(connection: socket.socket) -> None:
    """Interrupt the work when the learner interrupts the cell or the kernel ends."""
    with contextlib.suppress(OSError):
        connection.recv(1)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(CHILD_PATIENCE)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
