"""The map of the course: its 24 places are stable, and the sidebar lists what is written, in order."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import yaml

# Links, labs and specs use these numbers and names. Adding a chapter appends; nothing here is ever renamed.
PLACES = {
    "I": ["01_anatomy", "02_tensors"],
    "II": ["03_layers", "04_graphs", "05_eager", "06_staging", "07_dynamic_batching"],
    "III": ["08_derivatives", "09_tape", "10_rules", "11_beyond", "12_training"],
    "IV": ["13_compilers", "14_kernels"],
    "V": ["15_parameter_server", "16_collectives", "17_distributed_graphs", "18_scale"],
    "VI": ["19_formats", "20_compression", "21_serving", "22_edge"],
    "VII": ["23_looking_inside", "24_choosing"],
}
LABS = {
    "02_tensors": ["lab01_tensor", "lab02_devices"],
    "03_layers": ["lab03_layers"],
    "04_graphs": ["lab04_session"],
    "06_staging": ["lab07_tracing"],
    "07_dynamic_batching": ["lab08_fold"],
    "09_tape": ["lab05_tape"],
    "10_rules": ["lab06_rules"],
    "11_beyond": ["lab09_beyond"],
    "12_training": ["lab10_training"],
    "13_compilers": ["lab11_passes"],
    "14_kernels": ["lab12_kernels"],
    "15_parameter_server": ["lab13_parameter_server"],
    "16_collectives": ["lab14_all_reduce"],
    "17_distributed_graphs": ["lab15_partition"],
    "19_formats": ["lab16_formats"],
    "20_compression": ["lab17_quantise"],
    "21_serving": ["lab18_serving"],
}


@pytest.fixture(scope="module")
def parts(book: Callable[[str], ModuleType], root: Path) -> list:
    return book("book/_ext/course_map.py").read_course(root)


def test_every_place_of_the_course_is_on_the_map_once_and_in_order(parts: list) -> None:
    assert {part.number: [chapter.id for chapter in part.chapters] for part in parts} == PLACES


def test_chapters_are_numbered_from_1_to_24(parts: list) -> None:
    assert [chapter.number for part in parts for chapter in part.chapters] == list(range(1, 25))


def test_labs_stand_with_their_chapters(parts: list) -> None:
    assert {c.id: list(c.labs) for part in parts for c in part.chapters if c.labs} == LABS


def test_the_sidebar_lists_the_written_chapters_in_their_parts(parts: list, root: Path) -> None:
    toc = yaml.safe_load((root / "book" / "_toc.yml").read_text())
    listed = {
        part["caption"]: [page["file"] for page in part["chapters"]]
        for part in toc["parts"]
        if any(page["file"].startswith("chapters/") for page in part["chapters"])
    }
    written = {
        f"{part.number}: {part.title}": [chapter.page for chapter in part.chapters if chapter.is_written(root)]
        for part in parts
    }
    assert listed == {caption: pages for caption, pages in written.items() if pages}


def test_the_sidebar_names_no_page_that_does_not_exist(root: Path) -> None:
    toc = yaml.safe_load((root / "book" / "_toc.yml").read_text())
    pages = [
        toc["root"],
        *itertools.chain.from_iterable([p["file"] for p in part["chapters"]] for part in toc["parts"]),
    ]
    assert [page for page in pages if not (root / f"{page}.md").exists()] == []


def test_no_chapter_has_a_page_outside_the_map(parts: list, root: Path) -> None:
    known = {chapter.id for part in parts for chapter in part.chapters}
    assert {page.stem for page in (root / "chapters").glob("*") if page.suffix in {".md", ".ipynb"}} <= known


@pytest.mark.slow
def test_the_contents_page_links_written_chapters_and_marks_the_rest(parts: list, root: Path, site: Path) -> None:
    html = (site / "book" / "contents.html").read_text()
    for chapter in (c for part in parts for c in part.chapters):
        assert f"{chapter.number}. {chapter.title}" in html
        assert (f'href="../{chapter.page}.html"' in html) == chapter.is_written(root)
    planned = sum(not c.is_written(root) for part in parts for c in part.chapters)
    planned += sum(
        not (root / "labs" / f"{lab}.ipynb").exists() for part in parts for c in part.chapters for lab in c.labs
    )
    assert html.count('class="planned"') == planned
