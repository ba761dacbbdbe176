"""The manifests of a server for Kubernetes: made, printed, never applied from here.

A Deployment whose pods read their models from a claim; a Service before them; an autoscaler; a budget, so that not all
pods are drained at once. A pod that is to go answers what it has: SIGTERM drains it, while the Service, which hears of
it a moment later, may still send requests; so the pod waits before the signal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Manifest = dict[str, Any]

PORT = 8501
MODELS = "/models"
LINGER = 5
"""Seconds between a pod's end being told to the Service and to the pod."""


@dataclass(frozen=True)
class Deployment:
    """How a server is to stand in a cluster.

    Attributes
    ----------
    name, image, claim : str
        Of every object; a container image with internals; the PersistentVolumeClaim that holds the models.
    least, most : int
        Pods.
    cpu, memory : str
        Kubernetes quantities, of each pod.
    grace : float
        Seconds that a pod has to answer what it has.

    Raises
    ------
    ValueError
        A name or a quantity that Kubernetes would refuse.
    """

    name: str
    image: str
    claim: str = "models"
    least: int = 2
    most: int = 8
    cpu: str = "1"
    memory: str = "2Gi"
    grace: float = 30.0

    def __post_init__(self) -> None:
        for what, name in (("--name", self.name), ("--claim", self.claim)):
            if len(name) > 40 or not re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name):
                raise ValueError(f"{what} {name!r}: expected a-z, 0-9 and -, a letter first, at most 40 characters")
        if not re.fullmatch(r"[a-z0-9][A-Za-z0-9._/:@-]*", self.image):
            raise ValueError(f"--image {self.image!r}: expected registry/name:tag, with internals in it")
        if not 1 <= self.least <= self.most:
            raise ValueError(f"--replicas {self.least}:{self.most}: expected LEAST:MOST, at least 1")
        if not re.fullmatch(r"(\d+(\.\d+)?|\d+m)", self.cpu) or not re.search(r"[1-9]", self.cpu):
            raise ValueError(f"--cpu {self.cpu!r}: expected cores, 2 or 0.5 or 500m")
        if not re.fullmatch(r"[1-9]\d*(\.\d+)?([KMGT]i?)?", self.memory):
            raise ValueError(f"--memory {self.memory!r}: expected bytes, as 512Mi or 2Gi")


def manifests(deployment: Deployment, arguments: Sequence[str] = ()) -> list[Manifest]:
    """What to apply, in this order.

    Parameters
    ----------
    deployment : Deployment
    arguments : sequence of str
        More for the server's command line.
    """
    name = deployment.name
    chosen = {"matchLabels": _labels(deployment)}
    pods = {"selector": chosen, "template": _pod(deployment, arguments), "replicas": deployment.least}
    pods["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    scale = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": deployment.least,
        "maxReplicas": deployment.most,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
            }
        ],
    }
    service = {
        "selector": _labels(deployment),
        "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
    }
    return [
        _object("v1", "Service", deployment, service),
        _object("apps/v1", "Deployment", deployment, pods),
        _object("autoscaling/v2", "HorizontalPodAutoscaler", deployment, scale),
        _object("policy/v1", "PodDisruptionBudget", deployment, {"maxUnavailable": 1, "selector": chosen}),
    ]


def to_yaml(made: Sequence[Manifest]) -> str:
    """The manifests as one YAML stream, which ``kubectl apply -f -`` reads.

    Raises
    ------
    ImportError
        PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError:
        raise ImportError("serve --kubernetes writes YAML: pip install pyyaml") from None

    class Plain(yaml.SafeDumper):
        """No anchors."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    return "".join("---\n" + yaml.dump(one, Dumper=Plain, sort_keys=False, width=100) for one in made)


def _labels(deployment: Deployment) -> dict[str, str]:
    return {"app.kubernetes.io/name": deployment.name, "app.kubernetes.io/part-of": "internals"}


def _object(version: str, kind: str, deployment: Deployment, spec: Manifest) -> Manifest:
    metadata = {"name": deployment.name, "labels": _labels(deployment)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _pod(deployment: Deployment, arguments: Sequence[str]) -> Manifest:
    command = ["python", "-m", "internals.deploy.serve", MODELS, "--host", "0.0.0.0", "--port", str(PORT)]
    share = {"cpu": deployment.cpu, "memory": deployment.memory}
    container = {
        "name": "serve",
        "image": deployment.image,
        "command": [*command, "--grace", f"{deployment.grace:g}", *arguments],
        "env": [{"name": "HOME", "value": "/tmp"}, {"name": "PYTHONUNBUFFERED", "value": "1"}],
        "ports": [{"name": "http", "containerPort": PORT}],
        "startupProbe": {**_probe("/readyz"), "periodSeconds": 2, "failureThreshold": 150},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 2, "failureThreshold": 1},
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(LINGER)]}}},
        "resources": {"requests": share, "limits": share},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "models", "mountPath": MODELS, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
    }
    spec = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": round(deployment.grace) + LINGER + 10,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": _labels(deployment)},
            }
        ],
        "containers": [container],
        "volumes": [
            {"name": "models", "persistentVolumeClaim": {"claimName": deployment.claim, "readOnly": True}},
            {"name": "scratch", "emptyDir": {}},
        ],
    }
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": str(PORT)}
    return {"metadata": {"labels": _labels(deployment), "annotations": annotations}, "spec": spec}


def _probe(path: str) -> Manifest:
    return {"httpGet": {"path": path, "port": "http"}}
