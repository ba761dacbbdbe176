"""Define-and-run: a graph first, then a session that runs it."""

from internals.graph.gradients import gradients
from internals.graph.graph import Graph, assign, current, read
from internals.graph.node import GraphError, Node
from internals.graph.session import Session
from internals.graph.specialise import needed, specialise

__all__ = [
    "Graph",
    "GraphError",
    "Node",
    "Session",
    "assign",
    "current",
    "gradients",
    "needed",
    "read",
    "specialise",
]
