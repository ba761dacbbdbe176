"""Kinds of wrong that show in what an answer is made of: its types, counts, order, dtype, shape, axes.

Each function is a row of `diagnose.KINDS`: a sentence where the kind fits the evidence, None where it doesn't.
"""

from __future__ import annotations

import itertools

import numpy as np

from autograder.compare import compare, describe
from autograder.evidence import Evidence, is_numeric, part, summed_to, within


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def changed_in_place(e: Evidence) -> str | None:
    if e.changed:
        return (
            f"The call changed {' and '.join(e.changed)}, which it was only given to read. Work on a copy, or use "
            "x = x + y in place of x += y."
        )
    return None


def returned_input(e: Evidence) -> str | None:
    if e.aliased:
        return (
            f"The result is the very array that came in as {' and '.join(e.aliased)}; a later change to one "
            "changes the other. Return a new array."
        )
    return None


def returned_none(e: Evidence) -> str | None:
    if e.first.kind == "none":
        return f"{part(e)} is None: a `return` is missing, or one path through the function has none."
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
        return (
            f"One array came where a {type(want).__name__} of {len(want)} is asked for; was something left out of "
            "the `return`?"
        )
    return f"{capital(describe(got))} came where {describe(want)} is asked for."


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
        return (
            f"{capital(describe(e.first.got))} came where an array is asked for; float(...), .item() or a Python "
            "sum() loses shape and dtype."
        )
    return None


def wrong_dtype(e: Evidence) -> str | None:
    if e.first.kind != "dtype":
        return None
    got, want = e.first.got.dtype, e.first.want.dtype
    if got.newbyteorder("=") == want.newbyteorder("="):
        return f"The bytes of each number stand in the other order: {got} came, and {want} is this machine's own."
    if got.kind == "f" and want.kind == "f" and got.itemsize > want.itemsize:
        return (
            f"The dtype grew from {want} to {got}: np.zeros and np.ones make float64 unless told dtype=..., and "
            "np.float64 constants spread."
        )
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
            return (
                "The results are right but in another order: each belongs to the input at its own place (first "
                "dx, then dy)."
            )
    return None


def result_of_another(e: Evidence) -> str | None:
    """One of several results is what another should be: a rule written twice for one input."""
    if not (isinstance(e.want, (list, tuple)) and isinstance(e.got, (list, tuple)) and len(e.want) == len(e.got)):
        return None
    for place, (got, want) in enumerate(zip(e.got, e.want, strict=True)):
        if not (is_numeric(got) and is_numeric(want)) or e.close(got, want):
            continue
        for other, theirs in enumerate(e.want):
            if other != place and is_numeric(theirs) and np.any(np.asarray(theirs)) and e.close(got, theirs):
                return f"result[{place}] is what result[{other}] should be: each input has a rule of its own."
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
        return (
            f"{len(set(want) - set(got))} of {len(set(want))} entries are missing, among them "
            f"{sorted(set(want) - set(got), key=str)[0]!r}."
        )
    return None


def not_summed(e: Evidence) -> str | None:
    if e.pair is None or e.first.kind != "shape":
        return None
    got, want = e.pair
    total = summed_to(got, want.shape)
    larger = (got.size, got.ndim) > (want.size, want.ndim)
    if total is not None and larger and e.close(total, want):
        return (
            f"Broadcasting is not undone: {within(e)} still has shape {got.shape}. Sum it over the axes that were "
            f"stretched, down to {want.shape}."
        )
    return None


def lost_axes(e: Evidence) -> str | None:
    if e.pair is None or e.first.kind != "shape":
        return None
    got, want = e.pair
    squeezed = [size for size in got.shape if size != 1] == [size for size in want.shape if size != 1]
    if squeezed and e.close(got.reshape(want.shape), want):
        what = "lost" if got.ndim < want.ndim else "gained" if got.ndim > want.ndim else "moved"
        return (
            f"The numbers are right, but an axis of size 1 is {what}: {got.shape} came, {want.shape} is asked for. "
            "See keepdims=True, or reshape at the end."
        )
    return None


def other_shape(e: Evidence) -> str | None:
    """A shape that no better-known mistake explains."""
    if e.first.kind != "shape" or not_summed(e) or lost_axes(e) or transposed(e):
        return None
    return f"The shape of {within(e)} is wrong before any number is: print it where the array is made."


def transposed(e: Evidence) -> str | None:
    if e.pair is None:
        return None
    got, want = e.pair
    if want.ndim < 2 or got.ndim != want.ndim:
        return None
    if e.close(np.swapaxes(got, -1, -2), want):
        return f"{part(e)} is transposed."
    for order in itertools.permutations(range(want.ndim)) if want.ndim <= 4 else ():
        if order != tuple(range(want.ndim)) and e.close(got.transpose(order), want):
            return f"{part(e)} has its axes in another order: transpose{order} would put them right."
    return None
