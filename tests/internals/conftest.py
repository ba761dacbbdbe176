"""The frameworks that ours is held against."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

# Before a module that is collected here imports tensorflow, whose oneDNN gives an empty batch a wrong shape.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


# Without a handler of its own a package's warnings are printed by the thread that logs them. A traceback is parsed for
# that, and Python 3.11 can't parse in two threads at once.
logging.getLogger("internals").addHandler(logging.NullHandler())


@pytest.hookimpl(tryfirst=True)  # before markers select
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs TensorFlow is slow, if only because importing it takes nine seconds."""
    for item in items:
        if "tf" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish(session: pytest.Session) -> None:
    """The inner loop does without TensorFlow; a module that brings it costs every worker nine seconds."""
    if "not slow" in session.config.option.markexpr and "tensorflow" in sys.modules:
        raise pytest.UsageError(
            "a test module imports tensorflow; take the fixture `tf`, or `from frameworks import tf`"
        )


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """What is computed here is small: torch's threads would only wait for each other."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def collections_are_short() -> None:
    """What was imported stays: a full collection need not walk three frameworks, and many tests ask for one."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def tf() -> Any:
    """tensorflow, imported after torch, quiet, and on the host only."""
    importlib.import_module("torch")  # first: tensorflow's copy of OpenMP must not be the one torch finds
    import tensorflow

    tensorflow.config.set_visible_devices([], "GPU")
    return tensorflow


class Logged(logging.Handler):
    """What the framework logs; pytest's own capturing costs every test of the suite more than most of them take."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def text(self) -> str:
        return "\n".join(map(self.format, self.records))  # with the traceback where there is one


@pytest.fixture
def logged() -> Iterator[Logged]:
    logger, handler = logging.getLogger("internals"), Logged()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
