"""Define-and-run: a graph first, then a session that runs it."""

from internals.graph.control import cond, scan, while_loop
from internals.graph.executor import Executor, Timeline
from internals.graph.function import Function
from internals.graph.gradients import gradients
from internals.graph.graph import Graph, assign, current, read
from internals.graph.node import GraphError, Node
from internals.graph.plan import Plan, needed
from internals.graph.session import Session
from internals.graph.specialise import specialise

__all__ = [
    "Executor",
    "Function",
    "Graph",
    "GraphError",
    "Node",
    "Plan",
    "Session",
    "Timeline",
    "assign",
    "cond",
    "current",
    "gradients",
    "needed",
    "read",
    "scan",
    "specialise",
    "while_loop",
]
