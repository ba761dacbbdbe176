"""Answers a contributor wrote to prove a task: wrong ones that must lose its points, right ones that must earn them.

They stand in ``tests/mutants/<lab>/<task>.py``, one after another, each below a line that says what it is:
``# %% wrong: the sign | sign`` (a title, and a pattern that the feedback must match), ``# %% right: with einsum``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from autograder.release import BEGIN, END, marks_of, text_of

WRONG, RIGHT = 8, 2
"""How many of each a task needs at least."""

TELLING = 28
"""Characters a line of a solution has, if it tells something; a shorter one may stand elsewhere by chance."""

HEAD = re.compile(r"(right|wrong): ([^|]+?)(?: \| (.+))?")


class MutantError(ValueError):
    """One line: what is wrong with a file of mutants."""


@dataclass(frozen=True)
class Sample:
    """One answer to one task. `words` is a pattern the feedback to a wrong one must match."""

    lab: str
    task: str
    kind: str
    title: str
    words: str
    source: str


def samples_of(root: Path, lab: str, task: str) -> list[Sample]:
    """The answers written for a task, in the order of the file; none where there is no file.

    Raises
    ------
    MutantError
        A section has no head of the right form, or its pattern is none.
    """
    path = root / "tests" / "mutants" / lab / f"{task}.py"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise MutantError(f"{lab}/{task}.py: can't be read: {error}") from None
    found = []
    for section in re.split(r"^# %% ", text, flags=re.MULTILINE)[1:]:
        head, _, source = section.partition("\n")
        match = HEAD.fullmatch(head)
        if match is None:
            raise MutantError(
                f"{lab}/{task}.py: '# %% {head}' is none of '# %% wrong: title | pattern', '# %% right: title'."
            )
        kind, title, words = match.groups()
        try:
            re.compile(words or "")
        except re.error as error:
            raise MutantError(f"{lab}/{task}.py: the pattern {words!r} is no regular expression: {error}.") from None
        found.append(Sample(lab, task, kind, title, words or "", source))
    return found


def answered(root: Path, sample: Sample) -> bytes:
    """The solution notebook with the sample in place of the solution; what the sample leaves out stays."""
    notebook = json.loads((root / "labs" / "solutions" / f"{sample.lab}.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if marks_of(cell).get("grade_id") == sample.task:
            lines = [line for line in text_of(cell).split("\n") if BEGIN not in line and END not in line]
            cell["source"] = "\n".join([*lines, "", sample.source])
    return json.dumps(notebook).encode()


def solution_code(root: Path, lab: str) -> str:
    """All that stands between the solution markers of a lab's notebook, without comments on lines of their own."""
    path = root / "labs" / "solutions" / f"{lab}.ipynb"
    lines, inside = [], False
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for line in text_of(cell).split("\n"):
            if BEGIN in line or END in line:
                inside = BEGIN in line
            elif inside and not line.strip().startswith("#"):
                lines.append(line)
    return "\n".join(lines)


def solution_lines(root: Path, lab: str) -> set[str]:
    """Lines between the solution markers of a lab's notebook, stripped; those too short to tell anything left out."""
    path = root / "labs" / "solutions" / f"{lab}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    lines, inside = set(), False
    for cell in notebook["cells"]:
        for line in text_of(cell).split("\n"):
            if BEGIN in line or END in line:
                inside = BEGIN in line
            elif inside and len(line.strip()) >= TELLING and not line.strip().startswith(("#", '"""')):
                lines.add(line.strip())
    return lines
