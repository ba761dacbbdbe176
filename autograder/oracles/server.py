"""One framework's process: imports it once, then answers batches of cases until nobody has asked for a while.

Started by `client.launch`, which hands it the lock it holds for life. One thread, the main one, touches the
framework; every connection has a thread of its own that reads requests and keeps its client informed.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import queue
import socket
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from autograder import frames, spec
from autograder.oracles import runtime

FAILED_SECONDS = 5.0
"""How long a process whose framework cannot be imported stays to say so."""


class Job:
    """A request that waits for the framework's thread."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.reply: dict[str, Any] = {}
        self.done = threading.Event()
        self.abandoned = False


class Server:
    """Answers for one framework on one socket.

    Parameters
    ----------
    framework : str
        The module to import: ``"torch"``, ``"tensorflow"``.
    path : Path
        The socket.
    idle : float
        Seconds without a request after which the process ends.
    """

    def __init__(self, framework: str, path: Path, idle: float) -> None:
        self.framework, self.path, self.idle = framework, path, idle
        self.module: ModuleType | None = None
        self.state, self.error = "importing", ""
        self.started = self.last = time.monotonic()
        self.served = 0
        self.code = runtime.code_version()
        self.jobs: queue.Queue[Job | None] = queue.Queue()
        self.labs: dict[str, spec.Lab] = {}
        self.stamp = ""

    def run(self) -> None:
        """Listen, import, answer; returns when idle or told to stop."""
        self.path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(os.fspath(self.path))
            os.chmod(self.path, 0o600)
            listener.listen(64)
            threading.Thread(target=self.accept, args=(listener,), daemon=True).start()
            self.load_framework()
            try:
                self.work()
            finally:
                self.path.unlink(missing_ok=True)
        self.refuse_waiting()

    def load_framework(self) -> None:
        # An import makes millions of objects and hardly any garbage: collecting takes a quarter of TensorFlow's time.
        gc.disable()
        try:
            self.module = importlib.import_module(self.framework)
            warm_up(self.framework, self.module)
        except Exception as error:  # noqa: BLE001  a broken install can raise anything; it is reported to whoever asks
            self.state, self.error = "failed", f"cannot import {self.framework}: {one_line(error)}"
            self.idle = min(self.idle, FAILED_SECONDS)
        else:
            gc.freeze()
            self.state = "ready"
        gc.enable()
        self.last = time.monotonic()

    def work(self) -> None:
        while True:
            try:
                job = self.jobs.get(timeout=max(0.0, self.last + self.idle - time.monotonic()))
            except queue.Empty:
                return
            if job is None:
                return
            if not job.abandoned:
                job.reply = self.answer(job.request)
                self.served += 1
            job.done.set()
            self.last = time.monotonic()

    def refuse_waiting(self) -> None:
        while not self.jobs.empty():
            job = self.jobs.get_nowait()
            if job is not None:
                job.reply = {"gone": True}
                job.done.set()

    def accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed: the process is ending
                return
            if runtime.same_user(connection):
                threading.Thread(target=self.converse, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def converse(self, connection: socket.socket) -> None:
        """Serve one client until it leaves or says something that isn't a frame."""
        with connection, contextlib.suppress(OSError, EOFError, frames.FrameError):
            while True:
                request = frames.read_frame(connection)
                frames.write_frame(connection, self.respond(request, connection))

    def respond(self, request: Any, connection: socket.socket) -> dict[str, Any]:
        match request:
            case {"do": "hello"}:
                return self.hello()
            case {"do": "stop"}:
                self.jobs.put(None)
                if self.state == "importing":  # nothing to lose, and no import can be interrupted otherwise
                    threading.Timer(0.05, self.leave).start()
                return {"stopping": True}
            case {"do": "answer", "lab": str(), "task": str(), "stamp": str(), "version": str(), "cases": list()}:
                job = Job(request)
                self.jobs.put(job)
                while not job.done.wait(1.0):
                    try:
                        frames.write_frame(
                            connection, {"progress": self.state, "seconds": time.monotonic() - self.started}
                        )
                    except OSError:
                        job.abandoned = True
                        raise
                return job.reply
        return {"error": "not a request this oracle knows"}

    def leave(self) -> None:
        self.path.unlink(missing_ok=True)
        os._exit(0)

    def hello(self) -> dict[str, Any]:
        now = time.monotonic()
        return {
            "framework": self.framework,
            "code": self.code,
            "pid": os.getpid(),
            "state": self.state,
            "error": self.error,
            "release": str(getattr(self.module, "__version__", "")),
            "served": self.served,
            "seconds": now - self.started,
            "idle": now - self.last,
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Evaluate one batch. Each answer is ``{"value": encoded}`` or ``{"error": sentence}``."""
        if self.state == "failed":
            return {"error": self.error}
        try:
            task = self.find_task(request)
            oracle = task.oracles[self.framework]
        except Exception as error:  # noqa: BLE001  a spec is ours, but it is code: a fault in it must not end the process
            return {"error": f"{request['lab']}/{request['task']}: {one_line(error)}"}
        answers: list[dict[str, Any]] = []
        for inputs in request["cases"]:
            try:
                answers.append({"value": frames.encode(oracle(self.module, **inputs))})
            except Exception as error:  # noqa: BLE001  as above; it becomes `ungraded`, never the learner's fault
                answers.append({"error": one_line(error)})
        return {"answers": answers}

    def find_task(self, request: dict[str, Any]) -> spec.Task:
        """The task as it is on disk now; imported afresh when the sources changed since the last time."""
        name, stamp = request["lab"], request["stamp"]
        if stamp != self.stamp:
            forget_specs()
            self.labs.clear()
            self.stamp = stamp
        if name not in self.labs:
            self.labs[name] = spec.load_lab(name)
        lab = self.labs[name]
        if lab.version != request["version"]:
            self.labs.clear()
            self.stamp = ""
            raise RuntimeError(
                f"the spec on disk is {lab.version}, the grader has {request['version']}; start the grading again"
            )
        return lab.task(request["task"])


def forget_specs() -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == "internals" or name.startswith(("autograder.specs", "autograder.drivers")):
            del sys.modules[name]
    importlib.invalidate_caches()


def one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def warm_up(framework: str, module: Any) -> None:
    """Pay for what a framework does at its first gradient before anyone waits for it."""
    if framework == "torch":
        x = module.ones(2, requires_grad=True)
        (x * x).sum().backward()
    elif framework == "tensorflow":
        x = module.constant([1.0, 1.0])
        with module.GradientTape() as tape:
            tape.watch(x)
            y = module.reduce_sum(x * x)
        tape.gradient(y, x).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(prog="autograder.oracles.server")
    parser.add_argument("framework")
    parser.add_argument("socket", type=Path)
    parser.add_argument("--idle", type=float, default=900.0)
    given = parser.parse_args()
    Server(given.framework, given.socket, given.idle).run()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    # Frameworks keep threads that can hang or crash an ordinary exit; nothing here is left to save.
    os._exit(0)
