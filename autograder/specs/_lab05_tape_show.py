"""Answers of ``lab05_tape`` in the words of the lab, for the feedback."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.literal import literal


def rules(answer: Any) -> str:
    dx, dy = answer
    return f"dx = {literal(dx)}\ndy = {literal(dy)}"


def order(answer: Any) -> str:
    if "reached" in answer:
        return f"each of {_listed(answer['reached'])} once, and after everything that was computed from it"
    found = answer["order"]
    return _listed([f"node {number}" for number in found] if isinstance(found, np.ndarray) else found)


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:10])}, ... ({len(names)} in all)"


def accumulate(answer: Any) -> str:
    return f"cotangents = {literal(answer['sums'])}" + (f"\nchanged: {answer['changed']}" if answer["changed"] else "")


def backward(answer: Any) -> str:
    lines = [f"{leaf}: {literal(gradient)}" for leaf, gradient in answer["gradients"].items()] or ["an empty dict"]
    lines += [f"rules that ran more than once: {answer['again']}"] if answer["again"] else []
    return "\n".join(lines + (["the cotangent that was passed in has changed"] if answer["changed"] else []))


def stale(answer: Any) -> str:
    return "\n".join(f"take {number}: {_take(one)}" for number, one in enumerate(answer, 1)) or "nothing is taken"


def _take(one: Any) -> str:
    if "arrays" in one:
        return literal(tuple(one["arrays"]))
    return f"{one['raised']}" + ("" if one.get("names_op", True) else ", whose message does not name the operation")
