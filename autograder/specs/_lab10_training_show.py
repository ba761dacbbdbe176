"""Answers of ``lab10_training`` in the words of the lab, for the feedback."""

from __future__ import annotations

from typing import Any

from autograder.literal import literal

STEPS = 4
"""So many steps of a trace are shown; what is wrong is wrong early."""


def sgd(answer: Any) -> str:
    return _trace(answer["parameters"]) + f"\nvelocity at the end: {literal(answer['velocity'])}"


def adam(answer: Any) -> str:
    return _trace(answer)


def limits(answer: Any) -> str:
    if "lrs" in answer:
        return literal(answer["lrs"])
    lines = [f"norm: {answer['norm']:.7g}"] + [literal(gradient) for gradient in answer["gradients"]]
    return "\n".join(lines + ([] if answer["same"] else ["and the list holds other arrays now"]))


def batches(answer: Any) -> str:
    if "sizes" in answer:
        return f"batches of {_listed(answer['sizes'])} rows, each epoch a new order of all rows"
    return f"{_listed(answer['first'])}\nresumed: {_listed(answer['resumed'])}"


def scaler(answer: Any) -> str:
    lines = [
        f"step {number}: {'finite' if one['finite'] else 'not finite'}, "
        f"{', '.join(literal(gradient) for gradient in one['gradients'])}; then the scale is {one['scale']:g}"
        for number, one in enumerate(answer[: 2 * STEPS])
    ]
    return "\n".join(lines)


def _trace(trace: list[Any]) -> str:
    lines = [f"after step {number}: {literal(arrays)}" for number, arrays in enumerate(trace[:STEPS], 1)]
    return "\n".join(lines + ([f"... {len(trace)} steps in all"] if len(trace) > STEPS else []))


def _listed(values: list[Any]) -> str:
    return ", ".join(str(value) for value in values[:6]) + (f", ... ({len(values)} in all)" if len(values) > 6 else "")
