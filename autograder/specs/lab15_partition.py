"""``lab15_partition``: a graph on several devices, asked of TensorFlow's partitioner, and run as real processes."""

from __future__ import annotations

from typing import Any

from autograder.spec import Lab, Task
from autograder.specs import _lab15_partition_cases as cases
from autograder.specs import _lab15_partition_judges as judges
from autograder.specs import _lab15_partition_oracles as oracles
from autograder.specs import _lab15_partition_show as show

Plain = dict[str, dict[str, Any]]

# --- replays: source that shows a case in the learner's own notebook ---------------------------------

CHAIN = """graph = {{
    f"n{{i}}": Node("add", (f"n{{i - 1}}",) if i % 2 else (), (f"n{{i - 1}}",) if i and not i % 2 else ())
    for i in range({length})
}}
prune(graph, ["n{last}"])"""


def replay_reach(graph: Plain, fetches: list[str], length: int) -> str:
    if length:
        return CHAIN.format(length=length, last=length - 1)
    return f"{show.graph(graph)}\nprune(graph, {fetches})"


def replay_places(graph: Plain, default: str) -> str:
    return f"{show.graph(graph)}\nplace(graph, {default!r})"


def replay_cut(graph: Plain, places: dict[str, str]) -> str:
    return f"{show.graph(graph)}\ncut(graph, {places})"


def replay_meet(actions: list[list[Any]]) -> str:
    calls = [f"{what}({', '.join(map(repr, rest))})" for what, *rest in actions]
    lines = ["rendezvous, taken = Rendezvous(), []"]
    lines += [f"taken.append(rendezvous.{call})" if call.startswith("take") else f"rendezvous.{call}" for call in calls]
    return "\n".join([*lines, "taken, len(rendezvous)"])


def replay_share(
    parts: list[list[list[Any]]],
    inputs: dict[str, list[str]],
    constants: dict[str, float],
    count: int,
    conditions: dict[str, Any],
) -> str:
    notes = []
    if conditions.get("kill"):
        victim, after = conditions["kill"]
        notes.append(f"# rank {victim} was killed before its send or receive number {after}, counted from 0")
    if conditions.get("delay"):
        notes.append("# messages of different ranks overtook each other")
    rows = ",\n".join(f"    {[tuple(step) for step in part]}" for part in parts)
    return "\n".join(
        [
            *notes,
            f"parts = [\n{rows},\n]",
            f"calculate = sums({inputs}, {constants})",
            f"on_ranks({len(parts)}, lambda peers: run_part(parts[peers.rank], calculate, {count}, peers))",
        ]
    )


# --- the tasks ------------------------------------------------------------------------------------

REACH = Task(
    name="reach",
    title="What has to run for the fetches",
    points=15,
    names=("prune",),
    driver="reach",
    call=replay_reach,
    show=show.reach,
    strategy=cases.reach_strategy,
    edges=cases.reach_edges,
    oracles={"tensorflow": oracles.reach_tensorflow, "numpy": oracles.reach_definition},
    judge=judges.reach,
    limit=3.0,
    hints={
        "recursion": f"The longest graph tried is a chain of {cases.LENGTH:,} nodes: keep a list of names to visit.",
        "time": "Visit each node once.",
        "none": "prune has to return the set.",
    },
)

PLACES = Task(
    name="places",
    title="A device for each node",
    points=15,
    names=("place",),
    driver="places",
    call=replay_places,
    show=show.places,
    strategy=cases.places_strategy,
    edges=cases.places_edges,
    oracles={"tensorflow": oracles.places_tensorflow, "numpy": oracles.places_definition},
    judge=judges.places,
    hints={"none": "place has to return the dict.", "key": "A node may be beside one that comes later in the graph."},
)

CUT = Task(
    name="cut",
    title="A part for each device, with sends and receives",
    points=30,
    names=("cut",),
    driver="cut",
    call=replay_cut,
    show=show.cut,
    strategy=cases.cut_strategy,
    edges=cases.cut_edges,
    oracles={"tensorflow": oracles.cut_tensorflow, "numpy": oracles.cut_definition},
    judge=judges.cut,
    hints={"none": "cut has to return the dict of parts."},
)

MEET = Task(
    name="meet",
    title="A rendezvous of values and who waits for them",
    points=15,
    names=("Rendezvous",),
    driver="meet",
    call=replay_meet,
    show=show.meet,
    strategy=cases.meet_strategy,
    edges=cases.meet_edges,
    oracles={"torch": oracles.meet_torch, "numpy": oracles.meet_definition},
    judge=judges.meet,
    hints={"key": "What has not come yet is no error: who asks is remembered, and told when it comes."},
)

SHARE = Task(
    name="share",
    title="One device's part, as a process among others",
    points=25,
    names=("run_part",),
    driver="share",
    call=replay_share,
    show=show.share,
    strategy=cases.share_strategy,
    edges=cases.share_edges,
    oracles={"torch": oracles.share_torch, "numpy": oracles.share_numpy},
    judge=judges.share,
    examples=8,
    limit=8.0,
    hints={"none": "run_part has to return the list of dicts."},
)

lab = Lab(
    name="lab15_partition",
    title="A graph on several devices",
    tasks=(REACH, PLACES, CUT, MEET, SHARE),
    processes=8,
    loopback=True,
)
