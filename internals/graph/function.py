"""A graph with inputs and outputs, used as one operation: the body of a loop, a branch, a traced function.

What its code used without being given it, it captures: a Tensor, an array, a node of the graph around it. A capture is
one more input, so that its value is that of the call, and a gradient flows to it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from internals.device import Array, Device, base_array, cpu, device_of
from internals.graph.gradients import gradients
from internals.graph.graph import Graph, being_built
from internals.graph.node import STOP_GRADIENT, GraphError, Node
from internals.graph.plan import Plan
from internals.graph.specialise import specialise
from internals.ops import draw_seed, getitem, take, zeros_like
from internals.ops.spec import Spec, dtype_of, shape_of
from internals.ops.table import Op, is_array
from internals.tensor import Tensor, is_recording


class FunctionGraph(Graph):
    """A graph that turns what it meets from outside into inputs.

    Attributes
    ----------
    captures : list of (Tensor, array, Draw or Node of another graph)
    capture_nodes : list of Node
        The placeholder for each.
    written : dict of int to (Tensor, Node)
        The captured Tensors that were written to, by id, and what each holds afterwards.
    effects : list of Node
        What must run though no output needs it.
    arguments : set of Node
        The placeholders for what a caller gives, where it is a caller's own.
    outer : Graph or None
        The graph that was being built when this one was begun.
    turn : Node or None
        Of the body of a loop in which something is drawn: the number of the round.

    Parameters
    ----------
    loops : bool
        It is the body of a loop: what is drawn in it is drawn anew in each round.
    literal : bool, optional
        A seed that is a number is the one to draw with, whichever run or round it is; by default as in the graph
        around.
    """

    def __init__(self, *, loops: bool = False, literal: bool | None = None) -> None:
        super().__init__()
        self.outer = being_built()
        self.loops = loops
        self.literal = literal if literal is not None else getattr(self.outer, "literal", False)
        self.turn: Node | None = None
        self.captures: list[Any] = []
        self.capture_nodes: list[Node] = []
        self.written: dict[int, tuple[Tensor, Node]] = {}
        self.effects: list[Node] = []
        self.arguments: set[Node] = set()
        self._recording = is_recording()
        self._constants: dict[Node, Node] = {}

    def add(
        self, op: Op, inputs: Sequence[Any], attrs: dict[str, Any] | None = None, *, name: str = "", where: str = ""
    ) -> Node:
        for attr, value in (attrs or {}).items():
            if op is getitem and isinstance(value, Node | Tensor):
                return self.add(take, (*inputs, self._index(value)), {"axis": 0}, name=name, where=where)
            if op is getitem and isinstance(value, tuple) and any(isinstance(part, Node) for part in value):
                raise GraphError("getitem: an index that is known only at run time must stand alone: x[i][j].")
            inside = self.loops or self.outer is not None
            if type(value) is LaterSeed or (attr == "seed" and inside and not self.literal):
                seed = self._seed(value.source if type(value) is LaterSeed else int(value))
                rest = {key: kept for key, kept in (attrs or {}).items() if key != attr}
                return super().add(seeded(op, attr), (*inputs, seed), rest, name=name, where=where)
        return super().add(op, inputs, attrs, name=name, where=where)

    def own(self, value: Any) -> Any:
        if type(value) is Node and value.graph is self:
            return value if is_recording() or not self._recording else self._constant(value)
        if not (isinstance(value, Node | Tensor | Draw) or is_array(value)):
            if value is None:
                raise GraphError("graph: None is no value. A size that is left open is None while the graph is built.")
            return value
        if id(value) not in self._captured:
            shape, dtype = value.shape, value.dtype
            node = self.placeholder(shape, dtype, name=f"captured_{len(self.captures)}")
            self._captured[id(value)] = value, node
            self.captures.append(base_array(value, "graph") if is_array(value) else value)
            self.capture_nodes.append(node)
        return self.own(self._captured[id(value)][1])

    def _seed(self, source: Draw | Node | int) -> Node:
        """A node for a seed: of the run, if a run of the graph around draws anew; and of the round, in a loop."""
        if isinstance(source, Node):
            found: Node = self.own(source)
            return found
        if isinstance(self.outer, FunctionGraph):
            found = self.own(self.outer._seed(source))
        elif self.outer is not None:
            number = int(source.value()) if isinstance(source, Draw) else source
            found = self.own(self.outer.add(RUN_SEED, (), {"seed": number}))
        else:
            found = self.own(source) if isinstance(source, Draw) else self.constant(source, dtype=np.int64)
        if not self.loops:
            return found
        if self.turn is None:
            self.turn = self.placeholder((), np.int64, name="turn")
        return super().add(FOLD_IN, (found, self.turn))

    def _index(self, value: Any) -> Node:
        """An index that is known only at run time; it picks entries along axis 0."""
        if value.dtype.kind not in "iu":
            raise GraphError(
                f"getitem: a mask that is known only at run time makes a result of unknown size, got {value!r}. Use "
                "ops.where."
            )
        node: Node = self.own(value)
        return node

    def write(self, target: Tensor, value: Node) -> None:
        """From here on `target` reads as `value`; whoever runs the function gives it that value afterwards."""
        self.own(target)
        self._captured[id(target)] = target, value
        self.written.pop(id(target), None)  # the order of the last writes
        self.written[id(target)] = target, value

    def _constant(self, node: Node) -> Node:
        """A node as ``no_grad`` reads it."""
        if node not in self._constants:
            self._constants[node] = super().add(STOP_GRADIENT, (node,))
        return self._constants[node]


RUN_SEED = Op(
    "run_seed",
    lambda xp, *, seed: xp.asarray(seed, np.int64),
    vjp=None,
    infer=lambda *, seed: Spec((), np.int64),
    doc="A seed as an array, which the run makes its own as it does that of a random row.",
)
FOLD_IN = Op(
    "fold_in",
    lambda xp, seed, turn: xp.asarray(_folded(seed, turn), np.int64),
    vjp=None,
    infer=lambda seed, turn: Spec((), np.int64),
    doc="The seed of a round of a loop (JAX's fold_in).",
)


def _folded(seed: Array, turn: Array) -> int:
    numbers = [int(device_of(one).to_host(one)) for one in (seed, turn)]
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


class Draw:
    """A seed that is drawn anew for each run."""

    shape, dtype = (), np.dtype(np.int64)

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def value(self) -> np.ndarray:
        return np.asarray(draw_seed(self.rng))


class LaterSeed(int):
    """Stands for a seed while a graph is built; the rows that are given it take it as an input.

    Attributes
    ----------
    source : Draw or Node
    """

    source: Any

    @classmethod
    def of(cls, source: Any) -> LaterSeed:
        seed = cls(0)
        seed.source = source
        return seed


@functools.cache
def seeded(op: Op, attr: str) -> Op:
    """A random row with its seed as the last input, in place of an attribute."""

    def kernel(xp: Any, *values: Array, **attrs: Any) -> Any:
        seed = int(device_of(values[-1]).to_host(values[-1]))
        return op.kernel(xp, *values[:-1], **attrs, **{attr: seed})

    def infer(*specs: Spec, **attrs: Any) -> Any:
        return op.infer(*specs[:-1], **attrs, **{attr: 0})

    def vjp(g: Any, out: Any, *values: Any, **attrs: Any) -> list[Any]:
        given = {**attrs, attr: LaterSeed.of(values[-1])}
        return [*[rule and rule(g, out, *values[:-1], **given) for rule in op.vjp], None]  # type: ignore[union-attr]

    row = Op(f"random_{op.name}", kernel, vjp=vjp, jvp="linear", infer=infer, joint=True, variadic=True, doc=op.doc)
    row.attrs = {name: value for name, value in op.attrs.items() if name != attr}
    return row


class Function:
    """A graph with inputs and outputs.

    Attributes
    ----------
    graph : FunctionGraph
    inputs : list of Node
        Its placeholders; those for captures last.
    outputs : list of Node
    captures : list
        The values for the last inputs.
    """

    def __init__(self, graph: Graph, inputs: Sequence[Node], outputs: Sequence[Node], name: str) -> None:
        self.graph, self.name = graph, name
        nodes: list[Node] = []
        self.captures: list[Any] = []
        if isinstance(graph, FunctionGraph):
            nodes, self.captures = graph.capture_nodes, list(graph.captures)
        self.inputs, self.outputs = [*inputs, *nodes], list(outputs)
        self._plans: dict[Any, Plan] = {}
        self._gradient: Function | None = None
        self._lock = threading.RLock()

    @classmethod
    def build(
        cls, body: Callable[..., Any], specs: Sequence[Any], *, name: str = "", loops: bool = False
    ) -> tuple[Function, Any]:
        """Run a body once on placeholders.

        Parameters
        ----------
        body : callable
            Takes a node for each of `specs`; gives a node or number, or a list or tuple of them.
        specs : sequence
            Whatever has a shape and a dtype.
        loops : bool
            See `FunctionGraph`.

        Returns
        -------
        Function
        What the body gave, its parts made nodes of the function's graph.
        """
        graph = FunctionGraph(loops=loops)
        with graph:
            inputs = [graph.placeholder(spec.shape, spec.dtype, name=f"input_{i}") for i, spec in enumerate(specs)]
            answer = body(*inputs)
            several = isinstance(answer, list | tuple)
            outputs = [as_node(graph, one) for one in (answer if several else [answer])]
        return cls(graph, inputs, outputs, name or getattr(body, "__name__", "function")), answer

    def __call__(self, *values: Array) -> list[Array]:
        """Run it on arrays, one for each input, captures included."""
        place = device_of(values[0]) if values else cpu
        return self.plan([value.shape for value in values], place).run(values)

    def plan(self, shapes: Sequence[tuple[int, ...]], place: Device = cpu) -> Plan:
        """The run for inputs of these shapes, made ready; kept for the next time."""
        key = (tuple(shapes), place)
        plan = self._plans.get(key)
        if plan is None:
            with self._lock:
                if all(node.is_known for node in self.graph.nodes):
                    plan = Plan(self.inputs, self.outputs, place=place)
                else:
                    _, there = specialise(self.graph.nodes, dict(zip(self.inputs, shapes, strict=True)))
                    plan = Plan([there[n] for n in self.inputs], [there[n] for n in self.outputs], place=place)
                self._plans[key] = plan
        return plan

    def at(self, shapes: Sequence[tuple[int, ...]]) -> Function:
        """This function for inputs of these shapes, captures included, which are inputs like the others there."""
        graph, there = specialise(self.graph.nodes, dict(zip(self.inputs, shapes, strict=True)))
        return Function(graph, [there[node] for node in self.inputs], [there[n] for n in self.outputs], self.name)

    def gradient(self) -> Function:
        """The function that gives the cotangents of the floating inputs, from the inputs and those of the outputs.

        Its inputs are those of this one, then a cotangent for each floating output.
        """
        if self._gradient is None:
            with self._lock:
                self._gradient = self._gradient or self._differentiated()
        return self._gradient

    def _differentiated(self) -> Function:
        graph = FunctionGraph(literal=True)
        with graph:
            inputs = [graph.placeholder(n.shape, n.dtype, name=f"input_{i}") for i, n in enumerate(self.inputs)]
            there = dict(zip(self.inputs, inputs, strict=True))
            outputs = inline(self, graph, there)
            floating = [node for node in outputs if is_floating(node)]
            starts = [graph.placeholder(n.shape, n.dtype, name=f"cotangent_{i}") for i, n in enumerate(floating)]
            sources = [node for node in inputs if is_floating(node)]
            found = gradients(floating, sources, starts) if floating else [None] * len(sources)
            answers = [zeros_like(source) if one is None else one for one, source in zip(found, sources, strict=True)]
        return Function(graph, [*inputs, *starts], answers, f"gradient of {self.name}")

    def infer(self, specs: Sequence[Any]) -> tuple[Spec, ...]:
        """The Specs of the outputs, for inputs of these."""
        for position, (node, spec) in enumerate(zip(self.inputs, specs, strict=True)):
            if spec.dtype != node.dtype or len(spec.shape) != len(node.shape):
                raise GraphError(f"{self.name}: input {position} is {spec}, but the function was made for {node!r}.")
        if all(node.is_known for node in self.outputs):
            return tuple(Spec(node.shape, node.dtype) for node in self.outputs)
        _, there = specialise(self.graph.nodes, {n: s.shape for n, s in zip(self.inputs, specs, strict=True)})
        return tuple(Spec(there[node].shape, node.dtype) for node in self.outputs)

    def __repr__(self) -> str:
        sizes = f"{len(self.inputs)} inputs, {len(self.graph)} nodes, {len(self.outputs)} outputs"
        return f"<function {self.name}: {sizes}>"


def inline(function: Function, graph: Graph, there: dict[Node, Node]) -> list[Node]:
    """Make a function's nodes again in another graph, for inputs that are there; its outputs."""
    for node in function.graph.nodes:
        if node not in there:
            inputs = [there[value] if isinstance(value, Node) else value for value in node.inputs]
            there[node] = graph.add(node.op, inputs, node.attrs)
            there[node].where, there[node].device = node.where, node.device
    return [there[node] for node in function.outputs]


def is_floating(node: Node) -> bool:
    return not isinstance(node.dtype, tuple) and node.dtype.kind not in "biu"


def as_node(graph: FunctionGraph, value: Any) -> Node:
    """What a body gave as a node of its graph.

    Raises
    ------
    GraphError
        It is nothing that a graph can hold.
    """
    owned = graph.own(value)
    if isinstance(owned, Node):
        return owned
    if isinstance(value, bool | int | float):
        return graph.constant(value)
    raise GraphError(f"graph: a body gave {type(value).__name__}; expected a node, a Tensor or a number.")


def as_op(function: Function) -> Op:
    """The function as one operation on a list of its inputs, differentiable by its gradient function, to any order."""

    def vjp(g: Sequence[Any], out: Any, *inputs: Any) -> list[Any]:
        starts = [one for one in g if one is not None]
        found = iter(as_op(function.gradient())([*inputs, *starts]))
        return [next(found) if is_floating(node) else None for node in function.inputs]

    return graph_op(
        function.name,
        lambda xp, *arrays: function(*arrays),
        vjp=vjp,
        infer=lambda *values: function.infer(values),
        made=("call", {"function": function}, {}),
    )


class GraphOp(Op):
    """An operation that runs graphs. What can't be inferred is some row's inside it, and its error says which."""

    def infer_from(self, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        specs = zip(inputs, self.input_dtypes(inputs), strict=True)
        return self.infer(*[Spec(shape_of(value), dtype or dtype_of(value)) for value, dtype in specs], **attrs)


def graph_op(name: str, kernel: Any, *, vjp: Any, infer: Any, saves: str = "values", made: Any = None) -> Op:
    """An operation that runs graphs: any number of inputs, any number of results, one rule for all cotangents.

    `made` is the kind of operation, its functions and its numbers, by which a file can hold it.
    """

    def no_tangents(*_: Any) -> Any:
        raise GraphError(f"{name}: forward mode does not go through a graph; use reverse mode.")

    op = GraphOp(
        name, kernel, vjp=vjp, jvp=no_tangents, infer=infer, joint=True, variadic=True, results="several", saves=saves
    )
    op.made = made  # type: ignore[attr-defined]
    return op
