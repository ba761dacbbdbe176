"""A class at work in a real browser: a learner gets the labs, submits, reads feedback; the instructor sees it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hub_process import Hub
from notebook_kernel import ACCUMULATE, RULES, write_notebook

pytestmark = [pytest.mark.slow, pytest.mark.browser]

PANEL = "[...jupyterapp.shell.widgets('main')].find(widget => widget.sessionContext)"
READY = f"window.jupyterapp && {PANEL}?.sessionContext.session?.kernel?.connectionStatus == 'connected'"
BUTTON = "document.querySelector('.class-submit button, jp-button.class-submit, .class-submit jp-button')"
TOAST = "[...document.querySelectorAll('.Toastify__toast')].map(one => one.innerText).join('\\n')"


def log_in(browser: Any, hub: Hub, name: str, next_: str) -> None:
    browser.open(f"{hub.base}/hub/login?next={next_}")
    browser.ask(f"document.querySelector('#username_input').value = {name!r}")
    browser.ask(f"document.querySelector('#password_input').value = {hub.passwords[name]!r}")
    browser.ask("document.querySelector('form').requestSubmit()")


@pytest.fixture(scope="module")
def learner(new_browser: Callable[[], Any], hub: Hub) -> Any:
    """Ada's browser, in JupyterLab on the hub."""
    browser = new_browser()
    browser.show(width=1300, height=900)
    log_in(browser, hub, "ada", "%2Fhub%2Fspawn")
    browser.wait("location.pathname.startsWith('/user/ada/lab')", 120)
    return browser


def put(hub: Hub, name: str, file: str, *cells: str) -> None:
    """Write a notebook into a person's folder, as theirs."""
    path = hub.state / "homes" / name / "labs" / file
    write_notebook(path, *cells)
    owner = path.parent.stat()
    os.chown(path, owner.st_uid, owner.st_gid)


def test_a_learner_gets_the_labs_submits_and_reads_the_feedback(learner: Any, hub: Hub) -> None:
    labs = hub.state / "homes" / "ada" / "labs"
    assert (labs / "lab05_tape.ipynb").read_bytes() == Path("labs/lab05_tape.ipynb").read_bytes()
    put(hub, "ada", "lab05_tape.ipynb", "import numpy as np", RULES, ACCUMULATE)
    learner.open(f"{hub.base}/user/ada/lab/tree/lab05_tape.ipynb")
    learner.wait(f"Boolean({BUTTON})", 90)
    learner.ask(f"{BUTTON}.click()")
    learner.wait(f"({TOAST}).includes('is stored as submission')", 60)
    learner.wait(f"/ of \\d+ points/.test({TOAST})", 120)
    learner.picture(Path("/tmp/submit.png"), whole=False)
    assert learner.complaints() == []
    learner.open(f"{hub.base}/services/grading/autograder/")
    assert "Lab 5" in learner.ask("document.body.innerText") or "lab05" in learner.ask("document.body.innerText")
