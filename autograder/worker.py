"""Runs inside the sandbox: executes a learner's cells, calls their functions, answers with plain data.

Nothing in this process is trusted by the grader, which checks every frame it gets; so nothing here defends
itself against the learner's code. It only has to survive what an honest mistake does, and to name it well.
Started as ``python -I -S -B worker.py PATH...``; requests come on descriptor 3, replies go to 4.
"""

from __future__ import annotations

import builtins
import errno
import faulthandler
import gc
import inspect
import io
import linecache
import os
import signal
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

if __name__ == "__main__":
    sys.path.extend(sys.argv[1:])

import _thread

import frames
import numpy

REQUESTS, REPLIES = 3, 4
PRINTED = 20_000
MESSAGE = 2_000
TRACEBACK = 8_000
OUT_OF_MEMORY = 97
"""Exit status: there wasn't even the memory left to say so."""

_CELL = "<cell "
_NO_OP_MAGICS = frozenset(
    {
        "matplotlib",
        "config",
        "load_ext",
        "reload_ext",
        "unload_ext",
        "autoreload",
        "precision",
        "autosave",
        "xmode",
        "pylab",
    }
)
_SHELL_MAGICS = frozenset(
    {
        "sx",
        "sc",
        "system",
        "bash",
        "sh",
        "script",
        "perl",
        "ruby",
        "html",
        "javascript",
        "js",
        "cmd",
        "pip",
        "conda",
        "pypy",
        "python",
        "python2",
        "python3",
        "edit",
        "killbgscripts",
    }
)


class InputRefused(RuntimeError):
    """Nobody is there to type."""


class ShellRefused(RuntimeError):
    """A shell command in a cell."""


class _TooLong(Exception):
    """A message took too long to make."""


# --- what cells print -----------------------------------------------------------------------------


class Printed(io.TextIOBase):
    """Keeps the start of what is written, drops the rest at the cost of one C call."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._left = PRINTED
        self.cut = False
        self.buffer = _Bytes(self)

    encoding = "utf-8"  # type: ignore[assignment]  # a plain attribute, as sys.stdout has

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._parts.append(text[: self._left])
        self._left -= len(text)
        if self._left <= 0:
            self.cut = True
            self.write = len  # type: ignore[method-assign]  # print() then costs no Python call: 200 MB must not be slow
        return len(text)

    def text(self) -> str:
        return "".join(self._parts)


class _Bytes(io.RawIOBase):
    def __init__(self, printed: Printed) -> None:
        self._printed = printed

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._printed.write(bytes(view[:PRINTED]).decode("utf-8", "replace"))
        return len(view)


class _NoInput(io.TextIOBase):
    """Stands where stdin was."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise InputRefused("input isn't available while a notebook is graded; give the value in the code.")

    read = readline = readlines = __next__ = _refuse  # type: ignore[assignment]  # every way to read


def _no_input(prompt: object = "", /) -> NoReturn:
    raise InputRefused("input() isn't available while a notebook is graded; give the value in the code.")


# --- what a notebook expects around it ------------------------------------------------------------


class Shell:
    """What ``get_ipython()`` gives: magics that need nothing are done here, others by a real shell, commands are refused."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._real: Any = None

    def system(self, command: str) -> NoReturn:
        raise ShellRefused(
            f"!{command[:80]}: shell commands are not run while a notebook is graded; do it in Python, or remove the line."
        )

    getoutput = getoutput_split = system_piped = system_raw = system

    def run_line_magic(self, name: str, line: str = "", _stack_depth: int = 1) -> Any:
        self._refuse_shell(f"%{name}", name)
        if name in _NO_OP_MAGICS:
            return None
        if name == "time" and line:
            return self._worker.run_inner(line)
        return self._shell().run_line_magic(name, line)

    def run_cell_magic(self, name: str, line: str, cell: str) -> Any:
        self._refuse_shell(f"%%{name}", name)
        if name in ("time", "capture"):
            return self._worker.run_inner("\n" + cell)
        return self._shell().run_cell_magic(name, line, cell)

    magic = run_line_magic

    def _refuse_shell(self, shown: str, name: str) -> None:
        if name in _SHELL_MAGICS:
            raise ShellRefused(
                f"{shown}: other programs are not run while a notebook is graded; remove it, or tag the cell `use`."
            )

    def _shell(self) -> Any:
        if self._real is None:
            from IPython.core.interactiveshell import InteractiveShell
            from traitlets.config import Config

            quiet = Config({"HistoryManager": {"enabled": False}})  # no database, and no thread to write to it
            shell = InteractiveShell.instance(config=quiet, user_module=self._worker.module, user_ns=self._worker.names)
            shell.system = shell.system_piped = shell.system_raw = shell.getoutput = self.system
            self._real = shell
        return self._real

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._shell(), name)


def _stand_in() -> types.ModuleType:
    """The module ``autograder`` as cells see it here: checks and hand-ins do nothing."""
    module = types.ModuleType("autograder", "Stands in for the autograder while a notebook is graded.")
    module.check = module.submit = lambda *_, **__: None  # type: ignore[attr-defined]  # a module made by hand
    return module


def _leave(code: object = None) -> NoReturn:
    raise SystemExit(code)


# --- the worker -----------------------------------------------------------------------------------


class Worker:
    """Holds the notebook's names and answers requests."""

    def __init__(self) -> None:
        self.module = types.ModuleType("__main__")
        self.names = self.module.__dict__
        self.drivers: dict[str, Any] = {}
        self.marked: dict[str, dict[str, Any]] = {}
        self.cell = 0
        self.refusals: list[str] = []
        self._loop: Any = None
        self._ballast: bytearray | None = bytearray(4 << 20)
        sys.modules["__main__"] = self.module
        sys.modules["autograder"] = _stand_in()
        shell = Shell(self)
        self.names["__builtins__"] = builtins
        vars(builtins).update(
            get_ipython=lambda: shell,
            display=lambda *values, **_: print(*values),
            input=_no_input,
            exit=_leave,
            quit=_leave,
        )
        sys.addaudithook(self._audit)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One reply: ``{"value": ...}``, ``{"missing": [...]}``, ``{"error": {...}}`` or ``{"done": True}``."""
        printed = Printed()
        sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = printed  # type: ignore[assignment, misc]  # what cells see
        sys.stdin = _NoInput()  # type: ignore[assignment]  # what cells see
        self.refusals.clear()
        do = request.get("do")
        try:
            reply = getattr(self, f"_do_{do}")(request)
        except BaseException as error:
            if isinstance(error, MemoryError):
                self._ballast = None
            reply = {"error": self._describe(error, sys.exc_info()[2])}
            _TRACEBACK.__set__(error, None)  # else the frames, and all they hold, stay until the next error
        reply["printed"], reply["cut"] = _sendable(printed.text()), printed.cut
        reply["threads"] = _thread._count()
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
        self._run(request["code"], f"{_CELL}{self.cell}>")
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
        return self._run(code, f"{_CELL}{self.cell}>")

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

    # --- errors, in words ---

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("os.fork", "os.forkpty", "subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"):
            self.refusals.append("processes")
        elif event in ("socket.__new__", "socket.getaddrinfo", "socket.gethostbyname", "socket.connect"):
            self.refusals.append("network")

    def _describe(self, error: BaseException, traceback: types.TracebackType | None) -> dict[str, Any]:
        frames_seen, cell, line = learner_frames(traceback)
        kind = _type_name(error)
        message = _message(error)
        if isinstance(error, SyntaxError) and isinstance(error.filename, str) and error.filename.startswith(_CELL):
            cell, line = self.cell, error.lineno if type(error.lineno) is int else 0
        return {
            "type": kind,
            "message": message,
            "traceback": frames_seen,
            "cell": cell,
            "line": line,
            "cause": self._cause(error),
        }

    def _cause(self, error: BaseException) -> str:
        if isinstance(error, SystemExit):
            return "exit"
        if isinstance(error, MemoryError):
            return "memory"
        if isinstance(error, InputRefused):
            return "input"
        if isinstance(error, ShellRefused):
            return "processes"
        if isinstance(error, NotPlain):
            return "value"
        if isinstance(error, SyntaxError):
            return "syntax"
        if isinstance(error, OSError):
            if self.refusals:
                return self.refusals[-1]
            if error.filename is not None or error.errno in (errno.EFBIG, errno.ENOSPC, errno.EROFS):
                return "files"
            if error.errno == errno.EACCES:  # without a file: the filter's answer to sockets
                return "network"
        return "exception"


def learner_frames(traceback: types.TracebackType | None) -> tuple[str, int, int]:
    """The learner's own frames as text, and the cell and line of the innermost."""
    places: list[tuple[int, int, str, str]] = []
    seen = 0
    while traceback is not None and seen < 200_000:
        code = traceback.tb_frame.f_code
        if code.co_filename.startswith(_CELL):
            number = code.co_filename[len(_CELL) : -1]
            places.append(
                (int(number) if number.isdigit() else 0, traceback.tb_lineno or 0, code.co_name, code.co_filename)
            )
        traceback = traceback.tb_next
        seen += 1
    if not places:
        return "", 0, 0
    shown = places if len(places) <= 12 else places[:4] + places[-8:]
    lines = []
    for position, (number, line, name, file) in enumerate(shown):
        if len(places) > 12 and position == 4:
            lines.append(f"... {len(places) - 12} more calls ...")
        lines.append(f"cell {number}, line {line}" + ("" if name == "<module>" else f", in {name}"))
        source = linecache.getline(file, line).strip()
        if source:
            lines.append(f"    {source[:200]}")
    return _sendable("\n".join(lines)[:TRACEBACK]), places[-1][0], places[-1][1]


def _type_name(error: BaseException) -> str:
    name = type.__dict__["__name__"].__get__(type(error))
    return _sendable(str.__str__(name)[:200])


def _message(error: BaseException) -> str:
    """``str(error)``, cut; a ``__str__`` that raises or does not end costs half a second."""
    if isinstance(error, SystemExit):
        return "the code asked Python to exit" + (f" (status {error.code})" if isinstance(error.code, int) else "")
    main = _thread.get_ident() == _MAIN

    def stop(*_: object) -> NoReturn:
        raise _TooLong

    previous = signal.signal(signal.SIGALRM, stop) if main else None
    try:
        if main:
            signal.setitimer(signal.ITIMER_REAL, 0.5)
        text = str(error)
        text = str.__str__(text[:MESSAGE]) + (" ..." if len(text) > MESSAGE else "")
    except BaseException as problem:
        text = (
            "(its message took too long to make)"
            if isinstance(problem, _TooLong)
            else f"(its message can't be shown: {_type_name(problem)})"
        )
    finally:
        if main:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
    return _sendable(text)


_MAIN = _thread.get_ident()
_TRACEBACK = BaseException.__dict__["__traceback__"]


def _sendable(text: str) -> str:
    """Without halves of surrogate pairs, which are no text."""
    return text.encode("utf-8", "replace").decode("utf-8")


# --- plain data -----------------------------------------------------------------------------------


class NotPlain(TypeError):
    """What came back isn't numbers, strings, arrays, or lists, tuples and dicts of them."""


def plain(value: Any, depth: int = 40) -> Any:
    """`value` as exact built-in types and base arrays; subclasses are stripped of what they claim to be."""
    if value is None or value is Ellipsis or type(value) in (bool, float, bytes):
        return value
    kind = type(value)
    if kind is int or isinstance(value, int):
        number = int.__add__(value, 0)
        if number.bit_length() > frames.INT_BITS:
            raise NotPlain(
                f"the result holds an integer of {number.bit_length()} bits; at most {frames.INT_BITS} are read."
            )
        return number
    if isinstance(value, numpy.ndarray):
        array = numpy.array(value, copy=True, order="C", subok=False)
        if array.dtype.hasobject or array.dtype.kind == "V":
            raise NotPlain(
                f"the result is an array of dtype {array.dtype}; numbers were expected. Check that its parts have equal shapes."
            )
        if array.nbytes > frames.LIMIT // 2:
            raise NotPlain(
                f"the result is an array of {array.nbytes >> 20} MB, shape {array.shape}; far more than any right answer."
            )
        return array
    if isinstance(value, numpy.generic):
        return value
    if isinstance(value, float):
        return float.__add__(value, 0.0)
    if isinstance(value, str):
        return _sendable(str.__str__(value)) if kind is str else _sendable("".join(str.__iter__(value)))
    if depth == 0:
        raise NotPlain("the result is nested more than 40 deep, or contains itself.")
    if isinstance(value, list):
        return [plain(item, depth - 1) for item in list.__iter__(value)]
    if isinstance(value, tuple):
        return tuple(plain(item, depth - 1) for item in tuple.__iter__(value))
    if isinstance(value, dict):
        result = {}
        for key, item in dict.items(value):
            if not isinstance(key, str):
                raise NotPlain(f"the result is a dict with a {type(key).__name__} as a key; strings were expected.")
            result[plain(key)] = plain(item, depth - 1)
        return result
    raise NotPlain(
        f"the result is, or holds, a {_sendable(str(kind.__name__)[:100])}; numbers, arrays, strings, and lists, tuples or dicts of them can be compared."
    )


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
            except frames.FrameError as error:
                body = write(
                    {
                        "id": request["id"],
                        "error": {
                            "type": "NotPlain",
                            "message": f"the result can't be read: {error}",
                            "traceback": "",
                            "cell": 0,
                            "line": 0,
                            "cause": "value",
                        },
                    }
                )
            data = memoryview(header.pack(len(body)) + body)
            while data:
                data = data[reply_to(REPLIES, data) :]
            worker._ballast = worker._ballast or bytearray(4 << 20)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    serve()
