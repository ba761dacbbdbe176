"""Looking inside: pictures of what is running, drawn from it."""

from internals.observe.chart import line_chart
from internals.observe.graph import draw_graph
from internals.observe.matrix import draw_matrices
from internals.observe.picture import Picture
from internals.observe.tape import draw_tape, nodes_of

__all__ = ["Picture", "draw_graph", "draw_matrices", "draw_tape", "line_chart", "nodes_of"]
