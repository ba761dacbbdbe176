"""What is wrong with an answer of ``lab10_training``, in words.

What came is not trusted: it may be any plain data. Where numbers are wrong, the usual mistakes are played through on
the same case; if one of them gives the very numbers that came, it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autograder.compare import compare
from autograder.spec import Inputs, Tolerance
from autograder.specs import _lab10_training_rules as rules

CLOSE = Tolerance(relative=1e-5, absolute=1e-7)
"""Of clipped gradients and step sizes: PyTorch's 1e-6 under the norm is within it, and sums in float32 are."""


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
    known = bool(words) and words[0] in rules.CLIP_MISTAKES.values()
    if words and not known and isinstance(got, dict) and not compare(got.get("gradients"), want["gradients"], CLOSE):
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
        return [named[0], differ[0].message]
    return [mismatch.message for mismatch in differ[:2]] + [f"One of these: {' '.join(named)}"] * bool(named)


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
        f"{first[save_at : save_at + 3]}."
    )


def _is_batches(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(batch, list) and all(type(row) is int for row in batch) for batch in value
    )
