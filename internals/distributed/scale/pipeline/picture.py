"""Pipelines drawn: a lane for each stage, a box for each action, gaps where a stage stands idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from internals.distributed.scale.pipeline.schedule import Span, bubble
from internals.observe import Picture, picture
from internals.observe.picture import CHARACTER, text

WIDTH, LEFT, RIGHT, LANE, GAP = 660.0, 66.0, 12.0, 24.0, 4.0


def draw_pipeline(runs: Mapping[str, Sequence[Span]], *, title: str) -> Picture:
    """Draw one or more runs on one scale: forward passes in blue, backward in orange, numbered by micro-batch.

    Parameters
    ----------
    runs : mapping of name to spans
        What `simulate` or `Pipeline.timeline` gave.

    Raises
    ------
    ValueError
        Nothing happened in one of them.
    """
    if not runs or not all(runs.values()):
        raise ValueError(f"draw_pipeline: expected runs with spans, got {dict.fromkeys(runs, 0) or 'none'}")
    ends = {name: max(span.end for span in spans) for name, spans in runs.items()}
    scale = (WIDTH - LEFT - RIGHT) / max(ends.values())
    body, down, told = [], 14.0, []
    for name, spans in runs.items():
        share = f"idle {bubble(spans):.0%}"
        body.append(text(1, down, name, anchor="start", weight="bold"))
        body.append(text(WIDTH - RIGHT, down, share, anchor="end", fill=picture.MUTED))
        down += 9
        stages = 1 + max(span.action.stage for span in spans)
        for stage in range(stages):
            body.append(text(LEFT - 8, down + LANE / 2 + 4, f"stage {stage}", anchor="end", fill=picture.MUTED))
            body.append(_ground(down, ends[name] * scale))
            body += [_box(span, down, scale) for span in spans if span.action.stage == stage]
            down += LANE + GAP
        down += 22
        told.append(f"{name}: {stages} stages, {len(spans)} actions, {share}.")
    return Picture("".join(body), WIDTH, down - 14, title=title, description=" ".join(told))


def _ground(top: float, width: float) -> str:
    place = f'x="{LEFT}" y="{top:.1f}" width="{width:.1f}" height="{LANE}"'
    return f'<rect {place} fill="none" stroke="{picture.LINE}" stroke-width="0.5" stroke-dasharray="2 3"/>'


def _box(span: Span, top: float, scale: float) -> str:
    x, width = LEFT + span.start * scale, (span.end - span.start) * scale
    forward = span.action.kind == "F"
    fill, stroke = (picture.FILL_LEAF, picture.LEAF) if forward else (picture.FILL_OP, picture.OP)
    place = f'x="{x:.2f}" y="{top:.1f}" width="{width:.2f}" height="{LANE}"'
    name = f"{span.action}: {span.start:.4g} to {span.end:.4g}"
    label = str(span.action.micro_batch)
    written = text(x + width / 2, top + LANE / 2 + 4, label, fill=stroke) if len(label) * CHARACTER <= width else ""
    return f'<rect {place} fill="{fill}" stroke="{stroke}" stroke-width="1"><title>{name}</title></rect>{written}'
