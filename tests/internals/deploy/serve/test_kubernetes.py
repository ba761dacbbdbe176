"""Manifests of a server: what Kubernetes' own schema says of them, and that they agree with the server."""

from __future__ import annotations

import pytest
import yaml

from internals.deploy.serve.__main__ import in_a_cluster, parsed
from internals.deploy.serve.kubernetes import LINGER, Deployment, manifests

ARGUMENTS = ["--kubernetes", "--image", "registry/models:1", "--workers", "3", "--pad", "time=0", "--grace", "45"]


def made():
    return {one["kind"]: one for one in yaml.safe_load_all(in_a_cluster(parsed(ARGUMENTS)))}


@pytest.mark.slow
def test_the_schema_of_kubernetes_takes_them():
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for one in made().values():
        kubernetes_validate.validate(one, "1.30", strict=True)


def test_what_runs_is_a_command_line_of_the_server():
    (container,) = made()["Deployment"]["spec"]["template"]["spec"]["containers"]
    options = parsed(container["command"][3:])
    assert (options.workers, options.pad, options.grace, options.host) == (3, ["time=0"], 45.0, "0.0.0.0")
    assert container["ports"][0]["containerPort"] == options.port


def test_selectors_find_the_pods_and_a_pod_has_time_to_drain():
    found = made()
    pod = found["Deployment"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"] == labels
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert pod["spec"]["terminationGracePeriodSeconds"] > 45 + LINGER
    assert found["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == found["Deployment"]["metadata"]["name"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"name": "No"}, "--name 'No'"),
        ({"image": ""}, "--image ''"),
        ({"claim": "a/b"}, "--claim 'a/b'"),
        ({"least": 0}, "--replicas 0:8"),
        ({"least": 9}, "--replicas 9:8"),
        ({"cpu": "0"}, "--cpu '0'"),
        ({"memory": "much"}, "--memory 'much'"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_here(setting, said):
    with pytest.raises(ValueError, match=said):
        manifests(Deployment(**{"name": "m", "image": "i:1", **setting}))
