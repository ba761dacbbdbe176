"""The pages in a browser: axe finds nothing serious, a phone shows all, the keyboard is enough, grades arrive."""

from __future__ import annotations

import importlib.util
import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from class_pages import HOSTILE, LAB, Class
from classroom_samples import RIGHT, WRONG, report

from autograder.gradebook import decisions, queries

pytestmark = [pytest.mark.slow, pytest.mark.browser]

ROOT = Path(__file__).resolve().parents[3]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
PAGES = [
    ("ada", ""),
    ("ada", "submission/{mine}"),
    ("ada", "no/such/page"),
    ("bob", "submission/{waiting}"),
    ("ines", "class/"),
    ("ines", f"class/lab/{LAB}"),
    ("ines", "class/learner?" + urllib.parse.urlencode({"name": HOSTILE})),
    ("ines", "class/learner?name=bob"),
    ("ines", "class/submission/{theirs}"),
    ("ines", "class/submission/{hostile}/notebook"),
    ("ines", "class/queue"),
    ("ines", "class/audit"),
    ("ines", "class/written"),
    ("ines", "class/people"),
    ("ines", f"class/similarity/{LAB}"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The browser that the tests of the book use."""
    spec = importlib.util.spec_from_file_location("browser_of_the_book", ROOT / "tests" / "book" / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tab = module.Browser(tmp_path_factory.mktemp("chromium"))
    yield tab
    tab.close()


def log_in(browser: Any, class_: Class, name: str) -> None:
    browser.call("Network.clearBrowserCookies")
    browser.call("Network.setCookie", name="who", value=urllib.parse.quote(name), url=class_.address)


def serious(browser: Any) -> list[str]:
    """What axe finds that keeps somebody from using the page."""
    browser.ask(AXE.read_text(encoding="utf-8") + "; true")
    found = browser.ask(
        "axe.run(document, {resultTypes: ['violations']}).then(result => result.violations"
        ".filter(one => ['serious', 'critical'].includes(one.impact))"
        ".map(one => one.id + ': ' + one.nodes.map(node => node.html.slice(0, 120)).join(' | ')))"
    )
    assert isinstance(found, list)
    return found


def waiting(class_: Class) -> int:
    with class_.book() as book:
        return queries.submissions(book, learner="bob", lab="lab06_rules")[0].id


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: npm ci")
@pytest.mark.parametrize(("who", "path"), PAGES)
def test_axe_finds_nothing_serious_and_a_phone_shows_the_whole_page(browser: Any, class_: Class, who: str, path: str):
    log_in(browser, class_, who)
    numbers = {"mine": class_.mine, "theirs": class_.theirs, "hostile": class_.hostile, "waiting": waiting(class_)}
    browser.show(dark=False)
    browser.open(class_.address + path.format(**numbers), settle=0.1)
    browser.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert serious(browser) == []
    browser.show(width=390, height=844, dark=True)
    assert serious(browser) == []
    assert browser.ask("document.documentElement.scrollWidth") <= 390
    assert [line for line in browser.complaints() if "404" not in line] == []
    assert all(url.startswith(class_.address) for url in browser.requested())


def test_axe_would_find_what_is_wrong(browser: Any, class_: Class):
    """The control of the test above."""
    log_in(browser, class_, "ines")
    browser.open(f"{class_.address}class/queue", settle=0.1)
    browser.ask("document.querySelector('label[for=learner]').remove()")
    assert any(line.startswith("label") for line in serious(browser))


KEYS = {"Tab": 9, "Enter": 13, " ": 32}


def press(browser: Any, key: str, text: str = "", modifiers: int = 0) -> None:
    about = {"key": key, "code": {" ": "Space"}.get(key, key), "windowsVirtualKeyCode": KEYS.get(key, 0)}
    about |= {"modifiers": modifiers}
    browser.call("Input.dispatchKeyEvent", type="keyDown", text=text or {"Enter": "\r", " ": " "}.get(key, ""), **about)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **about)


def tab_to(browser: Any, wanted: str) -> None:
    """Press Tab until what is focused matches the selector."""
    for _ in range(120):
        press(browser, "Tab")
        if browser.ask(f"document.activeElement.matches({json.dumps(wanted)})"):
            outline = browser.ask("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", "what has the focus must be seen"
            return
    raise AssertionError(f"no Tab leads to {wanted}")


def test_a_deadline_is_set_by_keyboard_alone(browser: Any, fresh: Class):
    log_in(browser, fresh, "ines")
    browser.show(width=1280, height=900)
    browser.open(f"{fresh.address}class/lab/lab06_rules", settle=0.1)
    press(browser, "Tab")
    assert browser.ask("document.activeElement.textContent") == "To the content"
    tab_to(browser, "summary")
    press(browser, "Enter")
    tab_to(browser, "#points")
    for letter in "12.5":
        press(browser, letter, letter)
    tab_to(browser, "#why")
    browser.call("Input.insertText", text="by keyboard")
    press(browser, "Enter")
    browser.wait("document.querySelector('[role=status]')?.textContent.includes('The terms are set')")
    with fresh.book() as book:
        assert decisions.assignments(book)["lab06_rules"].points == 12.5


def test_a_page_that_waits_shows_the_grade_when_it_arrives(browser: Any, fresh: Class):
    number = waiting(fresh)
    log_in(browser, fresh, "bob")
    browser.open(f"{fresh.address}submission/{number}", settle=0.1)
    browser.wait("document.getElementById('ag-wait')?.checkVisibility()")
    with fresh.book() as book:
        one = queries.submission(book, number)
        assert one is not None
        book.record(number, report(RIGHT, WRONG, sha256=one.sha256, lab="lab06_rules", mode="official"))
    browser.wait("document.querySelectorAll('.ag-task').length == 2", 60)
    assert browser.complaints() == []


def test_without_scripts_a_page_that_waits_says_to_load_it_again(browser: Any, class_: Class):
    log_in(browser, class_, "bob")
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(f"{class_.address}submission/{waiting(class_)}", settle=0.1)
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert "Reload this page" in browser.ask("document.body.innerText")
    assert "This page shows the result" not in browser.ask("document.body.innerText")


@pytest.mark.parametrize(
    ("zone", "shown"), [("America/New_York", "2026-10-06 17:59"), ("Asia/Shanghai", "2026-10-07 05:59")]
)
def test_times_are_in_the_zone_of_who_reads(browser: Any, class_: Class, zone: str, shown: str):
    log_in(browser, class_, "ada")
    browser.call("Emulation.setTimezoneOverride", timezoneId=zone)
    try:
        browser.open(class_.address, settle=0.1)
        assert shown in browser.ask("document.querySelector('td time').textContent")
        assert browser.ask("document.querySelector('td time').title") == "2026-10-06 21:59 UTC"
        assert browser.ask("document.querySelector('time.ag-also').hidden") is False
        browser.call("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
        browser.open(class_.address, settle=0.1)
        assert browser.ask("document.querySelector('time.ag-also').hidden") is True
    finally:
        browser.call("Emulation.setTimezoneOverride", timezoneId="")


def test_nothing_that_was_handed_in_runs(browser: Any, class_: Class):
    """Every page with hostile texts on it, in a browser that would tell of a dialog or a refused script."""
    log_in(browser, class_, "ines")
    quoted = urllib.parse.urlencode({"name": HOSTILE})
    paths = ["class/", f"class/lab/{LAB}", f"class/learner?{quoted}", f"class/submission/{class_.hostile}"]
    planted = "document.querySelectorAll('main script').length"
    for path in [*paths, f"class/submission/{class_.hostile}/notebook", "class/audit"]:
        browser.open(class_.address + path, settle=0.1)
        assert browser.complaints() == []
        assert browser.ask(planted) == 0
        assert not [event for event in browser.events if event["method"] == "Page.javascriptDialogOpening"]
        assert "<script>" in browser.ask("document.body.innerText")
