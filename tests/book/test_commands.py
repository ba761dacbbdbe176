"""The commands that the pages tell people to type exist, with those options."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def typed() -> list[tuple[str, str]]:
    """Every autograder command in a shell block of the pages, with the page it is on."""
    found = []
    for page in sorted((ROOT / "book").glob("*.md")):
        for block in re.findall(r"```shell\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                command = line.split("#")[0].strip().removeprefix(".venv/bin/")
                if command.startswith("autograder "):
                    found.append((page.name, command))
    return found


@cache
def help_of(*command: str) -> str:
    run = [sys.executable, "-m", "autograder", *command, "--help"]
    done = subprocess.run(run, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)
    return done.stdout if done.returncode == 0 else ""


def test_the_pages_do_tell_people_what_to_type() -> None:
    assert len(typed()) >= 6


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command"), typed())
def test_a_command_on_a_page_exists_with_its_options(page: str, command: str) -> None:
    words = shlex.split(command)[1:]
    depth = 2 if len(words) > 1 and f"  {words[1]} " in help_of(words[0]).partition("Commands:")[2] else 1
    text = help_of(*words[:depth])
    assert text, f"{page}: {command}"
    for option in (word for word in words[depth:] if word.startswith("--")):
        assert option in text, f"{page}: {command}"


def test_files_that_the_pages_name_exist() -> None:
    named = {
        (page.name, path)
        for page in (ROOT / "book").glob("*.md")
        for path in re.findall(r"\b(?:internals|autograder|labs|book|chapters|tests)/[\w/.]*\w\.\w+", page.read_text())
        if "NN" not in path
    }
    assert len(named) >= 8
    assert [(page, path) for page, path in sorted(named) if not (ROOT / path).exists()] == []
