"""Runs a learner's notebook in a sandbox, compares it with real frameworks on fresh inputs, and explains what is wrong.

In a notebook::

    from autograder import check, submit

Importing this package costs nothing; each name is fetched when it is first used.
"""

TYPE_CHECKING = False  # typing's own takes 10 ms to import
if TYPE_CHECKING:
    from autograder.practice import check
    from autograder.submission import submit

_HOME = {"check": "practice", "submit": "submission"}

__all__ = ["check", "submit"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
