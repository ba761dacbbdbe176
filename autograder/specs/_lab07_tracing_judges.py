"""What is wrong with an answer of ``lab07_tracing``, in words. What came is not trusted: it may be any plain data."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.compare import compare
from autograder.spec import Inputs
from autograder.specs._lab07_tracing_programs import fault, needed, run


def record_judge(inputs: Inputs, got: Any, want: Any) -> list[str]:
    if not isinstance(got, list) or len(got) != 2:
        return ["record gave no program."]
    for place, program in enumerate(got):
        faults = _recorded(inputs, program, want)
        if faults and place:
            return [
                *faults,
                "The first recording of this function was right, and this one, made after another, is not: each record "
                "must begin with an empty list of its own.",
            ]
        if faults:
            return faults
    return []


def _recorded(inputs: Inputs, program: Any, want: Any) -> list[str]:
    broken = fault(program, inputs["n"])
    if broken:
        return [broken]
    ops, value = want
    mine = [op for op, _ in program[1]]
    if mine != ops:
        if sorted(mine) == sorted(ops):
            return [f"The operations are {_text(mine)}, in another order than they ran: {_text(ops)}."]
        return [f"The operations are {_text(mine)}; the function runs {_text(ops)}."]
    with np.errstate(all="ignore"):
        found = np.asarray(run(program, inputs["arrays"]))
    if not compare(found, value):
        return []
    for swapped in _swaps(program):
        with np.errstate(all="ignore"):
            if not compare(np.asarray(run(swapped, inputs["arrays"])), value):
                return [
                    "The operands of a step are the wrong way round: of 2.0 - x the first operand is the constant, and "
                    "of x - y it is x."
                ]
    for slot in range(program[0] + len(program[1])):
        with np.errstate(all="ignore"):
            if not compare(np.asarray(run([*program[:2], slot], inputs["arrays"])), value):
                return [f"The result is said to be in slot {program[2]}; it is in slot {slot}."]
    return ["The operations are right, and the program computes something else: look at the operands."]


def _swaps(program: Any) -> list[Any]:
    n, steps, result = program
    return [
        [n, [[op, operands[::-1] if i == j else operands] for j, (op, operands) in enumerate(steps)], result]
        for i, (_, mine) in enumerate(steps)
        if len(mine) == 2
    ] + [[n, [[op, operands[::-1]] for op, operands in steps], result]]


def _text(ops: list[str]) -> str:
    return ", ".join(ops) if ops else "none"


def replay_judge(inputs: Inputs, got: Any, want: Any) -> list[str]:
    if not isinstance(got, list) or len(got) != 2:
        return ["replay gave no array."]
    (value, ran), (due, ops) = got, want
    count, given = inputs["program"][0], len(inputs["arrays"])
    if isinstance(due, str):
        if isinstance(value, str):
            return []
        return [f"The program takes {count} arrays and was given {given}: raise a ValueError that says so."]
    if isinstance(value, str):
        return [f"The program takes {count} arrays and was given {given}, and replay raised a ValueError."]
    mismatches = compare(value, due)
    if mismatches:
        words = [mismatches[0].message]
        if value.dtype != due.dtype:
            words.append("A constant must stay a Python float: made an array, it would widen float32 to float64.")
        else:
            for slot in range(count + len(inputs["program"][1])):
                with np.errstate(all="ignore"):
                    other = np.asarray(run([*inputs["program"][:2], slot], inputs["arrays"]))
                if slot != inputs["program"][2] and not compare(value, other):
                    words.append(f"This is what is in slot {slot}; the result is in slot {inputs['program'][2]}.")
                    break
        return words
    if ran != ops:
        return [f"The steps are {_text(ops)}; the kernels that ran are {_text(ran)}. Run each step once, in order."]
    return []


def signature_judge(inputs: Inputs, got: Any, want: Any) -> list[str]:
    if got == want:
        return []
    if not isinstance(got, list) or len(got) != len(want):
        return ["signature gave nothing that tells calls apart."]
    number = next(i for i, (one, two) in enumerate(zip(got, want, strict=True)) if one != two)
    calls = inputs["calls"]
    if got[number]:
        return [
            f"Call {number + 1} has been seen before and is traced again. {_kept_apart(calls, number)}",
        ]
    return [f"Call {number + 1} needs a trace of its own and gets an old one. {_mixed_up(calls, number)}"]


def _kept_apart(calls: list[Any], number: int) -> str:
    call = calls[number]
    leaves = [*call["args"], *call["state"].values()]
    if any(isinstance(one, float) and one != one for one in leaves):
        return "NaN is not equal to itself; in a signature it must be, or every call is traced."
    if any(list(before["state"]) != list(call["state"]) for before in calls[:number]) and call["state"]:
        return "The order in which state is listed means nothing."
    if any(isinstance(one, np.ndarray) for one in leaves):
        return "Of an array only shape and dtype count: its values are what the trace is for."
    return "Two calls that differ in nothing that a trace depends on must have equal signatures."


def _mixed_up(calls: list[Any], number: int) -> str:
    call = calls[number]
    words = []
    for before in calls[:number]:
        if before["state"] != call["state"] and not _arrays(before["state"], call["state"]):
            words.append("The state that the function reads is part of the signature, with its names and types.")
        for one, two in zip(call["args"], before["args"], strict=False):
            arrays = isinstance(one, np.ndarray), isinstance(two, np.ndarray)
            if all(arrays) and one.dtype != two.dtype:
                words.append("Arrays of different dtypes need different traces.")
            elif all(arrays) and one.shape != two.shape:
                words.append("Arrays of different shapes need different traces.")
            elif not any(arrays) and type(one) is not type(two):
                words.append("1, 1.0 and True are equal and hash alike, and a function can tell them apart.")
            elif isinstance(one, float) and one == two and repr(one) != repr(two):
                words.append("0.0 and -0.0 are equal, and 1 / x tells them apart: repr does too.")
            elif not any(arrays) and repr(one) != repr(two):
                words.append("A Python value is part of the program: another value, another trace.")
        if len(call["args"]) != len(before["args"]):
            words.append("The number of arguments counts.")
    return words[-1] if words else "Something that the function can tell apart is not in the signature."


def _arrays(*states: dict[str, Any]) -> bool:
    return any(isinstance(one, np.ndarray) for state in states for one in state.values())


def prune_judge(inputs: Inputs, got: Any, want: Any) -> list[str]:
    count, value = want
    program = inputs["program"]
    broken = fault(got, program[0])
    if broken:
        return [broken, "When a step goes, those behind it move: operands and the result have to be renumbered."]
    with np.errstate(all="ignore"):
        found = np.asarray(run(got, inputs["arrays"]))
    if compare(found, value):
        stay = [f"{i} ({program[1][i][0]})" for i in needed(program)]
        if not stay:
            return ["The program computes something else now. The result is an input, and needs no step at all."]
        return [
            f"The program computes something else now. The result needs the steps {', '.join(stay)}, and their "
            "operands renumbered."
        ]
    if len(got[1]) > count:
        return [f"{len(got[1])} steps stay, where the result needs {count}: a step that only dead steps read is dead."]
    return []


def merge_judge(inputs: Inputs, got: Any, want: Any) -> list[str]:
    programs, arrays = inputs["programs"], inputs["arrays"]
    n = programs[0][0]
    broken = fault(got, n)
    if broken:
        return [broken, "The inputs are shared; every other slot of a branch moves by what was written before it."]
    ops = sorted(op for op, _ in got[1])
    due = sorted([op for program in programs for op, _ in program[1]] + ["where"])
    if ops.count("where") < due.count("where"):
        return ["There is no step `where` that chooses between the results of the branches."]
    if len(ops) > len(due):
        return [f"The program has {len(ops)} steps; the three have {len(due) - 1}, and one `where` is added."]
    end = got[2] - n
    if end < 0 or got[1][end][0] != "where":
        return [f"The result is said to be in slot {got[2]}; it is what the step `where` gives."]
    with np.errstate(all="ignore"):
        found = np.asarray(run(got, arrays))
        test, then, otherwise = (np.asarray(run(program, arrays)) for program in programs)
    if not compare(found, want):
        return []
    if not compare(found, np.where(test, otherwise, then)):
        return ["The branches are the wrong way round: where(test, then, otherwise)."]
    return ["The program computes something else: look at how the slots of the branches are renumbered."]
