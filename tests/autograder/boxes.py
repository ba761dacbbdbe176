"""A small lab and notebooks for tests of the sandbox, the runner and the attacks on them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from autograder import sandbox
from autograder.notebook import Cell, make_cell
from autograder.run import Outcome, Runner
from autograder.spec import Lab, Task

DRIVERS = """
import numpy as np
def before(names, x): return names["before"](x)
def attacked(names, x): return names["f"](x)
def after(names, x): return names["after"](x)
"""
BEFORE = "import numpy as np\ndef before(x):\n    return x + 1"
AFTER = "def after(x):\n    return x - 1"
CELL_LIMIT, CALL_LIMIT, TOTAL_LIMIT = 2.0, 1.0, 20.0


def task(name: str, *names: str, limit: float = CALL_LIMIT) -> Task:
    """A task without answers: only what the runner looks at."""
    return Task(
        name,
        name,
        1.0,
        names,
        name,
        lambda **_: "",
        lambda: None,
        lambda _: [],
        {"torch": str, "numpy": str},
        limit=limit,
    )


def small_lab(**options: object) -> Lab:
    """Three tasks, of which the middle one is attacked; short limits."""
    settings = {
        "packages": ("numpy",),
        "cell_limit": CELL_LIMIT,
        "total_limit": TOTAL_LIMIT,
        "memory_bytes": 256 << 20,
    } | options
    tasks = (task("before", "before"), task("attacked", "f"), task("after", "after"))
    return Lab("lab00_small", "A small lab", tasks, **settings)  # type: ignore[arg-type]  # options are typed by Lab itself


def notebook_around(attack: str) -> list[Cell]:
    """A notebook whose second solution is the attack; each task is checked right after it is defined."""
    sources = [
        "from autograder import check",
        BEFORE,
        'check("before")',
        attack,
        'check("attacked")',
        AFTER,
        'check("after")',
    ]
    return [make_cell(number, source) for number, source in enumerate(sources, 1)]


@dataclass
class Seen:
    """What came of one notebook: an outcome per task, the seconds each took, processes left."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)


def run(cells: list[Cell], kind: str, lab: Lab | None = None, x: object = 3, drivers: str = DRIVERS) -> Seen:
    """Reach and call every task once, as the grader does, and look for processes afterwards."""
    lab = lab or small_lab()
    seen = Seen()
    uids: set[int] = set()
    opened = sandbox.open

    def open_noted(lab: Lab, *, kind: str | None = None) -> sandbox.Box:
        box = opened(lab, kind=kind)
        uids.add(box.uid)
        return box

    with mock.patch.object(sandbox, "open", open_noted), Runner(lab, cells, kind=kind, drivers=drivers) as runner:
        for each in runner.tasks:
            started = time.monotonic()
            seen.outcomes[each.name] = runner.call(each, {"x": x})
            seen.seconds[each.name] = time.monotonic() - started
            seen.notes[each.name] = runner.notes(each)
    assert uids
    seen.left = processes_of(uids)
    return seen


def processes_of(uids: set[int]) -> list[str]:
    """Command lines of processes of these users, without this one and its ancestors."""
    found = []
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit() or int(directory.name) in _own_family():
            continue
        try:
            status = (directory / "status").read_text()
            if int(status.split("Uid:")[1].split()[0]) in uids and "State:\tZ" not in status:
                found.append((directory / "cmdline").read_text().replace("\0", " ") or directory.name)
        except (OSError, IndexError, ValueError):
            continue
    return found


def _own_family() -> set[int]:
    family, pid = set(), os.getpid()
    while pid > 1:
        family.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return family


KINDS = sandbox.kinds()
