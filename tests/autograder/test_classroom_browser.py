"""A learner's way through a lab in a real browser: run, check, save, submit, read the feedback on its page."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_process import TOKEN, running
from notebook_kernel import ACCUMULATE, RULES, WRONG_RULES, write_notebook

from autograder import warm

pytestmark = [pytest.mark.slow, pytest.mark.browser]

PANEL = "[...jupyterapp.shell.widgets('main')].find(widget => widget.sessionContext)"
READY = f"window.jupyterapp && {PANEL}?.sessionContext.session?.kernel?.connectionStatus == 'connected'"
OUTPUT = "[...document.querySelectorAll('.ag-feedback')].map(shown => shown.innerText).join('\\n')"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    labs = home / "labs"
    labs.mkdir()
    imports = "import numpy as np\nfrom autograder import check, submit"
    write_notebook(
        labs / "lab05_tape.ipynb", imports, WRONG_RULES, 'check("rules")', ACCUMULATE, 'check("accumulate")', "submit()"
    )
    return home


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The browser that the tests of the book use."""
    file = Path(__file__).parents[1] / "book" / "conftest.py"
    spec = importlib.util.spec_from_file_location("browser_of_the_book", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tab = module.Browser(tmp_path_factory.mktemp("chromium"))
    yield tab
    tab.close()


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[str]:
    options = ["--LabApp.expose_app_in_browser=True", f"--LabApp.workspaces_dir={place / 'workspaces'}"]
    with running(place, place / "labs", *options, AUTOGRADER_HOME=str(place / "kept")) as port:
        yield f"http://127.0.0.1:{port}"
    warm.stop()


def test_run_check_submit_and_read(browser: Any, server: str, place: Path) -> None:
    browser.show(width=1300, height=2000)
    browser.open(f"{server}/lab/tree/lab05_tape.ipynb?token={TOKEN}")
    browser.wait(READY, 60)
    browser.ask(f"jupyterapp.shell.activateById({PANEL}.id)")
    browser.ask("jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)")
    browser.wait(f"({OUTPUT}).includes('is stored as submission 1')", 120)
    shown = browser.ask(OUTPUT)
    assert "Wrong answer" in shown
    assert "Run this in a new cell" in shown
    assert "Right" in shown
    requested = browser.requested()
    assert requested
    assert [url for url in requested if not url.startswith((server, server.replace("http", "ws")))] == []

    browser.ask(f"{PANEL}.context.save().then(() => true)")
    browser.open(f"{server}/autograder/")
    assert "best of 1 submission." in browser.ask("document.body.innerText")
    browser.ask("document.querySelector('th[scope=row] a').click()")
    browser.wait("document.querySelectorAll('.ag-task').length == 6")
    assert "The notebook as handed in" in browser.ask("document.body.innerText")
    assert browser.ask("document.querySelector('.ag-copy').hidden") is False
    assert browser.complaints() == []


def test_edit_that_is_not_saved_is_not_handed_in_silently(browser: Any, server: str, place: Path) -> None:
    browser.open(f"{server}/lab/tree/lab05_tape.ipynb")
    browser.wait(READY, 60)
    shutil.copy(place / "labs" / "lab05_tape.ipynb", place / "before.ipynb")
    browser.ask(
        "(async () => {"
        "  const kernel = " + PANEL + ".sessionContext.session.kernel;"
        "  window.heard = '';"
        f"  for (const code of [{RULES!r}, 'submit()']) {{"
        "    const run = kernel.requestExecute({code, store_history: true});"
        "    run.onIOPub = message => { window.heard += message.content?.data?.['text/plain'] ?? ''; };"
        "    await run.done;"
        "  }"
        "  return true;"
        "})()"
    )
    heard = browser.ask("window.heard")
    assert "Save the notebook first" in heard
    assert "`mul_rule`" in heard
    assert (place / "before.ipynb").read_bytes() == (place / "labs" / "lab05_tape.ipynb").read_bytes()
