"""Errors in words: what kind, what it says, and the learner's own lines that led to it.

Mounted in the sandbox as the module ``telling``.
"""

from __future__ import annotations

import _thread
import errno
import linecache
import signal
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from autograder.inside.plain import NotPlain, sendable
    from autograder.inside.surroundings import InputRefused, ShellRefused
else:
    from plain import NotPlain, sendable
    from surroundings import InputRefused, ShellRefused

CELL = "<cell "
"""How the file names of cells start; a number and ``>`` follow."""
MESSAGE = 2_000
TRACEBACK = 8_000

_PROCESS_EVENTS = {"os.fork", "os.forkpty", "os.system", "os.posix_spawn", "os.exec", "subprocess.Popen"}
_NETWORK_EVENTS = {"socket.__new__", "socket.getaddrinfo", "socket.gethostbyname", "socket.connect"}
_REFUSALS = {errno.EPERM, errno.EACCES, errno.EAGAIN}
_MAIN = _thread.get_ident()
_TRACEBACK = BaseException.__dict__["__traceback__"]


class Told(Exception):
    """An error that was described where it happened, in another process; `told` is what `describe` gave there."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told["message"])
        self.told = told


class _TooLong(Exception):
    """A message took too long to make."""


def asked_for(event: str) -> str:
    """What an audit event asks for that a sandbox doesn't give: "processes", "network" or ""."""
    return "processes" if event in _PROCESS_EVENTS else "network" if event in _NETWORK_EVENTS else ""


def describe(
    error: BaseException, traceback: types.TracebackType | None, asked: Sequence[str], running: int
) -> dict[str, Any]:
    """The error as the grader wants it; `asked` holds what was asked for in vain, `running` is the cell."""
    if isinstance(error, Told):
        return error.told
    shown, cell, line = learner_frames(traceback)
    told: dict[str, Any] = {
        "type": _type_name(error),
        "message": _message(error),
        "traceback": shown,
        "cell": cell,
        "line": line,
    }
    try:
        if isinstance(error, SyntaxError) and str(error.filename).startswith(CELL):
            told["cell"], told["line"] = running, error.lineno if type(error.lineno) is int else 0
        return told | {"cause": cause_of(error, asked)}
    except Exception:  # noqa: BLE001  what an exception's own attributes raise may be anything
        return told | {"cause": "exception"}


def forget_frames(error: BaseException) -> None:
    """Let go of the frames, and all they hold; past what the error's class may claim."""
    _TRACEBACK.__set__(error, None)


def cause_of(error: BaseException, asked: Sequence[str]) -> str:
    """A `report.Cause` for an exception."""
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
        # An import may have asked for a process in vain, and got over it: only what a refusal looks like counts.
        if asked and (error.errno is None or error.errno < 0 or error.errno in _REFUSALS):
            return asked[-1]
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
        if code.co_filename.startswith(CELL):
            number = code.co_filename[len(CELL) : -1]
            places.append(
                (int(number) if number.isdigit() else 0, traceback.tb_lineno or 0, code.co_name, code.co_filename)
            )
        traceback = traceback.tb_next
        seen += 1
    if not places:
        return "", 0, 0
    shown = places if len(places) <= 12 else places[:4] + places[-8:]
    lines = []
    for position, (cell, line, name, file) in enumerate(shown):
        if len(places) > 12 and position == 4:
            lines.append(f"... {len(places) - 12} more calls ...")
        lines.append(f"cell {cell}, line {line}" + ("" if name == "<module>" else f", in {name}"))
        source = linecache.getline(file, line).strip()
        if source:
            lines.append(f"    {source[:200]}")
    return sendable("\n".join(lines)[:TRACEBACK]), places[-1][0], places[-1][1]


def _type_name(error: BaseException) -> str:
    name = type.__dict__["__name__"].__get__(type(error))
    return sendable(str.__str__(name)[:200])


def _message(error: BaseException) -> str:
    """``str(error)``, cut; a ``__str__`` that raises or does not end costs half a second."""
    if isinstance(error, SystemExit):
        return "the code asked Python to exit" + (f" (status {error.code})" if type(error.code) is int else "")
    main = _thread.get_ident() == _MAIN

    def stop(*_: object) -> NoReturn:
        raise _TooLong

    previous = signal.signal(signal.SIGALRM, stop) if main else None
    try:
        if main:
            signal.setitimer(signal.ITIMER_REAL, 0.5)
        text = str(error)
        text = str.__str__(text[:MESSAGE]) + (" ..." if len(text) > MESSAGE else "")
    except BaseException as problem:  # noqa: BLE001  a message may raise anything, exits included
        text = (
            "(its message took too long to make)"
            if isinstance(problem, _TooLong)
            else f"(its message can't be shown: {_type_name(problem)})"
        )
    finally:
        if main:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
    return sendable(text)
