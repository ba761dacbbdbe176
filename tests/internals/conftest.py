"""The frameworks that ours is held against."""

from __future__ import annotations

import os
from typing import Any

import pytest


@pytest.fixture(scope="session")
def tf() -> Any:
    """tensorflow, imported after torch, quiet, and on the host only."""
    import torch  # noqa: F401 - first: tensorflow's copy of OpenMP must not be the one torch finds

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    import tensorflow

    tensorflow.config.set_visible_devices([], "GPU")
    return tensorflow
