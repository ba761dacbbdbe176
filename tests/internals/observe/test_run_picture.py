"""A picture of a run has a box for each step, in the lane where it ran."""

from __future__ import annotations

import re

import pytest

from internals.graph import Timeline
from internals.graph.executor import Event
from internals.observe import draw_run

EVENTS = [
    Event("matmul", "thread 1, cpu", 0.010, 0.050),
    Event("x to sim:0", "thread 2, sim:0", 0.020, 0.030),
    Event("relu", "thread 2, sim:0", 0.030, 0.0300001),
]


def test_boxes_are_where_and_as_long_as_the_steps() -> None:
    picture = draw_run(Timeline(EVENTS), title="A run")
    boxes = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"', picture.svg)
    (x, y, width), (x2, y2, width2), (_, y3, width3) = [tuple(map(float, box)) for box in boxes]
    assert x2 - x == pytest.approx(width / 4, abs=0.1)
    assert width2 == pytest.approx(width / 4, abs=0.1)
    assert y < y2 == y3
    assert width3 == 0.8
    assert ">matmul</text>" in picture.svg
    assert ">relu</text>" not in picture.svg  # no room
    assert "thread 1, cpu busy for 40 ms" in picture.description


def test_waiting_is_not_work() -> None:
    picture = draw_run(Timeline([*EVENTS, Event("wait for x", "thread 1, cpu", 0.050, 0.090)]), title="A run")
    assert "thread 1, cpu busy for 40 ms" in picture.description
    fills = re.findall(r'fill="([^"]+)" stroke="[^"]+" stroke-width="1">', picture.svg)
    assert len(fills) == 3
    assert len(set(fills)) == 3


def test_nothing_is_no_picture() -> None:
    with pytest.raises(ValueError, match="this timeline is empty"):
        draw_run(Timeline(), title="x")
