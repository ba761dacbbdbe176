"""What a learner tries from their own server and browser, and what comes of it."""

from __future__ import annotations

import base64
import json
import os
import re
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hub_process import Answer, Hub, Session
from notebook_kernel import ACCUMULATE, RULES, write_notebook

pytestmark = pytest.mark.slow

GRADING = "/services/grading/"


class Kernel:
    """A kernel in a person's server, reached as JupyterLab reaches it."""

    def __init__(self, hub: Hub, name: str) -> None:
        import websocket

        self.session = hub.start_server(name)
        home = f"/user/{name}/"
        token = self.session.cookie("_xsrf", home)
        answer = self.session.ask(f"{home}api/kernels", b"{}", X_XSRFToken=token, Content_Type="application/json")
        assert answer.status == 201, answer
        cookies = "; ".join(f"{one.name}={one.value}" for one in self.session.jar if one.path in ("/", home))
        address = hub.base.replace("http", "ws") + f"{home}api/kernels/{answer.json()['id']}/channels"
        self.socket = websocket.create_connection(address, cookie=cookies, suppress_origin=True, timeout=180)

    def run(self, code: str) -> str:
        """What a cell printed and showed; its error, if it raised."""
        number = uuid.uuid4().hex
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        header = {"msg_id": number, "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3"}
        message = {"header": header | {"date": ""}, "parent_header": {}, "metadata": {}, "channel": "shell"}
        self.socket.send(json.dumps(message | {"content": content}))
        shown: list[str] = []
        while True:
            heard = json.loads(self.socket.recv())
            if heard["parent_header"].get("msg_id") != number:
                continue
            told = heard["content"]
            if heard["msg_type"] == "stream":
                shown.append(told["text"])
            elif heard["msg_type"] in ("execute_result", "display_data"):
                shown.append(told["data"].get("text/plain", ""))
            elif heard["msg_type"] == "error":
                shown.append(f"{told['ename']}: {told['evalue']}")
            elif heard["msg_type"] == "status" and told["execution_state"] == "idle":
                return "\n".join(shown)

    def value(self, expression: str) -> Any:
        """A value that JSON can say."""
        return json.loads(
            self.run(f"import json, os, pathlib, subprocess, urllib.request\nprint(json.dumps({expression}))")
        )


@pytest.fixture(scope="module")
def kernel(hub: Hub) -> Iterator[Kernel]:
    found = Kernel(hub, "alan")
    yield found
    found.socket.close()


@pytest.fixture(scope="module")
def teacher(hub: Hub) -> Session:
    return hub.session("teacher")


def submission(*cells: str, lab: str = "lab05_tape", tmp: Any) -> bytes:
    return write_notebook(tmp / "handed_in.ipynb", "import numpy as np", *cells, lab=lab).read_bytes()


def hand_in(session: Session, data: bytes, **headers: str) -> Answer:
    """As a page of the service's own would."""
    session.ask(GRADING + "autograder/")
    body = json.dumps({"filename": "lab05_tape.ipynb", "notebook": base64.b64encode(data).decode()}).encode()
    sent = {"X_XSRFToken": session.cookie("_xsrf", GRADING), "Content_Type": "application/json"} | headers
    return session.ask(GRADING + "api/submissions", body, **sent)


@pytest.fixture(scope="module")
def of_grace(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> int:
    """A submission of another learner."""
    session = hub.session("grace")
    answer = hand_in(session, submission(RULES, tmp=tmp_path_factory.mktemp("grace")))
    assert answer.status == 202, answer
    return answer.json()["submission"]


# --- from a kernel ---------------------------------------------------------------------------------


def test_the_server_sees_its_own_folder_and_no_answers(kernel: Kernel, hub: Hub) -> None:
    seen = kernel.value("sorted(os.listdir('/home'))")
    assert seen == ["alan"]
    for hidden in (hub.state, hub.state / "gradebook", hub.state / "homes", hub.state / "accounts.json"):
        assert hidden.exists()
        assert kernel.value(f"os.path.exists({str(hidden)!r})") is False
    import autograder

    package = autograder.__path__[0]
    assert kernel.value(f"os.listdir({package!r} + '/specs')") == []
    root = package.removesuffix("/autograder")
    for hidden in ("labs/solutions", "tests", ".git", ".run"):
        assert kernel.value(f"os.path.exists({root!r} + '/{hidden}')") is False
    assert "ModuleNotFoundError" in kernel.run("import autograder.specs.lab05_tape")


def test_the_server_is_not_the_hub_s_user_and_can_change_nothing(kernel: Kernel) -> None:
    import autograder

    for path in (autograder.__path__[0] + "/grade.py", "/usr/bin/env", "/etc/hosts"):
        assert kernel.value(f"os.access({path!r}, os.W_OK)") is False
    if os.geteuid() == 0:
        assert kernel.value("os.getuid()") >= 200_000
        assert kernel.value("os.access('/etc/shadow', os.R_OK)") is False
        assert kernel.run("import ctypes\nprint(ctypes.CDLL(None).setuid(0))").strip() == "-1"


def test_no_other_process_can_be_seen(kernel: Kernel) -> None:
    names = kernel.value(
        "[pathlib.Path('/proc', one, 'cmdline').read_bytes().decode(errors='replace') "
        "for one in os.listdir('/proc') if one.isdigit()]"
    )
    assert names
    assert not any(word in name for name in names for word in ("classroom.service", "oracles", "configurable-http"))


def test_the_token_there_reaches_the_service_and_nothing_of_the_hub(kernel: Kernel, hub: Hub, of_grace: int) -> None:
    token = kernel.value("os.environ['JUPYTERHUB_API_TOKEN']")
    values = kernel.value("dict(os.environ)")
    assert [name for name in values if name.startswith("CLASSROOM")] == []
    assert [name for name in values if "SECRET" in name or "PROXY" in name] == []
    anyone = Session(hub.base)
    asked = {"Authorization": f"token {token}"}
    assert anyone.ask(GRADING + "api/labs", **asked).status == 200
    for path in ("users", "users/grace", "proxy", "services", "groups", "users/alan/tokens", "info"):
        assert anyone.ask(f"/hub/api/{path}", **asked).status in (403, 404), path
    changes = ["DELETE users/grace/server", "POST users/grace/server", "POST users/alan/tokens", "POST shutdown"]
    for method, path in (change.split() for change in [*changes, "DELETE users/grace", "POST users/mallory"]):
        assert anyone.ask(f"/hub/api/{path}", b"{}", method=method, **asked).status in (403, 404), path
    assert anyone.ask("/user/grace/api/contents", **asked).status in (403, 404, 424)
    for ending in ("", ".json", ".ipynb"):
        assert anyone.ask(f"{GRADING}autograder/submission/{of_grace}{ending}", **asked).status == 404
    assert anyone.ask(f"{GRADING}api/submissions/{of_grace}", **asked).status == 404


def test_no_grade_can_be_given_from_there(kernel: Kernel, hub: Hub, of_grace: int, teacher: Session) -> None:
    token = kernel.value("os.environ['JUPYTERHUB_API_TOKEN']")
    anyone = Session(hub.base)
    before = teacher.ask(f"{GRADING}autograder/class/audit").text
    for path in ("class/", "class/queue", "class/audit", "class/lab/lab05_tape", f"class/submission/{of_grace}",
                 "class/learner?name=alan", "class/export/marks.csv"):  # fmt: skip
        assert anyone.ask(f"{GRADING}autograder/{path}", Authorization=f"token {token}").status == 404, path
        form = urllib.parse.urlencode({"points": "100", "reason": "because", "learner": "alan"}).encode()
        posted = anyone.ask(f"{GRADING}autograder/{path}", form, Authorization=f"token {token}")
        assert posted.status in (403, 404, 405), path
    report = json.dumps({"submission": of_grace, "points": 100, "report": {"points": 100}}).encode()
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        path = f"{GRADING}api/submissions/{of_grace}"
        answer = anyone.ask(path, report, method=method, Authorization=f"token {token}")
        assert answer.status in (403, 404, 405), method
    # Whoever the notebook or the request claims to be, the token says who it is.
    data = json.dumps({"learner": "grace", "notebook": base64.b64encode(b"{}").decode()}).encode()
    assert anyone.ask(GRADING + "api/submissions", data, Authorization=f"token {token}").status == 400
    assert teacher.ask(f"{GRADING}autograder/class/audit").text == before


def test_the_proxy_and_the_service_answer_nobody_without_a_token(kernel: Kernel, hub: Hub) -> None:
    routes = re.search(r"Proxy API at http://(?:127\.0\.0\.1:)?(\d+)", (hub.state / "hub.log").read_text())
    assert routes
    service = kernel.value("os.environ['AUTOGRADER_SERVICE']")
    probe = """
def status(url):
    try:
        return urllib.request.urlopen(url, timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code
"""
    kernel.run("import urllib.error, urllib.request\n" + probe)
    for url in (f"http://127.0.0.1:{routes[1]}/api/routes", f"{service}api/labs", f"{service}api/submissions/1"):
        assert kernel.value(f"status({url!r})") == 403, url


def test_a_check_and_a_submission_from_the_kernel(kernel: Kernel, hub: Hub) -> None:
    path = hub.state / "homes" / "alan" / "labs" / "mine.ipynb"
    write_notebook(path, "import numpy as np", RULES, ACCUMULATE)
    owner = path.parent.stat()
    os.chown(path, owner.st_uid, owner.st_gid)
    kernel.run("import numpy as np\nfrom autograder import check, submit")
    kernel.run(RULES)
    assert "Right" in kernel.run("check('rules', lab='lab05_tape')")
    said = kernel.run("submit('labs/mine.ipynb')")
    assert "is stored as submission" in said
    assert "Right" in said
    kernel.run("def accumulate(cotangents, node, value):\n    return 1")
    assert "`accumulate` is not in mine.ipynb" in kernel.run("submit('labs/mine.ipynb')")
    assert "Nothing was handed in" in kernel.run("submit('labs/no.ipynb')")


# --- what a graded notebook tries ---------------------------------------------------------------------

ATTACKS = {
    "reads the gradebook": "open({gradebook!r}, 'rb').read()",
    "reads the service's token": "__import__('os').environ['JUPYTERHUB_API_TOKEN']",
    "reads another process's environment": "open('/proc/1/environ', 'rb').read()",
    "calls the service": "__import__('urllib.request').request.urlopen({base!r}, timeout=3).read()",
    "starts a program": "__import__('subprocess').check_output(['/bin/cat', '/etc/passwd'])",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_runs_while_it_is_graded_reaches_nothing(hub: Hub, attack: str, tmp_path: Any) -> None:
    tried = ATTACKS[attack].format(gradebook=str(hub.state / "gradebook" / "gradebook.sqlite"), base=hub.base)
    stolen = (
        "try:\n    loot = repr(" + tried + ")\nexcept BaseException as error:\n    loot = type(error).__name__\n"
        "def mul_rule(g, x, y):\n    raise ValueError('LOOT ' + loot)\n"
        "def matmul_rule(g, x, y):\n    raise ValueError('LOOT ' + loot)\n"
    )
    session = hub.session("grace")
    answer = hand_in(session, submission(stolen, tmp=tmp_path))
    assert answer.status == 202, answer
    state: dict[str, Any] = {"state": "waiting"}
    deadline = time.monotonic() + 150
    while state["state"] in ("waiting", "leased") and time.monotonic() < deadline:
        state = session.ask(f"{GRADING}api/submissions/{answer.json()['submission']}?wait=20").json()
    assert state["state"] == "graded", state
    report = json.loads(state["report"])
    rules = next(task for task in report["tasks"] if task["name"] == "rules")
    assert rules["points"] == 0
    told = json.dumps(rules)
    kept_out = ("FileNotFoundError", "KeyError", "PermissionError", "URLError", "OSError", "BlockingIOError")
    assert rules["verdict"] == "refused" or any(f"LOOT {fault}" in told for fault in kept_out), told[:2000]


# --- from a browser --------------------------------------------------------------------------------


def test_learners_see_no_class_and_instructors_do(hub: Hub, teacher: Session, of_grace: int) -> None:
    learner = hub.session("ada")
    for path in ("class/", "class/queue", f"class/submission/{of_grace}"):
        assert learner.ask(f"{GRADING}autograder/{path}").status == 404
        assert teacher.ask(f"{GRADING}autograder/{path}").status == 200
    for path in ("nothing", "hub/admin", "autograder/nothing"):
        assert learner.ask(GRADING + path).status == 404, path
    assert learner.ask("/hub/admin").status in (403, 404)


def test_a_form_of_another_site_does_nothing(hub: Hub, tmp_path: Any) -> None:
    session = hub.session("ada")
    data = submission(RULES, tmp=tmp_path)
    stale = hand_in(session, data, X_XSRFToken="wrong")
    assert stale.status == 403
    assert "older than your log-in" in stale.json()["reason"]
    assert hand_in(session, data, Origin="https://elsewhere.example").status == 403
    assert hand_in(session, data, Sec_Fetch_Site="cross-site").status == 403
    anyone = Session(hub.base)
    for sent in ({}, {"Authorization": "token of-nobody"}):
        unknown = anyone.ask(GRADING + "api/submissions", b"{}", **sent)
        assert unknown.status == 403
        assert unknown.json()["reason"].startswith("Log in first")
    form = anyone.ask(GRADING + "autograder/class/people", b"do=enrol")
    assert form.status == 403
    assert f'<a href="{GRADING}autograder/">Log in</a>' in form.text
    assert anyone.ask(GRADING + "api/labs").status == 403
    assert hand_in(session, data).status == 202


def test_the_cookies_stay_where_they_belong(hub: Hub) -> None:
    session = hub.session("ada")
    session.ask(GRADING + "autograder/")
    by_name = {(one.name, one.path): one for one in session.jar}
    login = by_name["jupyterhub-hub-login", "/hub/"]
    service = next(one for (name, path), one in by_name.items() if path == GRADING and name != "_xsrf")
    for cookie in (login, service):
        assert cookie.has_nonstandard_attr("HttpOnly"), cookie
        assert not cookie.domain_specified


def test_guessing_a_password_is_slowed_down(hub: Hub) -> None:
    session = Session(hub.base)
    said = [session.log_in("guest", f"guess number {number}").status for number in range(7)]
    assert said[0] in (401, 403)
    assert said[-1] == 429
    assert session.log_in("guest", hub.passwords["guest"]).status == 429


def test_handing_in_too_often_is_refused_in_words(hub: Hub, tmp_path: Any) -> None:
    session = hub.session("teacher")
    data = b"not a notebook"
    statuses = []
    for _ in range(40):
        answer = hand_in(session, data)
        statuses.append(answer.status)
        if answer.status == 429:
            break
    assert statuses[0] == 400
    assert answer.status == 429
    assert "Nothing was handed in" in answer.json()["reason"]
