"""What leaves the gradebook: tables for spreadsheets, and scores for a learning platform."""

from __future__ import annotations

import csv
import io
import json
import threading
import urllib.parse
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
import pytest
from classroom_work import DUE, LAB, hand_in, task
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from autograder.gradebook import decisions, lti, queries, roster
from autograder.gradebook.export import audit_csv, marks_csv, tasks_csv
from autograder.gradebook.policy import LateRule

pytestmark = pytest.mark.slow


def rows(write, *arguments, **named):
    out = io.StringIO(newline="")
    count = write(*arguments, out, **named)
    read = list(csv.DictReader(io.StringIO(out.getvalue(), newline="")))
    assert count == len(read)
    return read


@pytest.fixture
def course(book):
    """Three learners with two labs: on time, late with a task scored by hand, and nothing but an adjustment."""
    roster.enrol(book, "ada", by="grace", shown_as="Ada L.", lti_id="user-1")
    roster.enrol(book, "cyn", by="grace", lti_id="user-3")
    decisions.assign(book, LAB, by="grace", due=DUE, late=LateRule.parse("10%/day"), points=20.0)
    hand_in(book, "ada", "a", tasks=[task("rules", 3.0, 4.0), task("order", 4.0, 4.0)])
    key = hand_in(
        book,
        "bob",
        "b",
        tasks=[task("rules", 4.0, 4.0), task("order", 0.0, 4.0, "ungraded")],
        late=timedelta(hours=1),
    )
    decisions.score_by_hand(book, key, "order", 2.0, by="grace", comment="half")
    decisions.adjust(book, LAB, "cyn", 5, by="grace", reason="oral", replaces=True)
    hand_in(book, "ada", "other", 1, lab="lab06")
    return book


def test_marks_of_all_labs(course):
    found = rows(marks_csv, course)
    assert [list(row.values()) for row in found] == [
        ["ada", "Ada L.", "17.5", "1.0", "18.5"],
        ["bob", "bob", "13.5", "", "13.5"],
        ["cyn", "cyn", "5.0", "", "5.0"],
    ]
    assert list(found[0]) == ["learner", "name", LAB, "lab06", "sum"]


def test_tasks_of_a_lab(course):
    ada, bob, cyn = rows(tasks_csv, course, lab=LAB)
    assert (ada["rules"], ada["order"], ada["earned"], ada["penalty"], ada["points"]) == (
        "3.0",
        "4.0",
        "17.5",
        "0.0",
        "17.5",
    )
    assert (bob["rules"], bob["order"], bob["earned"], bob["penalty"], bob["points"]) == (
        "4.0",
        "2.0",
        "15.0",
        "1.5",
        "13.5",
    )
    assert datetime.fromisoformat(bob["came"]) - datetime.fromisoformat(bob["due"]) == timedelta(hours=1)
    assert bob["late_seconds"] == "3600.0"
    assert (cyn["submission"], cyn["rules"], cyn["adjusted"], cyn["points"]) == ("", "", "5.0", "5.0")


def test_audit_is_a_table_too(course):
    found = rows(audit_csv, course, lab=LAB)
    assert [row["what"] for row in found] == ["assignment", "hand score", "adjustment"]
    assert found[-1]["why"] == "oral"
    assert [row["old"] for row in found] == ["", "", ""]
    assert all(isinstance(json.loads(row["new"]), dict) for row in found)


@pytest.mark.parametrize(
    "name",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        '=HYPERLINK("http://x";"y")',
        "|cmd",
        "a\n=1",
        'a;"=1+1"',
        "\uff1d1+1",
        "a;=1+1",
        "a\u3000=1",
        'x",=1+1,"',
    ],
)
def test_no_name_is_a_formula_in_any_spreadsheet(book, name):
    """Read as a spreadsheet of any country would, no cell starts a formula."""
    hand_in(book, name, "a", 2)
    decisions.adjust(book, LAB, name, 1, by=name, reason=name)
    for write, named in ((marks_csv, {}), (tasks_csv, {"lab": LAB}), (audit_csv, {}), (queries.export_csv, {})):
        out = io.StringIO(newline="")
        write(book, out, **named)
        for separator in ",;\t|":
            for row in csv.reader(io.StringIO(out.getvalue(), newline=""), delimiter=separator):
                assert not [cell for cell in row if cell.strip().startswith(tuple("=+-@|%\uff1d"))], row


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("ada", "ada"),
        (" =1", "' =1"),
        ("\t=1", "'\t'=1"),
        ("\n=1", "'\n'=1"),
        ("\uff20x", "'\uff20x"),
        ("a=1", "a=1"),
        ("a;=1", "a;'=1"),
        ("a; b", "a; b"),
        ("", ""),
        (-1.5, -1.5),
    ],
)
def test_cells(text, cell):
    assert queries.cell(text) == cell


def test_an_empty_book_has_only_heads(book):
    assert rows(marks_csv, book) == []
    assert rows(tasks_csv, book, lab=LAB) == []
    assert rows(audit_csv, book) == []


# --- LTI ------------------------------------------------------------------------------------------


def test_scores_say_how_far_grading_is(course):
    hand_in(course, "dan", "d", tasks=[task("rules", 4.0, 4.0), task("order", 0.0, 4.0, "ungraded")])
    hand_in(course, "eve", "e")
    for name in ("bob", "dan", "eve"):
        roster.enrol(course, name, by="grace", lti_id=f"user-{name}")
    found = {one["userId"]: one for one in lti.outgoing(course, LAB).scores}
    assert {user: one["gradingProgress"] for user, one in found.items()} == {
        "user-1": "FullyGraded",
        "user-bob": "FullyGraded",
        "user-3": "FullyGraded",
        "user-dan": "PendingManual",
        "user-eve": "Pending",
    }
    assert (found["user-bob"]["scoreGiven"], found["user-bob"]["scoreMaximum"]) == (13.5, 20.0)
    assert "scoreGiven" not in found["user-eve"]
    assert {one["activityProgress"] for one in found.values()} == {"Completed"}
    moment = found["user-1"]["timestamp"]
    assert moment.endswith("Z")
    assert abs(datetime.fromisoformat(moment) - datetime.now(UTC)) < timedelta(minutes=10)


def test_learners_whom_the_platform_does_not_know_are_named(course):
    going = lti.outgoing(course, LAB)
    assert going.without_id == ["bob"]
    assert [one["userId"] for one in going.scores] == ["user-1", "user-3"]


@pytest.mark.parametrize(
    ("line_item", "scores"),
    [
        ("https://lms.test/items/1", "https://lms.test/items/1/scores"),
        ("https://lms.test/items/1/", "https://lms.test/items/1/scores"),
        ("https://lms.test/items/1/lineitem?type=2&a=b", "https://lms.test/items/1/lineitem/scores?type=2&a=b"),
    ],
)
def test_where_scores_go(line_item, scores):
    assert lti.scores_url(line_item) == scores


@pytest.fixture(scope="module")
def key():
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode(), private.public_key()


class Provider(BaseHTTPRequestHandler):
    """A learning platform: it checks the assertion's signature and the token, and keeps the scores."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append(self.path)
        if self.path == "/token":
            form = {name: values[0] for name, values in urllib.parse.parse_qs(body.decode()).items()}
            try:
                claims = jwt.decode(
                    form["client_assertion"],
                    self.server.public,
                    algorithms=["RS256"],
                    audience=f"{self.server.url}/token",
                    options={"require": ["iss", "sub", "aud", "iat", "exp", "jti"]},
                )
                good = claims["iss"] == claims["sub"] == "tool-7" and form["scope"] == lti.SCOPE
                good &= form["grant_type"] == "client_credentials"
                good &= jwt.get_unverified_header(form["client_assertion"])["kid"] == "key-1"
            except jwt.PyJWTError:
                good = False
            return self.answer(200 if good else 401, {"access_token": "secret-token"} if good else {})
        if self.path == "/elsewhere/scores":
            self.send_response(307)
            self.send_header("Location", f"{self.server.url}/items/1/scores")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        allowed = self.headers["Authorization"] == "Bearer secret-token"
        if not allowed or self.headers["Content-Type"] != lti.SCORE_TYPE:
            return self.answer(403, {})
        self.server.scores.append((self.path, json.loads(body)))
        return self.answer(200, {})

    def answer(self, code, data):
        text = json.dumps(data).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments):
        """Nothing: the tests look at what is kept."""


@pytest.fixture
def provider(key):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    server.url = f"http://127.0.0.1:{server.server_port}"
    server.public, server.scores, server.seen = key[1], [], []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_scores_arrive_at_a_platform(course, provider, key, tmp_path):
    (tmp_path / "key.pem").write_text(key[0])
    settings = {"token_url": f"{provider.url}/token", "client_id": "tool-7", "key_id": "key-1"}
    (tmp_path / "platform.json").write_text(json.dumps(settings | {"private_key_file": "key.pem"}))
    platform = lti.Platform.read(tmp_path / "platform.json")
    assert "PRIVATE" not in repr(platform)
    with pytest.raises(lti.PlatformError, match="no line item"):
        platform.send(lti.outgoing(course, LAB))
    decisions.assign(course, LAB, by="grace", line_item=f"{provider.url}/items/1?a=b")
    assert platform.send(lti.outgoing(course, LAB)) == 2
    assert [(path, one["userId"], one["scoreGiven"]) for path, one in provider.scores] == [
        ("/items/1/scores?a=b", "user-1", 17.5),
        ("/items/1/scores?a=b", "user-3", 5.0),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"client_id": "another"}, "401"),
        ({"private_key": "another"}, "401"),
        ({"private_key": "no key"}, "not an RSA key"),
        ({"token_url": "http://lms.test/token"}, "not an https address"),
        ({"token_url": "{url}/items/1"}, "403"),
        ({"line_item": "{url}/elsewhere"}, "user-1 was not taken.*307"),
        ({"line_item": "http://127.0.0.1:9/x"}, "could not be reached"),
        ({"line_item": "file:///etc/passwd"}, "not an https address"),
    ],
)
def test_a_platform_that_refuses(provider, key, change, words):
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    if change.get("private_key") == "another":
        pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        change = {"private_key": pem.decode()}
    change = {name: value.format(url=provider.url) for name, value in change.items()}
    line_item = change.pop("line_item", f"{provider.url}/items/1")
    settings = {
        "token_url": f"{provider.url}/token",
        "client_id": "tool-7",
        "key_id": "key-1",
        "private_key": key[0],
    }
    going = lti.Outgoing(LAB, line_item, [{"userId": "user-1"}], [])
    with pytest.raises(lti.PlatformError, match=words) as error:
        lti.Platform(**(settings | change)).send(going)
    assert "\n" not in str(error.value)
    assert provider.scores == []
    assert "/items/1/scores" not in provider.seen


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"private_key_file": "nowhere"}', '{"private_key_file": "me.json"}'])
def test_settings_that_are_none(tmp_path, text):
    (tmp_path / "me.json").write_text(text)
    with pytest.raises(lti.PlatformError, match="not a platform's settings"):
        lti.Platform.read(tmp_path / "me.json")
