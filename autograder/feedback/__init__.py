"""A Report, shown: in a terminal, in a notebook, as a page that stands alone.

Names are handed on when first used, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {"show": "terminal", "text": "terminal", "page": "html", "fragment": "html", "Feedback": "notebook"}

__all__ = ["Feedback", "fragment", "page", "show", "text"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
