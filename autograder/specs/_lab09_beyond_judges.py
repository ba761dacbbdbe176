"""What is wrong with an answer of ``lab09_beyond``, in words, where a plain comparison says too little.

What came is not trusted: it may be any plain data. Where numbers are wrong, the usual mistakes are played through on
the same inputs; if one of them gives the very numbers that came, it is named.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.compare import compare
from autograder.spec import Inputs
from autograder.specs import _lab09_beyond_jets as jets
from autograder.specs import _lab09_beyond_oracles as oracles


def jvp(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """Value and tangent of the program."""
    if not isinstance(got, list) or len(got) != 2:
        return ["jvp did not give a pair (value, tangent)."]
    value, tangent = compare(got[0], want[0]), compare(got[1], want[1])
    if not value and not tangent:
        return []
    if not compare(got[0], want[1]) and not compare(got[1], want[0]):
        return ["The pair is the wrong way round: it is (value, tangent)."]
    nested = "jvp(" in inputs["program"]
    if nested and _is_confused(got, want, inputs):
        return [
            "Perturbation confusion: the tangents of the outer jvp were taken for those of the inner one. What has "
            "another level is a constant, in run and where jvp takes its result apart, and each jvp needs a level of "
            "its own."
        ]
    words = (
        f"The {'value' if value else 'tangent'} is wrong: {(value or tangent)[0].message.replace('result', 'it', 1)}"
    )
    if nested:
        words += (
            " Where jvp is nested, look at what happens to a value of another level: in run, and where jvp takes its "
            "result apart."
        )
    return [words]


def _is_confused(got: Any, want: Any, inputs: Inputs) -> bool:
    """Whether what is wrong of the pair is what comes of one infinitesimal for all."""
    mixed = oracles.jvp_jets(np, **inputs, jvp=jets.confused)
    return all(_same(one, right) or _same(one, other) for one, right, other in zip(got, want, mixed, strict=True))


def jacobian(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The Jacobian, with no more products than rows or columns."""
    if not isinstance(got, dict) or got.keys() != want.keys():
        return ["jacobian did not give an array."]
    found, right = got["jacobian"], want["jacobian"]
    mismatches = compare(found, right)
    if mismatches:
        inner, outer = inputs["x"].shape, tuple(inputs["outer"])
        turned = right.reshape(int(np.prod(outer)), -1).T.reshape(*inner, *outer)
        if _same(found, turned) and not _same(turned, right):
            return ["The Jacobian is transposed: the axes of the result come first, those of the argument last."]
        if _same(np.reshape(found, -1) if isinstance(found, np.ndarray) else found, turned.reshape(-1)):
            return ["The entries are there, in the order of the transposed Jacobian. push gives a column, pull a row."]
        if _same(np.reshape(found, -1) if isinstance(found, np.ndarray) else found, right.reshape(-1)):
            return [f"The entries are right, but the shape is {np.shape(found)}; expected {right.shape}."]
        return [mismatches[0].message]
    return _calls(got["calls"], want["calls"], "of push and pull", _cheaper(inputs))


def _cheaper(inputs: Inputs) -> str:
    n, m = inputs["x"].size, int(np.prod(inputs["outer"]))
    return f"There are {n} columns and {m} rows: take whichever are fewer."


def hvp(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The product, from running the program a number of times that does not grow with x."""
    if not isinstance(got, dict) or got.keys() != want.keys():
        return ["hvp did not give an array."]
    mismatches = compare(got["product"], want["product"])
    if mismatches:
        found, v = got["product"], inputs["v"]
        plays: dict[str, Callable[[], Any]] = {
            "This is the gradient; the Hessian is the derivative of that.": lambda: _gradient(inputs),
            "This is the number v'Hv; the product Hv has an entry for each of x.": lambda: np.asarray(
                (v * want["product"]).sum()
            ),
            "v was left out: this is the Hessian times ones.": lambda: _product(inputs, np.ones_like(v)),
            "This is the diagonal of the Hessian times v; H mixes the entries.": lambda: _diagonal(inputs) * v,
            "This is twice the product.": lambda: 2 * want["product"],
            "The sign is wrong.": lambda: -want["product"],
        }
        for words, play in plays.items():
            answer = np.asarray(play())
            if _same(found, answer) and not _same(answer, want["product"]):
                return [words]
        if _near(found, want["product"]):
            return [
                f"{mismatches[0].message} It is near, but not exact: differences lose half of the digits. jvp of the "
                "gradient loses none."
            ]
        return [mismatches[0].message]
    limit = 3
    calls = got["calls"]
    if not isinstance(calls, int) or calls > limit:
        return [
            f"f ran {str(calls)[:9]} times for an x of {inputs['v'].size} entries. One run is enough: push v through "
            "the gradient; the whole Hessian is not needed."
        ]
    return []


def _product(inputs: Inputs, v: np.ndarray) -> np.ndarray:
    return oracles.hvp_jets(np, inputs["program"], inputs["values"], v)["product"]


def _diagonal(inputs: Inputs) -> np.ndarray:
    x = inputs["values"]["x"]
    found = np.zeros(x.shape, x.dtype)
    for place in np.ndindex(x.shape):
        unit = np.zeros_like(x)
        unit[place] = 1.0
        found[place] = _product(inputs, unit)[place]
    return found


def _gradient(inputs: Inputs) -> np.ndarray:
    x = inputs["values"]["x"]
    constants = {name: one for name, one in inputs["values"].items() if name != "x"}
    run, found = jets.program(inputs["program"], "x", constants), np.zeros(x.shape, x.dtype)
    for place in np.ndindex(x.shape):
        unit = np.zeros(x.shape)
        unit[place] = 1.0
        found[place] = jets.jvp(run, (x,), (unit,))[1].standard
    return found


def solve(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The right point after the right number of products."""
    if not isinstance(got, dict) or got.keys() != want.keys():
        return ["conjugate_gradient did not give an array."]
    found, calls = got["p"], got["calls"]
    mismatches = compare(found, want["p"])
    matrix, b, limit = inputs["matrix"], inputs["b"], inputs["limit"]
    if mismatches and isinstance(found, np.ndarray) and found.dtype.kind == "f" and np.isnan(found).any():
        return ["There is a NaN in p: where b is 0, or nothing is left of it, there is nothing to divide by."]
    if calls == want["calls"] and not mismatches:
        return []
    bent = float(np.linalg.eigvalsh(matrix)[0]) <= 0
    if mismatches and bent and want["calls"] <= limit:
        curved = "Where d'Hd is not positive, stop: return p as it is, or b where that was the first direction."
        if not isinstance(calls, int) or calls >= want["calls"]:
            return [f"{mismatches[0].message} H is not positive definite here. {curved}"]
    if mismatches and not bent and type(calls) is int and 1 < calls <= limit:
        for mistake, words in SOLVE_MISTAKES.items():
            if _same(found, _misled(matrix, b, calls, mistake)):
                return [words, mismatches[0].message]
    if mismatches and isinstance(calls, int) and calls == want["calls"]:
        steepest = _steepest(matrix, b, calls)
        if calls > 1 and _same(found, steepest):
            return [
                "This is gradient descent with exact steps: each direction needs a part of the one before, "
                "d = r + (r'r / old r'r) d."
            ]
        return [mismatches[0].message]
    end = f"The limit is {limit}, and it ends once |r| <= tolerance |b|."
    counted = _calls(calls, want["calls"], "of product", end)
    if counted:
        return counted
    if isinstance(calls, int) and calls < want["calls"]:
        return [
            f"It ended after {calls} products; {want['calls']} are needed until |r| <= tolerance |b|, or the limit of "
            f"{limit}."
        ]
    return [mismatches[0].message] if mismatches else ["conjugate_gradient did not give a number of products."]


SOLVE_MISTAKES = {
    "old lost": "beta is 1 throughout: r was changed before beta was computed, and the old r'r with it. Keep it in a "
    "variable.",
    "upside down": "beta is the old r'r by the new; it is the new by the old.",
    "shared": "d = r is one array under two names: r -= ... changes the direction as well. Make d a copy.",
}


def _misled(matrix: np.ndarray, b: np.ndarray, steps: int, mistake: str) -> np.ndarray:
    """Where conjugate gradients come to in so many steps with a mistake in the directions."""
    p, r, d = np.zeros_like(b), b, b
    with np.errstate(all="ignore"):
        for step in range(steps):
            moved = matrix @ d
            alpha = (r @ r) / (d @ moved)
            p, old, r = p + alpha * d, r @ r, r - alpha * moved
            new = r @ r
            beta = {"old lost": 1.0, "upside down": old / new}.get(mistake, new / old)
            d = r + beta * (r if mistake == "shared" and step == 0 else d)
    return p


def _steepest(matrix: np.ndarray, b: np.ndarray, steps: int) -> np.ndarray:
    p = np.zeros_like(b)
    for _ in range(steps):
        r = b - matrix @ p
        bend = r @ matrix @ r
        p = p + (r @ r) / bend * r if bend else p
    return p


def reverse(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The right cotangent, within the memory, from as few steps as can be."""
    if not isinstance(got, dict) or got.keys() != want.keys():
        return ["reverse_chain did not give an array."]
    mismatches, wrong = compare(got["gradient"], want["gradient"]), []
    steps, slots = len(inputs["weights"]), inputs["slots"]
    if mismatches:
        wrong.append(_chain_words(inputs, got["gradient"]) or mismatches[0].message)
    if not isinstance(got["kept"], int) or got["kept"] > slots:
        wrong.append(
            f"{_held(got['kept'])} held at once, beside x and the one in use; slots = {slots} allows "
            f"{slots}. A state is held as long as any variable, list or dict refers to it."
        )
    runs = got["runs"]
    if not wrong and (not isinstance(runs, int) or runs > want["runs"]):
        wrong.append(
            f"forward ran {str(runs)[:9]} times; {want['runs']} are enough for {steps} steps and {slots} slots. "
            + _excess(steps, slots, runs, got["last"])
        )
    if not wrong and runs < want["runs"]:
        wrong.append("forward did not run often enough for the states to have been computed.")
    return wrong


def _held(kept: Any) -> str:
    return "1 state was" if kept == 1 else f"{str(kept)[:9]} states were"


def _excess(steps: int, slots: int, runs: Any, last: Any) -> str:
    if last:
        return "The last state is never needed: backward(i, ...) takes state i."
    if runs == steps * (steps - 1) // 2 and slots:
        return "Each state was computed from x anew: keep some of them."
    if isinstance(runs, int) and runs == _once(steps, slots):
        return "Once the later part is done, its slots are free: use them again for the earlier part."
    return "Where the first state is kept matters: minimise k + cost(k, slots) + cost(n - k, slots - 1) over k."


@functools.cache
def _once(steps: int, slots: int) -> int:
    """What it takes with states kept at equal distances, and none where a slot becomes free."""
    if not slots:
        return steps * (steps - 1) // 2
    cuts = [steps * i // (slots + 1) for i in range(slots + 2)]
    parts = [stop - start for start, stop in itertools.pairwise(cuts)]
    return cuts[-2] + sum(n * (n - 1) // 2 for n in parts)


def _chain_words(inputs: Inputs, found: Any) -> str:
    weights, g, state = inputs["weights"], inputs["g"], np.array(inputs["x"])
    slopes = []
    for weight in weights:
        slopes.append(1 + weight * np.cos(state))
        state = state + weight * np.sin(state)
    plays = {
        "The cotangent g was not passed on: this is what it would be for ones.": np.prod(slopes, axis=0),
        "Step 0 was left out.": g * np.prod(slopes[1:], axis=0),
        "The last step was left out.": g * np.prod(slopes[:-1], axis=0),
        "No step was gone back through: this is g.": g,
    }
    return next((words for words, answer in plays.items() if _same(found, answer)), "")


# --- shared ---------------------------------------------------------------------------------------


def _calls(calls: Any, fewest: int, what: str, why: str) -> list[str]:
    if isinstance(calls, int) and calls <= fewest:
        return []
    return [f"It took {str(calls)[:9]} calls {what}; {fewest} are enough. {why}"]


def _same(got: Any, want: Any) -> bool:
    """Whether two arrays hold the same numbers, whatever the dtype."""
    return _numeric(got, want) and bool(np.allclose(got, want, rtol=1e-5, atol=1e-8))


def _near(got: Any, want: np.ndarray) -> bool:
    return _numeric(got, want) and bool(np.abs(got - want).max() <= 0.05 * np.abs(want).max() + 1e-6)


def _numeric(got: Any, want: Any) -> bool:
    return (
        isinstance(got, (np.ndarray, np.generic)) and got.dtype.kind == "f" and np.shape(got) == np.shape(want)
    ) and bool(np.size(got))
