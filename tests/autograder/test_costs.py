"""What an answer costs: counted the same every time, judged against a formula, told beside what is allowed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from small_lab import ORACLES, double, make_lab, notebook, task

from autograder import sandbox
from autograder.costs import NotCounted, sentence, split, worst
from autograder.feedback import fragment, page, text
from autograder.grade import Grader, grade_bytes
from autograder.inside.counting import Meter, bare
from autograder.lint import Margins
from autograder.report import CostResult, Report, TaskResult
from autograder.spec import Cost, Property


def one_each(x: np.ndarray) -> float:
    return x.size + 1


COSTS = (
    Cost("entries", "Entries computed", one_each, "n + 1 for n entries"),
    Cost("bytes", "Memory at the peak", lambda x: 8 * x.size + 20_000, "8 n + 20,000", "bytes"),
)


def large(rng: np.random.Generator) -> list[dict[str, Any]]:
    return [{"x": rng.normal(size=shape).round(2)} for shape in ((), (3,), (0, 2), (40, 50))]


METERED = task("double", double, driver="metered", costs=COSTS, edges=large, hints={"cost": "Once is enough."})


def result_of(answer: str, one: Any = METERED, watch: Any = None) -> TaskResult:
    raw = json.dumps(notebook(double=f"import numpy as np\ndef double(x):\n    {answer}")).encode()
    grader = Grader(oracles=ORACLES, seed=5, watch=watch)
    return grade_bytes(raw, "x.ipynb", make_lab(one), grader=grader).tasks[0]


@pytest.mark.parametrize(
    ("work", "operations", "entries"),
    [
        (lambda x: x + x, 1, 6),
        (lambda x: np.sin(x) * x, 2, 12),
        (lambda x: x.sum(), 1, 6),
        (lambda x: np.sum(x, axis=0), 1, 6),
        (lambda x: x @ x.T, 1, 12),
        (lambda x: np.concatenate([x, x]), 1, 12),
        (lambda x: np.where(x > 0, x, 0), 2, 12),
        (lambda x: x.T.reshape(6), 0, 0),
        (lambda x: x.reshape(3, 2)[1:].T, 0, 0),
        (lambda x: [[x[i, j] for j in range(3)] for i in range(2)], 6, 6),
        (lambda x: np.multiply(x, 2, out=np.empty((2, 3))), 1, 6),
        (lambda x: np.add(x, 1, out=x), 1, 6),
        (lambda x: np.divmod(x, 2), 1, 6),
        (lambda x: np.add.at(x, (0, 0), 1), 1, 6),
        (lambda x: x.copy().__setitem__(0, 1.0), 1, 1),
        (lambda x: x.__iadd__(1), 1, 6),
        (lambda x: np.sin(x)[0] + np.cos(x)[1], 3, 15),
    ],
)
def test_operations_and_entries_are_counted(work: Any, operations: int, entries: int) -> None:
    x = np.random.default_rng(3).normal(size=(2, 3))
    with Meter() as meter:
        work(meter.array(x.copy()))
    assert (meter.counted["operations"], meter.counted["entries"]) == (operations, entries)


def test_what_is_counted_comes_out_the_same_and_the_values_too() -> None:
    x = np.random.default_rng(4).normal(size=(30, 30))

    def work(x: np.ndarray) -> np.ndarray:
        y = np.tanh(x @ x.T) + np.linalg.norm(x, axis=0)
        y[0] = np.maximum(y[1], 0)
        return np.exp(-y).mean(axis=1) / np.sqrt(np.abs(y).sum())

    counts = []
    for _ in range(3):
        with Meter() as meter:
            answer = bare(work(meter.array(x)))
        counts.append({name: count for name, count in meter.counted.items() if name != "bytes"})
        assert type(answer) is np.ndarray
        assert np.array_equal(answer, work(x))
    assert counts[0] == counts[1] == counts[2]
    assert counts[0]["entries"] > 30**3


def test_bytes_are_those_held_at_the_same_time() -> None:
    with Meter() as meter:
        for _ in range(5):
            np.empty(100_000)
    assert 8e5 < meter.counted["bytes"] < 1.2e6
    with Meter() as meter:
        kept = [np.empty(100_000) for _ in range(5)]
    assert 4e6 < meter.counted["bytes"] < 4.2e6
    del kept


def test_bare_leaves_nothing_counted() -> None:
    with Meter() as meter:
        x = meter.array([1.5, -2.0])
        found = bare({"a": (x, [x * 2, 3]), "b": "text"})
    assert type(found["a"][0]) is type(found["a"][1][0]) is np.ndarray
    assert found["a"][1][1:] == [3]
    assert found["b"] == "text"


@pytest.mark.slow
@pytest.mark.skipif(not sandbox.kinds(), reason="no sandbox on this machine")
@pytest.mark.parametrize(
    ("answer", "verdict", "cause", "words"),
    [
        ("return 2 * x", "right", "", ""),
        ("return x + x", "right", "", ""),
        ("return 3 * x - x", "wrong", "cost", "where 3 are allowed (n + 1 for n entries)"),
        ("hold = np.ones(10**5); return 2 * x", "wrong", "cost", "Memory at the peak"),
        ("return 3 * x - x + 1", "wrong", "value", "come out wrong"),
        ("return 3 * x - x if x.size < 4 else 1 / 0", "failed", "exception", "ZeroDivisionError"),
        ("return None", "wrong", "value", "come out wrong"),
        ("raise NotImplementedError()", "failed", "exception", "Not written yet"),
    ],
)
def test_a_right_answer_that_costs_too_much_is_not_right(answer: str, verdict: str, cause: str, words: str) -> None:
    result = result_of(answer)
    assert (result.verdict, result.cause) == (verdict, cause), result.message
    assert words in result.message
    if cause == "cost":
        assert result.points == 0
        assert result.diagnosis[0] == "Once is enough."
        assert result.counter_example is not None
        assert result.counter_example.got.startswith("the right answer")
        assert any(not cost.holds for cost in result.costs)
    if verdict == "right":
        entries, memory = result.costs
        assert entries.counted <= entries.allowed
        assert memory.counted <= memory.allowed


@pytest.mark.slow
@pytest.mark.skipif(not sandbox.kinds(), reason="no sandbox on this machine")
def test_a_wrong_value_is_not_explained_by_a_smaller_case_that_only_costs() -> None:
    judge = lambda inputs, got, want: [] if np.array_equal(got, want) else ["Another value."]  # noqa: E731
    one = task("double", double, driver="metered", costs=COSTS[:1], edges=large, judge=judge)
    result = result_of("return 3 * x - x + (x.size > 100)", one)
    assert (result.verdict, result.cause) == ("wrong", "value")
    assert result.message.endswith("Another value.")


@pytest.mark.slow
@pytest.mark.skipif(not sandbox.kinds(), reason="no sandbox on this machine")
def test_cost_may_be_worth_points_of_its_own() -> None:
    parts = (Property("values", "right values", 6), Property("cost", "few entries", 4, cost="entries"))
    one = task("double", double, driver="metered", costs=COSTS[:1], properties=parts)
    assert (result_of("return 2 * x", one).points, result_of("return 3 * x - x", one).points) == (10, 6)
    assert result_of("return 3 * x", one).points == 4
    margins = Margins()
    result_of("return 3 * x - x", one, margins)
    assert not margins.swallowed, "no tolerance forgives a cost"


@pytest.mark.slow
@pytest.mark.skipif(not sandbox.kinds(), reason="no sandbox on this machine")
def test_counts_that_do_not_come_are_told() -> None:
    result = result_of("return 2 * x", task("double", double, driver="tampered", costs=COSTS))
    assert (result.verdict, result.points) == ("wrong", 0)
    assert "could not be counted" in result.message


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        [],
        {},
        {"answer": 1},
        {"counted": {"entries": 1, "bytes": 1}},
        {"answer": 1, "counted": 3},
        {"answer": 1, "counted": {"entries": 1}},
        {"answer": 1, "counted": {"entries": True, "bytes": 1}},
        {"answer": 1, "counted": {"entries": -1, "bytes": 1}},
        {"answer": 1, "counted": {"entries": float("nan"), "bytes": 1}},
        {"answer": 1, "counted": {"entries": float("inf"), "bytes": 1}},
        {"answer": 1, "counted": {"entries": "1", "bytes": 1}},
        {"answer": 1, "counted": {"entries": 1, "bytes": 1}, "more": 1},
    ],
)
def test_counts_of_any_form_are_refused(value: Any) -> None:
    with pytest.raises(NotCounted):
        split(METERED, {"x": np.array([2.5])}, value)


def test_the_case_nearest_to_its_limit_is_told() -> None:
    far, near = CostResult("a", "A", 1, 10), CostResult("a", "A", 9, 10, "calls", "2 n")
    assert worst([[far], [near], []]) == [near]
    assert worst([[CostResult("a", "A", 0, 0)], [far]]) == [far]
    assert worst([[near], [CostResult("a", "A", 1, 0)]])[0].allowed == 0
    assert worst([]) == []
    assert (
        sentence(CostResult("a", "Calls", 1234, 10, "calls", "2 n"))
        == "Calls: 1,234 calls, where 10 are allowed (2 n)."
    )


def test_it_is_shown_everywhere() -> None:
    costs = [CostResult("a", "Rules <b>run</b>", 12, 8, "", "2 n"), CostResult("b", "Memory", 5, 8, "bytes")]
    report = Report("lab", "v", "", "practice", "", "", 1, "", [TaskResult("a", "a", 0, 1, "wrong", costs=costs)])
    assert Report.from_json(report.to_json()) == report
    for shown in (text(report), page(report), fragment(report)):
        assert "12 counted, only 8 allowed (2 n)" in shown
        assert "5 bytes counted, 8 bytes allowed" in shown
        assert ("<b>" in shown) == (shown == text(report))


def test_a_property_of_a_cost_that_is_not_there() -> None:
    parts = (Property("values", "right values", 6), Property("cost", "few calls", 4, cost="calls"))
    with pytest.raises(ValueError, match="the cost 'calls', which it lacks"):
        make_lab(task("double", double, costs=COSTS, properties=parts))
