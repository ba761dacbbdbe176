"""``lab14_all_reduce``: a ring all-reduce and buckets, run as real processes of the sandbox."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.spec import Cost, Lab, Task, Written
from autograder.specs import _lab14_all_reduce_cases as cases
from autograder.specs import _lab14_all_reduce_judges as judges
from autograder.specs import _lab14_all_reduce_oracles as oracles
from autograder.specs._ranks import not_returned
from autograder.specs._source import source

Arrays = list[np.ndarray]
Conditions = dict[str, Any]

# --- replays: source that shows a case in the learner's own notebook ---------------------------------


def replay_chunks(n: int, p: int) -> str:
    return f"chunk_bounds({n}, {p})"


def _on_ranks(function: str, values: Arrays, conditions: Conditions) -> str:
    notes = [f"values = [{', '.join(map(source, values))}]"]
    if conditions.get("kill"):
        victim, after = conditions["kill"]
        notes.append(f"# rank {victim} was killed before its send or receive number {after}, counted from 0")
    if conditions.get("delay"):
        notes.append("# messages of different ranks overtook each other")
    options = ", buffered=False" if conditions.get("rendezvous") else ""
    call = f"on_ranks({len(values)}, lambda peers: {function}(values[peers.rank], peers){options})"
    return "\n".join([*notes, call])


def replay_exchange(values: Arrays, conditions: Conditions) -> str:
    return _on_ranks("pass_right", values, conditions)


def replay_reduce_scatter(values: Arrays, conditions: Conditions) -> str:
    return _on_ranks("reduce_scatter", values, conditions)


def replay_all_reduce(values: Arrays, conditions: Conditions) -> str:
    return _on_ranks("all_reduce", values, conditions)


def replay_buckets(gradients: list[Arrays], capacity: int, conditions: Conditions) -> str:
    rows = ",\n".join(f"    [{', '.join(map(source, rank))}]" for rank in gradients)
    return "\n".join(
        [
            f"gradients = [\n{rows},\n]",
            f"on_ranks({len(gradients)}, lambda peers: average_gradients(gradients[peers.rank], {capacity}, peers, "
            "plain_sum))",
        ]
    )


# --- answers in words -----------------------------------------------------------------------------


def show_ranks(answer: Any) -> str:
    """One line for each rank, of what came or of what the oracles found."""
    if isinstance(answer, dict):
        return f"PeerLost, on every rank that is left: rank {answer['lost']} is gone"
    if isinstance(answer, np.ndarray):
        return f"on every rank {_entries(answer)}"
    if all(isinstance(one, np.ndarray) for one in answer):
        return "\n".join(f"rank {rank}: {_entries(one)}" for rank, one in enumerate(answer))
    stopped = not_returned(answer, len(answer))
    return "\n".join(
        [
            *(f"rank {rank}: {_entries(one['value']['result'])}" for rank, one in enumerate(answer) if "value" in one),
            *stopped,
        ]
    )


def show_buckets(answer: Any) -> str:
    if isinstance(answer, dict):
        lines = [f"buckets of parameters {answer['buckets']}"]
        return "\n".join([*lines, *(f"average {k}: {_entries(one)}" for k, one in enumerate(answer["averages"]))])
    lines = not_returned(answer, len(answer))
    for rank, one in enumerate(answer):
        if "value" in one:
            given = [array.size for array in one["value"]["given"]]
            lines.append(f"rank {rank}: all_reduce of {given} numbers, averages")
            lines += [f"  {_entries(average)}" for average in one["value"]["averages"]]
    return "\n".join(lines)


def _entries(array: Any) -> str:
    return np.array2string(np.asarray(array), precision=5, separator=", ")


# --- what it costs --------------------------------------------------------------------------------


def bytes_of_a_round(values: Arrays, conditions: Conditions) -> int:
    """What one rank sends in half of a ring: a chunk in each step, the largest where they differ."""
    p = len(values)
    return (p - 1) * -(-len(values[0]) // p) * values[0].itemsize


def bytes_of_a_ring(values: Arrays, conditions: Conditions) -> int:
    return 2 * bytes_of_a_round(values, conditions)


SENT = "Sent by one rank, at most"
ONE_CHUNK = "In each step a rank sends one chunk to its right neighbour, not the array."

# --- the tasks ------------------------------------------------------------------------------------

CHUNKS = Task(
    name="chunks",
    title="An array in as many chunks as there are ranks",
    points=10,
    names=("chunk_bounds",),
    driver="chunks",
    call=replay_chunks,
    strategy=cases.chunks_strategy,
    edges=cases.chunks_edges,
    oracles={"torch": oracles.chunks_torch, "numpy": oracles.chunks_numpy},
    judge=judges.chunks,
    hints={"none": "chunk_bounds has to return the list of pairs.", "zero_division": "n may be 0; p never is."},
)

EXCHANGE = Task(
    name="exchange",
    title="Passing to the right without a deadlock",
    points=20,
    names=("pass_right",),
    driver="exchange",
    call=replay_exchange,
    show=show_ranks,
    strategy=cases.exchange_strategy,
    edges=cases.exchange_edges,
    oracles={"torch": oracles.exchange_torch, "tensorflow": oracles.exchange_tensorflow},
    judge=judges.exchange,
    examples=10,
    limit=8.0,
    hints={"none": "pass_right has to return what the left neighbour sent; a rank alone is its own neighbour."},
)

REDUCE_SCATTER = Task(
    name="reduce_scatter",
    title="Half of the ring: each rank has one chunk of the sum",
    points=25,
    names=("reduce_scatter",),
    driver="reduce_scatter",
    call=replay_reduce_scatter,
    show=show_ranks,
    strategy=cases.sum_strategy,
    edges=cases.reduce_scatter_edges,
    oracles={"torch": oracles.reduce_scatter_torch, "tensorflow": oracles.reduce_scatter_tensorflow},
    judge=judges.reduce_scatter,
    costs=(Cost("bytes", SENT, bytes_of_a_round, "p - 1 chunks of n / p numbers", "bytes"),),
    examples=10,
    limit=8.0,
    hints={
        "cost": ONE_CHUNK,
        "none": "reduce_scatter has to return the rank's own chunk.",
        "broadcast": "The chunk that comes is not the one it is added to: sizes differ where n is no multiple of p.",
    },
)

ALL_REDUCE = Task(
    name="all_reduce",
    title="The whole ring",
    points=25,
    names=("all_reduce",),
    driver="all_reduce",
    call=replay_all_reduce,
    show=show_ranks,
    strategy=cases.sum_strategy,
    edges=cases.all_reduce_edges,
    oracles={"torch": oracles.all_reduce_torch, "tensorflow": oracles.all_reduce_tensorflow},
    judge=judges.all_reduce,
    costs=(Cost("bytes", SENT, bytes_of_a_ring, "2 (p - 1) chunks of n / p numbers", "bytes"),),
    examples=10,
    limit=8.0,
    hints={
        "cost": ONE_CHUNK,
        "none": "all_reduce has to return the sum.",
        "broadcast": "The chunk that comes is not the one it is written to: sizes differ where n is no multiple of p.",
    },
)

BUCKETS = Task(
    name="buckets",
    title="Gradients in buckets, averaged once",
    points=20,
    names=("average_gradients",),
    driver="buckets",
    call=replay_buckets,
    show=show_buckets,
    strategy=cases.buckets_strategy,
    edges=cases.buckets_edges,
    oracles={"torch": oracles.buckets_torch, "tensorflow": oracles.buckets_tensorflow},
    judge=judges.buckets,
    examples=10,
    limit=8.0,
    hints={
        "none": "average_gradients has to return the list of averages.",
        "empty": "A model may have no parameters, and a parameter no elements.",
    },
)

SMALL_ARRAYS = Written(
    name="small_arrays",
    title="Is a ring always the way?",
    points=5,
    rubric="1: the ring takes 2 (p - 1) (a + b n / p). 1: the tree takes 2 log2(p) (a + b n). 1: for 40 bytes the "
    "steps decide, 510 against 16, so the tree. 1: for 400 MB the bytes decide, 2 n against about 16 n, so the ring. "
    "1: buckets pay a once for many gradients.",
)

lab = Lab(
    name="lab14_all_reduce",
    title="A ring all-reduce",
    tasks=(CHUNKS, EXCHANGE, REDUCE_SCATTER, ALL_REDUCE, BUCKETS),
    written=(SMALL_ARRAYS,),
    processes=8,
    loopback=True,
)
