"""A line chart of a few measured series, in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from internals.observe import picture
from internals.observe.picture import CHARACTER, Picture, text

WIDTH, HEIGHT = 620.0, 280.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 16.0, 34.0, 44.0
STYLES = ((picture.LEAF, ""), (picture.OP, "7 4"), (picture.MUTED, "2 3"))


def line_chart(
    series: Mapping[str, Sequence[float]],
    *,
    title: str,
    across: str,
    up: str,
    ticks: Sequence[str] = (),
    logarithmic: bool = False,
) -> Picture:
    """Draw series over their index, from zero up.

    Parameters
    ----------
    series : mapping of name to numbers
        One to three; told apart by dashes as well as by colour.
    title, across, up : str
        Of the chart, the horizontal and the vertical axis.
    ticks : sequence of str, optional
        What the horizontal axis calls the indices, from the first to the last; fewer names than there are indices lie
        evenly between. A name that would run into the one before it is left out. The first and the last index unless
        given.
    logarithmic : bool
        Powers of ten on the vertical axis; all numbers are positive then.

    Raises
    ------
    ValueError
        There is nothing to draw, more than can be told apart, or a number is not finite or has no logarithm.
    """
    if not 1 <= len(series) <= len(STYLES) or not all(len(values) for values in series.values()):
        lengths = [len(values) for values in series.values()]
        raise ValueError(
            f"line_chart: expected 1 to {len(STYLES)} series of at least one number, got lengths {lengths}."
        )
    lost = [name for name, values in series.items() if not all(map(math.isfinite, values))]
    if lost:
        raise ValueError(
            f"line_chart: {lost[0]!r} has a number that is not finite; leave it out, or end the line there."
        )
    steps = max(len(values) for values in series.values())
    lowest = min(min(values) for values in series.values())
    if logarithmic and lowest <= 0:
        raise ValueError(f"line_chart: {lowest:g} has no place on a logarithmic axis; numbers must be positive.")
    scale = _Scale(lowest, max(max(values) for values in series.values()), logarithmic)
    body = [_axes(steps, scale, across, up, ticks)]
    legend = LEFT + 6
    for (name, values), (colour, dashes) in zip(series.items(), STYLES, strict=False):
        points = " ".join(f"{_x(i, steps):.1f},{scale.y(value):.1f}" for i, value in enumerate(values))
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        body.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        body.append(
            f'<line x1="{legend:.1f}" x2="{legend + 26:.1f}" y1="14" y2="14" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        body.append(text(legend + 32, 18, name, anchor="start"))
        legend += 32 + (len(name) + 3) * CHARACTER
    told = "; ".join(
        f"{name}: starts at {values[0]:.3g}, highest {max(values):.3g}, ends at {values[-1]:.3g}"
        for name, values in series.items()
    )
    return Picture("".join(body), WIDTH, HEIGHT, title=title, description=f"{up} over {across}. {told}.")


def _x(step: float, steps: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * step / max(steps - 1, 1)


class _Scale:
    """The vertical axis: where a value is, and which values have a line."""

    def __init__(self, lowest: float, highest: float, logarithmic: bool) -> None:
        self.logarithmic = logarithmic
        if logarithmic:
            first, last = math.floor(math.log10(lowest)), math.ceil(math.log10(highest))
            last = max(last, first + 1)
            stride = -(-(last - first) // 6)
            self.bottom, self.top = float(first), float(last)
            self.lines = [(float(power), f"1e{power}") for power in range(first, last + 1, stride)]
        else:
            self.bottom, self.top = 0.0, _round_up(highest)
            self.lines = [(value, f"{value:g}") for value in (self.top * quarter / 4 for quarter in range(5))]

    def y(self, value: float) -> float:
        return self.at(math.log10(value) if self.logarithmic else value)

    def at(self, place: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (place - self.bottom) / (self.top - self.bottom)


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... above a value, so that ticks are round numbers."""
    if value <= 0:
        return 1.0
    power = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 4, 5, 8, 10) if step * power >= value)


def _axes(steps: int, scale: _Scale, across: str, up: str, ticks: Sequence[str]) -> str:
    drawn = []
    for number, (place, label) in enumerate(scale.lines):
        y = scale.at(place)
        stroke = f'stroke="{picture.LINE}" stroke-width="{0.35 if number else 1}"'
        drawn.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" {stroke}/>')
        drawn.append(text(LEFT - 8, y + 4, label, anchor="end", fill=picture.MUTED))
    for x, label in _names(steps, ticks):
        drawn.append(text(x, HEIGHT - BOTTOM + 18, label, fill=picture.MUTED))
    drawn.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, across, fill=picture.MUTED))
    turned = f"translate(14 {(TOP + HEIGHT - BOTTOM) / 2:.1f}) rotate(-90)"
    drawn.append(f'<g transform="{turned}">{text(0, 0, up, fill=picture.MUTED)}</g>')
    return "".join(drawn)


def _names(steps: int, ticks: Sequence[str]) -> list[tuple[float, str]]:
    """Where the names of the horizontal axis stand; the last is kept, others give way."""
    names = list(ticks) or ["0", f"{steps - 1}"][: min(steps, 2)]
    spread = (steps - 1) / (len(names) - 1) if len(names) > 1 else 0.0
    places = [(_x(i * spread, steps), name) for i, name in enumerate(names) if name]
    if not places:
        return []
    *others, last = places
    kept: list[tuple[float, str]] = []
    for one in others:
        if all(_apart(one, other) for other in (*kept[-1:], last)):
            kept.append(one)
    return [*kept, last]


def _apart(one: tuple[float, str], other: tuple[float, str]) -> bool:
    return abs(one[0] - other[0]) >= (len(one[1]) + len(other[1]) + 2) / 2 * CHARACTER
