"""What kind of wrong an answer is, in words, most likely first.

KINDS is a table: each row is a name, which a spec's hints may refer to, and a function that returns a sentence where
the row applies and None where it doesn't. Earlier rows are more telling than later ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autograder.compare import compare, describe
from autograder.evidence import COTANGENTS, Evidence, summed_to

MOST = 2
"""Sentences given at a time: more would bury the right one."""


@dataclass(frozen=True)
class Diagnosis:
    name: str
    sentence: str


def diagnose(evidence: Evidence) -> list[Diagnosis]:
    """Every kind of wrong that fits the evidence, in the order of the table."""
    found = []
    for name, look in KINDS.items():
        with np.errstate(all="ignore"):
            sentence = look(evidence)
        if sentence:
            found.append(Diagnosis(name, sentence))
    return found


def rank(wrong: Sequence[Evidence], hints: Mapping[str, str] | None = None) -> list[Diagnosis]:
    """What fits the wrong answers best: a kind that explains more of them comes first.

    One entry that is wrong fits many kinds by accident; a dozen cases rarely do. The sentence is that of the first
    answer the kind fits, with the spec's hint appended where it has one.
    """
    sentences: dict[str, str] = {}
    counts: dict[str, int] = {}
    for evidence in wrong:
        for diagnosis in diagnose(evidence):
            sentences.setdefault(diagnosis.name, diagnosis.sentence)
            counts[diagnosis.name] = counts.get(diagnosis.name, 0) + 1
    order = list(KINDS)
    best = sorted(counts, key=lambda name: (-counts[name], order.index(name)))
    likely = [name for name in best if 2 * counts[name] >= counts[best[0]]][:MOST]
    return [Diagnosis(name, f"{sentences[name]} {(hints or {}).get(name, '')}".strip()) for name in likely]


def part(evidence: Evidence) -> str:
    where = evidence.first.where
    return f"result{where}" if where else "the result"


def changed_in_place(e: Evidence) -> str | None:
    if e.changed:
        return f"The call changed {' and '.join(e.changed)}, which it was only given to read. Work on a copy, or use x = x + y in place of x += y."
    return None


def returned_input(e: Evidence) -> str | None:
    if e.aliased:
        return f"The result is the very array that came in as {' and '.join(e.aliased)}; a later change to one changes the other. Return a new array."
    return None


def returned_none(e: Evidence) -> str | None:
    if e.first.kind == "none":
        return f"{part(e).capitalize()} is None: a `return` is missing, or one path through the function has none."
    return None


def wrong_container(e: Evidence) -> str | None:
    got, want = e.first.got, e.first.want
    if e.first.kind != "container":
        return None
    if isinstance(got, (list, tuple)) and isinstance(want, (list, tuple)):
        return f"A {type(got).__name__} came where a {type(want).__name__} is asked for."
    if isinstance(got, (list, tuple)) and isinstance(want, np.ndarray):
        return f"A {type(got).__name__} came where an array is asked for; np.array(...) makes one."
    if isinstance(got, np.ndarray):
        return f"One array came where a {type(want).__name__} of {len(want)} is asked for; was something left out of the `return`?"
    return f"{describe(got).capitalize()} came where {describe(want)} is asked for."


def wrong_count(e: Evidence) -> str | None:
    if e.first.kind != "length":
        return None
    got, want = len(e.first.got), len(e.first.want)
    if off_by_one_list(e):
        return None
    return f"{got} result{'s' * (got != 1)} came; {want} are asked for."


def off_by_one_list(e: Evidence) -> str | None:
    got, want = e.first.got, e.first.want
    if e.first.kind != "length" or len(want) < 3 or abs(len(got) - len(want)) != 1:
        return None
    short, long = sorted((list(got), list(want)), key=len)
    for name, rest in (("first", long[1:]), ("last", long[:-1])):
        if not compare(short, rest):
            return f"Off by one: the {name} entry is {'missing' if len(got) < len(want) else 'one too many'}."
    return None


def python_scalar(e: Evidence) -> str | None:
    if e.first.kind == "scalar":
        return f"{describe(e.first.got).capitalize()} came where an array is asked for; float(...), .item() or a Python sum() loses shape and dtype."
    return None


def wrong_dtype(e: Evidence) -> str | None:
    if e.first.kind != "dtype":
        return None
    got, want = e.first.got.dtype, e.first.want.dtype
    if got.kind == "f" and want.kind == "f" and got.itemsize > want.itemsize:
        return f"The dtype grew from {want} to {got}: np.zeros and np.ones make float64 unless told dtype=..., and np.float64 constants spread."
    if got.kind == "f" and want.kind == "f":
        return f"The dtype shrank from {want} to {got}: digits are lost on the way."
    if got.kind in "iu" and want.kind == "f":
        return f"Whole numbers ({got}) came where {want} is asked for: something is cut to integers on the way."
    return f"The dtype is {got}; {want} is asked for."


def swapped_results(e: Evidence) -> str | None:
    if not (
        isinstance(e.want, (list, tuple)) and isinstance(e.got, (list, tuple)) and 2 <= len(e.want) == len(e.got) <= 4
    ):
        return None
    for order in itertools.permutations(range(len(e.want))):
        if order != tuple(range(len(e.want))) and not compare(
            type(e.want)(e.got[place] for place in order), e.want, e.tolerance
        ):
            return "The results are right but in another order: each belongs to the input at its own place (first dx, then dy)."
    return None


def other_order(e: Evidence) -> str | None:
    got, want = e.got, e.want
    if not (isinstance(got, (list, tuple)) and isinstance(want, (list, tuple)) and len(want) > 1):
        return None
    if not all(isinstance(entry, (int, str)) for entry in [*got, *want]):
        return None
    if len(set(got)) < len(got) and set(got) <= set(want):
        twice = next(entry for entry in got if list(got).count(entry) > 1)
        return f"{twice!r} comes more than once; remember what has been visited."
    if list(got) == list(want)[::-1]:
        return "The order is exactly reversed."
    if len(got) == len(want) and set(got) == set(want):
        return "The right entries, in an order that is not allowed: something comes before what must precede it."
    if set(got) < set(want):
        return f"{len(set(want) - set(got))} of {len(set(want))} entries are missing, among them {sorted(set(want) - set(got), key=str)[0]!r}."
    return None


def not_summed(e: Evidence) -> str | None:
    if e.pair is None or e.first.kind != "shape":
        return None
    got, want = e.pair
    total = summed_to(got, want.shape)
    if total is not None and got.size > want.size and e.close(total, want):
        return f"Broadcasting is not undone: {part(e)} still has shape {got.shape}. Sum it over the axes that were stretched, down to {want.shape}."
    return None


def averaged(e: Evidence) -> str | None:
    if e.pair is None or e.cotangent is None:
        return None
    got, want = e.pair
    times = e.cotangent.size // max(1, want.size)
    if times > 1 and e.close(got * times, want):
        return f"{part(e).capitalize()} is averaged over the stretched axes where it should be summed: it is 1/{times} of what it should be."
    return None


def lost_axes(e: Evidence) -> str | None:
    if e.pair is None or e.first.kind != "shape":
        return None
    got, want = e.pair
    squeezed = [size for size in got.shape if size != 1] == [size for size in want.shape if size != 1]
    if squeezed and e.close(got.reshape(want.shape), want):
        what = "lost" if got.ndim < want.ndim else "gained" if got.ndim > want.ndim else "moved"
        return f"The numbers are right, but an axis of size 1 is {what}: {got.shape} came, {want.shape} is asked for. See keepdims=True, or reshape at the end."
    return None


def transposed(e: Evidence) -> str | None:
    if e.pair is None:
        return None
    got, want = e.pair
    if want.ndim < 2 or got.ndim != want.ndim:
        return None
    if e.close(np.swapaxes(got, -1, -2), want):
        return f"{part(e).capitalize()} is transposed."
    for order in itertools.permutations(range(want.ndim)) if want.ndim <= 4 else ():
        if order != tuple(range(want.ndim)) and e.close(got.transpose(order), want):
            return f"{part(e).capitalize()} has its axes in another order: transpose{order} would put them right."
    return None


def wrong_axis(e: Evidence) -> str | None:
    """Summed, but over other axes than were stretched."""
    if e.pair is None or e.ask is None or len(e.arrays) < 2:
        return None
    got, want = e.pair
    same = {name: value for name, value in e.inputs.items() if isinstance(value, np.ndarray)}
    try:
        full_shape = np.broadcast_shapes(*(value.shape for value in same.values()))
    except ValueError:
        return None
    if full_shape == want.shape or got.size > math.prod(full_shape):
        return None
    full = e.instead("stretched", **{name: np.broadcast_to(value, full_shape) for name, value in same.items()})
    if not isinstance(full, np.ndarray):
        return None
    for length in range(1, full.ndim + 1):
        for axes in itertools.combinations(range(full.ndim), length):
            for keep in (True, False):
                for name, reduced in (
                    ("summed", full.sum(axis=axes, keepdims=keep)),
                    ("averaged", full.mean(axis=axes, keepdims=keep)),
                ):
                    if e.close(got, reduced):
                        return f"{part(e).capitalize()} is {name} over axis {', '.join(map(str, axes))} of {full.shape}; it should be summed down to {want.shape}."
    return None


def only_sign(e: Evidence) -> str | None:
    if e.pair is None:
        return None
    got, want = e.pair
    if want.dtype.kind in "bu" or got.dtype.kind in "bu":
        return None
    if e.close(-got, want):
        return f"The sign of {part(e)} is wrong."
    if e.close(np.abs(got), np.abs(want)):
        return f"Some entries of {part(e)} have the wrong sign."
    return None


def constant_factor(e: Evidence) -> str | None:
    if e.pair is None or e.first.kind not in ("value", "dtype"):
        return None
    got, want = (array.astype(complex if array.dtype.kind == "c" else float) for array in e.pair)
    if got.shape != want.shape or not np.abs(want).max() > 0:
        return None
    big = np.unravel_index(int(np.abs(want).argmax()), want.shape)
    factor = (got[big] / want[big]).real
    if factor == 0 or not math.isfinite(factor) or not e.close(got / factor, want.astype(e.pair[1].dtype)):
        return None
    if abs(factor - 1) < 1e-3:
        return None
    word, reason = name_factor(factor, e)
    return f"{part(e).capitalize()} is {word} times what it should be{reason}."


def name_factor(factor: float, e: Evidence) -> tuple[str, str]:
    """A factor in words, and what in the inputs has that size."""
    for value, word, reason in (
        (2, "2", ": is something counted twice, or a 1/2 left out?"),
        (0.5, "1/2", ": is one of two equal contributions lost?"),
    ):
        if math.isclose(factor, value, rel_tol=1e-3):
            return word, reason
    sizes: dict[int, str] = {}
    for name, array in e.arrays.items():
        if array.ndim:
            sizes.setdefault(array.shape[0], f"the first axis of {name} (the batch size, where there is one)")
        sizes.setdefault(array.size, f"the number of entries of {name}")
        for axis, size in enumerate(array.shape):
            sizes.setdefault(size, f"axis {axis} of {name}")
    for size, what in sizes.items():
        if size > 1 and math.isclose(factor, size, rel_tol=1e-3):
            return str(size), f"; {size} is {what}"
        if size > 1 and math.isclose(factor * size, 1, rel_tol=1e-3):
            return f"1/{size}", f"; {size} is {what}"
    whole = round(1 / factor) if abs(factor) < 1 else 0
    if whole and math.isclose(factor * whole, 1, rel_tol=1e-6):
        return f"1/{whole}", ""
    return f"{factor:.4g}", ""


def cotangent_ignored(e: Evidence) -> str | None:
    if e.pair is None or e.cotangent is None:
        return None
    got, _ = e.pair
    name = next(name for name in COTANGENTS if name in e.inputs)
    for label, filled in (("ones", np.ones_like(e.cotangent)), ("zeros", np.zeros_like(e.cotangent))):
        other = e.instead(label, **{name: filled})
        if isinstance(other, (np.ndarray, np.generic)) and e.close(got, other):
            if label == "ones":
                return f"{part(e).capitalize()} is what it would be if `{name}` were all ones: the cotangent is not multiplied in."
            return f"{part(e).capitalize()} is zero whatever `{name}` is: nothing flows back."
    return None


def cotangent_unchanged(e: Evidence) -> str | None:
    if e.pair is None:
        return None
    got, _ = e.pair
    if e.cotangent is not None and e.close(got, e.cotangent):
        return "The cotangent is returned unchanged: the local derivative is missing."
    for name, array in e.arrays.items():
        if got.size > 1 and e.close(got, array):
            return f"{part(e).capitalize()} equals the input {name}, unchanged."
    return None


def contributions(e: Evidence) -> str | None:
    """A sum of two inputs, of which one is lost, or comes twice."""
    if e.pair is None:
        return None
    got, want = e.pair
    for (name, a), (other, b) in itertools.permutations(list(e.arrays.items())[:12], 2):
        if a.shape != want.shape or b.shape != want.shape or not e.close(a + b, want):
            continue
        if e.close(got, b):
            return f"Only {other} is kept: it replaces {name} where it should be added to it."
        if e.close(got, a + b + b):
            return f"{other} is counted twice."
    return None


def off_by_one(e: Evidence) -> str | None:
    if e.pair is None:
        return None
    got, want = e.pair
    if got.shape != want.shape:
        differ = (
            [axis for axis in range(want.ndim) if got.shape[axis] != want.shape[axis]] if got.ndim == want.ndim else []
        )
        if len(differ) == 1 and abs(got.shape[differ[0]] - want.shape[differ[0]]) == 1:
            return f"Off by one: axis {differ[0]} has {got.shape[differ[0]]} entries where {want.shape[differ[0]]} are asked for."
        return None
    if (
        want.dtype.kind in "iu"
        and got.dtype.kind in "iu"
        and (np.abs(got.astype(object) - want.astype(object)) == 1).all()
    ):
        return f"Off by one: every entry is {'1 too large' if (got > want).all() else '1 too small' if (got < want).all() else 'one off'}."
    for axis in range(want.ndim):
        if want.shape[axis] >= 3:
            one, other = np.moveaxis(got, axis, 0), np.moveaxis(want, axis, 0)
            if e.close(one[1:], other[:-1]) or e.close(one[:-1], other[1:]):
                return f"Off by one: the entries are shifted by one place along axis {axis}."
    return None


def reversed_entries(e: Evidence) -> str | None:
    if e.pair is None or e.pair[0].shape != e.pair[1].shape:
        return None
    for axis in range(e.pair[1].ndim):
        if e.close(np.flip(e.pair[0], axis), e.pair[1]):
            return f"The entries run backwards along axis {axis}."
    return None


def not_finite(e: Evidence) -> str | None:
    if e.first.kind not in ("nan", "inf"):
        return None
    got, want = np.asarray(e.first.got), np.asarray(e.first.want)
    if e.first.kind == "nan" and np.isnan(got).sum() > np.isnan(want).sum():
        return "NaN comes out where a number is expected: 0/0, inf - inf, 0 * inf, or the mean of nothing."
    if e.first.kind == "nan":
        return "NaN is expected and something else comes out: a NaN in the input must not disappear."
    if np.isinf(got).sum() > np.isinf(want).sum():
        return "An infinity comes out where a number is expected: a division by zero, or an exp or a square that overflows."
    return "An infinity is missing, or has the other sign."


def all_one_value(e: Evidence) -> str | None:
    if e.pair is None or e.pair[0].size < 2:
        return None
    got, want = e.pair
    if got.shape == want.shape and (got == got.flat[0]).all() and not (want == want.flat[0]).all():
        return f"Every entry of {part(e)} is {got.flat[0]:.6g}: it does not depend on the inputs entry by entry."
    return None


def imprecise(e: Evidence) -> str | None:
    if e.pair is None or e.first.kind != "value":
        return None
    got, want = e.pair
    if (
        want.dtype.kind == "f"
        and got.shape == want.shape
        and np.allclose(got, want, rtol=1e-2, atol=1e-3 * float(np.abs(want).max()))
    ):
        return "Nearly right: digits are lost on the way, as by a smaller dtype, a subtraction of nearly equal numbers, or too coarse a step."
    return None


def which_entries(e: Evidence) -> str | None:
    if e.pair is None or e.first.kind != "value" or e.pair[0].shape != e.pair[1].shape:
        return None
    got, want = e.pair
    wrong = ~np.isclose(got, want, rtol=1e-4, atol=1e-6)
    if not wrong.any() or wrong.all():
        return None
    for axis in range(wrong.ndim):
        hit = wrong.any(axis=tuple(other for other in range(wrong.ndim) if other != axis))
        if hit.size > 2 and hit.sum() == 1 and (hit[0] or hit[-1]):
            return f"Only the {'first' if hit[0] else 'last'} place along axis {axis} is wrong."
    return None


KINDS: dict[str, Callable[[Evidence], str | None]] = {
    "in_place": changed_in_place,
    "alias": returned_input,
    "none": returned_none,
    "container": wrong_container,
    "off_by_one_list": off_by_one_list,
    "order": other_order,
    "count": wrong_count,
    "swapped": swapped_results,
    "scalar": python_scalar,
    "dtype": wrong_dtype,
    "not_finite": not_finite,
    "not_summed": not_summed,
    "keepdims": lost_axes,
    "transposed": transposed,
    "sign": only_sign,
    "replaced": contributions,
    "cotangent_unchanged": cotangent_unchanged,
    "cotangent_ignored": cotangent_ignored,
    "averaged": averaged,
    "off_by_one": off_by_one,
    "factor": constant_factor,
    "wrong_axis": wrong_axis,
    "reversed": reversed_entries,
    "constant": all_one_value,
    "precision": imprecise,
    "entries": which_entries,
}
