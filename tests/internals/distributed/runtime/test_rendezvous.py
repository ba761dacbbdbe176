"""Values and who waits for them meet by step and key."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from internals.distributed.runtime import Rendezvous


class Told(list[Any]):
    def __call__(self, value: Any, error: BaseException | None) -> None:
        self.append(value if error is None else error)


def test_whichever_comes_first_waits() -> None:
    rendezvous = Rendezvous()
    early, late = Told(), Told()
    rendezvous.when("1", "a", early)
    assert early == []
    rendezvous.put("1", "a", 5)
    rendezvous.put("1", "b", 6)
    assert len(rendezvous) == 1
    rendezvous.when("1", "b", late)
    assert (early, late, len(rendezvous)) == ([5], [6], 0)


def test_steps_do_not_mix() -> None:
    rendezvous = Rendezvous()
    first, second = Told(), Told()
    rendezvous.when("1", "a", first)
    rendezvous.when("2", "a", second)
    rendezvous.put("2", "a", "of the second")
    assert (first, second) == ([], ["of the second"])
    rendezvous.put("1", "a", "of the first")
    assert first == ["of the first"]


def test_what_is_sent_twice() -> None:
    rendezvous = Rendezvous()
    rendezvous.put("1", "a", 5)
    with pytest.raises(KeyError, match="a was sent twice in step 1"):
        rendezvous.put("1", "a", 5)


def test_a_step_that_is_given_up() -> None:
    rendezvous = Rendezvous()
    waiting, after, other = Told(), Told(), Told()
    rendezvous.when("1", "a", waiting)
    rendezvous.when("2", "a", other)
    rendezvous.put("1", "b", 3)
    error = RuntimeError("gone")
    assert rendezvous.abort("1", error) == ["a"]
    assert rendezvous.abort("1", RuntimeError("again")) == []
    rendezvous.put("1", "a", 5)
    rendezvous.when("1", "b", after)
    assert (waiting, after, other) == ([error], [error], [])
    assert rendezvous.ended("1") is error
    assert rendezvous.ended("2") is None
    assert len(rendezvous) == 1, "only the other step waits"


def test_only_so_many_steps_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("internals.distributed.runtime.rendezvous.REMEMBERED", 3)
    rendezvous = Rendezvous()
    for step in range(10):
        rendezvous.abort(str(step), RuntimeError("gone"))
    assert [step for step in range(10) if rendezvous.ended(str(step))] == [7, 8, 9]


def test_many_threads() -> None:
    """Every value comes to who waits for it, once, whoever is first."""
    rendezvous = Rendezvous()
    keys = [(str(step), str(key)) for step in range(20) for key in range(20)]
    told = {key: Told() for key in keys}

    def run(act: Any, seed: int) -> None:
        mine = list(keys)
        random.Random(seed).shuffle(mine)
        for step, key in mine:
            act(step, key)

    threads = [
        threading.Thread(target=run, args=(lambda step, key: rendezvous.put(step, key, (step, key)), 1)),
        threading.Thread(target=run, args=(lambda step, key: rendezvous.when(step, key, told[step, key]), 2)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == {key: [key] for key in keys}
    assert len(rendezvous) == 0
