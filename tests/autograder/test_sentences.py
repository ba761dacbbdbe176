"""What a report says is told in the reader's language, whatever sentence of the grader's it is."""

from __future__ import annotations

import ast
import re
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from classroom_samples import FAILED, WRONG, report

from autograder import diagnose_raised, patterns, verdict, written
from autograder.costs import sentence
from autograder.feedback import Feedback, catalogue, page, text
from autograder.feedback.catalogue import speaking
from autograder.feedback.sentences import _pattern, hints_in, told, translated
from autograder.report import CostResult
from autograder.spec import lab_names, load_lab

ROOM = Path(verdict.__file__).parent
OTHERS = [name for name in catalogue.LANGUAGES if name != "en"]


def put_together(node: ast.expr) -> list[str]:
    """The sentences that an expression makes, with something in place of what is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [*put_together(node.body), *put_together(node.orelse)]
    if not isinstance(node, ast.JoinedStr):
        return []
    if ast.unparse(node.values[-1]) == "f'{reason}'":
        return []
    parts = [part.value if isinstance(part, ast.Constant) else "X(3, 4)" for part in node.values]
    return ["".join(map(str, parts)).replace("X(3, 4) resultX(3, 4) came", "3 results came")]


def sentences() -> list[str]:
    """Every sentence that the tables of diagnoses return."""
    costly = CostResult("rules", "Rules run", 9, 4, "bytes", "2 n")
    found = [*verdict.ADVICE.values(), written.PENDING, sentence(costly), sentence(replace(costly, formula=""))]
    for name in ("kinds_of_form.py", "kinds_of_value.py"):
        tree = ast.parse((ROOM / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Return) and node.value is not None:
                found += [line for line in put_together(node.value) if re.search(r"[a-z] .*[.?]$", line)]
    tree = ast.parse(Path(diagnose_raised.__file__).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "sentence":
            found += put_together(node.value)
    for name in patterns.TRAITS:
        found += [f"It goes wrong exactly when {name}.", f"It goes wrong only when {name}, though not every time."]
    return [*found, "Only op = 'mul' goes wrong, and not every time.", "No cell defines `a` and `b`."]


def test_the_list_of_sentences_is_not_empty():
    assert len(sentences()) >= 75


@pytest.mark.parametrize("other", OTHERS)
def test_every_diagnosis_is_told_in_every_language(other):
    with speaking(other):
        english = [line for line in sentences() if re.search(r"[A-Za-z]{3,} [a-z]{2,} [a-z]{2,}", translated(line))]
    assert english == []


def hints_of(lab):
    """Every hint that a learner of a lab may be told."""
    for task in load_lab(lab).tasks:
        yield from task.hints.values()
        yield from (hint.words for hint in task.unlocks)


@pytest.mark.parametrize("lab", lab_names())
@pytest.mark.parametrize("other", OTHERS)
def test_every_hint_is_told_in_every_language(other, lab):
    """What fails here is English still: add it to ``{other}_hints.toml``, under its lab."""
    with speaking(other):
        english = [hint for hint in hints_of(lab) if re.search(r"[A-Za-z]{3,} [a-z]{2,} [a-z]{2,}", translated(hint))]
    assert english == []


@pytest.mark.parametrize("lab", lab_names())
@pytest.mark.parametrize("other", OTHERS)
def test_no_hint_is_kept_that_its_lab_has_no_more(other, lab):
    said = list(hints_of(lab))
    kept = hints_in(other).get(lab, {})
    assert [english for english in kept if not any(_pattern(english).fullmatch(hint) for hint in said)] == []


@pytest.mark.parametrize("other", OTHERS)
def test_nothing_that_is_put_in_is_lost(other):
    pairs = tomllib.loads((catalogue.CATALOGUES / f"{other}_sentences.toml").read_text(encoding="utf-8"))["sentences"]
    for of_lab in hints_in(other).values():
        pairs |= of_lab
    for english, theirs in pairs.items():
        assert sorted(re.findall(r"\{(\w+)\}", english)) == sorted(set(re.findall(r"\{(\w+)\}", theirs))), english
        assert set(re.findall(r"`[^`{]+`", english)) == set(re.findall(r"`[^`{]+`", theirs)), english


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("`result[0]` is transposed.", "`result[0]` 被转置了。"),
        ("The result is transposed. See the figure of chapter 8.", "结果 被转置了。 See the figure of chapter 8."),
        (
            "3 of 12 cases come out wrong. In the smallest: result has shape (2, 3); expected (3,).",
            "12 个用例中有 3 个结果错误。其中最小的：result 的形状是 (2, 3)；期望 (3,)。",
        ),
        ("The result is 2 times what it should be; 2 is axis 0 of x.", "结果 是应有值的 2 倍；2 是 axis 0 of x。"),
        ("It goes wrong exactly when an input is 0-d.", "恰好在某个输入是零维的时出错。"),
        ("Cell 5, which defines `f`, failed: ValueError: 3.", "定义 `f` 的单元格 5 出错：ValueError: 3。"),
        ("Cell 7 defines `folt`: is that what was meant?", "单元格 7 定义了 `folt`：要写的是它吗？"),
        ("A sentence that no table has.", "A sentence that no table has."),
        ("", ""),
        ("The order is exactly reversed", "The order is exactly reversed"),
        ("{0.__class__} is transposed.", "{0.__class__} 被转置了。"),
        ("\\g<1> is transposed.", "\\g<1> 被转置了。"),
    ],
)
def test_sentences_one_after_another(english, chinese):
    with speaking("zh"):
        assert translated(english) == chinese
    with speaking("en"):
        assert translated(english) == english


def test_reports_are_told_on_every_surface_and_stay_as_they_are():
    sentence = "The order is exactly reversed."
    shown = report(replace(WRONG, diagnosis=[sentence]), FAILED)
    before = shown.to_json()
    with speaking("zh"):
        for surface in (page(shown), Feedback(shown)._repr_html_(), text(shown)):
            assert "顺序恰好相反。" in surface
            assert sentence not in surface
        assert told(shown).tasks[0].diagnosis == ["顺序恰好相反。"]
    assert shown.to_json() == before
    with speaking("en"):
        assert told(shown) is shown


@pytest.mark.parametrize(
    "hostile",
    [
        "x is transposed " * 60,
        "a of " * 200,
        "A came where B is asked for " * 30,
        " is " * 240,
        "The dtype grew from " + "a to " * 180,
        "x" * 100_000,
        "1 is 1 times what it should be; " * 30,
    ],
)
def test_hostile_texts_are_told_soon(hostile):
    began = time.process_time()
    with speaking("zh"):
        translated(hostile)
    assert time.process_time() - began < 5  # a search that explodes takes minutes
