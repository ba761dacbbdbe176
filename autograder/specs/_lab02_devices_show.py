"""Answers and events of ``lab02_devices`` in the words of the lab, for the feedback."""

from __future__ import annotations

from typing import Any


def where(answer: Any) -> str:
    if "device" in answer:
        return repr(answer["device"])
    missing = [
        words
        for key, words in (("names_op", "the operation"), ("names_two", "both devices"))
        if not answer.get(key, True)
    ]
    return str(answer["raised"]) + (f", whose message does not name {' or '.join(missing)}" if missing else "")


def fit(answer: Any) -> str:
    if answer["chosen"] is None:
        return "None"
    lines = [f"the block at {answer['chosen']}"]
    if "rest" in answer:
        lines.append(f"rest: {answer['rest'][1]} bytes at {answer['rest'][0]}")
    return "\n".join([*lines, *_chain(answer)])


def merge(answer: Any) -> str:
    return "\n".join([f"a block of {answer['merged'][1]} bytes at {answer['merged'][0]}", *_chain(answer)])


def _chain(answer: Any) -> list[str]:
    blocks = [f"{address}: {size} {'free' if free else 'in use'}" for address, size, free in answer["chain"]]
    return [f"chain: {', '.join(blocks)}", f"back: {', '.join(str(address) for address in answer['back'])}"]


def pool(answer: Any) -> str:
    lines = []
    for number, outcome in enumerate(answer):
        figures = ", ".join(
            f"{name} {value:.4g}" for name, value in outcome["figures"].items() if isinstance(value, (int, float))
        )
        lines.append(f"event {number}: {came_as_text(outcome['came'])}; {figures}")
    return "\n".join(lines)


def queue(answer: Any) -> str:
    return "\n".join(
        f"event {number}: {start:g} to {end:g}, host at {host:g}" for number, (start, end, host) in enumerate(answer)
    )


def came_as_text(came: Any) -> str:
    return str(came)[:40]


def event_as_text(events: list[list[Any]], number: int) -> str:
    kind, *rest = events[number]
    match kind:
        case "allocate":
            return f"allocate {rest[0]}"
        case "free":
            return f"free what event {rest[0]} allocated"
        case "empty":
            return "empty_cache"
        case "launch":
            return f"launch, {rest[0]:g} s" + ("" if rest[1] is None else f", reads event {rest[1]}")
        case "wait":
            return "wait"
    return f"{kind}, {rest[0]:g} s"
