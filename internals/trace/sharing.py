"""Writes in place while a function is traced: to a Node they give another Node, so nobody else may have the old one.

``b = a; b += 1`` changes both in eager code, as both are one Tensor. A graph has no memory to share. That nobody else
has it can't be proved, but the names of the functions that are running can be looked through, and views are nodes. What
comes out of a branch or a loop may be what went in, so that is noted where it is made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from internals.graph import Node
from internals.graph.node import STOP_GRADIENT
from internals.trace.errors import TraceError

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"


def refuse_shared(name: str, node: Node, where: str, target: str = "") -> None:
    """Refuse an in-place operation on a node that goes by several names, or shares its memory with another.

    Raises
    ------
    TraceError
    """
    others = [one for one in _alike(node) if one is not node]
    names = sorted(_names_of([node]) | ({target} if target else set()))
    also = sorted(_names_of(others) - set(names))
    if len(names) + len(also) > 1 and (names or len(also) > 1):
        how = "may be" if also else "are"
        raise TraceError(
            f"{where}: in-place {name} writes into {' and '.join([*names, *also])} at once, since they {how} one "
            "Tensor; a graph has no memory that they could share. Write x = x + y, or clone() the one."
        )
    viewed = node if _is_view(node) else next((one for one in node.graph.nodes if _is_view_of(one, node)), None)
    if viewed is not None:
        raise TraceError(
            f"{where}: in-place {name} of a Tensor that shares its memory with another, by {viewed.op.name} (made at "
            f"{viewed.where}), which the graph would read as it was. Write x = x + y, or clone() the one."
        )


def refuse_shared_in(state: Sequence[Any], names: Sequence[str], moved: Collection[str], where: str) -> None:
    """The same for the variables that a branch or a loop writes into in place."""
    for name, value in zip(names, state, strict=True):
        if name in moved and isinstance(value, Node):
            refuse_shared("assignment", value, where, name)


def refuse_shared_rounds(names: Sequence[str], leaves: Sequence[Any], moved: Collection[str], where: str) -> None:
    """The same for the next round of a loop, for which these values are what the variables hold."""
    nodes = {name: leaf for name, leaf in zip(names, leaves, strict=True) if isinstance(leaf, Node)}
    for name in moved:
        if name not in nodes:
            continue
        alike = _alike(nodes[name])
        others = {other for other, leaf in nodes.items() if other != name and any(leaf is one for one in alike)}
        others |= _names_of([one for one in alike if one.graph is not nodes[name].graph]) - {name}
        if others:
            raise TraceError(
                f"{where}: in-place assignment writes into {' and '.join([name, *sorted(others)])} at once in the next "
                "round, since they may be one Tensor then. Write x = x + y, or clone() the one."
            )


def _is_view(node: Node) -> bool:
    return node.op.view or node.op is STOP_GRADIENT


def _is_view_of(one: Node, node: Node) -> bool:
    return _is_view(one) and one.inputs[0] is node


def may_be(result: Any, sources: Sequence[Any]) -> None:
    """Note that what came out of a branch or a loop is, on some way through it, one of these."""
    if isinstance(result, Node):
        known = _noted(result)
        known.setdefault(result, []).extend(one for one in sources if isinstance(one, Node) and one is not result)


def _noted(node: Node) -> dict[Node, list[Node]]:
    """What is known, kept by the outermost graph."""
    graph: Any = node.graph
    while getattr(graph, "outer", None) is not None:
        graph = graph.outer
    found: dict[Node, list[Node]] = graph.__dict__.setdefault("_may_be", {})
    return found


def _alike(node: Node) -> list[Node]:
    """The nodes that may stand for the same Tensor as this one."""
    known = _noted(node)
    down = _reached([node], lambda one: known.get(one, []))
    return _reached(down, lambda one: [other for other, sources in known.items() if any(s is one for s in sources)])


def _reached(nodes: Sequence[Node], following: Callable[[Node], Sequence[Node]]) -> list[Node]:
    found, stack = list(nodes), list(nodes)
    while stack:
        for one in following(stack.pop()):
            if not any(one is other for other in found):
                found.append(one)
                stack.append(one)
    return found


def _names_of(nodes: Sequence[Node]) -> set[str]:
    """What the functions that are running call these nodes, this package's own functions left out."""
    found: set[str] = set()
    frame: Any = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            found.update(name for name, value in frame.f_locals.items() if any(value is node for node in nodes))
        frame = frame.f_back
    return found
