"""TensorFlow for modules that name it at their top. It takes nine seconds to import: it is imported when used."""

from __future__ import annotations

import importlib
from typing import Any


class _WhenUsed:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest asks every name of a module whether it is a fixture
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)


tf: Any = _WhenUsed("tensorflow")
