"""A notebook as plain text: what a learner wrote is read by others, and never shown as anything that could act."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

MOST_TEXT = 1_000_000
"""Characters of a whole notebook that are shown."""
MOST_CELLS = 1000
MOST_OUTPUT = 5_000
"""Characters of one output."""
CUT = "[cut here]"


@dataclass
class PlainCell:
    number: int
    kind: str
    """``code``, ``markdown`` or ``raw``."""
    source: str
    outputs: list[str] = field(default_factory=list)
    """Text outputs; of others, only what kind they are."""


@dataclass
class PlainNotebook:
    cells: list[PlainCell]
    note: str = ""
    """What is not shown, and why; "" where all is."""


def plain(data: bytes) -> PlainNotebook:
    """The cells of a notebook; where it is none, its text as one cell."""
    text = data.decode("utf-8", errors="replace")
    try:
        document = json.loads(text) if len(text) <= 20 * MOST_TEXT else None
        entries = document["cells"] if isinstance(document, dict) else None
    except (ValueError, KeyError, RecursionError):
        entries = None
    if not isinstance(entries, list):
        cut = len(text) > MOST_TEXT
        note = "This is not a notebook that can be read; its text is below" + (", its start only." if cut else ".")
        return PlainNotebook([PlainCell(1, "raw", text[:MOST_TEXT])] if text else [], note)
    cells: list[PlainCell] = []
    left = MOST_TEXT
    for number, entry in enumerate(entries, 1):
        if left <= 0 or len(cells) >= MOST_CELLS:
            shown = f"Only the first {len(cells)} of {len(entries)} cells are shown: the notebook is very large."
            return PlainNotebook(cells, shown)
        if not isinstance(entry, dict):
            continue
        source = _text(entry.get("source"))[:left]
        kind = str(entry.get("cell_type", "raw"))[:20]
        cell = PlainCell(number, kind, source, [*_outputs(entry.get("outputs"))] if kind == "code" else [])
        left -= len(source) + sum(map(len, cell.outputs))
        cells.append(cell)
    return PlainNotebook(cells)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _outputs(found: Any) -> list[str]:
    shown = []
    for output in found[:50] if isinstance(found, list) else ():
        if not isinstance(output, dict):
            continue
        bundle = output.get("data")
        text = _text(output.get("text"))
        if isinstance(bundle, dict):
            kinds = ", ".join(sorted(str(kind)[:60] for kind in bundle)[:10])
            text = _text(bundle.get("text/plain")) or f"[{kinds}]"
        elif output.get("output_type") == "error":
            text = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
        shown.append(text if len(text) <= MOST_OUTPUT else text[:MOST_OUTPUT] + CUT)
    return shown
