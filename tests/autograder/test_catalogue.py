"""Every message exists in every language, with the same values; no learner's template says anything of its own."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from classroom_samples import FAILED, MISSING, REFUSED, RIGHT, UNGRADED, WRONG, report
from jinja2 import Environment

from autograder.feedback import Feedback, catalogue, html, page, text, words
from autograder.feedback.catalogue import language, messages, say, speaking, wanted

OTHERS = [name for name in catalogue.LANGUAGES if name != "en"]
ROOM = Path(html.__file__).parent
PAGES = Path(html.__file__).parents[1] / "web" / "templates"
LEARNERS = [
    *(ROOM / "templates" / name for name in ("page.html", "fragment.html", "task.html")),
    *sorted(PAGES.glob("*.html")),
]


def values(message: catalogue.Message) -> set[str]:
    forms = message.values() if isinstance(message, dict) else [message]
    return {name for form in forms for _, name, _, _ in string.Formatter().parse(form) if name is not None}


@pytest.mark.parametrize("other", OTHERS)
def test_every_message_is_in_every_language_with_the_same_values(other):
    english, theirs = messages("en"), messages(other)
    assert set(english) == set(theirs)
    for key, message in english.items():
        missing = values(message) ^ values(theirs[key])
        assert missing <= {"count"}, (key, missing)  # a language without plurals may show the number or not


@pytest.mark.parametrize("name", catalogue.LANGUAGES)
def test_forms_are_for_one_and_other_and_no_message_shouts(name):
    for key, message in messages(name).items():
        assert isinstance(message, str) or "other" in message, key
        assert isinstance(message, str) or set(message) <= {"one", "other"}, key
        for form in message.values() if isinstance(message, dict) else [message]:
            assert form.strip(), key
            assert "!" not in form, key
            assert "！" not in form, key


@pytest.mark.parametrize("other", OTHERS)
def test_a_translation_is_one(other):
    """What reads the same in both is a sign or a proper name."""
    english, theirs = messages("en"), messages(other)
    same = {key for key, message in english.items() if message == theirs[key]}
    assert same == {"pages.lab", "provenance.sha256"}


BUILT = (
    "verdict.",
    "provenance.",
    "span.",
    "notice.",
    "overview.best_of",
    "overview.last_of",
    "score.adjusted_",
    "terms.late_",
    "terms.policy_",
    "button.",
)
"""Keys that the code puts together."""


def keys_used(source: str) -> Iterator[str]:
    yield from re.findall(r"say\(\s*\"([a-z_0-9]+\.[a-z_0-9]+)\"", source)
    for one, other in re.findall(r"say\(\s*\"([a-z_.0-9]+)\" if [^\"]+? else \"([a-z_.0-9]+)\"", source):
        yield from (one, other)


def test_every_key_that_is_asked_for_exists_and_every_message_is_asked_for():
    root = ROOM.parent
    sources = [*root.rglob("*.py"), *root.rglob("templates/*.html"), *(root.parent / "classroom").rglob("*.py")]
    written = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    for key in keys_used(written):
        assert key in messages("en"), key
    for key in messages("en"):
        assert f'"{key}"' in written or key.startswith(BUILT), key


def test_the_button_says_what_is_in_the_catalogue_and_nothing_of_its_own():
    """JavaScript asks for its words; what names it or is told to a developer is no sentence of a learner's."""
    root = ROOM.parents[1] / "classroom/labextensions/@framework-internals/submit/static"
    source = (root / "remoteEntry.js").read_text(encoding="utf-8")
    asked = set(re.findall(r"say\('([a-z_]+)'", source))
    assert {f"button.{key}" for key in asked} == {key for key in messages("en") if key.startswith("button.")}
    code = re.sub(r"//.*", "", source.partition("return () =>")[0])
    texts = [part for part in re.findall(r"'([^'\n]*)'|`([^`]*)`", code) for part in part if part]
    assert [text for text in texts if re.search(r"[A-Za-z]{2,} [a-z]{2,}", text)] == DEVELOPERS


DEVELOPERS = [
    "use strict",
    "${NAME}: this JupyterLab shares no ${name}.",
    "A Submit button in the toolbar of a lab.",
    "${NAME} has no module ${name}.",
]


def spoken(template: str) -> list[str]:
    """What a template says outside its expressions: text between tags, and attributes that are read out."""
    data = "".join(piece if kind == "data" else "\0" for _, kind, piece in Environment().lex(template) if kind in DATA)
    said = [re.sub(r"[\0\s\d\W_]+", " ", part).strip() for part in re.sub(r"<[^>]*>", "\n", data).split("\n")]
    said += re.findall(r'(?:aria-label|title|alt|placeholder)="([^"\0]*[A-Za-z][^"\0]*)"', data)
    return [part for part in said if re.search(r"[A-Za-z]", part)]


DATA = {"data", "variable_begin", "block_begin"}


@pytest.mark.parametrize("path", LEARNERS, ids=lambda path: f"{path.parents[1].name}-{path.name}")
def test_no_template_for_learners_says_anything_of_its_own(path):
    assert spoken(path.read_text(encoding="utf-8")) == []


def test_the_rule_above_sees_what_bypasses_it():
    assert spoken("<p>Not graded</p>") == ["Not graded"]
    assert spoken('<ul aria-label="More {{ x }}"><li>{{ say("pages.book") }}</li></ul>') == []
    assert spoken('<pre aria-label="Command">{{ command }}</pre>') == ["Command"]


@pytest.mark.parametrize("path", [ROOM / "words.py", ROOM / "terminal.py", ROOM / "notebook.py"], ids=lambda p: p.name)
def test_no_sentence_for_learners_stands_in_the_code(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            assert not re.search(r"[A-Za-z]{2,} [a-z]{2,}", node.value), node.value


def test_chinese_feedback_on_every_surface_is_chinese():
    shown = report(WRONG, RIGHT, MISSING, FAILED, REFUSED, UNGRADED)
    with speaking("zh-CN"):
        surfaces = [page(shown), Feedback(shown)._repr_html_(), text(shown)]
    for surface in surfaces:
        for word in ("正确", "答案错误", "未找到", "未能完成", "不允许", "未评分", "可能的原因", "你的代码停在何处"):
            assert word in surface
        assert not re.search(r"\b(Right|Wrong answer|Not found|Did not finish|points|What this looks like)\b", surface)
    assert '<html lang="zh">' in surfaces[0]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_GB.UTF-8"}, "en"),
        ({"LANG": "en_US", "AUTOGRADER_LANGUAGE": "zh"}, "zh"),
        ({"AUTOGRADER_LANGUAGE": "fr"}, "en"),
        ({"LANGUAGE": "zh:en", "LANG": "en_US"}, "zh"),
    ],
)
def test_language_of_a_terminal(monkeypatch, environment, expected):
    for variable in catalogue.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert language() == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en-GB,en;q=0.9,zh;q=0.8", "en"),
        ("de,fr;q=0.5", ""),
        ("en;q=0.2, zh-TW;q=0.7", "zh"),
        ("zh;q=0", ""),
        ("", ""),
        (";;q=,zh;q=x", ""),
    ],
)
def test_language_of_a_browser(header, expected):
    assert wanted(header) == expected


def test_a_language_is_spoken_only_where_it_was_asked_for():
    before = language()
    with speaking("zh"):
        assert say("verdict.right") == "正确"
        with speaking("xx-nothing"):
            assert language() == "zh"
    assert language() == before


@pytest.mark.parametrize(
    ("name", "one", "many"), [("en", "1 of 1 point", "1 of 2 points"), ("zh", "1 / 1 分", "1 / 2 分")]
)
def test_plurals(name, one, many):
    with speaking(name):
        assert (words.points(1.0, 1.0), words.points(1.0, 2.0)) == (one, many)


def test_values_are_put_in_as_they_are():
    assert say("feedback.note", note="{0.__class__} {x}") == "Note: {0.__class__} {x}"
