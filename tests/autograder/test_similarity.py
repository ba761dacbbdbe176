"""Copies are found whatever was done to hide them; honest answers and given code are not."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from small_lab import cell

from autograder.cells import Cell, make_cell
from autograder.cli import run
from autograder.feedback.html import similarity_page
from autograder.mutants import samples_of
from autograder.similarity import FEW, Similarity, runs, similarity, tokens
from autograder.spec import load_lab

ROOT = Path(__file__).parents[2]
GIVEN = """
class Node:
    def __init__(self, inputs=(), rule=None):
        self.inputs = tuple(inputs)
        self.rule = rule
        self.count = len(self.inputs) + (1 if rule is not None else 0)
        self.names = [str(one) for one in self.inputs if one is not None]
"""
ORDER = '''
def topological_order(root, inputs_of):
    """Every node, each after its consumers."""
    consumers = {root: 0}
    found = [root]
    for node in found:  # grows
        for source in inputs_of(node):
            if source not in consumers:
                consumers[source] = 0
                found.append(source)
            consumers[source] += 1
    order, ready = [], [root]
    while ready:
        node = ready.pop()
        order.append(node)
        for source in inputs_of(node):
            consumers[source] -= 1
            if consumers[source] == 0:
                ready.append(source)
    return order
'''
RULES = """
def undo_broadcast(gradient, shape):
    added = np.ndim(gradient) - len(shape)
    ones = [added + axis for axis, size in enumerate(shape) if size == 1]
    return np.sum(gradient, axis=(*range(added), *ones)).reshape(shape)

def mul_rule(g, x, y):
    return undo_broadcast(g * y, x.shape), undo_broadcast(g * x, y.shape)
"""
OTHER_ORDER = """
def topological_order(root, inputs_of):
    done, result, stack = set(), [], [(root, False)]
    while stack:
        item, leaving = stack.pop()
        if leaving:
            result.insert(0, item)
        elif item not in done:
            done.add(item)
            stack.append((item, True))
            stack.extend((below, False) for below in inputs_of(item))
    return result
"""
RENAMED = ORDER
for old, new in {"consumers": "uses", "found": "todo", "source": "child", "node": "n", "order": "ans"}.items():
    RENAMED = re.sub(rf"\b{old}\b", new, RENAMED)


def cells(*sources: str) -> list:
    return [make_cell(number, source) for number, source in enumerate(sources, 1)]


def share(one: list, other: list, template: list | None = None) -> float:
    found = similarity({"one": one, "other": other}.items(), template or cells(GIVEN), threshold=0)
    return found.pairs[0].share if found.pairs else 0.0


HIDDEN = {
    "as it is": [GIVEN, ORDER, RULES],
    "renamed": [GIVEN, RENAMED, RULES],
    "reordered": [RULES, GIVEN, ORDER],
    "comments, docstring, layout": [
        GIVEN,
        ORDER.replace('"""Every node, each after its consumers."""', "# mine, all mine\n")
        .replace("    ", "  ")
        .replace("= 0", "  =  0  # zero"),
        RULES,
    ],
    "other numbers of quotes": [GIVEN, ORDER.replace('"""', "'''"), RULES],
    "padded": [GIVEN, ORDER, RULES, OTHER_ORDER.replace("topological_order", "unused"), GIVEN.replace("Node", "N")],
    "one cell": [GIVEN + ORDER + RULES],
}


@pytest.mark.parametrize("way", HIDDEN)
def test_a_copy_is_found(way: str) -> None:
    assert share(cells(GIVEN, ORDER, RULES), cells(*HIDDEN[way])) >= 0.85


def test_other_work_is_not_a_copy() -> None:
    assert share(cells(GIVEN, ORDER), cells(GIVEN, OTHER_ORDER)) < 0.2


def test_given_code_is_no_copy() -> None:
    found = similarity([("a", cells(GIVEN)), ("b", cells(GIVEN))], cells(GIVEN))
    assert found.too_short == ["a", "b"]
    assert found.pairs == []
    assert share(cells(GIVEN, ORDER), cells(GIVEN, ORDER), cells("x = 1")) > share(
        cells(GIVEN, ORDER), cells(GIVEN, OTHER_ORDER), cells(GIVEN)
    )


def test_what_everybody_writes_is_no_copy() -> None:
    """An answer that many have is how one does it; two that also share another stay a pair."""
    many = [(f"learner {k}", cells(ORDER)) for k in range(FEW + 6)]
    assert similarity(many).pairs == []
    both = [*many, ("copied", cells(ORDER, RULES)), ("copier", cells(RULES, RENAMED))]
    (pair,) = similarity(both).pairs
    assert {pair.one, pair.other} == {"copied", "copier"}


def test_passages_say_where() -> None:
    (pair,) = similarity([("a", cells(GIVEN, ORDER)), ("b", cells(RENAMED, OTHER_ORDER))], cells(GIVEN)).pairs
    here, there = pair.passages[0]
    assert (here.cell, there.cell) == (2, 1)
    assert here.last - here.first >= 12
    assert "consumers" in here.text
    assert "uses" in there.text


@pytest.mark.parametrize("lab", ["lab05_tape", "lab04_session"])
def test_ways_to_be_right_are_told_apart(lab: str) -> None:
    """Right answers that this project's authors wrote to differ stay below the threshold."""
    for task in load_lab(lab).tasks:
        right = [sample for sample in samples_of(ROOT, lab, task.name) if sample.kind == "right"]
        found = similarity([(sample.title, cells(sample.source)) for sample in right])
        assert [(pair.one, pair.other, pair.share) for pair in found.pairs] == []


@pytest.mark.parametrize(
    "code",
    [
        "",
        "#",
        '"""',
        "'",
        "x = '\n",
        "\\",
        "é = 1\x00",
        "((((",
        "f'{x!r}'",
        "٣",
        "a\\\nb",
        "\ud800",
        '"""' + "a" * 5000,
    ],
)
def test_what_is_no_python_is_read_all_the_same(code: str) -> None:
    texts, lines = tokens(code)
    assert len(texts) == len(lines)
    assert len(runs(code)[0]) == max(0, len(texts) - 9)
    similarity([("a", cells(code)), ("b", cells(code))])


def test_a_docstring_is_no_code_and_an_argument_is() -> None:
    assert "string" not in tokens('def f():\n    """Says."""  # so\n    return 1\n')[0]
    assert tokens("f('a', \"b\")")[0].count("string") == 2


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_is_a_share(threshold: float) -> None:
    with pytest.raises(ValueError, match="no share"):
        similarity([], threshold=threshold)


def test_nobody_and_one() -> None:
    assert similarity([]).pairs == []
    assert similarity([("a", cells(ORDER))]).compared == ["a"]


def test_the_page_escapes_what_learners_wrote() -> None:
    evil = ORDER.replace("order", "order_</code><script>alert(1)</script>")
    found = similarity([("<img src=x>", cells(evil)), ("b", cells(evil))], lab="lab05_tape")
    found.unread = {"<b>": "<i>"}
    text = similarity_page(found)
    assert found.pairs
    assert "<script" not in text
    assert "<img" not in text
    assert "<b>" not in text


def test_json_holds_what_was_found() -> None:
    found = similarity([("a", cells(ORDER)), ("b", cells(RENAMED))], lab="lab05_tape")
    read = json.loads(found.to_json())
    assert read["pairs"][0]["one"] == "a"
    assert read["pairs"][0]["passages"][0][0]["first"] >= 1
    assert isinstance(found, Similarity)


@pytest.mark.slow
def test_a_class_of_500() -> None:
    """The copies, and only they, are found among answers put together at random."""
    rng = random.Random(20_261_130)
    words = ["a", "np.sum(b)", "x @ y", "len(c)", "[d for d in e]", "f(g, h)", "{i: j}", "k[1:]", "-m", "'n'", "3.5"]
    glue = ["+", "*", "-", "/", "==", "and", "or", "<", "@", "%"]

    def answer() -> str:
        lines = []
        for _ in range(40):
            line = rng.choice(words)
            for _ in range(rng.randrange(2, 6)):
                line += f" {rng.choice(glue)} {rng.choice(words)}"
            lines.append(f"x = {line}")
        return "\n".join(lines)

    (given,) = cells(GIVEN)
    handed_in = [
        (f"learner {k}", [given, *(Cell(n, one, one) for n, one in ((2, answer()), (3, answer())))]) for k in range(500)
    ]
    handed_in[321] = ("learner 321", handed_in[123][1][::-1])
    found = similarity(handed_in, cells(GIVEN))
    assert [(pair.one, pair.other) for pair in found.pairs] == [("learner 123", "learner 321")]
    assert len(found.compared) == 500


def write(path: Path, lab: str, *sources: str) -> str:
    made = [cell(source) for source in sources]
    path.write_text(
        json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {"autograder": {"lab": lab}}, "cells": made})
    )
    return str(path)


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    a = write(tmp_path / "a.ipynb", "lab05_tape", ORDER, RULES)
    b = write(tmp_path / "b.ipynb", "lab05_tape", RULES, RENAMED)
    c = write(tmp_path / "c.ipynb", "lab05_tape", OTHER_ORDER)
    d = write(tmp_path / "d.ipynb", "lab04_session", ORDER)
    broken = str(tmp_path / "broken.ipynb")
    Path(broken).write_text("{")
    assert run(["similarity", a, b, c, broken, "--html", str(tmp_path / "page.html")]) == 0
    said = capsys.readouterr()
    assert re.match(r" *\d+%  \S+a.ipynb  \S+b.ipynb\n1 of 3 pairs", said.out)
    assert "broken.ipynb" in said.err
    assert "a.ipynb" in (tmp_path / "page.html").read_text()
    assert run(["similarity", a, b, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["pairs"]) == 1
    for words, arguments in {
        "several labs": [a, d],
        "two notebooks or more": [a, broken],
        "--template": [a, b, "--template", broken],
        "threshold": [a, b, "--threshold", "2"],
    }.items():
        assert run(["similarity", *arguments]) == 2
        assert words in capsys.readouterr().err
