"""Attacks on the pages, each tried: by other learners, from other sites, and through what is handed in."""

from __future__ import annotations

import csv
import io
import json
import re
import urllib.parse
from html.parser import HTMLParser

import pytest
from class_pages import BASE, FORMULA, HOSTILE, LAB, SCRIPT, Answer, Class

from autograder.gradebook import audit
from autograder.web.acts import ACTS
from autograder.web.people import FORMS

pytestmark = pytest.mark.slow

CLASS_PAGES = [
    "class",
    "class/",
    f"class/lab/{LAB}",
    "class/learner?name=ada",
    "class/submission/{mine}",
    "class/submission/{mine}/notebook",
    "class/submission/{mine}/file",
    "class/queue",
    "class/audit",
    "class/written",
    "class/people",
    f"class/similarity/{LAB}",
    "class/export/marks.csv",
    "class/export/audit.csv",
    f"class/export/tasks.csv?lab={LAB}",
    f"class/export/{LAB}-lti.json",
]
OWN_PAGES = ["", "submission/{mine}", "submission/{mine}/state", "submission/{mine}.json", "submission/{mine}.ipynb"]
FORM = {"do": "adjust", "lab": LAB, "learner": "bob", "way": "set", "points": "100", "why": "mine"}


def changes(class_: Class) -> int:
    with class_.book() as book:
        return len(audit.trail(book))


def same(one: Answer, other: Answer) -> bool:
    return (one.status, re.sub(r"\d+", "", one.body)) == (other.status, re.sub(r"\d+", "", other.body))


@pytest.mark.parametrize("ending", ["", "/state", ".json", ".ipynb"])
def test_others_submissions_do_not_exist(class_: Class, ending):
    ada = class_.as_("ada")
    theirs, nobodys = ada.get(f"submission/{class_.theirs}{ending}"), ada.get(f"submission/99999{ending}")
    assert theirs.status == 404
    assert same(theirs, nobodys)


@pytest.mark.parametrize("who", ["ada", "stranger", HOSTILE])
@pytest.mark.parametrize("path", CLASS_PAGES)
def test_the_pages_of_the_class_do_not_exist_for_learners(class_: Class, path, who):
    person = class_.as_(who)
    answer = person.get(path.format(mine=class_.mine))
    assert answer.status == 404
    assert same(answer, person.get("no/such/page"))


@pytest.mark.parametrize("path", [*CLASS_PAGES, *OWN_PAGES])
def test_without_a_log_in_there_is_nothing(class_: Class, path):
    answer = class_.as_("").get(path.format(mine=class_.mine))
    assert answer.status in (302, 403)
    assert "ada" not in answer.body
    if answer.status == 302:
        assert answer.headers["Location"].startswith("/login?next=%2Fservices%2Fgrades%2F")


def test_a_form_without_a_log_in_is_told_to_log_in(class_: Class):
    """It is not older than a log-in that nobody has made."""
    nobody = class_.as_("")
    page = f"{class_.address}class/lab/{LAB}?as=table"
    answer = nobody.post(f"class/lab/{LAB}", FORM | {"do": "hold"}, token=False, Referer=page)
    assert answer.status == 403
    assert "Log in first" in answer.text
    assert "older than" not in answer.text
    assert f'<a href="{BASE}autograder/class/lab/{LAB}?as=table">Log in</a>' in answer.body
    asked = nobody.get(f"class/lab/{LAB}")
    assert (asked.status, asked.headers["Location"].split("?")[0]) == (302, "/login")
    chinese = nobody.post("language", {"language": "en"}, token=False, Accept_Language="zh-CN")
    assert "请先登录" in chinese.text


@pytest.mark.parametrize("referer", ["", "https://evil.example/x", "javascript:alert(1)", "http://[", "//evil.example"])
def test_the_way_to_log_in_never_leads_elsewhere(class_: Class, referer):
    answer = class_.as_("").post("language", {"language": "zh"}, token=False, Referer=referer)
    assert answer.status == 403
    assert f'<a href="{BASE}autograder/">Log in</a>' in answer.body


def test_a_form_with_a_log_in_and_an_old_token_is_told_so(class_: Class):
    answer = class_.as_("ines").post("language", {"language": "zh"}, token=False)
    assert answer.status == 403
    assert "older than your log-in" in answer.text
    assert ">Log in<" not in answer.body


@pytest.mark.parametrize("do", [*ACTS, *FORMS, "compare"])
def test_no_act_of_the_class_is_done_for_a_learner(class_: Class, do):
    before = changes(class_)
    for path in (
        "class/",
        f"class/lab/{LAB}",
        "class/learner?name=ada",
        f"class/submission/{class_.mine}",
        "class/queue",
        "class/people",
        f"class/similarity/{LAB}",
    ):
        assert class_.as_("ada").post(path, FORM | {"do": do}).status == 404
        assert class_.as_("").post(path, FORM | {"do": do}, token=False).status == 403
    assert changes(class_) == before


@pytest.mark.parametrize("do", [*(name for name, act in ACTS.items() if "grader" not in act.may), *FORMS])
def test_a_grader_does_what_graders_do_and_no_more(class_: Class, do):
    before = changes(class_)
    answer = class_.as_("gus").post("class/queue", FORM | {"do": do})
    assert answer.status == 403
    assert "Only instructors may do that" in answer.text
    assert changes(class_) == before


@pytest.mark.parametrize("do", ["", "delete", "__class__", "adjust\0"])
def test_an_act_that_does_not_exist_is_refused(class_: Class, do):
    assert class_.as_("ines").post("class/", {"do": do}).status == 400


CROSS_SITE = [
    pytest.param({"token": False}, id="no token"),
    pytest.param({"Origin": "https://evil.example"}, id="other origin"),
    pytest.param({"Origin": "null"}, id="no origin"),
    pytest.param({"Origin": "http://["}, id="an origin that is no address"),
    pytest.param({"Sec_Fetch_Site": "cross-site"}, id="cross-site"),
    pytest.param({"Sec_Fetch_Site": "same-site"}, id="another subdomain"),
    pytest.param({"Cookie": "who=ines; _xsrf=2|00000000|00000000000000000000000000000000|1"}, id="planted cookie"),
]


@pytest.mark.parametrize("forged", CROSS_SITE)
@pytest.mark.parametrize(("path", "form"), [("class/learner?name=bob", FORM), ("language", {"language": "zh"})])
def test_a_form_of_another_site_changes_nothing(class_: Class, path, form, forged):
    before = changes(class_)
    answer = class_.as_("ines").post(path, form, **forged)
    assert answer.status == 403
    assert "Nothing was changed." in answer.text
    assert "Set-Cookie" not in answer.headers or "language" not in answer.headers["Set-Cookie"]
    assert changes(class_) == before


def test_a_form_of_ours_is_taken_with_what_browsers_send(class_: Class):
    """The control of the tests above: the same request, as our own page sends it."""
    origin = f"http://127.0.0.1:{class_.port}"
    answer = class_.as_("ines").post("language", {"language": "en"}, Origin=origin, Sec_Fetch_Site="same-origin")
    assert answer.status == 303


def test_forms_are_sent_by_post_only(class_: Class):
    ines = class_.as_("ines")
    before = changes(class_)
    ines.get("class/learner?" + urllib.parse.urlencode(FORM | {"name": "bob"}))
    for method in ("PUT", "DELETE", "PATCH"):
        assert ines.ask(method, f"{BASE}autograder/class/queue", "do=park").status in (403, 405)
    assert changes(class_) == before


def test_cookies_are_ours_alone(class_: Class):
    answer = class_.as_("ada").post("language", {"language": "zh"})
    [cookie] = [line for line in answer.headers.get_all("Set-Cookie") if line.startswith("autograder-language")]
    for flag in ("HttpOnly", "SameSite=Lax", f"Path={BASE}autograder/"):
        assert flag in cookie
    assert "Secure" not in cookie
    [token] = class_.as_("ada").get("").headers.get_all("Set-Cookie")
    assert f"Path={BASE}" in token


@pytest.mark.parametrize("value", ["zh; Path=/", "../../x", "%00", "xx", "<script>"])
def test_a_cookie_or_a_header_that_names_no_language_is_nothing(class_: Class, value):
    ada = class_.as_("ada")
    ada.cookies["autograder-language"] = urllib.parse.quote(value)
    answer = ada.get("", Accept_Language=value.replace("\0", ""))
    assert answer.status == 200
    assert '<html lang="en">' in answer.body or value == "zh; Path=/"
    assert class_.as_("ada").post("language", {"language": value}).status in (303, 400)


class Page(HTMLParser):
    """The elements and attributes that a browser would make of a page."""

    def __init__(self, body: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def everyones_pages(class_: Class) -> list[tuple[str, str]]:
    numbers = {"mine": class_.hostile}
    found = [(HOSTILE, path.format(**numbers)) for path in OWN_PAGES]
    found += [("bob", ""), ("bob", f"submission/{class_.theirs}")]
    quoted = urllib.parse.urlencode({"name": HOSTILE})
    found += [("ines", path.format(**numbers).replace("name=ada", quoted)) for path in CLASS_PAGES]
    found += [
        ("ines", "class/learner?name=bob"),
        ("ines", "class/audit?" + urllib.parse.urlencode({"learner": HOSTILE})),
    ]
    for path, name in (("class/", "q"), ("class/queue", "learner"), ("class/queue", "said")):
        found.append(("ines", f"{path}?" + urllib.parse.urlencode({name: SCRIPT})))
    return [*found, ("ines", "class/learner?" + urllib.parse.urlencode({"name": SCRIPT, "said": SCRIPT}))]


def test_nothing_that_anybody_wrote_becomes_part_of_a_page(class_: Class):
    """Names, reasons, titles, diagnoses, file names, sources and outputs of notebooks, and what an address asks for."""
    seen = 0
    for who, path in everyones_pages(class_):
        answer = class_.as_(who).get(path)
        if answer.status == 302 or not answer.headers["Content-Type"].startswith("text/html"):
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            continue
        seen += "&lt;script&gt;" in answer.body
        page = Page(answer.body)
        for tag, attributes in page.elements:
            assert tag not in {"iframe", "object", "embed", "base", "img", "b"} or attributes == {}, (path, tag)
            assert not any(name.startswith("on") or name == "style" for name in attributes), (path, tag, attributes)
            for name in ("href", "src", "action"):
                place = attributes.get(name) or ""
                assert not place or place.startswith(("/", "#", "data:,")), (path, place)
                assert not place.startswith("//"), (path, place)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        scripts = re.findall(r"(?s)<script>(.*?)</script>", answer.body)
        assert all("alert(1)" not in script for script in scripts)
        assert len([tag for tag, _ in page.elements if tag == "script"]) == len(scripts) <= 2
    assert seen >= 10


@pytest.mark.parametrize("path", CLASS_PAGES)
def test_the_class_cannot_be_framed_nor_driven_by_another_page(class_: Class, path):
    """Learners' own servers share the origin on a hub without subdomains."""
    ines = class_.as_("ines")
    path = path.format(mine=class_.mine)
    answer = ines.get(path, Sec_Fetch_Dest="document", Sec_Fetch_Mode="navigate")
    assert answer.status in (200, 302)
    assert answer.headers["X-Frame-Options"] == "DENY"
    if answer.headers.get("Content-Type", "").startswith("text/html") and answer.status == 200:
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    for dest in ("iframe", "empty", "script", "image", "object"):
        assert ines.get(path, Sec_Fetch_Dest=dest, Sec_Fetch_Site="same-origin").status == 403


@pytest.mark.parametrize(
    "path",
    [
        "class/lab/../../../../etc/passwd",
        "class/lab/..%2f..%2fsecret",
        "class/export/..%2f..%2fsecret.csv",
        "class/submission/..%2f1",
        "class/submission/1%00",
        "submission/1/../2",
        "submission/%2e%2e/%2e%2e/etc/passwd",
        "class/lab/lab05_tape%0d%0aX-Evil:%201",
        f"class/lab/{'a' * 5000}",
    ],
)
def test_no_path_leads_elsewhere(class_: Class, path):
    answer = class_.as_("ines").get(path)
    assert answer.status in (301, 302, 400, 403, 404)
    assert "X-Evil" not in answer.headers
    assert "root:" not in answer.body


def test_a_redirect_stays_here(class_: Class):
    ada = class_.as_("ada")
    for place in ("//evil.example/", "https://evil.example/", "\\\\evil.example"):
        answer = ada.post("language", {"language": "en", "next": place})
        assert answer.headers["Location"] == f"{BASE}autograder/"
        asked = urllib.parse.urlencode({"next": place, "name": place, "said": place})
        answer = class_.as_("ines").get(f"class?{asked}")
        assert answer.headers["Location"] == f"{BASE}autograder/class/"
    login = class_.as_("").ask("GET", f"{BASE}autograder/?next=//evil.example")
    assert urllib.parse.urlsplit(login.headers["Location"]).netloc == ""


def test_a_name_cannot_end_a_header(class_: Class):
    answer = class_.as_("ines").get(f"class/submission/{class_.hostile}/file")
    disposition = answer.headers["Content-Disposition"]
    assert disposition.startswith('attachment; filename="lab05_tape-eve_b_script_alert_1_script_-')
    assert disposition.count('"') == 2
    answer = class_.as_("ines").get("class/export/marks.csv?" + urllib.parse.urlencode({"lab": 'x"\r\nX-Evil: 1'}))
    assert "X-Evil" not in answer.headers


@pytest.mark.parametrize("table", ["marks.csv", "submissions.csv", "audit.csv", f"tasks.csv?lab={LAB}"])
def test_no_cell_of_a_table_is_a_formula(class_: Class, table):
    rows = list(csv.reader(io.StringIO(class_.as_("ines").get(f"class/export/{table}").body)))
    cells = [cell for row in rows for cell in row]
    assert not [cell for cell in cells if re.match(r"\s*[=+@|%\t]|\s*-\D", cell)]
    if table in ("marks.csv", "audit.csv"):
        assert any(FORMULA in cell for cell in cells)


def test_results_cannot_be_had_before_they_are_out_by_any_address(fresh: Class):
    from datetime import UTC, datetime

    from autograder.gradebook import decisions

    with fresh.book() as book:
        decisions.assign(book, LAB, by="ines", results=datetime(2200, 1, 1, tzinfo=UTC))
    ada = fresh.as_("ada")
    for path in OWN_PAGES[:-1]:
        answer = ada.get(path.format(mine=fresh.mine))
        assert "not summed over" not in answer.body
        assert "2 of 5" not in answer.text
    assert json.loads(ada.get(f"submission/{fresh.mine}/state").body) == {"graded": False}
    assert ada.get(f"submission/{fresh.mine}.json").status == 404


def test_no_output_of_a_notebook_is_asked_for_by_a_page(class_: Class):
    body = class_.as_("ines").get(f"class/submission/{class_.hostile}/notebook").body
    assert "shown &lt;script&gt;" in body
    assert not re.search(r"https?://|src=", body.replace("http://127.0.0.1", ""))


def test_a_form_that_is_too_large_is_refused(class_: Class):
    before = changes(class_)
    for why in ("x" * 5000, "x" * 400_000):
        assert class_.as_("ines").post("class/learner?name=bob", FORM | {"why": why}).status == 413
    assert changes(class_) == before


@pytest.mark.parametrize("number", ["0", "-1", "1e3", "9" * 15, "9" * 40, "１", "1;drop table grade"])
def test_numbers_that_are_none(class_: Class, number):
    quoted = urllib.parse.quote(number)
    assert class_.as_("ada").get(f"submission/{quoted}").status == 404
    assert class_.as_("ines").get(f"class/submission/{quoted}").status == 404


def test_on_ones_own_server_there_is_no_class_unless_it_is_asked_for(class_: Class, tmp_path):
    from class_pages import serve

    from autograder.web.handlers import Rooms

    assert Rooms().teachers == "nobody"
    for teachers, status in (("nobody", 404), ("owner", 200)):
        port, end = serve(class_.url, tmp_path, teachers)
        try:
            for who in ("ines", "ada"):
                assert Class(port, class_.url, 0, 0, 0).as_(who).get("class/").status == status
        finally:
            end()


def test_nobody_is_an_instructor_by_a_name_that_looks_alike(class_: Class):
    for name in ("Ines", "ines ", "inеs", "ines\0", "INES", "ines%"):  # one has a Cyrillic letter
        assert class_.as_(name).get("class/").status in (302, 404)
