"""``lab07_tracing``: a tracer in five pieces, each asked of torch.fx, tf.function and a program of our own."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.literal import literal
from autograder.spec import Lab, Task
from autograder.specs import _lab07_tracing_cases as cases
from autograder.specs import _lab07_tracing_judges as judges
from autograder.specs import _lab07_tracing_oracles as oracles
from autograder.specs._source import source

# --- replays: source that shows a case in the learner's own notebook ---------------------------------


def program_text(program: list[Any]) -> str:
    inputs, steps, result = program
    lines = ", ".join(f"Step({op!r}, {_tuple(operands)})" for op, operands in steps)
    return f"Program({inputs}, [{lines}], {result})"


def _tuple(operands: list[Any]) -> str:
    return f"({operands[0]!r},)" if len(operands) == 1 else f"({', '.join(map(repr, operands))})"


def _arrays(arrays: list[np.ndarray]) -> str:
    return f"arrays = [{', '.join(map(source, arrays))}]"


def replay_record(text: str, n: int, arrays: list[np.ndarray]) -> str:
    return f"{text}\n\nrecord(f, {n})"


def replay_replay(program: list[Any], arrays: list[np.ndarray]) -> str:
    return f"program = {program_text(program)}\n{_arrays(arrays)}\nreplay(program, arrays, KERNELS)"


def replay_signature(calls: list[dict[str, Any]]) -> str:
    shown = [f"signature({_args(call['args'])}, {_state(call['state'])})" for call in calls]
    return "keys = [\n    " + ",\n    ".join(shown) + ",\n]\n[key not in keys[:i] for i, key in enumerate(keys)]"


def _args(args: list[Any]) -> str:
    return _tuple_text([_value(one) for one in args])


def _tuple_text(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _state(state: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{name!r}: {_value(one)}" for name, one in state.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return source(value)
    return 'float("nan")' if isinstance(value, float) and value != value else repr(value)


def replay_prune(program: list[Any], arrays: list[np.ndarray]) -> str:
    return f"program = {program_text(program)}\nprune(program)"


def replay_merge(programs: list[Any], arrays: list[np.ndarray]) -> str:
    names = ("test", "then", "otherwise")
    lines = [f"{name} = {program_text(program)}" for name, program in zip(names, programs, strict=True)]
    return "\n".join([*lines, "merge(test, then, otherwise)"])


# --- answers as a reader sees them ---------------------------------------------------------------------


def show_recorded(answer: Any) -> str:
    if isinstance(answer[0], list) and answer[0] and isinstance(answer[0][0], int):
        return program_text(answer[0])
    return f"the operations {', '.join(answer[0]) or 'none'}, and a program whose value is {literal(answer[1])}"


def show_replayed(answer: Any) -> str:
    return "a ValueError" if isinstance(answer[0], str) else literal(answer[0])


def show_pruned(answer: Any) -> str:
    return program_text(answer) if len(answer) == 3 else f"{answer[0]} steps, whose value is {literal(answer[1])}"


def show_merged(answer: Any) -> str:
    if isinstance(answer, np.ndarray):
        return f"a program whose value is {literal(answer)}"
    return program_text(answer)


# --- the tasks ------------------------------------------------------------------------------------------

RECORD = Task(
    name="record",
    title="Run a function once, and write down what it does",
    points=25,
    names=("record",),
    driver="record",
    call=replay_record,
    show=show_recorded,
    strategy=cases.record_strategy,
    edges=cases.record_edges,
    oracles={"torch": oracles.record_torch, "tensorflow": oracles.record_tensorflow},
    judge=judges.record_judge,
    hints={"attribute": "An operand is a symbol or a plain number; a number has no slot."},
)

REPLAY = Task(
    name="replay",
    title="Run the program without the function",
    points=15,
    names=("replay", "Program", "Step", "KERNELS"),
    driver="replay",
    call=replay_replay,
    show=show_replayed,
    strategy=cases.replay_strategy,
    edges=cases.replay_edges,
    oracles={
        "torch": oracles.replay_torch,
        "tensorflow": oracles.replay_tensorflow,
        "numpy": oracles.replay_numpy,
    },
    judge=judges.replay_judge,
    hints={
        "index": "Slots count the inputs first, then the steps; a number among the operands is a constant, not a slot."
    },
)

SIGNATURE = Task(
    name="signature",
    title="When a program may be used again",
    points=25,
    names=("signature",),
    driver="signature",
    call=replay_signature,
    show=literal,
    strategy=cases.signature_strategy,
    edges=cases.signature_edges,
    oracles={"tensorflow": oracles.signature_tensorflow, "numpy": oracles.signature_numpy},
    judge=judges.signature_judge,
    hints={"unhashable": "A list or an array is no key of a dict: make tuples of what tells two calls apart."},
)

DEAD_STEPS = Task(
    name="dead_steps",
    title="Leave out what nobody reads",
    points=15,
    names=("prune", "Program", "Step"),
    driver="prune",
    call=replay_prune,
    show=show_pruned,
    strategy=cases.prune_strategy,
    edges=cases.prune_edges,
    oracles={"torch": oracles.prune_torch, "tensorflow": oracles.prune_tensorflow, "numpy": oracles.prune_numpy},
    judge=judges.prune_judge,
    hints={"key": "The slots of inputs never move; a step that is kept needs the new number of each step it reads."},
)

BRANCH = Task(
    name="branch",
    title="Both branches of an if, and a choice",
    points=20,
    names=("merge", "Program", "Step"),
    driver="merge",
    call=replay_merge,
    show=show_merged,
    strategy=cases.merge_strategy,
    edges=cases.merge_edges,
    oracles={"torch": oracles.merge_torch, "tensorflow": oracles.merge_tensorflow, "numpy": oracles.merge_numpy},
    judge=judges.merge_judge,
    hints={"key": "The inputs are shared by all three programs; the slots of steps move, those of inputs do not."},
)

lab = Lab(
    name="lab07_tracing",
    title="A tracer: record, replay, guard, prune, branch",
    tasks=(RECORD, REPLAY, SIGNATURE, DEAD_STEPS, BRANCH),
)
