"""The inputs ``lab05_tape`` is tried on: graphs, contributions and scripts as plain data.

Hypothesis draws the structure, which is what shrinks; values come from a drawn seed and are short to print, so that a
counter-example can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.spec import Inputs
from autograder.specs._lab05_tape_programs import Step, evaluate, leaf, node, partials_of, scaled

CHAIN = 50_000
DOUBLINGS = 60
OPS = ("mul", "matmul", "tanh", "exp", "sqrt")


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    """Random numbers of either sign with three digits, none near zero."""
    values = rng.uniform(0.3, 2.5, shape) * rng.choice([-1.0, 1.0], shape)
    return np.asarray(np.round(values, 3), dtype=dtype)


def lay(array: np.ndarray, layout: str) -> np.ndarray:
    """The same values, elsewhere in memory: "reversed" has a negative stride, "transposed" has columns first."""
    if layout == "reversed" and array.ndim:
        return np.array(array[::-1])[::-1]
    if layout == "transposed" and array.ndim > 1:
        return np.array(array.T).T
    return array


# --- rules ----------------------------------------------------------------------------------------


def rule_case(
    rng: np.random.Generator, op: str, x: tuple[int, ...], y: tuple[int, ...], dtype: str = "float64", layout: str = "C"
) -> Inputs:
    operands = [lay(numbers(rng, shape, dtype), layout) for shape in (x, y)]
    result = np.multiply(*operands) if op == "mul" else np.matmul(*operands)
    return {"op": op, "g": lay(numbers(rng, np.shape(result), dtype), layout), "x": operands[0], "y": operands[1]}


def rules_edges(rng: np.random.Generator) -> list[Inputs]:
    mul: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        *[((), ()), ((), (2, 3)), ((2, 3), ()), ((3, 1), (4,)), ((4,), (3, 1)), ((1,), (1,)), ((1, 1), (3,))],
        *[((2, 1, 3), (4, 1)), ((0,), ()), ((2, 0), (1,)), ((1, 3), (0, 3))],
    ]
    matmul: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        *[
            ((3,), (3,)),
            ((2, 3), (3,)),
            ((3,), (3, 2)),
            ((2, 3), (3, 4)),
            ((3, 3), (3, 3)),
            ((1, 1), (1, 1)),
            ((1,), (1,)),
        ],
        *[((3,), (2, 3, 4)), ((2, 3, 4), (4,)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((1, 2, 3), (4, 3, 2))],
        *[((2, 1, 2, 3), (3, 3, 1)), ((0, 2), (2, 3)), ((2, 0), (0, 3)), ((0,), (0,))],
    ]
    cases = [rule_case(rng, "mul", *shapes) for shapes in mul] + [
        rule_case(rng, "matmul", *shapes) for shapes in matmul
    ]
    for layout in ("reversed", "transposed"):
        cases.append(rule_case(rng, "mul", (2, 3), (2, 1), layout=layout))
        cases.append(rule_case(rng, "matmul", (2, 3), (3, 2), layout=layout))
    cases.append(rule_case(rng, "mul", (2, 3), (3,), dtype="float32"))
    cases.append(rule_case(rng, "matmul", (2, 3), (3,), dtype="float32"))
    spread = rule_case(rng, "mul", (2, 3), (3,))
    cases.append(spread | {"g": np.broadcast_to(numbers(rng, ()), (2, 3))})
    return cases


def rules_strategy() -> Any:
    from hypothesis import strategies as st

    size = st.integers(1, 4)

    def thinned(full: tuple[int, ...]) -> Any:
        """Shapes that broadcast to `full`: leading axes dropped, others 1."""
        return st.tuples(
            st.integers(0, len(full)), st.lists(st.booleans(), min_size=len(full), max_size=len(full))
        ).map(lambda drawn: tuple(1 if one else n for n, one in zip(full, drawn[1], strict=True))[drawn[0] :])

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        op = draw(st.sampled_from(["mul", "matmul"]))
        full = tuple(draw(st.lists(size, max_size=3 if op == "mul" else 2)))
        x, y = draw(thinned(full)), draw(thinned(full))
        if op == "matmul":
            n, k, m = draw(size), draw(size), draw(size)
            x = (k,) if draw(st.booleans()) else (*x, n, k)
            y = (k,) if draw(st.booleans()) else (*y, k, m)
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        return rule_case(
            rng,
            op,
            x,
            y,
            draw(st.sampled_from(["float64", "float32"])),
            draw(st.sampled_from(["C", "reversed", "transposed"])),
        )

    return cases()


# --- order ----------------------------------------------------------------------------------------


def graph(inputs: list[list[int]], repeat: int = 1) -> Inputs:
    return {"inputs": inputs, "root": 0, "repeat": repeat}


def order_edges(rng: np.random.Generator) -> list[Inputs]:
    width = int(rng.integers(40, 60))
    return [
        graph([[]]),
        graph([[1], []]),
        graph([[1, 1], []]),
        graph([[1, 2], [], []]),
        graph([[2, 1], [2], []]),  # breadth first meets node 2 too early
        graph([[1, 2], [], [1]]),  # depth first, noted on the way down, meets node 1 too early
        graph([[1, 2], [3], [3], []]),
        graph([[3, 1], [2], [3], [4], []]),
        graph([[1, 2, 2], [2], []]),  # node 2 is used three times, by two consumers
        graph([[2, 2, 1], [2], []]),
        graph([[1], [], [0, 1], [2]]),  # nodes 2 and 3 consume the root: no part of it
        graph([[1, 2, 1], [3, 2], [3, 3], []]),
        graph([list(range(1, width)), *([width] for _ in range(1, width)), []]),
        graph([[1, 2], [3], [3], []], repeat=DOUBLINGS // 2),
        graph([[1, 1], []], repeat=DOUBLINGS),
        graph([[1], []], repeat=CHAIN),
    ]


def order_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        size = draw(st.integers(2, 9))
        inputs = [
            draw(st.lists(st.integers(index + 1, size - 1), min_size=index == 0, max_size=3))
            for index in range(size - 1)
        ]
        return graph([*inputs, []])

    return cases()


# --- accumulate -----------------------------------------------------------------------------------


def accumulate_edges(rng: np.random.Generator) -> list[Inputs]:
    def case(
        nodes: int, steps: list[list[Any]], shape: tuple[int, ...] = (2,), arrays: int = 3, dtype: str = "float64"
    ) -> Inputs:
        return {"arrays": [numbers(rng, shape, dtype) for _ in range(arrays)], "steps": steps, "nodes": nodes}

    many = [[0, "array", k] for k in range(7)]
    three = [[0, "array", 0], [0, "array", 1], [0, "array", 2]]
    shared = [[0, "array", 0], [1, "array", 0], [0, "array", 1]]
    spread = {"arrays": [np.broadcast_to(numbers(rng, ()), (2, 3)), numbers(rng, (2, 3))], "steps": shared, "nodes": 2}
    return [
        case(1, [[0, "array", 0]]),
        case(1, [[0, "none", 0]]),
        case(2, [[0, "none", 0], [1, "array", 0], [1, "none", 0]]),
        case(1, three),
        case(1, many, arrays=7),
        case(1, [[0, "array", 0], [0, "array", 0], [0, "array", 1]]),
        case(2, shared),
        case(2, [[0, "array", 0], [0, "array", 1], [1, "sum", 0], [1, "array", 2]]),
        case(2, three, shape=()),
        case(2, three, shape=(0, 2)),
        case(2, three, shape=(1,)),
        case(2, three, shape=(2, 2), dtype="float32"),
        spread,
    ]


def accumulate_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        nodes, count = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        shape, dtype = (
            tuple(draw(st.lists(st.integers(1, 3), max_size=2))),
            draw(st.sampled_from(["float64", "float32"])),
        )
        steps: list[list[Any]] = []
        filled: set[int] = set()
        fresh = {node: list(range(count)) for node in range(nodes)}
        for _ in range(draw(st.integers(1, 6))):
            node = draw(st.integers(0, nodes - 1))
            kind = draw(st.sampled_from(["array", "array", "array", "none", "sum"]))
            givers = sorted(filled - {node})
            if kind == "sum" and givers:
                steps.append([node, "sum", draw(st.sampled_from(givers))])
            elif kind == "none" or not fresh[node]:
                steps.append([node, "none", 0])
            else:
                # An array comes to a node once: x + x can't tell a lost contribution from an average.
                steps.append([node, "array", fresh[node].pop(draw(st.integers(0, len(fresh[node]) - 1)))])
            if steps[-1][1] != "none":
                filled.add(node)
        rng, layout = (
            np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
            draw(st.sampled_from(["C", "reversed", "transposed"])),
        )
        return {
            "arrays": [lay(numbers(rng, shape, dtype), layout) for _ in range(count)],
            "steps": steps,
            "nodes": nodes,
        }

    return cases()


# --- backward -------------------------------------------------------------------------------------


def program(steps: list[Step], rng: np.random.Generator, root: int | None = None, repeat: int = 1) -> Inputs:
    values = [
        np.asarray(value)
        for value in evaluate(steps, [step.get("value") for step in steps], np.sin, np.sum, lambda y: y)
    ]
    root = len(steps) - 1 if root is None else root
    return {
        "steps": steps,
        "partials": [partials_of(step, values) for step in steps],
        "root": root,
        "cotangent": numbers(rng, values[root].shape, values[root].dtype.name),
        "repeat": repeat,
    }


def backward_edges(rng: np.random.Generator) -> list[Inputs]:
    def fresh(*shape: int, dtype: str = "float64") -> Step:
        return leaf(numbers(rng, shape, dtype))

    def times(index: int, number: float) -> Step:
        return scaled(index, np.array(number))

    near_one = np.exp(rng.uniform(-2e-5, 2e-5, 2))
    return [
        program([fresh(2)], rng),
        program([fresh(), times(0, 3.0)], rng),
        program([fresh(2), node("mul", 0, 0)], rng),
        program(
            [leaf(np.array(3.0)), times(0, 3.0), times(1, 2.0), times(1, 5.0), node("add", 2, 3)], rng
        ),  # 21, times the cotangent
        program([fresh(2), node("sin", 0), node("sin", 1), node("mul", 0, 2)], rng),  # a short way and a long one
        program([fresh(2), node("sin", 0), node("sin", 1), node("mul", 2, 0)], rng),
        program(
            [fresh(2), node("sin", 0), node("sin", 1), node("mul", 1, 2)], rng
        ),  # breadth first, node 1 comes too early
        program(
            [fresh(2), node("sin", 0), node("mul", 1, 1), node("sin", 2), node("sub", 2, 3), node("mul", 1, 4)], rng
        ),
        program([fresh(2), fresh(2), node("add", 0, 1), node("add", 2, 0)], rng),  # one array handed to two inputs
        program([fresh(2), fresh(2), node("add", 0, 1), node("sub", 0, 2), node("add", 3, 1)], rng),
        program([fresh(2), fresh(2), node("gate", 0, 1)], rng),
        program([fresh(2), fresh(2), node("sin", 1), node("gate", 0, 2)], rng),  # node 2 gets no cotangent at all
        program([fresh(2), fresh(2), node("gate", 0, 1), node("mul", 2, 1)], rng),
        program(
            [fresh(2), node("sin", 0), node("mul", 0, 1), node("add", 1, 0)], rng, root=2
        ),  # the last node isn't part of it
        program([fresh(2, 3), node("sum", 0)], rng),
        program([fresh(2, 3), node("mul", 0, 0), node("sum", 0), node("sum", 1), node("mul", 2, 3)], rng),
        program([fresh(0, 2), fresh(0, 2), node("mul", 0, 1), node("add", 2, 2)], rng),
        program([fresh(1), node("add", 0, 0), node("mul", 1, 0)], rng),
        program(
            [
                fresh(2, dtype="float32"),
                fresh(2, dtype="float32"),
                node("mul", 0, 1),
                node("sub", 2, 0),
                node("sin", 3),
            ],
            rng,
        ),
        program([fresh(), fresh(), fresh(), node("mul", 0, 1), node("mul", 3, 2), node("add", 4, 3)], rng),
        program([fresh(2), node("add", 0, 0)], rng, repeat=DOUBLINGS),
        program([fresh(2), scaled(0, near_one)], rng, repeat=CHAIN),
    ]


def backward_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        shape, dtype = (
            tuple(draw(st.lists(st.integers(1, 3), max_size=2))),
            draw(st.sampled_from(["float64", "float32"])),
        )
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        steps = [leaf(numbers(rng, shape, dtype)) for _ in range(draw(st.integers(1, 3)))]
        for _ in range(draw(st.integers(1, 7))):
            op = draw(st.sampled_from(["add", "mul", "sub", "gate", "sin"]))
            x, y = draw(st.integers(0, len(steps) - 1)), draw(st.integers(0, len(steps) - 1))
            step = node(op, x) if op == "sin" else node(op, x, y)
            values = evaluate(
                [*steps, step], [other.get("value") for other in (*steps, step)], np.sin, np.sum, lambda y: y
            )
            # Squares of squares soon leave float32; a sine brings them back.
            steps.append(step if np.abs(values[-1]).max() < 20 else node("sin", x))
        if draw(st.booleans()):
            steps.append(node("sum", len(steps) - 1))
        root = len(steps) - 1 - (draw(st.integers(0, 1)) if len(steps) > 2 else 0)
        return program(steps, rng, root=root)

    return cases()


# --- stale ----------------------------------------------------------------------------------------


def stale_edges(rng: np.random.Generator) -> list[Inputs]:
    def case(
        *events: list[Any],
        tensors: int = 2,
        shape: tuple[int, ...] = (2,),
        dtype: str = "float64",
        one_name: bool = False,
    ) -> Inputs:
        numbered = rng.integers(2, 90, len(events))
        named = [
            [kind, f"{first}_{numbered[0 if one_name else place]}", which] if kind == "record" else [kind, first, which]
            for place, (kind, first, which) in enumerate(events)
        ]
        return {"tensors": [numbers(rng, shape, dtype) for _ in range(tensors)], "events": named}

    amount, nothing = numbers(rng, (2,)), np.zeros(2)
    one, both = ["record", "tanh", [0]], ["record", "mul", [0, 1]]
    return [
        case(one, ["take", 0, False]),
        case(both, ["take", 0, False]),
        case(one, ["change", 0, amount], ["take", 0, False]),
        case(both, ["change", 1, amount], ["take", 0, False]),
        case(one, ["change", 1, amount], ["take", 0, False]),  # another tensor changed
        case(["change", 0, amount], one, ["take", 0, False]),  # changed before it was recorded
        case(one, ["change", 0, nothing], ["take", 0, False]),  # changed, to the same values
        case(one, ["change", 0, amount], ["change", 0, -amount], ["take", 0, False]),  # changed, and back
        case(one, ["take", 0, False], ["take", 0, False]),
        case(one, ["take", 0, True], ["take", 0, False], ["take", 0, False]),
        case(one, ["take", 0, True], ["take", 0, True]),
        case(one, ["take", 0, True], ["change", 0, amount], ["take", 0, False]),
        case(one, ["take", 0, False], ["take", 0, True]),
        case(
            one, ["change", 0, amount], one, ["take", 1, False], ["take", 0, False]
        ),  # the same tensor, older and newer
        case(one, both, ["take", 0, False], ["take", 1, False]),
        case(one, one, ["take", 0, False], ["take", 1, False], one_name=True),  # two operations of the same name
        # Versions that differ from each other: one number for all of them is not enough.
        case(["change", 1, amount], ["change", 1, amount], both, ["change", 0, amount], ["take", 0, False]),
        case(["change", 2, amount], ["record", "mul", [0, 1, 2]], ["change", 0, amount], ["take", 0, False], tensors=3),
        case(["record", "mul", [0, 0]], ["take", 0, False]),
        case(["record", "mul", [0, 0]], ["change", 0, amount], ["take", 0, True]),
        case(both, ["take", 0, False], shape=()),
        case(both, ["take", 0, False], shape=(0, 2)),
        case(both, ["take", 0, False], shape=(2, 1), dtype="float32"),
    ]


def stale_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        tensors, shape = draw(st.integers(1, 3)), tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        which = st.integers(0, tensors - 1)
        events: list[list[Any]] = []
        records = 0
        for _ in range(draw(st.integers(1, 8))):
            kind = draw(st.sampled_from(["record", "take", "take", "change"]))
            if kind == "record" or (kind == "take" and not records):
                events.append(
                    [
                        "record",
                        f"{draw(st.sampled_from(OPS))}_{rng.integers(2, 90)}",
                        draw(st.lists(which, min_size=1, max_size=3)),
                    ]
                )
                records += 1
            elif kind == "take":
                events.append(["take", draw(st.integers(0, records - 1)), draw(st.booleans())])
            else:
                events.append(["change", draw(which), numbers(rng, shape)])
        if not records:
            events.append(["record", f"{draw(st.sampled_from(OPS))}_{rng.integers(2, 90)}", [draw(which)]])
        if events[-1][0] != "take":
            events.append(["take", max(records - 1, 0), False])
        return {"tensors": [numbers(rng, shape) for _ in range(tensors)], "events": events}

    return cases()
