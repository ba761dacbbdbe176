"""Answers of ``lab01_tensor`` in the words of the lab, for the feedback."""

from __future__ import annotations

import math
from typing import Any

from autograder.literal import literal


def layout(answer: Any) -> str:
    return f"strides {tuple(answer['strides'])}, place {answer['place']}"


def broadcast(answer: Any) -> str:
    return "ValueError" if "raised" in answer else str(tuple(answer["shape"]))


def view(answer: Any) -> str:
    contiguous = f"is_contiguous: {answer['contiguous']}\n" if "contiguous" in answer else ""
    if "raised" in answer:
        return f"{contiguous}ValueError"
    lines = [f"shape {tuple(answer['shape'])}, reading places {literal(answer['reads'])}"]
    lines += [] if answer["shares"] else ["on a storage of its own"]
    lines += ["the view that came in was changed"] if answer.get("changed") else []
    return contiguous + "\n".join(lines)


def elementwise(answer: Any) -> str:
    if "raised" in answer:
        return "ValueError"
    entries, looked_at = math.prod(answer["shape"]), answer["values"].size
    which = "entries" if looked_at == entries else f"{looked_at} of its {entries:,} entries,"
    lines = [f"shape {tuple(answer['shape'])}, {which} in row-major order {literal(answer['values'])}"]
    lines += [] if answer["row_major"] else ["not row-major on a storage of its own size"]
    lines += ["on the storage of an input"] if answer["shares"] else []
    return "\n".join(lines)
