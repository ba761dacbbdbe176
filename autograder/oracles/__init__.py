"""Real frameworks, each in a process of its own, that say what the right answer is.

`launch` needs the standard library only; the rest is handed on when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autograder.oracles.runtime import RuntimeUnsafe, directory
from autograder.oracles.starting import FRAMEWORKS, OracleError, launch, launch_all

if TYPE_CHECKING:
    from autograder.oracles.client import Answer, Oracle, running, stop

_FROM_CLIENT = ("Answer", "Oracle", "running", "stop")

__all__ = [  # those of the client come through __getattr__
    "FRAMEWORKS",
    "Answer",
    "Oracle",
    "OracleError",
    "RuntimeUnsafe",
    "directory",
    "launch",
    "launch_all",
    "running",
    "stop",
]


def __getattr__(name: str) -> Any:
    if name not in _FROM_CLIENT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from autograder.oracles import client

    return getattr(client, name)
