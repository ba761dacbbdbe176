"""The inputs ``lab02_devices`` is tried on: placements, segments and traces as plain data, in small numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.spec import Inputs
from autograder.specs._lab02_devices_oracles import run_trace

OPS = ("add", "matmul", "where", "concat")

# --- where ----------------------------------------------------------------------------------------


def where_edges(rng: np.random.Generator) -> list[Inputs]:
    def case(*inputs: Any) -> Inputs:
        entries = [list(entry) if isinstance(entry, tuple) else [entry] for entry in inputs]
        return {"op": f"{rng.choice(OPS)}_{rng.integers(2, 90)}", "inputs": entries}

    number = float(np.round(rng.uniform(1, 9), 1))
    return [
        case(("cpu", 1)),
        case(("cuda:1", 2), ("cuda:1", 2)),
        case(("cuda:0", 1), ("cpu", 1)),
        case(("cuda:0", 1), ("cuda:1", 1)),
        case(("cuda:0", 1), number),
        case(2, ("cuda:1", 0)),
        case(number, 3),
        case(("cuda:0", 1), ("cpu", 0)),
        case(("cpu", 0), ("cuda:0", 1)),
        case(("cpu", 0), ("cuda:0", 0)),
        case(("cpu", 1), ("cuda:0", 0)),  # a 0-d array on a GPU is no number
        case(("cuda:0", 0), ("cuda:1", 1)),
        case(("cuda:0", 0), ("cuda:1", 0)),
        case(("cpu", 0), ("cpu", 0)),
        case(("cpu", 0), ("cpu", 2), number),
        case(("cpu", 0), ("cuda:0", 1), ("cpu", 1)),
        case(("cpu", 0), ("cpu", 0), ("cuda:1", 3)),
        case(("cuda:1", 1), ("cpu", 0), ("cuda:1", 1), number),
        case(("cpu", 2), ("cpu", 0), ("cuda:0", 0)),
    ]


def where_strategy() -> Any:
    from hypothesis import strategies as st

    array = st.tuples(st.sampled_from(["cpu", "cpu", "cuda:0", "cuda:0", "cuda:1"]), st.integers(0, 2)).map(list)
    number = st.integers(2, 9).map(lambda n: [n])
    op = st.tuples(st.sampled_from(OPS), st.integers(2, 90)).map(lambda drawn: f"{drawn[0]}_{drawn[1]}")
    return st.fixed_dictionaries(
        {"op": op, "inputs": st.lists(st.one_of(array, array, number), min_size=1, max_size=4)}
    )


# --- fit ------------------------------------------------------------------------------------------


def fit_edges(rng: np.random.Generator) -> list[Inputs]:
    def case(*segments: list[int], size: int, order: list[int] | None = None) -> Inputs:
        """Sizes of blocks, below 0 where in use."""
        blocks = [[[abs(n), n > 0] for n in segment] for segment in segments]
        count = sum(n > 0 for segment in segments for n in segment)
        return {"segments": blocks, "order": list(range(count)) if order is None else order, "size": size}

    return [
        case([5], size=5),
        case([5], size=2),
        case([5], size=6),
        case([-5], size=1),
        case([6, -1, 3, -1, 4], size=3),  # the smallest that holds it is the second
        case([6, -1, 3, -1, 4], size=3, order=[2, 1, 0]),
        case([4, -2, 4], size=4, order=[1, 0]),  # of equals, the lower address
        case([4, -2, 4, -1, 4], size=2, order=[2, 0, 1]),
        case([2, -1, 9, -1, 2], size=3),
        case([2, -1, 7], [5, -2], [6], size=4, order=[3, 1, 2, 0]),
        case([-3, 5, -2], size=1),  # a cut in the middle of a chain
        case([-3, 5, -2], size=5),
        case([-1, 8], size=7),
        case([3, -1], [3], size=3, order=[1, 0]),
        case([1, -1, 2], size=3),
    ]


def fit_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        segments = []
        for _ in range(draw(st.integers(1, 3))):
            sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
            first = draw(st.booleans())
            segments.append([[size, (place % 2 == 0) == first] for place, size in enumerate(sizes)])
        count = sum(free for segment in segments for _, free in segment)
        return {
            "segments": segments,
            "order": list(draw(st.permutations(range(count)))),
            "size": draw(st.integers(1, 8)),
        }

    return cases()


# --- merge ----------------------------------------------------------------------------------------


def merge_edges(rng: np.random.Generator) -> list[Inputs]:
    def case(*sizes: int, index: int) -> Inputs:
        """Sizes of blocks, below 0 where in use."""
        return {"blocks": [[abs(n), n > 0] for n in sizes], "index": index}

    a, b, c = (int(n) for n in rng.integers(1, 9, 3))
    return [
        case(a, index=0),
        case(a, -b, index=0),
        case(-a, b, index=1),
        case(-a, b, -c, index=1),
        case(a, b, index=0),
        case(a, b, index=1),
        case(-a, b, c, index=1),
        case(-a, b, c, index=2),
        case(a, b, -c, index=0),
        case(a, b, -c, index=1),
        case(a, b, c, index=1),
        case(-1, a, b, c, -2, index=2),
        case(a, -b, c, -1, index=2),
        case(a, -1, b, c, -1, 4, index=3),
    ]


def merge_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        size = st.integers(1, 9)
        before = [[draw(size), place % 2 == 1] for place in range(draw(st.integers(0, 3)))][::-1]
        after = [[draw(size), place % 2 == 1] for place in range(draw(st.integers(0, 3)))]
        if draw(st.booleans()) and before:
            before.append([draw(size), True])
        if draw(st.booleans()) and after:
            after.insert(0, [draw(size), True])
        blocks = [*before, [draw(size), True], *after]
        return {"blocks": blocks, "index": len(before)}

    return cases()


# --- pool -----------------------------------------------------------------------------------------


def pool_edges(rng: np.random.Generator) -> list[Inputs]:
    def case(*events: Any, granule: int = 4, segment: int = 16, capacity: int | None = None) -> Inputs:
        """A number allocates, ("free", k) frees, "empty" empties the cache."""
        whole = [
            ["allocate", event] if isinstance(event, int) else ["empty"] if event == "empty" else list(event)
            for event in events
        ]
        return {"granule": granule, "segment": segment, "capacity": capacity, "events": whole}

    def free(k: int) -> tuple[str, int]:
        return ("free", k)

    return [
        case(4),
        case(3),  # rounded up
        case(16),
        case(17),  # larger than a segment
        case(4, 4),
        case(4, free(0)),
        case(4, free(0), 4),
        case(8, 8, 4),
        case(8, free(0), 16),  # whole again
        case(4, 4, 4, free(0), free(2), 8, free(1), 16),
        case(4, 4, 4, 4, free(0), free(2)),  # half is free, in two pieces
        case(16, 16, free(0), free(1), 32),  # two segments side by side are not one
        case(4, "empty", free(0), "empty", "empty"),
        case(4, 20, free(1), "empty", 20),
        case(4, free(0), free(0)),
        case(8, 4, free(0), free(0), free(1), free(1)),
        case(16, 16, capacity=24),
        case(16, free(0), 24, capacity=24),  # the cache is emptied first
        case(16, 8, free(0), 16, 16, capacity=32),
        case(4, 4, free(0), 20, capacity=32),
        case(12, 8, free(0), 4, 8, granule=8),
        case(12, 4, 8, 4, free(0), free(2), 8, granule=4, segment=32),  # the smaller of two holes
        case(1, 1, 1, free(1), 1, granule=1, segment=4),
        case(1, 1, granule=1, segment=1, capacity=1),
        case(1, free(0), 2, granule=1, segment=1, capacity=2),
        case(1, 2, granule=1, segment=1, capacity=2),
        case(1, free(0), "empty", 1, granule=1, segment=1, capacity=1),
        case(1, 2, granule=2, segment=2),
        case(8, 8, free(0), free(1), 4, free(4), granule=4, segment=16),
    ]


def pool_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        granule = draw(st.sampled_from([1, 4, 8]))
        segment = granule * draw(st.integers(1, 5))
        capacity = draw(st.one_of(st.none(), st.integers(3, 8).map(lambda n: n * granule)))
        inputs: Inputs = {"granule": granule, "segment": segment, "capacity": capacity, "events": []}
        events = inputs["events"]
        for _ in range(draw(st.integers(1, 9))):
            outcomes = run_trace(**inputs)
            made = [number for number, outcome in enumerate(outcomes) if _allocated(events, outcomes, number)]
            kind = draw(st.sampled_from(["allocate", "allocate", "free", "free", "empty"]))
            if kind == "free" and made:
                which = draw(st.sampled_from(made))
                # Who frees an address that was given out again frees another's memory: no pool can tell.
                if not _given_again(events, outcomes, which):
                    events.append(["free", which])
            elif kind == "empty":
                events.append(["empty"])
            else:
                events.append(["allocate", draw(st.integers(1, 4 * granule))])
        return inputs

    return cases().filter(lambda inputs: bool(inputs["events"]))


def _allocated(events: list[list[Any]], outcomes: list[dict[str, Any]], number: int) -> bool:
    return events[number][0] == "allocate" and not isinstance(outcomes[number]["came"], str)


def _given_again(events: list[list[Any]], outcomes: list[dict[str, Any]], which: int) -> bool:
    later = range(which + 1, len(events))
    address = outcomes[which]["came"]
    return any(_allocated(events, outcomes, number) and outcomes[number]["came"] == address for number in later)


# --- queue ----------------------------------------------------------------------------------------


def queue_edges(rng: np.random.Generator) -> list[Inputs]:
    def case(*events: list[Any], launch: float = 1.0) -> Inputs:
        return {"events": [list(event) for event in events], "launch": launch}

    a, b, c = (float(n) for n in rng.integers(3, 9, 3))
    return [
        case(["work", a]),
        case(["launch", a, None]),
        case(["launch", a, None], ["launch", b, None]),
        case(["launch", 0.5, None], ["launch", 0.5, None], ["launch", 0.5, None]),  # bound by launches
        case(["launch", a, None], ["wait"]),
        case(["wait"]),
        case(["launch", a, None], ["work", 20.0], ["wait"]),
        case(["copy", a]),
        case(["launch", a, None], ["copy", b]),
        case(["copy", a], ["launch", b, None], ["copy", c], ["launch", a, None]),
        case(["prefetch", a]),
        case(["prefetch", a], ["wait"]),
        case(["prefetch", a], ["prefetch", b]),
        case(["launch", a, None], ["prefetch", b], ["wait"]),
        case(["prefetch", 20.0], ["launch", a, None], ["launch", b, 0], ["launch", c, None]),
        case(["launch", 20.0, None], ["prefetch", a], ["launch", b, 1]),
        case(["prefetch", a], ["copy", b]),
        case(["prefetch", 20.0], ["copy", b], ["launch", c, 0]),
        case(["launch", a, None], ["copy", b], ["prefetch", c]),
        case(["launch", a, None], ["launch", b, None], launch=0.0),
        case(["launch", 0.0, None], ["wait"], ["copy", 0.0]),
        case(
            ["work", 3.0],
            ["prefetch", a],
            ["work", 2.0],
            ["launch", b, 1],
            ["launch", c, None],
            ["wait"],
            ["work", 1.0],
        ),
    ]


def queue_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        events: list[list[Any]] = []
        seconds = st.integers(0, 12).map(float)
        for number in range(draw(st.integers(1, 7))):
            kind = draw(st.sampled_from(["launch", "launch", "launch", "copy", "prefetch", "prefetch", "work", "wait"]))
            earlier = [place for place in range(number) if events[place][0] == "prefetch"]
            if kind == "wait":
                events.append(["wait"])
            elif kind == "launch":
                read = draw(st.sampled_from(earlier)) if earlier and draw(st.booleans()) else None
                events.append(["launch", draw(seconds), read])
            else:
                events.append([kind, draw(seconds)])
        return {"events": events, "launch": float(draw(st.integers(0, 3)))}

    return cases()
