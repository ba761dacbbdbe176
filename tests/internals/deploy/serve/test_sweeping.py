"""Garbage is looked for when nobody waits."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref

import pytest

from internals.deploy.serve import __main__ as program

from .conftest import PATIENCE

pytestmark = pytest.mark.slow  # a look through all that a process of many tests holds


@pytest.fixture
def collector():
    """Python's own collector, as it was."""
    yield
    gc.unfreeze()
    gc.enable()


class Loop:
    """Refers to itself."""

    def __init__(self):
        self.own = self


def sweeping(monkeypatch, in_flight, little, much):
    """Whether garbage goes while the sweeper runs; waits for it unless it must not."""
    monkeypatch.setattr(program, "LITTLE", little)
    monkeypatch.setattr(program, "MUCH", much)

    async def tried():
        rounds = []

        class Server:
            @property
            def in_flight(self):
                rounds.append(1)
                return in_flight

        task = asyncio.create_task(program.sweep(Server(), every=0.0))
        await asyncio.sleep(0)
        assert not gc.isenabled()
        one = weakref.ref(Loop())
        more = [Loop() for _ in range(50)]
        end, from_now = time.monotonic() + PATIENCE, len(rounds)
        while one() is not None and len(rounds) < from_now + 20 and time.monotonic() < end:
            await asyncio.sleep(0)
        task.cancel()
        return one() is None and len(more) == 50

    return asyncio.run(tried())


@pytest.mark.parametrize(
    ("in_flight", "little", "much", "goes"), [(0, 5, 10**9, True), (3, 5, 10**9, False), (3, 5, 5, True)]
)
def test_garbage_goes_when_nobody_waits_or_there_is_much(monkeypatch, collector, in_flight, little, much, goes):
    assert sweeping(monkeypatch, in_flight, little, much) is goes
