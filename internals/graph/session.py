"""Running a graph: which nodes, in which order, on which values.

A run names what it wants (fetches) and what it brings (feeds). The session finds what is needed, turns it once into a
flat list of kernel calls on numbered slots, keeps that list, and from then on a run is one loop over it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from internals.device import Array, Device, cpu, device_of, move
from internals.device import device as device_called
from internals.graph.executor import Executor, Timeline
from internals.graph.graph import ASSIGN, PLACEHOLDER, READ, Graph
from internals.graph.node import GraphError, Node, spec_text
from internals.graph.passes import rewrite
from internals.graph.plan import Kernel, Plan, needed
from internals.graph.specialise import specialise
from internals.ops.table import is_array
from internals.tensor import Tensor


class Session:
    """Runs a graph, and keeps the values of its variables from run to run.

    Parameters
    ----------
    graph : Graph
    passes : sequence of str
        How to rewrite what is to run; see `internals.graph.passes`. None at all: results are those of eager code to the
        bit.
    threads : int
        How many steps may run at once. Values do not depend on it.
    device : str or Device
        Where nodes run that were not asked to run elsewhere, by `Graph.device`.

    Examples
    --------
    >>> with Session(graph) as session:
    ...     session.initialise()
    ...     loss_value, _ = session.run([loss, train], {x: batch, y: labels})
    """

    def __init__(
        self,
        graph: Graph,
        *,
        passes: Sequence[str] = ("fold", "simplify", "share"),
        threads: int = 1,
        device: str | Device = cpu,
    ) -> None:
        self.graph, self.passes, self.device = graph, tuple(passes), device_called(device)
        self.executor = Executor(threads)
        self.values: dict[str, Array] = {}
        self._plans: dict[Any, Plan] = {}
        self._lock = threading.RLock()
        self._closed = False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._closed:
            self.close()

    def close(self) -> None:
        """Forget the variables.

        Raises
        ------
        GraphError
            It is closed already.
        """
        if self._closed:
            raise GraphError("session: it is closed already.")
        self._closed = True
        self.values.clear()
        self._plans.clear()

    def initialise(self) -> None:
        """Give every variable its initial value."""
        self._check_open()
        for node in self.graph.variables:
            self.values[node.name] = move(node.attrs["initial"], node.device or self.device).copy()

    def run(self, fetches: Any, feeds: Mapping[Node, Any] | None = None, *, timeline: Timeline | None = None) -> Any:
        """Compute nodes.

        Parameters
        ----------
        fetches : Node, or a list or tuple of them
        feeds : mapping of Node to array-like
            A value for each placeholder that is needed; any other node may be fed too, and is not computed then.
        timeline : Timeline, optional
            Is told what ran when.

        Returns
        -------
        numpy.ndarray, or a list of them
            None for an operation that gives no value.

        Raises
        ------
        GraphError
            A needed placeholder is not fed, a value does not fit, a variable has no value yet, a fetch is of another
            graph, or the session is closed.
        """
        self._check_open()
        wanted = list(fetches) if isinstance(fetches, list | tuple) else [fetches]
        given = {node: self._fed(node, value) for node, value in (feeds or {}).items()}
        found = self.executor.run(self.plan(wanted, given), list(given.values()), self.values, timeline)
        answers = [one if one is None else _on_host(one) for one in found]
        return answers if isinstance(fetches, list | tuple) else answers[0]

    def plan(self, fetches: Sequence[Node], feeds: Mapping[Node, Array]) -> Plan:
        """The run of these fetches with feeds of these shapes, made ready; kept for the next time."""
        key = (tuple(map(id, fetches)), tuple((id(node), value.shape) for node, value in feeds.items()))
        plan = self._plans.get(key)
        if plan is None:
            with self._lock:
                plan = self._plans.get(key) or self._planned(fetches, feeds)
                self._plans[key] = plan
        return plan

    # Making a plan

    def _planned(self, fetches: Sequence[Node], feeds: Mapping[Node, Array]) -> Plan:
        for node in fetches:
            if not isinstance(node, Node):
                raise GraphError(f"session: a fetch must be a node, got {type(node).__name__}.")
            if node.graph is not self.graph:
                raise GraphError(f"session: {node.name} (made at {node.where}) is a node of another graph.")
        nodes = needed(fetches, set(feeds))
        for node in nodes:
            if node.op is PLACEHOLDER and node not in feeds:
                raise GraphError(
                    f"session: {node.name} (made at {node.where}), a placeholder of "
                    f"{spec_text(node.shape, node.dtype)}, is needed and was not fed. Give it a value: "
                    f"session.run(..., {{{node.name}: value}})."
                )
        shapes = {node: value.shape for node, value in feeds.items() if node in set(nodes)}
        graph, there = specialise(nodes, shapes)
        changed = rewrite(graph.nodes, [there[node] for node in fetches], self.passes).there
        return Plan(
            [changed.get(there[node]) if node in there else None for node in feeds],
            [changed[there[node]] for node in fetches],
            place=self.device,
            stateful={ASSIGN: self._assign, READ: self._read},
        )

    def _assign(self, node: Node) -> Kernel:
        name = node.inputs[0].name

        def assign(before: Array, value: Array) -> Array:
            self.values[name] = value
            return value

        return assign

    def _read(self, node: Node) -> Kernel:
        name = node.inputs[0].name
        return lambda before: self.values[name]

    # Values

    def _fed(self, node: Node, value: Any) -> Array:
        if not isinstance(node, Node):
            raise GraphError(f"session: the keys of feeds are nodes, got {type(node).__name__}.")
        if node.graph is not self.graph:
            raise GraphError(f"session: {node.name} (made at {node.where}) is fed, but is a node of another graph.")
        array = value.data if isinstance(value, Tensor) else value
        array = array if is_array(array) else np.asarray(array)
        if array.dtype != node.dtype:
            if is_array(value) or isinstance(value, Tensor) or not np.can_cast(array.dtype, node.dtype, "same_kind"):
                raise GraphError(
                    f"session: {node.name} (made at {node.where}) takes {node.dtype.name}, and was fed "
                    f"{array.dtype.name}. Cast it: value.astype({node.dtype.name!r})."
                )
            array = array.astype(node.dtype)
        fits = len(array.shape) == len(node.shape) and all(
            size in (None, given) for size, given in zip(node.shape, array.shape, strict=True)
        )
        if not fits:
            raise GraphError(
                f"session: {node.name} (made at {node.where}) takes {spec_text(node.shape, node.dtype)}, and was fed "
                f"an array of shape {array.shape}."
            )
        return array

    def _check_open(self) -> None:
        if self._closed:
            raise GraphError("session: it is closed, and its variables are gone. Make another.")


def _on_host(array: Array) -> Any:
    return array if isinstance(array, np.ndarray | np.generic) else device_of(array).to_host(array)
