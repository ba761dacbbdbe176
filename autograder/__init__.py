"""Runs a learner's notebook in a sandbox, compares it with real frameworks on fresh inputs, and explains what is wrong.

In a notebook::

    from autograder import check, submit

Importing this package costs nothing; each name is fetched when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {"check": "practice", "submit": "submission"}

__all__ = ["check", "submit"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
