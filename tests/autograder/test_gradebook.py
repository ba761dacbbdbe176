"""The gradebook keeps what it is given: through resubmission, two processes, a full disk and a newer schema."""

from __future__ import annotations

import csv
import io
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from classroom_samples import FAILED, RIGHT, UNGRADED, WRONG, report

from autograder.gradebook import GradebookError, GradebookTooNew, export_csv, open_gradebook, queries
from autograder.gradebook.models import HEAD, Base
from autograder.gradebook.schema import MIGRATIONS
from autograder.gradebook.store import Gradebook, Receipt

NOTEBOOK = b'{"cells": [], "nbformat": 4}'


@pytest.fixture
def book(tmp_path: Path):
    with open_gradebook(tmp_path / "gradebook.sqlite") as opened:
        yield opened


def hand_in(
    book: Gradebook,
    data: bytes = NOTEBOOK,
    learner: str = "ada",
    lab: str = "lab05_tape",
    filename: str = "lab05_tape.ipynb",
) -> Receipt:
    return book.submit(data, lab=lab, learner=learner, filename=filename, source="command line")


def test_bytes_come_back_as_they_were(book):
    data = bytes(range(256)) * 1000
    assert queries.notebook(book, hand_in(book, data).submission_id) == data


def test_identical_resubmission_is_one_submission_with_another_attempt(book):
    first, second = hand_in(book), hand_in(book)
    assert (second.submission_id, first.attempt, second.attempt) == (first.submission_id, 1, 2)
    assert queries.counts(book) == (1, 2)
    [row] = queries.submissions(book)
    assert row.attempts == 2
    assert row.first_at <= row.last_at
    assert row.first_at.utcoffset() is not None


def test_same_bytes_from_two_learners_are_two_submissions_of_one_content(book):
    assert hand_in(book, learner="ada").submission_id != hand_in(book, learner="bob").submission_id
    assert sqlite3.connect(book.where).execute("select count(*) from content").fetchone() == (1,)


def test_grade_is_attached_to_submission_and_spec_version(book):
    receipt = hand_in(book)
    old = book.record(receipt.submission_id, report(WRONG, sha256=receipt.sha256, spec_version="old"))
    new = book.record(receipt.submission_id, report(RIGHT, sha256=receipt.sha256, spec_version="new"))
    assert old != new
    shown = queries.report(book, receipt.submission_id)
    assert shown is not None
    assert shown.spec_version == "new"
    assert shown.full_marks
    assert sqlite3.connect(book.where).execute("select count(*) from grade").fetchone() == (2,)


def test_settled_grade_stands_and_unsettled_one_is_run_again(book):
    receipt = hand_in(book)
    first = book.record(receipt.submission_id, report(UNGRADED, sha256=receipt.sha256))
    assert book.standing(receipt.submission_id, "0123456789ab", "practice") is None
    second = book.record(receipt.submission_id, report(WRONG, sha256=receipt.sha256))
    third = book.record(receipt.submission_id, report(RIGHT, sha256=receipt.sha256))
    assert second != first
    assert third == second
    standing = book.standing(receipt.submission_id, "0123456789ab", "practice")
    assert standing == report(WRONG, sha256=receipt.sha256)


def test_official_grade_outranks_later_practice(book):
    receipt = hand_in(book)
    book.record(receipt.submission_id, report(WRONG, sha256=receipt.sha256, mode="official"))
    book.record(receipt.submission_id, report(RIGHT, sha256=receipt.sha256, mode="practice"))
    row = queries.submission(book, receipt.submission_id)
    assert row is not None
    assert (row.mode, row.full_marks) == ("official", False)


def test_report_about_other_bytes_is_refused(book):
    receipt = hand_in(book)
    with pytest.raises(GradebookError, match="other bytes"):
        book.record(receipt.submission_id, report(RIGHT))
    with pytest.raises(GradebookError, match="no submission 99"):
        book.record(99, report(RIGHT))


def test_latest_and_best(book):
    good, bad = hand_in(book, b"good"), hand_in(book, b"bad")
    book.record(good.submission_id, report(RIGHT, sha256=good.sha256))
    book.record(bad.submission_id, report(FAILED, sha256=bad.sha256))
    assert queries.latest(book, learner="ada", lab="lab05_tape").id == bad.submission_id
    assert queries.best(book, learner="ada", lab="lab05_tape").id == good.submission_id
    assert queries.best(book, learner="bob", lab="lab05_tape") is None
    assert queries.labs(book, learner="ada") == ["lab05_tape"]
    hand_in(book, b"good")  # handed in again, it is the latest once more
    assert queries.latest(book, learner="ada", lab="lab05_tape").id == good.submission_id


def test_csv_has_a_row_per_submission_and_no_formulas(book):
    receipt = hand_in(book, learner="=HYPERLINK(1)", filename="@x,\n.ipynb")
    book.record(receipt.submission_id, report(RIGHT, sha256=receipt.sha256))
    hand_in(book, b"ungraded", learner="bob")
    out = io.StringIO(newline="")
    assert export_csv(book, out) == 2
    first, second = csv.DictReader(io.StringIO(out.getvalue(), newline=""))
    assert first["learner"] == "'=HYPERLINK(1)"
    assert first["filename"] == "'@x,\n.ipynb"
    assert first["points"] == "2.0"
    assert second["learner"] == "bob"
    assert second["points"] == ""
    assert datetime.fromisoformat(second["first_at"]).tzinfo is not None


def test_names_of_files_are_kept_as_they_can_be_shown(book):
    hand_in(book, filename="\x1b[31m\udcff\u202e.ipynb")
    assert queries.submissions(book)[0].filename == "\\x1b[31m\\udcff\\u202e.ipynb"


def test_file_is_private_durable_and_found_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_HOME", str(tmp_path / "new" / "home"))
    with open_gradebook() as book:
        assert Path(book.where) == tmp_path / "new" / "home" / "gradebook.sqlite"
        assert os.stat(book.where).st_mode & 0o077 == 0
        with book.reading() as session:
            assert session.connection().exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            assert session.connection().exec_driver_sql("PRAGMA synchronous").scalar() == 2


@pytest.mark.slow
def test_models_and_migrations_agree(book):
    scripts = ScriptDirectory.from_config(config())
    assert scripts.get_current_head() == HEAD
    with book.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def config() -> Config:
    found = Config()
    found.set_main_option("script_location", str(MIGRATIONS))
    return found


OPEN_AND_SUBMIT = """
import sys
from autograder.gradebook import open_gradebook
print("ready", flush=True)
sys.stdin.readline()
with open_gradebook(sys.argv[1]) as book:
    for _ in range(5):
        for data in (b"same bytes", sys.argv[2].encode()):
            book.submit(data, lab="lab05_tape", learner="ada", filename="x", source="test")
"""


@pytest.mark.slow
def test_many_processes_may_open_and_submit_at_once(tmp_path):
    path = tmp_path / "gradebook.sqlite"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [
        subprocess.Popen([sys.executable, "-c", OPEN_AND_SUBMIT, str(path), f"bytes {number}"], **pipes)
        for number in range(4)
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate(timeout=60)
    assert [worker.returncode for worker in workers] == [0] * 4
    with open_gradebook(path) as book:
        assert queries.counts(book) == (5, 40)


@pytest.mark.slow
def test_a_new_file_that_another_program_holds_is_waited_for(tmp_path):
    path = tmp_path / "gradebook.sqlite"
    raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    raw.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(0.3, raw.rollback)
    release.start()
    with open_gradebook(path) as book:
        assert hand_in(book).attempt == 1
    release.join()


def test_newer_schema_is_refused_by_name_and_left_alone(book):
    hand_in(book)
    book.close()
    with sqlite3.connect(book.where) as raw:
        raw.execute("update alembic_version set version_num = '0099'")
    with pytest.raises(GradebookTooNew, match=f"0099.*{HEAD}"):
        open_gradebook(book.where)
    assert sqlite3.connect(book.where).execute("select count(*) from submission").fetchone() == (1,)


def test_half_done_migration_leaves_nothing_behind(tmp_path, monkeypatch):
    path = tmp_path / "gradebook.sqlite"
    with monkeypatch.context() as patch:
        patch.setattr("autograder.gradebook.schema.HEAD", "no such step")
        with pytest.raises(Exception, match="no such step"):
            open_gradebook(path)
    assert sqlite3.connect(path).execute("select count(*) from sqlite_master").fetchone() == (0,)
    with open_gradebook(path) as book:
        assert hand_in(book).attempt == 1


@pytest.mark.slow
def test_locked_database_says_so_and_keeps_what_it_has(book, monkeypatch):
    hand_in(book)
    monkeypatch.setattr("autograder.gradebook.store.BUSY_SECONDS", 0.2)
    with open_gradebook(book.where) as impatient:
        raw = sqlite3.connect(book.where, isolation_level=None)
        raw.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            GradebookError, match="could not store the submission: another program has kept it locked"
        ) as error:
            hand_in(impatient, b"more")
        assert "\n" not in str(error.value)
        assert queries.counts(impatient) == (1, 1)  # reading goes on
        raw.execute("ROLLBACK")
        assert hand_in(impatient, b"more").attempt == 1


@pytest.mark.parametrize(
    "content",
    [b"not a database, but long enough to look at" * 100, b"SQLite format 3\0" + bytes(200)],
    ids=["text", "truncated"],
)
def test_corrupt_file_is_named_and_not_touched(tmp_path, content):
    path = tmp_path / "gradebook.sqlite"
    path.write_bytes(content)
    with pytest.raises(
        GradebookError, match=r"gradebook\.sqlite: could not open it: the file is (not a gradebook|damaged)"
    ):
        open_gradebook(path)
    assert path.read_bytes() == content


def test_database_of_something_else_is_refused(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as raw:
        raw.execute("create table recipes (name text)")
    with pytest.raises(GradebookError, match=r"other tables .recipes."):
        open_gradebook(path)


@pytest.mark.parametrize("where", ["nonsense://x", "sqlite://", "postgresql+nodriver://u:secret@h/d"])
def test_bad_address_is_one_line_without_the_password(where):
    with pytest.raises(GradebookError) as error:
        open_gradebook(where)
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "home").write_text("")
    with pytest.raises(GradebookError, match="a file stands where its folder should be"):
        open_gradebook(tmp_path / "home" / "gradebook.sqlite")


FULL_DISK = """
import resource, sys
from autograder.gradebook import open_gradebook, GradebookError, queries
book = open_gradebook(sys.argv[1])
kept = book.submit(b"kept", lab="lab05_tape", learner="ada", filename="a", source="test")
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
try:
    book.submit(bytes(2_000_000), lab="lab05_tape", learner="ada", filename="b", source="test")
except GradebookError as error:
    print(error)
print(queries.counts(book))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(book.submit(bytes(2_000_000), lab="lab05_tape", learner="ada", filename="b", source="test").attempt)
"""


@pytest.mark.slow
def test_full_disk_is_one_line_and_loses_nothing(tmp_path):
    """With the size limit of a process in place of a full disk, so that it needs no rights."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "gradebook.sqlite")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    line, counts, attempt = done.stdout.splitlines()
    assert "could not store the submission: the disk is full" in line
    assert (counts, attempt) == ("(1, 1)", "1")


FULL_FROM_THE_START = """
import resource, sys
from autograder.gradebook import open_gradebook, GradebookError
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
try:
    open_gradebook(sys.argv[1])
except GradebookError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_disk_that_is_full_from_the_start_is_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL_FROM_THE_START, str(tmp_path / "gradebook.sqlite")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "could not open it: the disk is full" in done.stdout


@pytest.fixture
def tiny_disk(tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    if (
        os.getuid() != 0
        or shutil.which("mount") is None
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], check=False).returncode
    ):
        pytest.skip("needs the right to mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_tiny_disk(tiny_disk):
    with open_gradebook(tiny_disk / "gradebook.sqlite") as book:
        hand_in(book, b"kept")
        with pytest.raises(GradebookError, match="the disk is full"):
            hand_in(book, os.urandom(1_000_000))
        assert queries.counts(book) == (1, 1)
        assert hand_in(book, b"small").attempt == 1


def test_read_only_folder(tiny_disk):
    open_gradebook(tiny_disk / "gradebook.sqlite").close()
    subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)
    for name in ("gradebook.sqlite", "another.sqlite"):
        with (
            pytest.raises(
                GradebookError,
                match=rf"{name}: could not open it: the file (or its folder is read-only|cannot be opened)",
            ) as error,
            open_gradebook(tiny_disk / name) as book,
        ):
            hand_in(book)
        assert "\n" not in str(error.value)


@pytest.mark.slow
def test_killed_in_mid_write_keeps_every_acknowledged_submission(tmp_path):
    """A writer is killed without warning; what it had printed as stored must be there, whole."""
    path = tmp_path / "gradebook.sqlite"
    code = (
        "import sys, os\nfrom autograder.gradebook import open_gradebook\nbook = open_gradebook(sys.argv[1])\nn = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    r = book.submit(os.urandom(50_000), lab='lab05_tape', learner='ada', filename='x', source='test')\n"
        "    print(r.sha256, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = [process.stdout.readline().strip() for _ in range(20)]
    process.kill()
    acknowledged += [line.strip() for line in process.stdout if len(line) == 65]
    process.wait()
    with open_gradebook(path) as book:
        stored = {one.sha256 for one in queries.submissions(book)}
    assert set(acknowledged) <= stored
    assert len(acknowledged) >= 20
    assert sqlite3.connect(path).execute("pragma integrity_check").fetchone() == ("ok",)


@pytest.mark.slow
def test_opening_an_existing_gradebook_does_not_import_alembic(book):
    code = (
        "import sys\nfrom autograder.gradebook import open_gradebook\n"
        f"open_gradebook({book.where!r})\nsys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
