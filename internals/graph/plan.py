"""A part of a graph, made ready to run: a flat list of kernel calls on numbered slots.

What is looked up, checked or decided is looked up, checked or decided once, here: where each node runs, which values
have to be copied to another device for it, and after which call a value is dead. A run is then one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from internals.device import Array, Device, cpu, device, move
from internals.graph.graph import ASSIGN, CONSTANT, NO_OP, PLACEHOLDER, READ, VARIABLE
from internals.graph.node import GraphError, Node
from internals.ops.table import Op
from internals.tensor.results import RESULT

Kernel = Callable[..., Any]


@dataclass(slots=True)
class Step:
    """One call.

    Attributes
    ----------
    kernel : callable
    inputs : tuple of int
        Slots.
    attrs : dict
    result : int
        The slot of the result.
    dead : tuple of int
        The slots that nobody reads after this step, where steps run in order.
    name : str
        That of the node; of a copy between devices, what is copied and where to.
    place : Device
    where : str
        The line that made the node.
    after : tuple of int
        The steps that must be done before this one.
    """

    kernel: Kernel
    inputs: tuple[int, ...]
    attrs: dict[str, Any]
    result: int
    name: str
    place: Device
    where: str
    after: tuple[int, ...] = ()
    dead: tuple[int, ...] = ()


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


def placement(nodes: Iterable[Node], default: Device) -> dict[Node, Device]:
    """Where each node runs: where it was asked to; else where its first input is; else at the default.

    An assignment runs where its variable is.
    """
    places: dict[Node, Device] = {}
    for node in nodes:
        sources = [value for value in node.inputs if isinstance(value, Node)]
        if node.op in (ASSIGN, READ, RESULT):
            places[node] = places[sources[0]]
        elif node.device is not None:
            places[node] = device(node.device)
        else:
            places[node] = places[sources[0]] if sources else default
    return places


class Plan:
    """A run, made ready; all sizes are known.

    Parameters
    ----------
    feeds : sequence of (Node or None)
        Whose values a run is given; each a placeholder, or None for a value that is not needed.
    fetches : sequence of Node
        Whose values it gives.
    place : Device
        Where nodes run that were not asked to run elsewhere.
    stateful : mapping of Op to callable ``node -> kernel``
        How operations run that read or write what outlives a run.

    Attributes
    ----------
    nodes : list of Node
        What runs, in order.
    steps : list of Step
    slots : list
        The slots as a run starts with them: constants filled in, all else None.
    variables : list of (int, Node)
        The slots that hold variables' values as the run starts.
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
        self.places = placement(self.nodes, place)
        self._stateful = stateful or {}
        self._at = {node: i for i, node in enumerate(self.nodes)}
        # Past the nodes' slots: one for what is fed and not needed, then Python's numbers and copies.
        self.slots: list[Any] = [None] * (len(self.nodes) + 1)
        self.steps: list[Step] = []
        self.variables: list[tuple[int, Node]] = []
        self._copies: dict[tuple[Node, Device], int] = {}
        self._numbers: set[int] = set()
        self._made: dict[int, int] = {}
        self._last_on: dict[str, int] = {}
        for node in self.nodes:
            self._add(node)
        kept = {self._at[node] for node in fetches} | self._numbers
        self._let_die(kept)
        unused = len(self.nodes)
        self.feeds = [unused if node is None else self._at.get(node, unused) for node in feeds]
        self.feed_places = [place if node is None else self.places.get(node, place) for node in feeds]
        self.fetches = [-1 if node.op is NO_OP else self._at[node] for node in fetches]

    def start(self, values: Sequence[Array], variables: Mapping[str, Array] | None = None) -> list[Any]:
        """The slots as a run with these values starts."""
        slots = self.slots.copy()
        for slot, where, value in zip(self.feeds, self.feed_places, values, strict=True):
            slots[slot] = value if where is cpu else move(value, where)
        for slot, node in self.variables:
            slots[slot] = _variable(node, variables)
        return slots

    def run(self, values: Sequence[Array], variables: Mapping[str, Array] | None = None) -> list[Array | None]:
        """The values of the fetches, for the values of the feeds; one step after the other."""
        slots = self.start(values, variables)
        step = None
        try:
            for step in self.steps:
                slots[step.result] = step.kernel(*[slots[i] for i in step.inputs], **step.attrs)
                for i in step.dead:
                    slots[i] = None
        except GraphError:
            raise
        except Exception as error:
            raise failed(step, error) from error
        return self.answers(slots)

    def answers(self, slots: list[Any]) -> list[Array | None]:
        """The values of the fetches, where all steps are done."""
        return [None if slot < 0 else slots[slot] for slot in self.fetches]

    # Making it

    def _add(self, node: Node) -> None:
        slot, place = self._at[node], self.places[node]
        if node.op is CONSTANT:
            self.slots[slot] = move(node.attrs["value"], place)
        elif node.op is VARIABLE:
            self.variables.append((slot, node))
        elif node.op is not PLACEHOLDER:
            inputs = tuple([self._input(value, place) for value in node.inputs])
            after = {self._made[self._at[one]] for one in node.controls if self._at[one] in self._made}
            kernel, attrs = self._kernel(node, place)
            if node.op in self._stateful:  # in the order in which they were made, whatever runs at once
                name = node.inputs[0].name
                after |= {self._last_on[name]} if name in self._last_on else set()
                self._last_on[name] = len(self.steps)
            self._call(Step(kernel, inputs, attrs, slot, node.name, place, node.where), after)

    def _call(self, step: Step, after: set[int]) -> None:
        step.after = tuple(sorted(after | {self._made[one] for one in step.inputs if one in self._made}))
        self._made[step.result] = len(self.steps)
        self.steps.append(step)

    def _input(self, value: Any, place: Device) -> int:
        if not isinstance(value, Node):
            self._numbers.add(len(self.slots))
            self.slots.append(value)
            return len(self.slots) - 1
        slot, there = self._at[value], self.places[value]
        if there is place or isinstance(value.dtype, tuple):
            return slot
        if (value, place) not in self._copies:
            self._copies[value, place] = len(self.slots)
            self.slots.append(None)
            name, result = f"{value.name} to {place}", len(self.slots) - 1
            self._call(Step(lambda array: move(array, place), (slot,), {}, result, name, place, value.where), set())
        return self._copies[value, place]

    def _kernel(self, node: Node, place: Device) -> tuple[Kernel, dict[str, Any]]:
        if node.op in self._stateful:
            return self._stateful[node.op](node), {}
        if node.op is RESULT:
            index = node.attrs["index"]
            return lambda bundle: bundle[index], {}
        if node.op is NO_OP:
            return lambda: None, {}
        if place is cpu:
            return node.op.on_numpy, node.attrs
        kernel, xp = node.op.kernel, place.xp

        def there(*arrays: Array, **attrs: Any) -> Any:
            with place.scope():
                return kernel(xp, *arrays, **attrs)

        return there, node.attrs

    def _let_die(self, kept: set[int]) -> None:
        """Note after which step each slot's value is dead."""
        last: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            for slot in (step.result, *step.inputs):
                last[slot] = number
        dead: list[list[int]] = [[] for _ in self.steps]
        for slot, number in last.items():
            if slot not in kept:
                dead[number].append(slot)
        for step, slots in zip(self.steps, dead, strict=True):
            step.dead = tuple(slots)


def failed(step: Step | None, error: Exception) -> Exception:
    """What a step raised, in terms of its node; a graph's own error as it is."""
    if step is None or isinstance(error, GraphError):
        return error
    return GraphError(f"{step.name} (made at {step.where}): {error}")


def _variable(node: Node, variables: Mapping[str, Array] | None) -> Array:
    value = (variables or {}).get(node.name)
    if value is None:
        raise GraphError(
            f"session: the variable {node.name} (made at {node.where}) has no value yet. Call session.initialise() "
            "first."
        )
    return value
