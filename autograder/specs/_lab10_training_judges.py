"""What is wrong with an answer of ``lab10_training``, in words.

What came is not trusted: it may be any plain data. Where numbers are wrong, the usual mistakes are played through on
the same case; if one of them gives the very numbers that came, it is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autograder.compare import Mismatch, compare
from autograder.spec import Inputs, Tolerance
from autograder.specs import _lab10_training_rules as rules

CLOSE = Tolerance(relative=1e-5, absolute=1e-7)
"""Of clipped gradients and step sizes: PyTorch's 1e-6 under the norm is within it, and sums in float32 are."""

SEVERAL = "One of these:"
"""Before mistakes that a case does not tell from one another."""


def sgd(inputs: Inputs, got: Any, want: Any) -> list[str]:
    def rule(**case: Any) -> dict[str, Any]:
        return rules.sgd(**case) | known

    # Without momentum nobody reads the velocity, and PyTorch keeps none.
    known = {"velocity": want["velocity"]} if inputs["momentum"] == 0 else {}
    if isinstance(got, dict) and got.keys() >= known.keys():
        got = got | known
    return _played(got, want, rule, inputs, rules.SGD_MISTAKES)


def adam(inputs: Inputs, got: Any, want: Any) -> list[str]:
    return _played(got, want, rules.adam, inputs, rules.ADAM_MISTAKES)


def adamw(inputs: Inputs, got: Any, want: Any) -> list[str]:
    return _played(got, want, rules.adam, inputs, rules.ADAMW_MISTAKES)


def limits(inputs: Inputs, got: Any, want: Any) -> list[str]:
    if inputs["what"] == "schedule":
        return _played(got, want, rules.schedule, inputs["given"], rules.SCHEDULE_MISTAKES, CLOSE)
    if isinstance(got, dict) and got.get("same") is False:
        return ["The list that was given holds other arrays now; the gradients themselves are to be scaled."]
    words = _played(got, want, rules.clip, inputs["given"], rules.CLIP_MISTAKES, CLOSE)
    if not words or words[0] in rules.CLIP_MISTAKES.values() or not isinstance(got, dict):
        return words
    if not compare(got.get("norm"), want["norm"], CLOSE):
        return words
    # The norm is wrong in a way that is not known. What was done to the gradients may be.
    scaled = _played(got | {"norm": want["norm"]}, want, rules.clip, inputs["given"], rules.CLIP_MISTAKES, CLOSE)
    if scaled and scaled[0] in rules.CLIP_MISTAKES.values():
        return [*words[:1], scaled[0]]
    if scaled and scaled[-1].startswith(SEVERAL):
        return [*words[:1], scaled[-1]]
    if not compare(got.get("gradients"), want["gradients"], CLOSE):
        return ["The gradients are right, but not what is returned: it is to be the norm before clipping.", *words[:1]]
    return words


def scaler(inputs: Inputs, got: Any, want: Any) -> list[str]:
    return _played(got, want, rules.scaler, inputs, rules.SCALER_MISTAKES)


def _played(
    got: Any,
    want: Any,
    rule: Callable[..., Any],
    inputs: Mapping[str, Any],
    mistakes: Mapping[str, str],
    tolerance: Tolerance | None = None,
) -> list[str]:
    """What differs; the mistake that explains all of it first, where there is one."""
    differ = compare(got, want, tolerance)
    if not differ:
        return []
    named = []
    for mistake, words in mistakes.items():
        with np.errstate(all="ignore"):
            there = rule(**inputs, mistake=mistake)
        if compare(there, want, tolerance) and not compare(got, there, tolerance):
            named.append(words)
    if len(named) == 1 or (named and len({words[:20] for words in named}) == 1):
        return [named[0], _said(differ[0])]
    return [_said(mismatch) for mismatch in differ[:2]] + [f"{SEVERAL} {' '.join(named)}"] * bool(named)


PLACES: dict[str, Callable[[int, int], str]] = {
    r"\['velocity'\]": lambda _, __: "At the end velocity",
    r"\['parameters'\]\[(\d+)\]": lambda step, _: f"After step {step + 1} parameter",
    r"\[(\d+)\]\[(\d+)\]": lambda step, i: f"After step {step + 1} parameters[{i}]",
    r"\['norm'\]": lambda _, __: "The norm",
    r"\['gradients'\]\[(\d+)\]": lambda i, _: f"gradients[{i}]",
    r"\['lrs'\]\[(\d+)\]": lambda i, _: f"The step size at place {i} of the list",
    r"\[(\d+)\]\['finite'\]": lambda step, _: f"In step {step} what unscale returns",
    r"\[(\d+)\]\['gradients'\]\[(\d+)\]": lambda step, i: f"In step {step} gradients[{i}]",
    r"\[(\d+)\]\['scale'\]": lambda step, _: f"After step {step} the scale",
}
"""Places in the drivers' answers, in the words of the lab."""


def _said(mismatch: Mismatch) -> str:
    """What differs, at a place that the learner knows."""
    for pattern, words in PLACES.items():
        if found := re.fullmatch(pattern, mismatch.where):
            first, second = ([int(part) for part in found.groups()] + [0, 0])[:2]
            return words(first, second) + mismatch.message.removeprefix(f"result{mismatch.where}")
    return mismatch.message


# --- batches ----------------------------------------------------------------------------------------


def batches(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """Each row once in an epoch, shuffled anew, the same for the same seed, and resumed where it was saved."""
    if got == want and "sizes" in got:
        return []  # another oracle's answer, which says of the batches only how large they are
    if not isinstance(got, dict) or not all(
        _is_batches(got.get(name)) for name in ("first", "again", "different", "resumed")
    ):
        return ["Batches did not give batches of row numbers."]
    n, batch_size, save_at = inputs["n"], inputs["batch_size"], inputs["save_at"]
    first, per_epoch = got["first"], -(-n // batch_size)
    sizes = [len(batch) for batch in first]
    if sizes != want["sizes"]:
        step = next((i for i, (one, two) in enumerate(zip(sizes, want["sizes"], strict=False)) if one != two), 0)
        return [
            f"Batch {step} has {sizes[step]} rows; expected {want['sizes'][step]}: {n} rows in batches of "
            f"{batch_size}. "
            + (
                "The last batch of an epoch has what is left."
                if want["sizes"][step] < batch_size
                else "An epoch ends with its own last row; the next batch starts a new one."
            )
        ]
    epochs = [first[i : i + per_epoch] for i in range(0, len(first), per_epoch)]
    orders = [[row for batch in epoch for row in batch] for epoch in epochs]
    wrong = []
    for number, order in enumerate(orders):
        whole = len(epochs[number]) == per_epoch
        if any(not 0 <= row < n for row in order):
            return [
                f"Epoch {number} has row {next(row for row in order if not 0 <= row < n)}, of {n} rows. If it is "
                "-1: the "
                "caller wrote into a batch it had been given, and the loader gave it out again. Hand out copies, or "
                "never use an order twice."
            ]
        if len(set(order)) < len(order) or (whole and len(order) != n):
            return [f"Epoch {number} has a row twice: {order[:20]}. Each row comes once in an epoch."]
    complete = [order for order in orders if len(order) == n]
    if n >= 7:
        if sorted(orders[0]) == orders[0] and len(orders[0]) >= 7:
            wrong.append("The rows come in their own order; they are to be shuffled.")
        elif len(complete) > 1 and complete[0] == complete[1]:
            wrong.append("Every epoch has the same order; each is to be shuffled anew.")
        elif len(first) >= per_epoch and got["different"] == first:
            wrong.append("Another seed gives the same batches: the seed has to decide the order.")
    if got["again"] != first:
        wrong.append(
            "Two loaders of the same seed give different batches. The order may depend on the seed and the epoch only, "
            "not on time, on the global generator, or on how often the state was asked for."
        )
    elif got["resumed"] != first[save_at:]:
        wrong.append(_resumed_words(got["resumed"], first, save_at, per_epoch))
    if got.get("state changed") is not False:
        wrong.append("What state_dict returned changed with the batches that came after; it is to be a copy.")
    if got.get("global drawn") is not False:
        wrong.append("NumPy's global generator was used, or seeded: others draw from it. Use np.random.default_rng.")
    return wrong


def _resumed_words(resumed: list[list[int]], first: list[list[int]], save_at: int, per_epoch: int) -> str:
    epoch_start = save_at - save_at % per_epoch
    if resumed == first[: len(resumed)]:
        return f"A loader that is resumed starts from the beginning; it was saved before batch {save_at}."
    if save_at != epoch_start and resumed == first[epoch_start : epoch_start + len(resumed)]:
        return f"A loader that is resumed starts its epoch anew; {save_at % per_epoch} batches of it had been taken."
    if resumed[: len(resumed) - 1] == first[save_at + 1 :] and len(resumed) > 1:
        return "A loader that is resumed leaves out a batch: the one it would have given next when it was saved."
    return (
        f"A loader that is resumed before batch {save_at} goes on with {resumed[:3]}; the one that was saved went "
        "on with "
        f"{first[save_at : save_at + 3]}. The one that is resumed had given a batch before: whatever next_batch reads "
        "has to be in the state, and is to be set by load_state_dict."
    )


def _is_batches(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(batch, list) and all(type(row) is int for row in batch) for batch in value
    )
