"""Working beside nbgrader: labs that open and grade in it, and its assignments as labs of ours.

Nothing here imports nbgrader; both sides meet in the notebooks and their metadata.
"""

from __future__ import annotations

from typing import Any

__all__ = ["NotGraded", "earned"]


class NotGraded(RuntimeError):
    """The check could not be made. nbgrader then shows this, and gives nothing until the cell is run again."""


def earned(task: str, *, lab: str) -> float:
    """Check a task as ``check(task)`` does, print the feedback, and return the points.

    The last line of a test cell: nbgrader takes the number that such a cell shows for the points of the cell.

    Parameters
    ----------
    task : str
    lab : str
        Its name in full; nbgrader gives notebooks names of its own.

    Raises
    ------
    NotGraded
        There is no checker to be had, or it could not judge the answer.
    """
    from autograder.practice import check

    checked: Any = check(task, lab=lab)
    if checked.report is None:
        raise NotGraded(checked.message)
    print(checked)
    (result,) = checked.report.tasks
    if result.verdict == "ungraded":
        raise NotGraded(result.message)
    return float(result.points)
