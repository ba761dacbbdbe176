"""One task's verdict and words, with the learner's code called in this process in place of a sandbox."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_lab import DOUBLE, ORACLES, make_lab, task

from autograder import verdict
from autograder.answerkey import AnswerKey
from autograder.oracles import OracleError
from autograder.report import TaskResult
from autograder.run import Answer, Died, Missing, Outcome, Raised
from autograder.spec import Inputs, Task


class Direct:
    """Stands in for a Runner."""

    def __init__(self, function: Callable[..., Any], **answers: Any) -> None:
        self.function, self.answers = function, answers
        self.calls = 0
        self.left_behind: Callable[[Any], Any] | None = None

    def reach(self, task: Task) -> None:
        pass

    def notes(self, task: Task) -> list[str]:
        return ["a note"]

    def shared(self, task: Task) -> bool:
        return self.left_behind is not None

    def renew(self) -> None:
        self.left_behind = None

    def call(self, task: Task, inputs: Inputs) -> Outcome:
        self.calls += 1
        try:
            value = self.function(**inputs)
            value = self.left_behind(value) if self.left_behind else value
        except Exception as error:  # noqa: BLE001  as a sandbox would
            return Raised(type(error).__name__, str(error), traceback.format_exc())
        return value if isinstance(value, (Died, Missing, Raised)) else Answer(value, **self.answers)


def judged(function: Callable[..., Any], of: Task = DOUBLE, **answers: Any) -> tuple[TaskResult, Direct]:
    runner = Direct(function, **answers)
    return verdict.judge_task(runner, AnswerKey(make_lab(of), 5, ORACLES), of), runner


@pytest.mark.slow
def test_right() -> None:
    result, runner = judged(lambda x: 2 * x)
    assert (result.verdict, result.points, result.max_points) == ("right", 10.0, 10.0)
    assert result.cases == runner.calls == 4 + 25
    assert result.notes == ["a note"]
    assert result.counter_example is None


@pytest.mark.slow
def test_output_that_was_cut_is_noted_and_costs_nothing() -> None:
    result, _ = judged(lambda x: 2 * x, cut=True)
    assert result.verdict == "right"
    assert any("cut" in note for note in result.notes)


@pytest.mark.slow
def test_wrong_with_the_smallest_counter_example() -> None:
    result, _ = judged(lambda x: 2 * x if x.ndim < 2 else -2 * x)
    assert (result.verdict, result.cause, result.points) == ("wrong", "value", 0.0)
    example = result.counter_example
    assert example is not None
    assert example.inputs.startswith("x = np.array([[")
    assert example.inputs.count(",") == 0, "a 1 by 1 matrix is the smallest"
    assert example.oracles == ["one", "other"]
    assert example.replay.startswith("double(")
    assert example.expected != example.got
    assert result.diagnosis[0] == "The sign of the result is wrong."
    assert result.diagnosis[1] == "It goes wrong exactly when an input has 2 or more axes."
    assert "come out wrong" in result.message


def test_a_large_failing_case_is_shrunk() -> None:
    far = task("double", DOUBLE.oracles["one"], edges=lambda rng: [{"x": rng.normal(size=(4, 4))}], examples=0)
    result, _ = judged(lambda x: 2 * x if x.size < 2 else x, far)
    assert result.counter_example is not None
    assert result.counter_example.expected.count(",") == 1, "two entries"


def test_the_case_shown_is_one_the_first_sentence_is_about() -> None:
    # A single entry that is off tells nothing; that the others run backwards can be seen.
    result, _ = judged(lambda x: 2 * x[::-1] if x.ndim and x.size != 1 else 2 * x + 0.777)
    assert "run backwards" in result.diagnosis[0]
    assert result.counter_example is not None
    assert result.counter_example.expected.count(",") >= 1, "a case of one entry would not show it"


def test_a_smaller_case_goes_wrong_in_the_same_way() -> None:
    def mixed(x: np.ndarray) -> np.ndarray:
        if x.ndim == 2:
            raise ValueError("two axes")
        return 2 * x if x.ndim == 0 else 3 * x

    far = task("double", DOUBLE.oracles["one"], edges=lambda rng: [{"x": rng.normal(size=(4, 4))}], examples=0)
    result, _ = judged(mixed, far)
    assert (result.verdict, result.message) == ("failed", "It raised ValueError: two axes")
    assert result.counter_example is not None
    assert result.counter_example.inputs.startswith("x = np.array([[")


def raising(error: Exception) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        raise error

    return function


def test_raised() -> None:
    result, _ = judged(raising(RecursionError("maximum recursion depth exceeded")))
    assert (result.verdict, result.cause) == ("failed", "exception")
    assert result.diagnosis[0].startswith("Python's recursion limit")
    assert result.message == "29 of 29 cases raised RecursionError: maximum recursion depth exceeded"
    assert "raise error" in result.traceback
    assert result.counter_example is not None


def test_an_answer_of_another_form_did_not_raise() -> None:
    """A driver refuses it: no line of the learner's is to blame."""
    result, _ = judged(lambda x: Raised("TypeError", "double returned a dict; expected an array.", ""))
    assert (result.verdict, result.message) == ("failed", "29 of 29 cases: double returned a dict; expected an array.")
    assert result.counter_example is not None
    assert result.counter_example.got == "double returned a dict; expected an array."


@pytest.mark.slow
def test_a_hole() -> None:
    result, _ = judged(raising(NotImplementedError()))
    assert (result.verdict, result.message) == ("failed", "Not written yet: it raises NotImplementedError.")
    assert result.diagnosis == ["The hole has not been filled in yet."]


def test_the_hole_of_another_task_is_named() -> None:
    """Whoever has written this one, but not that which it calls, is not told that this one is empty."""
    told = "cell 11, line 7, in run\n    rows = gather(batches)\ncell 8, line 4, in gather\n    raise Hole()"
    outcome = verdict.Raised("NotImplementedError", "", told)
    inputs = {"x": np.ones(2)}
    result = verdict.raised(DOUBLE, outcome, verdict.Tried(verdict.Case(inputs, np.ones(2)), outcome), "It", [])
    assert result.message == "Not written yet: `gather` raises NotImplementedError."


def test_raised_in_some_cases_only() -> None:
    result, _ = judged(lambda x: 2 * x + 0 * x[0])
    assert result.counter_example is not None
    assert result.counter_example.got.startswith("IndexError")


@pytest.mark.parametrize(
    ("cause", "expected"), [("time", "failed"), ("memory", "failed"), ("network", "refused"), ("files", "refused")]
)
def test_died_ends_the_calls(cause: Any, expected: str) -> None:
    hinted = task("double", DOUBLE.oracles["one"], hints={cause: "Think again."})
    result, runner = judged(lambda x: Died(cause, "ran longer than 1 s"), hinted)
    assert (result.verdict, result.cause, runner.calls) == (expected, cause, 1)
    assert result.message == "Ran longer than 1 s."
    assert result.diagnosis == [verdict.ADVICE[cause], "Think again."]


def test_died_while_a_smaller_case_was_looked_for() -> None:
    calls = iter(range(1000))
    far = task("double", DOUBLE.oracles["one"], edges=lambda rng: [{"x": rng.normal(size=(4, 4))}], examples=0)
    result, _ = judged(lambda x: x if next(calls) == 0 else Died("exit", "left"), far)
    assert result.verdict == "wrong"


@pytest.mark.parametrize(
    ("cause", "expected"), [("missing", "missing"), ("exception", "failed"), ("network", "refused")]
)
def test_missing(cause: Any, expected: str) -> None:
    because = "cell 3, which defines `double`, failed: NameError: numpy"
    result, runner = judged(lambda x: Missing(("double",), because, cause, 3, "Traceback"))
    assert (result.verdict, result.cause, runner.calls) == (expected, cause, 1)
    assert result.message == "Cell 3, which defines `double`, failed: NameError: numpy"
    assert result.traceback == "Traceback"


@pytest.mark.parametrize(
    ("function", "verdict_then"), [(lambda x: 2 * x, "right"), (lambda x: 3 * x, "wrong"), (lambda x: 1 / 0, "failed")]
)
def test_what_fails_beside_another_is_tried_where_none_ran(function: Callable[..., Any], verdict_then: str) -> None:
    runner = Direct(function)
    runner.left_behind = lambda value: value + 1
    result = verdict.judge_task(runner, AnswerKey(make_lab(DOUBLE), 5, ORACLES), DOUBLE)
    assert result.verdict == verdict_then
    assert runner.left_behind is None


def test_a_hole_is_a_hole_wherever_it_is_called() -> None:
    def unwritten(x: Any) -> Any:
        raise NotImplementedError

    runner = Direct(unwritten)
    runner.left_behind = lambda value: value
    assert verdict.judge_task(runner, AnswerKey(make_lab(DOUBLE), 5, ORACLES), DOUBLE).verdict == "failed"
    assert runner.left_behind is not None


def test_right_but_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "PATIENCE", 0)
    result, runner = judged(lambda x: 2 * x)
    assert (result.verdict, result.cause, runner.calls) == ("failed", "time", 1)
    assert "too slow" in result.message


@pytest.mark.parametrize(
    ("seconds", "factor", "called"),
    [(3.0, 3, verdict.OVERDUE), (3.0, 2, None), (0.1, 3, None)],
    ids=["wrong and slow", "right and slow", "wrong and quick"],
)
def test_a_few_overdue_cases_are_enough_to_tell_that_it_is_wrong(
    monkeypatch: pytest.MonkeyPatch, seconds: float, factor: int, called: int | None
) -> None:
    """On a clock that only calls move. Right answers are waited for, however slow, as long as there is patience."""
    now = [0.0]
    monkeypatch.setattr(verdict.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(verdict, "PATIENCE", 1000)
    monkeypatch.setattr(verdict, "smaller_case", lambda *_: None)

    def function(x: Any) -> Any:
        now[0] += seconds
        return factor * x

    of = replace(DOUBLE, limit=8.0)
    runner = Direct(function)
    tried, _ = verdict.try_all(runner, of, AnswerKey(make_lab(of), 5, ORACLES).cases(of))
    if called is None:
        assert runner.calls == 4 + 25
    else:
        assert sum(not one.passed for one in tried) == called
        assert not tried[-1].passed


def test_without_a_sure_answer_there_is_no_verdict() -> None:
    unsure = task(
        "double", DOUBLE.oracles["one"], oracles={"one": DOUBLE.oracles["one"], "other": lambda framework, x: x}
    )
    with pytest.raises(OracleError, match="disagree"):
        judged(lambda x: 2 * x, unsure)


def judge(inputs: Inputs, got: Any, want: Any) -> list[str]:
    return [] if got["sum"] == float(want.sum()) else ["The sum is off.", "It should be that of the doubles."]


JUDGED = task("double", DOUBLE.oracles["one"], judge=judge)


def test_a_judge_may_accept_what_is_not_equal() -> None:
    result, _ = judged(lambda x: {"sum": float((2 * x).sum())}, JUDGED_LOOSELY)
    assert result.verdict == "right"


JUDGED_LOOSELY = task(
    "double",
    DOUBLE.oracles["one"],
    judge=lambda inputs, got, want: [] if abs(got["sum"] - want.sum()) < 1e-9 else ["off"],
)


def test_a_judges_words_come_first() -> None:
    result, _ = judged(lambda x: {"sum": 0.123}, JUDGED)
    assert result.message.endswith("In the smallest: The sum is off.")
    assert result.diagnosis[0] == "It should be that of the doubles."


@pytest.mark.slow
@pytest.mark.parametrize("odd", [None, 3, [], {}, {"sum": None}, "text", np.ones(2)])
def test_an_answer_a_judge_cannot_read_is_wrong(odd: Any) -> None:
    result, _ = judged(lambda x: odd, JUDGED_LOOSELY)
    assert result.verdict == "wrong"


def test_code_that_changes_its_mind_still_gets_a_verdict() -> None:
    flips = iter(range(100_000))
    result, _ = judged(lambda x: 2 * x if next(flips) % 3 else x + 1)
    assert result.verdict == "wrong"


@pytest.mark.slow
@pytest.mark.parametrize(
    "odd", ["\x1b[2J" + "x" * 10**6, {"y" * 10**6: 1}, ["\x9b" * 10**6] * 3], ids=["text", "key", "list"]
)
def test_texts_of_the_learners_are_cut_and_shown_as_text(odd: Any) -> None:
    quoting = task(
        "double", DOUBLE.oracles["one"], judge=lambda inputs, got, want: [] if got is want else [f"It is {got}."] * 99
    )
    showing = task("double", DOUBLE.oracles["one"], show=lambda answer: f"{answer}")
    for of in (DOUBLE, quoting, showing):
        result, _ = judged(lambda x: odd, of)
        assert result.counter_example is not None
        said = "".join([result.message, *result.diagnosis, result.counter_example.got])
        assert result.verdict == "wrong"
        assert len(said) < 10_000
        assert "\x1b" not in said
        assert "\x9b" not in said
