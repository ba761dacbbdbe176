"""A request holds the server and its version until it ends, however it ends, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import json
import math

import numpy as np
import pytest

from internals.deploy import Signature, TensorSpec
from internals.deploy.errors import SignatureError
from internals.deploy.serve import rest
from internals.deploy.serve.answers import Answers
from internals.deploy.serve.asking import Asking
from internals.deploy.serve.bodies import LARGE, MANY
from internals.deploy.serve.errors import ModelFailed, QueueFull, Unavailable
from internals.deploy.serve.exchanged import Asked
from internals.deploy.serve.listening import Listener
from internals.deploy.serve.load import Connection as Client
from internals.deploy.serve.registry import DRAINING, Model
from internals.deploy.serve.server import Server, Settings
from internals.nn.weights import array_bytes

from .conftest import FEATURES, PATIENCE, save_version, weight

RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(2, FEATURES)).astype("f")
PLAIN = json.dumps({"instances": ROWS.tolist()}).encode()
BINARY = {"content-type": rest.SAFETENSORS}


class Runner:
    """Takes requests, and ends them when it is told."""

    def __init__(self, refuses=None):
        self.signatures = {"serve": Signature({"x": TensorSpec(("batch", FEATURES))}, ("y",))}
        self.labels, self.waiting, self.cancelled, self._refuses = [], [], [], refuses

    def submit(self, signature, arrays, deadline, done):
        if self._refuses is not None:
            raise self._refuses
        self.waiting.append(done)
        return len(self.waiting) - 1

    def cancel(self, request):
        self.cancelled.append(request)

    def close(self):
        pass


def asked(tmp_path, runner, body=PLAIN, headers=None, what="predict"):
    """A server with one version that is asked once; what it answered comes into a list."""
    server = Server(tmp_path, Settings(poll=0))
    model = server.models["m"] = Model("m")
    (version,) = model.found({1: "mark"})
    model.loaded(version, runner)
    answers = []
    asking = Asking(server, "m", version, Asked("POST", "/", headers or {}, body), what, answers.append)
    assert (server.in_flight, version.users) == (1, 1)
    asking.begin()
    return server, version, asking, answers


def ended(server, version):
    return (server.in_flight, version.users) == (0, 0)


@pytest.mark.parametrize(
    ("outcome", "status", "said"),
    [
        ({"y": ROWS}, 200, "predictions"),
        (ModelFailed("it fell over"), 500, "it fell over"),
        (SignatureError("serve: x does not fit"), 400, "does not fit"),
        (Unavailable("went", retry_after=2), 503, "went"),
        (KeyError("a fault of the server's own"), 500, "its log says why"),
        ({"y": np.array(["text"])}, 500, "its log says why"),
    ],
)
def test_a_request_lets_go_with_its_answer(tmp_path, outcome, status, said):
    async def tried():
        server, version, asking, answers = asked(tmp_path, runner := Runner())
        assert (answers, ended(server, version)) == ([], False)
        runner.waiting[0](outcome)
        (answer,) = answers
        assert (answer.status, said in answer.body.decode()) == (status, True), answer
        assert ended(server, version)
        asking.stop()
        runner.waiting[0](outcome)
        assert (len(answers), ended(server, version)) == (1, True)

    asyncio.run(tried())


@pytest.mark.parametrize(
    ("body", "headers", "what", "refuses", "status"),
    [
        (b"{", {}, "predict", None, 400),
        (PLAIN, {}, "predict", QueueFull("full"), 429),
        (PLAIN, {}, "predict", RuntimeError("a batcher that fails"), 500),
        (PLAIN, {}, "classify", None, 400),
        (PLAIN, {"x-timeout-ms": "soon"}, "predict", None, 400),
        (PLAIN, BINARY, "predict", None, 400),
        (array_bytes({"x": ROWS}), BINARY, "classify", None, 400),
        (array_bytes({"x": ROWS * math.nan}), BINARY, "predict", None, 400),
    ],
)
def test_a_request_that_never_waits_lets_go_at_once(tmp_path, body, headers, what, refuses, status):
    async def tried():
        server, version, _, answers = asked(tmp_path, Runner(refuses), body, headers, what)
        assert ([one.status for one in answers], ended(server, version)) == ([status], True)

    asyncio.run(tried())


def test_a_client_that_leaves_takes_its_request_along(tmp_path):
    async def tried():
        server, version, asking, answers = asked(tmp_path, runner := Runner())
        version.state = DRAINING
        asking.stop()
        assert (runner.cancelled, ended(server, version)) == ([0], True)
        assert server.model("m").versions == {}  # it waited only for this one
        runner.waiting[0]({"y": ROWS})
        assert answers == []

    asyncio.run(tried())


def test_a_server_that_drains_holds_nothing(tmp_path):
    server = Server(tmp_path, Settings(poll=0))
    server.draining = True
    version = Model("m").found({1: "mark"})[0]
    with pytest.raises(Unavailable, match="is draining"):
        Asking(server, "m", version, Asked("POST", "/", {}, PLAIN), "predict", lambda answer: None)
    assert ended(server, version)


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("at", ["read", "write"])
def test_what_is_large_is_waited_for(tmp_path, at, leaves):
    """What is small is read and written at once; large JSON while others have their turn."""

    async def tried():
        large = at == "read"
        rows = np.tile(ROWS, (LARGE // 20, 1)) if large else ROWS
        server, version, asking, answers = asked(
            tmp_path, runner := Runner(), json.dumps({"instances": rows.tolist()}).encode()
        )
        goes_on = asyncio.Event()

        async def slow(*given):
            await goes_on.wait()
            return ("serve", {"x": rows}, rest.ROW) if large else b"{}"

        setattr(server.bodies, at, slow)
        if not large:
            runner.waiting[0]({"y": np.zeros((MANY, 2))})
        await asyncio.sleep(0)
        assert (answers, ended(server, version)) == ([], False)
        if leaves:
            asking.stop()
            assert ended(server, version)
        goes_on.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if large and not leaves:
            runner.waiting[0]({"y": ROWS})
        assert ([one.status for one in answers], ended(server, version)) == ([] if leaves else [200], True)
        assert large is False or len(runner.waiting) == (not leaves)

    asyncio.run(tried())


@pytest.mark.parametrize("at", ["read", "write"])
def test_what_is_large_is_not_waited_for_beyond_the_deadline(tmp_path, at):
    async def tried():
        body = json.dumps({"instances": np.tile(ROWS, (LARGE // 20, 1)).tolist()}).encode() if at == "read" else PLAIN
        server, version, _, answers = asked(tmp_path, runner := Runner(), body, {"x-timeout-ms": "20"})
        setattr(server.bodies, at, lambda *given: asyncio.Event().wait())
        if at == "write":
            runner.waiting[0]({"y": np.zeros((MANY, 2))})
        while not answers:
            await asyncio.sleep(0.001)
        assert ([one.status for one in answers], ended(server, version)) == ([504], True)

    asyncio.run(asyncio.wait_for(tried(), PATIENCE))


@pytest.mark.slow
def test_requests_leave_no_reference_cycles(tmp_path):
    """The collector is not run while requests wait: what they leave must go by itself."""
    save_version(tmp_path / "m", 1)
    requests = 50

    async def tried():
        server = Server(tmp_path, Settings(poll=0))
        listener = Listener(Answers(server), 100)
        port = listener.listen("127.0.0.1", 0)
        await server.start()
        client = Client(f"http://127.0.0.1:{port}/v1/models/m:predict")
        kinds = [(PLAIN, rest.JSON), (array_bytes({"x": ROWS}), rest.SAFETENSORS), (b"{", rest.JSON)]
        try:
            said = [await client.send(*kind) for kind in kinds]
            assert [status for status, _ in said] == [200, 200, 400]
            np.testing.assert_allclose(json.loads(said[0][1])["predictions"], ROWS @ weight(1), rtol=1e-4)
            gc.collect()
            gc.disable()
            for _ in range(requests):
                for kind in kinds:
                    await client.send(*kind)
            return gc.collect()
        finally:
            gc.enable()
            client.close()
            await listener.close()
            server.close()

    assert asyncio.run(asyncio.wait_for(tried(), PATIENCE)) < requests
