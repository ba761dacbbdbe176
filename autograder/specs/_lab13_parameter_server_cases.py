"""What ``lab13_parameter_server`` is tried on: 1 to 4 trainers, slow ones, pushes that come twice, one that dies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.spec import Inputs

STEP_CALLS = 3
"""Sends and receives of a trainer in one step: it asks for the weights, gets them, and pushes."""


def late(rng: np.random.Generator) -> dict[str, Any]:
    """Messages come late, and those of different trainers overtake each other."""
    return {"seed": int(rng.integers(1 << 30)), "delay": 0.002}


def dies(trainer: int, step: int) -> dict[str, Any]:
    """A trainer is killed after it has pushed for all steps before this one."""
    return {"kill": [trainer + 1, STEP_CALLS * step]}


def dies_at_work(trainer: int, step: int) -> dict[str, Any]:
    """A trainer is killed when it has the weights of this step and would push; if it is slow, after the others did."""
    return {"kill": [trainer + 1, STEP_CALLS * step + STEP_CALLS - 1]}


def death(inputs: Inputs) -> tuple[int, int]:
    """The trainer that dies, and the first step for which it pushes nothing; -1 where none does."""
    rank, calls = inputs["conditions"].get("kill", (0, 0))
    return rank - 1, calls // STEP_CALLS


# --- placement ------------------------------------------------------------------------------------


def placed(sizes: dict[str, int], servers: int, split: int) -> Inputs:
    return {"sizes": sizes, "servers": servers, "split": split}


def placement_edges(rng: np.random.Generator) -> list[Inputs]:
    layers = {"conv.weight": 54, "conv.bias": 6, "fc.weight": 640, "fc.bias": 10}
    return [
        placed({}, 2, 10),
        placed({"w": 5}, 1, 10),
        placed({"w": 0}, 3, 10),
        placed({"w": 10}, 3, 10),
        placed({"w": 11}, 3, 10),
        placed({"w": 12}, 4, 2),
        placed({"w": 3}, 5, 2),
        *[placed(dict(layers), servers, split) for servers in (1, 2, 3, 5) for split in (8, 100)],
        placed({"b": 4, "a": 4}, 2, 100),
        placed({f"layer{i}.weight": int(rng.integers(1, 40)) for i in range(12)}, 4, 20),
        placed({"Gewicht.ä": 7}, 7, 100),
    ]


def placement_strategy() -> Any:
    from hypothesis import strategies as st

    names = st.text("abcw.0123", min_size=1, max_size=5)
    return st.builds(
        placed, st.dictionaries(names, st.integers(0, 30), max_size=4), st.integers(1, 5), st.integers(1, 20)
    )


# --- barrier --------------------------------------------------------------------------------------


def quadratic(rng: np.random.Generator, trainers: int, steps: int, n: int = 2, **changed: Any) -> Inputs:
    return {
        "weights": rng.standard_normal(n).round(3),
        "slopes": [rng.uniform(0.2, 1.0, n).round(3) for _ in range(trainers)],
        "targets": [rng.standard_normal(n).round(3) for _ in range(trainers)],
        "lr": 0.5,
        "steps": steps,
        "repeat": [],
        "slow": [0.0] * trainers,
        "conditions": {},
    } | changed


def barrier_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        *[quadratic(rng, trainers, steps) for trainers in (1, 2, 3, 4) for steps in (1, 3)],
        quadratic(rng, 2, 2, n=0),
        quadratic(rng, 3, 3, conditions=late(rng)),
        quadratic(rng, 4, 3, conditions=late(rng)),
        quadratic(rng, 3, 2, slow=[0.0, 0.02, 0.0]),
        quadratic(rng, 2, 2, repeat=[[0, 0]]),
        quadratic(rng, 2, 2, repeat=[[0, 0], [1, 0]], slow=[0.02, 0.0]),
        quadratic(rng, 3, 2, repeat=[[1, 0], [2, 1]], slow=[0.02, 0.0, 0.0]),
        quadratic(rng, 2, 3, repeat=[[0, 0], [1, 0], [0, 1]], slow=[0.0, 0.02]),
        quadratic(rng, 2, 3, conditions=dies(1, 1)),
        quadratic(rng, 3, 3, conditions=dies(0, 0)),
        quadratic(rng, 3, 3, conditions=dies(2, 2)),
        # The others wait for it when it dies: nobody pushes any more, so the server has to move by itself.
        quadratic(rng, 2, 3, slow=[0.0, 0.1], conditions=dies_at_work(1, 1)),
        quadratic(rng, 3, 2, slow=[0.1, 0.0, 0.0], conditions=dies_at_work(0, 0)),
        # What it had pushed when it died still counts.
        quadratic(rng, 3, 2, slow=[0.1, 0.0, 0.0], conditions=dies(1, 1)),
        quadratic(rng, 2, 2, slow=[0.0, 0.1], conditions=dies(0, 1)),
    ]


def barrier_strategy() -> Any:
    from hypothesis import strategies as st

    def made(drawn: tuple[int, int, int, int]) -> Inputs:
        trainers, steps, n, seed = drawn
        return quadratic(np.random.default_rng(seed), trainers, steps, n)

    return st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2**32 - 1)).map(made)


# --- staleness ------------------------------------------------------------------------------------


def moving(rng: np.random.Generator, trainers: int, steps: int, bound: int, **changed: Any) -> Inputs:
    return {
        "weights": rng.standard_normal(trainers * steps).round(3),
        "moves": rng.uniform(0.5, 2.0, (trainers, steps)).round(3).tolist(),
        "lr": 0.25,
        "bound": bound,
        "repeat": [],
        "slow": [0.0] * trainers,
        "conditions": {},
    } | changed


def staleness_edges(rng: np.random.Generator) -> list[Inputs]:
    def slow(trainers: int, seconds: float = 0.02) -> list[float]:
        return [seconds] + [0.0] * (trainers - 1)

    return [
        moving(rng, 1, 3, 0),
        moving(rng, 1, 3, 2),
        *[moving(rng, 2, 4, bound, slow=slow(2)) for bound in (0, 1, 2, 9)],
        *[moving(rng, 3, 4, bound, slow=slow(3)) for bound in (0, 1, 2)],
        moving(rng, 3, 3, 1, conditions=late(rng)),
        moving(rng, 2, 4, 1, slow=slow(2), repeat=[[1, 0], [1, 1]]),
        moving(rng, 2, 4, 1, slow=slow(2), repeat=[[0, 0], [0, 1]]),
        moving(rng, 2, 5, 1, conditions=dies(0, 1)),
        moving(rng, 3, 5, 0, conditions=dies(1, 2)),
        moving(rng, 3, 4, 2, slow=[0.0, 0.02, 0.0], conditions=dies(0, 0)),
    ]


def staleness_strategy() -> Any:
    from hypothesis import strategies as st

    def made(drawn: tuple[int, int, int, int]) -> Inputs:
        trainers, steps, bound, seed = drawn
        rng = np.random.default_rng(seed)
        return moving(rng, trainers, steps, bound, slow=[0.01] + [0.0] * (trainers - 1))

    return st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 2), st.integers(0, 2**32 - 1)).map(made)


# --- sparse ---------------------------------------------------------------------------------------


def pull(*ids: int) -> dict[str, Any]:
    return {"do": "pull", "ids": np.array(ids, np.int64)}


def push(rng: np.random.Generator, dim: int, *ids: int) -> dict[str, Any]:
    return {"do": "push", "ids": np.array(ids, np.int64), "gradients": rng.standard_normal((len(ids), dim)).round(3)}


def table(rng: np.random.Generator, scripts: list[list[dict[str, Any]]], dim: int = 2, **conditions: Any) -> Inputs:
    return {"dim": dim, "lr": 0.5, "seed": int(rng.integers(1000)), "scripts": scripts, "conditions": conditions}


def sparse_edges(rng: np.random.Generator) -> list[Inputs]:
    far = 10**12 + 7
    return [
        table(rng, [[pull(3)]]),
        table(rng, [[pull(5, 0, 5)]]),
        table(rng, [[pull()]]),
        table(rng, [[push(rng, 2)]]),
        table(rng, [[push(rng, 2, 4)]]),
        table(rng, [[pull(4), push(rng, 2, 4), pull(4)]]),
        table(rng, [[push(rng, 2, 1), push(rng, 2, 1), pull(1)]]),
        table(rng, [[push(rng, 2, 6, 6), pull(6)]]),
        # Adagrad's first step does not see a factor; a second one does.
        table(rng, [[push(rng, 2, 6, 6, 6), push(rng, 2, 6), pull(6)]]),
        table(rng, [[push(rng, 2, 8), push(rng, 2, 8, 8), pull(8)]]),
        table(rng, [[push(rng, 3, 2, 9, 2, 2), pull(9, 2), push(rng, 3, 9), pull(2, 9)]], dim=3),
        table(rng, [[pull(far), push(rng, 2, far, 1), pull(1, far)]]),
        table(rng, [[pull(1, 8)], [pull(8, 1)]]),
        # Rows that both only pull are made by whoever comes first; each pushes to rows of its own.
        *[
            table(
                rng,
                [
                    [pull(7, 1), push(rng, 2, 10, 10), pull(10, 7)],
                    [pull(1, 7), push(rng, 2, 21, 20, 21), pull(20, 1)],
                    [pull(3, 7), push(rng, 2, 30), push(rng, 2, 30), pull(30)],
                ],
                **late(rng),
            )
            for _ in range(4)
        ],
    ]


def sparse_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        rng, dim = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 2))
        scripts: list[list[dict[str, Any]]] = []
        for trainer in range(draw(st.integers(1, 2))):
            own = st.integers(10 * trainer + 10, 10 * trainer + 12)
            script = []
            for _ in range(draw(st.integers(1, 3))):
                if draw(st.booleans()):
                    script.append(push(rng, dim, *draw(st.lists(own, min_size=1, max_size=3))))
                else:
                    script.append(pull(*draw(st.lists(own | st.integers(0, 2), min_size=1, max_size=3))))
            scripts.append(script)
        return table(rng, scripts, dim)

    return cases()


# --- compress -------------------------------------------------------------------------------------


def compress_edges(rng: np.random.Generator) -> list[Inputs]:
    def made(k: int, n: int, times: int, dtype: str = "float64") -> Inputs:
        return {"k": k, "gradients": [rng.standard_normal(n).astype(dtype) for _ in range(times)]}

    return [
        made(1, 1, 1), made(1, 3, 1), made(2, 5, 1), made(2, 5, 3), made(1, 4, 5), made(3, 3, 2), made(5, 3, 2),
        made(4, 0, 2), made(2, 6, 3, "float32"), made(3, 20, 6),
        {"k": 1, "gradients": [np.array([0.5, -3.25, 1.75]), np.array([0.125, 0.25, 1.0]), np.zeros(3)]},
    ]  # fmt: skip


def compress_strategy() -> Any:
    from hypothesis import strategies as st

    def made(drawn: tuple[int, int, int, int]) -> Inputs:
        k, n, times, seed = drawn
        rng = np.random.default_rng(seed)
        return {"k": k, "gradients": [rng.standard_normal(n).round(3) for _ in range(times)]}

    return st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1)).map(made)
