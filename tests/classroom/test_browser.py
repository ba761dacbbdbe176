"""A class at work in a real browser: a learner gets the labs, submits, reads feedback; the instructor sees it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hub_process import ROOT, Hub
from notebook_kernel import ACCUMULATE, RULES, write_notebook

pytestmark = [pytest.mark.slow, pytest.mark.browser]

GRADES = "/services/grading/autograder/"
PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
"""The notebook in front: those of earlier are restored behind it."""
BUTTON = f"document.querySelector('{PANEL} .class-submit')"
TOAST = "[...document.querySelectorAll('.Toastify__toast')].map(one => one.innerText).join('\\n')"
DIALOG = "document.querySelector('.jp-Dialog-content')"
TEXT = "document.body.innerText"


def log_in(browser: Any, hub: Hub, name: str, then: str) -> None:
    browser.open(f"{hub.base}/hub/login?next={then}")
    browser.ask(f"document.querySelector('#username_input').value = {name!r}")
    browser.ask(f"document.querySelector('#password_input').value = {hub.passwords[name]!r}")
    browser.ask("document.querySelector('form').requestSubmit()")
    browser.wait("!location.pathname.endsWith('/login')", 60)


def put(hub: Hub, name: str, file: str, *cells: str, lab: str = "lab05_tape") -> None:
    """Write a notebook into a person's folder, as theirs."""
    path = write_notebook(hub.state / "homes" / name / "labs" / file, *cells, lab=lab)
    owner = path.parent.stat()
    os.chown(path, owner.st_uid, owner.st_gid)


@pytest.fixture(scope="module")
def learner(new_browser: Callable[[], Any], hub: Hub) -> Any:
    """Ada's browser, in JupyterLab on the hub."""
    browser = new_browser()
    browser.show(width=1300, height=900)
    log_in(browser, hub, "ada", "%2Fhub%2Fspawn")
    browser.wait("location.pathname.startsWith('/user/ada/lab')", 180)
    return browser


def submit(browser: Any, hub: Hub, file: str) -> str:
    """Press the button; what the notification says in the end."""
    browser.open(f"{hub.base}/user/ada/lab/tree/{file}?reset")
    browser.wait(f"Boolean({BUTTON})", 120)
    browser.ask(f"{BUTTON}.click()")
    browser.wait(f"/points/.test({TOAST}) || Boolean({DIALOG})", 180)
    return browser.ask(f"{DIALOG}?.innerText ?? {TOAST}")


def test_the_labs_are_in_the_folder(learner: Any, hub: Hub) -> None:
    labs = hub.state / "homes" / "ada" / "labs"
    released = {path.name for path in (ROOT / "labs").glob("lab*.ipynb")}
    assert {path.name for path in labs.glob("lab*.ipynb")} == released
    assert (labs / "lab05_tape.ipynb").read_bytes() == (ROOT / "labs" / "lab05_tape.ipynb").read_bytes()
    learner.wait(f"{TEXT}.includes('lab05_tape.ipynb')", 60)
    assert "nbgrader" not in learner.ask(TEXT).lower()  # it has a menu of its own where it is installed


def test_submit_feedback_and_what_the_instructor_sees(learner: Any, hub: Hub, new_browser: Callable[[], Any]) -> None:
    put(hub, "ada", "lab05_tape.ipynb", "import numpy as np", RULES, ACCUMULATE)
    said = submit(learner, hub, "lab05_tape.ipynb")
    assert "lab05_tape.ipynb is stored as submission" in said
    assert "40 of 105 points" in said
    assert learner.complaints() == []
    number = int(said.split("is stored as submission ")[1].split()[0])
    learner.open(f"{hub.base}{GRADES}")
    assert "The tape" in learner.ask(TEXT)
    learner.open(f"{hub.base}{GRADES}submission/{number}")
    assert learner.ask("document.querySelectorAll('.ag-task').length") == 6
    assert learner.complaints() == []

    teacher = new_browser()
    log_in(teacher, hub, "teacher", "%2Fhub%2Fhome")
    teacher.open(f"{hub.base}{GRADES}class/submission/{number}")
    shown = teacher.ask(TEXT)
    assert "ada" in shown.lower()
    assert "lab05_tape" in shown
    assert teacher.complaints() == []
    learner.open(f"{hub.base}{GRADES}class/")
    assert "404" in learner.ask(TEXT)


def do(teacher: Any, form: str, said: str, **fields: str) -> str:
    """Fill a form of the class's page in, click its button, and see what the next page says."""
    found = f"document.querySelector('form:has(input[name=do][value={form}])')"
    teacher.wait(f"Boolean({found})")
    for name, value in fields.items():
        teacher.ask(f"{found}.elements[{json.dumps(name)}].value = {json.dumps(value)}")
    teacher.ask(f"{found}.querySelector('button').click()")
    teacher.wait(f"document.querySelector('.ag-said')?.innerText.includes({json.dumps(said)})", 60)
    return str(teacher.ask(TEXT))


def test_what_an_instructor_does_in_a_day(learner: Any, hub: Hub, new_browser: Callable[[], Any]) -> None:
    """Release, deadline, late rule, more time, statistics, adjust, regrade, people, tables: in a browser on the hub."""
    put(hub, "ada", "lab05_tape.ipynb", "import numpy as np", RULES, ACCUMULATE)
    submit(learner, hub, "lab05_tape.ipynb")
    teacher = new_browser()
    log_in(teacher, hub, "teacher", "%2Fhub%2Fhome")
    pages = f"{hub.base}{GRADES}class/"
    teacher.open(f"{pages}lab/lab05_tape")
    do(teacher, "hold", "held back")
    do(teacher, "release", "released")
    terms = {"zone": "Europe/Berlin", "due": "2031-10-05T23:59", "late": "10%/day max 50%", "why": "as planned"}
    do(teacher, "terms", "terms are set", **terms)
    more = {"learner": "ada", "until": "2031-10-07T23:59", "why": "ill"}
    assert "ada: until 2031-10-07 23:59" in do(teacher, "extend", "extension is set", **more)
    assert "Most frequent diagnosis" in teacher.ask(TEXT)
    do(teacher, "regrade", "Nothing was put into the queue", why="rule 3 was too strict")
    teacher.open(f"{pages}queue")
    assert "Queue" in teacher.ask(TEXT)
    teacher.open(f"{pages}learner?name=ada")
    adjusted = do(teacher, "adjust", "mark is adjusted", lab="lab05_tape", points="1.5", why="a good question")
    assert "a good question" in adjusted
    teacher.open(f"{pages}people")
    shown = do(teacher, "enrol", "in the class", name="hopper", shown_as="Grace Hopper", role="learner")
    assert "Shown this once" in shown
    hub.passwords["hopper"] = teacher.ask("document.querySelector('.ag-said td code').innerText")
    assert hub.session("hopper").ask(f"{GRADES}").status == 200
    teacher.open(f"{pages}audit")
    changes = teacher.ask(TEXT)
    assert all(why in changes for why in ("as planned", "ill", "rule 3 was too strict", "a good question"))
    assert teacher.complaints() == []
    session = hub.session("teacher")
    assert "ada" in session.ask(f"{GRADES}class/export/marks.csv?lab=lab05_tape").text
    assert "scores" in session.ask(f"{GRADES}class/export/lab05_tape-lti.json").json()
    learner.open(f"{hub.base}{GRADES}")
    assert "a good question" in learner.ask(TEXT)


def test_a_notebook_of_no_lab_has_no_button(learner: Any, hub: Hub) -> None:
    put(hub, "ada", "notes.ipynb", "1 + 1", lab="")
    learner.open(f"{hub.base}/user/ada/lab/tree/notes.ipynb?reset")
    learner.wait("document.querySelector('.lm-TabBar-tab.lm-mod-current[role=tab]') !== null", 120)
    learner.wait(f"document.querySelector('{PANEL} .jp-CodeCell')?.innerText.includes('1 + 1')", 60)
    assert learner.ask(f"Boolean({BUTTON})") is False


def test_what_cannot_be_handed_in_is_said(learner: Any, hub: Hub) -> None:
    put(hub, "ada", "of_no_lab_here.ipynb", "1 + 1", lab="lab99_nowhere")
    said = submit(learner, hub, "of_no_lab_here.ipynb")
    assert "Nothing was handed in" in said
    assert "lab99_nowhere" in said


def test_the_button_fits_a_phone_and_the_keyboard(learner: Any, hub: Hub, tmp_path: Path) -> None:
    """On a screen of 390 pixels it is seen and can be touched: not in the menu of what does not fit."""
    try:
        for width in (390, 1300):
            learner.show(width=width, height=900)
            learner.open(f"{hub.base}/user/ada/lab/tree/lab05_tape.ipynb?reset")
            learner.wait(f"Boolean({BUTTON}?.getBoundingClientRect().width)", 120)
            middle = "document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)"
            learner.wait(f"(box => {BUTTON}.contains({middle}))({BUTTON}.getBoundingClientRect())", 60)
            assert learner.ask(f"{BUTTON}.getBoundingClientRect().right") <= width
            assert learner.ask(f"{BUTTON}.getAttribute('aria-label') ?? {BUTTON}.innerText") == "Submit"
    finally:
        learner.show(width=1300, height=900)
    commands = "document.querySelector('.jp-NotebookPanel-toolbar').getAttribute('role')"
    assert learner.ask(commands) == "toolbar"


def test_the_button_speaks_the_language_of_the_browser(learner: Any, hub: Hub) -> None:
    put(hub, "ada", "of_no_lab_here.ipynb", "1 + 1", lab="lab99_nowhere")
    try:
        learner.call("Network.setExtraHTTPHeaders", headers={"Accept-Language": "zh-CN,zh;q=0.9"})
        learner.open(f"{hub.base}/user/ada/lab/tree/of_no_lab_here.ipynb?reset")
        learner.wait(f"Boolean({BUTTON})", 120)
        assert learner.ask(f"{BUTTON}.innerText") == "提交"
        learner.ask(f"{BUTTON}.click()")
        learner.wait(f"Boolean({DIALOG})", 120)
        assert "提交" in learner.ask(f"{DIALOG}.innerText")
    finally:
        learner.call("Network.setExtraHTTPHeaders", headers={})


def test_the_notebook_is_saved_before_it_is_handed_in(learner: Any, hub: Hub) -> None:
    # The last one of this browser: a page that was typed into asks before it is left.
    put(hub, "ada", "unsaved.ipynb", "import numpy as np", "pass")
    learner.open(f"{hub.base}/user/ada/lab/tree/unsaved.ipynb?reset")
    learner.wait(f"Boolean({BUTTON})", 120)
    cells = f"document.querySelectorAll('{PANEL} .jp-CodeCell .cm-content')"
    learner.wait(f"{cells}.length >= 2", 60)
    learner.ask(f"{cells}[1].focus()")
    learner.call("Input.insertText", text="mul_rule = 'typed and not saved'  # ")
    learner.wait(f"{cells}[1].innerText.includes('typed and not saved')")
    learner.ask(f"{BUTTON}.click()")
    learner.wait(f"({TOAST}).includes('points')", 100)
    saved = json.loads((hub.state / "homes" / "ada" / "labs" / "unsaved.ipynb").read_text())
    assert "typed and not saved" in "".join("".join(one["source"]) for one in saved["cells"])


def test_a_notebook_that_changed_elsewhere_is_not_handed_in_unasked(
    learner: Any, hub: Hub, new_browser: Callable[[], Any]
) -> None:
    put(hub, "ada", "twice.ipynb", "import numpy as np", "pass")
    learner = new_browser()
    learner.show(width=1300, height=900)
    log_in(learner, hub, "ada", "%2Fhub%2Fhome")
    learner.open(f"{hub.base}/user/ada/lab/tree/twice.ipynb?reset")
    learner.wait(f"Boolean({BUTTON})", 120)
    cells = f"document.querySelectorAll('{PANEL} .jp-CodeCell .cm-content')"
    learner.wait(f"{cells}.length >= 2", 60)
    put(hub, "ada", "twice.ipynb", "import numpy as np", "'from another tab'")
    learner.ask(f"{cells}[1].focus()")
    learner.call("Input.insertText", text="'from this one'  # ")
    learner.wait(f"{cells}[1].innerText.includes('from this one')")
    learner.ask(f"{BUTTON}.click()")
    learner.wait(f"{DIALOG}?.innerText.includes('changed on disk')", 60)
    learner.ask("[...document.querySelectorAll('.jp-Dialog-button')].find(one => one.innerText === 'Cancel').click()")
    learner.wait(f"{DIALOG}?.innerText.includes('nothing was handed in')", 60)
    assert "from another tab" in (hub.state / "homes" / "ada" / "labs" / "twice.ipynb").read_text()
