"""Define-and-run: a graph first, then a session that runs it."""

from internals.graph.control import cond, scan, while_loop
from internals.graph.executor import Executor, Timeline
from internals.graph.function import Function
from internals.graph.gradients import gradients
from internals.graph.graph import Graph, assign, assign_add, assign_sub, current, read
from internals.graph.graphdef import from_json, to_json
from internals.graph.graphtext import from_text, to_text
from internals.graph.node import GraphError, Node
from internals.graph.optimize import apply_gradients, minimize
from internals.graph.pieces import swap
from internals.graph.plan import Plan, needed
from internals.graph.session import Session
from internals.graph.specialise import specialise
from internals.graph.watch import Stopped, Watch, always, has_inf_or_nan, has_nan, has_shape, outside

__all__ = [
    "Executor",
    "Function",
    "Graph",
    "GraphError",
    "Node",
    "Plan",
    "Session",
    "Stopped",
    "Timeline",
    "Watch",
    "always",
    "apply_gradients",
    "assign",
    "assign_add",
    "assign_sub",
    "cond",
    "current",
    "from_json",
    "from_text",
    "gradients",
    "has_inf_or_nan",
    "has_nan",
    "has_shape",
    "minimize",
    "needed",
    "outside",
    "read",
    "scan",
    "specialise",
    "swap",
    "to_json",
    "to_text",
    "while_loop",
]
