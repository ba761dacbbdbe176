"""The picture of a tape is the tape: every node and arrow of it, nothing more, readable and described in words."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from internals import Tensor, no_grad
from internals.autodiff import checkpoint, custom_vjp
from internals.observe import draw_tape, line_chart, nodes_of
from internals.observe.layout import layered

SVG = "{http://www.w3.org/2000/svg}"


def scalar(value: float) -> Tensor:
    return Tensor(value, requires_grad=True)


def drawn(picture: object) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg)


def boxes(picture: object) -> list[str]:
    """The first line of each box."""
    return [
        group.find(f"{SVG}text").text
        for group in drawn(picture).iter(f"{SVG}g")
        if group.find(f"{SVG}rect") is not None
    ]


def arrows(picture: object) -> int:
    return sum("marker-end" in path.attrib for path in drawn(picture).iter(f"{SVG}path"))


def test_every_node_is_a_box_and_every_input_an_arrow() -> None:
    x, w, b = scalar(3.0), scalar(2.0), scalar(1.0)
    h = x * w + b
    y = h.tanh() * x + h
    picture = draw_tape(y, names={"x": x, "w": w, "b": b, "h": h, "y": y})
    assert sorted(boxes(picture)) == ["1: mul", "2: add = h", "3: tanh", "4: mul", "5: add = y", "b", "w", "x"]
    assert arrows(picture) == 9


def test_a_value_used_twice_by_one_node_has_two_arrows() -> None:
    x = scalar(3.0)
    assert arrows(draw_tape(x + x)) == 2


def test_hooks_custom_rules_and_checkpoints_are_shown() -> None:
    @custom_vjp
    def doubled(x: Tensor) -> tuple[Tensor, None]:
        return x * 2, None

    doubled.backward(lambda saved, g: g * 2)
    x = scalar(3.0)
    h = doubled(x)
    h.register_hook(lambda g: None)
    x.register_hook(lambda g: None)
    hook = x.register_hook(lambda g: None)
    y = checkpoint(lambda h: (h.tanh() * 3.0).exp(), h)
    svg = draw_tape(y, names={"x": x}).svg
    assert [box.split(": ")[-1] for box in boxes(draw_tape(y))] == ["leaf", "doubled", "tanh", "mul", "exp"]
    assert svg.count(">1 hook<") == 1
    assert svg.count(">2 hooks<") == 1
    assert svg.count(">to be recomputed<") == 2  # mul keeps nothing that would be
    assert ">keeps 1 of 1 tensors<" in svg
    assert ">freed<" not in svg
    hook.remove()
    y.backward()
    svg = draw_tape(y, names={"x": x}).svg
    assert ">to be recomputed<" not in svg
    assert ">freed<" in svg


def test_a_constant_is_no_box() -> None:
    x = scalar(3.0)
    assert boxes(draw_tape(x * 2.0, names={"x": x})) == ["x", "1: mul"]


def test_what_a_node_keeps_is_said_and_so_is_that_it_was_freed() -> None:
    x = scalar(3.0)
    y = x.tanh()
    assert "keeps out" in draw_tape(y).svg
    y.backward()
    picture = draw_tape(y)
    assert "freed" in picture.svg
    assert arrows(picture) == 0


def test_the_title_and_the_description_say_what_is_drawn() -> None:
    x, w = scalar(3.0), scalar(2.0)
    picture = draw_tape((x * w).tanh(), names={"x": x, "w": w}, title="A product")
    root = drawn(picture)
    assert root.find(f"{SVG}title").text == "A product"
    assert root.find(f"{SVG}desc").text == "node 1 (mul): made from x and w; node 2 (tanh): made from node 1 (mul)."
    ids = {e.get("id") for e in (root.find(f"{SVG}title"), root.find(f"{SVG}desc"))}
    assert set(root.get("aria-labelledby").split()) == ids


def test_names_are_escaped() -> None:
    x = scalar(3.0)
    picture = draw_tape(x * x, names={"<script>&": x})
    assert boxes(picture)[0] == "<script>&"
    assert "<script>" not in picture.svg


def test_colours_come_from_the_page_so_that_both_themes_can_show_it() -> None:
    x = scalar(3.0)
    painted = set(re.findall(r'(?:fill|stroke)="([^"]+)"', draw_tape(x * x).svg + chart().svg))
    assert {p for p in painted if not p.startswith("var(--course-")} <= {"none"}


def test_cotangents_are_written_into_their_boxes() -> None:
    x, w = scalar(3.0), scalar(2.0)
    y = x * w
    assert "cotangent 1.5" in draw_tape(y, cotangents={y.node: np.float32(1.5)}).svg


def test_two_pictures_on_a_page_share_no_id() -> None:
    x = scalar(3.0)
    found = [re.findall(r' id="([^"]+)"', draw_tape(x * x).svg) for _ in range(2)]
    assert found[0]
    assert not set(found[0]) & set(found[1])


def test_a_tensor_without_a_tape_is_refused() -> None:
    with no_grad():
        y = scalar(3.0) * 2.0
    with pytest.raises(ValueError, match="no tape"):
        draw_tape(y)


def test_a_tape_too_large_to_read_is_refused_and_a_deep_one_is_walked_without_recursion() -> None:
    y = scalar(1.0)
    for _ in range(5000):
        y = y + 1.0
    assert len(nodes_of(y)) == 5001
    with pytest.raises(ValueError, match="5001 nodes"):
        draw_tape(y)


def test_boxes_of_a_layer_do_not_touch_and_lines_go_up() -> None:
    rng = np.random.default_rng()
    sizes = {i: (float(rng.uniform(40, 150)), float(rng.uniform(30, 60))) for i in range(30)}
    edges = [(i, int(j)) for i in range(1, 30) for j in rng.integers(0, i, size=2)]
    layout = layered(sizes, edges)
    for (a, (ax, ay)), (b, (bx, by)) in itertools.combinations(layout.centres.items(), 2):
        apart_across = abs(ax - bx) >= (sizes[a][0] + sizes[b][0]) / 2
        apart_down = abs(ay - by) >= (sizes[a][1] + sizes[b][1]) / 2
        assert apart_across or apart_down, (a, b)
    for line in layout.lines:
        heights = [y for _, y in line]
        assert heights == sorted(heights, reverse=True)
    for box, (x, y) in layout.centres.items():
        width, height = sizes[box]
        assert x - width / 2 >= -1e-6
        assert x + width / 2 <= layout.width + 1e-6
        assert y - height / 2 >= -1e-6
        assert y + height / 2 <= layout.height + 1e-6


def chart() -> object:
    return line_chart({"one": [0, 3, 1], "other": [2, 2, 2]}, title="Live memory", across="step", up="MB")


def test_a_chart_draws_every_number_where_it_belongs() -> None:
    lines = list(drawn(chart()).iter(f"{SVG}polyline"))
    assert len(lines) == 2
    points = [tuple(map(float, p.split(","))) for p in lines[0].get("points").split()]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x0 < x1 < x2
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert (y0 - y1) == pytest.approx(3 * (y0 - y2), abs=0.5)


def test_series_are_told_apart_by_more_than_colour() -> None:
    dashes = [line.get("stroke-dasharray") for line in drawn(chart()).iter(f"{SVG}polyline")]
    assert len(set(dashes)) == 2


def test_a_chart_takes_arrays_as_it_takes_lists() -> None:
    arrays = {"one": np.array([0.0, 3.0, 1.0]), "other": np.full(3, 2.0)}
    made = line_chart(arrays, title="Live memory", across="step", up="MB")
    assert [line.get("points") for line in drawn(made).iter(f"{SVG}polyline")] == [
        line.get("points") for line in drawn(chart()).iter(f"{SVG}polyline")
    ]


@pytest.mark.parametrize(
    "series", [{}, {"empty": []}, {"empty": np.zeros(0)}, {"lost": [1.0, np.nan]}, {name: [1] for name in "abcd"}]
)
def test_a_chart_of_nothing_or_of_too_much_is_refused(series: dict) -> None:
    with pytest.raises(ValueError, match="line_chart"):
        line_chart(series, title="t", across="a", up="u")


@pytest.mark.parametrize(("count", "ticks", "named"), [
    (89, ["-0.8", "1.4"], ["-0.8", "1.4"]), (5, list("abcde"), list("abcde")), (7, [], ["0", "6"]), (1, [], ["0"]),
    (1, ["only"], ["only"]), (60, ["1", *[""] * 20, "between", *[""] * 37, "60"], ["1", "between", "60"]),
    (3, ["one", "two"], ["one", "two"]), (60, [f"{i:.4f}" for i in range(60)], None),
])  # fmt: skip
def test_names_of_the_horizontal_axis(count: int, ticks: list[str], named: list[str] | None) -> None:
    """From the first index to the last, and none over another."""
    picture = line_chart({"a": [float(i) for i in range(count)]}, title="t", across="the axis", up="y", ticks=ticks)
    points = re.search(r'<polyline points="([^"]+)"', picture.svg)
    assert points is not None
    first, last = (float(points[1].split()[i].partition(",")[0]) for i in (0, -1))
    found = re.findall(r'<text x="([\d.]+)" y="254.0" text-anchor="middle"[^>]*>([^<]+)</text>', picture.svg)
    places, names = [float(x) for x, _ in found], [name for _, name in found]
    assert names == named if named is not None else 2 < len(names) < len(ticks)
    assert names[-1] == (ticks[-1] if ticks else str(count - 1))
    assert (places[0], places[-1]) == (first, last)
    for left, right in itertools.pairwise(zip(places, names, strict=True)):
        assert right[0] - left[0] > (len(left[1]) + len(right[1])) / 2 * 7.25
