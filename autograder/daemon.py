"""The warm process of one user: everything imported, oracles started, a child ready for the next check.

``python -m autograder.daemon``; `autograder.warm` starts it and speaks to it. The process itself has one thread and
runs nothing of a learner's, so that it can fork: each request is answered by a child, which shares what was imported,
ends when it has answered, and can neither slow nor break the next. One child waits ahead of its request, with cases
drawn, answers fetched and a sandbox started.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from autograder import frames, oracles, warm
from autograder.oracles import runtime

CHILD_PATIENCE = 5.0
"""Seconds a child whose learner has gone away may take to close its sandbox."""


def main(arguments: list[str] | None = None) -> int:
    """Serve until idle, told to stop, or asked by newer code."""
    parser = argparse.ArgumentParser(description="Answers the checks of this user's notebooks.")
    parser.add_argument("--lock", type=int, required=True, help="descriptor of the lock file, held for life")
    parser.add_argument("--idle", type=float, default=900.0, help="seconds without a request after which it ends")
    parser.add_argument("--file", default="", help="the notebook for which it was started")
    options = parser.parse_args(arguments)
    # A sandbox's mount points must be passable to the user it runs as, whatever the learner's umask is;
    # what is private (socket, log, gradebook) is given its mode by name.
    os.umask(0o022)
    stamp = warm.code_stamp()
    path = warm.socket_path()
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(os.fspath(path))
        os.chmod(path, 0o600)
        listener.listen(64)
        oracles.launch_all()
        from autograder import answering  # all that is heavy, once the oracles are on their way

        answering.import_everything()
        gc.collect()
        gc.freeze()
        server = Server(listener, stamp, options.idle, options.lock, answering.likely_lab(options.file))
        try:
            server.serve()
        finally:
            path.unlink(missing_ok=True)
            server.close()
    return 0


class Child:
    """One child, and the socket over which it is handed its request; the other end closes when it ends."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid, self.line = pid, line

    def hand(self, connection: socket.socket) -> bool:
        """Give it a learner's connection. False if it has ended."""
        try:
            socket.send_fds(self.line, [b"!"], [connection.fileno()])
        except OSError:
            return False
        return True

    def about(self) -> str:
        """What it said last: the lab and the task it was asked about."""
        self.line.setblocking(False)
        try:
            return self.line.recv(200).decode()
        except OSError:
            return ""


class Server:
    """Accepts, greets and hands on; never waits for anything but the next event."""

    def __init__(self, listener: socket.socket, stamp: str, idle: float, lock: int, about: str) -> None:
        self.listener, self.stamp, self.idle, self.lock = listener, stamp, idle, lock
        self.about = about
        """What will probably be asked next."""
        self.busy: list[Child] = []
        self.spare: Child | None = None
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)
        self.last = time.monotonic()

    def serve(self) -> None:
        while True:
            if self.spare is None and not self.busy and self.about:
                self.spare = self.fork(self.about)
            left = None if self.busy else max(0.0, self.last + self.idle - time.monotonic())
            for key, _ in self.selector.select(left):
                if key.fileobj is not self.listener:
                    self.reap(key.data)
                elif not self.accept():
                    return
            if not self.busy and time.monotonic() - self.last >= self.idle:
                return

    def accept(self) -> bool:
        """Take one connection. False when this process must make way for newer code, or was told to stop."""
        connection, _ = self.listener.accept()
        with connection:
            if not runtime.same_user(connection):
                return True
            self.last = time.monotonic()
            if not greet(connection, self.stamp):
                return False
            child, self.spare = self.spare or self.fork(""), None
            if not child.hand(connection):
                self.reap(child)
                child = self.fork("")
                child.hand(connection)
            self.busy.append(child)
        return True

    def fork(self, about: str) -> Child:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            self.forget()
            become_child(theirs, about)
        theirs.close()
        child = Child(pid, ours)
        self.selector.register(ours, selectors.EVENT_READ, child)
        return child

    def forget(self) -> None:
        """In a child: close what is the parent's alone, the lock above all."""
        for child in [*self.busy, *([self.spare] if self.spare else [])]:
            child.line.close()
        self.selector.close()
        self.listener.close()
        os.close(self.lock)

    def reap(self, child: Child) -> None:
        """A child has ended, or has told what it was about and is ending."""
        self.about = child.about() or self.about
        self.selector.unregister(child.line)
        child.line.close()
        os.waitpid(child.pid, 0)
        self.busy = [other for other in self.busy if other is not child]
        if self.spare is child:
            # It could not prepare itself: don't try in a loop, the next request will say what is wrong.
            self.spare, self.about = None, ""
        self.last = time.monotonic()

    def close(self) -> None:
        """Let the waiting child go. Those at work finish by themselves."""
        if self.spare is not None:
            self.spare.line.close()
            os.waitpid(self.spare.pid, 0)


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


def become_child(line: socket.socket, about: str) -> NoReturn:
    """Wait for a request, answer it in this process, and end."""
    status = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        work(line, about)
        status = 0
    except (KeyboardInterrupt, OSError, EOFError, frames.FrameError):
        status = 0  # the learner went away; there is nobody to tell
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        os._exit(status)


def work(line: socket.socket, about: str) -> None:
    from autograder import answering

    with contextlib.ExitStack() as stack:
        prepared = answering.prepare(about)
        if prepared is not None:
            stack.callback(prepared.close)
        _, descriptors, _, _ = socket.recv_fds(line, 1, 1)
        if not descriptors:  # the parent has ended
            return
        with socket.socket(fileno=descriptors[0]) as connection:
            asked = converse(connection, prepared)
        line.sendall(asked.encode()[:200])


def converse(connection: socket.socket, prepared: Any) -> str:
    """Answer the one request of a connection; returns the lab and task it was about."""
    from autograder import answering

    request = frames.read_frame(connection, timeout=30.0)
    lock = threading.Lock()
    asked = ""

    def write(message: dict[str, Any]) -> None:
        nonlocal asked
        asked = message.get("about", asked)
        with lock:
            frames.write_frame(connection, message)

    def write_if_heard(message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            write(message)

    # What is handed in is graded and recorded even when the notebook closes meanwhile.
    reply: Callable[[dict[str, Any]], None] = write_if_heard
    if request.get("do") == "check":
        threading.Thread(target=watch, args=(connection,), daemon=True).start()
        reply = write
    answering.answer(request, reply, prepared)
    return asked


def watch(connection: socket.socket) -> None:
    """Interrupt the work when the learner interrupts the cell or the kernel ends."""
    with contextlib.suppress(OSError):
        connection.recv(1)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(CHILD_PATIENCE)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
