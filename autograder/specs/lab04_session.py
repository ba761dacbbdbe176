"""``lab04_session``: a session in five pieces, asked of TensorFlow's graphs, of torch.fx, and of the definitions."""

from __future__ import annotations

import numpy as np

from autograder.spec import Hint, Lab, Task
from autograder.specs import _lab04_session_cases as cases
from autograder.specs import _lab04_session_judges as judges
from autograder.specs import _lab04_session_oracles as oracles
from autograder.specs import _lab04_session_show as show
from autograder.specs._source import source

Graph = dict[str, list[str]]

CHAIN = 'inputs = {{f"n{{i}}": [f"n{{i - 1}}"] * 2 if i else [] for i in range({})}}'

# --- replays: source that shows a case in the learner's own notebook ---------------------------------


def _set(names: list[str]) -> str:
    return "{" + ", ".join(map(repr, names)) + "}" if names else "set()"


def replay_prune(inputs: Graph, fetches: list[str], fed: list[str], length: int) -> str:
    if length:
        return f'{CHAIN.format(length)}\nneeded(["n{length - 1}"], inputs, set())'
    return f"inputs = {inputs}\nneeded({fetches}, inputs, {_set(fed)})"


def replay_order(inputs: Graph, length: int) -> str:
    if length:
        return f"{CHAIN.format(length)}\nrun_order(list(inputs)[::-1], inputs)"
    return f"inputs = {inputs}\nrun_order(list(inputs), inputs)"


def replay_queue(inputs: Graph, seconds: dict[str, float], workers: int) -> str:
    return f"inputs = {inputs}\nseconds = {seconds}\nsimulate(inputs, seconds, {workers})"


def replay_free(order: list[str], inputs: Graph, fetches: list[str]) -> str:
    return f"inputs = {inputs}\nfree_after({order}, inputs, {_set(fetches)})"


def replay_feed(name: str, shape: list[int | None], dtype: str, value: np.ndarray) -> str:
    return f"value = {source(value)}\ncheck_feed({name!r}, {tuple(shape)}, {dtype!r}, value)"


# --- the tasks ------------------------------------------------------------------------------------

PRUNE = Task(
    name="prune",
    title="What the fetches need",
    points=20,
    names=("needed",),
    driver="prune",
    call=replay_prune,
    show=show.prune,
    strategy=cases.prune_strategy,
    edges=cases.prune_edges,
    oracles={
        "tensorflow": oracles.prune_tensorflow,
        "torch": oracles.prune_torch,
        "numpy": oracles.prune_definition,
    },
    judge=judges.prune,
    limit=3.0,
    hints={
        "recursion": f"The longest graph tried is a chain of {cases.LENGTH:,} nodes: keep a list of names to visit.",
        "time": "Visit each node once: a node that is in the set already was visited. The chain reads each node twice, "
        "so that following every path takes time without end.",
        "none": "needed has to return the set.",
    },
)

ORDER = Task(
    name="run_order",
    title="An order in which nodes can run, or the cycle that has none",
    points=20,
    names=("run_order", "CycleError"),
    driver="order",
    call=replay_order,
    show=show.order,
    strategy=cases.order_strategy,
    edges=cases.order_edges,
    oracles={"torch": oracles.order_torch, "numpy": oracles.order_definition},
    judge=judges.order,
    limit=3.0,
    hints={
        "recursion": f"The longest graph tried is a chain of {cases.LENGTH:,} nodes, which come last first.",
        "time": "Either a node is put in the order more than once, or something waits for a node of a cycle.",
        "none": "run_order has to return the list.",
    },
)

QUEUE = Task(
    name="workers",
    title="A ready queue and several workers",
    points=25,
    names=("simulate",),
    driver="queue",
    call=replay_queue,
    show=show.queue,
    strategy=cases.queue_strategy,
    edges=cases.queue_edges,
    oracles={
        "torch": oracles.queue_torch,
        "tensorflow": oracles.queue_tensorflow,
        "numpy": oracles.queue_definition,
    },
    judge=judges.queue,
    hints={
        "time": "Time has to go on to the next moment at which a node is done.",
        "none": "simulate has to return the dict.",
    },
    unlocks=(
        Hint(
            "has nothing to do",
            "At the moment a worker falls free, list the nodes whose inputs are done by then. Is yours a list of "
            "that moment, or one made earlier?",
        ),
    ),
)

FREE = Task(
    name="free",
    title="When a value is dead",
    points=20,
    names=("free_after",),
    driver="free",
    call=replay_free,
    show=show.free,
    strategy=cases.free_strategy,
    edges=cases.free_edges,
    oracles={"torch": oracles.free_torch, "numpy": oracles.free_definition},
    judge=judges.free,
    hints={"none": "free_after has to return a list with one collection of names for each step."},
    unlocks=(
        Hint(
            "can be freed after|dead before",
            "For each value, write down the number of the last step that reads it. What a step may free follows "
            "from that column alone.",
        ),
    ),
)

FEED = Task(
    name="feed",
    title="What may be fed",
    points=15,
    names=("check_feed", "FeedError"),
    driver="feed",
    call=replay_feed,
    show=show.feed,
    strategy=cases.feed_strategy,
    edges=cases.feed_edges,
    oracles={
        "tensorflow": oracles.feed_tensorflow,
        "torch": oracles.feed_torch,
        "numpy": oracles.feed_definition,
    },
    judge=judges.feed,
    hints={"none": "check_feed has to return the array, where it fits."},
    unlocks=(
        Hint(
            "None stands for any size|was let through|axes, not",
            "Compare the numbers of axes first. Then go through the axes side by side: which pairs of sizes may "
            "stand together, and which value means that any may?",
        ),
    ),
)

lab = Lab(
    name="lab04_session",
    title="A session in five pieces",
    tasks=(PRUNE, ORDER, QUEUE, FREE, FEED),
)
