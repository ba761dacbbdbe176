"""The machine that something was measured on, and the files in which the measurements are kept."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    """The machine in words: what it has, and how busy it was."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB; load {os.getloadavg()[0]:.1f}"


def written(name: str, lines: list[str], data: dict[str, Any]) -> None:
    """Keep a table, and what it is made of, in ``benchmarks/results/``."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (RESULTS / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
