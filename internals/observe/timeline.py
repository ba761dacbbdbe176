"""Pictures of a timeline: what the host, the queue of a device and the link between them did, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10

from internals.device import Event
from internals.observe import picture
from internals.observe.picture import CHARACTER, Picture, text

WIDTH, LEFT, RIGHT, LANE, GAP = 620.0, 52.0, 12.0, 26.0, 5.0
LANES = ("host", "queue", "copy")
WAITS = ("wait for", "synchronise", "the queue is full")
"""How what a host does is called when it does nothing."""

COLOURS = {
    "host": (picture.MUTED, picture.FILL_FREED),
    "queue": (picture.LEAF, picture.FILL_LEAF),
    "copy": (picture.OP, picture.FILL_OP),
}
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def draw_timeline(
    timelines: Mapping[str, Sequence[Event]],
    *,
    title: str,
    most: int = 2000,
    lanes: Mapping[str, str] | None = None,
) -> Picture:
    """Draw what happened, and when; of a simulated accelerator one lane each for host, queue and copies.

    Time that the host waits is dashed. Several timelines have one scale, so that they can be compared.

    Parameters
    ----------
    timelines : mapping of name to what ``Sim.timeline()``, or that of another recorder of events, gave
    title : str
    most : int
        Refuse to draw more events.
    lanes : mapping of str to str, optional
        What the picture calls a lane, where not by its own name.

    Raises
    ------
    ValueError
        Nothing happened in one of them, or there are more than `most` events.
    """
    if not timelines or not all(timelines.values()):
        counts = {name: len(events) for name, events in timelines.items()}
        raise ValueError(f"draw_timeline: expected one or more timelines in which something happens, got {counts}.")
    count = sum(len(events) for events in timelines.values())
    if count > most:
        raise ValueError(
            f"draw_timeline: {count} events; a picture of more than {most} shows little. Draw a part, events[:100], or "
            f"pass most={count} to draw them all the same."
        )
    lane_names = {lane: lane for lane in LANES} | dict(lanes or {})
    end = max(event.end for events in timelines.values() for event in events)
    unit, called = next(((size, name) for size, name in UNITS if end >= size), UNITS[-1])
    scale = (WIDTH - LEFT - RIGHT) / (end or unit)
    body, down = [], 14.0
    for name, events in timelines.items():
        done = max(event.end for event in events)
        body.append(text(1, down, name, anchor="start", weight="bold"))
        body.append(text(WIDTH - RIGHT, down, f"{done / unit:.4g} {called}", anchor="end", fill=picture.MUTED))
        down += 10
        for lane in (lane for lane in LANES if any(event.lane == lane for event in events)):
            body.append(text(LEFT - 8, down + LANE / 2 + 4, lane_names[lane], anchor="end", fill=picture.MUTED))
            body += [_span(event, down, scale) for event in events if event.lane == lane]
            down += LANE + GAP
        down += 20
    body.append(_axis(down - 18, end, unit, called, scale))
    return Picture(
        "".join(body), WIDTH, down + 26, title=title, description=_in_words(timelines, unit, called, lane_names)
    )


def is_wait(event: Event) -> bool:
    """Whether the host did nothing but wait."""
    return event.lane == "host" and event.what.startswith(WAITS)


def _span(event: Event, top: float, scale: float) -> str:
    x, width = LEFT + event.start * scale, (event.end - event.start) * scale
    stroke, fill = COLOURS[event.lane]
    told = f"<title>{event.what}: {(event.end - event.start) * 1e6:.4g} µs from {event.start * 1e6:.4g} µs</title>"
    place = f'x="{x:.2f}" y="{top:.1f}" width="{width:.2f}" height="{LANE:.1f}"'
    if is_wait(event):
        box = f'<rect {place} fill="none" stroke="{picture.LINE}" stroke-dasharray="3 3">{told}</rect>'
    else:
        thin = 'stroke-width="0.5"' if width < 3 else 'stroke-width="1"'
        box = f'<rect {place} fill="{fill}" stroke="{stroke}" {thin}>{told}</rect>'
    label = "wait" if is_wait(event) else event.what
    written = len(label) * CHARACTER + 6 <= width
    return box + (text(x + width / 2, top + LANE / 2 + 4, label, fill=stroke) if written else "")


def _axis(top: float, end: float, unit: float, called: str, scale: float) -> str:
    step = _round_step(end / unit / 5)
    line = f'stroke="{picture.LINE}" stroke-width="1"'
    drawn = [f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{top:.1f}" y2="{top:.1f}" {line}/>']
    count = 0
    while count * step <= end / unit * 1.0001:
        x = LEFT + count * step * unit * scale
        drawn.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{top + 4:.1f}" {line}/>')
        drawn.append(text(x, top + 18, f"{count * step:.4g}", fill=picture.MUTED))
        count += 1
    drawn.append(text((LEFT + WIDTH - RIGHT) / 2, top + 36, called, fill=picture.MUTED))
    return "".join(drawn)


def _round_step(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... not below a value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.9999)


def _in_words(timelines: Mapping[str, Sequence[Event]], unit: float, called: str, lane_names: Mapping[str, str]) -> str:
    sentences = []
    for name, events in timelines.items():
        busy = {
            lane: sum(e.end - e.start for e in events if e.lane == lane and not is_wait(e)) / unit for lane in LANES
        }
        told = ", ".join(f"{lane_names[lane]} {seconds:.4g} {called}" for lane, seconds in busy.items())
        done = max(event.end for event in events) / unit
        sentences.append(f"{name}: {len(events)} events in {done:.4g} {called}; busy: {told}.")
    return " ".join(sentences)
