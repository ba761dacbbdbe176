"""The instructor's commands: what they say, what they change, and one line for what they refuse."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from classroom_work import DUE, LAB, hand_in

from autograder import cli
from autograder.gradebook import decisions, open_gradebook, roster
from autograder.gradebook.audit import trail
from autograder.gradebook.scores import mark

pytestmark = pytest.mark.slow


@pytest.fixture
def where(sqlite_template, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_USER", "grace")
    path = tmp_path / "gradebook.sqlite"
    path.write_bytes(sqlite_template.read_bytes())
    with open_gradebook(path) as book:
        hand_in(book, "ada", "a", 4, late=timedelta(hours=25))
        roster.enrol(book, "ada", by="root", lti_id="user-1")
    return path


def typed(capsys, where, *arguments):
    code = cli.run([*arguments, "--gradebook", str(where)])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_deadline_an_extension_and_an_adjustment(capsys, where):
    said = [
        typed(capsys, where, "deadline", LAB),
        typed(
            capsys,
            where,
            *("deadline", LAB, "2026-10-05T23:59", "--zone", "Europe/Berlin", "--late", "10%/day max 50%"),
            *("--points", "8", "--reason", "as in the syllabus"),
        ),
        typed(capsys, where, "extend", LAB, "ada", "2026-10-07T00:00", "--reason", "ill"),
        typed(capsys, where, "adjust", LAB, "ada", "-1.5", "--reason", "style"),
        typed(capsys, where, "adjust", LAB, "ada", "=7", "--reason", "oral", "--by", "alan"),
        typed(capsys, where, "adjust", LAB, "ada", "--withdraw", "2", "--reason", "no"),
        typed(capsys, where, "deadline", LAB, "none", "--policy", "last"),
    ]
    assert [(code, err) for code, _, err in said] == [(0, "")] * 7
    assert [out for _, out, _ in said] == [
        f"{LAB}: due at no time; the best submission counts; late: none\n",
        f"{LAB}: due 2026-10-05 23:59+02:00 (Europe/Berlin); the best submission counts, worth 8 points; "
        "late: 10%/day max 50%\n",
        f"{LAB}: for ada due 2026-10-07 00:00+02:00 (Europe/Berlin)\nthe mark is 7.2 of 8\n",
        f"{LAB}: adjustment 1 of ada is made; the mark is 5.7 of 8\n",
        f"{LAB}: adjustment 2 of ada is made; the mark is 7 of 8\n",
        f"{LAB}: adjustment 2 of ada is withdrawn; the mark is 5.7 of 8\n",
        f"{LAB}: due at no time; the last submission counts, worth 8 points; late: 10%/day max 50%\n",
    ]
    with open_gradebook(where) as book:
        assert mark(book, learner="ada", lab=LAB).points == 6.5
        assert decisions.assignments(book)[LAB].due is None
        assert [(one.who, one.why) for one in reversed(trail(book, lab=LAB))] == [
            ("grace", "as in the syllabus"),
            ("grace", "ill"),
            ("grace", "style"),
            ("alan", "oral"),
            ("grace", "no"),
            ("grace", ""),
        ]


def test_exports(capsys, where, tmp_path):
    with open_gradebook(where) as book:
        hand_in(book, "bob", "b", 2)
        decisions.assign(book, LAB, by="grace", due=DUE)
    assert typed(capsys, where, "export") == (
        0,
        f'"learner","name","{LAB}","sum"\r\n"ada","ada",4.0,4.0\r\n"bob","bob",2.0,2.0\n',
        "",
    )
    out = tmp_path / "out.csv"
    for kind, lines in (("marks", 3), ("tasks", 3), ("submissions", 3), ("audit", 2)):
        assert typed(capsys, where, "export", kind, "--lab", LAB, "--out", str(out)) == (0, "", "")
        assert out.read_text().count("\n") == lines, kind
    code, text, err = typed(capsys, where, "export", "lti", "--lab", LAB)
    assert (code, err) == (0, "autograder: 1 have no id on the platform and are left out: bob\n")
    [one] = json.loads(text)["scores"]
    assert (one["userId"], one["scoreGiven"], one["scoreMaximum"]) == ("user-1", 4.0, 4.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["deadline", "lab99", "none"], "there is no lab 'lab99'; there are lab"),
        (["deadline", LAB, "tomorrow"], "not a date and time"),
        (["deadline", LAB, "2026-03-29T02:30", "--zone", "Europe/Berlin"], "skip this time"),
        (["deadline", LAB, "--late", "some"], "late rule 'some' is not understood"),
        (["deadline", LAB, "--policy", "mean"], "no policy 'mean'"),
        (["deadline", LAB, "--points", "0"], "more than 0"),
        (["extend", LAB, "ada", "2026-10-07T00:00", "--reason", "x"], "due at no time"),
        (["extend", LAB, "ada", "2026-10-07T00:00"], "--reason"),
        (["adjust", LAB, "nobody", "+1", "--reason", "x"], "nobody is called 'nobody'"),
        (["adjust", LAB, "ada", "+1"], "needs a reason"),
        (["adjust", LAB, "ada", "1", "--reason", "x"], "Give +1 or =1"),
        (["adjust", LAB, "ada", "much", "--reason", "x"], "not a number of points"),
        (["adjust", LAB, "ada", "+nan", "--reason", "x"], "not a mark"),
        (["adjust", LAB, "ada", "--reason", "x"], "either points"),
        (["adjust", LAB, "ada", "--withdraw", "9", "--reason", "x"], "there is none"),
        (["export", "everything"], "no 'everything'; there are marks"),
        (["export", "tasks"], "which lab"),
        (["export", "marks", "--send", "x.json"], "only lti"),
        (["export", "lti", "--lab", LAB, "--send", "nowhere.json"], "not a platform's settings"),
    ],
)
def test_refusals_are_one_line_and_change_nothing(capsys, where, arguments, words):
    with open_gradebook(where) as book:
        before = trail(book)
    code, out, err = typed(capsys, where, *arguments)
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert words in err
    with open_gradebook(where) as book:
        assert trail(book) == before
