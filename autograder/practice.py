"""``check("task")`` in a notebook: runs the cells a task needs in a sandbox, compares, and says what is wrong.

Nothing is handed in. The work is done by a warm process of this user (`autograder.daemon`), so that an answer
takes a fraction of a second and nothing a notebook does to NumPy can touch it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import Any

from autograder import remote, warm
from autograder.feedback.catalogue import language, say
from autograder.oracles.runtime import RuntimeUnsafe
from autograder.report import Report

QUIET_SECONDS = 1.0
"""How long a check may take before it says what it waits for."""


class Checked:
    """What a check found. Shows itself; true if and only if everything asked for is right, or waits for a person.

    Attributes
    ----------
    report : Report or None
        None where the check could not be made; `message` then says why.
    """

    def __init__(self, *, report: Report | None = None, html: str = "", text: str = "", message: str = "") -> None:
        self.report = report
        self.message = message
        self._html = html
        self._text = text or message

    def __bool__(self) -> bool:
        return self.report is not None and self.report.nothing_lost

    def __repr__(self) -> str:
        return self._text.rstrip("\n")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        return bundle | {"text/html": self._html} if self._html else bundle


def check(*tasks: str, lab: str = "") -> Checked:
    """Check tasks on the cells run so far; all tasks of the lab if none is named.

    Parameters
    ----------
    *tasks : str
        Names as they stand in the lab: ``check("rules")``.
    lab : str
        The lab, where the notebook does not say it.

    Returns
    -------
    Checked
        Shows the result as the last line of a cell; true if and only if all is right.
    """
    for task in tasks:
        if not isinstance(task, str):
            raise TypeError(f'check: a task is named by a string, not {type(task).__name__}: check("rules").')
    shell = notebook_shell()
    if shell is None:
        return Checked(message=say("handing_in.check_no_notebook"))
    request = {
        "do": "check",
        "language": language(),
        "tasks": list(tasks),
        "lab": lab,
        "file": notebook_file(shell.user_ns),
        "cells": [list(cell) for cell in executed(shell)],
        "defined": sorted(
            name for name in shell.user_ns if type(name) is str and name.isidentifier() and name[0] != "_"
        ),
    }
    try:
        with Waiting() as waiting:
            if remote.address():
                reply = remote.check(request)
            else:
                for reply in warm.ask(request, waiting.say):
                    if "progress" in reply:
                        waiting.say(reply["progress"])
    except (warm.WarmError, remote.RemoteError) as error:
        return Checked(message=str(error))
    if "error" in reply:
        return Checked(message=say("handing_in.not_checked", fault=reply["error"]))
    return Checked(report=Report.from_json(reply["report"]), html=reply["html"], text=reply["text"])


def notebook_shell() -> Any:
    """The interactive shell this code runs in, or None."""
    interactive = sys.modules.get("IPython")
    return interactive.get_ipython() if interactive is not None else None


def notebook_file(names: dict[str, Any]) -> str:
    """The file of the notebook that runs, as Jupyter or VS Code tell it; "" where neither does, or it has gone."""
    for told in (names.get("__vsc_ipynb_file__"), os.environ.get("JPY_SESSION_NAME")):
        if isinstance(told, str) and told.endswith(".ipynb") and os.path.isfile(told):
            return os.path.abspath(told)
    return ""


_failed: set[tuple[int, str]] = set()
"""(number, source) of cells that raised."""


def executed(shell: Any) -> list[tuple[int, str, bool]]:
    """(number, source, ran to its end) of every cell run in this kernel, oldest first; the running one last."""
    sources = list(shell.history_manager.input_hist_raw)
    return [
        # Half of a surrogate pair is no text that can be sent; it stands for no name either.
        (number, source.encode(errors="replace").decode(), (number, source.rstrip("\n")) not in _failed)
        for number, source in enumerate(sources)
        if number and source.strip()
    ]


def _remember(result: Any) -> None:
    """Note a cell that failed: it may have stopped before it bound what it would have bound."""
    if not result.success and result.info is not None and result.execution_count is not None:
        _failed.add((result.execution_count, result.info.raw_cell.rstrip("\n")))


class Waiting:
    """Says what a check waits for, in one line that is replaced and in the end removed; nothing if it is quick."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.line: Any = None

    def __enter__(self) -> Waiting:
        return self

    def say(self, sentence: str) -> None:
        if time.monotonic() - self.began < QUIET_SECONDS:
            return
        from IPython.display import Pretty, display

        shown = Pretty(say("handing_in.getting_ready", what=sentence))
        if self.line is None:
            self.line = display(shown, display_id=True)
        else:
            self.line.update(shown)

    def __exit__(self, *exc: object) -> None:
        if self.line is not None:
            from IPython.display import Pretty

            self.line.update(Pretty(""))


def start_early() -> None:
    """In a notebook's kernel, have the warm process and the oracles start while the learner still reads."""
    shell = notebook_shell()
    if shell is None or not hasattr(shell, "kernel"):
        return
    shell.events.register("post_run_cell", _remember)
    if remote.address():
        return  # the class's service has both
    with contextlib.suppress(OSError, RuntimeUnsafe):  # check() will meet the same fault, and say it
        warm.start()


start_early()
