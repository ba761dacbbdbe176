"""Walks over a bowl: points are where they should be, ellipses are level lines, and what can't be drawn is refused."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from internals.observe import draw_paths

SVG = "{http://www.w3.org/2000/svg}"
TURN = np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
BOWL = TURN @ np.diag([1.0, 25.0]) @ TURN.T


def points_of(line: ElementTree.Element) -> np.ndarray:
    return np.array([[float(n) for n in pair.split(",")] for pair in line.get("points", "").split()])


def test_both_axes_have_one_scale_and_up_is_up() -> None:
    walk = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    drawn = points_of(ElementTree.fromstring(draw_paths({"a": walk}, np.eye(2), title="t").svg)[-3 - len(walk)])
    across, up = np.diff(drawn, axis=0)
    assert across[0] > 0
    assert across[1] == 0
    assert up[0] == 0
    assert up[1] == pytest.approx(-across[0], abs=0.2)


def test_ellipses_are_level_lines() -> None:
    start = np.array([2.0, 1.0])
    tree = ElementTree.fromstring(draw_paths({"a": [start, [0.0, 0.0]]}, BOWL, title="t").svg)
    drawn = points_of(next(tree.iter(f"{SVG}polyline")))
    scale = np.linalg.norm(drawn[0] - drawn[1]) / np.linalg.norm(start)
    outer, inner, *_ = tree.iter(f"{SVG}ellipse")
    x, y, turn = map(float, re.findall(r"-?[\d.]+", outer.get("transform", "")))
    assert [x, y] == pytest.approx(drawn[1], abs=0.1)
    along = np.array([np.cos(np.radians(turn)), -np.sin(np.radians(turn))])
    across = np.array([-along[1], along[0]])
    top = start @ BOWL @ start / 2
    for axis, name in ((along, "rx"), (across, "ry")):
        point = axis * float(outer.get(name, 0)) / scale
        assert point @ BOWL @ point / 2 == pytest.approx(top, rel=0.02)
        assert float(inner.get(name, 0)) == pytest.approx(float(outer.get(name, 0)) / 2, rel=0.01)


def test_the_description_tells_the_heights() -> None:
    assert "a: 2 points, from height 2.5 to 0" in draw_paths({"a": [[2.0, 1.0], [0, 0]]}, np.eye(2), title="t").svg


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paths", "bowl", "why"),
    [
        ({}, np.eye(2), "1 to 3 walks"),
        ({"a": np.zeros((3, 3))}, np.eye(2), r"\(3, 3\)"),
        ({"a": np.zeros((0, 2))}, np.eye(2), r"\(0, 2\)"),
        ({"a": [[np.inf, 0.0]]}, np.eye(2), "not finite"),
        ({"a": [[1.0, 0.0]]}, -np.eye(2), "positive eigenvalues"),
        ({"a": [[1.0, 0.0]]}, [[1.0, 2.0], [0.0, 1.0]], "symmetric"),
        ({name: [[1.0, 0.0]] for name in "abcd"}, np.eye(2), "1 to 3 walks"),
    ],
)
def test_what_can_not_be_drawn_is_refused(paths: dict[str, object], bowl: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        draw_paths(paths, bowl, title="t")
