"""What is wrong with an answer of ``lab03_layers``, in words.

What came is not trusted: it may be any plain data. Where numbers are wrong, the usual mistakes are played through on
the same case; if one of them gives the very numbers that came, it is named.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from autograder.compare import Mismatch, compare
from autograder.diagnose import rank
from autograder.evidence import Evidence
from autograder.spec import FLOAT32, FLOAT64, Inputs, Tolerance
from autograder.specs import _lab03_layers_rules as rules

Judge = Callable[[Inputs, Any, Any], list[str]]


def fc_judge(hints: Mapping[str, str]) -> Judge:
    def judge(inputs: Inputs, got: Any, want: Any) -> list[str]:
        if isinstance(got, dict) and got.get("changed") == "value":
            return [
                "The value of a parameter has changed. A layer adds to gradients; values are the optimizer's business."
            ]
        return _played(inputs, got, want, rules.fc, rules.FC_MISTAKES, hints)

    return judge


def pool_judge(hints: Mapping[str, str]) -> Judge:
    return lambda inputs, got, want: _played(inputs, got, want, rules.pool, rules.POOL_MISTAKES, hints)


def update_judge(hints: Mapping[str, str]) -> Judge:
    def judge(inputs: Inputs, got: Any, want: Any) -> list[str]:
        if not isinstance(got, dict) or got.keys() != want.keys():
            return ["update did not leave values, velocities and gradients behind."]
        if isinstance(got["values"], list) and len(got["values"]) != len(want["values"]):
            return [
                f"The list of parameters has changed: {len(got['values'])} of {len(want['values'])} are in it after "
                "the step. It is the optimizer's, and goes into the next step. (And to take from a list that a loop "
                "walks along makes the loop skip entries.)"
            ]
        parts = ("values", "velocities")
        wrong = _played(
            inputs,
            {name: got[name] for name in parts},
            {name: want[name] for name in parts},
            rules.update,
            rules.UPDATE_MISTAKES,
            hints,
        )
        if not wrong and compare(got["held"], want["held"]):
            wrong = [
                "The value is a new array. Threads hold the old one, and would go on computing with what was there: "
                "write into it, value -= ..."
            ]
        if not wrong and compare(got["gradients"], want["gradients"]):
            wrong = ["The gradients are not zero after the step, so the next batch would add to those of this one."]
        return wrong

    return judge


def _played(
    inputs: Inputs, got: Any, want: Any, rule: Callable[..., Any], mistakes: Mapping[str, str], hints: Mapping[str, str]
) -> list[str]:
    """What differs, after the mistake that explains it where there is one."""
    mismatches = compare(got, want)
    if not mismatches:
        return []
    named = []
    for mistake, words in mistakes.items():
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                there = rule(**inputs, mistake=mistake)
            except (ValueError, IndexError):
                continue  # it does not even run on this case
        if compare(there, want) and not _numbers_differ(got, there):
            named.append(words)
    if named:
        return [_said(mismatches[0]), " Or: ".join(named[:2])]
    kinds = rank([Evidence(inputs, want, got, mismatches)], hints)
    return [_said(mismatches[0]), *[_worded(kind.sentence) for kind in kinds]]


def _numbers_differ(got: Any, there: Any) -> bool:
    """Whether two answers differ by more than their dtypes."""
    if isinstance(there, dict):
        return not isinstance(got, dict) or any(_numbers_differ(got.get(name), one) for name, one in there.items())
    if isinstance(there, list):
        return (
            not isinstance(got, list)
            or len(got) != len(there)
            or any(_numbers_differ(one, other) for one, other in zip(got, there, strict=True))
        )
    if not isinstance(there, np.ndarray):
        return bool(got != there)
    if not isinstance(got, np.ndarray) or got.dtype.kind not in "fiu" or got.shape != there.shape:
        return True
    return not np.allclose(got, there, rtol=1e-4, atol=1e-6, equal_nan=True)


PARTS = {
    r"result\['outputs'\]\[(\d+)\]": r"the output of step \1",
    r"result\['input_gradients'\]\[(\d+)\]": r"the gradient by x of step \1",
    r"result\['(weight|bias)_gradient'\]": r"\1.gradient",
    r"result\['output'\]": "the output",
    r"result\['input_gradient'\]": "the gradient by x",
    r"result\['values'\]\[(\d+)\]": r"the value of parameter \1",
    r"result\['velocities'\]\[(\d+)\]": r"the velocity of parameter \1",
    r"result\['gradients'\]\['(\w+)'\]": r"the gradient of \1",
    r"result\['loss'\]": "the loss",
    r"result\['gradients'\]": "the dict of gradients",
}


def _said(mismatch: Mismatch) -> str:
    return _worded(mismatch.message)


def _worded(text: str) -> str:
    """The driver's names for parts of an answer, in the words of the lab."""
    for pattern, words in PARTS.items():
        place = "" if words.endswith(".gradient") else " at "  # as source, the former may be indexed
        text = re.sub(rf"`?{pattern}(\[[\d, ]+\])?`?", lambda found: _part(found, words, place), text)  # noqa: B023
    return text[:1].upper() + text[1:] if text.startswith("the ") else text


def _part(found: re.Match[str], words: str, place: str) -> str:
    *_, entry = found.groups()
    return found.expand(words) + (place + entry if entry else "")


# --- order ----------------------------------------------------------------------------------------


def order(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """Any order in which each layer follows its bottoms; or a refusal that names the culprit."""
    if got == want:
        return []  # another oracle's answer
    if not isinstance(got, dict) or not ("order" in got or "refused" in got):
        return ["order did not give a list of names."]
    verdict, names = want["verdict"], want["names"]
    if "refused" in got:
        said = str(got["refused"])
        if verdict == "order":
            return [f"A configuration that is in order was refused: {said[:200]!r}."]
        if not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said) for name in names):
            return [
                f"The refusal is right, but its message, {said[:120]!r}, does not name "
                f"{'a layer of the circle' if verdict == 'circle' else 'the layer'}: {' or '.join(map(repr, names))}. "
                "Whoever reads it wants to know where to look."
            ]
        return []
    if verdict != "order":
        why = {
            "circle": f"Layers lead in a circle ({', '.join(names)}), so none of them can be first",
            "missing": f"{names[0]!r} is read, but there is no such layer",
            "twice": f"{names[0]!r} is there twice, so what reads it can't know which is meant",
        }[verdict]
        return [f"{why}: raise a ValueError. An order came instead."]
    found = got["order"]
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        return ["order did not give a list of names."]
    wrong = _in_order(inputs, found)
    if not wrong and got.get("changed"):
        wrong = ["The configuration that was given has changed; work on a copy."]
    return wrong


def _in_order(inputs: Inputs, found: list[str]) -> list[str]:
    layers, repeat = inputs["layers"], inputs["repeat"]
    reads = {name: list(bottoms) for name, bottoms in layers}
    if repeat > 1:
        reads = {
            f"{name}/{copy}": [f"{bottom}/{copy}" for bottom in bottoms]
            for copy in range(repeat)
            for name, bottoms in layers
        }
        for copy in range(1, repeat):
            reads[f"{layers[0][0]}/{copy}"].append(f"{layers[-1][0]}/{copy - 1}")
    place = {name: i for i, name in enumerate(found)}
    if len(place) < len(found):
        again = next(name for name in found if found.count(name) > 1)
        return [f"{again!r} comes more than once; each layer runs once."]
    if set(place) != set(reads):
        lacking, extra = sorted(set(reads) - set(place)), sorted(set(place) - set(reads))
        return [
            f"{lacking[0]!r} is missing from the order: every layer belongs in it, also one that nobody reads."
            if lacking
            else f"{extra[0]!r} is no layer of this configuration."
        ]
    for name in found:
        for bottom in reads[name]:
            if place[bottom] > place[name]:
                backwards = all(place[low] > place[high] for high, lows in reads.items() for low in lows)
                return [
                    "The order is exactly reversed: layers run from the data upwards."
                    if backwards
                    else f"{name!r} comes before {bottom!r}, which it reads."
                ]
    return []


# --- machine --------------------------------------------------------------------------------------


def machine(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The mean over the whole batch, from fair shares, at once, the same whoever is first."""
    if isinstance(got, dict) and "runs" not in got:
        return [_said(one) for one in compare(got, want)]  # another oracle's answer
    runs = got.get("runs") if isinstance(got, dict) else None
    if not isinstance(runs, list) or len(runs) != 2 or not all(isinstance(run, dict) for run in runs):
        return ["forward_backward gave no loss and gradients."]
    if "raised" in want or any("raised" in run for run in runs):
        if "raised" in want and all(run.get("raised") == want["raised"] for run in runs):
            return []
        if "raised" in want:
            return [
                "One share failed, and the caller heard nothing of it: the gradients lack its rows. An error in a "
                "thread has to come out of forward_backward; future.result() raises it again."
            ]
        return [f"forward_backward raised {runs[0].get('raised') or runs[1].get('raised')}."]
    rows, threads = len(inputs["x"]), inputs["threads"]
    wrong = _shares(runs[0].get("shares"), rows, threads)
    if wrong:
        return wrong
    if not all(run.get("at_once") is True for run in runs):
        return [
            f"The {min(rows, threads)} shares did not run at once: one was waited for before the next began. Hand all "
            "of them out first, then wait."
        ]
    first, second = ({name: run.get(name) for name in ("loss", "gradients")} for run in runs)
    differ = compare(first, want, _tolerance(inputs))
    if differ:
        return _machine_words(inputs, first, runs[0]["shares"], want, differ)
    if not _bits(first, second):
        return [
            "Two runs on the same batch differ in the last digits. Sums of floating-point numbers depend on their "
            "order; here it follows which thread was ready first. Add in the order of the shares."
        ]
    return []


def _tolerance(inputs: Inputs) -> Tolerance:
    """Sums in which large numbers cancel are as exact as their largest part."""
    base = FLOAT32 if inputs["x"].dtype == np.float32 else FLOAT64
    error = np.abs(inputs["x"]) @ np.abs(inputs["weight"]) + np.abs(inputs["bias"]) + np.abs(inputs["y"])
    largest = float(np.max(np.abs(inputs["x"])) * np.max(error) + np.max(error) ** 2 + 1)
    return Tolerance(relative=base.relative, absolute=base.absolute * 0.1 * largest)


def _shares(found: Any, rows: int, threads: int) -> list[str]:
    count = min(rows, threads)
    if not isinstance(found, list) or not all(isinstance(one, list) for one in found):
        return ["The shares are not lists of rows."]
    if any(not share for share in found):
        return ["step was given an empty share, whose mean is 0 / 0. With fewer rows than threads, use fewer threads."]
    every = sorted(row for share in found for row in share)
    if every != list(range(rows)):
        lost = sorted(set(range(rows)) - set(every))
        return [
            f"Row {lost[0]} of {rows} is in no share."
            if lost
            else f"Row {next(a for a, b in pairwise(every) if a == b)} is in more than one share."
        ]
    if any(share != list(range(share[0], share[0] + len(share))) for share in found):
        return ["A share's rows are not next to each other: give each thread one stretch of the batch."]
    sizes = [len(share) for share in found]
    if len(found) != count or max(sizes) - min(sizes) > 1:
        return [
            f"{rows} rows went to {len(found)} shares of {', '.join(map(str, sizes))}. Expected {count}, whose sizes "
            "differ by one at most: the slowest share decides how long it takes."
        ]
    return []


def _machine_words(inputs: Inputs, got: Any, shares: list[Any], want: Any, differ: list[Mismatch]) -> list[str]:
    """Play ways to put the shares together."""
    parts = []
    for share in shares:
        x, y = (inputs[name][share[0] : share[-1] + 1].astype(np.float64) for name in ("x", "y"))
        error = x @ inputs["weight"] + inputs["bias"] - y
        n = len(share)
        parts.append((n, np.mean(error**2), 2 * x.T @ error / n, 2 * error.sum(axis=0) / n))
    total, count = sum(n for n, *_ in parts), len(parts)

    def put(weight: Callable[[int], float], loss: Callable[[int], float] | None = None) -> dict[str, Any]:
        def mixed(place: int, by: Callable[[int], float]) -> Any:
            return sum(by(part[0]) * part[place] for part in parts)

        gradients = {name: np.asarray(mixed(i, weight)) for i, name in ((2, "weight"), (3, "bias"))}
        return {"loss": float(mixed(1, loss or weight)), "gradients": gradients}

    right = {"loss": want["loss"], "gradients": want["gradients"]}
    plain_loss = put(lambda n: n / total, lambda n: 1 / count)
    mistakes = {
        "This is the plain mean over the shares, and a row of a small share counts for more than one of a large share. "
        "Each share's mean has to be weighted by its rows: n / total.": put(lambda n: 1 / count),
        "The means of the shares are added up without weights: as if the loss were larger with more threads.": put(
            lambda n: 1.0
        ),
        "The shares' means are weighted by their rows, but not divided by the number of all.": put(lambda n: float(n)),
        "The loss is the plain mean over the shares; weight it by the rows, as the gradients are.": plain_loss,
        "The gradients are the plain mean over the shares; weight them by the rows, as the loss is.": put(
            lambda n: 1 / count, lambda n: n / total
        ),
        "The loss is a sum over the shares; weight each by its rows.": put(lambda n: n / total, lambda n: 1.0),
        "The gradients are a sum over the shares; weight each by its rows.": put(lambda n: 1.0, lambda n: n / total),
    }
    tolerance = _tolerance(inputs)
    for words, numbers in mistakes.items():
        for_dtype = {
            "loss": numbers["loss"],
            "gradients": {
                name: one.astype(want["gradients"][name].dtype) for name, one in numbers["gradients"].items()
            },
        }
        if compare(for_dtype, right, tolerance) and not compare(got, for_dtype, tolerance):
            return [_said(differ[0]), words]
    if len(parts) > 1 and isinstance(got.get("gradients"), dict):
        for n, _, by_weight, _ in parts:
            came = got["gradients"].get("weight")
            alone = isinstance(came, np.ndarray) and came.shape == by_weight.shape
            if alone and any(np.allclose(came, by_weight * share, rtol=1e-3) for share in (1, n / total)):
                return [_said(differ[0]), "These are the gradients of one share only; those of the others are lost."]
    dtypes = (
        [one.dtype for one in got["gradients"].values() if isinstance(one, np.ndarray)]
        if isinstance(got.get("gradients"), dict)
        else []
    )
    if dtypes and inputs["x"].dtype == np.float32 and np.dtype(np.float64) in dtypes:
        return [
            _said(differ[0]),
            "The gradients have grown to float64. A Python number leaves the dtype of an array alone; a NumPy scalar, "
            "such as np.mean or an entry of an array gives, does not.",
        ]
    return [_said(one) for one in differ[:2]]


def _bits(one: Any, other: Any) -> bool:
    """Whether two answers are the same to the bit."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(_bits(one[k], other[k]) for k in one)
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)
    return bool(one == other)
