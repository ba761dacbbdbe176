"""On what ``lab08_fold`` is tried: structures that are always tried, and random ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from autograder.spec import Inputs

CHAIN = 3_000
"""How many calls the longest chain has."""

# --- depth: calls in any order --------------------------------------------------------------------


_SMALLEST: list[list[list[int]]] = [[], [[]]]


def depth_edges(rng: np.random.Generator) -> list[Inputs]:
    shuffled = rng.permutation(CHAIN).tolist()
    chain: list[list[int]] = [[] for _ in range(CHAIN)]
    for before, after in pairwise(shuffled):
        chain[after] = [before]
    many = [_tree(rng, int(rng.integers(2, 6))) for _ in range(3)]
    forest: list[list[int]] = []
    for tree in many:
        forest += [[i + len(forest) for i in read] for read in tree]
    doublings = [[i - 1, i - 1] if i else [] for i in range(60)]
    return [
        {"inputs": case}
        for case in (
            *_SMALLEST,
            [[], [0]],
            [[1], []],  # what is read comes later
            [[], [0], [0, 1]],  # a short way and a long one
            [[], [0], [1, 0]],
            [[2, 1], [2], []],
            [[], [], [0, 1], [2, 2]],
            [[], [0, 0], [], [2, 1], [3, 0]],
            forest,
            doublings,
            chain,
        )
    ]


def _tree(rng: np.random.Generator, leaves: int) -> list[list[int]]:
    """A binary tree's calls, the root last."""
    calls: list[list[int]] = [[] for _ in range(leaves)]
    roots = list(range(leaves))
    while len(roots) > 1:
        at = int(rng.integers(len(roots) - 1))
        calls.append([roots[at], roots[at + 1]])
        roots[at : at + 2] = [len(calls) - 1]
    return calls


def depth_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        size = draw(st.integers(1, 9))
        names = draw(st.permutations(range(size)))
        inputs: list[list[int]] = [[] for _ in range(size)]
        for i in range(1, size):
            inputs[names[i]] = [names[k] for k in draw(st.lists(st.integers(0, i - 1), max_size=3))]
        return {"inputs": inputs}

    return cases()


# --- groups ---------------------------------------------------------------------------------------


def call(op: str, *inputs: list[Any], **attrs: Any) -> dict[str, Any]:
    return {"op": op, "attrs": [[name, value] for name, value in attrs.items()], "inputs": list(inputs)}


def value(*shape: int, dtype: str = "float32") -> list[Any]:
    return ["value", list(shape), dtype]


def shared(name: str) -> list[Any]:
    return ["shared", name]


def groups_edges(rng: np.random.Generator) -> list[Inputs]:
    n = int(rng.integers(2, 9))
    v = value(n)
    return [
        {"calls": calls}
        for calls in (
            [],
            [call("tanh", v)],
            [call("tanh", v), call("exp", v), call("tanh", v)],
            [call("tanh", v), call("tanh", value(n + 1)), call("tanh", value(n, 1)), call("tanh", value(1, n))],
            [call("tanh", v), call("tanh", value(n, dtype="float64")), call("tanh", v)],
            [call("matmul", v, shared("W")), call("matmul", v, shared("U")), call("matmul", v, shared("W"))],
            [call("sum", v, axis=0), call("sum", v, axis=1), call("sum", v, axis=0)],
            [call("sum", v, axis=0, keepdims=True), call("sum", v, keepdims=True, axis=0)],
            [call("sum", v, axis=0, keepdims=True), call("sum", v, axis=0, keepdims=False)],
            [call("sub", v, value(1)), call("sub", value(1), v), call("sub", v, value(1))],
            [call("pad", value(2, 3)), call("pad", value(3, 2)), call("pad", value(6))],
            [call("linear", v, shared("W"), shared("b")), call("linear", v, shared("W"), shared("c"))],
            [call("linear", v, shared("b"), shared("W")), call("linear", v, shared("W"), shared("b"))],
            [call("add", v, shared("h")), call("add", shared("h"), v), call("add", v, v)],
            [call("scale", v, by=1.5), call("scale", v, by=2.5), call("scale", v, by=1.5)],
            [call("exp", v), call("tanh", v), call("exp", v), call("abs", v), call("tanh", v)],
        )
    ]


def groups_strategy() -> Any:
    from hypothesis import strategies as st

    values = st.sampled_from([value(2), value(3), value(2, 3), value(3, 2), value(2, dtype="float64"), value()])
    inputs = st.lists(st.one_of(values, st.sampled_from([shared("W"), shared("U")])), min_size=1, max_size=2)
    attrs = st.sampled_from([{}, {}, {"axis": 0}, {"axis": 1}, {"axis": 0, "keepdims": 1}, {"keepdims": 1, "axis": 0}])
    one = st.builds(
        lambda op, given, extra: call(op, *given, **extra), st.sampled_from(["add", "sub", "sum"]), inputs, attrs
    )
    return st.lists(one, min_size=1, max_size=8).flatmap(
        lambda calls: st.lists(st.sampled_from(calls), min_size=1, max_size=8).map(lambda drawn: {"calls": drawn})
    )


# --- schedule -------------------------------------------------------------------------------------


def schedule_edges(rng: np.random.Generator) -> list[Inputs]:
    def case(inputs: list[list[int]], signatures: list[str]) -> Inputs:
        return {"inputs": inputs, "signatures": signatures}

    sequences: list[list[int]] = []
    kinds: list[str] = []
    for length in (1, 2, 4):
        for step in range(length):
            sequences.append([len(sequences) - 1] if step else [])
            kinds.append("step" if step else "start")
        sequences.append([len(sequences) - 1])
        kinds.append("loss")
    forest: list[list[int]] = []
    for leaves in rng.integers(1, 7, 8).tolist():
        forest += [[i + len(forest) for i in read] for read in _tree(rng, leaves)]
    wide = int(rng.integers(20, 40))
    return [
        case([], []),
        case([[]], ["a"]),
        case([[], []], ["a", "a"]),
        case([[], []], ["a", "b"]),
        case([[], [0]], ["a", "a"]),  # alike, and one reads the other
        case([[], [0], [1]], ["a", "b", "a"]),
        case([[], [], [0], [1]], ["a", "a", "b", "b"]),
        case([[], [0], [], [2]], ["a", "b", "a", "b"]),
        case([[], [0], [1], [], [3]], ["a", "b", "c", "b", "c"]),
        case([[], [0, 0], [1, 0]], ["a", "b", "b"]),
        case(sequences, kinds),
        case(forest, ["cell" if read else "leaf" for read in forest]),
        case([[], [0], [0, 1]], ["a", "b", "b"]),  # what counts is the later of its inputs, wherever it stands
        case([[]] * wide, ["a", "b"] * (wide // 2) + ["a"] * (wide % 2)),
        case([[i - 1] if i else [] for i in range(CHAIN)], ["a"] * CHAIN),
    ]


def schedule_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        size = draw(st.integers(1, 12))
        inputs: list[list[int]] = [draw(st.lists(st.integers(0, i - 1), max_size=2)) if i else [] for i in range(size)]
        return {"inputs": inputs, "signatures": [draw(st.sampled_from("abc")) for _ in range(size)]}

    return cases()


# --- gather ---------------------------------------------------------------------------------------


def gather_edges(rng: np.random.Generator) -> list[Inputs]:
    def case(batches: list[list[int]], inputs: list[list[int]], k: int) -> Inputs:
        return {"batches": batches, "inputs": inputs, "k": k}

    return [
        case([[0], [1]], [[], [0]], 1),
        case([[0, 1], [2, 3]], [[], [], [0], [1]], 1),  # in whole and in order
        case([[0, 1], [2, 3]], [[], [], [1], [0]], 1),  # the other way round
        case([[1, 0], [2, 3]], [[], [], [0], [1]], 1),  # rows are counted in the batch, not by number
        case([[1, 0], [3, 2]], [[], [], [0], [1]], 1),
        case([[0, 1, 2], [3, 4]], [[], [], [], [0], [1]], 1),  # some rows only
        case([[0, 1], [2, 3]], [[], [], [0], [0]], 1),  # one row twice
        case([[0, 1], [2]], [[], [], [0, 1]], 1),  # two inputs
        case([[0], [1], [2]], [[], [0], [1, 0]], 2),  # each input has its block
        case([[0], [1], [2, 3]], [[], [], [0], [1]], 2),  # one input, two blocks
        case([[0], [1], [2, 3]], [[], [], [1], [0]], 2),
        case([[0, 1], [2], [3, 4, 5]], [[], [], [0], [2], [1], [0]], 2),
        case([[0], [1], [2], [3, 4]], [[], [], [], [2], [0]], 3),  # blocks 0 and 2, not 1
        case([[2, 0, 1], [5, 3, 4]], [[], [], [], [0, 2], [1, 0], [2, 1]], 1),
        case([[0, 1]], [[], []], 0),  # reads nothing
    ]


def gather_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        width = draw(st.integers(1, 4))
        blocks = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
        leaves, arity = sum(blocks), draw(st.integers(1, 2))
        order = draw(st.permutations(range(leaves + width)))
        names, batches = list(order), []
        for size in blocks:
            batches.append([names.pop() for _ in range(size)])
        batches.append(names)
        before = [call for batch in batches[:-1] for call in batch]
        inputs: list[list[int]] = [[] for _ in range(leaves + width)]
        for call_number in names:
            inputs[call_number] = [draw(st.sampled_from(before)) for _ in range(arity)]
        return {"batches": batches, "inputs": inputs, "k": len(batches) - 1}

    return cases()


# --- run ------------------------------------------------------------------------------------------

ARITY = {"value": 0, "sub": 2, "mul": 2, "tanh": 1, "dense A": 2, "dense B": 2}


def by_levels(inputs: list[list[int]], ops: list[str]) -> list[list[int]]:
    levels: list[int] = []
    for read in inputs:
        levels.append(1 + max((levels[i] for i in read), default=-1))
    keys = sorted({(level, op) for level, op in zip(levels, ops, strict=True)})
    return [[i for i, (level, op) in enumerate(zip(levels, ops, strict=True)) if (level, op) == key] for key in keys]


def program(
    rng: np.random.Generator, ops: list[str], inputs: list[list[int]], *, dtype: str = "float64", shuffle: bool = False
) -> Inputs:
    width = int(rng.integers(1, 4))
    batches = by_levels(inputs, ops)
    if shuffle:
        batches = [rng.permutation(batch).tolist() for batch in batches]
    return {
        "batches": batches,
        "inputs": inputs,
        "ops": ops,
        "values": [rng.uniform(-2, 2, width).astype(dtype) for op in ops if op == "value"],
        "weights": {name: rng.uniform(-1, 1, (2 * width, width)).astype(dtype) for name in "AB"},
    }


def random_program(rng: np.random.Generator, size: int, **settings: Any) -> Inputs:
    ops = ["value"]
    inputs: list[list[int]] = [[]]
    for i in range(1, size):
        op = str(rng.choice(list(ARITY)))
        ops.append(op)
        inputs.append(rng.integers(0, i, ARITY[op]).tolist())
    return program(rng, ops, inputs, **settings)


def run_edges(rng: np.random.Generator) -> list[Inputs]:
    v = "value"
    pair: list[list[int]] = [[], []]
    return [
        program(rng, [v], [[]]),
        program(rng, [v, "tanh"], [[], [0]]),
        program(rng, [v, v, "sub"], [*pair, [0, 1]]),
        program(rng, [v, v, "sub"], [*pair, [1, 0]]),
        program(rng, [v, v, "sub", "sub"], [*pair, [0, 1], [1, 0]]),
        program(rng, [v, v, "tanh", "tanh"], [*pair, [1], [0]]),
        program(rng, [v, v, "dense A", "dense B"], [*pair, [0, 1], [0, 1]]),
        program(rng, [v, v, "dense A", "dense A", "dense A"], [*pair, [0, 1], [2, 1], [3, 2]]),
        program(rng, [v, v, v, "mul", "mul", "sub"], [[], [], [], [0, 1], [2, 2], [4, 3]]),
        program(rng, [v, v, "mul"], [*pair, [0, 1]], dtype="float32"),
        program(rng, [v, v, v, "sub", "sub", "sub"], [[], [], [], [0, 1], [1, 2], [2, 0]], shuffle=True),
        random_program(rng, 30, shuffle=True),
        random_program(rng, 60, shuffle=True),
    ]


def run_strategy() -> Any:
    from hypothesis import strategies as st

    return st.builds(
        lambda seed, size, shuffle: random_program(np.random.default_rng(seed), size, shuffle=shuffle),
        st.integers(0, 2**32 - 1),
        st.integers(1, 12),
        st.booleans(),
    )
