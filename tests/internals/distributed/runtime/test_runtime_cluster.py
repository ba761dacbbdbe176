"""Names of devices and tasks."""

from __future__ import annotations

from typing import Any

import pytest

from internals.device import DeviceError
from internals.distributed.errors import MismatchError
from internals.distributed.runtime.cluster import Asked, ClusterSpec, Place, parse

SPEC = ClusterSpec({"worker": ["tcp://a:1", "tcp://b:1"], "ps": ["tcp://c:1"]})


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("/job:worker/task:1/sim:0", Asked("worker", 1, "sim:0")),
        ("/job:worker/task:1/device:SIM:2", Asked("worker", 1, "sim:2")),
        ("/job:ps/task:0/cpu:0", Asked("ps", 0, "cpu")),
        ("/job:ps", Asked("ps", None, None)),
        ("/task:3", Asked(None, 3, None)),
        ("/job:chief-1/cpu", Asked("chief-1", None, "cpu")),
        ("sim:1", Asked(None, None, "sim:1")),
        ("/sim", Asked(None, None, "sim:0")),
        ("/CPU:0", Asked(None, None, "cpu")),
        ("cuda:10", Asked(None, None, "cuda:10")),
    ],
)
def test_a_device_name(name: str, asked: Asked) -> None:
    assert parse(name) == asked


@pytest.mark.parametrize(
    "name",
    ["", "/", "job:worker", "/job:", "/job:1", "/task:x", "/task:-1", "/job:a/job:b", "sim:0/sim:1", "tpu:0", "/job:a/",
     None, 3],
)  # fmt: skip
def test_no_device_name(name: Any) -> None:
    with pytest.raises(DeviceError, match="is no device name"):
        parse(name)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (None, Place("worker", 1, "sim:3")),
        ("sim:0", Place("worker", 1, "sim:0")),
        ("/job:ps", Place("ps", 0, "cpu")),
        ("/task:0", Place("worker", 0, "cpu")),
        ("/job:worker/task:1", Place("worker", 1, "cpu")),
    ],
)
def test_what_a_name_leaves_open(name: str | None, place: Place) -> None:
    assert SPEC.place(name, Place("worker", 1, "sim:3")) == place
    assert SPEC.place(str(place), Place("ps", 0)) == place, "a full name means itself"


@pytest.mark.parametrize(
    ("jobs", "error", "told"),
    [
        ({}, ValueError, "expected a dict"),
        (["tcp://a:1"], ValueError, "expected a dict"),
        ({"worker": []}, ValueError, "needs a list of addresses"),
        ({"worker": "tcp://a:1"}, ValueError, "needs a list of addresses"),
        ({"1": ["tcp://a:1"]}, ValueError, "a job is called by"),
        ({"a b": ["tcp://a:1"]}, ValueError, "a job is called by"),
        ({"worker": [3]}, TypeError, "address of worker:0 must be a string"),
        ({"worker": ["tcp://a:1"], "ps": ["tcp://a:1"]}, ValueError, "worker:0 and ps:0 have the same address"),
    ],
)
def test_no_cluster(jobs: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        ClusterSpec(jobs)


def test_clusters_that_differ() -> None:
    same = ClusterSpec({"ps": ["tcp://c:1"], "worker": ["tcp://a:1", "tcp://b:1"]})
    SPEC.check_same(same, "worker:0", "ps:0")
    assert same == SPEC
    other = ClusterSpec({"worker": ["tcp://a:1"], "ps": ["tcp://c:1"]})
    with pytest.raises(MismatchError, match=r"worker:0 and ps:0 .*job 'worker'"):
        SPEC.check_same(other, "worker:0", "ps:0")
    with pytest.raises(MismatchError, match="absent for ps:0"):
        SPEC.check_same(ClusterSpec({"worker": ["tcp://a:1", "tcp://b:1"]}), "worker:0", "ps:0")
