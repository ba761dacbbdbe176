"""Which stage does what, in which order: schedules as data, and what follows from them without running anything.

A micro-batch goes forward (F) through all stages and backward (B) through them in reverse. Every schedule here gives
the same gradients; they differ in how long stages stand idle and in how many micro-batches' activations they keep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class Action(NamedTuple):
    """One micro-batch through one stage, forward or backward."""

    stage: int
    micro_batch: int
    kind: str
    """"F" or "B"."""

    def __str__(self) -> str:
        return f"{self.kind}{self.micro_batch} on stage {self.stage}"


class Span(NamedTuple):
    """An action and when it ran, in seconds."""

    action: Action
    start: float
    end: float


Schedule = list[list[Action]]
"""For each stage, what it does, in order."""


def gpipe(stages: int, micro_batches: int) -> Schedule:
    """All micro-batches forward, then all backward (Huang et al. 2019).

    Each stage keeps the activations of every micro-batch.
    """
    _check_counts("gpipe", stages, micro_batches)
    order = [(micro, kind) for kind in "FB" for micro in range(micro_batches)]
    return [[Action(stage, micro, kind) for micro, kind in order] for stage in range(stages)]


def one_f_one_b(stages: int, micro_batches: int) -> Schedule:
    """One forward, one backward, in turn, as soon as there is something to go backward with.

    PipeDream's order (Narayanan et al. 2019), with a flush at the end of each batch (PipeDream-flush, Narayanan et al.
    2021). Stage s keeps the activations of at most ``stages - s`` micro-batches, however many there are.
    """
    _check_counts("one_f_one_b", stages, micro_batches)
    schedule = []
    for stage in range(stages):
        ahead = min(stages - stage - 1, micro_batches)
        row = [Action(stage, micro, "F") for micro in range(ahead)]
        for micro in range(micro_batches - ahead):
            row += [Action(stage, ahead + micro, "F"), Action(stage, micro, "B")]
        row += [Action(stage, micro, "B") for micro in range(micro_batches - ahead, micro_batches)]
        schedule.append(row)
    return schedule


SCHEDULES: Mapping[str, Callable[[int, int], Schedule]] = {"gpipe": gpipe, "1f1b": one_f_one_b}


def needs(action: Action, stages: int) -> list[Action]:
    """What must be done before an action: the same micro-batch where it comes from."""
    stage, micro, kind = action
    if kind == "F":
        return [Action(stage - 1, micro, "F")] if stage else []
    ahead = [Action(stage + 1, micro, "B")] if stage + 1 < stages else []
    return [Action(stage, micro, "F"), *ahead]


def check(schedule: Sequence[Sequence[Action]]) -> None:
    """Refuse a schedule that can't be run.

    Raises
    ------
    ValueError
        A stage does another stage's work, or leaves out or repeats an action; or stages wait for each other in a
        circle: then it names what each waits for.
    """
    stages = len(schedule)
    if not stages or not all(schedule):
        raise ValueError("schedule: no stage, or a stage that does nothing")
    micros = {action.micro_batch for action in schedule[0]}
    wanted = {(micro, kind) for micro in micros for kind in "FB"}
    for stage, row in enumerate(schedule):
        strange = [action for action in row if action.stage != stage or action.kind not in ("F", "B")]
        if strange:
            raise ValueError(f"schedule: {strange[0]} stands in the row of stage {stage}")
        done = [(action.micro_batch, action.kind) for action in row]
        twice = [one for one in done if done.count(one) > 1]
        if twice:
            raise ValueError(f"schedule: stage {stage} does {twice[0][1]}{twice[0][0]} twice")
        if set(done) != wanted:
            micro, kind = min(set(done) ^ wanted)
            raise ValueError(f"schedule: {kind}{micro} is not done by every stage; stage {stage} and stage 0 differ")
    simulate(schedule)


def simulate(
    schedule: Sequence[Sequence[Action]],
    *,
    forward: float | Sequence[float] = 1.0,
    backward: float | Sequence[float] = 2.0,
    transfer: float = 0.0,
) -> list[Span]:
    """Run a schedule on a clock that is counted, not waited for.

    Parameters
    ----------
    forward, backward : float or sequence of float
        Seconds of an action, the same for all stages or by stage.
    transfer : float
        Seconds that an activation, or its cotangent, is on its way; the sender goes on meanwhile.

    Returns
    -------
    list of Span
        In the order of their starts.

    Raises
    ------
    ValueError
        The schedule stops: stages wait for each other; names what each waits for. Or not as many seconds as stages.
    """
    stages = len(schedule)
    seconds = {
        kind: [given] * stages if isinstance(given, int | float) else list(given)
        for kind, given in (("F", forward), ("B", backward))
    }
    for given in seconds.values():
        if len(given) != stages:
            raise ValueError(f"simulate: the seconds of {len(given)} stages for a schedule of {stages}")
    spans: dict[Action, Span] = {}
    place, free = [0] * stages, [0.0] * stages
    left = sum(map(len, schedule))
    while left:
        before = left
        for stage, row in enumerate(schedule):
            while place[stage] < len(row):
                action = row[place[stage]]
                needed = needs(action, stages)
                if any(one not in spans for one in needed):
                    break
                there = [spans[one].end + (transfer if one.stage != stage else 0.0) for one in needed]
                start = max([free[stage], *there])
                spans[action] = Span(action, start, start + seconds[action.kind][stage])
                free[stage] = spans[action].end
                place[stage] += 1
                left -= 1
        if left == before:
            raise ValueError(f"schedule: it stops; {_waits(schedule, place, spans)}")
    return sorted(spans.values(), key=lambda span: (span.start, span.action.stage))


def _waits(schedule: Sequence[Sequence[Action]], place: Sequence[int], spans: Mapping[Action, Span]) -> str:
    told = []
    for row, at in zip(schedule, place, strict=True):
        if at < len(row):
            missing = next(one for one in needs(row[at], len(schedule)) if one not in spans)
            told.append(f"{row[at]} waits for {missing}")
    return ", ".join(told)


def bubble(spans: Sequence[Span]) -> float:
    """The share of the stages' time in which they stand idle, from the first start to the last end.

    With equal stages, p of them and m micro-batches: (p - 1) / (m + p - 1), of both schedules.
    """
    if not spans:
        raise ValueError("bubble: no spans; run the schedule first")
    stages = 1 + max(span.action.stage for span in spans)
    whole = max(span.end for span in spans) - min(span.start for span in spans)
    busy = sum(span.end - span.start for span in spans)
    return 1.0 - busy / (stages * whole) if whole else 0.0


def most_kept(schedule: Sequence[Sequence[Action]]) -> list[int]:
    """For each stage, the most micro-batches whose activations it keeps at once."""
    found = []
    for row in schedule:
        kept = most = 0
        for action in row:
            kept += 1 if action.kind == "F" else -1
            most = max(most, kept)
        found.append(most)
    return found


def _check_counts(name: str, stages: int, micro_batches: int) -> None:
    for what, count in (("stages", stages), ("micro-batches", micro_batches)):
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ValueError(f"{name}: {count!r} {what}; expected 1 or more")
