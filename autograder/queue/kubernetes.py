"""Grading as Kubernetes Jobs: what stands in the cluster for it, and the Job and Secret of one submission.

A grading pod reaches nothing: no network, no service account's token, no database. Its submission comes to it as a
Secret that lives as long as its Job, and what it has to say is the last line it prints. The grader's own sandbox works
inside it as it does elsewhere: the pod keeps the grader in, the sandbox keeps a learner's code from the grader.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from autograder.queue.grading import Work

Manifest = dict[str, Any]

LARGEST = 900_000
"""Bytes of a submission, compressed; a Secret takes 1 MiB."""
PLACE = "/submission"
FILE = "work.json.gz"
ACCOUNT = "grader"
KEPT = 600
"""Seconds for which a Job that has ended can be looked at."""
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_SIZE = re.compile(r"[1-9]\d*(\.\d+)?([KMGT]i?)?")


class ClusterError(ValueError):
    """Settings that cannot be meant, in one line."""


@dataclass(frozen=True)
class Cluster:
    """How gradings are to run there.

    Attributes
    ----------
    image : str
        Has Python, this package, its oracles and bubblewrap.
    namespace : str
        Used for nothing else: the policy that denies all traffic is for all of it.
    runtime_class : str
        As ``gvisor``; that of the cluster, if not given.
    cpu, memory, disk : str
        Kubernetes quantities, of each grading.
    limit : int
        Seconds after which a grading is ended.
    most : int
        Pods at a time, as a quota.
    worker : str
        ``namespace:name`` of the service account of the worker that makes the Jobs, which gets the right to.
    """

    image: str
    namespace: str = "grading"
    runtime_class: str = ""
    cpu: str = "1"
    memory: str = "4Gi"
    disk: str = "2Gi"
    limit: int = 900
    most: int = 50
    worker: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][A-Za-z0-9._/:@-]*", self.image):
            raise ClusterError(f"image {self.image!r}: expected registry/name:tag")
        for what, name in (("namespace", self.namespace), ("runtime_class", self.runtime_class or "none")):
            if not _NAME.fullmatch(name):
                raise ClusterError(f"{what} {name!r}: expected a-z, 0-9 and -, a letter first, at most 40 characters")
        if not re.fullmatch(r"(\d+(\.\d+)?|\d+m)", self.cpu) or not re.search(r"[1-9]", self.cpu):
            raise ClusterError(f"cpu {self.cpu!r}: expected cores, as 2 or 0.5 or 500m")
        for what, size in (("memory", self.memory), ("disk", self.disk)):
            if not _SIZE.fullmatch(size):
                raise ClusterError(f"{what} {size!r}: expected bytes, as 512Mi or 4Gi")
        for what, number in (("limit", self.limit), ("most", self.most)):
            if not isinstance(number, int) or number < 1:
                raise ClusterError(f"{what} {number!r}: expected a whole number from 1")
        parts = self.worker.split(":")
        if self.worker and (len(parts) != 2 or not all(map(_NAME.fullmatch, parts))):
            raise ClusterError(f"worker {self.worker!r}: expected namespace:name of a service account")

    @classmethod
    def read(cls, path: Path) -> Cluster:
        """The settings in a TOML file, whose keys are the attributes.

        Raises
        ------
        ClusterError
            It can't be read, or has other keys or values of another kind.
        """
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ClusterError(f"{path}: can't be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ClusterError(f"{path}: not TOML: {error}") from None
        known = {one.name: one.default for one in fields(cls)}
        if unknown := sorted(set(found) - set(known)):
            raise ClusterError(f"{path}: there is no {unknown[0]!r}; there are {', '.join(known)}")
        if "image" not in found:
            raise ClusterError(f"{path}: image is missing; give registry/name:tag")
        for name, value in found.items():
            wanted = str if name == "image" else type(known[name])
            if type(value) is not wanted:
                raise ClusterError(f"{path}: {name} is {value!r}; expected a {wanted.__name__}")
        try:
            return cls(**found)
        except ClusterError as error:
            raise ClusterError(f"{path}: {error}") from None


def standing(cluster: Cluster) -> list[Manifest]:
    """What has to be there before the first grading, in the order in which to apply it.

    A namespace that admits no privileged pod; a policy that lets nothing in or out; an account without rights for the
    graders; the rights of the worker; a quota; and a Job that says what the grader finds in such a pod.
    """
    restricted = {f"pod-security.kubernetes.io/{how}": "restricted" for how in ("enforce", "warn")}
    namespace: Manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": cluster.namespace, "labels": _labels() | restricted},
    }
    # No rules below: nothing is allowed, in either direction, to any pod of the namespace. Not even a name server.
    closed = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    made = [
        namespace,
        _object("networking.k8s.io/v1", "NetworkPolicy", cluster, "nothing-in-nothing-out", spec=closed),
        _object("v1", "ServiceAccount", cluster, ACCOUNT, automountServiceAccountToken=False),
        _object("v1", "ResourceQuota", cluster, "gradings", spec={"hard": {"pods": str(cluster.most)}}),
    ]
    if cluster.worker:
        made += _rights(cluster)
    examine = _pod(cluster, ["python", "-m", "autograder", "doctor"], None)
    made.append(_object("batch/v1", "Job", cluster, "doctor", spec=_job_spec(cluster, examine)))
    return made


def _rights(cluster: Cluster) -> list[Manifest]:
    """What the worker may do, in this namespace only. It can't read a Secret, nor enter a pod."""
    namespace, name = cluster.worker.split(":")
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "delete"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    ]
    group = "rbac.authorization.k8s.io"
    return [
        _object(f"{group}/v1", "Role", cluster, "grading-worker", rules=rules),
        _object(
            f"{group}/v1",
            "RoleBinding",
            cluster,
            "grading-worker",
            roleRef={"apiGroup": group, "kind": "Role", "name": "grading-worker"},
            subjects=[{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        ),
    ]


def job(cluster: Cluster, name: str) -> Manifest:
    """The Job of one grading, whose submission is the Secret of the same name."""
    command = ["python", "-m", "autograder.queue.executors.once", f"{PLACE}/{FILE}"]
    return _object("batch/v1", "Job", cluster, name, spec=_job_spec(cluster, _pod(cluster, command, name)))


def secret(cluster: Cluster, name: str, uid: str, packed: bytes) -> Manifest:
    """The submission, which goes when its Job goes."""
    made = _object("v1", "Secret", cluster, name, type="Opaque", immutable=True)
    made["data"] = {FILE: base64.b64encode(packed).decode()}
    made["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}]
    return made


def pack(work: Work) -> bytes:
    """A submission as the file that the pod reads."""
    plain = asdict(work) | {"data": base64.b64encode(work.data).decode()}
    return gzip.compress(json.dumps(plain).encode(), mtime=0)


def unpack(packed: bytes) -> Work:
    """What `pack` packed."""
    plain = json.loads(gzip.decompress(packed))
    return Work(**plain | {"data": base64.b64decode(plain["data"])})


def to_yaml(made: Sequence[Manifest]) -> str:
    """The manifests as one YAML stream, which ``kubectl apply -f -`` reads."""
    try:
        import yaml
    except ImportError:
        raise ImportError("the manifests are written as YAML: pip install pyyaml") from None

    class Plain(yaml.SafeDumper):
        """Without anchors."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    return "".join("---\n" + yaml.dump(one, Dumper=Plain, sort_keys=False, width=100) for one in made)


def _labels() -> dict[str, str]:
    return {"app.kubernetes.io/name": "grading", "app.kubernetes.io/part-of": "autograder"}


def _object(version: str, kind: str, cluster: Cluster, name: str, **rest: Any) -> Manifest:
    metadata = {"name": name, "namespace": cluster.namespace, "labels": _labels()}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def _job_spec(cluster: Cluster, pod: Manifest) -> Manifest:
    drained = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {
        "backoffLimit": 0,  # the queue tries again, and knows how often it did
        "activeDeadlineSeconds": cluster.limit,
        "ttlSecondsAfterFinished": KEPT,
        "podFailurePolicy": {"rules": [drained]},
        "template": pod,
    }


def _pod(cluster: Cluster, command: list[str], submission: str | None) -> Manifest:
    mounts: list[Manifest] = [
        {"name": "scratch", "mountPath": "/tmp"},
        {"name": "shared-memory", "mountPath": "/dev/shm"},
    ]
    volumes: list[Manifest] = [
        {"name": "scratch", "emptyDir": {"sizeLimit": cluster.disk}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}},
    ]
    if submission is not None:
        mounts.append({"name": "submission", "mountPath": PLACE, "readOnly": True})
        volumes.append({"name": "submission", "secret": {"secretName": submission, "defaultMode": 0o440}})
    share = {"cpu": cluster.cpu, "memory": cluster.memory, "ephemeral-storage": cluster.disk}
    container = {
        "name": "grader",
        "image": cluster.image,
        "command": command,
        "env": [
            {"name": "HOME", "value": "/tmp"},
            {"name": "AUTOGRADER_HOME", "value": "/tmp/home"},
            {"name": "AUTOGRADER_RUNTIME_DIR", "value": "/tmp/run"},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
        ],
        "resources": {"requests": share, "limits": share},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": mounts,
    }
    spec: Manifest = {
        "restartPolicy": "Never",
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    }
    if cluster.runtime_class:
        spec["runtimeClassName"] = cluster.runtime_class
    return {"metadata": {"labels": _labels()}, "spec": spec}
