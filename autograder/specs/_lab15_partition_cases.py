"""What ``lab15_partition`` is tried on: graphs that are always tried, and random ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.spec import Inputs

LENGTH = 3000
"""Nodes of the longest chain; Python gives up after about 1000 nested calls."""
DEVICES = ("/job:ps/task:0/cpu:0", "/job:worker/task:0/cpu:0", "/job:worker/task:1/cpu:0")

Plain = dict[str, dict[str, Any]]


def node(
    inputs: str = "", controls: str = "", *, op: str = "add", device: int | None = None, beside: str | None = None
) -> dict[str, Any]:
    """A node; names are one letter each."""
    asked = None if device is None else DEVICES[device]
    return {"op": op, "inputs": list(inputs), "controls": list(controls), "device": asked, "beside": beside}


DIAMOND: Plain = {"a": node(), "b": node("a"), "c": node("a"), "d": node("bc")}
ORDERED: Plain = {"a": node(), "b": node(controls="a"), "c": node("b"), "d": node(controls="c"), "e": node("a", "d")}
UPDATED: Plain = {
    "v": node(op="variable", device=0),
    "x": node(),
    "g": node("vx", device=1),
    "u": node("vg", op="assign", device=1, beside="v"),
    "r": node("v", "u", op="read", beside="v"),
    "s": node("r", device=2),
    "t": node(controls="u", op="no_op"),
}


# --- reach ----------------------------------------------------------------------------------------


def wanted(graph: Plain, fetches: str, length: int = 0) -> Inputs:
    return {"graph": graph, "fetches": list(fetches), "length": length}


def reach_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        wanted({"a": node()}, "a"),
        wanted(DIAMOND, "d"),
        wanted(DIAMOND, "b"),
        wanted(DIAMOND, ""),
        wanted(DIAMOND, "bcb"),
        wanted(ORDERED, "b"),
        wanted(ORDERED, "e"),
        wanted(UPDATED, "t"),  # nothing flows from the assignment, and it has to run
        wanted(UPDATED, "s"),
        wanted(UPDATED, "x"),
        wanted({"a": node(), "b": node(), "c": node("b", beside="a")}, "c"),  # where it runs is not what it needs
        wanted({}, "", LENGTH),
    ]


def _drawn_graph(draw: Callable[..., Any], st: Any, most: int = 9) -> Plain:
    """Letters, each made from letters before it, or ordered after them."""
    letters = [chr(ord("a") + i) for i in range(draw(st.integers(2, most)))]
    graph: Plain = {}
    for i, letter in enumerate(letters):
        earlier = st.sampled_from(letters[:i]) if i else st.nothing()
        inputs = draw(st.lists(earlier, max_size=3)) if i else []
        controls = draw(st.lists(earlier, max_size=2, unique=True)) if i else []
        graph[letter] = node("".join(inputs), "".join(controls))
    return graph


def reach_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        graph = _drawn_graph(draw, st)
        return wanted(graph, "".join(draw(st.lists(st.sampled_from(sorted(graph)), max_size=2))))

    return cases()


# --- places ---------------------------------------------------------------------------------------


def placed(graph: Plain, default: int = 2) -> Inputs:
    return {"graph": graph, "default": DEVICES[default]}


def places_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        placed({}),
        placed({"a": node()}),
        placed({"a": node(device=1)}),
        placed({"a": node(device=0), "b": node("a")}),
        placed({"v": node(op="variable", device=0), "u": node("v", op="assign", beside="v")}),
        placed({"v": node(op="variable", device=0), "u": node("v", op="assign", device=1, beside="v")}),
        placed({"v": node(op="variable"), "u": node("v", op="assign", device=1, beside="v")}),
        placed(UPDATED, 1),
        placed({"v": node(device=0), "m": node(beside="v"), "u": node("m", op="assign", device=2, beside="m")}, 1),
        placed({"m": node(device=1, beside="v"), "v": node(device=0), "u": node(beside="m")}, 2),  # a later one
    ]


def places_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        graph = _drawn_graph(draw, st, 7)
        letters = list(graph)
        for i, letter in enumerate(letters):
            graph[letter]["device"] = draw(st.sampled_from([None, *DEVICES]))
            if i and draw(st.booleans()):
                graph[letter]["beside"] = draw(st.sampled_from(letters[:i]))
        return placed(graph, draw(st.integers(0, 2)))

    return cases()


# --- cut ------------------------------------------------------------------------------------------


def on(graph: Plain, devices: str) -> Inputs:
    """A graph, and a digit for the device of each node."""
    return {"graph": graph, "places": {name: DEVICES[int(d)] for name, d in zip(graph, devices, strict=True)}}


def cut_edges(rng: np.random.Generator) -> list[Inputs]:
    fan: Plain = {"a": node(), **{letter: node("a") for letter in "bcdef"}}
    zigzag: Plain = {"a": node(), **{two: node(one) for one, two in zip("abcde", "bcdef", strict=True)}}
    return [
        on({}, ""),
        on({"a": node()}, "1"),
        on(DIAMOND, "0000"),
        on(DIAMOND, "0110"),
        on(DIAMOND, "0121"),
        on(fan, "011112"),  # one tensor, four readers on one device and one on another
        on({"a": node(), "b": node("aa")}, "01"),
        on(zigzag, "010101"),
        on({"a": node(), "b": node(controls="a")}, "01"),
        on({"a": node(), "b": node("a", "a")}, "01"),
        on({"a": node(), "b": node("a"), "c": node("b", "a")}, "011"),
        on({"a": node(), "x": node(), "b": node("a"), "y": node("x"), "c": node("by"), "d": node("ca")}, "010101"),
        on(ORDERED, "01201"),
        on(UPDATED, "0210021"),
    ]


def cut_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        graph = _drawn_graph(draw, st)
        return on(graph, "".join(str(draw(st.integers(0, 2))) for _ in graph))

    return cases()


# --- meet -----------------------------------------------------------------------------------------


def acts(words: str) -> Inputs:
    """``p1x5``: put 5 as x of step 1; ``t1x``: take it; ``a1``: give step 1 up."""
    actions: list[list[Any]] = []
    for word in words.split():
        kind, step = word[0], int(word[1])
        actions.append(
            ["put", step, word[2], int(word[3:])]
            if kind == "p"
            else ["take", step, word[2]]
            if kind == "t"
            else ["abort", step]
        )
    return {"actions": actions}


def meet_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        acts(words)
        for words in (
            "",
            "t1x",
            "p1x5 t1x",
            "p1x5 t1x t1x",
            "p1x5 p2x6 t2x t1x",  # two steps at once
            "p2x6 t1x t2x",
            "p1x5 p1y6 t1y t1x",
            "p1x0 t1x",  # a value may be 0
            "p1x5 a1 t1x",
            "a1 p1x5 t1x",  # late
            "p1x5 p2x6 a1 t2x p1y3 t1y",
            "p1x5 a2 t1x",
            "p1x5 p1y6 p2x7",
            "p1x5 p1y6 a1 p1x7 p2x8",
            "p1x5 t1x p1x9 t1x",
        )
    ]


def meet_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        held: set[tuple[int, str]] = set()
        words = []
        for _ in range(draw(st.integers(1, 10))):
            step, name = draw(st.integers(1, 3)), draw(st.sampled_from("xy"))
            kind = draw(st.sampled_from("ppta"))
            if kind == "p" and (step, name) in held:
                kind = "t"
            if kind == "p":
                held.add((step, name))
                words.append(f"p{step}{name}{draw(st.integers(0, 99))}")
            elif kind == "t":
                held.discard((step, name))
                words.append(f"t{step}{name}")
            else:
                held -= {one for one in held if one[0] == step}
                words.append(f"a{step}")
        return acts(" ".join(words))

    return cases()


# --- share ----------------------------------------------------------------------------------------


def shared(
    rng: np.random.Generator, parts: list[str], inputs: dict[str, str], count: int, conditions: dict[str, Any]
) -> Inputs:
    """Each part in words: ``a``: run a; ``a>1``: send it to rank 1; ``a<0``: receive it from rank 0."""
    steps = []
    for part in parts:
        words = []
        for word in part.split():
            kind = "send" if ">" in word else "recv" if "<" in word else "run"
            words.append([kind, word[0], *([int(word[2])] if kind != "run" else [])])
        steps.append(words)
    constants = {name: float(rng.integers(1, 1000)) for name in inputs}
    return {
        "parts": steps,
        "inputs": {name: list(read) for name, read in inputs.items()},
        "constants": constants,
        "count": count,
        "conditions": conditions,
    }


ALONE = (["a b c"], {"a": "", "b": "a", "c": "ab"})
PAIR = (["a a>1 c<1 d", "a<0 c c>0"], {"a": "", "c": "a", "d": "ac"})
CROSSED = (["a b a>1 b>1 c<1", "b<0 a<0 c c>0"], {"a": "", "b": "", "c": "ab"})
"""Received in another order than sent."""
ZIGZAG = (["a a>1 b<1 c c>1 d<1 e", "a<0 b b>0 c<0 d d>0"], {"a": "", "b": "a", "c": "b", "d": "c", "e": "d"})
FEEDERS = (["x x>2 y y>2", "u u>2", "u<1 y<0 x<0 s"], {"x": "", "y": "x", "u": "", "s": "xyu"})
"""Nobody holds the two feeders back: they are steps ahead of who waits for one of them."""
CONTROL = (["a b<1 c", "b b>0"], {"a": "", "b": "", "c": "a"})
TRIANGLE = (
    ["a a>1 a>2 f<2 g", "a<0 b b>2", "b<1 a<0 f f>0"],
    {"a": "", "b": "a", "f": "ab", "g": "af"},
)


def share_edges(rng: np.random.Generator) -> list[Inputs]:
    late = {"seed": int(rng.integers(1 << 30)), "delay": 0.02}
    return [
        shared(rng, *ALONE, 2, {}),
        shared(rng, *ALONE, 0, {}),
        shared(rng, *PAIR, 1, {}),
        shared(rng, *PAIR, 3, {}),
        shared(rng, *CROSSED, 1, {}),
        shared(rng, *CROSSED, 4, late),
        shared(rng, *ZIGZAG, 3, late),
        shared(rng, *FEEDERS, 1, {}),
        shared(rng, *FEEDERS, 5, late),
        shared(rng, *CONTROL, 3, {}),
        shared(rng, *TRIANGLE, 4, late),
        shared(rng, *PAIR, 3, {"kill": [1, 1]}),
        shared(rng, *FEEDERS, 4, {**late, "kill": [1, 2]}),
        shared(rng, *TRIANGLE, 4, {**late, "kill": [2, 4]}),
    ]


def share_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        parts, inputs = draw(st.sampled_from([CROSSED, ZIGZAG, FEEDERS, CONTROL, TRIANGLE]))
        conditions = {"seed": draw(st.integers(0, 99)), "delay": draw(st.sampled_from([0.0, 0.01]))}
        return shared(rng, parts, inputs, draw(st.integers(1, 4)), conditions)

    return cases()
