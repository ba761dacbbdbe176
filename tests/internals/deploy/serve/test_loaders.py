"""A server whose models come from a loader of one's own, and misbehave: they hang, crash, raise, lie and talk."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from internals.deploy.serve.errors import ModelFailed
from internals.deploy.serve.workers import Pool, Program

from .conftest import PATIENCE, Running

pytestmark = pytest.mark.slow

PREDICT = "/v1/models/m:predict"
LOADER = """
import os, sys, time
import numpy as np
from internals.deploy import Signature, TensorSpec

SPEC = {name: TensorSpec(("batch", 2)) for name in ("x", "y")}


class Moody:
    labels = []

    def __init__(self, directory):
        self.factor = float((directory / "factor.txt").read_text())
        if self.factor < 0:
            raise ZeroDivisionError("a factor below nothing")
        if self.factor > 1000:
            time.sleep(600)
        self.signatures = {"serve": Signature({"x": SPEC["x"]}, ("y",), None, {"y": SPEC["y"]})}
        print("loaded", self.factor, file=sys.stderr)

    def __call__(self, signature, arrays):
        x, mood = arrays["x"], arrays["x"].max()
        if mood == 101:
            time.sleep(600)
        if mood == 102:
            os._exit(3)
        if mood == 103:
            raise KeyError("nothing of the kind")
        if mood == 104:
            return {"y": x[:1]}
        if mood == 105:
            return {"other": x}
        if mood == 106:
            return {"y": np.array([object()] * len(x))}
        if mood == 107:
            return None
        return {"y": x * self.factor * (np.nan if mood == 108 else 1)}
"""


@pytest.fixture(scope="module")
def moody(tmp_path_factory):
    """A server with such a model, an operators' token, and a marker that says when a version is complete."""
    base = tmp_path_factory.mktemp("moody")
    (base / "code").mkdir()
    (base / "code" / "moody.py").write_text(LOADER)
    (base / "token").write_text("a secret of several words\n")
    version(base, 1, 3.0)
    more = ("--wait-ms", "200", "--limit", "3", "--poll", "0.1", "--admin-token-file", str(base / "token"))
    server = Running(base / "models", "--loader", "moody:Moody", "--marker", "done", *more, path=str(base / "code"))
    server.event("loaded", version=1)
    server.base = base
    yield server
    assert server.end() == 0


def version(base, number, factor, *, done=True):
    place = base / "models" / "m" / str(number)
    place.mkdir(parents=True)
    (place / "factor.txt").write_text(str(factor))
    if done:
        (place / "done").touch()


def together(server, rows):
    """The answers to requests of one row each, sent at once, so that they share a batch."""
    answers = [None] * len(rows)

    def ask(number):
        answers[number] = server.ask(PREDICT, {"instances": [rows[number]]})

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(rows))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    return answers


@pytest.mark.parametrize(
    ("mood", "status", "said"),
    [
        (101, 500, "took more than 3 s to run and was stopped"),
        (102, 503, "ended with exit code 3, 3 times with this request"),
        (103, 500, "KeyError: 'nothing of the kind'"),
        (105, 500, "the model gave other; expected y"),
        (106, 500, "y came as object"),
        (107, 500, "the model gave NoneType; expected y"),
    ],
)
def test_a_request_that_the_model_can_not_take_harms_no_other(moody, mood, status, said):
    rows = np.random.default_rng(mood).normal(size=(4, 2)).round(3).tolist()
    answers = together(moody, [*rows, [mood, 0.5]])
    for row, (code, answer) in zip(rows, answers, strict=False):
        assert code == 200, answer
        np.testing.assert_allclose(answer["predictions"], [np.multiply(row, 3.0)], rtol=1e-5)
    code, answer = answers[-1]
    assert code == status, answer
    assert said in answer["error"]


def test_a_model_that_loses_rows_is_found_out(moody):
    rows = [[104.0, 1.0], [2.0, 3.0]]
    status, answer = moody.ask(PREDICT, {"instances": rows})
    assert status == 500
    assert "y came as float32[1, 2]; expected float32[batch, 2], where batch is 2" in answer["error"]
    alone = moody.ask(PREDICT, {"instances": rows[1:]})
    assert (alone[0], alone[1]["predictions"]) == (200, [[6.0, 9.0]])


def test_a_result_that_is_not_finite_comes_out_as_text(moody):
    status, answer = moody.ask(PREDICT, {"instances": [[108.0, 1.0]]})
    assert (status, answer["predictions"]) == (200, [["NaN", "NaN"]])


def test_what_a_worker_writes_is_a_line_of_the_log(moody):
    assert moody.event("worker", said="loaded 3.0")["level"] == "warning"


def test_versions_of_a_loader(moody):
    """One without its marker is not looked at; one that raises while it loads is told, and never live."""
    version(moody.base, 2, 5.0, done=False)
    version(moody.base, 3, -1.0)
    assert "ZeroDivisionError: a factor below nothing" in moody.event("failed", version=3)["error"]
    assert moody.ask(PREDICT, {"instances": [[1.0, 2.0]]})[1]["predictions"] == [[3.0, 6.0]]
    (moody.base / "models" / "m" / "2" / "done").touch()
    moody.event("loaded", version=2)
    assert moody.ask(PREDICT, {"instances": [[1.0, 2.0]]})[1]["predictions"] == [[5.0, 10.0]]
    assert moody.ask("/admin/models/m", {"action": "rollback"}, admin=True)[0] == 200
    (moody.base / "models" / "m" / "3" / "factor.txt").write_text("7.0")  # what failed is tried again when told
    status, answer = moody.ask("/admin/models/m", {"action": "load", "version": 3}, admin=True)
    assert status == 200, answer
    assert moody.ask("/v1/models/m/versions/3:predict", {"instances": [[1.0, 2.0]]})[1]["predictions"] == [[7.0, 14.0]]
    assert moody.ask(PREDICT, {"instances": [[1.0, 2.0]]})[1]["predictions"] == [[3.0, 6.0]]


def test_a_model_that_hangs_while_it_loads(tmp_path, monkeypatch):
    (tmp_path / "moody.py").write_text(LOADER)
    (tmp_path / "factor.txt").write_text("2000")
    monkeypatch.syspath_prepend(tmp_path)

    async def tried():
        pool = Pool(Program(tmp_path, "moody:Moody", loading=1.0), 1, lambda: None, lambda reason: None)
        with pytest.raises(ModelFailed, match="took more than 1 s to load and was stopped"):
            await pool.start()
        return pool.workers[0].is_dead

    assert asyncio.run(tried())


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer a secret of several words", 200),
        (None, 403),
        ("", 403),
        ("Bearer ", 403),
        ("Bearer a secret", 403),
        ("Bearer a secret of several words ", 200),  # HTTP takes spaces at the end of a header away
        ("Bearer \xfc", 403),
        ("Basic a secret of several words", 403),
    ],
)
def test_the_operators_token(moody, header, status):
    headers = {} if header is None else {"Authorization": header}
    code, answer = moody.ask("/admin/models/m", {"action": "canary"}, headers=headers)
    assert code == status, answer
