"""One hub for all tests of the class, and a browser."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "autograder"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import hub_process  # noqa: E402
from hub_process import Hub  # noqa: E402

from autograder.oracles import runtime  # noqa: E402
from classroom.spawner import isolation  # noqa: E402


@pytest.fixture(scope="session")
def can_run_hub() -> None:
    """Node.js and bubblewrap are there; what is missing is told by `make doctor`."""
    if not shutil.which("node"):
        pytest.skip("no Node.js on this machine")
    if why := isolation():
        pytest.skip(why)


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory, can_run_hub: None) -> Iterator[Hub]:
    """A hub with the class to try. The framework processes are those of all tests."""
    running = hub_process.start(tmp_path_factory.mktemp("hub"), AUTOGRADER_RUNTIME_DIR=str(runtime.directory()))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def new_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Any]]:
    """A browser of the tests of the book; each call makes one that nobody has logged in with."""
    file = HERE.parent / "book" / "conftest.py"
    spec = importlib.util.spec_from_file_location("browser_of_the_book", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: list[Any] = []

    def make() -> Any:
        made.append(module.Browser(tmp_path_factory.mktemp("chromium")))
        return made[-1]

    yield make
    for tab in made:
        tab.close()
