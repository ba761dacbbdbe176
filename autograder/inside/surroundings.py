"""What a notebook expects around it: somewhere to print, ``get_ipython()``, ``display``, the module ``autograder``.

Mounted in the sandbox as the module ``surroundings``.
"""

from __future__ import annotations

import builtins
import io
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

PRINTED = 20_000
"""Characters kept of what one cell or call prints."""

_TOP_LEVEL_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT; importing ast takes a while

_NO_OP_MAGICS = {
    "autoreload", "autosave", "config", "load_ext", "matplotlib", "precision", "pylab", "reload_ext", "unload_ext",
    "xmode",
}  # fmt: skip
_SHOWN_MAGICS = {"html", "HTML", "javascript", "js", "latex", "markdown", "svg", "SVG"}
"""Cells that are looked at, by nobody here."""
_SHELL_MAGICS = {
    "bash", "cmd", "conda", "edit", "killbgscripts", "ls", "perl", "pip", "pypy", "python", "python2", "python3",
    "ruby", "sc", "script", "sh", "sx", "system",
}  # fmt: skip


class InputRefused(RuntimeError):
    """Nobody is there to type."""


class ShellRefused(RuntimeError):
    """A shell command in a cell."""


class Printed(io.TextIOBase):
    """Keeps the start of what is written, drops the rest at the cost of one C call."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._left = PRINTED
        self.cut = False
        self.buffer = _Bytes(self)

    encoding = "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._parts.append(text[: self._left])
        self._left -= len(text)
        if self._left <= 0:
            self.cut = True
            # print() then costs no Python call: 200 MB must not be slow.
            vars(self)["write"] = len
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


class NoInput(io.TextIOBase):
    """Stands where stdin was."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise InputRefused("input isn't available while a notebook is graded; give the value in the code.")

    read = readline = readlines = __next__ = _refuse


def _no_input(prompt: object = "", /) -> NoReturn:
    raise InputRefused("input() isn't available while a notebook is graded; give the value in the code.")


class Shell:
    """What ``get_ipython()`` gives.

    Magics that need nothing are done here, others by a real shell; commands are refused.
    """

    def __init__(self, names: dict[str, Any], run: Callable[[str], Any]) -> None:
        self._names = names
        self._run = run
        self._real: Any = None

    def system(self, command: str) -> NoReturn:
        raise ShellRefused(
            f"!{command[:80]}: shell commands are not run while a notebook is graded; "
            "do it in Python, or remove the line."
        )

    getoutput = getoutput_split = system_piped = system_raw = system

    def run_line_magic(self, name: str, line: str = "", _stack_depth: int = 1) -> Any:
        if name in _SHELL_MAGICS:
            _refuse_shell(f"%{name}")
        if name in _NO_OP_MAGICS:
            return None
        if name == "time" and line:
            return self._timed(line)
        return self._shell().run_line_magic(name, line)

    def run_cell_magic(self, name: str, line: str, cell: str) -> Any:
        if name in _SHELL_MAGICS:
            _refuse_shell(f"%%{name}")
        if name in _SHOWN_MAGICS:
            return None
        if name == "time" or (name == "capture" and not line):
            return self._run("\n" + _translated(cell))
        return self._shell().run_cell_magic(name, line, cell)

    magic = run_line_magic

    def _timed(self, line: str) -> Any:
        """``x = %time f()`` gives x the value of f()."""
        try:
            compile(line, "<time>", "eval", _TOP_LEVEL_AWAIT)
        except SyntaxError:
            return self._run(line)
        self._run(f"__timed__ = ({line}\n)")
        return self._names.pop("__timed__", None)

    def _shell(self) -> Any:
        if self._real is None:
            from IPython.core.interactiveshell import InteractiveShell
            from traitlets.config import Config

            quiet = Config({"HistoryManager": {"enabled": False}})  # no database, and no thread to write to it
            shell = InteractiveShell.instance(config=quiet, user_module=sys.modules["__main__"], user_ns=self._names)
            vars(shell).update(dict.fromkeys(("system", "system_piped", "system_raw", "getoutput"), self.system))
            # From now on the notebook may hold the real shell: it has to refuse, and to pass over, the same.
            vars(shell).update(dict.fromkeys(("enable_gui", "enable_matplotlib", "enable_pylab"), _pass_over))
            line, cell = shell.magics_manager.magics["line"], shell.magics_manager.magics["cell"]
            line.update(dict.fromkeys(_NO_OP_MAGICS, _pass_over))
            cell.update(dict.fromkeys(_SHOWN_MAGICS, _pass_over))
            for magics, mark in ((line, "%"), (cell, "%%")):
                magics.update({name: partial(_refuse_shell, f"{mark}{name}") for name in _SHELL_MAGICS})
            self._real = shell
        return self._real

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._shell(), name)


def _pass_over(*_: Any, **__: Any) -> None:
    """Nothing to do while a notebook is graded."""


def _refuse_shell(shown: str, *_: Any, **__: Any) -> NoReturn:
    raise ShellRefused(
        f"{shown}: other programs are not run while a notebook is graded; remove it, or tag the cell `use`."
    )


def _translated(cell: str) -> str:
    """The Python of a cell that stood below a magic, where it may hold more of them."""
    try:
        compile(cell, "<cell>", "exec", _TOP_LEVEL_AWAIT)
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager

        return TransformerManager().transform_cell(cell)
    return cell


def stand_in() -> types.ModuleType:
    """The module ``autograder`` as cells see it here: checks and hand-ins do nothing."""
    module = types.ModuleType("autograder", "Stands in for the autograder while a notebook is graded.")
    vars(module).update(check=lambda *_, **__: None, submit=lambda *_, **__: None)
    return module


def _leave(code: object = None) -> NoReturn:
    raise SystemExit(code)


def surround(names: dict[str, Any], run: Callable[[str], Any]) -> None:
    """Give the cells what they expect; `names` are theirs, `run` executes code inside the current cell."""
    sys.modules["autograder"] = stand_in()
    shell = Shell(names, run)
    vars(builtins).update(
        get_ipython=lambda: shell,
        display=lambda *values, **_: print(*values),
        input=_no_input,
        exit=_leave,
        quit=_leave,
    )


def redirect() -> Printed:
    """Fresh ears for what is printed, and nobody at the keyboard."""
    printed = Printed()
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        setattr(sys, name, printed)
    sys.stdin = NoInput()
    return printed
