"""A part of a graph, made ready to run: a flat list of kernel calls on numbered slots.

What is looked up, checked or decided is looked up, checked or decided once, here. A run is then one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from internals.device import Array, Device, cpu
from internals.graph.graph import CONSTANT, NO_OP, PLACEHOLDER, VARIABLE
from internals.graph.node import GraphError, Node
from internals.ops.table import Op
from internals.tensor.results import RESULT

Kernel = Callable[..., Any]

Step = tuple[Kernel, tuple[int, ...], dict[str, Any], int, tuple[int, ...]]
"""A kernel, the slots of its inputs, its attributes, the slot of its result, and the slots that are dead then."""


def needed(fetches: Iterable[Node], fed: Iterable[Node] = ()) -> list[Node]:
    """What must run for the fetches, in an order in which it can; past a fed node nothing is needed."""
    given = set(fed)
    seen: set[Node] = set()
    stack = list(fetches)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if node not in given:
                stack += [value for value in (*node.inputs, *node.controls) if isinstance(value, Node)]
    return sorted(seen, key=lambda node: node.order)


class Plan:
    """A run, made ready; all sizes are known.

    Parameters
    ----------
    feeds : sequence of Node
        Whose values a run is given; each a placeholder.
    fetches : sequence of Node
        Whose values it gives.
    place : Device
        Where its kernels run.
    stateful : mapping of Op to callable ``node -> kernel``
        How operations run that read or write what outlives a run.

    Attributes
    ----------
    nodes : list of Node
        What runs, in order.
    steps : list of Step
    slots : list
        The slots as a run starts with them: constants filled in, all else None.
    variables : list of (int, str)
        The slots that hold variables' values as the run starts, and their names.
    """

    def __init__(
        self,
        feeds: Sequence[Node | None],
        fetches: Sequence[Node],
        *,
        place: Device = cpu,
        stateful: Mapping[Op, Callable[[Node], Kernel]] | None = None,
    ) -> None:
        self.nodes = needed(fetches)
        self.place, self._stateful = place, stateful or {}
        at = {node: i for i, node in enumerate(self.nodes)}
        # Past the nodes' slots: one for what is fed and not needed, then Python's numbers.
        self.slots: list[Any] = [None] * (len(self.nodes) + 1)
        self.variables: list[tuple[int, str]] = []
        calls: list[tuple[Kernel, tuple[int, ...], dict[str, Any], int]] = []
        for node in self.nodes:
            if node.op is CONSTANT:
                self.slots[at[node]] = place.from_host(node.attrs["value"])
            elif node.op is VARIABLE:
                self.variables.append((at[node], node.name))
            elif node.op is not PLACEHOLDER:
                inputs = tuple([at[v] if isinstance(v, Node) else self._number(v) for v in node.inputs])
                kernel, attrs = self._kernel(node)
                calls.append((kernel, inputs, attrs, at[node]))
        kept = {at[node] for node in fetches}
        self.steps = _with_deaths(calls, kept, len(self.nodes))
        self.feeds = [at.get(node, len(self.nodes)) if node is not None else len(self.nodes) for node in feeds]
        self.fetches = [-1 if node.op is NO_OP else at[node] for node in fetches]

    def run(self, values: Sequence[Array], variables: Mapping[str, Array] | None = None) -> list[Array | None]:
        """The values of the fetches, for the values of the feeds."""
        slots = self.slots.copy()
        for slot, value in zip(self.feeds, values, strict=True):
            slots[slot] = value
        for slot, name in self.variables:
            slots[slot] = self._variable(name, variables)
        for kernel, inputs, attrs, result, dead in self.steps:
            slots[result] = kernel(*[slots[i] for i in inputs], **attrs)
            for i in dead:
                slots[i] = None
        return [None if slot < 0 else slots[slot] for slot in self.fetches]

    def _number(self, value: Any) -> int:
        self.slots.append(value)
        return len(self.slots) - 1

    def _kernel(self, node: Node) -> tuple[Kernel, dict[str, Any]]:
        if node.op in self._stateful:
            return self._stateful[node.op](node), {}
        if node.op is RESULT:
            index = node.attrs["index"]
            return lambda bundle: bundle[index], {}
        if node.op is NO_OP:
            return lambda: None, {}
        if self.place is cpu:
            return node.op.on_numpy, node.attrs
        kernel, xp = node.op.kernel, self.place.xp
        return lambda *arrays, **attrs: kernel(xp, *arrays, **attrs), node.attrs

    @staticmethod
    def _variable(name: str, variables: Mapping[str, Array] | None) -> Array:
        value = (variables or {}).get(name)
        if value is None:
            raise GraphError(f"session: the variable {name} has no value yet. Call session.initialise() first.")
        return value


def _with_deaths(
    calls: Sequence[tuple[Kernel, tuple[int, ...], dict[str, Any], int]], kept: set[int], nodes: int
) -> list[Step]:
    """Steps, each with the slots that nobody reads after it."""
    last: dict[int, int] = {}
    for number, (_, inputs, _, result) in enumerate(calls):
        last[result] = number  # dead at once, where nobody reads it
        for slot in inputs:
            last[slot] = number
    dead: list[list[int]] = [[] for _ in calls]
    for slot, number in last.items():
        if slot not in kept and slot < nodes:
            dead[number].append(slot)
    return [(*call, tuple(slots)) for call, slots in zip(calls, dead, strict=True)]
