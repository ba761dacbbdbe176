"""Versions of a model: what is loaded, what answers, what goes, without processes or clocks."""

from __future__ import annotations

import numpy as np
import pytest

from internals import ops
from internals.deploy import Signature, TensorSpec, save
from internals.deploy.serve.errors import BadRequest, NotFound, Unavailable
from internals.deploy.serve.registry import Model, models_in, versions_in


def appears(model, *numbers):
    """Versions appear in the directory and load at once."""
    for version in model.found(dict.fromkeys(numbers, "mark")):
        model.loaded(version, runner=f"runner {version.number}")
    return model


@pytest.fixture
def model():
    return appears(Model("m", keep=2), 1)


def test_a_new_version_answers_only_when_it_is_warm_and_the_old_one_until_then(model):
    (two,) = model.found({1: "mark", 2: "mark"})
    assert model.route().number == 1
    with pytest.raises(Unavailable, match="version 2 is loading"):
        model.route(version=2)
    model.loaded(two, "runner")
    assert model.route().number == 2
    assert model.route(version=1).number == 1


def test_the_status_of_a_version_is_told_whatever_its_state(model):
    two, three = model.found({1: "mark", 2: "mark", 3: "mark"})
    model.failed(three, "weights damaged")
    assert [(one["version"], one["state"]) for one in model.status()] == [
        ("3", "END"),
        ("2", "LOADING"),
        ("1", "AVAILABLE"),
    ]
    for number, line in zip((3, 2, 1), model.status(), strict=True):
        assert model.status(number) == [line]
    assert model.status(label="stable") == model.status(1)
    assert model.status(3)[0]["status"] == {"error_code": "UNKNOWN", "error_message": "weights damaged"}
    model.versions[1].users += 1
    model.loaded(two, "runner")
    model.unwanted.add(1)
    model.drain()
    assert model.status(1)[0]["state"] == "UNLOADING"
    with pytest.raises(NotFound, match="there is no version 4; it has 1, 2, 3"):
        model.status(4)
    with pytest.raises(NotFound, match="no version is canary"):
        model.status(label="canary")


def test_a_version_that_fails_never_answers_and_says_why(model):
    (two,) = model.found({1: "mark", 2: "mark"})
    model.failed(two, "weights damaged")
    assert model.route().number == 1
    with pytest.raises(Unavailable, match="weights damaged"):
        model.route(version=2)
    assert model.found({1: "mark", 2: "mark"}) == []  # not again, while it is what it was
    assert [one.number for one in model.found({1: "mark", 2: "another"})] == [2]


def test_what_fails_does_not_push_out_what_serves():
    model = appears(Model("m", keep=1), 1)
    (two,) = model.found({1: "mark", 2: "mark"})
    assert model.drain() == []
    model.failed(two, "broken")
    assert model.drain() == []
    assert model.route().number == 1


def test_an_old_version_is_dropped_after_its_last_user():
    model = appears(Model("m", keep=1), 1)
    one = model.route()
    one.users += 1
    appears(model, 1, 2)
    assert model.drain() == []
    with pytest.raises(NotFound, match="version 1 is not served; served: 2"):
        model.route(version=1)
    assert one.runner == "runner 1"
    one.users -= 1
    assert model.drain() == [one]
    assert list(model.versions) == [2]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_the_canary_gets_its_share_exactly(model, share):
    appears(model, 1, 2)
    model.set_canary(2, share)
    assert model.stable == 1
    came = [model.route().number for _ in range(200)]
    assert came.count(2) == round(200 * share)
    assert model.route(label="canary").number == 2
    assert model.route(label="stable").number == 1


def test_a_request_with_a_key_goes_the_same_way_each_time(model):
    appears(model, 1, 2)
    model.set_canary(2, 0.3)
    ways = {f"user {i}": model.route(key=f"user {i}").number for i in range(1000)}
    assert all(model.route(key=key).number == way for key, way in ways.items())
    assert 230 < list(ways.values()).count(2) < 370


def test_rollback_goes_back_and_stays_there(model):
    appears(model, 1, 2)
    assert model.rollback() == 1
    assert model.route().number == 1
    appears(model, 1, 2, 3)
    assert model.route().number == 1
    model.promote(3)
    assert model.route().number == 3


def test_rollback_needs_an_earlier_version(model):
    with pytest.raises(BadRequest, match="no loaded version to go back to"):
        model.rollback()


@pytest.mark.parametrize("share", [-0.1, 1.1, "0.5", True, float("nan")])
def test_a_share_that_makes_no_sense_is_refused(model, share):
    appears(model, 1, 2)
    with pytest.raises(BadRequest, match="weight must be 0 to 1"):
        model.set_canary(2, share)


def test_the_only_version_is_no_canary(model):
    with pytest.raises(BadRequest, match="the only one"):
        model.set_canary(1, 0.5)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"version": 9}, "version 9 is not served"),
        ({"label": "beta"}, "no label 'beta'"),
        ({"label": "canary"}, "no version is canary"),
    ],
)
def test_what_is_not_there(model, asked, said):
    with pytest.raises(NotFound, match=said):
        model.route(**asked)


def test_nothing_loaded_is_unavailable():
    with pytest.raises(Unavailable, match="no version is ready"):
        Model("m").route()


def test_a_dead_stable_version_gives_way_to_the_one_before(model):
    appears(model, 1, 2)
    model.failed(model.versions[2], "its workers die")
    assert model.route().number == 1


def test_draining_a_whole_model(model):
    one = model.route()
    one.users += 1
    assert model.drain_all() == []
    one.users -= 1
    assert model.drain() == [one]
    with pytest.raises(Unavailable):
        model.route()


def test_directories_without_a_manifest_are_passed_over(tmp_path):
    w = np.random.default_rng(0).normal(size=(3, 2)).astype("f")
    signatures = {"serve": Signature({"x": TensorSpec(("batch", 3))}, ("y",), lambda x: ops.matmul(x, w))}
    save(tmp_path / "m" / "3", lambda x: x, signatures)
    for name in ("4", "x", "-1", "1.5", "٣", "99999999999999999999"):
        (tmp_path / "m" / name).mkdir()
    (tmp_path / "other").mkdir()
    assert list(versions_in(tmp_path / "m")) == [3]
    assert list(models_in(tmp_path)) == ["m"]
    assert list(models_in(tmp_path / "m")) == ["m"]
    assert versions_in(tmp_path / "none") == models_in(tmp_path / "none") == {}


def test_rollback_goes_to_an_older_one_that_was_loaded_after():
    model = Model("m", keep=2)
    one, two = model.found({1: "mark", 2: "mark"})
    model.loaded(two, "runner")
    model.loaded(one, "runner")
    assert model.route().number == 2
    assert model.rollback() == 1
