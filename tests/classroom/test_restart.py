"""A hub that is killed while submissions come in: nothing is lost, nothing graded twice, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import hub_process
import psutil
import pytest
from hub_process import Session
from notebook_kernel import RULES, write_notebook
from test_security import GRADING, hand_in

from autograder.gradebook import open_gradebook, queries
from autograder.oracles import runtime

pytestmark = pytest.mark.slow


def below(process: int) -> list[psutil.Process]:
    """All that a process has started, but for what serves every test of this user: oracles, and the checks' process."""
    shared = ("autograder.oracles", "autograder.daemon")
    return [
        one
        for one in psutil.Process(process).children(recursive=True)
        if not any(word.startswith(shared) for word in one.cmdline())
    ]


def test_a_hub_killed_in_mid_submission_loses_nothing(tmp_path: Path, can_run_hub: None) -> None:
    shared = {"AUTOGRADER_RUNTIME_DIR": str(runtime.directory())}
    state = tmp_path / "hub"
    hub = hub_process.start(state, passwords=hub_process.small_class(state), **shared)
    left: list[psutil.Process] = []
    try:
        session = hub.session("ada")
        works = [
            write_notebook(tmp_path / "n.ipynb", f"import numpy as np  # {number}", RULES).read_bytes()
            for number in range(3)
        ]
        taken = [hand_in(session, work) for work in works]
        assert [answer.status for answer in taken] == [202, 202, 202]
        numbers = [answer.json()["submission"] for answer in taken]
        left = below(hub.process.pid)
        jupyterhub = next(one for one in left if "jupyterhub" in " ".join(one.cmdline()))
        jupyterhub.send_signal(signal.SIGKILL)
        assert hub.process.wait(60) == 1
        assert any("ended by itself" in line for line in hub.said)
        _, alive = psutil.wait_procs([one for one in left if one.is_running()], timeout=60)
        assert alive == []
    finally:
        hub.stop()
        for one in left:
            if one.is_running():
                one.kill()

    again = hub_process.start(state, passwords=hub.passwords, **shared)
    try:
        session = again.session("ada")
        session.ask(GRADING + "autograder/")
        for number in numbers:
            deadline = time.monotonic() + 150
            found = session.ask(f"{GRADING}api/submissions/{number}?wait=20").json()
            while found["state"] in ("waiting", "leased") and time.monotonic() < deadline:
                found = session.ask(f"{GRADING}api/submissions/{number}?wait=20").json()
            assert found["state"] == "graded", found
            assert json.loads(found["report"])["tasks"][0]["verdict"] == "right"
        assert session.ask("/hub/home").url.endswith("/hub/home")
    finally:
        again.stop()
    with open_gradebook(state / "gradebook" / "gradebook.sqlite") as book:
        assert sorted(one.id for one in queries.submissions(book, learner="ada")) == sorted(numbers)
        assert all(one.points is not None for one in queries.submissions(book, learner="ada"))


def test_two_tabs_and_two_people_at_once(hub: hub_process.Hub, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    data = write_notebook(tmp_path / "n.ipynb", f"import numpy as np  # {os.urandom(4).hex()}", RULES).read_bytes()
    tabs: list[Session] = [hub.session("grace"), hub.session("grace"), hub.session("ada")]
    with ThreadPoolExecutor(3) as together:
        answers = list(together.map(lambda tab: hand_in(tab, data), tabs))
    assert [answer.status for answer in answers] == [202] * 3
    first, second, other = (answer.json()["submission"] for answer in answers)
    assert first == second
    assert other != first


def test_a_person_who_left_is_out(hub: hub_process.Hub, tmp_path: Path) -> None:
    hub.passwords["eve"] = hub_process.command(hub.state, "add", "eve").split()[-1]
    session = hub.session("eve")
    data = write_notebook(tmp_path / "n.ipynb", "import numpy as np", RULES).read_bytes()
    number = hand_in(session, data).json()["submission"]
    hub_process.command(hub.state, "remove", "eve")
    answer = hand_in(session, data + b"\n")
    assert answer.status == 403
    assert "Nothing was handed in" in answer.json()["reason"]
    assert Session(hub.base).log_in("eve", hub.passwords["eve"]).status in (401, 403)
    with open_gradebook(hub.state / "gradebook" / "gradebook.sqlite") as book:
        assert [one.id for one in queries.submissions(book, learner="eve")] == [number]
