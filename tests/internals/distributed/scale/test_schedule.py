"""Schedules as data: complete, free of deadlock, with the bubble and the memory that the papers give."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from internals.distributed.scale.pipeline import (
    SCHEDULES,
    Action,
    bubble,
    check,
    draw_pipeline,
    gpipe,
    most_kept,
    one_f_one_b,
    simulate,
)

SIZES = [(1, 1), (1, 5), (2, 1), (2, 2), (3, 2), (4, 3), (4, 4), (4, 8), (5, 13), (8, 3)]


@pytest.mark.parametrize(("stages", "micros"), SIZES)
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_micro_batch_goes_through_every_stage_once(name: str, stages: int, micros: int) -> None:
    schedule = SCHEDULES[name](stages, micros)
    check(schedule)
    counted = Counter(action for row in schedule for action in row)
    wanted = {Action(s, m, kind) for s in range(stages) for m in range(micros) for kind in "FB"}
    assert counted == Counter(wanted)


@pytest.mark.parametrize(("stages", "micros"), SIZES)
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("ratio", [1.0, 2.0, 3.5])
def test_bubble_of_equal_stages(name: str, stages: int, micros: int, ratio: float) -> None:
    """Huang et al. 2019, section 2.3: (K - 1) / (M + K - 1)."""
    spans = simulate(SCHEDULES[name](stages, micros), forward=0.7, backward=0.7 * ratio)
    assert bubble(spans) == pytest.approx((stages - 1) / (micros + stages - 1))


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_slowest_stage_is_never_idle_between(name: str) -> None:
    """Stages that differ: the second decides, and the others wait for it."""
    spans = simulate(SCHEDULES[name](3, 6), forward=[0.1, 1.0, 0.1], backward=[0.2, 2.0, 0.2])
    second = [span for span in spans if span.action.stage == 1]
    assert max(span.end for span in spans) == pytest.approx(6 * 3.0 + 2 * 0.1 + 2 * 0.2, rel=0.02)
    assert sum(span.end - span.start for span in second) == pytest.approx(18.0)
    with pytest.raises(ValueError, match="the seconds of 2 stages for a schedule of 3"):
        simulate(SCHEDULES[name](3, 6), forward=[1.0, 1.0])


@pytest.mark.parametrize(("stages", "micros"), SIZES)
def test_memory(stages: int, micros: int) -> None:
    assert most_kept(gpipe(stages, micros)) == [micros] * stages
    assert most_kept(one_f_one_b(stages, micros)) == [min(stages - s, micros) for s in range(stages)]


@pytest.mark.parametrize(("stages", "micros"), SIZES)
@pytest.mark.parametrize("name", SCHEDULES)
def test_no_stage_does_two_things_at_once_or_too_early(name: str, stages: int, micros: int) -> None:
    spans = {span.action: span for span in simulate(SCHEDULES[name](stages, micros), transfer=0.25)}
    for stage in range(stages):
        row = sorted((span for action, span in spans.items() if action.stage == stage), key=lambda span: span.start)
        assert all(one.end <= other.start for one, other in pairwise(row))
    for (stage, micro, kind), span in spans.items():
        if kind == "F" and stage:
            assert span.start >= spans[Action(stage - 1, micro, "F")].end + 0.25
        if kind == "B":
            assert span.start >= spans[Action(stage, micro, "F")].end
            if stage + 1 < stages:
                assert span.start >= spans[Action(stage + 1, micro, "B")].end + 0.25


def swapped(schedule: list[list[Action]], stage: int, first: int, second: int) -> list[list[Action]]:
    row = schedule[stage]
    row[first], row[second] = row[second], row[first]
    return schedule


BAD = {
    "no stage": ([], "no stage"),
    "an idle stage": ([[], []], "a stage that does nothing"),
    "another's work": ([[Action(1, 0, "F"), Action(0, 0, "B")]], "F0 on stage 1 stands in the row of stage 0"),
    "twice": ([[Action(0, 0, "F"), Action(0, 0, "F"), Action(0, 0, "B")]], "stage 0 does F0 twice"),
    "left out": ([[Action(0, 0, "F")]], "B0 is not done"),
    "one stage knows another micro-batch": (
        [gpipe(2, 2)[0], gpipe(2, 3)[1]],
        "2 is not done by every stage",
    ),
    "backward before forward": (swapped(gpipe(1, 1), 0, 0, 1), "B0 on stage 0 waits for F0 on stage 0"),
    "a circle": (
        # stage 0 wants F0's cotangent before it sends micro-batch 1, for which stage 1 waits first
        [
            [Action(0, 0, "F"), Action(0, 0, "B"), Action(0, 1, "F"), Action(0, 1, "B")],
            [Action(1, 0, "F"), Action(1, 1, "F"), Action(1, 0, "B"), Action(1, 1, "B")],
        ],
        "B0 on stage 0 waits for B0 on stage 1, F1 on stage 1 waits for F1 on stage 0",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_schedule_that_can_not_run_is_refused(case: str) -> None:
    schedule, told = BAD[case]
    with pytest.raises(ValueError, match=".*") as raised:
        check(schedule)
    assert told in str(raised.value)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(("stages", "micros"), [(0, 1), (1, 0), (-1, 2), (2.0, 2), (True, 2)])
def test_counts_that_are_none(name: str, stages: int, micros: int) -> None:
    with pytest.raises(ValueError, match="expected 1 or more"):
        SCHEDULES[name](stages, micros)


def test_the_picture_has_every_action_and_says_the_bubble() -> None:
    spans = simulate(one_f_one_b(4, 6))
    drawn = draw_pipeline({"1F1B": spans}, title="A pipeline")
    assert drawn.svg.count("<rect ") == 4 + 4 * 6 * 2
    assert "idle 33%" in repr(drawn)
    with pytest.raises(ValueError, match="expected runs with spans"):
        draw_pipeline({"none": []}, title="x")
