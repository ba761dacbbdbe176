"""Endpoints of every transport."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from internals.distributed.transport import Endpoint, Network, open_endpoint

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
