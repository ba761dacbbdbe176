"""The graph style: calling a row on nodes adds a node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from internals.device import base_array
from internals.graph.node import GraphError, Node, infer
from internals.ops.rules import promoted
from internals.ops.spec import Spec, as_dtype
from internals.ops.table import Op, is_array, style
from internals.tensor import Tensor
from internals.tensor.results import RESULT


def _no_kernel(xp: Any, *inputs: Any, **attrs: Any) -> Any:
    raise GraphError("this node is run by a session, not by a kernel.")


def own(name: str, infer: Any, doc: str, **columns: Any) -> Op:
    """An operation that only graphs have; not in the table."""
    return Op(name, _no_kernel, vjp=None, infer=infer, doc=doc, **columns)


PLACEHOLDER = own("placeholder", lambda *, shape, dtype: Spec(shape, dtype), "A value that is fed to each run.")
CONSTANT = own("constant", lambda *, value: Spec(value.shape, value.dtype), "A value that was known at building.")
VARIABLE = own("variable", lambda *, initial: Spec(initial.shape, initial.dtype), "Its value when the run started.")
READ = own("read", lambda variable: variable, "A variable's value at this point of the run.")
ASSIGN = own("assign", lambda variable, value: variable, "The variable's new value.")
ASSIGN_ADD = own("assign_add", lambda variable, value: variable, "The variable's new value: what it had, plus a value.")
APPLY = own(
    "apply",
    lambda variable, gradient, lr, *slots, optimizer, settings: variable,
    "The variable's new value: moved along its gradient by a rule of internals.optim.",
)
NO_OP = own("no_op", lambda: Spec((0,), np.float32), "Nothing; what it is ordered after has run.")

STATEFUL: dict[Op, Callable[[Node], Collection[int]]] = {
    READ: lambda node: (0,),
    ASSIGN: lambda node: (0,),
    ASSIGN_ADD: lambda node: (0,),
    APPLY: lambda node: (0, *range(3, len(node.inputs))),
}
"""What reads or writes variables where they are kept; which inputs it does not need the values of."""


class Graph:
    """Nodes, in the order in which they were made, which is an order in which they can run.

    Examples
    --------
    >>> graph = Graph()
    >>> with graph:
    ...     x = graph.placeholder((None, 3), name="x")
    ...     y = (x * 2).sum(axis=0)
    >>> Session(graph).run(y, {x: numpy.ones((4, 3), "float32")})
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.by_name: dict[str, Node] = {}
        self._used: dict[str, int] = {}
        self._scope: list[str] = []
        self._controls: list[tuple[Node, ...]] = []
        self._device: list[str | None] = []
        self._captured: dict[int, tuple[Any, Node]] = {}
        self._lock = threading.RLock()

    # The graph that is being built

    def __enter__(self) -> Graph:
        _building.stack.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _building.stack.pop()

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Names of nodes made inside start with ``name/``; the same scope opened again is another one."""
        if not isinstance(name, str) or not name:
            raise GraphError(f"scope: the name must be a text that is not empty, got {name!r}.")
        self._scope.append(self._unique(self._full(name)))
        try:
            yield
        finally:
            self._scope.pop()

    @contextmanager
    def after(self, nodes: Sequence[Node]) -> Iterator[None]:
        """Nodes made inside run after `nodes` (TensorFlow's control_dependencies)."""
        self._controls.append(tuple(nodes))
        try:
            yield
        finally:
            self._controls.pop()

    @contextmanager
    def device(self, name: str | None) -> Iterator[None]:
        """Nodes made inside are asked to run on a device, such as ``"sim:1"``."""
        self._device.append(name)
        try:
            yield
        finally:
            self._device.pop()

    # Making nodes

    def add(
        self, op: Op, inputs: Sequence[Any], attrs: dict[str, Any] | None = None, *, name: str = "", where: str = ""
    ) -> Node:
        """A node that runs `op`; its shape and dtype are inferred here. `where` is the line that called unless given.

        Raises
        ------
        ValueError, TypeError
            The inputs make no sense to the op; or GraphError: one is of another graph, or the name is taken.
        """
        attrs = attrs or {}
        for value in inputs:
            if isinstance(value, Node) and value.graph is not self:
                raise GraphError(
                    f"{op.name}: {value.name} (made at {value.where}) is a node of another graph. Build both in one, "
                    "or run it and feed its value."
                )
        spec = infer(op, inputs, attrs)
        with self._lock:
            if name and self._full(name) in self.by_name:
                taken = self.by_name[self._full(name)]
                raise GraphError(f"{op.name}: the name {taken.name!r} is taken by a node made at {taken.where}.")
            full = self._full(name) if name else self._unique(self._full(op.name))
            self._used.setdefault(full, 1)
            node = Node(self, op, tuple(inputs), attrs, full, spec, len(self.nodes), where)
            if self._controls:
                node.controls = tuple(dict.fromkeys(one for several in self._controls for one in several))
            node.device = self._device[-1] if self._device else None
            self.nodes.append(node)
            self.by_name[full] = node
        return node

    def like(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str, spec: Any, where: str) -> Node:
        """A node of which nothing is checked, since another was that is like it.

        Its name must be free. The scope, and what was said by `after` and `device`, do not count.

        Parameters
        ----------
        spec : Spec or Node
            What has its shape and dtype.
        """
        node = Node(self, op, inputs, attrs, name, spec, len(self.nodes), where)
        self._used.setdefault(name, 1)
        self.nodes.append(node)
        self.by_name[name] = node
        return node

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names for nodes that will ask for them."""
        for name in names:
            self._used.setdefault(name, 1)

    def _full(self, name: str) -> str:
        return f"{self._scope[-1]}/{name}" if self._scope else name

    def _unique(self, name: str) -> str:
        count = self._used.get(name, 0)
        self._used[name] = count + 1
        if not count:
            return name
        return self._unique(f"{name}_{count}")

    def placeholder(
        self, shape: Sequence[int | None], dtype: Any = np.float32, *, name: str = "", where: str = ""
    ) -> Node:
        """A value that is fed to each run; sizes may be None, to be known then."""
        attrs = {"shape": _known(shape), "dtype": as_dtype("placeholder", dtype)}
        node = self.add(PLACEHOLDER, (), attrs, name=name, where=where)
        node.shape = tuple(shape)
        return node

    def constant(self, value: Any, dtype: Any = None, *, name: str = "") -> Node:
        """A value that stays."""
        array = base_array(value.data if isinstance(value, Tensor) else value, "constant")
        if not is_array(array):
            array = Tensor(array, dtype=dtype).data
        elif dtype is not None:
            array = array.astype(dtype)
        return self.add(CONSTANT, (), {"value": array}, name=name)

    def variable(self, initial: Any, *, name: str = "", dtype: Any = None) -> Node:
        """A value that runs can change and that a session keeps from run to run.

        Parameters
        ----------
        initial : array-like or Node
            Its value after `Session.initialise`. A node is run then; variables that it reads must have been made
            before this one.

        Raises
        ------
        GraphError
            The node's shape is not known, it is of another graph, or the name is taken.
        """
        if not isinstance(initial, Node):
            initial = Tensor(initial, dtype=dtype).data
        elif initial.graph is not self or not initial.is_known or isinstance(initial.dtype, tuple):
            raise GraphError(
                f"variable: {initial!r} (made at {initial.where}) can't be a first value: it must be one array of this "
                "graph, of a known shape."
            )
        elif dtype is not None and initial.dtype != np.dtype(dtype):
            raise GraphError(f"variable: {initial!r} (made at {initial.where}) is not {np.dtype(dtype).name}; cast it.")
        return self.add(VARIABLE, (), {"initial": initial}, name=name)

    @property
    def variables(self) -> list[Node]:
        return [node for node in self.nodes if node.op is VARIABLE]

    def group(self, nodes: Sequence[Node], *, name: str = "") -> Node:
        """A node that computes nothing and is ordered after all of `nodes`: something to fetch."""
        with self.after(nodes):
            return self.add(NO_OP, (), name=name)

    def own(self, value: Any) -> Any:
        """An input of an operation as this graph has it: its own nodes, numbers, and a constant for an array."""
        if not (isinstance(value, Tensor) or is_array(value)):
            return value
        if id(value) not in self._captured:
            self._captured[id(value)] = value, self.constant(value)  # held, so that the id stays its own
        return self._captured[id(value)][1]

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<graph of {len(self.nodes)} nodes>"


def _known(shape: Sequence[int | None]) -> tuple[int, ...]:
    for size in shape:
        if size is not None and (not isinstance(size, int | np.integer) or size < 0):
            raise GraphError(f"placeholder: sizes are non-negative integers or None, got {tuple(shape)}.")
    return tuple([-1 if size is None else int(size) for size in shape])


class _Building(threading.local):
    def __init__(self) -> None:
        self.stack: list[Graph] = []


_building = _Building()


def being_built() -> Graph | None:
    """The graph of the innermost ``with graph:``, if there is one."""
    return _building.stack[-1] if _building.stack else None


def current() -> Graph:
    """The graph of the innermost ``with graph:``.

    Raises
    ------
    GraphError
        There is none.
    """
    if not _building.stack:
        raise GraphError("graph: no graph is being built here; write `with graph:` around it.")
    return _building.stack[-1]


def assign(variable: Node, value: Any) -> Node:
    """A node that gives a variable a new value when it runs, and is that value.

    Raises
    ------
    GraphError
        It is not a variable, or the value has another shape or dtype.
    """
    return _assigned(ASSIGN, variable, value)


def assign_add(variable: Node, value: Any) -> Node:
    """A node that adds to what a variable has when it runs, and is the sum; see `assign`.

    Other than ``assign(v, v + value)``, which adds to the value at the start of the run, it sees what ran before it.
    """
    return _assigned(ASSIGN_ADD, variable, value)


def assign_sub(variable: Node, value: Any) -> Node:
    """A node that takes from what a variable has when it runs; see `assign_add`."""
    check_variable("assign_sub", variable)
    value = value if isinstance(value, Node) else variable.graph.constant(value, dtype=variable.dtype)
    return _assigned(ASSIGN_ADD, variable, -value)


def _assigned(op: Op, variable: Node, value: Any) -> Node:
    check_variable(op.name, variable)
    graph = variable.graph
    value = value if isinstance(value, Node) else graph.constant(value, dtype=variable.dtype)
    if value.shape != variable.shape or value.dtype != variable.dtype:
        raise GraphError(f"{op.name}: {value!r} does not fit the variable {variable!r} (made at {variable.where}).")
    return graph.add(op, (variable, value))


def check_variable(caller: str, node: Any) -> None:
    """Raise GraphError for what is not a variable."""
    if not isinstance(node, Node):
        raise GraphError(f"{caller}: expected a variable, got {type(node).__name__}.")
    if node.op is not VARIABLE:
        raise GraphError(
            f"{caller}: {node.name} (made at {node.where}) is made by {node.op.name}; only a variable can be given a "
            "value."
        )


def read(variable: Node) -> Node:
    """A variable's value at this point: after what `Graph.after` names."""
    check_variable("read", variable)
    return variable.graph.add(READ, (variable,))


def run_on_nodes(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """How the graph style runs a row: it adds a node, and one for each result where there are several."""
    graph = _building.stack[-1] if _building.stack else next(v.graph for v in inputs if isinstance(v, Node))
    inputs = tuple([graph.own(value) for value in inputs])
    node = graph.add(op, promoted(op, inputs), attrs)
    if not op.results:
        return node
    return op.bundle([graph.add(RESULT, (node,), {"index": i}) for i in range(len(node.dtype))])


style(Node, run_on_nodes, rank=30)
