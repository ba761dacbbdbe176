"""The class of `class_pages`: one on a server that the tests here share, and one for each test that changes it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from class_pages import Class, furnish, serve


@pytest.fixture(scope="package")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """The file of a gradebook with a small class in it, and the numbers of its submissions."""
    file = tmp_path_factory.mktemp("class") / "gradebook.sqlite"
    return file, furnish(f"sqlite:///{file}")


def started(file: Path, known: dict[str, int]) -> Iterator[Class]:
    url = f"sqlite:///{file}"
    port, end = serve(url, file.parent, "roster")
    yield Class(port, url, **known)
    end()


@pytest.fixture(scope="package")
def class_(furnished: tuple[Path, dict[str, int]]) -> Iterator[Class]:
    """For tests that only look, or are refused."""
    yield from started(*furnished)


@pytest.fixture
def fresh(furnished: tuple[Path, dict[str, int]], tmp_path: Path) -> Iterator[Class]:
    """A class of its own, for a test that changes it."""
    file, known = furnished
    yield from started(Path(shutil.copy(file, tmp_path)), known)
