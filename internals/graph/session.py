"""Running a graph: which nodes, in which order, on which values.

A run names what it wants (fetches) and what it brings (feeds). The session finds what is needed, turns it once into a
flat list of kernel calls on numbered slots, keeps that list, and from then on a run is one loop over it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from internals.device import Array, cpu
from internals.graph.graph import ASSIGN, CONSTANT, NO_OP, PLACEHOLDER, READ, VARIABLE, Graph
from internals.graph.node import GraphError, Node, spec_text
from internals.graph.specialise import needed, specialise
from internals.ops.table import is_array
from internals.tensor import Tensor
from internals.tensor.results import RESULT

Step = tuple[Callable[..., Any], tuple[int, ...], dict[str, Any], int, tuple[int, ...]]
"""A kernel, the slots of its inputs, its attributes, the slot of its result, and the slots that are dead then."""


@dataclass
class Plan:
    """A run, made ready.

    Attributes
    ----------
    nodes : list of Node
        What runs, in order; all sizes known.
    steps : list of Step
    slots : list
        The slots as a run starts with them: constants filled in, all else None.
    feeds, fetches : list of int
        Slots.
    """

    nodes: list[Node]
    steps: list[Step]
    slots: list[Any]
    feeds: list[int]
    variables: list[tuple[int, str]]
    fetches: list[int]


class Session:
    """Runs a graph, and keeps the values of its variables from run to run.

    Parameters
    ----------
    graph : Graph

    Examples
    --------
    >>> with Session(graph) as session:
    ...     session.initialise()
    ...     loss_value, _ = session.run([loss, train], {x: batch, y: labels})
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
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
            self.values[node.name] = node.attrs["initial"].copy()

    def run(self, fetches: Any, feeds: Mapping[Node, Any] | None = None) -> Any:
        """Compute nodes.

        Parameters
        ----------
        fetches : Node, or a list or tuple of them
        feeds : mapping of Node to array-like
            A value for each placeholder that is needed; any other node may be fed too, and is not computed then.

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
        plan = self.plan(wanted, given)
        slots = plan.slots.copy()
        for slot, value in zip(plan.feeds, given.values(), strict=True):
            slots[slot] = value
        self._load(plan, slots)
        for kernel, inputs, attrs, result, dead in plan.steps:
            slots[result] = kernel(*[slots[i] for i in inputs], **attrs)
            for i in dead:
                slots[i] = None
        answers = [None if slot < 0 else slots[slot] for slot in plan.fetches]
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
        _, there = specialise(nodes, shapes)
        return self._compiled([there[node] for node in fetches], [there.get(node) for node in feeds])

    def _compiled(self, fetches: list[Node], feeds: list[Node | None]) -> Plan:
        nodes = needed(fetches)
        place = {node: i for i, node in enumerate(nodes)}
        slots: list[Any] = [None] * (len(nodes) + 1)  # the last for what is fed and not needed
        numbers: set[int] = set()
        last: dict[int, int] = {}
        steps: list[Step] = []
        variables: list[tuple[int, str]] = []
        for node in nodes:
            slot = place[node]
            if node.op is CONSTANT:
                slots[slot] = node.attrs["value"]
            elif node.op is VARIABLE:
                variables.append((slot, node.name))
            elif node.op is not PLACEHOLDER:
                inputs = []
                for value in node.inputs:
                    if isinstance(value, Node):
                        inputs.append(place[value])
                    else:
                        numbers.add(len(slots))
                        inputs.append(len(slots))
                        slots.append(value)
                kernel, attrs = self._kernel(node)
                for i in inputs:
                    last[i] = len(steps)
                steps.append((kernel, tuple(inputs), attrs, slot, ()))
        kept = {place[node] for node in fetches} | numbers
        dead: list[list[int]] = [[] for _ in steps]
        for slot, step in last.items():
            if slot not in kept:
                dead[step].append(slot)
        steps = [(k, i, a, r, tuple(d)) for (k, i, a, r, _), d in zip(steps, dead, strict=True)]
        fed = [len(nodes) if node is None or node not in place else place[node] for node in feeds]
        results = [-1 if node.op is NO_OP else place[node] for node in fetches]
        return Plan(nodes, steps, slots, fed, variables, results)

    def _kernel(self, node: Node) -> tuple[Callable[..., Any], dict[str, Any]]:
        if node.op is RESULT:
            index = node.attrs["index"]
            return lambda bundle: bundle[index], {}
        if node.op is NO_OP:
            return lambda: None, {}
        if node.op in (ASSIGN, READ):
            name = node.inputs[0].name
            return (self._assign(name) if node.op is ASSIGN else lambda _: self.values[name]), {}
        return node.op.on_numpy, node.attrs

    def _assign(self, name: str) -> Callable[[Array, Array], Array]:
        def assign(before: Array, value: Array) -> Array:
            self.values[name] = value
            return value

        return assign

    # Values

    def _load(self, plan: Plan, slots: list[Any]) -> None:
        for slot, name in plan.variables:
            value = self.values.get(name)
            if value is None:
                raise GraphError(f"session: the variable {name} has no value yet. Call session.initialise() first.")
            slots[slot] = value

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
        return cpu.from_host(array)

    def _check_open(self) -> None:
        if self._closed:
            raise GraphError("session: it is closed, and its variables are gone. Make another.")
