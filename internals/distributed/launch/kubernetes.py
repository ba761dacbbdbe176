"""The manifests of a job for Kubernetes: made, printed, never applied from here.

Two kinds. All-reduce: an Indexed Job, whose pods are the ranks, and a headless Service that gives each a name.
Parameter server: a StatefulSet of servers, each with a volume for its checkpoints, beside the Job of trainers.
What a process is told is what the local launcher tells it: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; ROLE, SERVERS.
The servers do not end by themselves: when the Job is complete, ``kubectl delete`` what was applied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from internals.distributed.launch.job import SECRET, Job

Manifest = dict[str, Any]

PORT, SERVER_PORT = 29500, 29501
LARGEST = 900_000
"""Bytes of a script that travels in a ConfigMap, which holds 1 MiB."""
SCRIPTS = "/job"
CHECKPOINTS = "/checkpoints"
LONGEST_NAME = 40
"""Characters, so that what the controllers append fits into 63."""


@dataclass(frozen=True)
class Cluster:
    """How a job is to stand in a cluster.

    Attributes
    ----------
    name : str
        Of the job; every object's name begins with it.
    image : str
        A container image that has Python, internals and what the script needs.
    kind : {"all-reduce", "parameter-server"}
    namespace : str or None
    cpu, memory, storage : str
        Kubernetes quantities: of each process, and of each server's volume.
    """

    name: str
    image: str
    kind: str = "all-reduce"
    namespace: str | None = None
    cpu: str = "1"
    memory: str = "2Gi"
    storage: str = "10Gi"

    def __post_init__(self) -> None:
        for what, name in (("--name", self.name), ("--namespace", self.namespace)):
            if name is not None and not (
                len(name) <= LONGEST_NAME and re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name)
            ):
                raise ValueError(
                    f"{what} {name!r}: expected a-z, 0-9 and -, a letter first, at most {LONGEST_NAME} characters"
                )
        if not self.image:
            raise ValueError("--kubernetes: give --image, a container image with internals and its requirements")
        if not re.fullmatch(r"[a-z0-9][A-Za-z0-9._/:@-]*", self.image):
            raise ValueError(f"--image {self.image!r}: expected registry/name:tag")
        if not re.fullmatch(r"(\d+(\.\d+)?|\d+m)", self.cpu) or not re.search(r"[1-9]", self.cpu):
            raise ValueError(f"--cpu {self.cpu!r}: expected cores, 2 or 0.5 or 500m")
        for what, size in (("--memory", self.memory), ("--storage", self.storage)):
            if not re.fullmatch(r"[1-9]\d*(\.\d+)?([KMGT]i?)?", size):
                raise ValueError(f"{what} {size!r}: expected bytes, as 512Mi or 2Gi")


def manifests(cluster: Cluster, job: Job, command: Sequence[str]) -> list[Manifest]:
    """What to apply, in this order.

    Parameters
    ----------
    cluster : Cluster
    job : Job
        Its `processes`, `servers`, `restarts`, `grace` and `secret` count; each process is a pod.
    command : sequence of str
        What each container runs. A script that is a file here is put into the ConfigMap; another is looked for in the
        image.
    """
    script, command = _script(command)
    shared = {
        "WORLD_SIZE": str(job.processes),
        "MASTER_ADDR": f"{cluster.name}-0.{cluster.name}",
        "MASTER_PORT": str(job.master_port or PORT),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "PYTHONUNBUFFERED": "1",
        "HOME": "/tmp",
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(_threads(cluster.cpu))),
    }
    if job.servers:
        servers = f"{cluster.name}-servers"
        names = [f"{servers}-{number}.{servers}:{SERVER_PORT}" for number in range(job.servers)]
        shared.update(SERVERS=",".join(names), TRAINERS=str(job.processes))
    made = [
        _object("v1", "Secret", cluster, cluster.name, type="Opaque", stringData={SECRET: job.secret}),
        _object("v1", "ConfigMap", cluster, cluster.name, data=shared),
    ]
    if script is not None:
        made.append(
            _object("v1", "ConfigMap", cluster, f"{cluster.name}-script", data={script.name: script.read_text()})
        )
    made.append(_only_each_other(cluster))
    if job.servers:
        made += [_service(cluster, "server", SERVER_PORT), _servers(cluster, job, command, script is not None)]
    made += [_service(cluster, _role(job), PORT), _ranks(cluster, job, command, script is not None)]
    return made


def to_yaml(made: Sequence[Manifest]) -> str:
    """The manifests as one YAML stream, which ``kubectl apply -f -`` reads."""
    try:
        import yaml
    except ImportError:
        raise ImportError("launch --kubernetes writes YAML: pip install pyyaml") from None

    class Blocks(yaml.SafeDumper):
        """Texts of several lines as they are, and no anchors."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def as_text(dumper: Any, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Blocks.add_representer(str, as_text)
    return "".join("---\n" + yaml.dump(one, Dumper=Blocks, sort_keys=False, width=100) for one in made)


def _role(job: Job) -> str:
    return "trainer" if job.servers else "rank"


def _object(version: str, kind: str, cluster: Cluster, name: str, **rest: Any) -> Manifest:
    metadata: Manifest = {"name": name, "labels": _labels(cluster)}
    if cluster.namespace:
        metadata["namespace"] = cluster.namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def _labels(cluster: Cluster, role: str | None = None) -> dict[str, str]:
    labels = {"app.kubernetes.io/name": cluster.name, "app.kubernetes.io/part-of": "internals"}
    return labels | ({"app.kubernetes.io/component": role} if role else {})


def _service(cluster: Cluster, role: str, port: int) -> Manifest:
    """Headless: a name for each pod, no address of its own; before a pod is ready too, since pods wait for others."""
    name = f"{cluster.name}-servers" if role == "server" else cluster.name
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": _labels(cluster, role),
        "ports": [{"name": "messages", "port": port, "targetPort": port, "protocol": "TCP"}],
    }
    return _object("v1", "Service", cluster, name, spec=spec)


def _only_each_other(cluster: Cluster) -> Manifest:
    """Pods of other jobs reach none of this one's, on any port: ranks meet on ports that they choose."""
    spec = {
        "podSelector": {"matchLabels": _labels(cluster)},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": _labels(cluster)}}]}],
    }
    return _object("networking.k8s.io/v1", "NetworkPolicy", cluster, cluster.name, spec=spec)


def _ranks(cluster: Cluster, job: Job, command: Sequence[str], mounted: bool) -> Manifest:
    role = _role(job)
    number = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    pod = _pod(cluster, job, role, number, command, mounted)
    pod["spec"]["restartPolicy"] = "Never"
    pod["spec"]["subdomain"] = cluster.name
    spec = {
        "completions": job.processes,
        "parallelism": job.processes,
        "completionMode": "Indexed",
        # A rank that fails takes the others along: one failure of the job is one failure of each rank.
        "backoffLimit": job.restarts * job.processes,
        "podFailurePolicy": {
            # A node that is drained is no failure of the program.
            "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        },
        "podReplacementPolicy": "Failed",
        "ttlSecondsAfterFinished": 86400,
        "template": pod,
    }
    return _object("batch/v1", "Job", cluster, cluster.name, spec=spec)


def _servers(cluster: Cluster, job: Job, command: Sequence[str], mounted: bool) -> Manifest:
    name = f"{cluster.name}-servers"
    pod = _pod(cluster, job, "server", "metadata.labels['apps.kubernetes.io/pod-index']", command, mounted)
    (container,) = pod["spec"]["containers"]
    listening = {"tcpSocket": {"port": SERVER_PORT}}
    container["ports"] = [{"name": "messages", "containerPort": SERVER_PORT}]
    container["startupProbe"] = {**listening, "periodSeconds": 2, "failureThreshold": 150}
    container["readinessProbe"] = {**listening, "periodSeconds": 5}
    container["livenessProbe"] = {**listening, "periodSeconds": 10, "failureThreshold": 6}
    container["volumeMounts"].append({"name": "checkpoints", "mountPath": CHECKPOINTS})
    container["env"] += [
        {"name": "WORLD_SIZE", "value": str(job.servers)},
        {"name": "CHECKPOINTS", "value": CHECKPOINTS},
    ]
    claim = {
        "metadata": {"name": "checkpoints"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": cluster.storage}}},
    }
    spec = {
        "replicas": job.servers,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": _labels(cluster, "server")},
        "template": pod,
        "volumeClaimTemplates": [claim],
    }
    return _object("apps/v1", "StatefulSet", cluster, name, spec=spec)


def _pod(cluster: Cluster, job: Job, role: str, number: str, command: Sequence[str], mounted: bool) -> Manifest:
    mounts = [{"name": "scratch", "mountPath": "/tmp"}, {"name": "shared-memory", "mountPath": "/dev/shm"}]
    volumes: list[Manifest] = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
    ]
    if mounted:
        mounts.append({"name": "script", "mountPath": SCRIPTS, "readOnly": True})  # type: ignore[dict-item]
        volumes.append({"name": "script", "configMap": {"name": f"{cluster.name}-script"}})
    roles = [{"name": "ROLE", "value": role}] if job.servers else []
    own = {"valueFrom": {"fieldRef": {"fieldPath": number}}}
    share = {"cpu": cluster.cpu, "memory": cluster.memory}
    container = {
        "name": role,
        "image": cluster.image,
        "command": list(command),
        "env": [{"name": "RANK", **own}, {"name": "GROUP_RANK", **own}, *roles],
        "envFrom": [{"configMapRef": {"name": cluster.name}}, {"secretRef": {"name": cluster.name}}],
        "resources": {"requests": share, "limits": share},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": mounts,
    }
    if role != "server":
        port = job.master_port or PORT
        container["ports"] = [{"name": "messages", "containerPort": port}]
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _labels(cluster, role)},
    }
    spec = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": max(1, round(job.grace)),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [spread],
        "containers": [container],
        "volumes": volumes,
    }
    return {"metadata": {"labels": _labels(cluster, role)}, "spec": spec}


def _script(command: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The script that travels along, if it is a file here, and the command as it reads in the container."""
    place = next((i for i, part in enumerate(command) if i and part != "-m"), None)
    if place is None or "-m" in command[:place]:
        return None, list(command)
    path = Path(command[place])
    if not path.is_file():
        return None, list(command)
    size = path.stat().st_size
    if size > LARGEST:
        raise ValueError(f"the script {path} has {size} bytes, a ConfigMap takes {LARGEST}; put it into the image")
    if not re.fullmatch(r"[-._a-zA-Z0-9]+", path.name):
        raise ValueError(f"the script's name {path.name!r} can't be a ConfigMap's key: a-z, A-Z, 0-9, -, _ and . can")
    try:
        compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{path} is not Python: {error}") from None
    return path, [*command[:place], f"{SCRIPTS}/{path.name}", *command[place + 1 :]]


def _threads(cpu: str) -> int:
    cores = float(cpu[:-1]) / 1000 if cpu.endswith("m") else float(cpu)
    return max(1, int(cores))


def environment_of(made: Sequence[Manifest], kind: str, number: int) -> dict[str, str]:
    """What the process in pod `number` of a Job or a StatefulSet finds in its environment, as the kubelet sets it.

    Parameters
    ----------
    kind : {"Job", "StatefulSet"}
    """
    (workload,) = (one for one in made if one["kind"] == kind)
    sources = {(one["kind"], one["metadata"]["name"]): one for one in made}
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    found: dict[str, str] = {}
    for source in container["envFrom"]:
        for reference, of in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if reference in source:
                held: Mapping[str, Any] = sources[of, source[reference]["name"]]
                found.update(held.get("data") or held.get("stringData") or {})
    for variable in container["env"]:
        found[variable["name"]] = variable.get("value", str(number))
    return found
