"""``lab13_parameter_server``: placement, a barrier, clocks, a sparse table, compression; over real processes."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.spec import Lab, Task
from autograder.specs import _lab13_parameter_server_cases as cases
from autograder.specs import _lab13_parameter_server_jobs as jobs
from autograder.specs import _lab13_parameter_server_judges as judges
from autograder.specs import _lab13_parameter_server_oracles as oracles
from autograder.specs._source import source

Arrays = list[np.ndarray]
Conditions = dict[str, Any]

# --- replays: source that shows a case in the learner's own notebook ---------------------------------


def replay_placement(sizes: dict[str, int], servers: int, split: int) -> str:
    return f"place({sizes}, {servers}, {split})"


def _notes(inputs: dict[str, Any]) -> list[str]:
    notes = []
    for trainer, step in inputs["repeat"]:
        notes.append(f"# trainer {trainer} pushed for step {step} once more, as after a lost answer")
    trainer, step = cases.death(inputs)
    if trainer >= 0:
        when = f"after its push for step {step - 1}" if step else "before its first push"
        notes.append(f"# trainer {trainer} was killed {when}")
    if inputs["conditions"].get("delay"):
        notes.append("# messages of different trainers overtook each other")
    return notes


def _job(make: str, inputs: dict[str, Any], steps: int, trainers: int) -> str:
    options = f", repeat={inputs['repeat']}" if inputs["repeat"] else ""
    options += f", slow={inputs['slow']}" if any(inputs["slow"]) else ""
    trainer, step = cases.death(inputs)
    options += f", dies=({trainer}, {step})" if trainer >= 0 else ""
    return f"run_job({make}, gradient, {trainers}, {steps}{options})"


def replay_barrier(**inputs: Any) -> str:
    return "\n".join(
        [
            f"weights = {source(inputs['weights'])}",
            f"slopes = [{', '.join(map(source, inputs['slopes']))}]",
            f"targets = [{', '.join(map(source, inputs['targets']))}]",
            *_notes(inputs),
            "gradient = lambda trainer, step, pulled: slopes[trainer] * (pulled - targets[trainer])",
            _job(f"SyncServer(weights, {len(inputs['slopes'])}, {inputs['lr']})", inputs, inputs["steps"],
                 len(inputs["slopes"])),
        ]
    )  # fmt: skip


def replay_staleness(**inputs: Any) -> str:
    moves = np.array(inputs["moves"])
    trainers, steps = moves.shape
    return "\n".join(
        [
            f"weights = {source(inputs['weights'])}",
            f"moves = {source(moves.ravel())}",
            *_notes(inputs),
            f"gradient = lambda trainer, step, pulled: moves * (np.arange({moves.size}) == trainer * {steps} + step)",
            _job(f"StaleServer(weights, {trainers}, {inputs['lr']}, {inputs['bound']})", inputs, steps, trainers),
        ]
    )


def replay_sparse(dim: int, lr: float, seed: int, scripts: list[list[dict[str, Any]]], conditions: Conditions) -> str:
    lines = [f"table, pulled = SparseTable({dim}, {lr}, start_of({seed}, {dim})), []"]
    for trainer, script in enumerate(scripts):
        lines += [f"# trainer {trainer}"] if len(scripts) > 1 else []
        for one in script:
            ids = source(one["ids"]) if one["ids"].size else "np.zeros(0, dtype=np.int64)"
            lines.append(
                f"pulled.append(table.pull({ids}))"
                if one["do"] == "pull"
                else f"table.push({ids}, {source(one['gradients'])})"
            )
    lines += ["# in the case that failed, the trainers ran side by side"] if len(scripts) > 1 else []
    lines += ["known = np.array(sorted(table.known()), np.int64)", "pulled, known, table.pull(known)"]
    return "\n".join(lines)


def replay_compress(k: int, gradients: Arrays) -> str:
    given = ", ".join(map(source, gradients))
    return f"compressor = TopK({k})\n[compressor.encode(gradient) for gradient in [{given}]]"


# --- answers in words -----------------------------------------------------------------------------


def show_job(answer: Any) -> str:
    """The weights at the end, and what happened at the server before."""
    if "ranks" not in answer:
        return f"weights at the end: {_entries(answer['weights'])}"
    server = answer["ranks"][0]
    log = server["value"]["log"] if "value" in server else server.get("note") or []
    lines = [_event(entry) for entry in log]
    lines = [*lines[:6], "...", *lines[-6:]] if len(lines) > 14 else lines
    if "value" in server:
        lines.append(f"weights at the end: {_entries(server['value']['weights'])}")
    return "\n".join(lines)


def _event(entry: list[Any]) -> str:
    do, trainer, step, said = entry
    if do == "ask":
        return f"  pull({trainer}, {step}) gives {'weights' if said else 'None'}"
    what = {"begin": "start", "pull": f"trainer {trainer} asks for step {step}", "lost": f"trainer {trainer} is lost",
            "push": f"trainer {trainer} pushes for step {step}", "done": f"trainer {trainer} is done"}  # fmt: skip
    return f"{what[do]}; weights {_entries(said)}"


def show_sparse(answer: Any) -> str:
    server = answer["ranks"][0]["value"] if "ranks" in answer else answer
    rows = [f"row {row}: {_entries(values)}" for row, values in zip(server["known"], server["rows"], strict=True)]
    return "\n".join(rows) or "no rows"


def show_compress(answer: Any) -> str:
    return "\n".join(f"{one['indices'].tolist()}: {_entries(one['values'])}" for one in answer)


def _entries(array: Any) -> str:
    return np.array2string(np.asarray(array), precision=4, separator=", ", threshold=12)


# --- the tasks ------------------------------------------------------------------------------------

PLACEMENT = Task(
    name="placement",
    title="Which server holds what",
    points=10,
    names=("place",),
    driver="placement",
    call=replay_placement,
    strategy=cases.placement_strategy,
    edges=cases.placement_edges,
    oracles={"torch": oracles.placement_torch, "numpy": oracles.placement_numpy},
    judge=judges.placement,
    hints={"none": "place has to return the list of pieces."},
)

BARRIER = Task(
    name="barrier",
    title="In step: a server with a barrier",
    points=25,
    names=("SyncServer",),
    driver="barrier",
    call=replay_barrier,
    show=show_job,
    strategy=cases.barrier_strategy,
    edges=cases.barrier_edges,
    oracles={"torch": oracles.barrier_torch, "tensorflow": oracles.barrier_tensorflow},
    judge=jobs.barrier,
    examples=8,
    limit=8.0,
    hints={"key": "A trainer may be lost that has not pushed, and one may push that was counted before."},
)

STALENESS = Task(
    name="staleness",
    title="Not too far apart: clocks and a bound",
    points=25,
    names=("StaleServer",),
    driver="staleness",
    call=replay_staleness,
    show=show_job,
    strategy=cases.staleness_strategy,
    edges=cases.staleness_edges,
    oracles={"torch": oracles.staleness_torch, "tensorflow": oracles.staleness_tensorflow},
    judge=jobs.staleness,
    examples=8,
    limit=8.0,
    hints={"empty": "The last trainer may be lost; then nobody's clock is left."},
)

SPARSE = Task(
    name="sparse",
    title="A table of which only touched rows exist",
    points=25,
    names=("SparseTable",),
    driver="sparse",
    call=replay_sparse,
    show=show_sparse,
    strategy=cases.sparse_strategy,
    edges=cases.sparse_edges,
    oracles={"torch": oracles.sparse_torch, "tensorflow": oracles.sparse_tensorflow},
    judge=judges.sparse,
    examples=10,
    limit=8.0,
    hints={
        "key": "A row that is not there yet is made: by a pull, and by a push as well.",
        "memory": "Ids go up to 10^12: only rows that were touched may take memory.",
        "empty": "No ids is a batch, too: pull gives an array of shape (0, dim).",
    },
)

COMPRESS = Task(
    name="compress",
    title="Send the largest, keep the rest",
    points=15,
    names=("TopK",),
    driver="compress",
    call=replay_compress,
    show=show_compress,
    strategy=cases.compress_strategy,
    edges=cases.compress_edges,
    oracles={"torch": oracles.compress_torch, "tensorflow": oracles.compress_tensorflow},
    judge=judges.compress,
    hints={"none": "encode has to return the pair (indices, values)."},
)

lab = Lab(
    name="lab13_parameter_server",
    title="A parameter server",
    tasks=(PLACEMENT, BARRIER, STALENESS, SPARSE, COMPRESS),
    processes=8,
    loopback=True,
)
