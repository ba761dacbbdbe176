"""The pages beside JupyterLab, asked over HTTP from a real server on this machine."""

from __future__ import annotations

import hashlib
import http.client
import http.cookies
import json
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from classroom_samples import RIGHT, WRONG, report
from jupyter_process import TOKEN, running

from autograder import spec
from autograder.feedback import html
from autograder.feedback.catalogue import messages
from autograder.gradebook import open_gradebook
from autograder.web import learning, views

pytestmark = pytest.mark.slow  # a server is started

ME = "ada"
SCRIPT = "<script>alert(1)</script>"


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: str


@dataclass
class Server:
    port: int
    home: Path
    book: Path
    mine: int
    ungraded: int
    theirs: int
    notebook: bytes

    def get(self, path: str, *, token: bool = True, method: str = "GET", body: str = "", **sent: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in sent.items()}
        try:
            connection.request(method, path, body, {"Authorization": f"token {TOKEN}"} | named if token else named)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read().decode(errors="replace"))
        finally:
            connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("home")
    book, labs = home / "html", home / "labs"
    (book / "chapter").mkdir(parents=True)
    (book / "index.html").write_text("<h1>The book</h1>")
    (book / "chapter" / "index.html").write_text("<h1>A chapter</h1>")
    (book / "figure.svg").write_text("<svg/>")
    (book / "_static" / "edge").mkdir(parents=True)
    for script in ("worker.js", "page.js"):
        (book / "_static" / "edge" / script).write_text("1;")
    (book / "leak").symlink_to(home)
    labs.mkdir()
    (labs / "lab05_tape.ipynb").write_text("{}")
    (home / "secret.txt").write_text("secret")
    data = json.dumps({"cells": [], "text": SCRIPT}).encode()
    with open_gradebook(home / "gradebook.sqlite") as gradebook:
        keep = {"lab": "lab05_tape", "source": "notebook"}
        mine = gradebook.submit(data, learner=ME, filename=f"{SCRIPT}.ipynb", **keep)
        gradebook.record(mine.submission_id, report(RIGHT, WRONG, sha256=mine.sha256, title=SCRIPT))
        ungraded = gradebook.submit(b"{}", learner=ME, filename="later.ipynb", **keep)
        theirs = gradebook.submit(b"[]", learner="bob", filename="theirs.ipynb", **keep)
        gradebook.record(theirs.submission_id, report(RIGHT, WRONG, sha256=theirs.sha256))
        environment = {"AUTOGRADER_HOME": str(home), "JUPYTERHUB_USER": ME, "AUTOGRADER_INSTRUCTOR": "1"}
    with running(home, labs, f"--Classroom.book={book}", **environment) as port:
        yield Server(port, home, book, mine.submission_id, ungraded.submission_id, theirs.submission_id, data)


@pytest.mark.slow
def test_labs_tasks_and_submissions_are_listed(server):
    answer = server.get("/autograder/")
    assert answer.status == 200
    assert "2 of 5 points (practice), best of 2 submissions." in answer.body
    assert f'href="/autograder/submission/{server.mine}"' in answer.body
    assert "later.ipynb" in answer.body
    assert "Not graded yet" in answer.body
    assert "theirs.ipynb" not in answer.body
    assert "/lab/tree/lab05_tape.ipynb" in answer.body


@pytest.mark.slow
def test_feedback_page_is_the_stand_alone_one_with_ways_back(server):
    answer = server.get(f"/autograder/submission/{server.mine}")
    assert answer.status == 200
    assert WRONG.counter_example.replay.splitlines()[-1] in answer.body
    assert 'href="/autograder/"' in answer.body
    assert html.source_hash(html.asset("copy.js")) in answer.headers["Content-Security-Policy"]


@pytest.mark.slow
def test_ungraded_submission_says_that_nothing_is_lost(server):
    answer = server.get(f"/autograder/submission/{server.ungraded}")
    assert answer.status == 200
    assert "Nothing is lost" in answer.body
    assert server.get(f"/autograder/submission/{server.ungraded}.json").status == 404


@pytest.mark.slow
def test_notebook_comes_back_byte_for_byte_as_a_download(server):
    answer = server.get(f"/autograder/submission/{server.mine}.ipynb")
    assert hashlib.sha256(answer.body.encode()).digest() == hashlib.sha256(server.notebook).digest()
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_report_as_json(server):
    answer = server.get(f"/autograder/submission/{server.mine}.json")
    assert answer.headers["Content-Type"].startswith("application/json")
    assert json.loads(answer.body)["points"] == 2.0


@pytest.mark.parametrize("ending", ["", ".json", ".ipynb"])
def test_submission_of_another_learner_does_not_exist_for_me(server, ending):
    theirs = server.get(f"/autograder/submission/{server.theirs}{ending}")
    nobodys = server.get(f"/autograder/submission/987654{ending}")
    assert theirs.status == nobodys.status == 404
    assert theirs.body.replace(f"submission {server.theirs}", "") == nobodys.body.replace("submission 987654", "")


@pytest.mark.parametrize(
    "path", ["/autograder/", "/autograder/submission/1", "/autograder", "/book/", "/book", "/book/figure.svg"]
)
def test_without_the_token_there_is_only_the_login_page(server, path):
    answer = server.get(path, token=False)
    assert answer.status == 302
    assert "/login" in answer.headers["Location"]


@pytest.mark.parametrize(
    "path", ["/autograder/submission/1.json", "/autograder/submission/1.ipynb", "/autograder/x.json"]
)
def test_without_the_token_programs_get_a_reason(server, path):
    answer = server.get(path, token=False)
    assert answer.status == 403
    assert json.loads(answer.body)["reason"].startswith("Log in first")


@pytest.mark.parametrize(
    ("path", "status"), [("/autograder/submission/99.json", 404), ("/autograder/no/such.json", 404)]
)
def test_data_paths_give_reasons_as_json(server, path, status):
    answer = server.get(path)
    assert (answer.status, json.loads(answer.body)["status"]) == (status, status)
    assert json.loads(answer.body)["reason"]


@pytest.mark.parametrize(
    "path",
    [
        "/autograder/nothing",
        "/autograder/submission/abc",
        "/autograder/submission/1/2",
        "/autograder/submission/" + "9" * 400,
    ],
)
def test_unknown_page_is_a_page(server, path):
    answer = server.get(path)
    assert answer.status == 404
    assert "<h1>404: Not Found</h1>" in answer.body


@pytest.mark.parametrize("path", ["/autograder/", "/autograder/submission/1", "/autograder/nothing", "/book/nothing"])
def test_no_scripts_from_names_and_strict_headers(server, path):
    answer = server.get(path)
    assert SCRIPT not in answer.body
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'self'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] in {"no-store", "no-cache"}


def test_only_reading_is_offered(server):
    for path in ("/autograder/", f"/autograder/submission/{server.mine}", "/book/"):
        for method in ("POST", "DELETE", "PUT"):
            assert server.get(path, method=method).status in {403, 405}


def test_book_with_index_of_every_folder(server):
    assert "The book" in server.get("/book/").body
    assert "A chapter" in server.get("/book/chapter/").body
    assert server.get("/book/chapter").status in {301, 302}
    assert server.get("/book").headers["Location"] == "/book/"
    figure = server.get("/book/figure.svg")
    assert figure.headers["Content-Type"] == "image/svg+xml"
    assert "default-src 'self'" in figure.headers["Content-Security-Policy"]
    assert server.get("/book/", method="HEAD").body == ""


def test_only_the_worker_that_runs_webassembly_may_compile(server):
    allowed = {
        path: "'unsafe-eval'" in server.get(f"/book/{path}").headers["Content-Security-Policy"]
        for path in ("", "chapter/", "_static/edge/worker.js", "_static/edge/page.js", "_static/edge/worker.js/")
    }
    assert [path for path, may in allowed.items() if may] == ["_static/edge/worker.js"]


@pytest.mark.parametrize(
    "path",
    [
        "/book/../secret.txt",
        "/book/%2e%2e/secret.txt",
        "/book/..%2fsecret.txt",
        "/book/leak/secret.txt",
        "/book//etc/passwd",
        "/book/leak/gradebook.sqlite",
    ],
)
def test_nothing_outside_the_book_is_served(server, path):
    answer = server.get(path)
    assert answer.status in {403, 404}
    assert "secret" not in answer.body.replace(path, "")


def test_missing_book_says_how_to_build_it(server):
    index = server.book / "index.html"
    index.rename(server.book / "away")
    try:
        answer = server.get("/book/")
        assert answer.status == 404
        assert "make book" in answer.body
        assert "has not been built" in answer.body
    finally:
        (server.book / "away").rename(index)
    assert "make book" not in server.get("/book/no-such-page").body


def test_broken_gradebook_is_a_503_with_the_reason(server):
    book = server.home / "gradebook.sqlite"
    aside = {path: path.with_name(path.name + ".aside") for path in server.home.glob("gradebook.sqlite*")}
    for path, other in aside.items():
        path.rename(other)
    book.write_bytes(b"not a database, and long enough to be looked at" * 50)
    try:
        page, data = server.get("/autograder/"), server.get("/autograder/submission/1.json")
        assert (page.status, data.status) == (503, 503)
        assert "not a gradebook" in page.body
        assert "not a gradebook" in json.loads(data.body)["reason"]
    finally:
        book.unlink()
        for path, other in aside.items():
            other.rename(path)
    assert server.get("/autograder/").status == 200


class Cookies:
    """A browser that logged in with the token once, and sends cookies from then on."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.kept: dict[str, str] = {}
        self.ask("GET", f"/autograder/?token={TOKEN}")

    def ask(self, method: str, path: str, form: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.kept.items())}
        headers |= {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
        try:
            connection.request(method, path, urllib.parse.urlencode(form) if form else None, headers)
            response = connection.getresponse()
            for line in response.headers.get_all("Set-Cookie") or []:
                self.kept |= {name: morsel.value for name, morsel in http.cookies.SimpleCookie(line).items()}
            return Answer(response.status, response.headers, response.read().decode(errors="replace"))
        finally:
            connection.close()


@pytest.mark.slow
def test_forms_work_on_jupyters_own_log_in_and_not_without_their_token(server):
    browser = Cookies(server.port)
    form = {"do": "adjust", "lab": "lab05_tape", "learner": "bob", "way": "add", "points": "1", "why": "a reason"}
    assert "bob" in browser.ask("GET", "/autograder/class/").body
    refused = browser.ask("POST", "/autograder/class/learner?name=bob", form)
    assert refused.status == 403
    assert "Nothing was changed" in refused.body
    taken = browser.ask("POST", "/autograder/class/learner?name=bob", form | {"_xsrf": browser.kept["_xsrf"]})
    assert taken.headers["Location"] == "/autograder/class/learner?name=bob&said=adjusted"
    assert "a reason" in browser.ask("GET", taken.headers["Location"]).body
    assert browser.ask("POST", "/autograder/language", {"language": "zh", "_xsrf": browser.kept["_xsrf"]}).status == 303
    assert '<html lang="zh">' in browser.ask("GET", "/autograder/").body


@pytest.mark.slow
@pytest.mark.parametrize("place", ["//evil.example/", "https://evil.example/", "/\\evil.example/"])
def test_the_log_in_leads_nowhere_else(server, place):
    answer = Cookies(server.port).ask("GET", "/login?" + urllib.parse.urlencode({"next": place}))
    assert not answer.headers.get("Location", "/").startswith(("//", "http", "/\\"))


@pytest.mark.slow
def test_jupyterlab_saves_often_and_asks_nobody_for_news(server):
    settings = json.loads(server.get("/lab/api/settings/@jupyterlab/docmanager-extension:plugin").body)
    assert settings["schema"]["properties"]["autosaveInterval"]["default"] <= 10
    news = json.loads(server.get("/lab/api/settings/@jupyterlab/apputils-extension:notification").body)
    assert news["schema"]["properties"]["fetchNews"]["default"] == "false"


@pytest.mark.slow
def test_server_listens_on_this_machine_only(server):
    assert json.loads(server.get("/api/status").body)["started"]
    listening = (Path("/proc/net/tcp").read_text() if Path("/proc/net/tcp").exists() else "").splitlines()
    addresses = {
        line.split()[1].split(":")[0] for line in listening[1:] if int(line.split()[1].split(":")[1], 16) == server.port
    }
    assert addresses <= {"0100007F"}


@pytest.mark.slow
def test_every_lab_there_is_gets_a_section_even_when_nothing_is_handed_in(tmp_path):
    with open_gradebook(tmp_path / "gradebook.sqlite") as book:
        page = learning.overview(book, "nobody", views.Links("/autograder/", "/lab", "/book/"), tmp_path, token="t")
    assert "Not handed in yet" in page
    assert page.count("<h2 ") == len(spec.lab_names()) > 0


def test_a_form_without_the_token_is_told_to_log_in(server):
    answer = server.get("/autograder/language", token=False, method="POST", body="language=zh")
    assert answer.status == 403
    assert "Log in first" in answer.body
    assert '<a href="/autograder/">Log in</a>' in answer.body


@pytest.mark.parametrize(("asked", "language"), [("zh-CN,en;q=0.5", "zh"), ("en", "en"), ("fr", "en")])
def test_the_submit_button_is_told_its_words(server, asked, language):
    answer = server.get("/classroom/words", Accept_Language=asked)
    assert answer.status == 200
    own = {key.partition(".")[2]: text for key, text in messages(language).items() if key.startswith("button.")}
    assert json.loads(answer.body) == own
    assert "submit" in own


@pytest.mark.parametrize(
    ("path", "key"),
    [("notes.txt", "only_notebooks"), ("../secret.ipynb", "outside"), ("gone.ipynb", "no_file"), (3, "only_notebooks")],
)
def test_what_the_button_cannot_hand_in_is_said_in_the_language_of_the_browser(server, path, key):
    body = json.dumps({"path": path})
    answer = server.get("/classroom/submit", method="POST", body=body, Accept_Language="zh")
    assert answer.status in (400, 404)
    assert json.loads(answer.body)["reason"] == messages("zh")[f"hub.{key}"].format(path=path)


def test_the_words_of_the_button_are_for_who_has_logged_in(server):
    assert server.get("/classroom/words", token=False).status in (302, 403)
