"""The command line: exit codes, one line per error, nothing heavy before it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from small_lab import NAME, ORACLES, cell, make_lab, notebook, write

from autograder import cli, grade, output, sandbox
from autograder.report import Report
from autograder.spec import Written

needs_sandbox = pytest.mark.skipif(not sandbox.kinds(), reason="no sandbox on this machine")
ROOT = Path(cli.__file__).parents[1]


BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""With buffers, as usual: what could not be written is then tried once more as the interpreter ends."""


def typed(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | options.pop("env", {})
    return subprocess.run(
        [sys.executable, "-m", "autograder", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
        **options,
    )


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The small lab in place of the real ones; returns an empty directory, the current one."""
    small = make_lab()
    monkeypatch.setattr(grade, "lab_names", lambda: [NAME])
    monkeypatch.setattr(grade, "load_lab", lambda name: small)
    monkeypatch.setattr(grade, "oracles_of", lambda lab, progress: ORACLES)
    monkeypatch.setattr(cli, "start_oracles", lambda: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


WRONG = {"double": "import numpy as np\ndef double(x):\n    return x"}


def one_error_line(err: str) -> str:
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("autograder: ")
    return lines[0]


# --- help -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_help_comes_at_once() -> None:
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        assert typed("--help").returncode == 0
        seconds.append(time.perf_counter() - began)
    assert min(seconds) <= 0.3


@pytest.mark.slow
def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from autograder import cli; cli.run(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert loaded.isdisjoint(
        {"numpy", "hypothesis", "torch", "tensorflow", "rich", "sqlalchemy", "IPython", "jinja2", "tornado"}
    )


@pytest.mark.parametrize("command", ["check", "grade", "release", "submit", "doctor", "oracles", "gradebook"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([command, "--help"]) == 0
    assert f"autograder {command}" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("autograder")


# --- grading --------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_sandbox
def test_full_marks(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["grade", str(write(lab / "right.ipynb"))]) == 0
    out, err = capsys.readouterr()
    assert "20 of 20 points" in out
    assert err == ""


@pytest.mark.slow
@needs_sandbox
def test_not_full_marks(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["grade", str(write(lab / "wrong.ipynb", **WRONG))]) == 1
    assert "10 of 20 points" in capsys.readouterr().out


@needs_sandbox
@pytest.mark.slow
@pytest.mark.parametrize(("said", "wrong", "code"), [("Why.", {}, 0), ("", {}, 1), ("Why.", WRONG, 1)])
def test_an_answer_that_a_person_reads_is_no_fault(
    lab: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    said: str,
    wrong: dict[str, str],
    code: int,
) -> None:
    asking = make_lab(written=(Written("why", "Why it doubles", 5.0),))
    monkeypatch.setattr(grade, "load_lab", lambda name: asking)
    given = notebook(**wrong)
    given["cells"].append(cell(said, grade_id="why") | {"cell_type": "markdown"})
    (lab / "asked.ipynb").write_text(json.dumps(given))
    assert cli.run(["grade", str(lab / "asked.ipynb")]) == code
    told = capsys.readouterr().out
    assert ("Waits for your instructor" in told) == bool(said)
    assert f"{10 if wrong else 20} of 25 points" in told
    assert cli.run(["check", "why", "--notebook", str(lab / "asked.ipynb")]) == (0 if said else 1)


@needs_sandbox
@pytest.mark.slow
def test_many_files_get_a_line_each_and_the_worst_exit_code(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [write(lab / "a.ipynb"), write(lab / "b.ipynb", **WRONG), lab / "c.ipynb"]
    files[2].write_text("{")
    assert cli.run(["grade", *map(str, files)]) == 2
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("20/20")
    assert lines[1].startswith("10/20")
    assert lines[1].endswith("double: wrong")
    assert "c.ipynb" in one_error_line(err)
    assert cli.run(["grade", *map(str, files[1::-1])]) == 1, "the worst, not the last"


@pytest.mark.slow
@needs_sandbox
def test_json(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(write(lab / "a.ipynb")), str(lab / "none.ipynb")]
    assert cli.run(["grade", "--json", "--seed", "7", "--practice", *files]) == 2
    first, second = json.loads(capsys.readouterr().out)
    report = Report.from_json(json.dumps(first))
    assert (report.seed, report.mode, report.full_marks) == (7, "practice", True)
    assert second["file"] == files[1]
    assert "none.ipynb" in second["error"]


@needs_sandbox
@pytest.mark.slow
def test_pages(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "x").mkdir()
    files = [str(write(lab / "a.ipynb")), str(write(lab / "x" / "a.ipynb"))]
    assert cli.run(["grade", files[0], "--html", "one.html"]) == 0
    assert "<html" in (lab / "one.html").read_text(encoding="utf-8")
    assert cli.run(["grade", *files, "--html", "pages"]) == 0
    assert {path.name for path in (lab / "pages").iterdir()} == {f"{lab.name}-a.html", "x-a.html"}
    capsys.readouterr()
    assert cli.run(["grade", str(lab / "x" / "none.ipynb")]) == 2
    assert f"{lab / 'x' / 'none.ipynb'}: " in capsys.readouterr().err


@pytest.mark.slow
@needs_sandbox
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no file names that are not text")
def test_a_name_that_is_not_text(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"bad\xff.ipynb")
    write(lab / name)
    assert cli.run(["grade", name, "--html", "page.html"]) == 0
    assert "bad\\udcff.ipynb" in (lab / "page.html").read_text(encoding="utf-8")
    assert "bad\\udcff" in capsys.readouterr().out


@pytest.mark.slow
@needs_sandbox
def test_a_full_disk_keeps_the_old_page_and_says_so(
    lab: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (lab / "page.html").write_text("old")

    def full(self: Path, *arguments: Any, **more: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    write_to = json.dumps(notebook()).encode()
    (lab / "a.ipynb").write_bytes(write_to)
    assert cli.run(["grade", "a.ipynb", "--html", "page.html"]) == 2
    out, err = capsys.readouterr()
    assert "20 of 20 points" in out, "what was graded is shown all the same"
    assert "No space left on device" in one_error_line(err)
    assert (lab / "page.html").read_bytes() == b"old"


def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((tmp_path / "pipe").read_text)
        output.write_file(tmp_path / "pipe", "a,b\n")
        assert read.result(5) == "a,b\n"
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "page.html")
    output.write_file(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "page.html").read_text() == "text"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "page.html"]


# --- one task -------------------------------------------------------------------------------------


@needs_sandbox
@pytest.mark.slow
def test_check_finds_the_notebook(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(lab / "mine.ipynb", **WRONG)
    (lab / "other.ipynb").write_text("{}")
    assert cli.run(["check", "parts"]) == 0
    assert cli.run(["check", "double"]) == 1
    assert "mine.ipynb" in capsys.readouterr().out


def test_check_with_two_candidates(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(lab / "a.ipynb")
    write(lab / "b.ipynb")
    assert cli.run(["check", "parts"]) == 2
    assert "a.ipynb, b.ipynb. Name one with --notebook" in one_error_line(capsys.readouterr().err)


def test_check_of_a_task_that_is_not_there(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(lab / "a.ipynb")
    assert cli.run(["check", "cube"]) == 2
    assert "has double, parts" in one_error_line(capsys.readouterr().err)
    assert cli.run(["check", "cube", "--notebook", "a.ipynb"]) == 2
    assert "no task 'cube'" in one_error_line(capsys.readouterr().err)


def test_check_where_there_is_no_notebook(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", "parts"]) == 2
    assert "no lab's notebook in this directory" in one_error_line(capsys.readouterr().err)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["grade"], "Missing argument"),
        (["grade", "--frob", "a.ipynb"], "--frob"),
        (["frob"], "No such command"),
        (["grade", "none.ipynb"], "none.ipynb"),
        (["grade", "."], "not a regular file"),
        (["grade", "empty.ipynb"], "empty"),
        (["grade", "text.ipynb"], "not a notebook"),
        (["grade", "cut.ipynb"], "not a notebook"),
        (["grade", "huge.ipynb"], "500 MB"),
        (["grade", "alien.ipynb"], "lab42_other"),
        (["grade", "new.ipynb"], "version 99"),
        (["grade", "good.ipynb", "--seed", "-1"], "--seed -1"),
        (["grade", "good.ipynb", "--seed", "x"], "--seed"),
        (["grade", "good.ipynb", "--workers", "0"], "--workers"),
        (["grade", "good.ipynb", "--sandbox", "tank"], "--sandbox tank"),
        (["grade", "good.ipynb", "--html", "no/where.html"], "the directory no is not there"),
        (["grade", "good.ipynb", "good.ipynb", "--html", "text.ipynb"], "give a directory"),
        (["check", "double", "--notebook", "none.ipynb"], "none.ipynb"),
        (["submit", "none.ipynb"], "none.ipynb"),
        (["gradebook", "export", "--out", "no/where.csv"], "no/where.csv"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    lab: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (lab / "empty.ipynb").touch()
    (lab / "text.ipynb").write_text("plain text")
    (lab / "cut.ipynb").write_text(json.dumps(notebook())[:200])
    with open(lab / "huge.ipynb", "wb") as file:
        file.truncate(500 << 20)
    write(lab / "alien.ipynb", lab="lab42_other")
    newer = notebook()
    newer["metadata"]["autograder"]["version"] = 99
    (lab / "new.ipynb").write_text(json.dumps(newer))
    write(lab / "good.ipynb")
    began = time.monotonic()
    assert cli.run(arguments) == 2
    assert time.monotonic() - began < 5
    assert words in one_error_line(capsys.readouterr().err)


def test_a_lab_nobody_knows(lab: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(cli, "start_oracles", lambda: None)
    assert cli.run(["grade", str(write(lab / "good.ipynb")), "--lab", "lab77"]) == 2
    assert "no lab is called 'lab77'; there are" in one_error_line(capsys.readouterr().err)


def test_a_directory_that_is_read_only(
    lab: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lab / "good.ipynb")
    # Root may write anywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert cli.run(["grade", "good.ipynb", "--html", "page.html"]) == 2
    assert "is read-only" in one_error_line(capsys.readouterr().err)


@pytest.mark.slow
def test_names_of_files_cannot_drive_the_terminal(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["grade", "\x1b[31mred.ipynb"]) == 2
    assert "\x1b" not in one_error_line(capsys.readouterr().err)


def test_a_fault_of_ours_is_one_line_too(
    lab: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*arguments: Any) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(cli, "make_grader", faulty)
    write(lab / "good.ipynb")
    assert cli.run(["grade", "good.ipynb"]) == 2
    assert "a fault in the autograder: ZeroDivisionError: ours" in one_error_line(capsys.readouterr().err)
    monkeypatch.setenv("AUTOGRADER_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.run(["grade", "good.ipynb"])


def test_interrupted(lab: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "make_grader", interrupted)
    write(lab / "good.ipynb")
    assert cli.run(["grade", "good.ipynb"]) == 130
    assert one_error_line(capsys.readouterr().err) == "autograder: interrupted"


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["oracles", "status"]])
def test_output_to_a_full_disk(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "autograder", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=BUFFERED,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert "No space left on device" in one_error_line(done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["oracles", "status"]])
def test_a_reader_that_went_away(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "autograder", *arguments],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=BUFFERED,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert "went away" in one_error_line(done.stderr)


@pytest.mark.slow
@needs_sandbox
def test_a_real_lab_from_end_to_end(tmp_path: Path) -> None:
    solution = ROOT / "labs" / "solutions" / "lab05_tape.ipynb"
    done = typed("grade", "--json", str(solution))
    assert (done.returncode, done.stderr) == (0, "")
    (report,) = json.loads(done.stdout)
    waiting = [task for task in report["tasks"] if task["verdict"] == "pending"]
    assert report["points"] == report["max_points"] - sum(task["max_points"] for task in waiting) > 0
    page = tmp_path / "page.html"
    done = typed("grade", str(ROOT / "labs" / "lab05_tape.ipynb"), "--html", str(page))
    assert (done.returncode, done.stderr) == (1, "")
    assert page.stat().st_size > 1000


# --- oracles --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_life_of_the_oracles(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("o")
    home.chmod(0o700)
    env = {"AUTOGRADER_RUNTIME_DIR": str(home)}
    assert typed("oracles", "status", env=env).stdout == "tensorflow: not running\ntorch: not running\n"
    assert typed("oracles", "stop", env=env).stdout == "None was running.\n"
    assert typed("oracles", "start", env=env).stdout == "tensorflow: starting\ntorch: starting\n"
    try:
        assert typed("oracles", "start", env=env).stdout == "tensorflow: runs already\ntorch: runs already\n"
        deadline = time.monotonic() + 10
        while "not running" in (status := typed("oracles", "status", env=env)).stdout and time.monotonic() < deadline:
            time.sleep(0.1)
        assert "importing" in status.stdout or "ready" in status.stdout
    finally:
        assert typed("oracles", "stop", env=env).stdout == "Ended: tensorflow, torch.\n"


@pytest.mark.slow
def test_a_runtime_directory_that_is_open_to_others(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    done = typed("oracles", "start", env={"AUTOGRADER_RUNTIME_DIR": str(tmp_path / "open")})
    assert done.returncode == 2
    assert "chmod 700" in one_error_line(done.stderr)
