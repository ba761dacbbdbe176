"""What is wrong with a server of ``lab13_parameter_server`` that a job was run on, in words.

Its answer has a record of what happened there, in order. It is followed with a server that is right, to say where the
learner's went another way; right or wrong is settled by what the trainers got and by what became of the weights.
What came is not trusted: it may be any plain data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.spec import Inputs
from autograder.specs._lab13_parameter_server_cases import death
from autograder.specs._lab13_parameter_server_words import listed, near, numbers
from autograder.specs._ranks import not_returned


def _record(got: Any) -> list[list[Any]]:
    """What happened at the server, also where it then waited in vain."""
    server = got["ranks"][0]
    found = server["value"]["log"] if "value" in server else server.get("note") or []
    return [entry for entry in found if isinstance(entry, list) and len(entry) == 4]


# --- barrier --------------------------------------------------------------------------------------


def barrier(inputs: Inputs, got: Any, want: Any) -> list[str]:
    trainers = len(inputs["slopes"])
    ranks, victim = got["ranks"], death(inputs)[0]
    told = _barrier_followed(inputs, _record(got))
    stopped = _not_ended(ranks, trainers, victim)
    if stopped:
        return told + stopped
    pulled = {trainer: ranks[trainer + 1]["value"] for trainer in range(trainers) if trainer != victim}
    for trainer, found in pulled.items():
        if len(found) != inputs["steps"]:
            return [f"Trainer {trainer} has weights for {len(found)} of {inputs['steps']} steps."]
        for step, (one, right) in enumerate(zip(found, want["pulled"], strict=True)):
            if not near(one, right):
                return told or [
                    f"For step {step}, trainer {trainer} got the weights {numbers(one)}; expected {numbers(right)}, "
                    f"which hold {step} averaged updates."
                ]
    if not near(ranks[0]["value"]["weights"], want["weights"]):
        return told or [
            f"At the end the weights are {numbers(ranks[0]['value']['weights'])}; expected {numbers(want['weights'])}."
        ]
    return told


def _not_ended(ranks: Any, trainers: int, victim: int) -> list[str]:
    if not isinstance(ranks, list) or len(ranks) != trainers + 1:
        return ["There is no answer of the server and each of the trainers."]
    if victim >= 0 and "killed" not in ranks[victim + 1]:
        return [f"Trainer {victim} was to be killed, but the job went another way before that.", *_stuck(ranks)]
    ended = ["value" in one for rank, one in enumerate(ranks) if victim < 0 or rank != victim + 1]
    return [] if all(ended) else _stuck(ranks)


def _stuck(ranks: Any) -> list[str]:
    waiting = [rank - 1 for rank, one in enumerate(ranks) if rank and "waits" in one]
    if waiting and "waits" in ranks[0]:
        return [f"Nobody goes on: {listed(waiting)} asked for weights, and pull gives None for ever."]
    return [sentence for sentence in not_returned(ranks, len(ranks)) if "was killed" not in sentence]


class _Round:
    """A barrier that is right."""

    def __init__(self, inputs: Inputs) -> None:
        self.alive = set(range(len(inputs["slopes"])))
        self.version = 0
        self.came: set[int] = set()

    def happened(self, do: str, trainer: int, step: int) -> set[int] | None:
        """The trainers whose gradients are averaged now, or None."""
        if do == "push" and step == self.version:
            self.came.add(trainer)
        elif do == "lost":
            self.alive.discard(trainer)
        if self.came and self.came >= self.alive:
            together, self.came = self.came, set()
            self.version += 1
            return together
        return None


def _barrier_followed(inputs: Inputs, record: list[list[Any]]) -> list[str]:
    """Where the weights moved when they should not have, did not when they should, or moved too far."""
    right, weights, taken = _Round(inputs), np.asarray(inputs["weights"], float), set()
    slopes, targets = np.array(inputs["slopes"]), np.array(inputs["targets"])
    for do, trainer, step, said in record:
        if do == "begin":
            if not near(said, weights):
                return ["The server does not start with the weights that it is given."]
            continue
        if do == "ask":
            open_ = step <= right.version
            if bool(said) != open_:
                return [_asked(trainer, step, right, open_)]
            continue
        again = do == "push" and (trainer, step) in taken
        came, alive = set(right.came), set(right.alive)
        together = right.happened(do, trainer, step)
        if do == "push":
            taken.add((trainer, step))
        moved = np.asarray(said, float)
        size = 0 if together is None else len(together)
        sum_ = sum((slopes[one] * (weights - targets[one]) for one in sorted(together or ())), np.zeros_like(weights))
        expected = weights - inputs["lr"] * sum_ / max(size, 1)
        if not near(moved, expected):
            return [_moved_wrong(inputs, (do, trainer, step, again), (weights, moved, sum_), (came, alive, together))]
        weights = expected
    return []


def _asked(trainer: int, step: int, right: _Round, open_: bool) -> str:
    if open_:
        return (
            f"Trainer {trainer} asks for the weights for step {step}, all of round {step - 1} have come, and pull "
            "gives None."
            if step
            else f"Trainer {trainer} asks for step 0, and pull gives None: these weights are there from the start."
        )
    missing = right.alive - right.came
    return (
        f"Trainer {trainer} was given weights for step {step}, while {listed(missing)} had not pushed for step "
        f"{right.version} yet. The barrier opens when all have."
    )


def _moved_wrong(
    inputs: Inputs,
    event: tuple[str, int, int, bool],
    values: tuple[np.ndarray, np.ndarray, np.ndarray],
    sets: tuple[set[int], set[int], set[int] | None],
) -> str:
    do, trainer, step, again = event
    weights, moved, total = values
    came, alive, together = sets
    if together is None:
        if again:
            return (
                f"Trainer {trainer} pushed for step {step} twice, as after a lost answer, and the weights moved at "
                "the second "
                "push: it counts once."
            )
        if do == "lost":
            return (
                f"The weights moved when trainer {trainer} was lost; {listed(alive - came - {trainer})} still had "
                "to push."
            )
        missing = alive - came - {trainer}
        if missing:
            return (
                f"The weights moved when {listed(came | {trainer})} had pushed for step {step}; {listed(missing)} "
                "had not. "
                "An update waits until all have."
            )
        return f"The weights moved at a push of trainer {trainer} for step {step}, a round that was over."
    size, lr = len(together), inputs["lr"]
    who = f"{listed(together)} had pushed for step {step}" if do == "push" else f"trainer {trainer} was lost"
    if near(moved, weights):
        if do == "lost":
            return (
                f"When trainer {trainer} was lost, all others had pushed: the round is complete then, and nobody "
                "else will "
                "come to complete it. The weights have to move in lost()."
            )
        return f"When {who}, the round was complete, and the weights did not move."
    if size > 1 and near(moved, weights - lr * total):
        return f"When {who}, the weights moved by the sum of the gradients; expected their average."
    if size > 1 and near(moved, weights - lr * total / size**2):
        return f"When {who}, the average was divided by the number of trainers once more: average once."
    whole = len(inputs["slopes"])
    if size != whole and near(moved, weights - lr * total / whole):
        return (
            f"The sum of {size} gradients was divided by {whole}, but one trainer is gone: the average is over "
            "those that came."
        )
    if near(moved, weights + lr * total / size):
        return "The weights moved up the gradient; a step goes down."
    slopes, targets = np.array(inputs["slopes"]), np.array(inputs["targets"])
    for one in sorted(together):
        own = slopes[one] * (weights - targets[one])
        rest = max(size - 1, 1)
        if size > 1 and (
            near(moved, weights - lr * (total - own) / rest) or near(moved, weights - lr * (total - own) / size)
        ):
            return f"When {who}, the gradient of trainer {one}, which had come, was not in the average."
        if near(moved, weights - lr * (total + own) / (size + 1)) or near(moved, weights - lr * (total + own) / size):
            return (
                f"When {who}, the gradient of trainer {one} was counted twice: a push that comes again, for the "
                "same step, "
                "is the same push."
            )
        if near(moved, weights - lr * own):
            return f"When {who}, only the gradient of trainer {one} was applied; expected the average of all that came."
    return (
        f"When {who}, the weights went from {numbers(weights)} to {numbers(moved)}; expected "
        f"{numbers(weights - lr * total / size)}."
    )


# --- staleness ------------------------------------------------------------------------------------


def staleness(inputs: Inputs, got: Any, want: Any) -> list[str]:
    moves = np.array(inputs["moves"])
    trainers, steps = moves.shape
    ranks, (victim, gone) = got["ranks"], death(inputs)
    told = _clocks_followed(inputs, _record(got))
    stopped = _not_ended(ranks, trainers, victim)
    if stopped:
        return told + stopped
    for trainer in range(trainers):
        if trainer == victim:
            continue
        found = ranks[trainer + 1]["value"]
        if len(found) != steps:
            return [f"Trainer {trainer} has weights for {len(found)} of {steps} steps."]
        for step, pulled in enumerate(found):
            if fault := _not_fresh(inputs, trainer, step, np.asarray(pulled, float), victim, gone):
                return [fault]
    final = ranks[0]["value"]["weights"]
    if not near(final, want["weights"]):
        return told or [_final(inputs, final, want["weights"])]
    return told


def _not_fresh(inputs: Inputs, trainer: int, step: int, pulled: np.ndarray, victim: int, gone: int) -> str:
    """Whether the weights hold what they must: every update has an entry of its own, so it shows."""
    moves = np.array(inputs["moves"])
    trainers, steps = moves.shape
    bound, start = inputs["bound"], np.asarray(inputs["weights"], float)
    if pulled.shape != start.shape:
        return f"Trainer {trainer} got weights of shape {pulled.shape}; expected {start.shape}."
    there = ~np.isclose(pulled, start, rtol=1e-9, atol=1e-9).reshape(trainers, steps)
    for other in range(trainers):
        # Of one that dies, what it had pushed may come later than the news that it is gone.
        must = step if other == trainer else step - bound if other != victim else 0
        for early in range(min(max(must, 0), steps)):
            if not there[other, early]:
                if other == trainer:
                    return (
                        f"Trainer {trainer} began step {step} with weights that lack its own update of step {early}: "
                        "a trainer always sees what it has pushed."
                    )
                return (
                    f"Trainer {trainer} began step {step} with weights that lack the update of trainer {other} "
                    "from step "
                    f"{early}. With a staleness of {bound}, all updates from before step {step - bound} have to be in: "
                    f"the slowest clock has to be {step - bound} or more."
                )
    return ""


def _final(inputs: Inputs, final: Any, right: np.ndarray) -> str:
    """Which update is lacking at the end, or was applied by another amount."""
    moves = np.array(inputs["moves"])
    trainers, steps = moves.shape
    start = np.asarray(inputs["weights"], float)
    if np.shape(final) != start.shape:
        return f"The weights have the shape {np.shape(final)}; expected {start.shape}."
    by, due = np.asarray(final, float) - start, right - start
    for entry in range(trainers * steps):
        if np.isclose(by[entry], due[entry], rtol=1e-6, atol=1e-7):
            continue
        who = f"The update of trainer {entry // steps} in step {entry % steps}"
        if by[entry] == 0:
            return f"{who} is not in the weights at the end."
        if due[entry] and np.isclose(by[entry], 2 * due[entry]):
            return f"{who} was applied twice: a push that comes again, for the same step, is the same push."
        if due[entry] and np.isclose(by[entry], due[entry] / trainers):
            return f"{who} was divided by the number of trainers; here each gradient is applied as it comes."
        return f"{who} moved its weight by {by[entry]:.4g}; expected {due[entry]:.4g}."
    return "The weights differ at the end."


def _clocks_followed(inputs: Inputs, record: list[list[Any]]) -> list[str]:
    """Where a trainer was let through, or kept waiting, against the clocks."""
    trainers = len(inputs["moves"])
    clocks, bound = dict.fromkeys(range(trainers), 0), inputs["bound"]
    lost: list[int] = []
    for do, trainer, step, said in record:
        if do == "push":
            clocks[trainer] = max(clocks.get(trainer, 0), step + 1)
        elif do == "lost":
            clocks.pop(trainer, None)
            lost.append(trainer)
        elif do == "ask" and clocks:
            slowest = min(clocks.values())
            open_ = slowest >= step - bound
            spoken = ", ".join(f"trainer {one}: {clock}" for one, clock in sorted(clocks.items()))
            if bool(said) and not open_:
                return [
                    f"Trainer {trainer} was let into step {step} with a staleness of {bound}, while the clocks were "
                    f"{spoken}. The slowest has to be {step - bound} or more."
                ]
            if not said and open_:
                gone = f" {listed(lost).capitalize()} died, and is not waited for." if lost else ""
                return [
                    f"Trainer {trainer} was kept from step {step} with a staleness of {bound}, while the clocks were "
                    f"{spoken}. The slowest is {slowest}, and {step - bound} is enough.{gone}"
                ]
    return []
