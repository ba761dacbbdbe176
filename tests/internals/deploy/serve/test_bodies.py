"""Large bodies: read and written in a process of their own, which may die or run out of memory."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import psutil
import pytest

from internals.deploy import Signature, TensorSpec
from internals.deploy.serve import rest
from internals.deploy.serve.bodies import LARGE, MANY, Bodies
from internals.deploy.serve.errors import BadRequest, NotFound

SPEC = {"serve": Signature({"x": TensorSpec(("batch", 4))}, ("y",), None, {"y": TensorSpec(("batch", 4))})}
ROWS = np.random.default_rng(2).normal(size=(MANY, 4)).astype("f")
BODY = json.dumps({"instances": ROWS.astype(float).tolist()}).encode()


def read(bodies, data):
    return bodies.read(data, rest.PREDICT, "m", SPEC)


def run(scenario):
    """Run a scenario with bodies; nothing is left behind."""

    async def with_bodies():
        bodies = Bodies(2**24)
        try:
            return await scenario(bodies)
        finally:
            bodies.close()

    before = set(psutil.Process().children())
    result = asyncio.run(with_bodies())
    assert not psutil.wait_procs(set(psutil.Process().children()) - before, timeout=60)[1]
    return result


def reader():
    """The process that reads."""
    (one,) = [one for one in psutil.Process().children() if "internals.deploy.serve.reader" in " ".join(one.cmdline())]
    return one


def test_what_is_small_is_read_and_written_here():
    small = json.dumps({"instances": ROWS[:2].astype(float).tolist()}).encode()
    assert (Bodies.reads_here(small), Bodies.reads_here(BODY)) == (True, False)
    assert (Bodies.writes_here({"y": ROWS[:2]}), Bodies.writes_here({"y": ROWS[:2], "z": ROWS})) == (True, False)


@pytest.mark.slow
def test_a_large_body_is_read_and_written_elsewhere_and_comes_out_the_same():
    assert len(BODY) >= LARGE

    async def scenario(bodies):
        name, arrays, form = await read(bodies, BODY)
        first = reader().pid
        written = await bodies.write({"y": arrays["x"]}, rest.PREDICT, form, [])
        assert reader().pid == first
        return name, arrays["x"], json.loads(written)["predictions"]

    name, arrays, written = run(scenario)
    assert name == "serve"
    np.testing.assert_array_equal(arrays, ROWS)
    np.testing.assert_array_equal(np.float32(written), ROWS)


@pytest.mark.slow
def test_what_is_wrong_with_a_large_body_is_told_and_the_next_is_read():
    async def scenario(bodies):
        with pytest.raises(BadRequest, match="no JSON"):
            await read(bodies, BODY[:-2])
        with pytest.raises(NotFound, match="there is no signature 'other'"):
            await read(bodies, BODY[:-1] + b', "signature_name": "other"}')
        with pytest.raises(BadRequest, match="results are no rows"):
            await bodies.write({"y": ROWS, "z": ROWS[1:]}, rest.PREDICT, rest.ROW, [])
        left = asyncio.ensure_future(read(bodies, BODY))
        await asyncio.sleep(0)
        left.cancel()  # its client left; what it asked for is not taken for the next one's
        _, arrays, _ = await read(bodies, BODY.replace(b"[[", b"[[7.5, 7.5, 7.5, 7.5], [", 1))
        reader().kill()
        _, again, _ = await read(bodies, BODY)
        return arrays["x"], again["x"]

    longer, again = run(scenario)
    np.testing.assert_array_equal(longer, [[7.5] * 4, *ROWS])
    np.testing.assert_array_equal(again, ROWS)


@pytest.mark.slow
def test_a_body_that_takes_more_memory_than_there_is_for_it_is_refused(monkeypatch):
    async def scenario(bodies):
        monkeypatch.setattr(bodies, "_memory", 600 * 2**20)
        with pytest.raises(BadRequest, match="more memory than the server gives one body"):
            await read(bodies, b'{"instances": [' + b"[]," * 8_000_000 + b"[]]}")
        return (await read(bodies, BODY))[1]["x"]

    np.testing.assert_array_equal(run(scenario), ROWS)
