"""A picture of a session's run: which step ran when, on which thread and device."""

from __future__ import annotations

from internals.graph.executor import Event, Timeline
from internals.observe import picture
from internals.observe.picture import CHARACTER, Picture, text

WIDTH, LEFT, RIGHT, LANE, GAP = 640.0, 104.0, 12.0, 28.0, 6.0


def draw_run(timeline: Timeline, *, title: str) -> Picture:
    """Draw what a session's run told a `Timeline`: a lane for each thread and device, a box for each step.

    A step whose name begins with "wait" is drawn apart, and not counted as work.

    Parameters
    ----------
    timeline : Timeline
    title : str

    Raises
    ------
    ValueError
        Nothing ran.
    """
    events = sorted(timeline.events, key=lambda event: event.start)
    if not events:
        raise ValueError("draw_run: this timeline is empty; pass it to session.run(..., timeline=timeline) first.")
    lanes = sorted({event.lane for event in events})
    begin, end = events[0].start, max(event.end for event in events)
    scale = (WIDTH - LEFT - RIGHT) / ((end - begin) or 1.0)
    body = []
    for number, lane in enumerate(lanes):
        top = 8 + number * (LANE + GAP)
        body.append(text(LEFT - 8, top + LANE / 2 + 4, lane, anchor="end", fill=picture.MUTED))
        body += [
            _box(event, LEFT + (event.start - begin) * scale, top, scale) for event in events if event.lane == lane
        ]
    bottom = 8 + len(lanes) * (LANE + GAP)
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom:.1f}" y2="{bottom:.1f}" stroke="{picture.LINE}"/>'
    body += [line, text(LEFT, bottom + 16, "0", fill=picture.MUTED)]
    body.append(text(WIDTH - RIGHT, bottom + 16, f"{(end - begin) * 1e3:.3g} ms", anchor="end", fill=picture.MUTED))
    busy = {
        lane: sum(event.end - event.start for event in events if event.lane == lane and not _waits(event))
        for lane in lanes
    }
    words = "; ".join(f"{lane} busy for {seconds * 1e3:.3g} ms" for lane, seconds in busy.items())
    told = f"{len(events)} steps in {(end - begin) * 1e3:.3g} ms: {words}."
    return Picture("".join(body), WIDTH, bottom + 26, title=title, description=told)


def _waits(event: Event) -> bool:
    return event.name.startswith("wait")


def _box(event: Event, x: float, top: float, scale: float) -> str:
    width = (event.end - event.start) * scale
    copied = " to " in event.name
    stroke, fill = (picture.LEAF, picture.FILL_LEAF) if copied else (picture.OP, picture.FILL_OP)
    if _waits(event):
        stroke, fill = picture.MUTED, picture.FILL_FREED
    told = f"<title>{event.name}: {(event.end - event.start) * 1e6:.0f} µs</title>"
    place = f'x="{x:.2f}" y="{top:.1f}" width="{max(width, 0.8):.2f}" height="{LANE:.1f}"'
    box = f'<rect {place} fill="{fill}" stroke="{stroke}" stroke-width="{1 if width > 3 else 0.5}">{told}</rect>'
    if len(event.name) * CHARACTER + 6 > width:
        return box
    return box + text(x + width / 2, top + LANE / 2 + 4, event.name, fill=stroke)
