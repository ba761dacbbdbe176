"""Endpoints of every transport."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from internals.distributed.transport import Endpoint, Network, open_endpoint


class Logged(logging.Handler):
    """What this package logs; pytest's own capturing costs every test of the suite more than most of them take."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def text(self) -> str:
        return "\n".join(map(self.format, self.records))  # with the traceback where there is one


@pytest.fixture
def logged() -> Iterator[Logged]:
    logger, handler = logging.getLogger("internals.distributed"), Logged()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


Opener = Callable[[str], Endpoint]
REAL = [pytest.param(name, marks=pytest.mark.slow) for name in ("tcp", "shm")]


@pytest.fixture(params=["inproc", *REAL])
def opener(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens endpoints that can reach one another; all are closed at the end, whatever the test did."""
    network, opened = Network(), []

    def opens(name: str) -> Endpoint:
        one = network.endpoint(name) if request.param == "inproc" else open_endpoint(name, transport=request.param)
        opened.append(one)
        return one

    yield opens
    for one in opened:
        one.close()


@pytest.fixture
def two(opener: Opener) -> tuple[Endpoint, Endpoint]:
    one, other = opener("one"), opener("two")
    one.connect("two", other.address)
    return one, other
