"""Tagged neighbours become one set of synced tabs, in order, with nothing lost (d2l-en#1479: every tab complete)."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from docutils import nodes


@pytest.fixture
def tabs(book: Callable[[str], ModuleType]) -> ModuleType:
    return book("book/_ext/framework_tabs.py")


def cell(*tags: str) -> nodes.container:
    return nodes.container(nb_element="cell_code", cell_metadata={"tags": list(tags)})


def grouped(tabs: ModuleType, *children: nodes.Node) -> list[list[str]]:
    parent = nodes.section("", *children)
    return [[name for name, _ in cells] for cells in tabs.sets_in(parent)]


def test_neighbours_are_one_set(tabs: ModuleType) -> None:
    assert grouped(tabs, cell("internals"), cell("pytorch"), cell("tensorflow")) == [
        ["internals", "pytorch", "tensorflow"]
    ]


def test_text_between_cells_ends_a_set(tabs: ModuleType) -> None:
    first = [cell("pytorch"), cell("tensorflow")]
    second = [cell("tensorflow"), cell("pytorch")]
    assert grouped(tabs, *first, nodes.paragraph(), *second) == [["pytorch", "tensorflow"], ["tensorflow", "pytorch"]]


def test_a_framework_that_comes_back_starts_the_next_set(tabs: ModuleType) -> None:
    cells = [cell("pytorch"), cell("tensorflow"), cell("pytorch"), cell("tensorflow")]
    assert grouped(tabs, *cells) == [["pytorch", "tensorflow"], ["pytorch", "tensorflow"]]


def test_two_cells_of_one_framework_share_a_tab(tabs: ModuleType) -> None:
    parent = nodes.section("", cell("pytorch"), cell("pytorch", "raises-exception"), cell("tensorflow"))
    (cells,) = tabs.sets_in(parent)
    assert [(name, len(members)) for name, members in cells] == [("pytorch", 2), ("tensorflow", 1)]


def test_untagged_cells_are_left_alone(tabs: ModuleType) -> None:
    assert grouped(tabs, cell(), cell("hide-input"), nodes.paragraph()) == []


def test_tabs_of_one_framework_are_synced_across_sets(tabs: ModuleType) -> None:
    made = tabs.tab_set([("pytorch", [cell("pytorch")]), ("tensorflow", [cell("tensorflow")])])
    labels = [item[0] for item in made]
    assert [(label["sync_group"], label["sync_id"]) for label in labels] == [
        ("framework", "pytorch"),
        ("framework", "tensorflow"),
    ]
