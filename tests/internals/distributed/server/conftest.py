"""What the tests of servers and trainers in one process share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from server_jobs import Job


@pytest.fixture
def job() -> Iterator[Callable[..., Job]]:
    made: list[Job] = []

    def make(**settings: Any) -> Job:
        made.append(Job(**settings))
        return made[-1]

    yield make
    for one in made:
        one.close()
