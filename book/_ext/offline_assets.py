"""Every page is served whole from the site itself: no script, style, font or picture comes from elsewhere.

Scripts and styles that an extension asks to load from another host are dropped as each page is written. When the
site is built, every page and style sheet is read once more, and whatever a browser would still fetch from another
host is a warning, fatal under ``-W``. Links that a reader may follow are not fetched and may lead anywhere.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

FETCHED = {  # tag -> attributes that a browser fetches without being asked
    "script": ("src",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "embed": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "input": ("src",),
    "object": ("data",),
    "use": ("href", "xlink:href"),
    "image": ("href", "xlink:href"),
}
FETCHED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect", "dns-prefetch", "manifest"}
ELSEWHERE = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
CSS_URL = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s;]+)""", re.IGNORECASE)

logger = logging.getLogger(__name__)


def is_elsewhere(url: str | None) -> bool:
    """Tell whether `url` names a host (``https://...`` or ``//...``) and so leaves the site."""
    return bool(url) and ELSEWHERE.match(url) is not None


class _Fetches(HTMLParser):
    """Collect what a browser fetches from another host while it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        fetched = [given[name] for name in FETCHED.get(tag, ()) if name in given]
        if tag == "link" and FETCHED_LINKS & set(given.get("rel", "").lower().split()):
            fetched.append(given.get("href", ""))
        self.urls += [url for url in fetched if is_elsewhere(url)]
        self.urls += CSS_URL.findall(given.get("style", ""))
        self.in_style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self.in_style = False

    def handle_data(self, data: str) -> None:
        if self.in_style:
            self.urls += CSS_URL.findall(data)


def fetches_elsewhere(html: str) -> list[str]:
    """Return the URLs on other hosts that a browser would request to show this page."""
    reader = _Fetches()
    reader.feed(html)
    reader.close()
    return reader.urls


def drop_remote_assets(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object | None
) -> None:
    for kind in ("script_files", "css_files"):
        context[kind] = [asset for asset in context.get(kind, []) if not is_elsewhere(str(asset.filename or ""))]


def check_site(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for page in sorted(out.rglob("*.html")):
        for url in fetches_elsewhere(page.read_text(encoding="utf-8")):
            logger.warning("offline_assets: %s loads %s; serve it from book/_static", page.relative_to(out), url)
    for sheet in sorted(out.rglob("*.css")):
        for url in CSS_URL.findall(sheet.read_text(encoding="utf-8")):
            logger.warning("offline_assets: %s loads %s; serve it from book/_static", sheet.relative_to(out), url)


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("html-page-context", drop_remote_assets, priority=900)
    app.connect("build-finished", check_site)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
