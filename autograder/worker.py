"""Runs inside the sandbox: executes a learner's cells, calls their functions, answers with plain data.

Nothing in this process is trusted by the grader, which checks every frame it gets; so nothing here defends
itself against the learner's code. It only has to survive what an honest mistake does, and to name it well.
Started as ``python -I -S -B worker.py PATH...``; requests come on descriptor 3, replies go to 4.
"""

from __future__ import annotations

import _thread
import builtins
import faulthandler
import gc
import inspect
import linecache
import os
import signal
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder import frames
    from autograder.inside.plain import NotPlain, plain, sendable
    from autograder.inside.surroundings import redirect, surround
    from autograder.inside.telling import CELL, asked_for, describe, forget_frames
else:
    sys.path.extend(sys.argv[1:])
    import frames
    from plain import NotPlain, plain, sendable
    from surroundings import redirect, surround
    from telling import CELL, asked_for, describe, forget_frames

REQUESTS, REPLIES = 3, 4
RECURSION = 1000
OUT_OF_MEMORY = 97
"""Exit status: there wasn't even the memory left to say so."""


class Worker:
    """Holds the notebook's names and answers requests."""

    def __init__(self) -> None:
        self.module = types.ModuleType("__main__")
        self.names = self.module.__dict__
        self.drivers: dict[str, Any] = {}
        self.marked: dict[str, dict[str, Any]] = {}
        self.cell = 0
        self.asked: list[str] = []
        self._loop: Any = None
        self._ballast: bytearray | None = bytearray(4 << 20)
        sys.modules["__main__"] = self.module
        self.names["__builtins__"] = builtins
        surround(self.names, self.run_inner)
        sys.addaudithook(self._audit)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One reply: ``{"value": ...}``, ``{"missing": [...]}``, ``{"error": {...}}`` or ``{"done": True}``."""
        printed = redirect()
        self.asked.clear()
        # Shortly before the grader's patience ends, tell it on stderr where the code is.
        faulthandler.dump_traceback_later(request["limit"], file=2)
        do = request.get("do")
        try:
            reply = getattr(self, f"_do_{do}")(request)
        except BaseException as error:  # noqa: BLE001  whatever a learner's code raises is an answer, exits included
            if isinstance(error, MemoryError):
                self._ballast = None
            reply = {"error": describe(error, sys.exc_info()[2], self.asked, self.cell)}
            forget_frames(error)
        faulthandler.cancel_dump_traceback_later()
        reply["printed"], reply["cut"] = sendable(printed.text()), printed.cut
        reply["threads"] = _thread._count()
        _reset()
        return reply

    def _do_load(self, request: dict[str, Any]) -> dict[str, Any]:
        source = request["drivers"]
        module = types.ModuleType("drivers")
        sys.modules["drivers"] = module
        exec(compile(source, "<drivers>", "exec", dont_inherit=True), module.__dict__)
        self.drivers = module.__dict__
        return {"done": True}

    def _do_exec(self, request: dict[str, Any]) -> dict[str, Any]:
        self.cell = request["cell"]
        self._run(request["code"], f"{CELL}{self.cell}>")
        return {"done": True}

    def _do_mark(self, request: dict[str, Any]) -> dict[str, Any]:
        wanted = request["names"]
        self.marked[request["task"]] = {name: self.names[name] for name in wanted if name in self.names}
        return {"missing": [name for name in wanted if name not in self.names]}

    def _do_call(self, request: dict[str, Any]) -> dict[str, Any]:
        driver: Callable[..., Any] = self.drivers[request["driver"]]
        return {"value": plain(driver(self.marked[request["task"]], **request["inputs"]))}

    def run_inner(self, code: str) -> Any:
        """Code inside a cell: the body of ``%%time``."""
        return self._run(code, f"{CELL}{self.cell}>")

    def _run(self, source: str, name: str) -> None:
        lines = source.splitlines(keepends=True)
        linecache.cache[name] = (len(source), None, lines, name)
        code = compile(source, name, "exec", flags=0x2000, dont_inherit=True)  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        if code.co_flags & inspect.CO_COROUTINE:
            import asyncio

            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                asyncio.set_event_loop(self._loop)
            self._loop.run_until_complete(eval(code, self.names))
        else:
            exec(code, self.names)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if asked := asked_for(event):
            self.asked.append(asked)


def _reset() -> None:
    """Undo what one task must not leave to another: timers, hooks on every call, a recursion limit too low for us."""
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)
    sys.settrace(None)
    sys.setprofile(None)
    gc.callbacks.clear()
    for descriptor in (REQUESTS, REPLIES):
        os.set_blocking(descriptor, True)  # one that is closed ends this process here, in the task that closed it
    if sys.getrecursionlimit() < RECURSION:
        sys.setrecursionlimit(RECURSION)


def serve() -> None:
    """Answer requests until the grader closes its end."""
    read, write, reply_to = frames.read_frame, frames.encode, os.write
    worker = Worker()
    faulthandler.enable(file=2, all_threads=False)
    gc.collect()
    gc.freeze()
    header = frames._HEADER
    while True:
        try:
            request = read(REQUESTS)
        except EOFError:
            os._exit(0)
        try:
            reply = worker.answer(request)
            try:
                body = write({"id": request["id"], **reply})
                if len(body) > frames.REPLY_LIMIT:
                    raise frames.FrameError(f"it takes {len(body) >> 20} MB, far more than any right answer")
            except frames.FrameError as error:
                refusal = NotPlain(f"the result can't be read: {error}")
                body = write({"id": request["id"], **reply, "value": None, "error": describe(refusal, None, (), 0)})
            data = memoryview(header.pack(len(body)) + body)
            while data:
                data = data[reply_to(REPLIES, data) :]
            worker._ballast = worker._ballast or bytearray(4 << 20)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    serve()
