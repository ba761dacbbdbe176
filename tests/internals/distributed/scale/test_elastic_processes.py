"""Real processes, killed from outside with SIGKILL, under the launcher."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from internals import Tensor, ops

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("elastic_job.py")
LIMIT = 90.0


class Watched:
    """A job whose lines are kept as they come."""

    def __init__(self, *options: str, steps: int, pause: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "internals.distributed.launch", *options, str(SCRIPT), str(steps), str(pause)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def until(self, true: Callable[[], Any], what: str) -> Any:
        end = time.monotonic() + LIMIT
        while not (value := true()):
            assert time.monotonic() < end, f"{what} did not come:\n" + "\n".join(self.lines)
            assert self.process.poll() is None or true(), f"{what} did not come:\n" + "\n".join(self.lines)
            time.sleep(0.02)
        return value

    def generation(self, size: int, *, after: int = 0) -> list[tuple[int, int]]:
        """Number and process ids of a whole generation of `size`, once it is at work."""
        pattern = re.compile(r"generation (\d+) rank \d+ of (\d+) pid (\d+)")

        def whole() -> list[tuple[int, int]]:
            found = [tuple(map(int, match.groups())) for match in map(pattern.search, self.lines) if match]
            for number in sorted({one[0] for one in found}):
                members = [(one[0], one[2]) for one in found if one[0] == number and one[1] == size]
                if number > after and len(members) == size:
                    return members
            return []

        return self.until(whole, f"a generation of {size} after {after}")

    def ended(self) -> tuple[int, str]:
        code = self.process.wait(LIMIT)
        self._reader.join(10.0)
        return code, "\n".join(self.lines)


@pytest.fixture
def job() -> Iterator[Callable[..., Watched]]:
    started: list[Watched] = []

    def start(*options: str, steps: int, pause: float = 0.03) -> Watched:
        started.append(Watched(*options, steps=steps, pause=pause))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.terminate()
            one.process.wait(20.0)


def single(steps: int) -> float:
    """The loss that one process reaches, without any of it."""
    spec = importlib.util.spec_from_file_location("elastic_job", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    state, shards, x, y = script.build(steps)
    for step in range(steps):
        part = shards.whole(step)
        state.model.zero_grad()
        ops.cross_entropy(state.model(Tensor(x[part])), Tensor(y[part])).backward()
        state.optimizer.step()
    return float(script.loss_of(state, x, y))


def all_done(text: str, size: int, steps: int) -> None:
    """Every rank that is left ends with the same bits, and where one process alone does."""
    done = re.findall(r"done ([\d.]+) (\d+)", text)
    assert len(done) == size, text
    assert len(set(done)) == 1, text
    assert float(done[0][0]) == pytest.approx(single(steps), rel=1e-4)


def test_a_killed_rank_is_done_without(job: Callable[..., Watched]) -> None:
    one = job("-n", "3", "--min", "2", steps=40)
    (number, victim), *_ = one.generation(3)
    os.kill(victim, signal.SIGKILL)
    one.generation(2, after=number)
    code, text = one.ended()
    assert code == 0, text
    assert "was ended by SIGKILL" in text
    assert "the job goes on with 2" in text
    all_done(text, 2, 40)


def test_a_killed_rank_is_replaced_and_the_new_one_has_the_same_state(job: Callable[..., Watched]) -> None:
    one = job("-n", "2", "--min", "1", "--max-restarts", "1", steps=120)
    (number, victim), *_ = one.generation(2)
    os.kill(victim, signal.SIGKILL)
    members = one.generation(2, after=number)
    assert victim not in [pid for _, pid in members]
    code, text = one.ended()
    assert code == 0, text
    assert "another is started in its place" in text
    all_done(text, 2, 120)


def test_the_job_grows_when_told(job: Callable[..., Watched]) -> None:
    one = job("-n", "1", "--min", "1", "--max", "2", steps=120)
    ((number, _),) = one.generation(1)
    one.process.send_signal(signal.SIGUSR1)
    one.generation(2, after=number)
    one.process.send_signal(signal.SIGUSR1)
    one.until(lambda: any("no rank is added: 2 are running, at most 2" in line for line in one.lines), "a refusal")
    code, text = one.ended()
    assert code == 0, text
    all_done(text, 2, 120)


def test_a_rank_that_stands_still_is_done_without_and_not_waited_for(job: Callable[..., Watched]) -> None:
    one = job("-n", "3", "--min", "2", "--grace", "0.5", steps=40)
    (number, victim), *_ = one.generation(3)
    os.kill(victim, signal.SIGSTOP)
    one.generation(2, after=number)
    code, text = one.ended()
    assert code == 0, text
    assert "did not end with it" in text
    all_done(text, 2, 40)
    assert not Path(f"/proc/{victim}").exists()


def test_with_too_few_left_the_job_ends(job: Callable[..., Watched]) -> None:
    one = job("-n", "2", "--min", "2", steps=10_000)
    (_, victim), *_ = one.generation(2)
    os.kill(victim, signal.SIGKILL)
    code, text = one.ended()
    assert code == 128 + signal.SIGKILL
    assert "1 are left of at least 2, the job ends" in text


def test_a_script_started_without_the_launcher_says_what_is_missing() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RENDEZVOUS"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "1", "0"],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        timeout=LIMIT,
    )
    assert done.returncode != 0
    assert "RENDEZVOUS is not in the environment" in done.stderr
