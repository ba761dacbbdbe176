"""What a person who joins the project relies on: its papers, its commands, and files that are true on every machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("internals", "autograder", "classroom")


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


@pytest.mark.parametrize("path", TRACKED, ids=relative)
def test_file_is_true_on_every_machine(path: Path) -> None:
    text = text_of(path)
    assert not MACHINE_PATHS.findall(text)
    assert not HOSTS.findall(text)


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_file_has_one_subject(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 450, f"{lines} lines: a file this long holds two subjects"
    assert path.stem not in {"utils", "util", "helpers", "common", "manager", "misc"}


@pytest.mark.parametrize("path", [path for path in PYTHON if relative(path).split("/")[0] in PACKAGES], ids=relative)
def test_public_functions_have_type_hints(path: Path) -> None:
    bare = [
        f"line {node.lineno}: {node.name}"
        for node in public_functions(ast.parse(path.read_text()))
        if not is_hinted(node)
    ]
    assert not bare


def public_functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """Functions of the module and methods of its public classes that do not start with an underscore."""
    found, scopes = [], [tree]
    while scopes:
        for node in scopes.pop().body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                scopes.append(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                found.append(node)
    return found


def is_hinted(node: ast.FunctionDef) -> bool:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    receiver = {"self", "cls"}
    return node.returns is not None and all(item.annotation is not None or item.arg in receiver for item in arguments)


def test_unhinted_functions_are_found() -> None:
    methods = "class A:\n  def good(self, x: int) -> int: ...\n  def bad(self, x) -> int: ...\n"
    source = methods + "def worse(x: int): ...\ndef _own(x): ...\n"
    assert [node.name for node in public_functions(ast.parse(source)) if not is_hinted(node)] == ["worse", "bad"]


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
