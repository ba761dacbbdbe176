"""A page is served whole from the site: the check that says so sees every way a browser is told to fetch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def offline(book: Callable[[str], ModuleType]) -> ModuleType:
    return book("book/_ext/offline_assets.py")


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://unpkg.com/thebe/lib/index.js"></script>',
        '<script src="//cdn.example.org/a.js"></script>',
        '<link rel="stylesheet" href="https://fonts.example.org/css">',
        '<link rel="preload" as="font" href="https://fonts.example.org/a.woff2">',
        '<link rel="preconnect" href="https://fonts.example.org">',
        '<img src="https://img.shields.io/badge.svg" alt="badge">',
        '<img srcset="https://a.example.org/1.png 2x" alt="">',
        '<iframe src="https://video.example.org/1"></iframe>',
        '<svg><image href="https://a.example.org/1.png"/></svg>',
        '<p style="background: url(https://a.example.org/1.png)">text</p>',
        "<style>@import 'https://fonts.example.org/css';</style>",
        "<style>body { background: url('//a.example.org/1.png') }</style>",
    ],
)
def test_what_a_browser_would_fetch_is_found(offline: ModuleType, html: str) -> None:
    assert len(offline.fetches_elsewhere(html)) == 1


@pytest.mark.parametrize(
    "html",
    [
        '<a href="https://doi.org/10.1007/BF01931367">a paper</a>',
        '<link rel="canonical" href="https://course.example.org/page.html">',
        '<script src="../_static/course.js"></script>',
        '<img src="data:image/png;base64,AAAA" alt="">',
        "<pre>url(https://a.example.org/in-a-listing)</pre>",
        '<svg xmlns="http://www.w3.org/2000/svg"></svg>',
    ],
)
def test_what_stays_on_the_site_or_waits_for_a_click_is_left_alone(offline: ModuleType, html: str) -> None:
    assert offline.fetches_elsewhere(html) == []


@pytest.mark.slow
def test_a_page_that_fetches_from_elsewhere_fails_the_build(root: Path, tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text(
        f"import sys; sys.path.insert(0, {str(root / 'book' / '_ext')!r})\n"
        "extensions = ['offline_assets']\nhtml_js_files = ['https://cdn.example.org/dropped.js']\n"
    )
    page = "A page\n======\n\nText.\n"
    (tmp_path / "index.rst").write_text(page)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", str(tmp_path), str(tmp_path / "out")]
    clean = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert clean.returncode == 0, clean.stderr
    assert "dropped.js" not in (tmp_path / "out" / "index.html").read_text()

    (tmp_path / "index.rst").write_text(page + "\n.. raw:: html\n\n   <img src='https://a.example.org/1.png' alt=''>\n")
    caught = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert caught.returncode != 0
    assert "index.html loads https://a.example.org/1.png" in caught.stderr
