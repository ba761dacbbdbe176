"""Points for parts: each property earns its own where it holds, and the report says which did."""

from __future__ import annotations

import json
from typing import Any

import pytest
from small_lab import ORACLES, double, make_lab, notebook, task

from autograder import sandbox
from autograder.feedback import page, text
from autograder.grade import Grader, grade_bytes
from autograder.report import Report, TaskResult
from autograder.spec import Property

pytestmark = pytest.mark.skipif(not sandbox.kinds(), reason="no sandbox on this machine")


def shapes(inputs: Any, got: Any, want: Any) -> list[str]:
    return [] if got.shape == want.shape else ["Another shape."]


PARTS = (
    Property("shape", "the shape of the result", 3, judge=shapes),
    Property("small", "inputs without axes", 2, concerns=lambda inputs: inputs["x"].ndim == 0),
    Property("values", "all values", 5),
)


def result_of(answer: str, *properties: Property) -> tuple[TaskResult, Report]:
    lab = make_lab(task("double", double, properties=properties or PARTS))
    raw = json.dumps(notebook(double=f"import numpy as np\ndef double(x):\n    {answer}")).encode()
    report = grade_bytes(raw, "x.ipynb", lab, grader=Grader(oracles=ORACLES, seed=5))
    return report.tasks[0], report


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "verdict", "held"),
    [
        ("return 2 * x", "right", ["shape", "small", "values"]),
        ("return 3 * x", "wrong", ["shape"]),
        ("return 2 * x if x.ndim == 0 else 3 * x", "wrong", ["shape", "small"]),
        ("return 2 * x if x.ndim == 0 else np.ravel(x)[None]", "wrong", ["small"]),
        ("return 2 * x if x.ndim == 0 else 1 / 0", "failed", ["small"]),
        ("raise NotImplementedError()", "failed", []),
        ("return None", "wrong", []),
        ("import os; os._exit(0)", "failed", []),
    ],
)
def test_what_holds_earns_its_points(answer: str, verdict: str, held: list[str]) -> None:
    result, report = result_of(answer)
    assert [part.name for part in result.properties if part.holds] == held
    assert result.verdict == verdict
    assert result.points == sum(part.points for part in result.properties)
    assert Report.from_json(report.to_json()) == report
    for shown in (page(report), text(report)):
        for part in result.properties:
            assert part.title in shown


@pytest.mark.slow
def test_what_only_a_property_sees_is_part_of_being_right() -> None:
    never = Property("memory", "no memory", 4, judge=lambda inputs, got, want: ["Too much memory."])
    result, _ = result_of("return 2 * x", never, Property("values", "all values", 6))
    assert (result.verdict, result.points) == ("wrong", 6)
    assert "Too much memory" in result.message


@pytest.mark.slow
def test_a_property_that_concerns_no_case_is_our_fault() -> None:
    nowhere = Property("never", "never", 10, concerns=lambda inputs: False)
    result, _ = result_of("return 2 * x", nowhere)
    assert result.verdict == "ungraded"
    assert "concerns none" in result.message


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((Property("a", "a", 3),), "worth 3 points, the task 10"),
        ((Property("a", "a", 11), Property("b", "b", -1)), "give each some"),
        ((Property("a", "a", 5), Property("a", "b", 5)), "one name"),
    ],
)
def test_points_of_parts_add_up(parts: tuple[Property, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_lab(task("double", double, properties=parts))


def test_a_report_without_parts_is_still_read() -> None:
    data = json.loads(
        Report("lab", "v", "", "official", "", "", 1, "", [TaskResult("a", "a", 1, 1, "right")]).to_json()
    )
    del data["tasks"][0]["properties"]
    assert Report.from_json(json.dumps(data)).tasks[0].properties == []
