"""What kind of wrong an answer is, in words, most likely first.

KINDS is a table: a name, which a spec's hints may refer to, and a function that returns a sentence where the kind fits.
Earlier rows are more telling than later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autograder import kinds_of_form, kinds_of_value
from autograder.evidence import Evidence

MOST = 2
"""Sentences given at a time: more would bury the right one."""


@dataclass(frozen=True)
class Diagnosis:
    """A kind of wrong, in a sentence; `example` is the place, in what `rank` was given, of the first it fits."""

    name: str
    sentence: str
    example: int = 0


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
    first: dict[str, Diagnosis] = {}
    counts: dict[str, int] = {}
    for position, evidence in enumerate(wrong):
        for found in diagnose(evidence):
            sentence = f"{found.sentence} {(hints or {}).get(found.name, '')}".strip()
            first.setdefault(found.name, Diagnosis(found.name, sentence, position))
            counts[found.name] = counts.get(found.name, 0) + 1
    order = list(KINDS)
    for name, instance in INSTANCES.items():
        # The more telling of two names for the same thing.
        if counts.get(name, 0) >= counts.get(instance, 0) and name in counts:
            counts.pop(instance, None)
    best = sorted(counts, key=lambda name: (-counts[name], order.index(name)))
    return [first[name] for name in best if counts[name] >= 0.8 * counts[best[0]]][:MOST]


KINDS: dict[str, Callable[[Evidence], str | None]] = {
    "in_place": kinds_of_form.changed_in_place,
    "alias": kinds_of_form.returned_input,
    "none": kinds_of_form.returned_none,
    "container": kinds_of_form.wrong_container,
    "off_by_one_list": kinds_of_form.off_by_one_list,
    "order": kinds_of_form.other_order,
    "count": kinds_of_form.wrong_count,
    "swapped": kinds_of_form.swapped_results,
    "of_another": kinds_of_form.result_of_another,
    "scalar": kinds_of_form.python_scalar,
    "dtype": kinds_of_form.wrong_dtype,
    "not_finite": kinds_of_value.not_finite,
    "not_summed": kinds_of_form.not_summed,
    "keepdims": kinds_of_form.lost_axes,
    "transposed": kinds_of_form.transposed,
    "sign": kinds_of_value.only_sign,
    "replaced": kinds_of_value.contributions,
    "cotangent_unchanged": kinds_of_value.cotangent_unchanged,
    "cotangent_ignored": kinds_of_value.cotangent_ignored,
    "averaged": kinds_of_value.averaged,
    "off_by_one": kinds_of_value.off_by_one,
    "factor": kinds_of_value.constant_factor,
    "wrong_axis": kinds_of_value.wrong_axis,
    "reversed": kinds_of_value.reversed_entries,
    "constant": kinds_of_value.all_one_value,
    "precision": kinds_of_value.imprecise,
    "entries": kinds_of_value.which_entries,
    "shape": kinds_of_form.other_shape,
}

INSTANCES = {
    "averaged": "factor",
    "sign": "factor",
    "keepdims": "wrong_axis",
    "replaced": "cotangent_unchanged",
    "off_by_one": "shape",
    "wrong_axis": "shape",
}
"""A kind, and the wider kind that it is an instance of: the wider one adds nothing to it."""
