"""What a server did, drawn: each request as it waits and runs, and which of them ran together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from internals.deploy.serve.batcher import Batcher, Request
from internals.observe.picture import FILL_OP, LINE, MUTED, OP, Picture, text

WIDTH, LEFT, RIGHT, ROW = 640.0, 8.0, 12.0, 7.0


class Span(NamedTuple):
    """What became of a request, in seconds of one clock.

    Attributes
    ----------
    arrived, began, ended : float
        When it came, when its batch was given to a worker, and when that was done.
    batch : int
        Which batch it was in.
    """

    arrived: float
    began: float
    ended: float
    batch: int


class Watched(Batcher):
    """A batcher that remembers what it gave out, and when; see `Batcher`."""

    def __init__(self, *, size: int = 32, wait: float = 0.0, queue: int = 1024, linger: float = 0.0) -> None:
        super().__init__(size=size, wait=wait, queue=queue, linger=linger)
        self.taken: list[tuple[float, list[Request]]] = []

    def take(self, now: float) -> list[Request]:
        """See `Batcher`."""
        batch = super().take(now)
        if batch:
            self.taken.append((now, batch))
        return batch

    def spans(self, ends: Sequence[float]) -> list[Span]:
        """What became of the requests, if one worker ran the batches one after the other.

        Parameters
        ----------
        ends : sequence of float
            When each batch was done, in order; batches that are not done yet are left out.
        """
        return [
            Span(one.arrived, began, ended, number)
            for number, ((began, batch), ended) in enumerate(zip(self.taken, ends, strict=False))
            for one in batch
        ]


def draw_batches(runs: Mapping[str, Sequence[Span]], *, title: str, most: int = 200) -> Picture:
    """Draw requests in the order in which they came: a thin line while one waits, a bar while it runs.

    Bars that stand under each other, and have one frame, ran as one batch. All runs have one scale.

    Parameters
    ----------
    runs : mapping of name to spans
    title : str
    most : int
        Refuse to draw more requests.

    Raises
    ------
    ValueError
        There is nothing to draw, or too much.
    """
    counts = {name: len(spans) for name, spans in runs.items()}
    if not counts or not all(counts.values()):
        raise ValueError(f"draw_batches: expected runs with at least one request each, got {counts}.")
    if sum(counts.values()) > most:
        raise ValueError(f"draw_batches: {sum(counts.values())} requests; draw a part, spans[:50], or pass most=.")
    starts = {name: min(one.arrived for one in spans) for name, spans in runs.items()}
    longest = max(max(one.ended for one in spans) - starts[name] for name, spans in runs.items())
    scale = (WIDTH - LEFT - RIGHT) / (longest or 1.0)
    body, told, down = [], [], 14.0
    for name, spans in runs.items():
        ordered = sorted(spans, key=lambda one: (one.arrived, one.batch))
        took = max(one.ended for one in spans) - starts[name]
        batches = len({one.batch for one in spans})
        mean = sum(one.ended - one.arrived for one in spans) / len(spans)
        words = f"{len(spans)} requests in {batches} batches, {1000 * took:.3g} ms; a request {1000 * mean:.3g} ms"
        body += [text(1, down, name, anchor="start", weight="bold"), text(WIDTH - RIGHT, down, words, anchor="end")]
        told.append(f"{name}: {words}")
        body += _run(ordered, starts[name], down + 8, scale)
        down += 8 + ROW * len(ordered) + 26
    return Picture(
        "".join(body) + _axis(down - 14, longest, scale),
        WIDTH,
        down + 8,
        title=title,
        description=f"{'. '.join(told)}.",
    )


def _run(ordered: Sequence[Span], start: float, top: float, scale: float) -> list[str]:
    parts, rows = [], dict[int, list[int]]()
    for row, one in enumerate(ordered):
        x, y = LEFT + (one.arrived - start) * scale, top + ROW * row
        began, ended = LEFT + (one.began - start) * scale, LEFT + (one.ended - start) * scale
        parts.append(
            f'<line x1="{x:.1f}" x2="{began:.1f}" y1="{y + ROW / 2:.1f}" y2="{y + ROW / 2:.1f}" stroke="{MUTED}"/>'
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y + 1:.1f}" y2="{y + ROW - 1:.1f}" stroke="{MUTED}"/>'
            f'<rect x="{began:.1f}" y="{y + 1:.1f}" width="{max(1.0, ended - began):.1f}" height="{ROW - 2:.1f}" '
            f'fill="{FILL_OP}" stroke="{OP}" stroke-width="0.6"/>'
        )
        rows.setdefault(one.batch, []).append(row)
    for number, (first, last) in {n: (min(found), max(found)) for n, found in rows.items()}.items():
        one = next(span for span in ordered if span.batch == number)
        x, y = LEFT + (one.began - start) * scale, top + ROW * first
        parts.append(
            f'<rect x="{x - 1.5:.1f}" y="{y - 0.5:.1f}" width="{max(1.0, (one.ended - one.began) * scale) + 3:.1f}" '
            f'height="{ROW * (last - first + 1) + 1:.1f}" rx="2" fill="none" stroke="{OP}"/>'
        )
    return parts


def _axis(top: float, longest: float, scale: float) -> str:
    step = 10 ** math.floor(math.log10(longest)) if longest > 0 else 1.0
    step = next(one for one in (step / 5, step / 2, step, 2 * step) if longest / one <= 6)
    right = LEFT + longest * scale
    parts = [f'<line x1="{LEFT}" x2="{right:.1f}" y1="{top:.1f}" y2="{top:.1f}" stroke="{LINE}"/>']
    for number in range(int(longest / step) + 1):
        x = LEFT + number * step * scale
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{top + 4:.1f}" stroke="{LINE}"/>')
        name = f"{1000 * number * step:.4g}" + (" ms" if number == int(longest / step) else "")
        parts.append(
            text(x, top + 17, name, fill=MUTED, anchor="start" if x < 20 else "middle" if x < WIDTH - 60 else "end")
        )
    return "".join(parts)
