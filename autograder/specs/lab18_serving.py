"""``lab18_serving``: a dynamic batcher under a simulated clock, its bounds, padding, and a switch of versions."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.spec import Lab, Task
from autograder.specs import _lab18_serving_cases as cases
from autograder.specs import _lab18_serving_judges as judges
from autograder.specs import _lab18_serving_oracles as oracles
from autograder.specs._source import source

# --- replays: source that shows a case in the learner's own notebook ---------------------------------

REQUEST = "from types import SimpleNamespace as Request"


def _play(events: list[list[Any]]) -> list[str]:
    lines, made = [], 0
    for what, now, *rest in events:
        if what == "submit":
            deadline = f", deadline={rest[1]}" if len(rest) > 1 else ""
            given = f"Request(name='r{made}', rows={rest[0]}{deadline})"
            lines.append(f"trace.append(batcher.submit({now}, {given}))")
            made += 1
        elif what == "next":
            lines.append("trace.append(batcher.next_due())")
        else:
            lines.append(f"trace.append([one.name for one in batcher.{what}({now})])")
    return [*lines, "trace"]


def replay_due(size: int, wait: int, events: list[list[Any]]) -> str:
    return "\n".join([REQUEST, f"batcher, trace = Batcher({size}, {wait}), []", *_play(events)])


def replay_bounded(size: int, wait: int, queue: int, events: list[list[Any]]) -> str:
    return "\n".join([REQUEST, f"batcher, trace = BoundedBatcher({size}, {wait}, {queue}), []", *_play(events)])


def replay_padded(sequences: list[np.ndarray], weight: np.ndarray, bias: np.ndarray) -> str:
    given = ", ".join(source(one) for one in sequences)
    return "\n".join(
        [
            f"weight, bias = {source(weight)}, {source(bias)}",
            f"sequences = [{given}]",
            "answers(lambda batch: np.tanh(batch @ weight + bias), sequences)",
        ]
    )


def replay_switch(events: list[list[Any]]) -> str:
    lines = ["versions, begun, trace = Versions(), [], []"]
    for what, *rest in events:
        if what == "begin":
            lines.append("begun.append(versions.begin()); trace.append(begun[-1])")
        elif what == "done":
            lines.append(f"trace.append(None if begun[{rest[0]}] is None else versions.done(begun[{rest[0]}]))")
        elif what == "drop":
            lines.append("trace.append(sorted(versions.drop()))")
        else:
            lines.append(f"trace.append(versions.{what}({rest[0]}))")
    return "\n".join([*lines, "trace"])


def show_trace(answer: Any) -> str:
    return repr(answer)


def show_padded(answer: Any) -> str:
    lines = [
        f"sequence {number}: places {np.array2string(np.asarray(places), precision=4)}, "
        f"mean {np.array2string(np.asarray(mean), precision=4)}"
        for number, (places, mean) in enumerate(answer["answers"])
    ]
    return "\n".join([*lines, f"the model was called with: {answer['called'] or 'nothing'}"])


# --- the tasks ------------------------------------------------------------------------------------

DUE = Task(
    name="due",
    title="A batcher with a size and a latency bound",
    points=30,
    names=("Batcher",),
    driver="due",
    call=replay_due,
    show=show_trace,
    strategy=lambda: cases.run_strategy(bounded=False),
    edges=cases.due_edges,
    oracles={"torch": oracles.due_history, "numpy": oracles.due_queue},
    judge=judges.due,
    hints={"none": "take gives a list, and an empty one if nothing is due."},
)

BOUNDED = Task(
    name="bounded",
    title="A bounded queue, and deadlines",
    points=20,
    names=("BoundedBatcher",),
    driver="bounded",
    call=replay_bounded,
    show=show_trace,
    strategy=lambda: cases.run_strategy(bounded=True),
    edges=cases.bounded_edges,
    oracles={"torch": oracles.bounded_history, "numpy": oracles.bounded_queue},
    judge=judges.due,
    hints={
        "none": "submit says True or False; expire gives a list.",
        "none_used": "A deadline may be None: that request waits as long as it has to.",
    },
)

PADDED = Task(
    name="padded",
    title="Sequences of different lengths in one batch",
    points=25,
    names=("answers",),
    driver="padded",
    call=replay_padded,
    show=show_padded,
    strategy=cases.padded_strategy,
    edges=cases.padded_edges,
    oracles={"torch": oracles.padded_torch, "tensorflow": oracles.padded_tensorflow, "numpy": oracles.padded_numpy},
    judge=judges.padded,
    hints={
        "shape": "What was added to make the sequences equally long is cut off again: each answer has its own length.",
        "none": "answers has to return the list of pairs.",
    },
)

SWITCH = Task(
    name="switch",
    title="A new version, and no request lost",
    points=25,
    names=("Versions",),
    driver="switch",
    call=replay_switch,
    show=show_trace,
    strategy=cases.switch_strategy,
    edges=cases.switch_edges,
    oracles={"torch": oracles.switch_history, "numpy": oracles.switch_states},
    judge=judges.switch,
    hints={"none": "drop gives a list, and an empty one if nothing may go."},
)

lab = Lab(
    name="lab18_serving",
    title="Serving: batches, bounds, and versions that change under way",
    tasks=(DUE, BOUNDED, PADDED, SWITCH),
)
