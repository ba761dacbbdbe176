"""Jobs of real processes: how they end, what they leave behind (nothing), and what is shown of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.slow
LIMIT = 60.0
"""Seconds, until which whatever is waited for happens on the slowest machine."""

Launch = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Start a job of a script given as text; whatever is alive of it at the end is killed."""
    started: list[subprocess.Popen[str]] = []
    mark = f"launch-test-{os.getpid()}-{tmp_path.name}"

    def start(text: str, *options: str, arguments: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[str]:
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(text))
        process = subprocess.Popen(
            [*HEEDED, sys.executable, "-m", "internals.distributed.launch", *options, str(script), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "LAUNCH_TEST": mark, **environment},
        )
        started.append(process)
        return process

    start.mark = mark  # type: ignore[attr-defined]
    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    for one in of_job(mark):
        one.kill()


def of_job(mark: str) -> list[psutil.Process]:
    """Every process that inherited the job's mark, whoever its parent is now."""
    found = []
    for one in psutil.process_iter():
        try:
            if one.pid != os.getpid() and one.environ().get("LAUNCH_TEST") == mark and one.status() != "zombie":
                found.append(one)
        except (psutil.Error, OSError):
            continue
    return found


def until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end, f"{what} did not happen within {LIMIT:g} s"
        time.sleep(0.02)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=LIMIT)
    return process.returncode, out, err


HEEDED = ["env", "--default-signal=HUP"] if sys.platform == "linux" else []
"""Under nohup hang-ups are ignored by whatever is started from there."""
GRANDCHILDREN = """
    import os, subprocess, sys, time
    for new_session in (False, True):       # one in the rank's group, one that has made a group of its own
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=new_session)
    asleep = "[sys.executable, '-c', 'import time; time.sleep(600)']"
    orphan = f"import subprocess, sys; subprocess.Popen({asleep})"      # and one whose parent is gone
    subprocess.run([sys.executable, "-c", orphan])
    print("ready", flush=True)
"""


def test_all_end_well(launch: Launch) -> None:
    process = launch("import os; print(os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])", "-n", "3")
    code, out, err = ended(process)
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == [f"[rank {rank}] {rank} of 3" for rank in range(3)]


FAILURES = {
    "an exit code": ("sys.exit(7)", 7, "ended with exit code 7"),
    "an exception": ("raise KeyError('weights')", 1, "ended with exit code 1"),
    "a signal": ("os.kill(os.getpid(), 11)", 139, "was ended by SIGSEGV"),
    "a signal without a name": ("os.kill(os.getpid(), 40)", 168, "was ended by signal 40"),
    "a kill": ("os.kill(os.getpid(), 9)", 137, "was ended by SIGKILL"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_one_failure_ends_all_and_is_named(case: str, launch: Launch) -> None:
    statement, expected, told = FAILURES[case]
    process = launch(
        f"""
        import os, sys, time
        print("here", os.getpid(), flush=True)
        if os.environ["RANK"] == "1":
            time.sleep(0.5)
            print("the last words", flush=True)
            {statement}
        time.sleep(600)
        """,
        "-n", "3",
    )  # fmt: skip
    code, out, err = ended(process)
    assert code == expected
    pid = re.search(r"\[rank 1\] here (\d+)", out)
    assert pid is not None
    assert f"launch: rank 1 (pid {pid[1]}) {told} after " in err
    assert "; the other 2 are stopped" in err
    assert "    the last words\n" in err
    assert of_job(launch.mark) == []  # type: ignore[attr-defined]


def test_who_fails_of_anothers_death_is_not_blamed(launch: Launch) -> None:
    process = launch(
        """
        import os, socket, sys, time
        where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if os.environ["RANK"] == "0":
            with socket.create_server(where) as server:
                other, _ = server.accept()
            sys.exit("internals.distributed.errors.PeerLost: lost rank:1: it left")
        while True:
            try:
                other = socket.create_connection(where)
                break
            except OSError:
                time.sleep(0.02)
        other.recv(1)  # nothing comes: rank 0 is gone
        sys.exit("division by zero")
        """,
        "-n", "2",
    )  # fmt: skip
    code, _, err = ended(process)
    assert code == 1
    assert "launch: rank 1 (pid " in err
    assert err.rstrip().endswith("    division by zero")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on_and_ends_the_job(number: signal.Signals, launch: Launch) -> None:
    process = launch(
        """
        import os, signal, sys, time
        def told(number, frame):
            print("got", signal.Signals(number).name, flush=True)
            sys.exit(0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, told)
        print("ready", flush=True)
        time.sleep(600)
        """,
        "-n", "2",
    )  # fmt: skip
    assert process.stdout is not None
    for _ in range(2):
        assert process.stdout.readline().endswith("ready\n")
    process.send_signal(number)
    code, out, _ = ended(process)
    assert code == 128 + number
    assert sorted(out.splitlines()) == [f"[rank {rank}] got {number.name}" for rank in range(2)]
    assert of_job(launch.mark) == []  # type: ignore[attr-defined]


def test_who_does_not_go_is_killed(launch: Launch) -> None:
    process = launch(
        """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready", flush=True)
        time.sleep(600)
        """,
        "-n", "2", "--grace", "0.3",
    )  # fmt: skip
    assert process.stdout is not None
    for _ in range(2):
        process.stdout.readline()
    process.terminate()
    code, _, err = ended(process)
    assert code == 128 + signal.SIGTERM
    assert err.count("did not end within 0.3 s of being asked to; it is killed") == 2
    assert of_job(launch.mark) == []  # type: ignore[attr-defined]


ENDS = {
    "the ranks end": ("", None),
    "a rank fails": ("sys.exit(3)", None),
    "the launcher is asked to stop": ("time.sleep(600)", signal.SIGTERM),
    "the launcher is killed": ("time.sleep(600)", signal.SIGKILL),
}


@pytest.mark.parametrize("case", ENDS)
def test_no_grandchild_is_left_when(case: str, launch: Launch) -> None:
    last, number = ENDS[case]
    process = launch(textwrap.dedent(GRANDCHILDREN) + last, "-n", "2", "--grace", "1")
    if number is not None:
        assert process.stdout is not None
        for _ in range(2):
            assert process.stdout.readline().endswith("ready\n")
        assert len(of_job(launch.mark)) >= 2 + 2 + 6  # type: ignore[attr-defined]
        process.send_signal(number)
    process.wait(timeout=LIMIT)
    until(lambda: not of_job(launch.mark), "the end of every process")  # type: ignore[attr-defined]


def test_the_ranks_end_when_the_supervisor_is_killed(launch: Launch) -> None:
    process = launch(textwrap.dedent(GRANDCHILDREN) + "time.sleep(600)", "-n", "2")
    assert process.stdout is not None
    for _ in range(2):
        assert process.stdout.readline().endswith("ready\n")
    (supervisor,) = psutil.Process(process.pid).children()
    supervisor.kill()
    code, _, err = ended(process)
    assert code == 128 + signal.SIGKILL
    assert "the supervisor was ended by SIGKILL" in err
    assert of_job(launch.mark) == []  # type: ignore[attr-defined]


def test_the_ranks_end_when_launcher_and_supervisor_are_killed_together(launch: Launch) -> None:
    process = launch("import time; print('ready', flush=True); time.sleep(600)", "-n", "2")
    assert process.stdout is not None
    for _ in range(2):
        assert process.stdout.readline().endswith("ready\n")
    (supervisor,) = psutil.Process(process.pid).children()
    for number in (signal.SIGSTOP, signal.SIGKILL):  # neither gets to do anything about the other
        process.send_signal(number)
        supervisor.send_signal(number)
    until(lambda: not of_job(launch.mark), "the end of every rank")  # type: ignore[attr-defined]


def test_lines_stay_whole(launch: Launch) -> None:
    process = launch(
        """
        import os, sys
        rank = os.environ["RANK"]
        for i in range(300):
            for stream in (1, 2):                       # in halves, to tempt them to mix
                os.write(stream, f"{rank} line {i} of ".encode())
                os.write(stream, b"x" * 200 + b" end\\n")
        os.write(1, b"no newline at the end")
        """,
        "-n", "3",
    )  # fmt: skip
    code, out, err = ended(process)
    assert code == 0
    for stream in (out, err):
        lines = stream.splitlines()
        for rank in range(3):
            mine = [line for line in lines if line.startswith(f"[rank {rank}] {rank} line")]
            assert mine == [f"[rank {rank}] {rank} line {i} of {'x' * 200} end" for i in range(300)]
    assert len(out.splitlines()) == 900 + 3
    assert out.count("] no newline at the end\n") == 3
    assert "\x1b" not in out + err


def test_restarts_are_counted_and_then_over(launch: Launch, tmp_path: Path) -> None:
    process = launch(
        """
        import os, sys, time
        print("attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
        if os.environ["RANK"] == "1":
            sys.exit(5)
        time.sleep(600)
        """,
        "-n", "2", "--max-restarts", "2",
    )  # fmt: skip
    code, out, err = ended(process)
    assert code == 5
    for attempt in range(3):
        assert f"[rank 1] attempt {attempt}\n" in out
    assert "attempt 3" not in out
    assert err.count("all are started again") == 2


def test_a_job_that_recovers_ends_well(launch: Launch) -> None:
    process = launch(
        "import os, sys; sys.exit(os.environ['TORCHELASTIC_RESTART_COUNT'] == '0')", "-n", "2", "--max-restarts", "1"
    )
    assert ended(process)[0] == 0


def test_servers_are_stopped_when_the_trainers_are_done(launch: Launch) -> None:
    process = launch(
        """
        import os, time
        print(os.environ["ROLE"], flush=True)
        if os.environ["ROLE"] == "server":
            time.sleep(600)
        """,
        "-n", "2", "--servers", "2",
    )  # fmt: skip
    code, out, err = ended(process)
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == [
        "[server 0] server",
        "[server 1] server",
        "[trainer 0] trainer",
        "[trainer 1] trainer",
    ]


def test_a_reader_that_leaves_ends_the_job(launch: Launch) -> None:
    process = launch(
        """
        while True:
            print("on and on", flush=True)
        """,
        "-n", "2", "--grace", "1",
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.wait(timeout=LIMIT)
    assert process.returncode == 128 + signal.SIGPIPE
    assert of_job(launch.mark) == []  # type: ignore[attr-defined]


def test_torch_finds_its_ranks(launch: Launch) -> None:
    process = launch(
        """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        value = torch.tensor([float(dist.get_rank() + 1)])
        dist.all_reduce(value)
        print("sum", value.item(), flush=True)
        dist.destroy_process_group()
        """,
        "-n", "2",
    )  # fmt: skip
    code, out, err = ended(process)
    assert code == 0, err
    assert sorted(out.splitlines()) == ["[rank 0] sum 3.0", "[rank 1] sum 3.0"]


JOIN = """
    import numpy as np
    from internals.distributed.collectives import all_reduce
    from internals.distributed.group import join
    with join() as group:
        value = np.array([group.rank + 1.0])
        all_reduce(value, group=group)
        print("sum", value[0], "of", group.size, flush=True)
"""


def test_join_reads_what_the_launcher_says(launch: Launch) -> None:
    code, out, err = ended(launch(JOIN, "-n", "3"))
    assert code == 0, err
    assert sorted(out.splitlines()) == [f"[rank {rank}] sum 6.0 of 3" for rank in range(3)]


def test_a_rank_that_dies_is_named_although_the_others_fail_of_it(launch: Launch) -> None:
    dies = "    import os, signal; group.rank == 1 and os.kill(os.getpid(), signal.SIGKILL)\n"
    process = launch(textwrap.dedent(JOIN) + dies + "    all_reduce(value, group=group)\n", "-n", "3")
    code, _, err = ended(process)
    assert code == 128 + signal.SIGKILL
    assert "launch: rank 1 (pid " in err
    assert "was ended by SIGKILL" in err


def test_two_machines_are_one_job(launch: Launch) -> None:
    """Two launchers, as on two machines; here both are this one."""
    from internals.distributed.launch.job import SECRET, free_ports

    (port,) = free_ports(1)
    where = ["-n", "2", "--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", str(port)]
    both = [launch(JOIN, *where, "--node-rank", str(node), **{SECRET: "between us"}) for node in range(2)]
    for node, process in enumerate(both):
        code, out, err = ended(process)
        assert code == 0, err
        assert sorted(out.splitlines()) == [f"[rank {2 * node + local}] sum 10.0 of 4" for local in range(2)]


def test_ranks_as_a_cluster_would_start_them(tmp_path: Path) -> None:
    """The environment of each pod of the manifests, given to processes of this machine; names become 127.0.0.1."""
    from internals.distributed.launch.job import Job, free_ports
    from internals.distributed.launch.kubernetes import Cluster, environment_of, manifests

    (port,) = free_ports(1)
    made = manifests(Cluster("digits", "image:1"), Job(("x",), 3, master_port=port), ["python", "train.py"])
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(JOIN))
    pods = []
    for number in range(3):
        told = environment_of(made, "Job", number)
        assert told.pop("MASTER_ADDR") == "digits-0.digits"
        environment = {**os.environ, **told, "MASTER_ADDR": "127.0.0.1", "HOME": str(tmp_path)}
        pods.append(subprocess.Popen([sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, text=True))
    try:
        for pod in pods:
            assert pod.communicate(timeout=LIMIT)[0] == "sum 6.0 of 3\n"
    finally:
        for pod in pods:
            pod.kill()
