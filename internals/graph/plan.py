"""A part of a graph, made ready to run: a flat list of kernel calls on numbered slots.

What is looked up, checked or decided is looked up, checked or decided once, here: where each node runs, which values
have to be copied to another device for it, and after which call a value is dead. A run is then one loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from internals.device import Array, Device, cpu, device, move
from internals.graph.buffers import candidates, in_place, tiled, write_over
from internals.graph.graph import APPLY, CONSTANT, NO_OP, PLACEHOLDER, STATEFUL, VARIABLE
from internals.graph.node import GraphError, Node
from internals.graph.pieces import pieces
from internals.ops.table import Op, for_dtype
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
    into, over : callable and int
        The kernel in the form that takes ``out``, and the input that dies here and has the size of the result.
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
    into: Kernel | None = None
    over: int = -1

    def run(self, slots: list[Any], mine: bool = True) -> Any:
        """The result; over an input's memory where that is dead and `mine`."""
        inputs = [slots[i] for i in self.inputs]
        if self.into is not None and mine:
            return write_over(self.kernel, self.into, inputs, self.over)
        return self.kernel(*inputs, **self.attrs)


def needed(fetches: Iterable[Node], fed: Iterable[Node] = ()) -> list[Node]:
    """What must run for the fetches, in an order in which it can; past a fed node nothing is needed."""
    if pieces.needed is not None or pieces.run_order is not None:
        return _by_pieces(list(fetches), list(fed))
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


def _by_pieces(fetches: list[Node], fed: list[Node]) -> list[Node]:
    """What must run, found and put in order by pieces that know nodes by their names."""
    whole = {node.name: node for node in (fetches[0].graph.nodes if fetches else ())}
    inputs = {
        name: [one.name for one in (*node.inputs, *node.controls) if isinstance(one, Node)]
        for name, node in whole.items()
    }
    found = list((pieces.needed or _names_needed)([node.name for node in fetches], inputs, {one.name for one in fed}))
    inputs.update({one.name: [] for one in fed})  # what a fed node is made from does not matter
    if pieces.run_order is None:
        return sorted([whole[name] for name in found], key=lambda node: node.order)
    return [whole[name] for name in pieces.run_order(found, {name: inputs[name] for name in found})]


def _names_needed(fetches: Sequence[str], inputs: Mapping[str, Sequence[str]], fed: Collection[str]) -> set[str]:
    seen: set[str] = set()
    stack = list(fetches)
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack += [] if name in fed else inputs[name]
    return seen


def placement(nodes: Iterable[Node], default: Device) -> dict[Node, Device]:
    """Where each node runs: where it was asked to; else where its first input is; else at the default.

    An assignment runs where its variable is.
    """
    places: dict[Node, Device] = {}
    for node in nodes:
        sources = [value for value in node.inputs if isinstance(value, Node)]
        if node.op in STATEFUL or node.op is RESULT:
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
        How operations run that read or write what outlives a run. The kernel is not given the variables themselves: it
        knows where they are kept.
    reuse : bool
        Write a result over an input that is dead and that nobody else holds.
    tile : bool
        Cut large convolutions in pieces of the batch; sums are then taken in another order.
    watch : callable ``node -> callable or None``
        What is told a node's value as soon as it is there.

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
        reuse: bool = False,
        tile: bool = False,
        watch: Callable[[Node], Callable[[Any], None] | None] | None = None,
    ) -> None:
        self.nodes = needed(fetches)
        self.places = placement(self.nodes, place)
        self._stateful = stateful or {}
        self._reuse, self._tile, self._watch = reuse, tile, watch
        self._at = {node: i for i, node in enumerate(self.nodes)}
        # Past the nodes' slots: what is fed and not needed, the number of the run, Python's numbers, copies.
        self.slots: list[Any] = [None] * (len(self.nodes) + 2)
        self._draw = len(self.nodes) + 1
        self.steps: list[Step] = []
        self.variables: list[tuple[int, Node]] = []
        self._copies: dict[tuple[Node, Device], int] = {}
        self._numbers: set[int] = {self._draw}
        self._made: dict[int, int] = {}
        self.holds: list[Any] = []
        self._last_on: dict[str, int] = {}
        for node in self.nodes:
            self._add(node)
        kept = {self._at[node] for node in fetches} | self._numbers
        self._let_die(kept)
        read = kept.union(*[step.inputs for step in self.steps])
        self.variables = [(slot, node) for slot, node in self.variables if slot in read]
        unused = len(self.nodes)
        self.feeds = [unused if node is None else self._at.get(node, unused) for node in feeds]
        self.feed_places = [place if node is None else self.places.get(node, place) for node in feeds]
        self.fetches = [-1 if node.op is NO_OP else self._at[node] for node in fetches]

    def start(self, values: Sequence[Array], variables: Mapping[str, Array] | None = None, draw: int = 0) -> list[Any]:
        """The slots as a run with these values starts; `draw` numbers it, for rows that draw random numbers.

        A value that is None is put into its slot later, by who runs the plan.
        """
        slots = self.slots.copy()
        for slot, where, value in zip(self.feeds, self.feed_places, values, strict=True):
            slots[slot] = value if value is None or where is cpu else move(value, where)
        for slot, node in self.variables:
            slots[slot] = value_of(node, variables)
        slots[self._draw] = draw
        return slots

    def run(
        self, values: Sequence[Array], variables: Mapping[str, Array] | None = None, draw: int = 0
    ) -> list[Array | None]:
        """The values of the fetches, for the values of the feeds; one step after the other."""
        return self.walk(self.start(values, variables, draw))

    def walk(self, slots: list[Any]) -> list[Array | None]:
        """The values of the fetches, from slots as `start` gives them."""
        step = None
        try:
            for step in self.steps:
                if step.into is None:
                    slots[step.result] = step.kernel(*[slots[i] for i in step.inputs], **step.attrs)
                else:
                    slots[step.result] = step.run(slots)
                for i in step.dead:
                    slots[i] = None
        except Exception as error:
            told = failed(step, error)
            if told is error:
                raise
            raise told from error
        return self.answers(slots)

    @cached_property
    def widest(self) -> int:
        """How many steps could run at once, if all took as long."""
        levels: list[int] = []
        for step in self.steps:
            levels.append(1 + max([levels[i] for i in step.after], default=-1))
        return max(Counter(levels).values(), default=1)

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
            inputs = tuple([self._input(v, place) for i, v in enumerate(node.inputs) if not self._is_kept(node, i)])
            after = {self._made[self._at[one]] for one in node.controls if self._at[one] in self._made}
            kernel, attrs = self._kernel(node, place)
            if node.op in self._stateful:  # in the order in which they were made, whatever runs at once
                name = node.inputs[0].name
                after |= {self._last_on[name]} if name in self._last_on else set()
                self._last_on[name] = len(self.steps)
            if "seed" in node.attrs and isinstance(node.attrs["seed"], int | np.integer):
                kernel, attrs, inputs = _drawing(kernel, attrs), {}, (*inputs, self._draw)
            told = self._watch(node) if self._watch is not None else None
            kernel = kernel if told is None else _told(kernel, told)
            step = Step(kernel, inputs, attrs, slot, node.name, place, node.where)
            if self._reuse and told is None and place is cpu:
                step.into = kernel if node.op is APPLY else in_place(node) if node.op not in self._stateful else None
            self._call(step, after)

    def _is_kept(self, node: Node, position: int) -> bool:
        """Whether an input is a variable that a stateful kernel finds for itself."""
        return (
            node.op in self._stateful and position in STATEFUL[node.op](node) and node.inputs[position].op is VARIABLE
        )

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
        op = node.op
        for value in node.inputs:
            if isinstance(value, Node) and not isinstance(value.dtype, tuple):
                op = for_dtype(op, value.dtype)
        if place is cpu:
            return (tiled(node) if self._tile else None) or op.on_numpy, node.attrs
        kernel, xp = op.kernel, place.xp

        def there(*arrays: Array, **attrs: Any) -> Any:
            with place.scope():
                return kernel(xp, *arrays, **attrs)

        return there, node.attrs

    def _dead(self, kept: set[int]) -> list[list[int]]:
        last: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            for slot in (step.result, *step.inputs):
                last[slot] = number
        dead: list[list[int]] = [[] for _ in self.steps]
        for slot, number in last.items():
            if slot not in kept:
                dead[number].append(slot)
        return dead

    def _dead_by_piece(self, kept: set[int]) -> list[list[int]]:
        """The same, by a piece that knows slots by names; what the run starts with comes first in its order."""
        made = {step.result for step in self.steps}
        given = list(dict.fromkeys(slot for step in self.steps for slot in step.inputs if slot not in made))
        inputs = {str(step.result): [str(slot) for slot in step.inputs] for step in self.steps}
        order = [*map(str, given), *inputs]
        inputs.update({str(slot): [] for slot in given})
        assert pieces.free_after is not None
        found = pieces.free_after(order, inputs, {str(slot) for slot in kept})
        return [[int(name) for name in names] for names in list(found)[len(given) :]]

    def _let_die(self, kept: set[int]) -> None:
        """Note after which step each slot's value is dead."""
        dead = (self._dead if pieces.free_after is None else self._dead_by_piece)(kept)
        for step, slots in zip(self.steps, dead, strict=True):
            step.dead = tuple(slots)
            if step.into is not None:
                node = self.nodes[step.result]
                # What moves a variable is given the gradient first: the variable it finds for itself.
                mine = candidates(node) if node.op is not APPLY else [0]
                over = [i for i in mine if step.inputs[i] in slots and step.inputs.count(step.inputs[i]) == 1]
                step.into, step.over = (step.into, over[0]) if over else (None, -1)


def failed(step: Step | None, error: Exception) -> Exception:
    """What a step raised, in terms of its node; an error that names a node already, as it is."""
    named = isinstance(error, GraphError) and (type(error) is not GraphError or "made at" in str(error))
    if step is None or named:
        return error
    return GraphError(f"{step.name} (made at {step.where}): {error}")


def value_of(variable: Node, variables: Mapping[str, Array] | None) -> Array:
    """A variable's value.

    Raises
    ------
    GraphError
        It has none yet.
    """
    value = (variables or {}).get(variable.name)
    if value is None:
        raise GraphError(
            f"session: the variable {variable.name} (made at {variable.where}) has no value yet. Call "
            "session.initialise() first."
        )
    return value


def _drawing(kernel: Kernel, attrs: dict[str, Any]) -> Kernel:
    """The kernel of a random row with the number of the run as a last input.

    The first run draws with the seed as it is written down, as eager code does; later ones with one made of it, which
    is the same wherever the same seed is used in that run: in a layer, and in its gradient.
    """

    def kernel_of_run(*values: Any) -> Any:
        *inputs, draw = values
        seed = attrs["seed"]
        if draw:
            seed = int(np.random.SeedSequence((int(seed), draw)).generate_state(1, np.uint64)[0] >> 1)
        return kernel(*inputs, **{**attrs, "seed": seed})

    return kernel_of_run


def _told(kernel: Kernel, told: Callable[[Any], None]) -> Kernel:
    def kernel_and_tell(*values: Any, **attrs: Any) -> Any:
        result = kernel(*values, **attrs)
        told(result)
        return result

    return kernel_and_tell
