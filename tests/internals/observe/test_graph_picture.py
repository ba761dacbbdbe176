"""The picture of a graph is what leads to the nodes that were asked for; a logarithmic chart has decades."""

from __future__ import annotations

import re

import numpy as np
import pytest

from internals.graph import Graph, gradients
from internals.observe import draw_graph, line_chart


def build() -> tuple[Graph, list]:
    graph = Graph()
    with graph:
        x, w = graph.placeholder((2, 3), name="x"), graph.variable(np.ones((3, 1)), dtype=np.float32, name="w")
        y = ((x @ w) * 2.5).tanh()
        x.exp()
        return graph, [y, *gradients(y, [w])]


def test_every_needed_node_is_a_box_and_every_input_an_arrow() -> None:
    graph, fetches = build()
    shown = [node for node in graph.nodes if node.op.name != "exp"]
    picture = draw_graph(fetches, names={fetches[0]: "y"})
    assert picture.svg.count("<rect") == len(shown)
    links = sum(hasattr(value, "op") for node in shown for value in node.inputs)
    assert picture.svg.count("marker-end") == links
    assert "mul(, 2.5)" in picture.svg
    assert "tanh = y" in picture.svg
    assert "matmul of x and w" in picture.description


def test_a_large_graph_is_refused() -> None:
    _, fetches = build()
    with pytest.raises(ValueError, match=r"has \d+ nodes"):
        draw_graph(fetches, most=3)


def test_a_decade_is_the_same_height_everywhere() -> None:
    picture = line_chart({"a": [1e-3, 1e-2, 1e-1, 1.0]}, title="t", across="x", up="y", logarithmic=True, ticks="abcd")
    points = re.search(r'<polyline points="([^"]+)"', picture.svg).group(1)
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert np.allclose(np.diff(heights), heights[1] - heights[0], atol=0.11)
    assert all(f">{label}</text>" in picture.svg for label in ("a", "d", "1e-3", "1e0"))


def test_what_has_no_logarithm_is_refused() -> None:
    with pytest.raises(ValueError, match="0 has no place on a logarithmic axis"):
        line_chart({"a": [0.0, 1.0]}, title="t", across="x", up="y", logarithmic=True)
