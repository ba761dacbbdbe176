"""The site as a browser shows it: nothing asked of another host, both themes, a phone, search, tabs, formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traitlets.config.loader import PyFileConfigLoader

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = [
    "book/intro",
    "book/reader",
    "book/learner",
    "book/instructor",
    "book/security",
    "book/contributor",
    "book/contents",
    "book/ops",
    "book/bibliography",
    "chapters/02_tensors",
    "chapters/03_layers",
    "chapters/04_graphs",
    "chapters/05_eager",
    "chapters/06_staging",
    "chapters/07_dynamic_batching",
    "chapters/08_derivatives",
    "chapters/09_tape",
    "chapters/10_rules",
    "chapters/11_beyond",
    "chapters/12_training",
    "chapters/15_parameter_server",
    "chapters/16_collectives",
    "chapters/17_distributed_graphs",
    "chapters/18_scale",
    "chapters/19_formats",
    "chapters/20_compression",
    "chapters/21_serving",
    "chapters/22_edge",
    "search",
    "genindex",
]
CHAPTER = "chapters/09_tape"
ROOT = Path(__file__).resolve().parents[2]


def test_the_list_above_has_every_page(pages: list[Path], site: Path) -> None:
    built = {page.relative_to(site).with_suffix("").as_posix() for page in pages}
    assert {page for page in built if page != "index"} == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_no_request_leaves_the_site_and_none_fails(browser: Any, served: str, page: str) -> None:
    browser.show()
    browser.open(f"{served}/{page}.html")
    requested = browser.requested()
    assert f"{served}/{page}.html" in requested
    assert [url for url in requested if not url.startswith(f"{served}/")] == []
    assert browser.complaints() == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_a_phone(browser: Any, served: str, page: str) -> None:
    browser.show(width=390, height=844)
    browser.open(f"{served}/{page}.html")
    assert browser.ask("document.documentElement.scrollWidth") <= 390
    browser.show()


def test_formulas_are_set_by_our_own_mathjax(browser: Any, served: str) -> None:
    browser.open(f"{served}/{CHAPTER}.html")
    browser.wait("document.querySelectorAll('mjx-container').length >= 10")
    assert browser.ask("document.querySelectorAll('mjx-merror').length") == 0
    assert any("/_static/mathjax/output/chtml/fonts/" in url for url in browser.requested())


@pytest.mark.parametrize("dark", [False, True])
def test_figures_follow_the_theme(browser: Any, served: str, dark: bool) -> None:
    browser.show(dark=dark)
    browser.open(f"{served}/{CHAPTER}.html")
    assert browser.ask("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    ink = "getComputedStyle(document.querySelector('svg.drawn text')).fill"
    box = "getComputedStyle(document.querySelector('.drawing').closest('.text_html')).backgroundColor"
    red, green, blue = (int(c) for c in browser.ask(ink).removeprefix("rgb(").removesuffix(")").split(","))
    assert (red + green + blue > 384) == dark
    assert browser.ask(box) == "rgba(0, 0, 0, 0)"
    browser.show()


def test_choosing_a_framework_once_chooses_it_everywhere(browser: Any, served: str) -> None:
    browser.open(f"{served}/{CHAPTER}.html")
    labels = "[...document.querySelectorAll('label[data-sync-id=tensorflow]')]"
    assert browser.ask(f"{labels}.length") >= 8
    browser.ask(f"{labels}[0].click()")
    chosen = f"{labels}.filter(l => document.getElementById(l.htmlFor).checked).length === {labels}.length"
    browser.wait(chosen)
    browser.ask(f"{labels.replace('tensorflow', 'internals')}[0].click()")
    browser.wait(chosen.replace("tensorflow", "internals"))


def test_a_solution_opens(browser: Any, served: str) -> None:
    browser.open(f"{served}/{CHAPTER}.html")
    fold = "[...document.querySelectorAll('details')].find(d => d.textContent.includes('Show the solution'))"
    assert browser.ask(f"{fold}.open") is False
    browser.ask(f"{fold}.querySelector('summary').click()")
    assert browser.ask(f"{fold}.open") is True


@pytest.mark.parametrize(
    ("words", "page"),
    [("cotangent", CHAPTER), ("broadcasting", CHAPTER), ("logsumexp", "book/ops"), ("release", "book/instructor")],
)
def test_search_finds_what_is_written(browser: Any, served: str, words: str, page: str) -> None:
    browser.open(f"{served}/search.html?q={words}")
    browser.wait("document.querySelectorAll('#search-results li a').length > 0")
    found = browser.ask("[...document.querySelectorAll('#search-results li a')].map(a => a.pathname)")
    assert f"/{page}.html" in found


def test_the_lab_link_shows_only_beside_jupyterlab(browser: Any, served: str, site: Path) -> None:
    link = "document.querySelector('a.open-in-jupyterlab')"
    browser.open(f"{served}/{CHAPTER}.html")
    assert browser.ask(f"{link}.hidden") is True
    browser.ask("history.replaceState(null, '', '/user/ada/book/chapters/09_tape.html')")
    browser.ask("document.dispatchEvent(new Event('DOMContentLoaded'))")
    assert browser.ask(f"{link}.hidden") is False
    before, _, path = browser.ask(f"new URL({link}.href).pathname").partition("/lab/tree/")
    assert before == "/user/ada"
    classroom = PyFileConfigLoader("jupyter_server_config.py", str(ROOT / "classroom")).load_config()
    assert (Path(classroom.ServerApp.root_dir) / path).is_file()


def test_the_page_has_a_name_for_every_button_and_landmark(browser: Any, served: str) -> None:
    browser.show()
    browser.open(f"{served}/{CHAPTER}.html")
    nameless = """
        [...document.querySelectorAll('button, a[href], input:not([type=hidden])')]
          .filter(e => e.checkVisibility())
          .filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.title || e.placeholder))
          .filter(e => !(e.labels?.length || e.querySelector('[alt]:not([alt=""])')))
          .map(e => e.outerHTML.slice(0, 120))"""
    assert browser.ask(nameless) == []
    assert browser.ask("document.querySelectorAll('main').length") == 1
    assert browser.ask("document.documentElement.lang") == "en"
