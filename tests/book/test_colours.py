"""The site's own colours can be read: WCAG 2's contrast ratios on the page's background, in both themes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

BACKGROUND = {"light": "#ffffff", "dark": "#121212"}  # the theme's
TEXT, LINES = 4.5, 3.0


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest, root: Path) -> dict[str, str]:
    css = (root / "book" / "_static" / "course.css").read_text()
    (block,) = re.findall(rf'html\[data-theme="{request.param}"\] \{{(.*?)\}}', css, re.DOTALL)
    return {"background": BACKGROUND[request.param], **dict(re.findall(r"--course-([\w-]+): (#[0-9a-f]{6});", block))}


def test_the_formula_gives_the_standards_extremes() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", ["text", "muted", "leaf", "op"])
def test_text_can_be_read_on_the_page(theme: dict[str, str], name: str) -> None:
    assert contrast(theme[name], theme["background"]) >= TEXT


@pytest.mark.parametrize(
    ("text", "fill"),
    [
        ("leaf", "fill-leaf"),
        ("muted", "fill-leaf"),
        ("text", "fill-leaf"),
        ("op", "fill-op"),
        ("muted", "fill-op"),
        ("text", "fill-op"),
        ("muted", "fill-freed"),
    ],
)
def test_text_can_be_read_in_its_box(theme: dict[str, str], text: str, fill: str) -> None:
    assert contrast(theme[text], theme[fill]) >= TEXT


@pytest.mark.parametrize("name", ["line", "leaf", "op"])
def test_lines_can_be_seen(theme: dict[str, str], name: str) -> None:
    assert contrast(theme[name], theme["background"]) >= LINES


def test_both_themes_set_the_same_variables(root: Path) -> None:
    css = (root / "book" / "_static" / "course.css").read_text()
    blocks = re.findall(r'html\[data-theme="\w+"\] \{(.*?)\}', css, re.DOTALL)
    light, dark = (set(re.findall(r"--course-[\w-]+", block)) for block in blocks)
    assert light == dark
