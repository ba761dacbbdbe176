"""On what ``lab18_serving`` is tried: runs under a clock that the case tells, in whole milliseconds."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.spec import Inputs
from autograder.specs._lab18_serving_oracles import switch_states

SEEDS = 2**32 - 1


def _submits(*times: int, rows: int = 1) -> list[list[Any]]:
    return [["submit", now, rows] for now in times]


def random_run(rng: np.random.Generator, length: int, *, bounded: bool) -> Inputs:
    """Requests, takes and looks ahead at random times, often the very ones at which something is due."""
    size, wait = int(rng.integers(1, 7)), int(rng.choice([0, 5, 10, 20]))
    now = int(rng.integers(0, 50))
    events: list[list[Any]] = []
    arrivals = [now]
    for _ in range(length):
        kind = str(rng.choice(["submit", "submit", "submit", "take", "take", "expire" if bounded else "next"]))
        if kind == "submit":
            rows = int(rng.choice([1, 1, 1, 2, 3, size, size + 1]))
            more = [int(now + rng.integers(1, 30)) if rng.random() < 0.5 else None] if bounded else []
            events.append(["submit", now, rows, *more])
            arrivals.append(now)
        else:
            events.append([kind, now])
        step = int(rng.choice([0, 0, 1, 2, 7]))
        target = arrivals[int(rng.integers(len(arrivals)))] + wait
        now = target if rng.random() < 0.3 and target >= now else now + step
    case: Inputs = {"size": size, "wait": wait, "events": events}
    if bounded:
        case["queue"] = int(rng.integers(size, 3 * size + 2))
    return case


def due_edges(rng: np.random.Generator) -> list[Inputs]:
    start = int(rng.integers(2, 20))  # early, since a case with great numbers counts as a large one
    three = _submits(start, start + 4, start + 9)
    return [
        {"size": 4, "wait": 10, "events": [["take", start], ["next", start]]},
        {"size": 4, "wait": 10, "events": [*_submits(start), ["take", start + 10]]},
        {"size": 4, "wait": 10, "events": [*_submits(start), ["take", start + 9], ["take", start + 10]]},
        {"size": 4, "wait": 10, "events": [*three, ["next", start + 9], ["take", start + 9], ["take", start + 10]]},
        {
            "size": 3,
            "wait": 10,
            "events": [*_submits(start, start), ["take", start], *_submits(start), ["take", start]],
        },
        {"size": 2, "wait": 10, "events": [*_submits(*[start] * 5), *[["take", start]] * 3, ["take", start + 10]]},
        {"size": 4, "wait": 0, "events": [*_submits(start, start + 1), ["take", start + 1], ["take", start + 1]]},
        {
            "size": 4,
            "wait": 9,
            "events": [["submit", start, 3], ["submit", start, 2], *_submits(start), *_takes(start)],
        },
        {"size": 4, "wait": 9, "events": [["submit", start, 9], ["submit", start, 1], *_takes(start)]},
        {
            "size": 4,
            "wait": 9,
            "events": [*_submits(start), ["take", start + 9], *_submits(start + 20), *_takes(start + 20)],
        },
        {
            "size": 4,
            "wait": 9,
            "events": [*_submits(start, start), ["next", start], *_submits(start, start), ["next", start]],
        },
        {"size": 1, "wait": 50, "events": [*_submits(start, start), *_takes(start)]},
        {"size": 3, "wait": 10, "events": _left_over(start)},
        {"size": 4, "wait": 10, "events": [*_submits(0, 4), ["take", 9], ["take", 10]]},  # 0 is a time
        random_run(rng, 60, bounded=False),
        random_run(rng, 60, bounded=False),
    ]


def _left_over(start: int, *deadline: None) -> list[list[Any]]:
    """A batch leaves one behind, which came after the first and before the batch was taken: its time counts on."""
    submits: list[list[Any]] = [["submit", start, 2, *deadline], ["submit", start + 3, 2, *deadline]]
    return [*submits, *[["take", start + after] for after in (5, 12, 13)]]


def _takes(now: int) -> list[list[Any]]:
    return [["take", now], ["take", now], ["next", now], ["take", now + 9]]


def bounded_edges(rng: np.random.Generator) -> list[Inputs]:
    start = int(rng.integers(2, 20))  # early, since a case with great numbers counts as a large one

    def case(queue: int, *events: list[Any]) -> Inputs:
        return {"size": 4, "wait": 10, "queue": queue, "events": list(events)}

    one = ["submit", start, 1, None]
    late = ["submit", start, 1, start + 5]
    return [
        case(4, one),
        case(2, one, one, one),
        case(4, ["submit", start, 3, None], ["submit", start, 2, None], one),
        case(4, ["submit", start, 9, None], one, ["take", start + 10], one),
        case(4, one, one, one, one, one, ["take", start], one),
        case(9, late, ["expire", start + 4], ["expire", start + 5], ["take", start + 10]),
        case(2, late, one, one, ["expire", start + 5], ["submit", start + 5, 1, None]),
        case(
            9, late, ["submit", start + 3, 1, None], ["expire", start + 6], ["take", start + 10], ["take", start + 13]
        ),
        case(9, one, late, one, ["expire", start + 9], ["take", start + 10]),
        case(9, ["submit", start, 1, start + 5], ["take", start + 10]),
        case(9, late, ["expire", start + 5], ["expire", start + 6], ["take", start + 20]),
        case(9, ["submit", start, 2, start + 9], late, ["expire", start + 9], ["take", start + 10]),
        case(9, late, late, ["expire", start + 5]),  # two that stand together
        case(9, ["submit", 0, 1, 0], ["expire", 0]),  # 0 is a deadline
        case(9, ["submit", start, 1, start], ["submit", start, 1, start - 1], ["take", start], ["expire", start]),
        {"size": 3, "wait": 10, "queue": 9, "events": _left_over(start, None)},
        random_run(rng, 60, bounded=True),
        random_run(rng, 60, bounded=True),
    ]


def run_strategy(*, bounded: bool) -> Any:
    from hypothesis import strategies as st

    return st.builds(
        lambda seed, length: random_run(np.random.default_rng(seed), length, bounded=bounded),
        st.integers(0, SEEDS),
        st.integers(2, 12),
    )


# --- padding --------------------------------------------------------------------------------------


def sequences_of(rng: np.random.Generator, lengths: list[int], dtype: str = "float64") -> Inputs:
    features, classes = (int(n) for n in rng.integers(1, 4, 2))
    return {
        "sequences": [rng.uniform(-2, 2, (length, features)).astype(dtype) for length in lengths],
        "weight": rng.uniform(-1, 1, (features, classes)).astype(dtype),
        "bias": rng.uniform(0.5, 1.5, classes).astype(dtype),  # the model of a padded place is not 0
    }


def padded_edges(rng: np.random.Generator) -> list[Inputs]:
    lengths: list[list[int]] = [[1], [4], [2, 2], [1, 3], [3, 1], [2, 5, 1], [5, 5, 5], [1, 1, 1, 7], [4, 3, 2, 1], []]
    zeros = sequences_of(rng, [3, 4, 2])  # a place that is zero is no fill
    for one in zeros["sequences"]:
        one[1:2] = 0
        one[-1] = 0
    return [sequences_of(rng, one) for one in lengths] + [
        zeros,
        sequences_of(rng, [3, 1, 2], "float32"),
        sequences_of(rng, [6, 2], "float32"),
        sequences_of(rng, rng.integers(1, 30, 20).tolist()),
    ]


def padded_strategy() -> Any:
    from hypothesis import strategies as st

    return st.builds(
        lambda seed, lengths: sequences_of(np.random.default_rng(seed), lengths),
        st.integers(0, SEEDS),
        st.lists(st.integers(1, 6), min_size=1, max_size=5),
    )


# --- versions -------------------------------------------------------------------------------------


def random_switches(rng: np.random.Generator, length: int) -> Inputs:
    """Versions come, become warm or fail, in any order; requests begin and end; sometimes one looks what may go."""
    events: list[list[Any]] = []
    loading: list[int] = []
    in_flight: list[int] = []
    begun, newest = 0, int(rng.integers(0, 5))
    for _ in range(length):
        kind = str(rng.choice(["found", "warm", "warm", "failed", "begin", "begin", "done", "done", "drop", "drop"]))
        if kind == "found" or (kind in ("warm", "failed") and not loading):
            newest += int(rng.integers(1, 3))
            loading.append(newest)
            events.append(["found", newest])
        elif kind in ("warm", "failed"):
            events.append([kind, loading.pop(int(rng.integers(len(loading))))])
        elif kind == "begin":
            in_flight.append(begun)
            begun += 1
            events.append(["begin"])
        elif kind == "done" and in_flight:
            events.append(["done", in_flight.pop(int(rng.integers(len(in_flight))))])
        else:
            events.append(["drop"])
    return {"events": events}


def switch_edges(rng: np.random.Generator) -> list[Inputs]:
    one: list[list[Any]] = [["found", 1], ["warm", 1]]
    two: list[list[Any]] = [["found", 2], ["warm", 2]]
    begin, drop = ["begin"], ["drop"]
    runs: list[list[list[Any]]] = [
        [begin, drop],
        [["found", 1], begin, ["warm", 1], begin, drop],
        [*one, ["found", 2], begin, drop, ["warm", 2], begin],
        [*one, begin, *two, drop, begin, ["done", 0], drop, drop],
        [*one, begin, begin, *two, ["done", 0], drop, ["done", 1], drop],
        [*one, ["found", 2], ["failed", 2], begin, drop],
        [["found", 1], ["failed", 1], begin, drop],
        [["found", 1], ["found", 2], ["warm", 2], begin, ["warm", 1], begin, drop],
        [*one, *two, drop, begin, drop],
        [*one, begin, ["done", 0], drop, *two, drop],
        [begin, *one, ["done", 0], begin, *two, drop, ["done", 1], drop],
        [["found", 9], ["warm", 9], ["found", 10], ["warm", 10], begin, drop],
        [["found", 0], ["warm", 0], begin, *one, drop, ["done", 0], drop],
        [*one, begin, *two, begin, ["found", 3], ["warm", 3], drop, ["done", 1], drop, ["done", 0], drop],
        [["found", 1], ["found", 2], ["warm", 2], ["failed", 1], begin, drop],
        [*one, *two, ["found", 3], ["warm", 3], drop, drop],
    ]
    return [{"events": run} for run in runs] + [random_switches(rng, 80), random_switches(rng, 80)]


def switch_strategy() -> Any:
    from hypothesis import strategies as st

    def interesting(case: Inputs) -> bool:
        return any(answer for answer in switch_states(np, **case))

    return st.builds(
        lambda seed, length: random_switches(np.random.default_rng(seed), length),
        st.integers(0, SEEDS),
        st.integers(4, 16),
    ).filter(interesting)
