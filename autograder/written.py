"""Answers in words: found in the notebook, kept in the report, and left to a person to mark."""

from __future__ import annotations

from autograder.cells import printable
from autograder.notebook import Notebook
from autograder.report import TaskResult
from autograder.spec import Written

PLACEHOLDER = "YOUR ANSWER HERE"
"""What the released notebook has where the answer goes; nbgrader's own words."""

HOLE = ("# YOUR CODE HERE", "raise NotImplementedError()")
"""The same in a cell of code."""

LONGEST = 20_000
"""Characters of an answer that are kept."""

PENDING = "Waits for your instructor, who reads this answer and gives it points; until then it counts nothing."


def result_of(question: Written, notebook: Notebook) -> TaskResult:
    """What can be said of an answer before a person has read it: ``pending``; ``missing``, where nothing is written."""
    result = TaskResult(question.name, question.title, 0.0, question.points, "pending", message=PENDING)
    text = answer_of(notebook, question.name)
    if text is None:
        result.verdict, result.cause = "missing", "missing"
        result.message = f"The cell for `{question.name}` is not in the notebook any more."
    elif not text:
        result.verdict, result.cause = "missing", "missing"
        result.message = f"Nothing is written in the cell for `{question.name}`."
    else:
        result.answer = text[:LONGEST]
        if len(text) > LONGEST:
            result.notes.append(f"The answer has {len(text)} characters; the first {LONGEST} are kept.")
    return result


def answer_of(notebook: Notebook, name: str) -> str | None:
    """The text of the cell, without what was there to be replaced; None where there is no such cell."""
    text = notebook.words.get(name)
    if text is None:
        return None
    for blank in (PLACEHOLDER, *HOLE):
        text = text.replace(blank, "")
    lines = [line for line in text.split("\n") if not any(f"{end} SOLUTION" in line for end in ("BEGIN", "END"))]
    return printable("\n".join(lines)).strip()
