"""The class of `class_pages`, on a server that the tests here share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from class_pages import Class, furnish, serve


@pytest.fixture(scope="package")
def class_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Class]:
    home = tmp_path_factory.mktemp("class")
    url = f"sqlite:///{home / 'gradebook.sqlite'}"
    known = furnish(url)
    port, end = serve(url, home, "roster")
    yield Class(port, url, **known)
    end()
