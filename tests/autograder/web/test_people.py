"""Who is in the class, as the page of people has it: added, changed, taken out, each on record; and passwords once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from class_pages import HOSTILE, SCRIPT, Class

from autograder.gradebook import audit, roster
from autograder.web.forms import FormError
from autograder.web.people import MOST_ROWS, Row, rows
from classroom.accounts import Accounts

PASSWORD = re.compile(r"<code>([a-z2-9]{4}(?:-[a-z2-9]{4}){3})</code>")
LEARNER = frozenset[str]()


def accounts(class_: Class) -> Accounts:
    return Accounts(Path(class_.url.removeprefix("sqlite:///")).parent / "accounts.json")


# --- lists ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ada", [Row("ada", "", LEARNER)]),
        ("ada,Ada Lovelace", [Row("ada", "Ada Lovelace", LEARNER)]),
        ("ada,Ada,learner\nines,,instructor", [Row("ada", "Ada", LEARNER), Row("ines", "", frozenset({"instructor"}))]),
        ("ada;Ada;Grader", [Row("ada", "Ada", frozenset({"grader"}))]),
        ("ada\tAda\tgrader instructor", [Row("ada", "Ada", frozenset({"grader", "instructor"}))]),
        ('\ufeffLogin name,Name\r\nada,"Lovelace, Ada"\r\n\r\n', [Row("ada", "Lovelace, Ada", LEARNER)]),
        (" ada , Ada ,", [Row("ada", "Ada", LEARNER)]),
    ],
)
def test_a_list_is_read(text: str, found: list[Row]) -> None:
    assert rows(text) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "nobody in it"),
        ("\n , \n", "nobody in it"),
        ("name,shown as\n", "nobody in it"),
        ("ada,Ada,boss", "Line 1: There is no role 'boss'"),
        ("ada\nbob\nada", "Line 3: 'ada' stands in an earlier line"),
        ("ada,Ada,learner,ada@example.edu", "Line 1 has 4 parts"),
        ("\n".join(f"p{number}" for number in range(MOST_ROWS + 1)), f"at most {MOST_ROWS}"),
        ("ada," + "x" * 200_000, "Line 1 can't be read"),
    ],
)
def test_a_list_that_cannot_be_meant_says_where(text: str, said: str) -> None:
    with pytest.raises(FormError, match=re.escape(said)):
        rows(text)


# --- the page -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_person_is_added_with_a_password_that_is_shown_once(fresh: Class) -> None:
    ines = fresh.as_("ines")
    form = {"do": "enrol", "name": "grace", "shown_as": f"Grace {SCRIPT}", "role": "grader", "why": "joined late"}
    answer = ines.post("class/people", form)
    assert answer.status == 200
    (password,) = PASSWORD.findall(answer.body)
    assert SCRIPT not in answer.body
    assert "no-store" in answer.headers["Cache-Control"]
    assert accounts(fresh).verify("grace", password)
    with fresh.book() as book:
        assert roster.may(book, "grace", "grader")
        (change, *_) = audit.trail(book, learner="grace")
    assert (change.who, change.what, change.old, change.why) == ("ines", "person", None, "joined late")
    assert password not in str(change)
    # Sent again, as by loading the page again, it changes nothing, and makes no other password.
    again = ines.post("class/people", form)
    assert again.status == 303
    assert accounts(fresh).verify("grace", password)
    assert not PASSWORD.findall(ines.get("class/people").body)
    assert fresh.as_("grace").get("class/queue").status == 200


@pytest.mark.slow
def test_a_list_is_added_whole_or_not_at_all(fresh: Class) -> None:
    ines = fresh.as_("ines")
    before = accounts(fresh).names()
    answer = ines.post("class/people", {"do": "enrol_many", "rows": "grace,Grace\nBad Name,,"})
    assert answer.status == 400
    assert "'Bad Name' cannot be a login name" in answer.text.replace("&#39;", "'")
    assert "grace,Grace" in answer.body  # what was typed stays
    assert accounts(fresh).names() == before
    with fresh.book() as book:
        assert roster.person(book, "grace") is None
    many = "\n".join(f"p{number:03},Person {number}" for number in range(120))
    answer = ines.post("class/people", {"do": "enrol_many", "rows": f"{many}\nada,Ada L.,grader"})
    assert len(PASSWORD.findall(answer.body)) == 121
    with fresh.book() as book:
        assert len(roster.people(book)) == 125
        ada = roster.person(book, "ada")
    assert ada is not None
    assert (ada.shown_as, ada.roles) == ("Ada L.", ("grader",))
    assert "of 3" in ines.get("class/people").text
    assert "Person 77" in ines.get("class/people?q=son+77").text


@pytest.mark.slow
def test_a_role_is_changed_and_a_person_leaves_and_comes_back(fresh: Class) -> None:
    ines = fresh.as_("ines")
    page = "class/learner?name=gus"
    assert "The person is changed." in ines.done(page, {"do": "change", "name": "gus", "role": "learner"}).text
    assert fresh.as_("gus").get("class/queue").status == 404
    accounts(fresh).set("gus", "a password of gus")
    refused = ines.post(page, {"do": "leave", "name": "gus"})
    assert refused.status == 400
    assert "A reason is missing" in refused.text
    left = ines.done(page, {"do": "leave", "name": "gus", "why": "moved away"})
    assert "They have left the class." in left.text
    assert "gus" not in accounts(fresh).names()
    assert "left" in ines.get("class/people?q=gus").text
    answer = ines.post("class/people", {"do": "enrol", "name": "gus"})
    assert len(PASSWORD.findall(answer.body)) == 1
    with fresh.book() as book:
        gus = roster.person(book, "gus")
        told = [change.why for change in audit.trail(book, learner="gus")]
    assert gus is not None
    assert gus.left_at is None
    assert "moved away" in told


@pytest.mark.slow
def test_a_new_password_ends_the_old_one_and_is_on_record(fresh: Class) -> None:
    accounts(fresh).set("bob", "the first of bob's")
    answer = fresh.as_("ines").post("class/learner?name=bob", {"do": "password", "name": "bob", "why": "forgotten"})
    (password,) = PASSWORD.findall(answer.body)
    assert accounts(fresh).verify("bob", password)
    assert not accounts(fresh).verify("bob", "the first of bob's")
    with fresh.book() as book:
        (change, *_) = audit.trail(book, learner="bob", what="password")
    assert (change.who, change.why) == ("ines", "forgotten")
    assert password not in str(change)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"do": "change", "name": "ines", "role": "grader"}, "cannot take your own role"),
        ({"do": "enrol", "name": "ines", "role": "learner"}, "cannot take your own role"),
        ({"do": "enrol_many", "rows": "ada\nines"}, "cannot take your own role"),
        ({"do": "leave", "name": "ines", "why": "tired"}, "cannot take yourself out"),
        ({"do": "leave", "name": "nobody", "why": "gone"}, "Nobody is called 'nobody'"),
        ({"do": "change", "name": "ada", "role": "root"}, "There is no role 'root'"),
        ({"do": "enrol", "name": "../x"}, "cannot be a login name"),
        ({"do": "enrol", "name": HOSTILE}, "cannot be a login name"),
        ({"do": "enrol", "name": ""}, "The login name is missing"),
        ({"do": "password", "name": "nobody"}, "Nobody is called"),
    ],
)
def test_what_cannot_be_done_to_people_is_said_and_changes_nothing(class_: Class, form: dict, said: str) -> None:
    with class_.book() as book:
        before = audit.trail(book)
    answer = class_.as_("ines").post("class/people", form)
    assert answer.status == 400
    assert said in answer.text.replace("&#39;", "'")
    assert "sqlite" not in answer.text
    with class_.book() as book:
        assert audit.trail(book) == before


@pytest.mark.slow
def test_graders_have_no_page_of_people(class_: Class) -> None:
    gus = class_.as_("gus")
    assert gus.get("class/people").status == 404
    assert "class/people" not in gus.get("class/").body
    assert "Take out of the class" not in gus.get("class/learner?name=ada").text
    assert "class/people" in class_.as_("ines").get("class/").body
