"""What is wrong with an answer of ``lab18_serving``, in words. What came is not trusted: it may be any plain data."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.compare import compare
from autograder.spec import Inputs

PER_CLASS = "one number for each class, the mean over the places"


def count(number: int, one: str, several: str | None = None) -> str:
    return f"{number} {one if number == 1 else several or one + 's'}"


# --- the batcher ----------------------------------------------------------------------------------


def due(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The first event at which the trace differs, and why."""
    if not isinstance(got, list) or len(got) != len(want):
        return ["There is not one answer for each event."]
    rows = [event[2] for event in inputs["events"] if event[0] == "submit"]
    waiting: list[int] = []
    made = 0
    for event, one, right in zip(inputs["events"], got, want, strict=True):
        what, now = event[:2]
        if what == "submit":
            if one != right and isinstance(right, bool):
                return [_refusal(inputs, event, one, right, waiting, rows, made)]
            if right is not False:
                waiting.append(made)
            made += 1
            continue
        if one != right or type(one) is not type(right):
            return [_explained(inputs, event, one, right, waiting, rows)]
        if what != "next":
            waiting = [i for i in waiting if f"r{i}" not in right]
        del now
    return []


def _refusal(
    inputs: Inputs, event: list[Any], one: Any, right: bool, waiting: list[int], rows: list[int], made: int
) -> str:
    total = sum(rows[i] for i in waiting)
    if not isinstance(one, bool):
        return f"submit gave {one!r:.60}; expected True if the request was taken, and False if it was refused."
    said = (
        f"At {event[1]} ms {count(total, 'row waits', 'rows wait')}, the queue holds {inputs['queue']}, and r{made} "
        f"has {count(rows[made], 'row')}: "
    )
    if right:
        return said + ("it was refused, though nothing waits." if not waiting else "it was refused, though it fits.")
    return said + f"it was taken, and now {total + rows[made]} wait. The queue's bound is in rows."


def _explained(inputs: Inputs, event: list[Any], one: Any, right: Any, waiting: list[int], rows: list[int]) -> str:
    what, now = event[:2]
    arrived = [e[1] for e in inputs["events"] if e[0] == "submit"]
    total = sum(rows[i] for i in waiting)
    size, wait = inputs["size"], inputs["wait"]
    there = f"At {now} ms {count(total, 'row waits', 'rows wait')}"
    if waiting:
        there += f", the oldest since {arrived[waiting[0]]} ms"
    there += f" (size {size}, wait {wait} ms)"
    if what == "next":
        return f"{there}: the next batch is due at {_time(right)}; next_due gave {_time(one)}."
    if not isinstance(one, list):
        return f"{there}: {what} gave {one!r:.60}; expected {right}."
    if what == "expire":
        return (
            f"At {now} ms the deadline has come of {right or 'none'}; expire gave {one}. A deadline of {now} has come."
        )
    if right and not one:
        why = "a batch is full" if total >= size else "the oldest has waited long enough"
        return f"{there}: {why}, but take gave no batch; expected {right}."
    if one and not right:
        why = "it is not full, and the oldest has not waited long enough" if waiting else "nothing waits"
        return f"{there}: {why}, but take gave {one}; expected []."
    numbers = [int(name[1:]) for name in one if isinstance(name, str) and name[1:].isdigit()]
    came = sum(rows[i] for i in numbers if i < len(rows))
    if came > size and len(one) > 1:
        return f"{there}: take gave {one}, {came} rows: more than the size. Expected {right}."
    if set(numbers) - set(waiting):
        return f"{there}: take gave {one}, of which some do not wait any more. Expected {right}."
    if sorted(one) == sorted(right):
        return f"{there}: take gave {one}; first come, first served: {right}."
    if one == right[: len(one)]:
        return f"{there}: take gave {one}; more fit: {right}."
    return f"{there}: take gave {one}; expected {right}: in order of arrival, and none overtakes."


def _time(value: Any) -> str:
    return f"{value:g} ms" if isinstance(value, int | float) else repr(value)


# --- padding --------------------------------------------------------------------------------------


def padded(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The first request whose answer is wrong, and what it may be instead."""
    if not isinstance(got, dict) or got.keys() != want.keys() or not isinstance(got["answers"], list):
        return ["answers did not give a list with a pair (places, mean) for each sequence."]
    if got["called"] != want["called"]:
        if len(got["called"]) != len(want["called"]):
            return [
                f"The model was called {count(len(got['called']), 'time')}; all {len(inputs['sequences'])} sequences "
                f"are one batch, and so {'one call' if want['called'] else 'without sequences there is none'}."
            ]
        (*came, dtype), (*shape, expected) = got["called"][0], want["called"][0]
        if came == shape:
            return [f"The model was called with {dtype}; the sequences are {expected}, and so is their batch."]
        return [f"The model was called with shape {came}; expected {shape}: up to the longest."]
    pairs, right = got["answers"], want["answers"]
    if len(pairs) != len(right):
        return [f"answers gave {count(len(pairs), 'pair')} for {count(len(right), 'sequence')}."]
    for number, (pair, (places, mean)) in enumerate(zip(pairs, right, strict=True)):
        length = len(inputs["sequences"][number])
        if not isinstance(pair, list) or len(pair) != 2:
            return [f"The answer to sequence {number} is no pair (places, mean)."]
        for name, one, expected in (("places", pair[0], places), ("mean", pair[1], mean)):
            if not compare(one, np.asarray(expected)):
                continue
            who = next(
                (
                    k
                    for k, other in enumerate(right)
                    if k != number and not compare(one, np.asarray(other[name == "mean"]))
                ),
                None,
            )
            if who is not None:
                return [f"The {name} of sequence {number} is that of sequence {who}: rows went to the wrong requests."]
            if np.shape(one) != np.shape(expected):
                have, why = ("has", PER_CLASS) if name == "mean" else ("have", "what was filled up is cut off again")
                if name == "places" and np.ndim(one) == 2 and len(one) < length:
                    why = "some of its own are missing"
                return [
                    f"The {name} of sequence {number}, which has {count(length, 'place')}, {have} shape "
                    f"{np.shape(one)}; expected {np.shape(expected)}: {why}."
                ]
            if np.asarray(one).dtype != np.asarray(expected).dtype:
                return [
                    f"The {name} of sequence {number} is {np.asarray(one).dtype}; expected "
                    f"{np.asarray(expected).dtype}, as the sequence."
                ]
            longest = want["called"][0][1]
            leak = " Does the fill count in it?" if name == "mean" and longest > length else ""
            verb = "is" if name == "mean" else "are"
            return [
                f"The {name} of sequence {number} {verb} {np.array2string(np.asarray(one), precision=4)}; expected "
                f"{np.array2string(np.asarray(expected), precision=4)}.{leak}"
            ]
    return []


# --- versions -------------------------------------------------------------------------------------


def switch(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The first event at which the trace differs, and why."""
    if not isinstance(got, list) or len(got) != len(want):
        return ["There is not one answer for each event."]
    warm: list[int] = []
    failed: list[int] = []
    users: dict[int, int] = {}
    begun: list[int | None] = []
    dropped: set[int] = set()
    for event, one, right in zip(inputs["events"], got, want, strict=True):
        what = event[0]
        if one != right or type(one) is not type(right):
            return [_wrong(what, one, right, warm, failed, users, dropped)]
        if what == "warm":
            warm.append(event[1])
        elif what == "failed":
            failed.append(event[1])
        elif what == "begin":
            begun.append(right)
            if right is not None:
                users[right] = users.get(right, 0) + 1
        elif what == "done":
            version = begun[event[1]]
            if version is not None:
                users[version] -= 1
        elif what == "drop":
            dropped |= set(right)
    return []


def _wrong(
    what: str, one: Any, right: Any, warm: list[int], failed: list[int], users: dict[int, int], dropped: set[int]
) -> str:
    if what == "begin":
        if one is None:
            return f"A request was refused (None), though version {right} is warm."
        if one in failed:
            return f"Version {one} failed to load, and begin gave it a request; expected {right}."
        if one not in warm:
            return f"Version {one} is not warm yet, and begin gave it a request; expected {right}."
        return f"begin gave version {one}; the newest that is warm is {right}."
    if what == "drop" and isinstance(one, list):
        for version in one:
            if version in right:
                continue
            if users.get(version):
                return (
                    f"drop gave version {version}, which still answers {count(users[version], 'request')}: they would "
                    "be lost."
                )
            if version in dropped:
                return f"drop gave version {version} a second time."
            if version not in warm:
                return f"drop gave version {version}, which was never warm."
            return f"drop gave version {version}, which is live."
        return f"drop gave {one}; version {sorted(set(right) - set(one))[0]} is not live, and nobody uses it any more."
    return f"{what} gave {one!r:.60}; expected {right!r}."
