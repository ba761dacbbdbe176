"""Cases come from a recorded seed, and a failing one is made small, in bounded time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder import generate
from autograder.answerkey import AnswerKey, InProcess, settle
from autograder.oracles import Answer, OracleError
from autograder.spec import Inputs, Lab, Task


def strategy() -> Any:
    from hypothesis import strategies as st

    shapes = st.lists(st.integers(1, 6), max_size=3)
    seeds = st.integers(0, 2**32 - 1)
    return st.tuples(shapes, seeds).map(lambda drawn: {"x": np.random.default_rng(drawn[1]).normal(size=drawn[0])})


def edges(rng: np.random.Generator) -> list[Inputs]:
    return [{"x": rng.normal(size=shape)} for shape in ((), (0,), (1, 1))]


def double(framework: Any, x: np.ndarray) -> np.ndarray:
    return 2 * np.asarray(x)


def a_task(**changed: Any) -> Task:
    given: dict[str, Any] = {
        "name": "double",
        "title": "Twice",
        "points": 1.0,
        "names": ("double",),
        "driver": "double",
        "call": lambda x: "double(x)",
        "strategy": strategy,
        "edges": edges,
        "oracles": {"one": double, "other": double},
    }
    return Task(**(given | changed))


class Fake:
    """An oracle in this process."""

    def __init__(self, name: str) -> None:
        self.name = name

    def launch(self) -> None:
        pass

    def answer(self, lab: Lab, task: Task, cases: Any) -> list[Answer]:
        answers = []
        for inputs in cases:
            try:
                answers.append(Answer(value=task.oracles[self.name](None, **inputs)))
            except RuntimeError as error:
                answers.append(Answer(error=str(error)))
        return answers


def key_of(task: Task, **oracles: Any) -> AnswerKey:
    found = {"one": Fake("one"), "other": Fake("other")} | oracles
    return AnswerKey(Lab("labxx_small", "Small", (task,)), 5, found)


@pytest.mark.slow
def test_same_seed_same_cases() -> None:
    first, second, other = (generate.draw(a_task(), seed) for seed in (5, 5, 6))
    assert len(first) == len(second) == 3 + 25
    assert all(np.array_equal(one["x"], two["x"]) for one, two in zip(first, second, strict=True))
    assert any(not np.array_equal(one["x"], two["x"]) for one, two in zip(first, other, strict=True))


@pytest.mark.slow
def test_threads_do_not_disturb_each_other() -> None:
    def job(seed: int) -> tuple[Any, ...]:
        drawn = [case["x"].tolist() for case in generate.draw(a_task(), seed)]
        found = generate.shrink(a_task(), seed, lambda inputs: inputs["x"].size > 2, seconds=60)
        assert found is not None
        return drawn, found["x"].tolist()

    alone = [job(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(job, range(8))) == alone


@pytest.mark.slow
def test_edges_come_first_and_have_fresh_numbers() -> None:
    one, other = generate.draw(a_task(), 1), generate.draw(a_task(), 2)
    assert [case["x"].shape for case in one[:3]] == [(), (0,), (1, 1)]
    assert one[0]["x"] != other[0]["x"]


@pytest.mark.slow
def test_nothing_is_written_where_the_learner_works(tmp_path: Path) -> None:
    # In a process of its own: pytest's Hypothesis plugin has chosen a place for this one.
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import small_lab\n"
    code += "from autograder import generate; generate.draw(small_lab.DOUBLE, 3)"
    environment = os.environ | {"PYTHONPATH": str(Path(generate.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_failing_case_is_made_small() -> None:
    found = generate.shrink(a_task(), 5, lambda inputs: inputs["x"].ndim == 2 and inputs["x"].shape[1] >= 2)
    assert found is not None
    assert found["x"].shape == (1, 2)


def test_no_case_fails() -> None:
    assert generate.shrink(a_task(), 5, lambda inputs: False, calls=50) is None


@pytest.mark.slow
def test_the_search_ends_in_time() -> None:
    def slow(inputs: Inputs) -> bool:
        time.sleep(0.01)
        return False

    began = time.monotonic()
    assert generate.shrink(a_task(), 5, slow, seconds=0.3, calls=100_000) is None
    assert time.monotonic() - began < 2


def test_the_search_ends_after_so_many_calls_and_keeps_what_it_found() -> None:
    asked: list[Inputs] = []

    def fails(inputs: Inputs) -> bool:
        asked.append(inputs)
        return inputs["x"].size >= 10

    found = generate.shrink(a_task(), 5, fails, calls=25)
    assert len(asked) == 25
    assert found is not None
    assert found["x"].size >= 10


def test_code_that_answers_differently_each_time_does_not_break_the_search() -> None:
    flips = iter(range(10_000))
    generate.shrink(a_task(), 5, lambda inputs: next(flips) % 3 == 0)


def test_a_predicate_may_end_the_search() -> None:
    asked: list[Inputs] = []

    def ends(inputs: Inputs) -> bool:
        asked.append(inputs)
        raise generate.Enough

    assert generate.shrink(a_task(), 5, ends) is None
    assert len(asked) == 1


def test_size_prefers_what_is_quick_to_read() -> None:
    sizes = [generate.size({"x": x}) for x in (np.ones(()), np.ones(1), np.ones(3), np.ones((0,)), np.ones((2, 4)))]
    assert sizes == sorted(sizes)
    assert generate.size({"repeat": 50_000}) > generate.size({"repeat": 2})


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_cases_come_with_the_answer_all_agree_on() -> None:
    task = a_task()
    cases = key_of(task).cases(task)
    assert len(cases) == 28
    assert all(np.array_equal(case.want, 2 * case.inputs["x"]) for case in cases)


def test_a_case_can_be_asked_beside_them() -> None:
    task = a_task()
    assert key_of(task).want(task, {"x": np.array([1.5])}).tolist() == [3.0]


def broken(framework: Any, x: np.ndarray) -> np.ndarray:
    raise RuntimeError("no kernel")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"oracles": {"one": double, "other": lambda framework, x: 2 * x + 1}},
            "one and other disagree on case 1 of double",
        ),
        ({"edges": lambda rng: 1 / 0}, "cannot be drawn: ZeroDivisionError"),
        ({"strategy": lambda: None}, "cannot be drawn"),
        ({"oracles": {"one": double, "other": broken}}, "no kernel"),
    ],
)
def test_a_task_without_a_sure_answer_says_so(changed: dict[str, Any], words: str) -> None:
    task = a_task(**changed)
    with pytest.raises(OracleError, match=words):
        key_of(task).cases(task)


@pytest.mark.slow
def test_a_fault_in_one_task_leaves_the_others() -> None:
    bad, good = a_task(name="bad", oracles={"one": double, "other": broken}), a_task()
    key = AnswerKey(Lab("labxx_small", "Small", (bad, good)), 5, {"one": Fake("one"), "other": Fake("other")})
    assert len(key.cases(good)) == 28
    with pytest.raises(OracleError):
        key.cases(bad)


def test_where_oracles_differ_the_judge_may_accept_both() -> None:
    # The gradient of a maximum at a tie: all to the first, or half to each.
    def judge(inputs: Inputs, got: Any, want: Any) -> list[str]:
        return [] if np.sum(got) == np.sum(want) == 1 else ["the shares do not sum to 1."]

    task = a_task(judge=judge)
    replies = {"one": [Answer(np.array([1.0, 0.0]))], "other": [Answer(np.array([0.5, 0.5]))]}
    assert settle(task, [{"x": 1}], replies)[0].want.tolist() == [1.0, 0.0]
    with pytest.raises(OracleError, match="disagree"):
        settle(task, [{"x": 1}], replies | {"other": [Answer(np.array([0.5, 0.6]))]})


def test_an_oracle_in_this_process() -> None:
    task = a_task(oracles={"numpy": double, "other": double})
    lab = Lab("labxx_small", "Small", (task,))
    assert InProcess().answer(lab, task, [{"x": np.ones(2)}])[0].value.tolist() == [2, 2]
    task = a_task(oracles={"numpy": broken, "other": double})
    assert InProcess().answer(lab, task, [{"x": np.ones(2)}])[0].error == "RuntimeError: no kernel"
