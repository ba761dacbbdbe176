"""``lab08_fold``: dynamic batching in five pieces: depth, signature, schedule, gather, and a small interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.spec import Cost, Hint, Lab, Task
from autograder.specs import _lab08_fold_cases as cases
from autograder.specs import _lab08_fold_judges as judges
from autograder.specs import _lab08_fold_oracles as oracles
from autograder.specs._source import source

# --- replays: source that shows a case in the learner's own notebook ---------------------------------


def _chain(inputs: list[list[int]]) -> bool:
    return len(inputs) == cases.CHAIN


def replay_depth(inputs: list[list[int]]) -> str:
    if _chain(inputs):
        return (
            f"inputs = [[i + 1] for i in range({len(inputs) - 1})] + [[]]  # a chain as long as the one tried\n"
            "depths(inputs)[:3]"
        )
    return f"depths({inputs})"


def replay_groups(calls: list[dict[str, Any]]) -> str:
    lines = ["calls = ["]
    for call in calls:
        attrs = ", ".join(f"{name!r}: {value!r}" for name, value in call["attrs"])
        given = ", ".join(
            repr((one[0], tuple(one[1]), one[2]) if one[0] == "value" else tuple(one)) for one in call["inputs"]
        )
        lines.append(f"    {{'op': {call['op']!r}, 'attrs': {{{attrs}}}, 'inputs': [{given}]}},")
    return "\n".join([*lines, "]", "groups(calls)"])


def replay_schedule(inputs: list[list[int]], signatures: list[str]) -> str:
    if _chain(inputs):
        return f"n = {len(inputs)}\nschedule([[i - 1] if i else [] for i in range(n)], ['a'] * n)[:3]"
    return f"schedule({inputs}, {signatures})"


def replay_gather(batches: list[list[int]], inputs: list[list[int]], k: int) -> str:
    return f"gather({batches}, {inputs}, {k})"


def replay_run(
    batches: list[list[int]],
    inputs: list[list[int]],
    ops: list[str],
    values: list[np.ndarray],
    weights: dict[str, np.ndarray],
) -> str:
    waiting = iter(values)
    given = ", ".join(source(next(waiting)) if op == "value" else "None" for op in ops)
    held = ", ".join(f"{name!r}: {source(array)}" for name, array in sorted(weights.items()))
    used = any(op.startswith("dense") for op in ops)
    return "\n".join(
        [
            f"batches = {batches}",
            f"inputs = {inputs}",
            f"ops = {ops}",
            f"values = [{given}]",
            f"kernels = kernels_of({{{held if used else ''}}})",
            "run(batches, inputs, ops, values, kernels)",
        ]
    )


def show_groups(answer: Any) -> str:
    return repr(answer)


def show_gather(answer: Any) -> str:
    return repr([tuple(pair) for pair in answer])


def show_run(answer: Any) -> str:
    lines = [
        f"call {call}: {np.array2string(np.asarray(one), precision=5)}" for call, one in enumerate(answer["results"])
    ]
    launched = ", ".join(f"{op} on {rows}" for op, rows in answer["launches"]) or "none"
    return "\n".join([*lines, f"launches: {launched}"])


def show_schedule(answer: Any) -> str:
    if not isinstance(answer, dict):
        return repr(answer)
    return f"at most {judges.count(answer['most'], 'batch', 'batches')}"


# --- what it costs --------------------------------------------------------------------------------


def launches_needed(batches: list[list[int]], ops: list[str], **inputs: Any) -> int:
    return sum(ops[batch[0]] != "value" for batch in batches)


# --- the tasks ------------------------------------------------------------------------------------

DEPTH = Task(
    name="depth",
    title="How deep each call lies",
    points=15,
    names=("depths",),
    driver="depth",
    call=replay_depth,
    strategy=cases.depth_strategy,
    edges=cases.depth_edges,
    oracles={"torch": oracles.depth_torch, "numpy": oracles.depth_sweeps},
    judge=judges.depth,
    limit=3.0,
    hints={
        "recursion": f"The longest graph tried is a chain of {cases.CHAIN:,} calls: keep a list of calls whose inputs "
        "are done.",
        "time": "Visit each call once: 60 doublings have 2 to the 60 ways down.",
        "none": "depths has to return the list.",
    },
    unlocks=(
        Hint(
            "largest depth|longest way|higher number",
            "Take three calls where 0 reads 2 and 2 reads 1. In which order can their depths be found, and what "
            "tells you that a call's turn has come?",
        ),
    ),
)

GROUPS = Task(
    name="groups",
    title="Which calls are alike",
    points=15,
    names=("groups",),
    driver="groups",
    call=replay_groups,
    show=show_groups,
    strategy=cases.groups_strategy,
    edges=cases.groups_edges,
    oracles={"torch": oracles.groups_torch, "numpy": oracles.groups_pairs},
    judge=judges.groups,
    hints={"unhashable": "A dict or a list is no key of a dict; a tuple is."},
)

SCHEDULE = Task(
    name="schedule",
    title="A schedule with few launches",
    points=25,
    names=("schedule",),
    driver="schedule",
    call=replay_schedule,
    show=show_schedule,
    strategy=cases.schedule_strategy,
    edges=cases.schedule_edges,
    oracles={"torch": oracles.schedule_torch, "numpy": oracles.schedule_rounds},
    judge=judges.schedule,
    limit=3.0,
    hints={
        "recursion": f"The longest graph tried is a chain of {cases.CHAIN:,} calls.",
        "time": "Look at each call a fixed number of times, not once for every batch.",
    },
    unlocks=(
        Hint(
            "both are in batch|runs later|mixes calls",
            "For every pair of calls of one batch, two things must hold: they are alike, and neither needs the "
            "other. Which two numbers of a call, taken together, see to both?",
        ),
    ),
)

GATHER = Task(
    name="gather",
    title="Where the inputs of a batch lie",
    points=20,
    names=("gather",),
    driver="gather",
    call=replay_gather,
    show=show_gather,
    strategy=cases.gather_strategy,
    edges=cases.gather_edges,
    oracles={"torch": oracles.gather_torch, "numpy": oracles.gather_search},
    judge=judges.gather,
    hints={"key": "A call's place is the index of its batch, and its index in that batch."},
    unlocks=(
        Hint(
            "numbers of the calls|nothing has to be moved",
            "Write the blocks of a small schedule below one another with their rows numbered from 0. Find the "
            "rows that the batch reads, and say in one sentence when they are a whole block as it lies.",
        ),
    ),
)

RUN = Task(
    name="run",
    title="Running a schedule",
    points=25,
    names=("run",),
    driver="run",
    call=replay_run,
    show=show_run,
    strategy=cases.run_strategy,
    edges=cases.run_edges,
    oracles={"torch": oracles.run_torch, "tensorflow": oracles.run_tensorflow, "numpy": oracles.run_numpy},
    judge=judges.run,
    costs=(Cost("launches", "Kernels launched", launches_needed, "one for each batch; a batch of values needs none"),),
    hints={
        "cost": "Launch a kernel once for a batch, on the rows of all its calls.",
        "key": "A batch of values has no kernel: its block is a stack of what is given.",
    },
)

lab = Lab(
    name="lab08_fold",
    title="Dynamic batching: a scheduler and its interpreter",
    tasks=(DEPTH, GROUPS, SCHEDULE, GATHER, RUN),
)
