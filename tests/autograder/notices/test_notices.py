"""Notices of grades, sent to servers of the test's own: lost servers, hostile names, forbidden places."""

from __future__ import annotations

import email
import hashlib
import hmac
import http.server
import itertools
import json
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from email import policy
from pathlib import Path
from typing import Any

import pytest
from classroom_work import LAB, hand_in

from autograder.gradebook import Gradebook, decisions, open_gradebook
from autograder.notices import grades, mail, webhook
from autograder.notices.outbox import GIVE_UP, Message, NotSent, Outbox
from autograder.notices.settings import Mail, Settings, SettingsError, Webhook, read

PAGES = "https://hub.example.edu/services/grades/autograder/"
SECRET = "a secret of the test's own"


class Smtp(socketserver.StreamRequestHandler):
    """As much of a mail server as takes a mail, or refuses it with `server.reply` (RFC 5321)."""

    server: Any

    def handle(self) -> None:
        self.say("220 here")
        recipients: list[str] = []
        while line := self.rfile.readline().decode().strip():
            word = line[:4].upper()
            if word == "QUIT":
                return self.say("221 bye")
            if word == "DATA":
                self.say("354 go on")
                lines = []
                while (part := self.rfile.readline()) != b".\r\n":
                    lines.append(part.removeprefix(b"."))
                self.server.taken.append((recipients, b"".join(lines)))
            if word == "RCPT":
                recipients.append(line.split("<")[1].split(">")[0])
                self.say(self.server.reply)
                continue
            self.say("250 fine")
        return None

    def say(self, reply: str) -> None:
        self.wfile.write(f"{reply}\r\n".encode())


class Hook(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted; answers with `server.reply`."""

    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.path, dict(self.headers), body))
        self.send_response(self.server.reply)
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_address[1]}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing: the test run has its own output."""


@pytest.fixture(params=[])
def served(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A server of the kind that the test names, its `reply` and what it has `taken`."""
    handler, reply = request.param
    server: Any = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
    server.daemon_threads, server.reply, server.taken = True, reply, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Gradebook]:
    with open_gradebook(tmp_path / "gradebook.sqlite") as opened:
        yield opened


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path / "outbox")


def by_mail(port: int = 25, **more: Any) -> Settings:
    return Settings(
        PAGES, mail=Mail("127.0.0.1", "course@example.edu", "example.edu", port=port, encryption="none"), **more
    )


def by_hook(port: int, folder: Path) -> Settings:
    (folder / "secret").write_text(SECRET + "\n")
    return Settings(PAGES, webhook=Webhook(f"http://127.0.0.1:{port}/grades?course=1", "secret", allow_private=True))


def first_look(book: Gradebook, outbox: Outbox, settings: Settings) -> None:
    assert grades.collect(book, outbox, settings) == 0


smtp = pytest.mark.parametrize("served", [(Smtp, "250 fine")], indirect=True)
hook = pytest.mark.parametrize("served", [(Hook, 204)], indirect=True)


@smtp
@pytest.mark.parametrize(
    ("language", "points", "subject", "text"),
    [
        ("en", False, "The tape: reverse mode in five pieces: graded", "is graded."),
        ("en", True, "The tape: reverse mode in five pieces: 3 of 4 points", "3 of 4 points."),
        ("zh", True, "The tape: reverse mode in five pieces：3 / 4 分", "已评分"),
    ],
)
def test_a_learner_gets_a_mail(served, book, outbox, tmp_path, language, points, subject, text):
    settings = by_mail(served.server_address[1], language=language, points=points)
    first_look(book, outbox, settings)
    number = hand_in(book, "ada", "{}", 3.0)
    assert grades.collect(book, outbox, settings) == 1
    assert grades.deliver(book, outbox, settings, tmp_path) == (1, 0)
    [(recipients, data)] = served.taken
    got = email.message_from_bytes(data, policy=policy.default)
    assert recipients == ["ada@example.edu"]
    assert (got["To"], got["Subject"], got["Auto-Submitted"]) == ("ada@example.edu", subject, "auto-generated")
    assert text in got.get_content()
    assert f"{PAGES}submission/{number}" in got.get_content()
    assert ("3" in got["Subject"].replace("5", "")) == points


@hook
def test_a_server_gets_a_signed_request(served, book, outbox, tmp_path):
    settings = by_hook(served.server_address[1], tmp_path)
    first_look(book, outbox, settings)
    number = hand_in(book, "ada", "{}", 3.0)
    grades.collect(book, outbox, settings)
    assert grades.deliver(book, outbox, settings, tmp_path) == (1, 0)
    [(path, headers, body)] = served.taken
    assert path == "/grades?course=1"
    told = json.loads(body)
    assert (told["event"], told["submission"], told["learner"]) == ("graded", number, "ada")
    assert (told["points"], told["max_points"], told["lab"]) == (3.0, 4.0, LAB)
    proof = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert headers["X-Autograder-Signature"] == f"sha256={proof}"
    assert headers["X-Autograder-Delivery"].startswith("webhook-")


def test_only_new_official_points_are_told(book, outbox):
    settings = by_mail()
    hand_in(book, "ada", "before", 3.0)
    first_look(book, outbox, settings)
    hand_in(book, "ada", "practice", 3.0, mode="practice")
    hand_in(book, "ada", "before", 3.0, spec_version="two")  # a regrade that changes nothing
    assert grades.collect(book, outbox, settings) == 0
    hand_in(book, "ada", "before", 2.0, spec_version="three")
    hand_in(book, "bob", "new", 1.0)
    assert grades.collect(book, outbox, settings) == 2
    assert grades.collect(book, outbox, settings) == 0
    assert {message.content["to"] for message in outbox.waiting()} == {"ada@example.edu", "bob@example.edu"}


@smtp
def test_a_result_that_is_not_out_is_not_told_before_it_is(served, book, outbox, tmp_path):
    settings = by_mail(served.server_address[1])
    first_look(book, outbox, settings)
    decisions.assign(book, LAB, by="ines", results=datetime(2200, 1, 1, tzinfo=UTC))
    hand_in(book, "ada", "{}", 3.0)
    grades.collect(book, outbox, settings)
    assert grades.deliver(book, outbox, settings, tmp_path) == (0, 0)
    assert served.taken == []
    decisions.assign(book, LAB, by="ines", results=None)
    assert grades.deliver(book, outbox, settings, tmp_path) == (1, 0)


@pytest.mark.parametrize(
    ("served", "state"),
    [((Smtp, "450 later"), "waiting"), ((Smtp, "550 nobody"), "aside")],
    indirect=["served"],
)
def test_a_mail_that_is_refused_waits_or_is_put_aside(served, outbox, tmp_path, state):
    outbox.put("mail-1", "mail", {"to": "ada@example.edu", "subject": "s", "text": "t"})
    settings = by_mail(served.server_address[1])
    assert outbox.work(lambda message: mail.send(message, settings.mail, tmp_path)) == (0, 1)
    [kept] = (outbox.folder / state).glob("*.json")
    assert "refused" in json.loads(kept.read_text())["fault"]


@pytest.mark.parametrize(
    ("served", "state"),
    [((Hook, 500), "waiting"), ((Hook, 302), "waiting"), ((Hook, 404), "waiting"), ((Hook, 410), "aside")],
    indirect=["served"],
)
def test_a_server_that_does_not_take_it_is_asked_again_and_followed_nowhere(served, book, outbox, tmp_path, state):
    settings = by_hook(served.server_address[1], tmp_path)
    outbox.put("webhook-1", "webhook", {"event": "graded"})
    assert grades.deliver(book, outbox, settings, tmp_path) == (0, 1)
    assert [path for path, _, _ in served.taken] == ["/grades?course=1"]
    assert [path.name for path in (outbox.folder / state).glob("*.json")] == ["webhook-1.json"]


def test_a_message_is_tried_again_later_each_time_and_put_aside_after_a_week(outbox):
    outbox.put("a-1", "mail", {})
    clock, times = time.time(), []

    def send(message: Message) -> None:
        times.append(clock)
        raise NotSent("away")

    def now() -> float:
        return clock

    while found := outbox.waiting():
        assert len(times) < 100
        clock = max(clock, found[0].not_before)
        outbox.work(send, clock=now)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[0] < pauses[1] < pauses[2]
    assert max(pauses) == 6 * 3600
    assert times[-1] - times[0] > GIVE_UP - 7 * 3600
    assert (outbox.folder / "aside" / "a-1.json").is_file()


def test_the_same_message_goes_out_once(outbox):
    sent: list[str] = []
    for _ in range(3):
        outbox.put("a-1", "mail", {"n": 1})
        outbox.work(lambda message: sent.append(message.key))
    assert sent == ["a-1"]
    with pytest.raises(ValueError, match="cannot name a message"):
        outbox.put("../../a", "mail", {})


def test_what_is_in_the_outbox_outlives_a_kill(tmp_path):
    """A process is killed while it sends; the next one finds the message and sends it."""
    code = (
        "import os, signal, sys; from pathlib import Path; from autograder.notices.outbox import Outbox\n"
        f"outbox = Outbox(Path({str(tmp_path)!r}))\n"
        "for number in range(5): outbox.put(f'a-{number}', 'mail', {'n': number})\n"
        "outbox.work(lambda message: os.kill(os.getpid(), signal.SIGKILL) if message.content['n'] == 2 else None)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    sent: list[int] = []
    Outbox(tmp_path).work(lambda message: sent.append(message.content["n"]))
    assert sent == [2, 3, 4]


def test_one_process_works_on_an_outbox(tmp_path):
    with Outbox(tmp_path).alone() as first, Outbox(tmp_path).alone() as second:
        assert (first, second) == (True, False)


def test_files_of_somebody_elses_making_are_passed_over(outbox):
    for number, text in enumerate(["", "[]", "{}", '{"key": 1, "no": 2}', "\0"]):
        (outbox.folder / "waiting" / f"x{number}.json").write_text(text)
    outbox.put("a-1", "mail", {})
    assert [message.key for message in outbox.waiting()] == ["a-1"]
    assert (outbox.folder / "waiting" / "a-1.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("to", "subject"),
    [
        ("ada@example.edu\r\nBcc: all@example.edu", "s"),
        ("ada@example.edu, bob@example.edu", "s"),
        ("ada", "s"),
        ("@", "s"),
        ("a b@example.edu", "s"),
        ("<ada@example.edu>@x", "s"),
    ],
)
def test_a_name_cannot_add_a_header_or_a_recipient(to, subject):
    told = {"to": to, "subject": subject, "text": "t"}
    with pytest.raises(NotSent) as caught:
        mail.written(Message("mail-1", "mail", told, 0.0), by_mail().mail)
    assert caught.value.final


def test_a_title_cannot_add_a_header():
    told = {"to": "ada@example.edu", "subject": "x\r\nBcc: all@example.edu", "text": "line\r\n.\r\nRCPT TO:<x@y>"}
    got = mail.written(Message("mail-1", "mail", told, 0.0), by_mail().mail)
    assert got["Bcc"] is None
    assert got["Subject"] == "x Bcc: all@example.edu"


INSIDE = [
    "127.0.0.1", "10.0.0.8", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
    "255.255.255.255", "::1", "::", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "2002:7f00:0001::", "ff02::1", "64:ff9b:1::1", "64:ff9b::a00:1", "192.0.2.1", "198.18.0.1",
]  # fmt: skip


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_inside_are_not_reached(address):
    assert not webhook.may_reach(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "1.1.1.1", "2606:4700:4700::1111"])
def test_addresses_outside_are(address):
    assert webhook.may_reach(address)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "https://localhost/",
        "https://[::1]/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://127.1/",
        "http://example.com/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "https://user:password@example.com/",
        "https:///path",
        "https://\udcff/",
        "",
    ],
)
def test_a_webhook_reaches_nothing_inside(url, monkeypatch):
    real = socket.socket.connect
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail(f"{url} was connected to"))
    with pytest.raises(NotSent):
        webhook.send(Message("webhook-1", "webhook", {}, 0.0), Webhook(url, "secret"), SECRET)
    monkeypatch.setattr(socket.socket, "connect", real)


def test_a_name_is_looked_up_once_and_one_bad_address_is_enough(monkeypatch):
    asked = []

    def look(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [(0, 0, 0, "", (address, port)) for address in ("93.184.215.14", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", look)
    with pytest.raises(NotSent, match=r"rebind\.example is at 10\.0\.0\.1"):
        webhook.look_up("rebind.example", 443, allow_private=False)
    assert asked == ["rebind.example"]


GOOD = f'pages = "{PAGES}"\n[webhook]\nurl = "https://example.edu/x"\nsecret_file = "secret"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "pages is missing"),
        (f'pages = "{PAGES}"', r"neither \[mail\] nor \[webhook\]"),
        (GOOD.replace("https://hub", "hub"), "the whole address"),
        (GOOD + "colour = 1", "webhook: there is no 'colour'"),
        ("colour = 1\n" + GOOD, "there is no 'colour'"),
        (GOOD.replace("secret_file", "#"), "webhook: secret_file is missing"),
        (GOOD.replace('"secret"', "3"), "secret_file is 3; give a str"),
        ('language = "fr"\n' + GOOD, "language 'fr'"),
        ("mail = 3\n" + GOOD, "mail is not a table"),
        (GOOD, "secret_file: there is no file .*secret; write"),
        (
            GOOD + '[mail]\nhost = "h"\nsender = "a@b"\npassword_file = "p"',
            "password_file: there is no file .*p; write",
        ),
        (GOOD + '[mail]\nhost = "smtp.example.edu"\nsender = "a@b"\nencryption = "none"', "only to this machine"),
        (GOOD + '[mail]\nhost = "smtp.example.edu"\nsender = "a@b"\nencryption = "rot13"', "encryption 'rot13'"),
        ("[", "Invalid"),
        ("\0", "Invalid|invalid|Illegal"),
    ],
)
def test_settings_that_say_too_little_are_refused_in_one_line(tmp_path, text, said):
    file = tmp_path / "notices.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=said) as caught:
        read(file)
    assert "\n" not in str(caught.value)


def test_settings_are_read(tmp_path):
    file = tmp_path / "notices.toml"
    (tmp_path / "secret").write_text("word")
    file.write_text(GOOD + '[mail]\nhost = "h"\nsender = "a@b"\ndomain = "c"\n[mail.addresses]\nada = "ada@d"\n')
    found = read(file)
    assert found.mail is not None
    assert (found.mail.address_of("ada"), found.mail.address_of("bob")) == ("ada@d", "bob@c")
    assert found.webhook is not None
    assert not found.webhook.allow_private
    with pytest.raises(SettingsError, match="No such file"):
        read(tmp_path / "none.toml")


@pytest.mark.slow
@hook
def test_the_command_tells_what_is_new_and_ends(served, book, tmp_path):
    by_hook(served.server_address[1], tmp_path)
    file = tmp_path / "notices.toml"
    port = served.server_address[1]
    file.write_text(GOOD.replace("https://example.edu/x", f"http://127.0.0.1:{port}/") + "allow_private = true\n")
    command = [sys.executable, "-m", "autograder", "notices", str(file), "--once", "--gradebook", book.url]
    environment = {"AUTOGRADER_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        hand_in(book, "ada", "{}", 3.0)
    assert "1 sent, 0 not sent" in done.stdout
    assert len(served.taken) == 1
