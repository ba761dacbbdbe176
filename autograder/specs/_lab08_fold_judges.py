"""What is wrong with an answer of ``lab08_fold``, in words. What came is not trusted: it may be any plain data."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from autograder.compare import compare
from autograder.spec import Inputs
from autograder.specs._lab08_fold_oracles import alike


def count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _numbers(got: Any) -> bool:
    return isinstance(got, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in got)


def _lists(got: Any) -> bool:
    return isinstance(got, list) and all(map(_numbers, got))


# --- depth ----------------------------------------------------------------------------------------


def depth(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The first call whose depth is wrong, and what it reads."""
    if not _numbers(got):
        return ["depths did not give a list of integers."]
    if len(got) != len(want):
        return [
            f"depths gave {count(len(got), 'number', 'numbers')} for {count(len(want), 'call', 'calls')}; expected one "
            "for each call."
        ]
    for call, (one, right) in enumerate(zip(got, want, strict=True)):
        if one != right:
            if [k + 1 for k in want] == got:
                return ["Every depth is one too much: a call that reads nothing has depth 0."]
            return [
                f"Call {call} reads {inputs['inputs'][call][:6]} and has depth {right}; depths gave {one}. "
                + _why(inputs, got, want)
            ]
    return []


def _why(inputs: Inputs, got: list[int], want: list[int]) -> str:
    shortest = [1 + min((got[k] for k in read), default=-1) for read in inputs["inputs"]]
    if shortest == got:
        return "It is the longest way down that counts, not the shortest."
    if any(k > i for i, read in enumerate(inputs["inputs"]) for k in read):
        return "The numbers of calls say nothing about their order: a call may read one with a higher number."
    return "It is one more than the largest depth among what it reads."


# --- groups ---------------------------------------------------------------------------------------


def groups(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """Two calls that are together and should not be, or apart and should be together."""
    calls = inputs["calls"]
    if not _lists(got):
        return ["groups did not give a list of lists of call numbers."]
    counted = Counter(call for group in got for call in group)
    for call in range(len(calls)):
        if counted[call] != 1:
            return [f"Call {call} is in {counted[call] or 'no'} groups; each call belongs to one."]
    if extra := sorted(set(counted) - set(range(len(calls)))):
        return [f"There is no call {extra[0]}; calls are numbered from 0."]
    for group in got:
        for call in group[1:]:
            if not alike(calls[group[0]], calls[call]):
                return [
                    f"Calls {group[0]} and {call} are in one group, but {_difference(calls[group[0]], calls[call])}."
                ]
    where = {call: at for at, group in enumerate(got) for call in group}
    for group in want:
        for call in group[1:]:
            if where[call] != where[group[0]]:
                why = "; the order in which attributes are written means nothing" if calls[call]["attrs"] else ""
                return [f"Calls {group[0]} and {call} are alike, but in different groups{why}."]
    if got != want:
        return [
            "The groups are right, their order is not: calls ascend, and groups come in the order of their first call."
        ]
    return []


def _difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    if one["op"] != other["op"]:
        return f"one runs {one['op']}, the other {other['op']}"
    if sorted(map(repr, one["attrs"])) != sorted(map(repr, other["attrs"])):
        return "their attributes differ: one kernel call has one value of each attribute"
    if len(one["inputs"]) != len(other["inputs"]):
        return "they have different numbers of inputs"
    for slot, (x, y) in enumerate(zip(one["inputs"], other["inputs"], strict=True)):
        if x == y:
            continue
        if x[0] != y[0]:
            return f"input {slot} is a value of the example in one, and shared in the other"
        if x[0] == "shared":
            return f"input {slot} is {x[1]} in one and {y[1]} in the other: what is shared is not stacked"
        if x[1] != y[1]:
            return f"input {slot} has the shapes {tuple(x[1])} and {tuple(y[1])}, which can't be stacked"
        return f"input {slot} is {x[2]} in one and {y[2]} in the other"
    return "they differ"


# --- schedule -------------------------------------------------------------------------------------


def schedule(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """Each call once, after what it reads, among its like, in few batches."""
    reads, signatures = inputs["inputs"], inputs["signatures"]
    if isinstance(got, dict) and got == want:
        return []  # an oracle, asked about the other's answer
    if not _lists(got):
        return ["schedule did not give a list of lists of call numbers."]
    when: dict[int, int] = {}
    for k, batch in enumerate(got):
        if not batch:
            return [f"Batch {k} is empty: a launch that does nothing."]
        for call in batch:
            if not 0 <= call < len(reads):
                return [f"There is no call {call}; calls are numbered from 0 to {len(reads) - 1}."]
            if call in when:
                return [f"Call {call} is in batches {when[call]} and {k}; each call runs once."]
            if signatures[call] != signatures[batch[0]]:
                return [
                    f"Batch {k} mixes calls {batch[0]} and {call}, whose signatures differ: one kernel runs a batch."
                ]
            when[call] = k
    if missing := sorted(set(range(len(reads))) - set(when)):
        return [f"Call {missing[0]} is in no batch; {len(missing)} of {len(reads)} calls are missing."]
    for call, read in enumerate(reads):
        for k in read:
            if when[k] == when[call]:
                return [
                    f"Call {call} reads call {k}, but both are in batch {when[call]}: its input would not be there."
                ]
            if when[k] > when[call]:
                return [
                    f"Call {call} is in batch {when[call]}, but reads call {k}, which runs later, in batch {when[k]}."
                ]
    if len(got) > want["most"]:
        return [
            f"This makes {count(len(got), 'batch', 'batches')}, where {want['most']} "
            f"{'is' if want['most'] == 1 else 'are'} enough: one for each depth and signature that occur."
        ]
    return []


# --- gather ---------------------------------------------------------------------------------------


def gather(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The first input whose blocks or rows are wrong."""
    if not isinstance(got, list) or len(got) != len(want):
        pairs = count(len(got), "pair", "pairs") if isinstance(got, list) else "no pairs"
        return [
            f"gather gave {pairs}; the calls of this batch have {count(len(want), 'input', 'inputs')}, and each has "
            "its pair."
        ]
    for slot, (one, right) in enumerate(zip(got, want, strict=True)):
        blocks, rows = one
        if not _numbers(blocks) or not (rows is None or _numbers(rows)):
            return [f"Input {slot}: expected a list of blocks and a list of rows or None."]
        if blocks != right[0]:
            if sorted(set(blocks)) == right[0]:
                return [f"Input {slot} reads blocks {right[0]}, each named once and ascending; gather gave {blocks}."]
            return [f"Input {slot} reads blocks {right[0]} and no others; gather gave {blocks}."]
        if rows != right[1]:
            if right[1] is None:
                return [
                    f"Input {slot} reads block {blocks[0]} whole and in order: nothing has to be moved, so its rows "
                    "are None."
                ]
            if rows is None:
                return [f"Input {slot} does not read its blocks whole and in order: the rows are {right[1]}, not None."]
            return [
                f"Input {slot} reads rows {right[1]} of blocks {blocks}, laid end to end; gather gave {rows}. "
                + _rows(inputs, slot, rows, right)
            ]
    return []


def _rows(inputs: Inputs, slot: int, rows: list[int], right: list[Any]) -> str:
    reads = [inputs["inputs"][call][slot] for call in inputs["batches"][inputs["k"]]]
    if rows == reads:
        return "These are the numbers of the calls, not where their results lie."
    alone = [batch.index(call) for call in reads for batch in inputs["batches"] if call in batch]
    if rows == alone:
        return "Rows are counted through all blocks that are read: those of the second begin where the first ends."
    return "A result lies at the place that its call has in its batch."


# --- run ------------------------------------------------------------------------------------------


def run(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The first result that differs, and the first launch."""
    if not isinstance(got, dict) or got.keys() != want.keys() or not isinstance(got["results"], list):
        return ["run did not give a list of arrays."]
    results, right = got["results"], want["results"]
    if len(results) != len(right):
        return [
            f"run gave {count(len(results), 'result', 'results')} for {count(len(right), 'call', 'calls')}; expected "
            "one for each call, by its number."
        ]
    wrong = []
    for call, (one, other) in enumerate(zip(results, right, strict=True)):
        mismatches = compare(one, np.asarray(other))
        if mismatches:
            shapes = np.shape(one), np.shape(other)
            what = (
                f"has shape {shapes[0]}; expected {shapes[1]}, the row of one call"
                if shapes[0] != shapes[1]
                else _moved(one, call, right)
            )
            wrong.append(f"The result of call {call} ({inputs['ops'][call]}) {what}.")
            break
    came, meant = len(got["launches"]), len(want["launches"])
    if got["launches"] != want["launches"] and came <= meant:  # that there are more is what it costs
        if came < meant:
            wrong.append(
                f"Kernels were launched {count(came, 'time', 'times')} for {count(meant, 'batch', 'batches')}; each "
                "batch is one launch, and a value needs none."
            )
        elif not wrong:
            wrong.append("Kernels were launched on other batches than the schedule has, or in another order.")
    return wrong


def _moved(one: Any, call: int, right: list[Any]) -> str:
    for other, value in enumerate(right):
        if other != call and not compare(one, np.asarray(value)):
            return f"is that of call {other}: rows were mixed up"
    came, expected = (np.array2string(np.asarray(value), precision=4) for value in (one, right[call]))
    return f"is {came}; expected {expected}"
