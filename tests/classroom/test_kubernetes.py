"""What is written for a cluster: valid to Kubernetes, without root, without secrets, and in step with the hub here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from traitlets.config.loader import PyFileConfigLoader

from classroom.places import NAME

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "classroom" / "kubernetes"
IMAGES = sorted((ROOT / "classroom" / "images").glob("Dockerfile.*"))
OBJECTS = list(yaml.safe_load_all((FOLDER / "grading.yaml").read_text()))
VALUES: dict[str, Any] = yaml.safe_load((FOLDER / "values.yaml").read_text())
DEPLOYMENT = next(one for one in OBJECTS if one["kind"] == "Deployment")
POD = DEPLOYMENT["spec"]["template"]["spec"]


@pytest.mark.parametrize("one", OBJECTS, ids=lambda one: one["kind"])
def test_kubernetes_takes_the_object(one: dict[str, Any]) -> None:
    kubernetes_validate.validate(one, "1.31", strict=True)


def test_the_grading_service_has_no_rights_it_does_not_need() -> None:
    assert POD["automountServiceAccountToken"] is False
    assert POD["securityContext"]["runAsNonRoot"] is True
    for container in POD["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"]["drop"] == ["ALL"]
        assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    policy = next(one for one in OBJECTS if one["kind"] == "NetworkPolicy")
    assert set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    assert policy["spec"]["podSelector"]["matchLabels"] == DEPLOYMENT["spec"]["selector"]["matchLabels"]


def test_no_secret_stands_in_a_file() -> None:
    for container in POD["containers"]:
        for variable in container["env"]:
            hidden = re.search("TOKEN|SECRET|PASSWORD|GRADEBOOK", variable["name"])
            assert ("valueFrom" in variable) == bool(hidden), variable["name"]
    for name, value in VALUES["hub"]["extraEnv"].items():
        assert "secretKeyRef" in value["valueFrom"], name
    assert not re.search(r"[0-9a-f]{32}", (FOLDER / "values.yaml").read_text())


def test_the_values_are_those_of_the_hub_on_one_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLASSROOM_STATE", str(tmp_path))
    here = PyFileConfigLoader("jupyterhub_config.py", str(ROOT / "classroom")).load_config()
    assert VALUES["hub"]["config"]["Authenticator"]["username_pattern"] == NAME.pattern
    roles = {role["name"]: role["scopes"] for role in here.JupyterHub.load_roles}
    assert {name: role["scopes"] for name, role in VALUES["hub"]["loadRoles"].items()} == roles
    for scope in here.Spawner.server_token_scopes:
        assert f'"{scope}"' in VALUES["hub"]["extraConfig"]["class"]
    assert VALUES["singleuser"]["cmd"] == ["python", *here.Spawner.cmd[1:]]
    compile(VALUES["hub"]["extraConfig"]["class"], "extraConfig", "exec")


def test_people_s_servers_reach_the_hub_and_the_service_only() -> None:
    policy = VALUES["singleuser"]["networkPolicy"]
    assert policy["enabled"] is True
    assert policy["egressAllowRules"]["nonPrivateIPs"] is False
    assert policy["egressAllowRules"]["privateIPs"] is False
    assert policy["egressAllowRules"]["cloudMetadataServer"] is False
    assert [to["podSelector"]["matchLabels"] for one in policy["egress"] for to in one["to"]] == [{"app": "grading"}]
    assert VALUES["singleuser"]["allowPrivilegeEscalation"] is False


def instructions(file: Path) -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", file.read_text())
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


@pytest.mark.parametrize("file", IMAGES, ids=lambda file: file.name)
def test_an_image_is_pinned_not_root_and_copies_what_exists(file: Path) -> None:
    steps = instructions(file)
    known = {"FROM", "ARG", "RUN", "COPY", "WORKDIR", "USER", "ENV", "CMD", "ENTRYPOINT", "EXPOSE"}
    assert {name for name, _ in steps} <= known
    assert steps[0][0] == "FROM"
    assert re.fullmatch(r"\S+:\d+\.\d+\.\d+\S*", steps[0][1]), "pin the base image to a release"
    users = [value for name, value in steps if name == "USER"]
    assert users[-1] == "1000"
    for _, value in [step for step in steps if step[0] == "COPY"]:
        for source in value.split()[:-1]:
            assert list(ROOT.glob(source)), f"{source} is not in the checkout"
    assert not any(name == "ADD" or "curl" in value or "| sh" in value for name, value in steps)


def test_all_images_have_the_jupyterhub_of_the_chart() -> None:
    """A server or a service of another version than the hub may loop at its log-in."""
    values = (FOLDER / "values.yaml").read_text()
    chart, hub = re.findall(r"--version (\S+)|whose hub is JupyterHub (\d+\.\d+)\)", values)
    (image,) = [value for step, value in instructions(ROOT / "classroom/images/Dockerfile.hub") if step == "FROM"]
    assert image == f"quay.io/jupyterhub/k8s-hub:{hub[0]}"
    locked = (ROOT / "requirements.lock").read_text()
    for name in ("user", "grader"):
        steps = instructions(ROOT / "classroom" / "images" / f"Dockerfile.{name}")
        (pinned,) = [value.removeprefix("JUPYTERHUB=") for step, value in steps if step == "ARG"]
        assert pinned.startswith(f"{chart[1]}.")
        (installs,) = [value for step, value in steps if "pip install" in value]
        script = installs.split("&&")[0].split(">")[0].replace("requirements.lock", "")
        pattern, other = re.findall(r"s/([^/]+)/([^/]+)/", script)[0]
        made = re.sub(pattern, other.replace("${JUPYTERHUB}", pinned), locked, flags=re.MULTILINE)
        assert f"\njupyterhub=={pinned}\n" in made
        assert made.count("\njupyterhub==") == 1
        assert installs.split("&&")[1].strip().endswith("-r chart.lock")


@pytest.mark.parametrize("name", ["hub", "user"])
def test_only_the_grader_s_image_knows_answers(name: str) -> None:
    steps = instructions(ROOT / "classroom" / "images" / f"Dockerfile.{name}")
    copied = [source for step, value in steps if step == "COPY" for source in value.split()[:-1]]
    assert not any(source.startswith(("labs", "tests")) for source in copied)
    removed = " ".join(value for step, value in steps if step == "RUN" and "rm -rf" in value)
    for answers in ("autograder/specs", "autograder/drivers"):
        assert answers in removed
