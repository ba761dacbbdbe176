"""Small bar charts as SVG. Each says in words what it shows, for who does not see it."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

WIDTH, HEIGHT, FOOT, HEAD = 340, 130, 22, 16


def bars(counts: Sequence[int], labels: Sequence[str], title: str) -> Markup:
    """A bar for each count.

    Parameters
    ----------
    counts, labels : sequences of the same length
    title : str
        What is counted, such as ``"Learners by mark"``.
    """
    if len(counts) != len(labels):
        raise ValueError(f"bars: {len(counts)} counts and {len(labels)} labels; give one label for each count.")
    most = max(counts, default=0) or 1
    step = WIDTH / max(len(counts), 1)
    words = "; ".join(f"{label}: {count}" for label, count in zip(labels, counts, strict=True))
    parts = [
        Markup('<svg class="ag-plot" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
            WIDTH, HEIGHT, f"{title}. {words}."
        )
    ]
    ground = HEIGHT - FOOT
    for place, (count, label) in enumerate(zip(counts, labels, strict=True)):
        tall = (ground - HEAD) * count / most
        left, middle = place * step + 2, (place + 0.5) * step
        if count:
            parts.append(
                Markup('<rect class="ag-bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                    left, ground - tall, step - 4, tall
                )
            )
            parts.append(_text(middle, ground - tall - 4, str(count)))
        parts.append(_text(middle, HEIGHT - 6, label))
    parts.append(Markup('<line x1="0" y1="{0}" x2="{1}" y2="{0}"/></svg>').format(ground, WIDTH))
    return Markup("").join(parts)


def _text(x: float, y: float, words: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>').format(x, y, escape(words))


def spread(values: Sequence[float], most: int = 8) -> tuple[list[int], list[str]]:
    """Seconds, sorted into spans that a person would name: how many took up to each."""
    edges = [60, 600, 3600, 6 * 3600, 24 * 3600, 3 * 86400, 7 * 86400, float("inf")][-most:]
    names = ["1 min", "10 min", "1 h", "6 h", "1 d", "3 d", "7 d", "more"][-most:]
    counts = [0] * len(edges)
    for value in values:
        counts[next(place for place, edge in enumerate(edges) if value <= edge)] += 1
    return counts, names
