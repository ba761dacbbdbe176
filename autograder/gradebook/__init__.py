"""Where submissions and grades are kept. See `store.Gradebook`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Gradebook": "store",
    "open_gradebook": "store",
    "GradebookError": "faults",
    "GradebookTooNew": "faults",
    "export_csv": "queries",
    "home": "place",
}

__all__ = ["Gradebook", "GradebookError", "GradebookTooNew", "export_csv", "home", "open_gradebook"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
