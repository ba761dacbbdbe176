"""A real server: what it answers, and that no request is lost or wrong while versions, workers and the server go."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import msgpack
import numpy as np
import psutil
import pytest
import safetensors.numpy

from internals import ops
from internals.deploy import Signature, TensorSpec, save
from internals.deploy.serve.answers import Answers, Asked
from internals.deploy.serve.load import closed_loop, open_loop
from internals.deploy.serve.server import Server, Settings

from .conftest import FEATURES, PATIENCE, save_version, weight

pytestmark = pytest.mark.slow

PREDICT = "/v1/models/m:predict"


def body(number):
    """Request number n: a row that no other has."""
    row = np.random.default_rng(number).normal(size=FEATURES).round(4)
    return json.dumps({"instances": [row.tolist()]}).encode()


def is_right(*versions):
    """Checks that an answer is that of one of the versions."""

    def check(number, content):
        row = np.float32(json.loads(body(number))["instances"])
        (came,) = np.array([json.loads(content)["predictions"]])
        return any(np.allclose(came, row @ weight(version), rtol=1e-4, atol=1e-5) for version in versions)

    return check


class Load(threading.Thread):
    """A load that runs beside the test."""

    def __init__(self, server, *versions, seconds=4.0, clients=8):
        super().__init__()
        self.arguments = (server.url + PREDICT, body)
        self.settings = {"clients": clients, "seconds": seconds, "check": is_right(*versions)}
        self.start()

    def run(self):
        self.report = asyncio.run(closed_loop(*self.arguments, **self.settings))

    def result(self):
        self.join()
        return self.report


def test_rows_columns_and_bytes_give_the_same(shared, rows):
    expected = rows @ weight(1)
    np.testing.assert_allclose(shared.predict(rows), expected, rtol=1e-5)
    for inputs in (rows.tolist(), {"x": rows.tolist()}):
        status, answer = shared.ask(PREDICT, {"inputs": inputs})
        assert status == 200
        np.testing.assert_allclose(answer["outputs"], expected, rtol=1e-5)
    instances = {"instances": [{"x": row} for row in rows.tolist()], "signature_name": "serve"}
    np.testing.assert_allclose(shared.ask(PREDICT, instances)[1]["predictions"], expected, rtol=1e-5)
    packed = {"x": {"dtype": "float32", "shape": [3, FEATURES], "data": rows.tobytes()}}
    for kind, data in (("safetensors", safetensors.numpy.save({"x": rows})), ("msgpack", msgpack.packb(packed))):
        headers = {"Content-Type": f"application/x-{kind}"}
        with urllib.request.urlopen(urllib.request.Request(shared.url + PREDICT, data, headers)) as answer:
            content = answer.read()
        if kind == "safetensors":
            scores = safetensors.numpy.load(content)["scores"]
        else:
            one = msgpack.unpackb(content)["scores"]
            scores = np.frombuffer(one["data"], one["dtype"]).reshape(one["shape"])
        np.testing.assert_array_equal(scores, np.float32(shared.predict(rows)))


def test_binary_arrays_must_have_the_dtype(shared, rows):
    data = safetensors.numpy.save({"x": rows.astype("f8")})
    status, answer = shared.ask(PREDICT, data, headers={"Content-Type": "application/x-safetensors"})
    assert (status, "x is float64; expected float32" in answer["error"]) == (400, True)


def test_status_metadata_and_labels(shared, rows):
    (version,) = shared.ask("/v1/models/m")[1]["model_version_status"]
    assert (version["version"], version["state"], version["labels"]) == ("1", "AVAILABLE", ["stable"])
    metadata = shared.ask("/v1/models/m/metadata")[1]
    assert metadata["model_spec"] == {"name": "m", "signature_name": "", "version": "1"}
    dims = [{"size": "-1", "name": "batch"}, {"size": "4", "name": ""}]
    shape = {"dim": dims, "unknown_rank": False}
    signature = metadata["metadata"]["signature_def"]["signature_def"]["serve"]
    assert signature["inputs"] == {"x": {"dtype": "DT_FLOAT", "tensor_shape": shape, "name": "x"}}
    assert signature["method_name"] == "tensorflow/serving/predict"
    examples = {"examples": [{"x": row} for row in rows.tolist()]}
    results = shared.ask("/v1/models/m:classify", examples)[1]["results"]
    assert [[label for label, _ in row] for row in results] == [["ant", "bee", "cat"]] * 3
    np.testing.assert_allclose([[score for _, score in row] for row in results], rows @ weight(1), rtol=1e-5)


def test_health_metrics_and_log(shared, rows):
    shared.predict(rows, headers={"X-Request-Id": "one of many"})
    assert shared.ask("/healthz") == (200, {"status": "alive"})
    assert shared.ask("/readyz") == (200, {"ready": True})
    text = urllib.request.urlopen(shared.url + "/metrics").read().decode()
    assert 'serve_requests_total{code="200",model="m",version="1"}' in text
    assert 'serve_batch_rows_bucket{le="4.0",model="m",version="1"}' in text
    assert 'serve_queue_rows{model="m",version="1"} 0.0' in text
    about = shared.event("request", id="one of many")
    assert (about["status"], about["model"], about["version"]) == (200, "m", "1")
    shared.ask("/live")
    shared.ask("/nothing")
    shared.event("request", path="/nothing", status=404)
    told = [json.loads(line) for line in shared.lines if line.startswith("{")]
    assert not [line for line in told if line.get("path") in ("/healthz", "/readyz", "/metrics", "/live")]


def test_no_request_is_lost_or_wrong_while_versions_are_switched(serve, tmp_path, rows):
    save_version(tmp_path / "m", 1)
    server = serve(tmp_path, "--poll", "0.1", "--keep", "1", "--quiet")
    server.event("loaded", version=1)
    load = Load(server, 1, 2, 3)
    for version in (2, 3):
        save_version(tmp_path / "m", version)
        server.event("loaded", version=version)
        server.event("dropped", version=version - 1)
    report = load.result()
    assert set(report.statuses) == {200}, report.errors
    assert report.wrong == 0
    np.testing.assert_allclose(server.predict(rows), rows @ weight(3), rtol=1e-4)
    assert server.end() == 0


def test_no_request_is_lost_when_workers_are_killed(serve, tmp_path):
    save_version(tmp_path / "m", 1)
    server = serve(tmp_path, "--workers", "2", "--quiet")
    server.event("loaded")
    load = Load(server, 1)
    workers = psutil.Process(server.process.pid).children()
    assert len(workers) == 2
    for worker in workers:
        worker.kill()
    report = load.result()
    assert set(report.statuses) == {200}, report.errors
    assert report.wrong == 0
    assert len(psutil.Process(server.process.pid).children()) == 2
    assert (
        'serve_worker_restarts{model="m",version="1"} 2.0'
        in urllib.request.urlopen(server.url + "/metrics").read().decode()
    )


def test_a_drain_answers_what_is_in_flight_and_leaves_nothing_behind(serve, tmp_path):
    save_version(tmp_path / "m", 1)
    server = serve(tmp_path, "--wait-ms", "1500", "--batch-size", "64", "--quiet")
    server.event("loaded")
    workers = psutil.Process(server.process.pid).children()
    answers = []
    threads = [threading.Thread(target=lambda n=n: answers.append(server.ask(PREDICT, body(n)))) for n in range(6)]
    for thread in threads:
        thread.start()
    while server.ask("/live")[1]["models"][0]["queue"] < 6:
        pass
    assert server.end() == 0
    for thread in threads:
        thread.join()
    assert [status for status, _ in answers] == [200] * 6
    assert not psutil.wait_procs(workers, timeout=30)[1]


def test_a_drain_waits_until_a_large_answer_is_read(serve, tmp_path):
    save_version(tmp_path / "m", 1)
    server = serve(tmp_path, "--quiet")
    server.event("loaded")
    rows = np.random.default_rng(3).normal(size=(250_000, FEATURES)).round(1)
    data = json.dumps({"instances": rows.tolist()}).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(
            b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (PREDICT.encode(), len(data)) + data
        )
        came = connection.recv(1000)  # it is being written, and does not fit into what lies between
        server.process.send_signal(signal.SIGTERM)
        server.event("draining")
        head, _, body = came.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        size = int(re.search(rb"Content-Length: (\d+)", head)[1])
        while len(body) < size and (part := connection.recv(2**16)):
            body += part
    np.testing.assert_allclose(json.loads(body)["predictions"], rows @ weight(1), rtol=1e-3, atol=1e-4)
    assert server.end() == 0


@pytest.mark.parametrize("phase", ["read", "write"])
def test_a_request_is_held_from_its_body_to_its_answer(tmp_path, monkeypatch, phase):
    """While its JSON is read or written elsewhere, neither its version goes nor does the server end."""
    save_version(tmp_path / "m", 1)
    rows = np.random.default_rng(8).normal(size=(6_000, FEATURES)).astype("f")
    large = json.dumps({"instances": rows.tolist()}).encode()

    async def tried():
        server = Server(tmp_path, Settings(poll=0, keep=1))
        await server.start()
        try:
            entered, goes_on = asyncio.Event(), asyncio.Event()
            done = getattr(server.bodies, phase)

            async def slow(*arguments):
                entered.set()
                await goes_on.wait()
                return await done(*arguments)

            monkeypatch.setattr(server.bodies, phase, slow)
            asking = asyncio.create_task(Answers(server).answer(Asked("POST", PREDICT, {}, large)))
            await asyncio.wait_for(entered.wait(), PATIENCE)
            save_version(tmp_path / "m", 2)
            server.refresh()
            await server.settled()
            states = {one["version"]: one["state"] for one in server.model("m").status()}
            assert states == {"1": "UNLOADING", "2": "AVAILABLE"}
            draining = asyncio.create_task(server.drain(PATIENCE))
            await asyncio.sleep(0)
            assert server.in_flight == 1
            goes_on.set()
            answer = await asking
            assert await draining
            assert [one["version"] for one in server.model("m").status()] == ["2"]
            return answer
        finally:
            server.close()

    answer = asyncio.run(tried())
    assert answer.status == 200, answer.body
    np.testing.assert_allclose(json.loads(answer.body)["predictions"], rows @ weight(1), rtol=1e-3, atol=1e-5)


def test_a_full_queue_is_a_429_and_a_late_answer_a_504(serve, tmp_path):
    save_version(tmp_path / "m", 1)
    server = serve(tmp_path, "--wait-ms", "600000", "--batch-size", "64", "--queue", "2", "--quiet")
    server.event("loaded")
    late = []
    ask = {"headers": {"X-Timeout-Ms": "3000"}}
    threads = [threading.Thread(target=lambda: late.append(server.ask(PREDICT, body(1), **ask))) for _ in range(2)]
    for thread in threads:
        thread.start()
    while server.ask("/live")[1]["models"][0]["queue"] < 2:
        pass
    status, answer = server.ask(PREDICT, body(2))
    assert (status, "2 rows wait and the queue holds 2" in answer["error"]) == (429, True)
    for thread in threads:
        thread.join()
    assert [status for status, _ in late] == [504, 504]
    assert server.ask("/live")[1]["models"][0]["queue"] == 0


def test_canary_rollback_and_unloading(serve, tmp_path, rows):
    for version in (1, 2):
        save_version(tmp_path / "m", version)
    server = serve(tmp_path, "--poll", "0", "--quiet")
    for version in (1, 2):
        server.event("loaded", version=version)
    assert server.ask("/admin/models/m", {"action": "canary", "version": 2, "weight": 0.25}, admin=True)[0] == 200
    came = [server.predict(rows[:1]) for _ in range(20)]
    assert sum(np.allclose(one, rows[:1] @ weight(2), rtol=1e-4) for one in came) == 5
    server.ask("/admin/models/m", {"action": "promote", "version": 2}, admin=True)
    np.testing.assert_allclose(server.predict(rows), rows @ weight(2), rtol=1e-4)
    server.ask("/admin/models/m", {"action": "rollback"}, admin=True)
    np.testing.assert_allclose(server.predict(rows), rows @ weight(1), rtol=1e-4)
    save_version(tmp_path / "m", 3)
    server.ask("/admin/models/m", {"action": "refresh"}, admin=True)
    np.testing.assert_allclose(server.predict(rows), rows @ weight(1), rtol=1e-4)
    assert server.ask("/admin/models/m", {"action": "unload"}, admin=True)[0] == 200
    assert server.ask(PREDICT, body(1))[0] == 404
    assert server.ask("/admin/models/m", {"action": "load"}, admin=True)[0] in (200, 503)
    with urllib.request.urlopen(server.url + "/metrics") as metrics:
        counted = [line for line in metrics.read().decode().splitlines() if line.startswith("serve_requests_total")]
    assert sum(float(line.rpartition(" ")[2]) for line in counted) == 23, counted  # no operator's call is among them
    assert sum(one["answers"] for one in server.ask("/live")[1]["seconds"]) == 23


def test_a_damaged_version_is_reported_and_never_live(serve, tmp_path, rows):
    base = tmp_path / "models"
    save_version(base / "m", 1)
    server = serve(base, "--poll", "0.1", "--quiet")
    server.event("loaded", version=1)
    save_version(tmp_path / "away", 2)
    damaged = tmp_path / "away" / "2" / "weights.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x55")
    (base / "m" / "3").mkdir()  # half-way: no manifest yet
    shutil.copytree(tmp_path / "away" / "2", tmp_path / "part")
    os.rename(tmp_path / "part", base / "m" / "2")
    server.event("failed", version=2)
    status = {one["version"]: one for one in server.ask("/v1/models/m")[1]["model_version_status"]}
    assert status["2"]["state"] == "END"
    assert server.ask("/v1/models/m/versions/2")[1]["model_version_status"] == [status["2"]]
    assert "2" in status["2"]["status"]["error_message"]
    assert "3" not in status
    np.testing.assert_allclose(server.predict(rows), rows @ weight(1), rtol=1e-4)
    assert server.ask("/readyz")[0] == 200
    save_version(base / "m", 2)  # repaired, at the same place
    server.event("loaded", version=2)
    np.testing.assert_allclose(server.predict(rows), rows @ weight(2), rtol=1e-4)


def test_a_directory_that_goes_away_does_not_end_the_server(serve, tmp_path, rows):
    save_version(tmp_path / "m", 1)
    server = serve(tmp_path, "--poll", "0.05", "--quiet")
    server.event("loaded", version=1)
    shutil.rmtree(tmp_path / "m")
    for _ in range(20):
        np.testing.assert_allclose(server.predict(rows), rows @ weight(1), rtol=1e-4)


def test_an_open_loop_counts_from_when_a_request_was_due(shared):
    report = asyncio.run(open_loop(shared.url + PREDICT, body, rate=50, seconds=1.0, check=is_right(1), seed=3))
    assert set(report.statuses) == {200}, report.errors
    assert report.wrong == 0
    assert 20 < sum(report.statuses.values()) < 90
    assert 0 < report.percentile(0.5) <= report.percentile(0.99) <= max(report.seconds)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere is no directory"),
        ([".", "--batch-size", "0"], "size must be a whole number of rows"),
        ([".", "--pad", "=3"], "expected SIZE=FILL"),
        ([".", "--workers", "0"], "--workers must be at least 1"),
    ],
)
def test_a_command_line_that_makes_no_sense(tmp_path, arguments, said):
    command = [sys.executable, "-m", "internals.deploy.serve", *[str(tmp_path) if a == "." else a for a in arguments]]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, said in ran.stderr) == (2, True), ran.stderr


def test_sigint_drains_too(serve, tmp_path):
    save_version(tmp_path / "m", 1)
    server = serve(tmp_path, "--quiet")
    server.event("loaded")
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(60) == 0


def test_sequences_of_different_lengths_share_a_batch(serve, tmp_path):
    w = weight(5)
    save(
        tmp_path / "m" / "1",
        lambda x: ops.matmul(x, w),
        {"serve": Signature({"x": TensorSpec(("batch", "time", FEATURES))}, ("y",), lambda x: ops.matmul(x, w))},
    )
    server = serve(tmp_path, "--pad", "time=3", "--batch-size", "3", "--wait-ms", "20000", "--quiet")
    server.event("loaded")
    draw = np.random.default_rng(9)
    sent = [draw.normal(size=(1, length, FEATURES)).astype("f") for length in (2, 5, 1)]
    came = [None] * len(sent)

    def ask(number):
        came[number] = server.predict(sent[number])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(sent))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, answer in zip(sent, came, strict=True):
        np.testing.assert_allclose(answer, one @ w, rtol=1e-4, atol=1e-5)
    (second,) = [one for one in server.ask("/live")[1]["seconds"] if one["batches"]]
    assert (second["batches"], second["rows"], second["most"]) == (1, 3, 3)
