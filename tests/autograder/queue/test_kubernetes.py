"""Gradings as Jobs: what the manifests promise, and a cluster of one machine that keeps them to it."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
import yaml
from queue_work import LAB, said

from autograder import cli
from autograder.queue import kubernetes
from autograder.queue.executors import jobs
from autograder.queue.executors.once import SIGN, heard, told
from autograder.queue.grading import Fault, Work
from autograder.queue.kubernetes import Cluster, ClusterError, job, pack, secret, standing, to_yaml, unpack

CLUSTER = Cluster("ghcr.io/course/grader:1.2", "lab-grading", "gvisor", worker="hub:grading-worker", limit=300)
KINDS = ["Namespace", "NetworkPolicy", "ServiceAccount", "ResourceQuota", "Role", "RoleBinding", "Job"]


def given(text):
    data = text.encode()
    return Work(7, LAB, "ada", "a.ipynb", said(data).sha256, "official", data)


def everything(cluster=CLUSTER):
    return [*standing(cluster), job(cluster, "grade-7-ab"), secret(cluster, "grade-7-ab", "a-b-c", pack(given("x")))]


def pods(made):
    return [one["spec"]["template"]["spec"] for one in made if one["kind"] == "Job"]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.30", "1.34", "1.37"])
@pytest.mark.parametrize("cluster", [CLUSTER, Cluster("grader")], ids=["full", "least"])
def test_every_object_keeps_to_the_published_schema(cluster, version):
    import kubernetes_validate

    for one in yaml.safe_load_all(to_yaml(everything(cluster))):
        kubernetes_validate.validate(one, version, strict=True)


def test_what_stands_there():
    found = standing(CLUSTER)
    assert [one["kind"] for one in found] == KINDS
    assert {one["metadata"].get("namespace") for one in found[1:]} == {"lab-grading"}
    assert "enforce: restricted" in to_yaml(found)
    assert "&id" not in to_yaml(found)
    assert [one["kind"] for one in standing(Cluster("grader"))] == [*KINDS[:4], "Job"]


def test_no_traffic_in_or_out_of_any_pod():
    [policy] = [one["spec"] for one in standing(CLUSTER) if one["kind"] == "NetworkPolicy"]
    assert policy == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_a_pod_can_do_nothing_but_grade():
    for pod in pods(everything()):
        [container] = pod["containers"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["runtimeClassName"] == "gvisor"
        assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(pod)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] != 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert set(container["resources"]["limits"]) == {"cpu", "memory", "ephemeral-storage"}
        assert container["resources"]["limits"] == container["resources"]["requests"]
        assert not {"envFrom"} & set(container)
        assert all("valueFrom" not in variable for variable in container["env"])
        assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} <= {"emptyDir", "secret"}
        assert all("sizeLimit" in volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume)
    assert all("runtimeClassName" not in pod for pod in pods(everything(Cluster("grader"))))


def test_a_job_ends_and_is_tried_by_the_queue_only():
    spec = job(CLUSTER, "grade-7-ab")["spec"]
    assert (spec["activeDeadlineSeconds"], spec["backoffLimit"]) == (300, 0)
    assert spec["ttlSecondsAfterFinished"] > 0
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_the_worker_may_make_jobs_and_read_no_secret():
    role, binding = (next(one for one in standing(CLUSTER) if one["kind"] == kind) for kind in ("Role", "RoleBinding"))
    allowed = {(what, verb) for rule in role["rules"] for what in rule["resources"] for verb in rule["verbs"]}
    assert ("jobs", "create") in allowed
    assert not {(what, verb) for what, verb in allowed if what == "secrets"} - {("secrets", "create")}
    assert not {what for what, _ in allowed} - {"jobs", "secrets", "pods", "pods/log"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "grading-worker", "namespace": "hub"}]


def test_a_submission_goes_where_its_job_mounts_it_and_ends_with_it():
    work = given('{"cells": "\x00\ud7ff"}')
    made = secret(CLUSTER, "grade-7-ab", "a-b-c", pack(work))
    [owner] = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", "grade-7-ab", "a-b-c")
    import base64

    assert unpack(base64.b64decode(made["data"][kubernetes.FILE])) == work
    [pod] = pods([job(CLUSTER, "grade-7-ab")])
    assert pod["containers"][0]["command"][-1] == f"{kubernetes.PLACE}/{kubernetes.FILE}"
    assert {"name": "submission", "mountPath": kubernetes.PLACE, "readOnly": True} in pod["containers"][0][
        "volumeMounts"
    ]
    [volume] = [one for one in pod["volumes"] if one["name"] == "submission"]
    assert volume["secret"]["secretName"] == made["metadata"]["name"]


@pytest.mark.parametrize(
    ("outcome", "around"),
    [("{}", ""), ('{"a": "\u2028\\n"}', "a warning\n"), (Fault("a\nb", final=True), "x\n"), (Fault("é"), "")],
)
def test_what_a_pod_says_is_heard(outcome, around):
    assert heard(f"{around}{told(outcome)}\n") == outcome


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", "last words: nothing"),
        ("Traceback\nMemoryError\n", "last words: MemoryError"),
        (f"{SIGN}{{", "can't be read"),
        (f"{SIGN}[]", "can't be read"),
        (f"{SIGN}{{}}", "can't be read"),
    ],
)
def test_what_a_pod_does_not_say(log, words):
    assert words in heard(log).words
    assert not heard(log).final


CANNOT_BE_MEANT = [
    ({"image": ""}, "image ''"),
    ({"image": "a b"}, "image 'a b'"),
    ({"namespace": "Grading"}, "namespace 'Grading'"),
    ({"namespace": "x" * 41}, "at most 40"),
    ({"runtime_class": "g visor"}, "runtime_class"),
    ({"cpu": "0"}, "cpu '0'"),
    ({"memory": "lots"}, "memory 'lots'"),
    ({"disk": "0Gi"}, "disk '0Gi'"),
    ({"limit": 0}, "limit 0"),
    ({"most": -1}, "most -1"),
    ({"worker": "hub"}, "worker 'hub'"),
    ({"worker": "a:b:c"}, "worker 'a:b:c'"),
    ({"worker": ":"}, "worker ':'"),
]


@pytest.mark.parametrize(("changed", "words"), CANNOT_BE_MEANT, ids=[words for _, words in CANNOT_BE_MEANT])
def test_a_cluster_that_cannot_be_meant(changed, words):
    with pytest.raises(ClusterError, match=words):
        Cluster(**{"image": "grader"} | changed)


FILES = [
    ("image = 3", r"image is 3; expected a str"),
    ('image = "x"\nlimit = "5"', r"limit is '5'; expected a int"),
    ('image = "x"\nlimit = true', r"limit is True; expected a int"),
    ('image = "x"\nnodes = 3', r"there is no 'nodes'"),
    ("cpu = '1'", r"image is missing"),
    ("image =", r"not TOML"),
    ('image = "x"\nmemory = "big"', r"memory 'big'"),
]


@pytest.mark.parametrize(("text", "words"), FILES, ids=[words for _, words in FILES])
def test_settings_that_are_refused(tmp_path, text, words):
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ClusterError, match=words):
        Cluster.read(tmp_path / "c.toml")


@pytest.mark.slow
def test_the_command_prints_what_stands(capsys, tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text('image = "ghcr.io/course/grader:1.2"\nruntime_class = "gvisor"\nworker = "hub:w"\n')
    assert cli.run(["queue", "manifests", str(path)]) == 0
    out = capsys.readouterr().out
    assert [one["kind"] for one in yaml.safe_load_all(out)] == KINDS
    assert cli.run(["queue", "manifests", str(tmp_path / "none.toml")]) == 2
    assert "none.toml: can't be read: No such file" in capsys.readouterr().err
    assert cli.run(["worker", "--executor", "kubernetes"]) == 2
    assert "Give --cluster FILE.toml" in capsys.readouterr().err


KUBECTL = '''#!{python}
"""A cluster of one machine: a Job's container is a process, which reads its Secret from a folder of its own."""
import base64, json, os, pathlib, subprocess, sys

home = pathlib.Path(os.environ["TEST_CLUSTER"])
words = sys.argv[3:]
assert sys.argv[1:3] == ["--namespace", "lab-grading"], sys.argv
with open(home / "calls", "a") as calls:
    calls.write(" ".join(words[:2]) + "\\n")
if words[0] == "create":
    made = json.load(sys.stdin)
    name = made["metadata"]["name"]
    place = home / name
    if made["kind"] == "Job":
        place.mkdir()
        (place / "job.json").write_text(json.dumps(made))
        print(json.dumps(made | {{"metadata": made["metadata"] | {{"uid": "uid-of-" + name}}}}))
    else:
        assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-of-" + name
        for key, value in made["data"].items():
            (place / key).write_bytes(base64.b64decode(value))
        print("secret/" + name)
elif words[0] == "get":
    place = home / words[2]
    if os.environ.get("TEST_CLUSTER_FAILS"):
        print(json.dumps({{"status": {{"conditions": [
            {{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "active longer"}}]}}}}))
    elif not (place / "work.json.gz").exists() or os.environ.get("TEST_CLUSTER_HANGS"):
        print(json.dumps({{"status": {{}}}}))
    else:
        command = json.loads((place / "job.json").read_text())["spec"]["template"]["spec"]["containers"][0]["command"]
        command = [sys.executable, *[word.replace("/submission", str(place)) for word in command[1:]]]
        (place / "log").write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        print(json.dumps({{"status": {{"conditions": [{{"type": "Complete", "status": "True"}}]}}}}))
elif words[0] == "logs":
    print((home / words[1].removeprefix("job/") / "log").read_text())
elif words[0] == "delete":
    (home / words[2] / "deleted").touch()
else:
    sys.exit("error: unknown command")
'''


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(KUBECTL.format(python=sys.executable))
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{kubectl.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
    monkeypatch.setenv("TEST_CLUSTER", str(tmp_path))
    return tmp_path


def deleted(cluster):
    return [path.parent.name for path in cluster.glob("grade-7-*/deleted")]


@pytest.mark.slow
def test_a_submission_is_graded_in_a_pod(cluster):
    """The real program in the real Job's command, on a notebook of another lab: it needs no oracle."""
    other = json.dumps(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {"autograder": {"lab": "lab01_tensor"}}, "cells": []}
    )
    executor = jobs.Jobs(CLUSTER, slots=2, look=0.01)
    outcome = executor.submit(given(other)).result(60)
    executor.close()
    assert outcome.final
    assert "cannot be graded as that" in outcome.words
    assert len(deleted(cluster)) == 1
    calls = (cluster / "calls").read_text().splitlines()
    assert calls[:2] == ["create -f", "create -f"]
    assert calls[-2:] == ["logs " + "job/" + deleted(cluster)[0], "delete job"]


@pytest.mark.slow
def test_a_job_that_fails_is_named(cluster, monkeypatch):
    monkeypatch.setenv("TEST_CLUSTER_FAILS", "1")
    outcome = jobs.Jobs(CLUSTER, look=0.01).submit(given("x")).result(60)
    assert outcome == Fault("Its Job failed: DeadlineExceeded: active longer")
    assert deleted(cluster)


@pytest.mark.slow
def test_a_grading_that_is_given_up_is_deleted(cluster, monkeypatch):
    monkeypatch.setenv("TEST_CLUSTER_HANGS", "1")
    executor = jobs.Jobs(CLUSTER, look=0.01)
    first, second = (executor.submit(given(text)) for text in "xy")
    end = time.monotonic() + 60
    while "get job" not in (cluster / "calls").read_text() if (cluster / "calls").exists() else True:
        assert time.monotonic() < end
        time.sleep(0.01)
    executor.cancel(first)
    assert first.result(60) == Fault("Its grading was given up.")
    executor.close()
    assert second.done()
    assert len(deleted(cluster)) == 2


@pytest.mark.slow
def test_a_cluster_that_refuses_is_told(cluster):
    (cluster / "bin" / "kubectl").write_text(
        '#!/bin/sh\necho "Error from server (Forbidden): jobs is forbidden" >&2; exit 1\n'
    )
    outcome = jobs.Jobs(CLUSTER, look=0.01).submit(given("x")).result(60)
    words = "Kubernetes did not grade it: kubectl create: Error from server (Forbidden): jobs is forbidden"
    assert outcome == Fault(words)


@pytest.mark.slow
def test_what_fits_into_no_secret_is_refused_for_good(cluster):
    outcome = jobs.Jobs(CLUSTER).submit(given(os.urandom(1_000_000).hex())).result(60)
    assert outcome.final
    assert "Clear the outputs" in outcome.words
    assert not (cluster / "calls").exists()


def test_no_kubectl(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="needs kubectl on the path"):
        jobs.Jobs(CLUSTER)
