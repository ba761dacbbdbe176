"""The manifests: valid by the published schemas, consistent with one another and with what a process reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from internals.distributed.launch import main
from internals.distributed.launch.job import SECRET, Job
from internals.distributed.launch.kubernetes import Cluster, environment_of, manifests, to_yaml

KINDS = {
    "all-reduce": ["Secret", "ConfigMap", "ConfigMap", "NetworkPolicy", "Service", "Job"],
    "parameter-server": [
        "Secret", "ConfigMap", "ConfigMap", "NetworkPolicy", "Service", "StatefulSet", "Service", "Job",
    ],
}  # fmt: skip
SERVERS = {"all-reduce": 0, "parameter-server": 2}


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text("import sys\n\nprint(sys.argv)\n")
    return str(path)


def made(kind: str, script: str, **changed: Any) -> list[dict[str, Any]]:
    job = Job(("unused",), 3, servers=SERVERS[kind], restarts=2, grace=7.0)
    settings = {"name": "digits", "image": "registry.example/internals:1.0", "kind": kind, "namespace": "course"}
    return manifests(Cluster(**{**settings, **changed}), job, ["python", script, "--lr", "0.1"])


def only(found: list[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    (one,) = (one for one in found if one["kind"] == kind and name in (None, one["metadata"]["name"]))
    return one


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.30", "1.34", "1.37"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_object_keeps_to_the_published_schema(kind: str, version: str, script: str) -> None:
    import kubernetes_validate

    for one in yaml.safe_load_all(to_yaml(made(kind, script))):
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.slow
def test_the_schema_would_notice(script: str) -> None:
    import kubernetes_validate

    job = only(made("all-reduce", script), "Job")
    job["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, "1.34", strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_the_stream_holds_what_was_made(kind: str, script: str) -> None:
    found = made(kind, script)
    assert [one["kind"] for one in found] == KINDS[kind]
    assert list(yaml.safe_load_all(to_yaml(found))) == found
    assert "  train.py: |\n    import sys\n" in to_yaml(found)
    assert "&id" not in to_yaml(found)
    assert {one["metadata"]["namespace"] for one in found} == {"course"}


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_ports_lead_to_pods(kind: str, script: str) -> None:
    """A pod's name is hostname.subdomain; the service of that name must select it, and the port be a container's."""
    found = made(kind, script)
    job, told = only(found, "Job"), environment_of(found, "Job", 0)
    host, service = told["MASTER_ADDR"].split(".")
    assert host == f"{job['metadata']['name']}-0"
    assert service == job["spec"]["template"]["spec"]["subdomain"]
    reaches(only(found, "Service", service), job, int(told["MASTER_PORT"]))
    if kind == "parameter-server":
        servers = only(found, "StatefulSet")
        addresses = told["SERVERS"].split(",")
        assert len(addresses) == servers["spec"]["replicas"] == 2
        for number, address in enumerate(addresses):
            name, port = address.split(":")
            host, service = name.split(".")
            assert host == f"{servers['metadata']['name']}-{number}"
            assert service == servers["spec"]["serviceName"]
            reaches(only(found, "Service", service), servers, int(port))


def reaches(service: dict[str, Any], workload: dict[str, Any], port: int) -> None:
    template = workload["spec"]["template"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert [one["port"] for one in service["spec"]["ports"]] == [port]
    (container,) = template["spec"]["containers"]
    assert [one["containerPort"] for one in container["ports"]] == [port]


def test_services_do_not_mix_roles(script: str) -> None:
    found = made("parameter-server", script)
    servers, trainers = only(found, "Service", "digits-servers"), only(found, "Service", "digits")
    labels = only(found, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert not trainers["spec"]["selector"].items() <= labels.items()
    assert servers["spec"]["selector"].items() <= labels.items()
    assert only(found, "StatefulSet")["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_is_told_what_join_reads(kind: str, script: str) -> None:
    found = made(kind, script)
    job = only(found, "Job")
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 3
    assert job["spec"]["completionMode"] == "Indexed"
    secrets = set()
    for number in range(3):
        told = environment_of(found, "Job", number)
        assert (told["RANK"], told["WORLD_SIZE"]) == (str(number), "3")
        assert (told["LOCAL_RANK"], told["LOCAL_WORLD_SIZE"]) == ("0", "1")
        assert told.get("ROLE") == ("trainer" if kind == "parameter-server" else None)
        secrets.add(told[SECRET])
    if kind == "parameter-server":
        for number in range(2):
            told = environment_of(found, "StatefulSet", number)
            assert (told["ROLE"], told["RANK"], told["WORLD_SIZE"]) == ("server", str(number), "2")
            assert told["TRAINERS"] == "3"
            secrets.add(told[SECRET])
    assert len(secrets) == 1


def test_ranks_come_from_where_the_controllers_write_them(script: str) -> None:
    found = made("parameter-server", script)
    paths = {
        "Job": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
        "StatefulSet": "metadata.labels['apps.kubernetes.io/pod-index']",
    }
    for kind, path in paths.items():
        (container,) = only(found, kind)["spec"]["template"]["spec"]["containers"]
        (rank,) = (one for one in container["env"] if one["name"] == "RANK")
        assert rank["valueFrom"]["fieldRef"]["fieldPath"] == path


@pytest.mark.parametrize("kind", KINDS)
def test_pods_have_limits_and_no_rights(kind: str, script: str) -> None:
    for workload in (one for one in made(kind, script, cpu="2500m", memory="3Gi") if "template" in one.get("spec", {})):
        pod = workload["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert (
            container["resources"]["limits"] == container["resources"]["requests"] == {"cpu": "2500m", "memory": "3Gi"}
        )
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert pod["terminationGracePeriodSeconds"] == 7
        written = {one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")}
        assert {"/tmp", "/dev/shm"} <= written
        names = {one["name"] for one in container["volumeMounts"]} - {"checkpoints"}
        assert names == {one["name"] for one in pod["volumes"]}
    assert environment_of(made(kind, script, cpu="2500m"), "Job", 0)["OMP_NUM_THREADS"] == "2"


def test_servers_are_probed_and_keep_their_checkpoints(script: str) -> None:
    servers = only(made("parameter-server", script, storage="50Gi"), "StatefulSet")["spec"]
    (container,) = servers["template"]["spec"]["containers"]
    (port,) = (one["containerPort"] for one in container["ports"])
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["tcpSocket"] == {"port": port}
    (claim,) = servers["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"] == {"storage": "50Gi"}
    assert claim["metadata"]["name"] in {one["name"] for one in container["volumeMounts"]}
    (where,) = (one["value"] for one in container["env"] if one["name"] == "CHECKPOINTS")
    assert where in {one["mountPath"] for one in container["volumeMounts"]}


def test_the_script_travels_along_or_is_in_the_image(script: str) -> None:
    for name, command, held in ((script, "/job/train.py", True), ("/app/train.py", "/app/train.py", False)):
        found = made("all-reduce", name)
        (container,) = only(found, "Job")["spec"]["template"]["spec"]["containers"]
        assert container["command"] == ["python", command, "--lr", "0.1"]
        assert ("/job" in {one["mountPath"] for one in container["volumeMounts"]}) is held
        assert ("digits-script" in {one["metadata"]["name"] for one in found}) is held
    assert only(made("all-reduce", script), "ConfigMap", "digits-script")["data"] == {
        "train.py": Path(script).read_text()
    }


BAD = {
    "no image": ({"image": None}, "give --image"),
    "an image with a space": ({"image": "a b"}, "--image 'a b'"),
    "capitals in the name": ({"name": "Digits"}, "--name 'Digits'"),
    "a long name": ({"name": "d" * 41}, "at most 40 characters"),
    "a name that begins with a digit": ({"name": "1st"}, "a letter first"),
    "a namespace with a dot": ({"namespace": "a.b"}, "--namespace 'a.b'"),
    "cores that are none": ({"cpu": "many"}, "--cpu 'many'"),
    "no cores": ({"cpu": "0"}, "--cpu '0'"),
    "memory without a number": ({"memory": "Gi"}, "--memory 'Gi'"),
    "less than no storage": ({"storage": "-1Gi"}, "--storage '-1Gi'"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_a_cluster_would_refuse_is_refused_here(case: str, script: str) -> None:
    changed, told = BAD[case]
    with pytest.raises(ValueError, match=".*") as raised:
        made("all-reduce", script, **changed)
    assert told in str(raised.value)


def test_a_script_too_large_for_a_config_map_is_named(tmp_path: Path) -> None:
    path = tmp_path / "large.py"
    path.write_text("#" * 1_000_000)
    with pytest.raises(ValueError, match="put it into the image"):
        made("all-reduce", str(path))


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_prints_them(kind: str, script: str, capsys: pytest.CaptureFixture[str]) -> None:
    servers = ["--servers", "2"] if kind == "parameter-server" else []
    arguments = [
        "-n",
        "5",
        *servers,
        "--kubernetes",
        "--kind",
        kind,
        "--image",
        "i:1",
        "--name",
        "run",
        script,
        "--lr",
        "1",
    ]
    assert main(arguments) == 0
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [one["kind"] for one in found] == KINDS[kind]
    assert only(found, "Job")["spec"]["completions"] == 5
    (container,) = only(found, "Job")["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "/job/train.py", "--lr", "1"]
