"""``lab02_devices``: where an operation runs, an allocator in three pieces, and the time it all takes."""

from __future__ import annotations

from typing import Any

from autograder.spec import Lab, Task
from autograder.specs import _lab02_devices_cases as cases
from autograder.specs import _lab02_devices_judges as judges
from autograder.specs import _lab02_devices_oracles as oracles
from autograder.specs import _lab02_devices_show as show

# --- replays: source that shows a case in the learner's own notebook ---------------------------------


def replay_where(op: str, inputs: list[list[Any]]) -> str:
    given = ", ".join(repr(tuple(entry)) if len(entry) == 2 else repr(entry[0]) for entry in inputs)
    return f"common_device({op!r}, [{given}])"


def replay_fit(segments: list[list[list[Any]]], order: list[int], size: int) -> str:
    lines, free = [], []
    for number, blocks in enumerate(segments):
        at = f", address={oracles.SPACING * number}" if number else ""
        lines.append(f"s{number} = chain({_sizes(blocks)}{at})")
        free += [f"s{number}[{place}]" for place, (_, is_free) in enumerate(blocks) if is_free]
    lines += [
        f"block = best_fit([{', '.join(free[place] for place in order)}], {size})",
        f"rest = split(block, {size}) if block is not None and block.size > {size} else None",
        "block, rest, block and walk(block)",
    ]
    return "\n".join(lines)


def replay_merge(blocks: list[list[Any]], index: int) -> str:
    return f"blocks = chain({_sizes(blocks)})\nmerge(blocks[{index}]), walk(blocks[0])"


def _sizes(blocks: list[list[Any]]) -> str:
    return ", ".join(str(size if free else -size) for size, free in blocks)


def replay_pool(granule: int, segment: int, capacity: int | None, events: list[list[Any]]) -> str:
    lines = [f"pool = Pool(Source(), {granule}, {segment}, {capacity})"]
    for number, (kind, *rest) in enumerate(events):
        if kind == "allocate":
            lines.append(f"a{number} = attempt(pool.allocate, {rest[0]})")
        elif kind == "free":
            lines.append(f"attempt(pool.free, a{rest[0]})")
        else:
            lines.append("attempt(pool.empty_cache)")
    return "\n".join([*lines, "pool.figures()"])


def replay_queue(events: list[list[Any]], launch: float) -> str:
    return f"timeline({[tuple(event) for event in events]}, launch={launch})"


# --- the tasks ------------------------------------------------------------------------------------

WHERE = Task(
    name="where",
    title="Where an operation runs",
    points=15,
    names=("common_device", "DeviceError"),
    driver="where",
    call=replay_where,
    show=show.where,
    strategy=cases.where_strategy,
    edges=cases.where_edges,
    oracles={"torch": oracles.where_torch, "numpy": oracles.where_sets},
    judge=judges.where,
    hints={
        "key": "A number has no device: it is given as itself, not as a pair.",
        "none_used": "Return 'cpu' where nothing decides.",
    },
)

FIT = Task(
    name="fit",
    title="Best fit, and cutting a block",
    points=20,
    names=("best_fit", "split"),
    driver="fit",
    call=replay_fit,
    show=show.fit,
    strategy=cases.fit_strategy,
    edges=cases.fit_edges,
    oracles={"torch": oracles.fit_torch, "numpy": oracles.fit_search},
    judge=judges.fit,
    hints={
        "none_used": "The last block of a chain has None behind it, and the first has None before it.",
        "attribute": "A block has segment, address, size, free, prev and next.",
    },
)

MERGE = Task(
    name="merge",
    title="Joining free neighbours",
    points=20,
    names=("merge",),
    driver="merge",
    call=replay_merge,
    show=show.merge,
    strategy=cases.merge_strategy,
    edges=cases.merge_edges,
    oracles={"torch": oracles.merge_torch, "numpy": oracles.merge_walk},
    judge=judges.merge,
    hints={
        "none_used": "The last block of a chain has None behind it, and the first has None before it.",
        "attribute": "A block has segment, address, size, free, prev and next.",
    },
)

POOL = Task(
    name="pool",
    title="A caching pool",
    points=25,
    names=("Pool", "OutOfMemory"),
    driver="pool",
    call=replay_pool,
    show=show.pool,
    strategy=cases.pool_strategy,
    edges=cases.pool_edges,
    oracles={"torch": oracles.pool_torch, "numpy": oracles.pool_lists},
    judge=judges.pool,
    hints={
        "key": "An address that is not in use is no key: raise ValueError in free.",
        "signature": "It is called as Pool(source, granule, segment, capacity), allocate(nbytes), free(address), "
        "empty_cache() and figures().",
        "none_used": "A capacity of None is no limit.",
    },
)

QUEUE = Task(
    name="queue",
    title="Two clocks",
    points=20,
    names=("timeline",),
    driver="queue",
    call=replay_queue,
    show=show.queue,
    strategy=cases.queue_strategy,
    edges=cases.queue_edges,
    oracles={"torch": oracles.queue_torch, "numpy": oracles.queue_clocks},
    judge=judges.queue,
    hints={
        "none_used": "The third entry of a launch is None where it reads no prefetch.",
    },
)

lab = Lab(
    name="lab02_devices",
    title="Devices: placement, a caching allocator, and two clocks",
    tasks=(WHERE, FIT, MERGE, POOL, QUEUE),
)
