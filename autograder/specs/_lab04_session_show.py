"""Answers of ``lab04_session`` in the words of the lab, for the feedback."""

from __future__ import annotations

from typing import Any

from autograder.literal import literal


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:10])}, ... ({len(names)} in all)"


def prune(answer: Any) -> str:
    return f"needed: {_listed(answer['needed']) or 'nothing'}"


def order(answer: Any) -> str:
    if isinstance(answer.get("cycle"), bool):
        return "a CycleError" if answer["cycle"] else "each node once, after all of its inputs"
    return f"CycleError: {answer['cycle']}" if "cycle" in answer else _listed(answer["order"])


def queue(answer: Any) -> str:
    if not all(isinstance(entry, list) for entry in answer.values()):
        return "at the earliest, done at: " + ", ".join(f"{name} {time:g}" for name, time in answer.items())
    rows = sorted(answer.items(), key=lambda row: row[1][1:])
    return "\n".join(f"{name}: worker {at}, {start:g} to {end:g}" for name, (at, start, end) in rows) or "nothing runs"


def free(answer: Any) -> str:
    return (
        "\n".join(f"after step {i}: {_listed(names) or 'nothing'}" for i, names in enumerate(answer["freed"]))
        or "no step"
    )


def feed(answer: Any) -> str:
    if "fits" in answer:
        return "the array, as it is" if answer["fits"] else "a FeedError"
    return f"FeedError: {answer['refused']}" if "refused" in answer else literal(answer["array"])
