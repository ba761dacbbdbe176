"""The picture of a timeline is its events: each in its lane, where and as long as it was."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from internals.device import Event, Sim
from internals.observe import draw_timeline
from internals.observe.timeline import LEFT, RIGHT, WIDTH, is_wait

SVG = "{http://www.w3.org/2000/svg}"


def spans(svg: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(f"{SVG}rect"))


def a_program(pinned: bool = False) -> list[Event]:
    sim = Sim(0)
    array = sim.from_host(np.ones((512, 512), np.float32), pinned=pinned)
    _ = (array @ array) + array
    sim.synchronise()
    return sim.timeline()


def test_every_event_is_a_span_of_its_length() -> None:
    events = a_program()
    drawn = spans(draw_timeline({"program": events}, title="t").svg)
    in_lanes = [event for lane in ("host", "queue", "copy") for event in events if event.lane == lane]
    scale = (WIDTH - LEFT - RIGHT) / max(event.end for event in events)
    assert len(drawn) == len(events)
    for rect, event in zip(drawn, in_lanes, strict=True):
        assert float(rect.get("x")) == pytest.approx(LEFT + event.start * scale, abs=0.01)
        assert float(rect.get("width")) == pytest.approx((event.end - event.start) * scale, abs=0.01)
        assert rect.find(f"{SVG}title").text.startswith(event.what)
    assert ["stroke-dasharray" in rect.attrib for rect in drawn] == [is_wait(event) for event in in_lanes]
    assert any(map(is_wait, events))


def test_lanes_do_not_overlap_and_unused_ones_are_left_out() -> None:
    events = [Event("launch", "host", 0.0, 1e-6), Event("add", "queue", 1e-6, 3e-6)]
    svg = draw_timeline({"t": events}, title="t").svg
    tops = {float(rect.get("y")) for rect in spans(svg)}
    assert len(tops) == 2
    assert ">copy</text>" not in svg
    assert ">µs</text>" in svg


def test_two_timelines_have_one_scale() -> None:
    slow, fast = a_program(), a_program(pinned=True)
    drawn = spans(draw_timeline({"slow": slow, "fast": fast}, title="t").svg)
    copies = [float(r.get("width")) for r in drawn if r.find(f"{SVG}title").text.startswith("copy to device:")]
    assert len(copies) == 2
    assert copies[0] == copies[1]


def test_it_is_told_in_words_how_busy_each_lane_was() -> None:
    events = [Event("synchronise", "host", 0.0, 0.5), Event("copy to host", "copy", 0.0, 0.25)]
    assert draw_timeline({"t": events}, title="t").description == (
        "t: 2 events in 500 ms; busy: host 0 ms, queue 0 ms, copy 250 ms."
    )


@pytest.mark.parametrize("timelines", [{}, {"t": []}])
def test_an_empty_timeline_is_refused(timelines: dict) -> None:
    with pytest.raises(ValueError, match="in which something happens"):
        draw_timeline(timelines, title="t")


def test_a_crowd_is_refused() -> None:
    events = [Event("add", "queue", i * 1e-6, (i + 1) * 1e-6) for i in range(30)]
    with pytest.raises(ValueError, match="30 events; a picture of more than 20"):
        draw_timeline({"a": events[:15], "b": events[15:]}, title="t", most=20)


def test_lanes_may_have_other_names() -> None:
    events = [Event("forward", "host", 0.0, 2.0), Event("bucket 0", "copy", 1.0, 3.0)]
    drawn = draw_timeline({"t": events}, title="t", lanes={"host": "rank 0", "copy": "network"})
    assert ">rank 0</text>" in drawn.svg
    assert ">network</text>" in drawn.svg
    assert ">copy</text>" not in drawn.svg
    assert drawn.description.endswith("rank 0 2 s, queue 0 s, network 2 s.")
