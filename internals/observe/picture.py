"""A drawing that a notebook and a page show as they are: SVG that follows the colours around it."""

from __future__ import annotations

import itertools
from html import escape
from pathlib import Path

_number = itertools.count(1).__next__

FONT = 'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="12"'
CHARACTER = 7.25
"""Width of a character of that font."""

TEXT = "var(--course-text, currentColor)"
MUTED = "var(--course-muted, currentColor)"
LINE = "var(--course-line, currentColor)"
LEAF = "var(--course-leaf, currentColor)"
OP = "var(--course-op, currentColor)"
FILL_LEAF = "var(--course-fill-leaf, none)"
FILL_OP = "var(--course-fill-op, none)"
FILL_FREED = "var(--course-fill-freed, none)"


class Picture:
    """SVG with a title and a description for those who can't see it.

    Attributes
    ----------
    svg : str
        Stand-alone: colours come from the page's variables where it has them, else from its text colour.
    title, description : str
    """

    def __init__(self, body: str, width: float, height: float, *, title: str, description: str) -> None:
        self.title, self.description = title, description
        name = f"picture-{_number()}"
        size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
        told = f'role="img" aria-labelledby="{name}-title {name}-desc"'
        words = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
        narrowest = min(width, max(320, 0.7 * width))
        style = f"display:block;margin:0 auto;max-width:100%;height:auto;min-width:{narrowest:.0f}px"
        self.svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="drawn" style="{style}" {size} {told} {FONT}>'
            f"{words}{body.replace('{name}', name)}</svg>"
        )

    def save(self, path: str | Path) -> None:
        """Write the SVG to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_html_(self) -> str:
        # On a narrow page the picture shrinks a little, then scrolls in its box.
        return f'<div class="drawing" style="overflow-x:auto" tabindex="0">{self.svg}</div>'

    def __repr__(self) -> str:
        return f"{self.title}. {self.description}"


def text(x: float, y: float, content: str, *, fill: str = TEXT, anchor: str = "middle", weight: str = "normal") -> str:
    """A line of text, escaped, on a baseline."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{fill}" font-weight="{weight}">{escape(content)}</text>'
