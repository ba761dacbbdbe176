"""pyproject.toml is the one source of dependencies; the lock, environment.yml and all imports agree with it."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from autograder import doctor

ROOT = Path(__file__).resolve().parents[2]
LOCK_LINES = [
    line for line in (ROOT / "requirements.lock").read_text().splitlines() if line and not line.startswith("#")
]
PINS = {canonicalize_name(Requirement(line).name): Requirement(line) for line in LOCK_LINES}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
DECLARED = [Requirement(line) for lines in (PROJECT["dependencies"], *EXTRAS.values()) for line in lines]
OURS = {"internals", "autograder", "classroom", "tests", "tools", "benchmarks"}
PLATFORMS = [
    {"sys_platform": "linux", "platform_machine": "x86_64"},
    {"sys_platform": "linux", "platform_machine": "aarch64"},
    {"sys_platform": "darwin", "platform_machine": "arm64"},
]


def test_core_needs_numpy_only() -> None:
    assert [Requirement(line).name for line in PROJECT["dependencies"]] == ["numpy"]


def test_extras_are_the_promised_ones() -> None:
    assert {"frameworks", "gpu", "book", "classroom", "dev"} <= set(EXTRAS)


def test_lock_lines_are_exact_portable_versions() -> None:
    # A local version (2.13.0+cpu), an option (--find-links) or an address would be true of one machine only.
    exact = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+( ; .+)?")
    assert [line for line in LOCK_LINES if not exact.fullmatch(line)] == []


@pytest.mark.parametrize("requirement", DECLARED, ids=str)
def test_declared_requirement_is_locked(requirement: Requirement) -> None:
    pin = PINS.get(canonicalize_name(requirement.name))
    assert pin is not None, f"{requirement} is not in requirements.lock; run make lock"
    version = next(iter(pin.specifier)).version
    assert requirement.specifier.contains(version, prereleases=True), f"{pin} is not {requirement}; run make lock"
    assert str(pin.marker or "") == str(requirement.marker or "")


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda row: row["sys_platform"] + "-" + row["platform_machine"])
def test_every_platform_gets_one_tensorflow(platform: dict[str, str]) -> None:
    both = (PINS["tensorflow"], PINS["tensorflow-cpu"])
    assert sum(pin.marker is None or pin.marker.evaluate(platform) for pin in both) == 1


def test_no_cuda_libraries_are_locked() -> None:
    # They come with PyTorch's CUDA build; the lock must suit machines without a GPU too.
    assert not [name for name in PINS if name.startswith("nvidia-") or name == "triton"]


def test_conda_environment_is_the_lock() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python = next(line for line in environment["dependencies"] if isinstance(line, str) and line.startswith("python"))
    pip = next(line["pip"] for line in environment["dependencies"] if isinstance(line, dict))
    assert environment["name"] == PROJECT["name"]
    assert pip == ["-r requirements.lock", "-e ."]
    allowed = SpecifierSet(python.removeprefix("python"))
    assert {minor for minor in range(30) if f"3.{minor}.0" in allowed} == {minor for _, minor in supported_pythons()}


def supported_pythons() -> list[tuple[int, int]]:
    return [(3, minor) for minor in range(doctor.OLDEST[1], doctor.NEWEST[1] + 1)]


def test_supported_pythons_are_said_the_same_everywhere() -> None:
    bootstrap = load_tool("bootstrap")
    assert (bootstrap.OLDEST, bootstrap.NEWEST) == (doctor.OLDEST, doctor.NEWEST)
    assert f"{doctor.OLDEST[0]}.{doctor.OLDEST[1]}.0" in SpecifierSet(PROJECT["requires-python"])
    assert f"{doctor.OLDEST[0]}.{doctor.OLDEST[1] - 1}.9" not in SpecifierSet(PROJECT["requires-python"])
    said = f"Python {doctor.OLDEST[0]}.{doctor.OLDEST[1]} to {doctor.NEWEST[0]}.{doctor.NEWEST[1]}"
    assert said in (ROOT / "README.md").read_text()


def load_tool(name: str):
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@cache
def distributions() -> dict[str, set[str]]:
    """Top-level module name to the distributions that bring it."""
    return {
        name: {canonicalize_name(found) for found in names} for name, names in metadata.packages_distributions().items()
    }


def imported(path: Path) -> set[str]:
    """The top-level names of all modules that a file imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return {name for name in names if name not in sys.stdlib_module_names and name not in OURS}


SOURCES = sorted(path for folder in OURS for path in (ROOT / folder).rglob("*.py"))


# Modules that are found by their own name: in the sandbox, among the tools, beside a test, on pytest's path.
BY_OWN_NAME = {
    path.stem
    for folder in ("autograder/inside", "tools", "tests/autograder", "tests/internals")
    for path in (ROOT / folder).glob("*.py")
} | {"frames"}


@pytest.mark.slow
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_are_declared(path: Path) -> None:
    declared = {canonicalize_name(requirement.name) for requirement in DECLARED}
    siblings = {sibling.stem for sibling in path.parent.iterdir()}
    unknown = set()
    for name in imported(path) - siblings - BY_OWN_NAME:
        if not (distributions().get(name, {canonicalize_name(name)}) & declared):
            unknown.add(name)
    assert not unknown, f"{unknown} imported, but no extra of pyproject.toml brings it"
