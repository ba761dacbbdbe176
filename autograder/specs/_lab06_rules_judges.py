"""What is wrong with an answer of ``lab06_rules``, in words: the usual mistakes are played through on the same case.

If a mistake gives the very numbers that came, it is named; else the general diagnosis is asked. What came is not
trusted: it may be any plain data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from autograder.compare import Mismatch, compare
from autograder.diagnose import rank
from autograder.evidence import Evidence
from autograder.spec import Inputs
from autograder.specs._lab06_rules_mistakes import MISTAKES, Mistake, max_shared

Judge = Callable[[Inputs, Any, Any], list[str]]


def judge_of(task: str, parts: Sequence[str] = (), hints: Mapping[str, str] | None = None) -> Judge:
    """A judge that compares, and explains by the mistakes of `task`.

    Parameters
    ----------
    task : str
        A key of MISTAKES.
    parts : sequence of str
        What the entries of the answer are called; none where it is one array.
    hints : mapping, optional
        More words for a general diagnosis, as in `Task.hints`.
    """

    def judge(inputs: Inputs, got: Any, want: Any) -> list[str]:
        mismatches = compare(got, want)
        if not mismatches:
            return []
        named = [_named(mismatch.message, parts) for mismatch in mismatches[:1]]
        played = _played(MISTAKES[task], inputs, got, want, parts)
        return named + (played or _in_general(inputs, got, want, mismatches, parts, hints))

    return judge


def max_judge(hints: Mapping[str, str]) -> Judge:
    """Two conventions are right at a tie: all to the first of the entries (`want`), or evenly shared."""
    to_first = judge_of("max", hints=hints)

    def judge(inputs: Inputs, got: Any, want: Any) -> list[str]:
        faults = to_first(inputs, got, want)
        shared = max_shared(inputs)
        if not faults or not compare(got, shared):
            return []
        if compare(want, shared):
            faults[0] += " (Where entries tie, an even share is as good as all to the first.)"
        return faults

    return judge


def _played(
    mistakes: Callable[[Inputs], Iterator[Mistake]], inputs: Inputs, got: Any, want: Any, parts: Sequence[str]
) -> list[str]:
    """A sentence for each mistake that explains some part of the answer, with the parts it explains."""
    found: dict[int, list[str]] = {}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing, in a mistake that does not fit
        for place, words, make in mistakes(inputs):
            came, due = (got[place], want[place]) if parts else (got, want)
            if _same(came, due):
                continue
            try:
                wrong = make()
            except (ValueError, IndexError):
                continue  # this mistake does not even run on this case
            if _same(came, wrong) and not _same(wrong, due) and words not in found.get(place, []):
                found.setdefault(place, []).append(words)
    concerned: dict[str, list[str]] = {}
    for place, sentences in sorted(found.items()):
        concerned.setdefault(" Or: ".join(sentences[:2]), []).append(parts[place] if parts else "")
    return [f"{' and '.join(names)}: {words}" if parts else words for words, names in concerned.items()]


def _in_general(
    inputs: Inputs,
    got: Any,
    want: Any,
    mismatches: list[Mismatch],
    parts: Sequence[str],
    hints: Mapping[str, str] | None,
) -> list[str]:
    return [_named(kind.sentence, parts) for kind in rank([Evidence(inputs, want, got, mismatches)], hints)]


def _named(sentence: str, parts: Sequence[str]) -> str:
    for place, name in enumerate(parts):
        sentence = sentence.replace(f"result[{place}]", name)
    return sentence


def _same(came: Any, wrong: Any) -> bool:
    """Whether these are the same numbers, whatever the dtype."""
    if not isinstance(came, (np.ndarray, np.generic)) or came.dtype.kind not in "iuf":
        return False
    return np.shape(came) == np.shape(wrong) and np.allclose(came, wrong, rtol=1e-4, atol=1e-6, equal_nan=True)
