"""What is not right is said on the side that asked: parameter, trainer and server by name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from server_jobs import Job, parameters, plain_sgd

from internals.distributed.errors import DeadlineExceeded, DistributedError, RemoteError
from internals.distributed.server import Client, Server, TableSpec, Trainer, connect, role, serve
from internals.distributed.server.client import Client as RealClient
from internals.distributed.transport import Message, Network


@pytest.fixture
def job() -> Iterator[Job]:
    one = Job(servers=2, shards=2)
    yield one
    one.close()


def pushed(name: str, value: Any) -> dict[str, Any]:
    return {"gradients": {name: value}}


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        (pushed("w", np.zeros((4, 5))), ValueError, r"trainer:0: parameter 'w' is float64 \(5, 4\).*shape \(4, 5\)"),
        (pushed("w", np.zeros(20)), ValueError, r"'w'.*\(20,\)"),
        (pushed("w", 3.0), ValueError, r"'w'.*shape \(\)"),
        (pushed("scale", np.zeros(1)), ValueError, r"'scale' is float64 \(\).*\(1,\)"),
        (pushed("w", np.zeros((5, 4), np.float32)), TypeError, "'w'.*its gradient float32; convert it"),
        (pushed("w", np.zeros((5, 4), int)), TypeError, "'w'.*its gradient int64"),
        (pushed("q", np.zeros(3)), LookupError, "trainer:0: there is no parameter 'q'; there are b, scale, v, w"),
        (pushed("b", np.array([1, np.inf, np.nan, 0.0])), ValueError, "'b' has 2 entries of 4 that are not finite"),
        ({"gradients": {}, "examples": -1}, ValueError, "trainer:0: examples=-1"),
        ({"gradients": {}, "examples": float("nan")}, ValueError, "examples=nan"),
        ({"gradients": {}, "shard": 2}, RemoteError, "server:0.*trainer:0 pushed for data shard 2; there are 2"),
        ({"gradients": {}, "shard": -1}, RemoteError, "trainer:0 pushed for data shard -1"),
        ({"gradients": {}, "step": -1}, RemoteError, "trainer:0 pushed for step -1"),
        ({"gradients": {}, "step": 5}, RemoteError, "pushed for step 5, but step 0 is not over"),
        ({"gradients": {}, "rows": {"t": ([1], np.zeros((1, 2)))}}, LookupError, "trainer:0: there is no table 't'"),
    ],
)
def test_a_push_that_does_not_fit(job: Job, arguments: dict, kind: type, said: str) -> None:
    client = job.client()
    client.init(parameters())
    with pytest.raises(kind, match=said):
        client.push(**arguments)


@pytest.mark.parametrize(
    ("ids", "gradients", "said"),
    [
        ([1, 2], np.zeros((2, 3), np.float32), r"rows of table 't' are float32 \(2, 3\); .*float32 \(2, 2\)"),
        ([1, 2], np.zeros((3, 2), np.float32), r"\(3, 2\)"),
        ([1, 2], np.zeros((2, 2)), "float64"),
        ([1, -2], np.zeros((2, 2), np.float32), "trainer:0: table 't': there is no row -2; ids are 0 to 9"),
        ([1, 10], np.zeros((2, 2), np.float32), "no row 10"),
        ([0.5], np.zeros((1, 2), np.float32), "row ids must be integers, got float64"),
        ([1], np.full((1, 2), np.nan, np.float32), "rows of table 't' is not finite"),
    ],
)
def test_rows_that_do_not_fit(job: Job, ids: list, gradients: np.ndarray, said: str) -> None:
    client = job.client()
    client.create_table("t", TableSpec(2, rows=10))
    with pytest.raises((ValueError, TypeError), match=f"trainer:0.*{said}|{said}"):
        client.push({}, rows={"t": (ids, gradients)})


@pytest.mark.slow
def test_before_init(job: Job) -> None:
    client = job.client()
    client._links._deadline = 0.1
    for ask in (lambda: client.push({"w": np.zeros(3)}), client.pull):
        with pytest.raises(DistributedError, match="trainer:0 asks before the parameters are initialised; call init"):
            ask()
    with pytest.raises(DeadlineExceeded, match="server:0"):
        client.init(None)


def test_first_values_that_differ(job: Job) -> None:
    one, other = job.client(0), job.client(1)
    one.init(parameters())
    other.init(parameters())
    with pytest.raises(RemoteError, match="trainer:1 initialises parameter 'w' with other values than"):
        other.init(parameters() | {"w": parameters(seed=1)["w"]})
    with pytest.raises(RemoteError, match=r"trainer:1 initialises parameter 'b' as float64 \(3,\).*before it"):
        other.init(parameters() | {"b": np.zeros(3)})
    with pytest.raises(RemoteError, match=r"parameter 'b' as float32 \(4,\)"):
        other.init(parameters() | {"b": np.zeros(4, np.float32)})
    with pytest.raises(RemoteError, match=r"parameter 'new' as float64 \(\); the trainer before it: not there"):
        other.init(parameters() | {"new": np.zeros(())})
    other.init(None)
    assert other.pull().keys() == parameters().keys()


def test_placements_that_differ(job: Job) -> None:
    job.client(0).init(parameters())
    with pytest.raises(RemoteError, match="trainer:1 places parameters with how='range', .*before it: how='hash'"):
        job.client(1, how="range").init(parameters())


def test_tables_that_differ(job: Job) -> None:
    one, other = job.client(0), job.client(1)
    one.create_table("t", TableSpec(2))
    other.create_table("t", TableSpec(2))
    with pytest.raises(RemoteError, match=r"trainer:1 makes table 't' as TableSpec\(dim=3.*TableSpec\(dim=2"):
        other.create_table("t", TableSpec(3))
    with pytest.raises(LookupError, match="trainer:0: there is no table 'u'; create_table was called for t"):
        one.pull_rows({"u": [1]})


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        ({}, ValueError, "no parameters"),
        ({"w": np.zeros(3, int)}, TypeError, r"trainer:0: parameter 'w' is int64 \(3,\)"),
        ({"w": np.zeros(3, complex)}, TypeError, "complex128"),
        ({3: np.zeros(3)}, TypeError, "parameter 3"),
    ],
)
def test_first_values_that_are_none(job: Job, values: dict, kind: type, said: str) -> None:
    with pytest.raises(kind, match=said):
        job.client().init(values)


@pytest.mark.parametrize(
    ("settings", "kind", "said"),
    [
        ({"index": 2}, ValueError, "index=2; of 2 servers it is 0 to 1"),
        ({"servers": 0}, ValueError, "over 0 servers"),
        ({"shards": 0}, ValueError, "shards=0"),
        ({"optimizer": 0.1}, TypeError, "optimizer must be a function that makes one, got float"),
        ({"mode": "ssp", "staleness": -1}, ValueError, "staleness=-1"),
        ({"every": 0}, ValueError, "every=0"),
        ({"checkpoint": "/tmp/nothing-is-made-here"}, ValueError, "pass the addresses of all 2 servers"),
    ],
)
def test_servers_that_make_no_sense(settings: dict, kind: type, said: str) -> None:
    given = {"optimizer": plain_sgd, "shards": 2, "index": 0, "servers": 2} | settings
    with Network().endpoint("server:0") as endpoint, pytest.raises(kind, match=said):
        Server(endpoint, **given)


@pytest.mark.parametrize(
    ("servers", "settings", "kind", "said"),
    [
        ([], {}, ValueError, "over 0 servers"),
        ("tcp://127.0.0.1:1", {}, TypeError, "a list of addresses; one alone is"),
        (["inproc://server:0"], {"rank": -1}, ValueError, "rank=-1"),
        (["inproc://server:0"], {"nonfinite": "ignore"}, ValueError, "nonfinite='ignore'"),
        (["inproc://server:0"], {"patience": 0.1}, DeadlineExceeded, "server:0 at inproc://server:0 did not answer"),
    ],
)
def test_clients_that_make_no_sense(servers: Any, settings: dict, kind: type, said: str) -> None:
    with Network().endpoint("trainer:0") as endpoint, pytest.raises(kind, match=said):
        Client(endpoint, servers, **settings)


def test_another_number_of_servers(job: Job) -> None:
    with pytest.raises(RemoteError, match="trainer:9 takes this for server 0 of 1, but it is 0 of 2"):
        RealClient(job.network.endpoint("trainer:9"), job.addresses[:1], rank=0)


def test_a_gradient_that_no_optimizer_can_take(job: Job) -> None:
    """An optimizer that raises is an error where it was pushed, not a server that is silent."""
    with Network().endpoint("x") as endpoint, pytest.raises(TypeError, match="optimizer must be a function"):
        Server(endpoint, optimizer=None, shards=1)  # type: ignore[arg-type]
    broken = Job(servers=1, shards=1, optimizer=lambda tensors: 1 / 0)
    with pytest.raises(RemoteError, match="server:0 answered with ZeroDivisionError"):
        broken.client().init(parameters())
    broken.close()


def test_messages_that_no_client_sends(job: Job) -> None:
    """Whatever comes, the server answers with an error and serves on."""
    client = job.client()
    client.init(parameters())
    for kind in ("hello", "init", "table", "push", "pull", "mine", "missing", "bye", "rollback"):
        for message in (Message(kind), Message(kind, {"told": 3}), Message(kind, {}, [np.zeros(3)])):
            with pytest.raises(RemoteError, match="server:0"):
                client.endpoint.call("server:0", message, 5.0)
    stranger = client.endpoint.call("server:0", Message("push", {"token": 3, "generation": 0}), 5.0)
    assert stranger.fields == {"redo": "hello"}
    assert client.pull()["w"].shape == (5, 4)


def told(client: Client, **changed: Any) -> dict[str, Any]:
    """The fields of a push of a gradient of "b" by this trainer, but for what is changed."""
    fields = {
        "shard": 0, "step": 0, "examples": 1.0, "dense": [{"name": "b", "codec": "plain", "arrays": 1}], "rows": [],
        "first": 1, "token": client._links._token, "generation": 0, "seen": 0, "news": 0, "pull": True,
        "next_step": 0, "next_shard": None, "values": True, "tables": [], "create": True,
    }  # fmt: skip
    return fields | changed


TWICE = [{"name": "b", "codec": "plain", "arrays": 1}] * 2
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("mode", [{"mode": "sync"}, {"mode": "async"}, {"mode": "ssp", "staleness": 1}], ids=str)
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"examples": NAN}, "trainer:0 pushed examples=nan"),
        ({"examples": INF}, "examples=inf"),
        ({"examples": -1.0}, "examples=-1.0"),
        ({"examples": "6"}, "examples='6'"),
        ({"seen": "0"}, "values of version '0'"),
        ({"seen": None}, "values of version None"),
        ({"first": 2}, r"pushed 1 arrays, and says that its gradients are \[1\] of them"),
        ({"dense": TWICE, "first": 2}, r"pushed 1 arrays, and says that its gradients are \[1, 1\]"),
        ({"dense": [{"name": "b", "codec": "plain", "arrays": 0}], "first": 0}, r"its gradients are \[0\]"),
        ({"dense": [{"name": "b", "codec": "huffman", "arrays": 1}]}, "pushed 'b': there is no compression 'huffman'"),
        ({"dense": [{"name": "q", "codec": "plain", "arrays": 1}]}, "a gradient of 'q', which is not held here"),
        ({"shard": 2}, "pushed for data shard 2; there are 2"),
        ({"shard": "0"}, "pushed for data shard '0'"),
        ({"step": 1.5}, "pushed for step 1.5"),
        ({"next_shard": 2}, "trainer:0 pulls for data shard 2; there are 2"),
        ({"next_shard": -1}, "pulls for data shard -1"),
        ({"next_step": -1}, "pulls for step -1"),
        ({"next_step": "1"}, "pulls for step '1'"),
        ({"tables": ["t"]}, "trainer:0 asks for rows of 1 tables with the ids of 0"),
    ],
)
def test_a_push_that_no_client_sends_moves_nothing(mode: dict[str, Any], changed: dict[str, Any], said: str) -> None:
    """Neither a clock nor a parameter: a push that is refused can be made again."""
    one = Job(servers=1, shards=2, **mode)
    client = one.client()
    client.init(parameters())
    with pytest.raises(RemoteError, match=f"server:0 answered .*{said}"):
        client.endpoint.call("server:0", Message("push", told(client, **changed), [np.ones(4)]), 5.0)
    (stats,) = client.stats()
    assert stats["clocks"] == [0, 0]
    assert stats["version"] == stats["repeated"] == 0
    np.testing.assert_array_equal(client.pull(0)["b"], parameters()["b"])
    good = Message("push", told(client), [np.ones(4)])
    assert client.endpoint.call("server:0", good, 5.0).fields["version"] == (one.servers[0].mode != "sync")
    one.close()


def test_two_gradients_of_one_parameter_in_a_push() -> None:
    one = Job(servers=1, shards=2)
    client = one.client()
    client.init(parameters())
    twice = Message("push", told(client, dense=TWICE, first=2), [np.ones(4)] * 2)
    with pytest.raises(RemoteError, match="trainer:0 pushed two gradients of 'b' at once"):
        client.endpoint.call("server:0", twice, 5.0)
    one.close()


@pytest.mark.parametrize("arguments", [{"shard": 2}, {"shard": -1}, {"step": -1}])
def test_a_pull_that_does_not_fit(job: Job, arguments: dict[str, int]) -> None:
    client = job.client()
    client.init(parameters())
    ((what, value),) = arguments.items()
    with pytest.raises(RemoteError, match=f"trainer:0 pulls for (data )?{what} {value}"):
        client.pull(**arguments)


def test_a_step_that_is_pushed_again_counts_once_whatever_is_in_it(job: Job) -> None:
    one, other = job.client(0), job.client(1)
    for client in (one, other):
        client.init(parameters())
    pushed = {name: np.ones_like(value) for name, value in parameters().items()}
    for factor in (1.0, 100.0, 1.0):
        assert one.push({name: factor * value for name, value in pushed.items()}, step=0)
    values = other.pushpull(pushed, step=0)
    np.testing.assert_allclose(values["b"], parameters()["b"] - 0.1)
    assert [told["repeated"] for told in one.stats()] == [2, 2]


def test_two_trainers_of_one_rank(job: Job) -> None:
    """Under two names: the transport can't know. The first goes on, and the rank is free once it has left."""
    first = job.client(0)
    first.init(parameters())
    with pytest.raises(RemoteError, match="trainer:7 says that its rank is 0, and so is that of trainer:0, which is"):
        Client(job.network.endpoint("trainer:7"), job.addresses, rank=0, patience=5.0)
    assert first.push({}, step=0)
    first.close(done=False)
    second = Client(job.network.endpoint("trainer:8"), job.addresses, rank=0, patience=5.0)
    assert second.shards == [0]
    second.close()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rank": -1}, "its rank is -1"),
        ({"rank": "0"}, "its rank is '0'"),
        ({"clocks": {"2": 1}}, "at step 1 of data shard 2; there are 2 shards"),
        ({"clocks": {"-1": 1}}, "of data shard -1"),
        ({"clocks": {"0": -3}}, "at step -3 of data shard 0"),
        ({"clocks": {"0": "9"}}, "at step '9'"),
    ],
)
def test_a_hello_that_no_client_says(job: Job, changed: dict[str, Any], said: str) -> None:
    client = job.client()
    hello = {"token": client._links._token, "rank": 0, "clocks": {}, "servers": 2, "index": 0, "shards": []}
    with pytest.raises(RemoteError, match=said):
        client.endpoint.call("server:0", Message("hello", hello | changed), 5.0)
    assert client.stats()[0]["clocks"] == [0, 0]


def test_a_step_that_can_t_be_taken_ends_the_job_for_all() -> None:
    """More rows in one step than the table may hold: who waits at the barrier hears of it too."""
    one = Job(servers=1, shards=2)
    clients = [one.client(rank) for rank in range(2)]
    for client in clients:
        client.create_table("t", TableSpec(2, capacity=4))
    errors = []

    def wait() -> None:
        with pytest.raises(RemoteError) as caught:
            clients[0].pushpull({}, rows={"t": ([0, 1, 2], np.ones((3, 2), np.float32))})
        errors.append(str(caught.value))

    waiting = threading.Thread(target=wait)
    waiting.start()
    with pytest.raises(RemoteError, match="table 't': 6 rows are used at once, but the capacity is 4"):
        clients[1].pushpull({}, shard=1, rows={"t": ([3, 4, 5], np.ones((3, 2), np.float32))})
    waiting.join(20)
    assert len(errors) == 1
    assert "6 rows are used at once" in errors[0]
    with pytest.raises(RemoteError, match="step 0 could not be taken"):
        clients[1].pull()
    one.close()


@pytest.mark.parametrize("steps", [-1, 1.5, True])
def test_steps_that_are_no_number(job: Job, steps: Any) -> None:
    client = job.client()
    client.init(parameters())
    with pytest.raises(ValueError, match="steps="):
        Trainer(client, lambda *_: None).run(steps)  # type: ignore[arg-type, return-value]


def test_without_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROLE", "RANK", "SERVERS", "TRAINERS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RuntimeError, match="variable ROLE is '', expected server or trainer; start the script with"):
        role()
    with pytest.raises(RuntimeError, match="SERVERS is empty"):
        serve(optimizer=plain_sgd)
    monkeypatch.setenv("SERVERS", "127.0.0.1:1")
    with pytest.raises(RuntimeError, match="variable RANK is ''"):
        connect()
    monkeypatch.setenv("RANK", "3")
    with pytest.raises(RuntimeError, match="RANK is 3, but SERVERS has 1"):
        serve(optimizer=plain_sgd)
