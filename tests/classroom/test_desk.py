"""What the grading service does for a learner, without a hub: what it takes, what it refuses, what it finds again."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import RULES, write_notebook
from queue_work import said

from autograder import queue
from autograder.gradebook import GradebookError, decisions, queries, roster
from autograder.gradebook.models import now
from autograder.queue import taking
from autograder.queue.views import job_of
from autograder.web import learning
from autograder.web.views import Links
from classroom.desk import Allowance, Desk, Refused

LAB = "lab05_tape"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(str(tmp_path / "gradebook.sqlite"), tmp_path / "labs")
    (tmp_path / "labs").mkdir()
    for lab in (LAB, "lab06_rules"):
        (tmp_path / "labs" / f"{lab}.ipynb").write_text("{}")
    decisions.assign(found.book, LAB, by="teacher", released=now() - timedelta(days=1))
    yield found
    found.book.close()


def work(tmp_path: Path, lab: str = LAB) -> dict[str, Any]:
    data = write_notebook(tmp_path / "n.ipynb", f"# {secrets.token_hex(4)}", RULES, lab=lab).read_bytes()
    return {"filename": f"{lab}.ipynb", "notebook": base64.b64encode(data).decode()}


def count(desk: Desk) -> int:
    return len(queries.submissions(desk.book))


def test_what_is_taken_is_stored_and_in_the_queue(desk: Desk, tmp_path: Path) -> None:
    request = work(tmp_path)
    taken = desk.take("ada", request)
    number = taken["submission"]
    assert f"is stored as submission {number} for {LAB}." in taken["line"]
    assert queries.notebook(desk.book, number) == base64.b64decode(request["notebook"])
    job = queue.job_of(desk.book, number)
    assert job is not None
    assert job.state == "waiting"
    again = desk.take("ada", request)
    assert again["submission"] == number
    assert "attempt 2" in again["line"]
    assert len(queue.watch(desk.book)) == 1
    assert desk.state("ada", number, "/")["state"] == "waiting"
    with pytest.raises(Refused, match="You have no submission") as refused:
        desk.state("alan", number, "/")
    assert refused.value.status == 404


REFUSED: dict[str, tuple[dict[str, Any], int]] = {
    "no notebook": ({"notebook": None}, 400),
    "a number for a notebook": ({"notebook": 7}, 400),
    "half of one": ({"notebook": "e30"}, 400),
    "no base64": ({"notebook": "{}{}"}, 400),
    "no JSON": ({"notebook": base64.b64encode(b"not a notebook").decode()}, 400),
    "no cells": ({"notebook": base64.b64encode(b"{}").decode()}, 400),
    "another lab": ({"lab": "lab06_rules"}, 400),
    "no such lab": ({"lab": "lab99"}, 400),
    "cells that are none": ({"cells": [["1", "x", True]]}, 400),
    "cells of two": ({"cells": [[1, "x"]]}, 400),
    "a true number": ({"cells": [[True, "x", True]]}, 400),
    "stale cells": ({"cells": [[1, "def mul_rule(g, x, y):\n    return 1", True]]}, 400),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_is_not_stored(desk: Desk, tmp_path: Path, what: str) -> None:
    changes, status = REFUSED[what]
    with pytest.raises(Refused) as refused:
        desk.take("ada", work(tmp_path) | changes)
    assert refused.value.status == status
    assert refused.value.words
    assert count(desk) == 0


def test_a_notebook_bomb_is_refused(desk: Desk) -> None:
    for bomb in (b"[" * 3_000_000, b'{"cells": ' + b"[" * 200_000, b'{"a":' * 100_000):
        with pytest.raises(Refused) as refused:
            desk.take("ada", {"filename": "n.ipynb", "notebook": base64.b64encode(bomb).decode()})
        assert refused.value.status == 400
    assert count(desk) == 0


def test_only_released_labs_are_given_and_taken(desk: Desk, tmp_path: Path) -> None:
    assert [lab["name"] for lab in desk.list()] == [LAB]
    for name in ("lab06_rules", "lab99", "../gradebook"):
        with pytest.raises(Refused, match="no lab") as refused:
            desk.notebook(name)
        assert refused.value.status == 404
    with pytest.raises(Refused, match="not released") as refused:
        desk.take("ada", work(tmp_path, "lab06_rules"))
    assert refused.value.status == 403
    roster.enrol(desk.book, "teacher", by="setup", roles=["instructor"])
    assert desk.take("teacher", work(tmp_path, "lab06_rules"))["lab"] == "lab06_rules"
    decisions.assign(desk.book, "lab06_rules", by="teacher", released=now() + timedelta(hours=1))
    assert [lab["name"] for lab in desk.list()] == [LAB]
    decisions.assign(desk.book, "lab06_rules", by="teacher", released=now() - timedelta(seconds=1))
    assert [lab["name"] for lab in desk.list()] == [LAB, "lab06_rules"]


def test_who_left_hands_nothing_in(desk: Desk, tmp_path: Path) -> None:
    roster.enrol(desk.book, "ada", by="setup")
    roster.leave(desk.book, "ada", by="teacher")
    with pytest.raises(Refused, match="not in this class") as refused:
        desk.take("ada", work(tmp_path))
    assert refused.value.status == 403
    assert count(desk) == 0


def test_a_result_that_is_withheld_is_not_told(desk: Desk, tmp_path: Path) -> None:
    number = desk.take("ada", work(tmp_path))["submission"]
    decisions.assign(desk.book, LAB, by="teacher", results=now() + timedelta(days=1))
    state = desk.state("ada", number, "/")
    assert state["state"] == "withheld"
    assert set(state) == {"submission", "state", "words"}


@pytest.mark.parametrize("first", [True, False])
def test_a_grade_that_comes_between_two_looks_is_told_or_waited_for(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """The worker is done between the two: nobody is told to wait for what will not change any more."""
    number = desk.take("ada", work(tmp_path))["submission"]
    one = queries.submission(desk.book, number)
    assert one is not None

    def then_graded(look: Callable[..., Any]) -> Callable[..., Any]:
        def looking(*asked: Any) -> Any:
            found = look(*asked)
            for lease in taking.claim(desk.book, "a worker"):
                assert taking.finish(desk.book, lease, said(lease.work.data))
            return found

        return looking

    monkeypatch.setattr(queries, "report", then_graded(queries.report))
    for place in (queue, learning):
        monkeypatch.setattr(place, "job_of", then_graded(job_of), raising=False)
    if first:
        assert desk.state("ada", number, "/")["state"] in ("waiting", "graded")
    else:
        page, _ = learning.feedback(desk.book, one, Links("/", "/", "/"))
        assert "data-state" in page or "Right" in page
    assert desk.state("ada", number, "/")["state"] == "graded"


def test_what_was_stored_but_not_queued_is_found(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*given: Any, **named: Any) -> None:
        raise GradebookError("the database is locked")

    with monkeypatch.context() as broken:
        broken.setattr("classroom.desk.queue.enqueue", away)
        taken = desk.take("ada", work(tmp_path))
    assert "stored as submission" in taken["line"]
    assert queue.watch(desk.book) == []
    assert desk.catch_up() == 1
    assert [job.submission_id for job in queue.watch(desk.book)] == [taken["submission"]]
    assert desk.catch_up() == 0


def test_a_gradebook_that_is_away_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.write_text("a file where a folder should be")
    desk = Desk(str(folder / "gradebook.sqlite"), tmp_path)
    with pytest.raises(GradebookError):
        desk.list()
    folder.unlink()
    assert desk.list() == []
    desk.book.close()


def test_an_allowance_is_each_person_s_own_and_comes_back() -> None:
    moment = 50.0
    allowance = Allowance(3, 60.0, clock=lambda: moment)
    assert [allowance.take("ada") for _ in range(3)] == [0.0] * 3
    wait = allowance.take("ada")
    assert 0 < wait <= 20
    assert allowance.take("alan") == 0
    moment += wait - 1
    assert allowance.take("ada") > 0
    moment += 2
    assert allowance.take("ada") == 0
    assert allowance.take("ada") > 0


def test_too_often_is_refused_before_anything_is_read(desk: Desk, tmp_path: Path) -> None:
    desk.submissions = Allowance(1, 600.0)
    desk.take("ada", work(tmp_path))
    with pytest.raises(Refused, match=r"Wait \d+ seconds") as refused:
        desk.take("ada", {"notebook": None})
    assert refused.value.status == 429
    assert count(desk) == 1


def test_one_check_of_a_learner_at_a_time(desk: Desk) -> None:
    with desk._alone("ada"):
        with pytest.raises(Refused, match="Another check of yours"):
            desk.check("ada", {"tasks": ["rules"], "cells": [], "defined": []})
        with desk._alone("alan"):
            pass
    with desk._alone("ada"):
        pass


@pytest.mark.parametrize("skeleton", ["{", "nonsense", "[1,"])
def test_a_skeleton_that_is_no_json_is_refused(desk: Desk, skeleton: str) -> None:
    with pytest.raises(Refused, match="no JSON"):
        desk.check("ada", {"tasks": ["rules"], "cells": [], "defined": [], "skeleton": skeleton})


def test_what_a_check_asks_reads_no_file_of_the_service(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def ask(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        asked.append(request | {"text": Path(request["file"]).read_text() if request["file"] else ""})
        yield {"progress": "waiting"}
        yield {"report": "r", "html": "h", "text": "t", "about": "secret"}

    monkeypatch.setattr("classroom.desk.warm.ask", ask)
    request = {
        "tasks": ["rules"],
        "cells": [[1, "x = 1", True]],
        "defined": ["x"],
        "file": "/etc/shadow",
        "do": "submit",
    }
    for name in ("/etc/shadow", "../../gradebook.ipynb", "n.ipynb\0", "", "a" * 300 + ".ipynb"):
        desk.check("ada", request | {"filename": name, "skeleton": '{"cells": []}'})
    assert desk.check("ada", request) == {"report": "r", "html": "h", "text": "t"}
    for one in asked[:-1]:
        assert one["text"] == '{"cells": []}'
        assert not Path(one["file"]).exists(), "the skeleton is removed after the check"
    assert asked[-1]["file"] == ""
    assert {one["do"] for one in asked} == {"check"}
    assert json.loads(asked[0]["text"]) == {"cells": []}
