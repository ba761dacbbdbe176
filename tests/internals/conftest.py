"""The frameworks that ours is held against."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """What is computed here is small: torch's threads would only wait for each other."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session")
def tf() -> Any:
    """tensorflow, imported after torch, quiet, and on the host only."""
    import torch  # noqa: F401 - first: tensorflow's copy of OpenMP must not be the one torch finds

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    import tensorflow

    tensorflow.config.set_visible_devices([], "GPU")
    return tensorflow
