"""Watchpoints: a run that stops, or notes, where a node's value first has what one is looking for.

In a graph, the line that made a node ran long before its value goes wrong, so a stack trace of the run says nothing. A
watchpoint is asked at each node that it names, as soon as the value is there, and knows the node's line. TensorFlow's
debugger (tfdbg) did this with filters such as ``has_inf_or_nan``.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals.device import Array, device_of
from internals.graph.node import GraphError, Node

Condition = Callable[[np.ndarray], bool]


class Stopped(GraphError):
    """A watchpoint stopped a run.

    Attributes
    ----------
    hit : Hit
    """

    def __init__(self, hit: Hit) -> None:
        super().__init__(str(hit))
        self.hit = hit


@dataclass(frozen=True)
class Hit:
    """A value that had what was looked for.

    Attributes
    ----------
    node, op : str
        A node inside a branch or a loop has the names of what it is in before its own: ``while_loop/body/mul``.
    where : str
        The line that made the node.
    why : str
        The condition.
    value : numpy.ndarray
        A copy.
    inputs : tuple of str
        What the node is made from.
    """

    node: str
    op: str
    where: str
    why: str
    value: np.ndarray
    inputs: tuple[str, ...]

    def __str__(self) -> str:
        made = f"{self.op} of {', '.join(self.inputs)}" if self.inputs else self.op
        return f"watch: {self.node} (made at {self.where}, {made}) {self.why}: {summary(self.value)}"


@dataclass
class Watch:
    """One watchpoint of a session; a call of `remove` ends it.

    Attributes
    ----------
    pattern : str
        Of names, with ``*`` and ``?``.
    condition : callable
    stop : bool
        Whether the run ends at the first hit.
    hits : list of Hit
        At most the last `most`.
    """

    pattern: str
    condition: Condition
    stop: bool = True
    most: int = 100
    hits: list[Hit] = field(default_factory=list)
    remove: Callable[[], None] = lambda: None

    def matches(self, name: str) -> bool:
        return fnmatch.fnmatchcase(name, self.pattern)

    def tell(self, node: Node, name: str, value: Array) -> None:
        """Look at a value of a node that goes by this name.

        Raises
        ------
        Stopped
            It has what was looked for, and this watchpoint stops.
        """
        host = np.asarray(device_of(value).to_host(value))
        if not self.condition(host):
            return
        inputs = tuple(one.name if isinstance(one, Node) else repr(one) for one in node.inputs)
        hit = Hit(name, node.op.name, node.where, _called(self.condition), host.copy(), inputs)
        self.hits.append(hit)
        del self.hits[: -self.most]
        if self.stop:
            raise Stopped(hit)


Asked = Callable[[Node, str], Callable[[Any], None] | None]
"""What is told the value of a node that goes by a name, if anything is."""


def watcher(watches: list[Watch]) -> Asked:
    """For a plan: what is told the value of a node."""

    def of(node: Node, name: str) -> Callable[[Any], None] | None:
        asked = [watch for watch in watches if watch.matches(name)]
        if not asked or isinstance(node.dtype, tuple) or node.op.name == "no_op":
            return None

        def told(value: Any) -> None:
            for watch in asked:
                watch.tell(node, name, value)

        return told

    return of


# Conditions


def has_nan(value: np.ndarray) -> bool:
    """Is or contains NaN"""
    return value.dtype.kind not in "biu" and bool(np.isnan(value).any())


def has_inf_or_nan(value: np.ndarray) -> bool:
    """Is or contains an infinity or NaN"""
    return value.dtype.kind not in "biu" and not bool(np.isfinite(value).all())


def outside(low: float, high: float) -> Condition:
    """A condition: some entry is not in [low, high]; NaN is not."""

    def condition(value: np.ndarray) -> bool:
        return not bool(((value >= low) & (value <= high)).all())

    condition.__doc__ = f"is not within [{low:g}, {high:g}]"
    return condition


def has_shape(*shape: int | None) -> Condition:
    """A condition: the shape is this; None stands for any size."""

    def condition(value: np.ndarray) -> bool:
        return len(shape) == value.ndim and all(a in (None, b) for a, b in zip(shape, value.shape, strict=True))

    condition.__doc__ = f"has shape {shape}"
    return condition


def always(value: np.ndarray) -> bool:
    """was computed"""
    return True


def _called(condition: Condition) -> str:
    words = (condition.__doc__ or f"meets {getattr(condition, '__name__', condition)}").split("\n")[0].rstrip(".")
    return words[0].lower() + words[1:]


def summary(value: np.ndarray) -> str:
    """A value in one line: dtype, shape, range, and how much of it is not finite."""
    kind = f"{value.dtype.name}{list(value.shape)}"
    if value.size == 0:
        return f"{kind}, empty"
    if value.size <= 4:
        return f"{kind} {np.array2string(value, precision=4, separator=', ').replace(chr(10), '')}"
    if value.dtype.kind in "biu":
        return f"{kind} from {value.min()} to {value.max()}"
    finite = value[np.isfinite(value)]
    span = f" from {finite.min():.4g} to {finite.max():.4g}" if finite.size else ""
    rest = [
        f"{count} {name}"
        for name, count in (("NaN", int(np.isnan(value).sum())), ("inf", int(np.isinf(value).sum())))
        if count
    ]
    return kind + span + (f", {' and '.join(rest)}" if rest else "")


# All values of a run


@dataclass(frozen=True)
class Seen:
    """One node of a run, by which name it goes, and its value."""

    node: Node
    name: str
    value: np.ndarray

    def __str__(self) -> str:
        return f"{self.name:32} {self.node.op.name:16} {summary(self.value):44} {self.node.where}"


class Listing(list[Seen]):
    """What all nodes of a run were, in the order in which they ran; prints as a table."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__

    def __getitem__(self, key: Any) -> Any:
        """By place, or by the node or its name; in a loop, the value of the first round."""
        if isinstance(key, int | slice):
            return super().__getitem__(key)
        name = key.name if isinstance(key, Node) else key
        found = next((seen for seen in self if seen.name == name), None)
        if found is None:
            raise KeyError(f"listing: {name!r} was not computed in this run.")
        return found.value
