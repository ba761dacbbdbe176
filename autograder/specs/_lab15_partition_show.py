"""Answers and cases of ``lab15_partition`` in the words of the lab."""

from __future__ import annotations

from typing import Any

from autograder.drivers.lab15_partition import Node, Plain
from autograder.specs._ranks import not_returned


def graph(plain: Plain) -> str:
    """Source of a graph, a line for each node."""
    lines = []
    for name, one in plain.items():
        fields = [repr(one["op"])]
        for field in Node._fields[1:]:
            value = tuple(one[field]) if isinstance(one[field], list) else one[field]
            if value not in ((), None):
                fields.append(f"{field}={value!r}")
        lines.append(f"    {name!r}: Node({', '.join(fields)}),")
    return "graph = {\n" + "\n".join(lines) + "\n}" if lines else "graph = {}"


def reach(answer: Any) -> str:
    names = answer if len(answer) <= 12 else [*answer[:10], f"... ({len(answer)} in all)"]
    return f"needed: {', '.join(names) or 'nothing'}"


def places(answer: Any) -> str:
    return "\n".join(f"{name}: {device}" for name, device in answer.items()) or "no node"


def cut(answer: Any) -> str:
    if isinstance(answer, list):
        return "sent: " + (", ".join(f"{name} to {target}" for name, target in answer) or "nothing")
    lines = []
    for device, steps in answer.items():
        lines.append(f"{device}:")
        lines += [
            f"  {kind} {name}" + "".join(f" {'to' if kind == 'send' else 'from'} {one}" for one in other)
            for kind, name, *other in steps
        ]
    return "\n".join(lines) or "no part"


def meet(answer: Any) -> str:
    return f"taken: {', '.join(map(str, answer['taken'])) or 'nothing'}; held at the end: {answer['held']}"


def share(answer: Any) -> str:
    if answer and not any(key in answer[0] for key in ("value", "error", "waits", "killed", "runs", "died")):
        return "\n".join(_step(step, values) for step, values in enumerate(answer))
    lines = not_returned(answer, len(answer))
    for rank, one in enumerate(answer):
        if "value" in one:
            lines += [f"rank {rank}, {_step(step, values)}" for step, values in enumerate(one["value"]["values"])]
    return "\n".join(lines) or "no step"


def _step(step: int, values: Any) -> str:
    told = {name: value if isinstance(value, float) else value.tolist() for name, value in sorted(values.items())}
    return f"step {step}: " + ", ".join(f"{name} {value}" for name, value in told.items())
