"""The command line: what each option does to a job, and one line for what makes no sense."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from internals.distributed.launch import main
from internals.distributed.launch.command import _job, parser
from internals.distributed.launch.job import SECRET, places, threads


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text("print('hello')\n")
    return str(path)


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        yield one.getsockname()[1]


BAD = {
    "no ranks": (["-n", "0", "SCRIPT"], "-n 0: expected 1 or more"),
    "fewer than none": (["-n", "-3", "SCRIPT"], "-n -3: expected 1 or more"),
    "ranks that are no number": (["-n", "four", "SCRIPT"], "-n four: expected a number of ranks, or auto"),
    "far too many": (["-n", "1000000", "SCRIPT"], "expected 1024 or fewer"),
    "servers below none": (["--servers", "-1", "SCRIPT"], "--servers -1: expected 0 or more"),
    "no script": (["-n", "2"], "no script is given"),
    "a script that is not there": (["nowhere.py"], "there is no script nowhere.py"),
    "a directory": (["DIRECTORY"], "there is no script"),
    "bytes": (["BYTES"], "is not Python"),
    "no Python": (["SHELL"], "is not Python, line 2"),
    "no module": (["-m", "no.such.module"], "there is no module no.such.module"),
    "an unknown option": (["--ranks", "3", "SCRIPT"], "--ranks"),
    "an option without its value": (["SCRIPT", "-n"], None),  # the script's own
    "no port": (["--master-port", "70000", "SCRIPT"], "--master-port 70000: expected 1 to 65535"),
    "port 0": (["--master-port", "0", "SCRIPT"], "--master-port 0: expected 1 to 65535"),
    "a port in use": (["--master-port", "TAKEN", "SCRIPT"], "is in use"),
    "no address": (["--master-addr", "a b", "SCRIPT"], "--master-addr 'a b'"),
    "another machine's number": (["--nnodes", "2", "--node-rank", "2", "SCRIPT"], "--node-rank 2: expected 0 to 1"),
    "machines that do not find each other": (["--nnodes", "2", "SCRIPT"], "give --master-addr and --master-port"),
    "machines without a secret": (
        ["--nnodes", "2", "--master-addr", "10.0.0.5", "--master-port", "29500", "SCRIPT"],
        f"set {SECRET}",
    ),
    "alone, but two": (["--standalone", "--nnodes", "2", "SCRIPT"], "--standalone means one machine"),
    "a restart below none": (["--max-restarts", "-1", "SCRIPT"], "--max-restarts -1"),
    "no patience": (["--grace", "-1", "SCRIPT"], "--grace -1"),
    "patience that is no number": (["--grace", "nan", "SCRIPT"], "--grace nan"),
    "at least more than there are": (["-n", "2", "--min", "3", "SCRIPT"], "expected 1 <= min <= n <= max"),
    "at most fewer than there are": (
        ["-n", "4", "--min", "1", "--max", "2", "SCRIPT"],
        "expected 1 <= min <= n <= max",
    ),
    "at most without at least": (["--max", "3", "SCRIPT"], "has --min too"),
    "elastic servers": (["--min", "1", "--servers", "1", "SCRIPT"], "--min and --servers do not go together"),
    "a server job without servers": (
        ["--kubernetes", "--image", "i", "--kind", "parameter-server", "SCRIPT"],
        "give --servers",
    ),
    "an all-reduce job with servers": (
        ["--kubernetes", "--image", "i", "--kind", "all-reduce", "--servers", "1", "SCRIPT"],
        "leave out --servers",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_nonsense_is_one_line(
    case: str,
    script: str,
    taken: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(SECRET, raising=False)
    (tmp_path / "bytes.py").write_bytes(b"\x7fELF\x00\x01")
    (tmp_path / "shell.py").write_text("#!/bin/sh\nif true; then echo; fi\n")
    names = {
        "SCRIPT": script,
        "TAKEN": str(taken),
        "DIRECTORY": str(tmp_path),
        "BYTES": str(tmp_path / "bytes.py"),
        "SHELL": str(tmp_path / "shell.py"),
    }
    arguments, told = BAD[case]
    arguments = [names.get(one, one) for one in arguments]
    if told is None:
        assert parser().parse_args(arguments).arguments == ["-n"]
        return
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    written = capsys.readouterr().err
    assert told in written
    assert written.count("\n") == 1


def variables(arguments: list[str], environment: dict[str, str] | None = None) -> list[tuple[str, dict[str, str]]]:
    job = _job(parser().parse_args(arguments))
    return [(place.name, place.variables) for place in places(job, environment or {})]


def test_ranks_are_told_torchruns_variables(script: str) -> None:
    found = variables(["-n", "3", script, "--lr", "0.1"])
    assert [name for name, _ in found] == ["rank 0", "rank 1", "rank 2"]
    for number, (_, told) in enumerate(found):
        assert (told["RANK"], told["LOCAL_RANK"]) == (str(number), str(number))
        assert (told["WORLD_SIZE"], told["LOCAL_WORLD_SIZE"], told["GROUP_RANK"]) == ("3", "3", "0")
        assert told["MASTER_ADDR"] == "127.0.0.1"
        assert 1 <= int(told["MASTER_PORT"]) <= 65535
        assert "ROLE" not in told
    assert len({told["MASTER_PORT"] for _, told in found}) == 1
    assert len({told[SECRET] for _, told in found}) == 1
    assert len(found[0][1][SECRET]) == 64


def test_the_second_machine_counts_on(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, "between us")
    where = ["--nnodes", "3", "--node-rank", "1", "--master-addr", "10.0.0.5", "--master-port", "29500"]
    found = [told for _, told in variables(["-n", "2", *where, script])]
    assert [(one["RANK"], one["LOCAL_RANK"]) for one in found] == [("2", "0"), ("3", "1")]
    for one in found:
        expected = ("6", "2", "1", "10.0.0.5", "29500", "between us")
        told = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", SECRET)
        assert tuple(one[name] for name in told) == expected


def test_servers_and_trainers_know_each_other(script: str) -> None:
    found = variables(["-n", "3", "--servers", "2", script])
    assert [name for name, _ in found] == ["server 0", "server 1", "trainer 0", "trainer 1", "trainer 2"]
    for name, told in found:
        role, number = name.split()
        assert (told["ROLE"], told["RANK"]) == (role, number)
        assert told["WORLD_SIZE"] == {"server": "2", "trainer": "3"}[role]
        assert told["TRAINERS"] == "3"
        addresses = told["SERVERS"].split(",")
        assert len(set(addresses)) == 2
        assert told["MASTER_PORT"] not in {one.split(":")[1] for one in addresses}
    assert len({told["SERVERS"] for _, told in found}) == 1


@pytest.mark.parametrize("processes", [1, 2, 1000])
def test_cores_are_shared_out(processes: int) -> None:
    from internals.distributed.launch.job import cores

    told = threads({}, processes)
    assert set(told) == {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}
    for number in told.values():
        assert 1 <= int(number) <= max(1, cores() // processes)
    assert threads({"OMP_NUM_THREADS": "7"}, processes) == {}


def test_a_script_keeps_its_own_options(script: str) -> None:
    job = _job(parser().parse_args(["-n", "2", script, "-n", "7", "--min", "--help"]))
    assert job.processes == 2
    assert job.command[1:] == (script, "-n", "7", "--min", "--help")
    assert not job.elastic


def test_a_module_is_run_as_one() -> None:
    job = _job(parser().parse_args(["-m", "json.tool", "--help"]))
    assert job.command[1:] == ("-m", "json.tool", "--help")


def test_the_secret_is_in_no_representation(script: str) -> None:
    job = _job(parser().parse_args([script]))
    assert job.secret not in repr(job)
    assert job.secret not in repr(places(job, {}))
