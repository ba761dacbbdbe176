"""Manifests of a server: what Kubernetes' own schema says of them, and that they agree with the server."""

from __future__ import annotations

import pytest
import yaml

from internals.deploy.serve.__main__ import SERVING, in_a_cluster, parsed, settings_of
from internals.deploy.serve.kubernetes import LINGER, Deployment, manifests

ARGUMENTS = ["--kubernetes", "--image", "registry/models:1", "--workers", "3", "--pad", "time=0", "--grace", "45"]
IMAGE = ["--kubernetes", "--image", "registry/models@sha256:0a1b"]
EVERYTHING = [
    *IMAGE,
    *("--name", "digits-2", "--claim", "disk", "--replicas", "1:1", "--cpu", "500m", "--memory", "512Mi"),
    *(
        "--batch-size",
        "7",
        "--wait-ms",
        "2.5",
        "--linger-ms",
        "3.5",
        "--queue",
        "11",
        "--workers",
        "5",
        "--threads",
        "2",
        "--keep",
        "3",
    ),
    *(
        "--poll",
        "0.25",
        "--deadline",
        "9.5",
        "--largest",
        "12345678",
        "--bodies",
        "23456789",
        "--connections",
        "77",
        "--limit",
        "8",
        "--loading",
        "90",
        "--idle",
        "6",
        "--grace",
        "0.5",
    ),
    *("--pad", "time=-1.5", "--pad", "width=0", "--allow-nan", "--quiet", "--loader", "a.b:c", "--marker", "done"),
]


def made(arguments=ARGUMENTS):
    return {one["kind"]: one for one in yaml.safe_load_all(in_a_cluster(parsed(arguments)))}


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [ARGUMENTS, IMAGE, EVERYTHING], ids=["some", "least", "everything"])
def test_the_schema_of_kubernetes_takes_them(arguments):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for one in made(arguments).values():
        kubernetes_validate.validate(one, "1.30", strict=True)


@pytest.mark.parametrize("arguments", [ARGUMENTS, IMAGE, EVERYTHING], ids=["some", "least", "everything"])
def test_what_runs_is_a_command_line_of_the_server(arguments):
    (container,) = made(arguments)["Deployment"]["spec"]["template"]["spec"]["containers"]
    asked, options = parsed(arguments), parsed(container["command"][3:])
    assert settings_of(options) == settings_of(asked)
    assert (options.grace, options.quiet, options.host) == (asked.grace, asked.quiet, "0.0.0.0")
    assert container["ports"][0]["containerPort"] == options.port


def test_no_setting_of_the_server_is_left_out():
    changed, plain = settings_of(parsed(EVERYTHING)), settings_of(parsed(IMAGE))
    assert [name for name in vars(plain) if getattr(plain, name) == getattr(changed, name)] == []
    assert all(flag in EVERYTHING for flag in SERVING.values())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--batch-size", "0"], "size must be"),
        (["--keep", "0"], "keep must be"),
        (["--pad", "time=much"], "--pad 'time=much': expected SIZE=FILL"),
        (["--replicas", "many"], "--replicas 'many'"),
    ],
)
def test_what_makes_no_sense_is_told_before_a_pod_starts(arguments, said):
    with pytest.raises(ValueError, match=said):
        made([*IMAGE, *arguments])


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


def test_a_server_lingers_for_a_millisecond_unless_it_is_told_otherwise_or_has_several_workers():
    assert settings_of(parsed(["models"])).batcher().linger == 0.001
    assert settings_of(parsed(["models", "--workers", "2"])).batcher().linger == 0
    assert settings_of(parsed(["models", "--workers", "2", "--linger-ms", "3"])).batcher().linger == 0.003
    assert settings_of(parsed(["models", "--linger-ms", "0"])).batcher().linger == 0
    with pytest.raises(ValueError, match="linger must be seconds"):
        settings_of(parsed(["models", "--linger-ms", "-1"]))
