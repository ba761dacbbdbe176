"""Looking inside: pictures of what is running, drawn from it."""

from internals.observe.chart import line_chart
from internals.observe.graph import draw_graph
from internals.observe.matrix import draw_matrices
from internals.observe.memory import draw_pool
from internals.observe.paths import draw_paths
from internals.observe.picture import Picture
from internals.observe.run import draw_run
from internals.observe.storage import draw_storage
from internals.observe.tape import draw_tape, nodes_of
from internals.observe.timeline import draw_timeline

__all__ = [
    "Picture",
    "draw_graph",
    "draw_matrices",
    "draw_paths",
    "draw_pool",
    "draw_run",
    "draw_storage",
    "draw_tape",
    "draw_timeline",
    "line_chart",
    "nodes_of",
]
