"""The built site: every page has a name, every link leads somewhere, and nothing on it is left undone."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

import pytest

pytestmark = pytest.mark.slow

PEOPLE = ["reader", "learner", "instructor", "contributor"]
ALL_TABS = {"pytorch", "tensorflow"}


class Page(HTMLParser):
    """What the tests ask of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.title = ""
        self.headings: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.pictures: list[dict[str, str | None]] = []
        self.inside: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.ids.add(str(given["id"]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag == "img":
            self.pictures.append(given)
        if tag in {"title", "h1", "svg"}:
            self.inside.append(tag)
            if tag == "h1":
                self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in {"title", "h1", "svg"} and tag in self.inside:
            self.inside.remove(tag)

    def handle_data(self, data: str) -> None:
        if "svg" in self.inside:
            return
        if "title" in self.inside:
            self.title += data
        if "h1" in self.inside:
            self.headings[-1] += data


@pytest.fixture(scope="module")
def parsed(pages: list[Path]) -> dict[Path, Page]:
    return {page: Page(page) for page in pages}


@pytest.fixture(scope="module")
def sources(parsed: dict[Path, Page], site: Path) -> dict[Path, Page]:
    """Pages that are written, not the generated search page, index and redirect."""
    return {p: page for p, page in parsed.items() if p.parent.name in {"book", "chapters"} and p.parent.parent == site}


def test_every_page_has_a_title_and_one_heading(sources: dict[Path, Page]) -> None:
    assert len(sources) >= 9
    for file, page in sources.items():
        assert page.title.strip(), file
        # The theme repeats the heading for print; the page's own has a link to itself.
        assert sum(heading.endswith("#") for heading in page.headings) == 1, file


def test_no_two_pages_have_the_same_title(sources: dict[Path, Page]) -> None:
    titles = [page.title for page in sources.values()]
    assert len(set(titles)) == len(titles)


def test_every_link_within_the_site_leads_to_a_page_and_a_place_on_it(parsed: dict[Path, Page]) -> None:
    dead = []
    for file, page in parsed.items():
        for link in page.links:
            address, fragment = urldefrag(link)
            if urlparse(address).scheme or address.startswith("//"):
                continue
            target = (file.parent / unquote(address).split("?")[0]).resolve() if address else file
            no_place = fragment and target in parsed and fragment not in parsed[target].ids
            if not target.exists() or no_place:
                dead.append((file.name, link))
    assert dead == []


def test_every_picture_says_what_it_shows(parsed: dict[Path, Page]) -> None:
    assert [(f.name, p.get("src")) for f, page in parsed.items() for p in page.pictures if "alt" not in p] == []


def test_every_drawn_figure_has_a_title_and_a_description(sources: dict[Path, Page]) -> None:
    drawn = [
        svg for file in sources for svg in re.findall(r'<svg[^>]*class="drawn".*?</svg>', file.read_text(), re.DOTALL)
    ]
    assert len(drawn) >= 4
    for svg in drawn:
        named = re.search(r'aria-labelledby="(\S+) (\S+)"', svg)
        assert named is not None
        assert re.search(rf'<title id="{named[1]}">\S', svg)
        assert re.search(rf'<desc id="{named[2]}">\S', svg)


@pytest.mark.parametrize("person", PEOPLE)
def test_a_page_for_people_starts_with_what_to_type(site: Path, person: str) -> None:
    html = (site / "book" / f"{person}.html").read_text()
    article = html[html.index("<article") :]
    assert "highlight-shell" in article[: article.index("<h2>")]


def test_pages_name_only_targets_that_the_makefile_has(root: Path) -> None:
    made = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for person in PEOPLE
        for block in re.findall(r"```shell\n(.*?)```", (root / "book" / f"{person}.md").read_text(), re.DOTALL)
        for target in re.findall(r"^make ([a-z]+)", block, re.MULTILINE)
    }
    assert named
    assert named <= made


def test_chapter_9_was_executed_to_its_end(root: Path, site: Path) -> None:
    source = (root / "chapters" / "09_tape.md").read_text()
    html = (site / "chapters" / "09_tape.html").read_text()
    cells = source.count("\n```{code-cell}")
    assert html.count('class="cell docutils container') + html.count('class="cell tag_') == cells
    assert html.count('class="cell_output docutils container"') == cells
    for expected in [
        "Tensor(21.)",  # a value used twice
        "1152921504606846976 = 2**60: True",
        "careless  by p: [2.], by q: [2.]",
        "careful   by p: [2.], by q: [1.]",
        "RecursionError",
        "one of the variables needed for gradient computation has been modified by an inplace operation",
        "A non-persistent GradientTape can only be used to compute one set of gradients",
        "the rule agrees with central differences",
    ]:
        assert expected in re.sub(r"<[^>]+>", "", html).replace("&#39;", "'"), expected


def test_every_set_of_tabs_has_every_framework(site: Path) -> None:
    html = (site / "chapters" / "09_tape.html").read_text()
    sets = html.split('class="framework-tabs sd-tab-set')[1:] or html.split("framework-tabs")[1:]
    assert len(sets) >= 8
    for tabs in sets:
        head = tabs.split("framework-tabs")[0]
        assert set(re.findall(r'data-sync-id="(\w+)"', head)) >= ALL_TABS


def test_solutions_are_folded_and_executed(site: Path) -> None:
    html = (site / "chapters" / "09_tape.html").read_text()
    assert html.count("Show the solution") == 5
    assert "<details open" not in html


def test_what_is_cited_is_in_the_bibliography(root: Path, parsed: dict[Path, Page], site: Path) -> None:
    cited = set()
    for page in (root / "chapters").glob("*.md"):
        for keys in re.findall(r"\{cite:\w\}`([^`]+)`", page.read_text()):
            cited |= {key.strip() for key in keys.split(",")}
    known = set(re.findall(r"^@\w+\{(\w+),", (root / "book" / "references.bib").read_text(), re.MULTILINE))
    assert cited
    assert cited <= known
    html = (site / "book" / "bibliography.html").read_text()
    assert html.count('class="citation"') == len(cited)


def test_the_op_reference_has_an_entry_for_every_row(site: Path) -> None:
    from internals.ops.table import TABLE

    html = (site / "book" / "ops.html").read_text()
    assert set(re.findall(r'<section class="op" id="op-([\w]+)"', html)) == set(TABLE)
    assert html.count("The row, as it is written") == len(TABLE)


def test_the_lab_can_be_downloaded_as_it_is_released(root: Path, site: Path) -> None:
    html = (site / "chapters" / "09_tape.html").read_text()
    (address,) = re.findall(r'href="(\.\./_downloads/[^"]+/lab05_tape\.ipynb)"', html)
    downloaded = (site / "chapters" / address).resolve()
    assert json.loads(downloaded.read_text()) == json.loads((root / "labs" / "lab05_tape.ipynb").read_text())


def test_nothing_is_left_to_do(sources: dict[Path, Page]) -> None:
    for file in sources:
        assert not re.search(r"\b(TODO|FIXME|PLACEHOLDER|Lorem)\b", file.read_text()), file
