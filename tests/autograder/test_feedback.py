"""Feedback says all that a report says, on every surface, and nothing that a learner's text smuggles in."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import pytest
from classroom_samples import FAILED, MISSING, REFUSED, RIGHT, UNGRADED, WRONG, report

from autograder.feedback import Feedback, page, text
from autograder.feedback.html import prose
from autograder.report import CounterExample, TaskResult

ATTACK = "</pre></code><script>alert(1)</script><img src=x onerror=alert(2)>\"'&`<b>`{{ 7*7 }}\x1b[2J\x07"


class Reader(HTMLParser):
    """What a browser would see: the tags with their attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "img", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> does not match"

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def surfaces(shown) -> dict[str, str]:
    return {
        "page": Reader(page(shown)).text,
        "notebook": Reader(Feedback(shown)._repr_html_()).text,
        "terminal": text(shown),
    }


@pytest.mark.parametrize("surface", ["page", "notebook", "terminal"])
def test_every_part_of_the_report_is_shown(surface):
    shown = re.sub(r"[\s`]+", " ", surfaces(report())[surface])
    wanted = [
        "Wrong answer",
        "Right",
        "Not found",
        "Did not finish",
        "Not allowed",
        WRONG.message,
        *WRONG.diagnosis,
        WRONG.counter_example.inputs,
        WRONG.counter_example.expected,
        WRONG.counter_example.got,
        WRONG.counter_example.replay,
        "PyTorch and TensorFlow",
        FAILED.traceback,
        *FAILED.notes,
        "0 of 3 points",
        "0 of 1 point",
        "Tried on 31 inputs",
        "1 of 5 tasks is right: 2 of 10 points.",
        "20260901",
    ]
    for part in wanted:
        assert re.sub(r"[\s`]+", " ", part) in shown


@pytest.mark.parametrize(
    "field",
    ["title", "name", "message", "traceback", "diagnosis", "notes", "inputs", "expected", "got", "replay", "oracles"],
)
def test_hostile_text_stays_text(field):
    example = CounterExample(inputs="x", expected="1", got="2", replay="f(x)", oracles=["torch"])
    task = dataclasses.replace(WRONG, counter_example=example)
    if field in {"inputs", "expected", "got", "replay"}:
        setattr(example, field, ATTACK)
    elif field == "oracles":
        example.oracles = [ATTACK]
    else:
        setattr(task, field, [ATTACK] if field in {"diagnosis", "notes"} else ATTACK)
    shown = report(task)
    for html, scripts in ((page(shown), 1), (Feedback(shown)._repr_html_(), 0)):
        reader = Reader(html)
        assert len(reader.all("script")) == scripts
        assert not reader.all("img")
        assert not [attrs for _, attrs in reader.tags if any(name.startswith("on") for name in attrs)]
        assert "alert(1)" in reader.text
        assert "49" not in reader.text.replace("0123456789ab", "")
    assert "\x1b" not in text(shown)
    assert "\x07" not in text(shown)


@pytest.mark.parametrize("field", ["lab", "title", "file", "sandbox", "spec_version", "sha256", "graded_at", "notes"])
def test_hostile_text_around_the_tasks_stays_text(field):
    shown = report(**{field: [ATTACK] if field == "notes" else ATTACK})
    reader = Reader(page(shown, links=[("/autograder/", ATTACK)]))
    assert (len(reader.all("script")), len(reader.all("img"))) == (1, 0)
    assert not Reader(Feedback(shown, before=ATTACK, label=ATTACK, link="/x")._repr_html_()).all("img")


def test_page_makes_no_request_and_says_so():
    reader = Reader(page(report()))
    for tag in ("img", "iframe", "object", "embed", "base", "form"):
        assert not reader.all(tag)
    assert [attrs["href"] for attrs in reader.all("link")] == ["data:,"]
    assert all("src" not in attrs for attrs in reader.all("script"))
    html = page(report())
    assert not re.search(r"url\(|@import|https?://", html)
    [csp] = [attrs["content"] for attrs in reader.all("meta") if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert csp.startswith("default-src 'none'")
    assert "unsafe" not in csp


def test_headings_step_down_one_at_a_time_and_the_page_names_its_language():
    reader = Reader(page(report()))
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert reader.all("html") == [{"lang": "en"}]
    assert len(reader.all("main")) == 1
    assert all(attrs.keys() >= {"tabindex", "role", "aria-label"} for attrs in reader.all("pre"))


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_colours_contrast_in_light_and_dark():
    """WCAG 2.2, 1.4.3: text at 4.5 to 1 or more against both grounds it may stand on."""
    schemes = re.findall(r":root \{(.*?)\}", page(report()), re.S)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", scheme))
        for ground in ("paper", "sunk"):
            for name in set(colours) - {"paper", "sunk", "line"}:
                dark, light = sorted([luminance(colours[name]), luminance(colours[ground])])
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, ground)


@pytest.mark.parametrize("task", [WRONG, RIGHT, MISSING, FAILED, REFUSED, UNGRADED], ids=lambda task: task.verdict)
def test_words_are_plain_whatever_the_verdict(task):
    for shown in surfaces(report(task)).values():
        prose_only = shown.replace(task.traceback, "")
        assert "!" not in prose_only
        assert "None" not in prose_only


def test_fault_of_ours_is_not_laid_at_the_learners_door():
    assert all("not held against you" in re.sub(r"\s+", " ", shown) for shown in surfaces(report(UNGRADED)).values())
    assert not any("held against you" in shown for shown in surfaces(report(WRONG)).values())


def test_practice_and_official_are_told_apart():
    assert "Practice" in text(report())
    assert "has the last word" in page(report(), submitted=True)
    assert "has the last word" in text(report(), width=300, submitted=True)


@pytest.mark.parametrize("shown", [page, text])
def test_points_count_only_where_they_are_recorded(shown):
    official = report(mode="official")
    assert "these points count" in shown(official, submitted=True)
    assert "nothing was handed in or recorded" in shown(official)
    assert "points count" not in shown(official)


def test_feedback_is_true_only_for_full_marks():
    assert Feedback(report(RIGHT))
    assert not Feedback(report(RIGHT, WRONG))


def test_notebook_gets_html_and_text():
    bundle = Feedback(
        report(), before="Stored as submission 3.", link="/autograder/", label="All labs"
    )._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    for form in bundle.values():
        assert "Stored as submission 3." in form
        assert "/autograder/" in form


def test_backticks_become_code_after_escaping():
    assert str(prose("`a<b` and `c")) == "<code>a&lt;b</code> and `c"


def test_terminal_does_not_read_markup():
    shown = text(report(TaskResult("[red]x[/red]", "[bold]t", 0, 1, "wrong", message="[/] [link=http://x]y")))
    assert "[red]x[/red]" in shown
    assert "[/] [link=http://x]y" in shown


def test_importing_feedback_costs_nothing():
    code = (
        "import sys, autograder.feedback, autograder.gradebook\n"
        "sys.exit(any(name in sys.modules for name in ('jinja2', 'rich', 'sqlalchemy', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_page_fits_a_phone_and_its_copy_button_works(tmp_path: Path):
    """At 390 px nothing is wider than the screen, and the content policy lets the page's own style and script work."""
    probe = """<iframe id=f src=page.html style="width:390px;height:3000px"></iframe><script>
        f.onload = () => {
          const page = f.contentDocument;
          document.title = JSON.stringify([
            page.documentElement.scrollWidth,
            page.querySelectorAll(".ag-copy:not([hidden])").length,
            getComputedStyle(page.querySelector(".ag-task")).borderLeftStyle,
          ]);
        };
        </script>"""
    (tmp_path / "page.html").write_text(page(report()))
    (tmp_path / "probe.html").write_text(probe)
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [
                CHROMIUM,
                *FLAGS,
                f"--user-data-dir={profile}",
                "--allow-file-access-from-files",
                "--virtual-time-budget=3000",
                "--dump-dom",
                (tmp_path / "probe.html").as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env=os.environ | {"HOME": profile},
        )
    match = re.search(r"<title>\[(\d+),(\d+),\"(\w+)\"\]</title>", done.stdout)
    assert match, done.stdout[-2000:]
    assert int(match[1]) <= 390
    assert match[3] == "solid"
    assert int(match[2]) == 1
