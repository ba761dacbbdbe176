"""A drawing that a notebook and a page show as they are: SVG that follows the colours around it."""

from __future__ import annotations

import itertools
from html import escape
from pathlib import Path

_number = itertools.count(1).__next__

CHARACTER = 7.25
"""Width of a monospace character at 12 px."""

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
        self.width = width
        name = f"picture-{_number()}"
        self.svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="drawn" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" role="img" aria-labelledby="{name}-title {name}-desc" '
            f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="12">'
            f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
            f"{body.replace('{name}', name)}</svg>"
        )

    def save(self, path: str | Path) -> None:
        """Write the SVG to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_html_(self) -> str:
        # On a narrow page the picture shrinks a little, then scrolls in its box.
        return f'<div class="drawing" style="overflow-x:auto">{self.svg.replace("<svg ", f"<svg style={self._style()} ", 1)}</div>'

    def _style(self) -> str:
        return f'"display:block;margin:0 auto;max-width:100%;height:auto;min-width:{min(self.width, max(320, 0.7 * self.width)):.0f}px"'

    def __repr__(self) -> str:
        return f"{self.title}. {self.description}"


def text(
    x: float,
    y: float,
    content: str,
    *,
    fill: str = TEXT,
    anchor: str = "middle",
    weight: str = "normal",
    size: int = 12,
) -> str:
    """A line of text, escaped, around a baseline."""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}" font-weight="{weight}" font-size="{size}">{escape(content)}</text>'
