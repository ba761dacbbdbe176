"""What a person who joins the project relies on: its papers, its commands, and files that are true on every machine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def source_files() -> list[Path]:
    """What git tracks; in a copy without git, everything that is not built."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return [ROOT / name for name in done.stdout.split("\0") if (ROOT / name).is_file()]
    built = re.compile(r"(^|/)(\.venv|\.run|\.\w+_cache|__pycache__|node_modules|_build|mathjax)(/|$)")
    return [path for path in ROOT.rglob("*") if path.is_file() and not built.search(str(path.relative_to(ROOT)))]


TRACKED = sorted(source_files())
PYTHON = [path for path in TRACKED if path.suffix == ".py"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
# In pieces, so that this file does not hold what it looks for.
MACHINE_PATHS = re.compile(
    "|".join(
        (r"/work/" + r"(main|shared|\.)", "/root" + r"/\.", r"/home/" + r"(?!\.\.\.|you)\w+/", "/Users/" + r"\w+/")
    )
)
HOSTS = re.compile("|".join(re.escape(f"{name}.{domain}") for name, domain in (
    ("pypi", "org"), ("pythonhosted", "org"), ("registry.npmjs", "org"), ("registry.yarnpkg", "com"),
    ("deb.debian", "org"), ("download.pytorch", "org"), ("conda.anaconda", "org"),
)))  # fmt: skip


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return "" if b"\0" in data[:8192] else data.decode("utf-8")


def faults(paths: Iterable[Path], look: Callable[[Path], Any]) -> dict[str, Any]:
    """What `look` finds, by file; one test for thousands of files, since a test apiece would cost more than looking."""
    assert paths
    return {relative(path): found for path in paths if (found := look(path))}


def test_files_are_true_on_every_machine() -> None:
    assert not faults(TRACKED, lambda path: MACHINE_PATHS.findall(text := text_of(path)) + HOSTS.findall(text))


def test_every_file_has_one_subject() -> None:
    """A file with more lines than this holds two."""
    lengths = faults(PYTHON, lambda path: len(path.read_text(encoding="utf-8").splitlines()))
    assert not {name: lines for name, lines in lengths.items() if lines > 450}
    assert not {path.stem for path in PYTHON} & {"utils", "util", "helpers", "common", "manager", "misc"}


@pytest.mark.parametrize(
    "name",
    ["LICENSE", "CONTRIBUTING.md", "CITATION.cff", "CHANGELOG.md", "README.md", "pyproject.toml", "requirements.lock",
     "environment.yml", ".ci/run", ".pre-commit-config.yaml", ".editorconfig", "Makefile"],
)  # fmt: skip
def test_paper_is_there(name: str) -> None:
    assert ROOT / name in TRACKED


def test_readme_names_two_commands_that_exist() -> None:
    block = README.split("```sh\n")[1].split("```")[0]
    commands = [line.split("#")[0].split() for line in block.splitlines()]
    assert commands == [["make", "serve"], ["make", "test"]]
    assert {target for _, target in commands} <= TARGETS


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_and_commands_of_a_page_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link and not (ROOT / link).exists()]
    assert not missing
    assert (
        set(re.findall(r"`make ([a-z]+)", text)) | set(re.findall(r"^ *make ([a-z]+)", text, re.MULTILINE)) <= TARGETS
    )


def test_readme_fits_one_screen() -> None:
    assert len(README.splitlines()) <= 50


def test_every_target_says_what_it_does() -> None:
    said = set(re.findall(r"^([a-z]+):.*##", MAKEFILE, re.MULTILINE))
    phony = set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[1].split())
    assert said == phony == TARGETS


def test_ci_runs_the_readme_command_and_what_precommit_runs() -> None:
    steps = re.findall(r"^step (make [a-z]+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]
    assert {hook["entry"] for repo in hooks for hook in repo["hooks"]} <= set(steps)
    assert {"make test", "make book"} <= set(steps)


@pytest.mark.slow
def test_version_is_said_once_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert citation["version"] == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
    command = [sys.executable, "-m", "autograder", "--version"]
    assert version in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
