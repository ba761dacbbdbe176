"""A graph as JSON, and back: what a program that has never seen the Python code needs to run it.

TensorFlow 1's GraphDef is a list of nodes, each with a name, an operation, the names of its inputs and attributes, and
a library of functions, the bodies of loops and branches. So is this one.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from internals.device import device_of
from internals.graph import control
from internals.graph import graph as own_ops
from internals.graph.alike import Alike, There
from internals.graph.calls import Sizes, check_call, checked_attrs
from internals.graph.function import FOLD_IN, RUN_SEED, Function, as_op, seeded
from internals.graph.gradients import GRADIENT
from internals.graph.graph import PLACEHOLDER, Graph
from internals.graph.node import STOP_GRADIENT, GraphError, Node, types
from internals.graph.records import check_depth, check_function, check_record, numbered
from internals.ops.spec import as_dtype
from internals.ops.table import TABLE, Op, is_array
from internals.tensor.results import RESULT

FORMAT, VERSION = "internals.graph", 1

_OWN: dict[str, Op] = {
    op.name: op
    for op in (
        *(own_ops.PLACEHOLDER, own_ops.CONSTANT, own_ops.VARIABLE, own_ops.READ, own_ops.ASSIGN, own_ops.ASSIGN_ADD),
        *(own_ops.APPLY, own_ops.NO_OP, GRADIENT, RESULT, STOP_GRADIENT, RUN_SEED, FOLD_IN),
    )
}

Put = Callable[[np.ndarray], str | None]

_WITH_FUNCTIONS: dict[str, Callable[[Mapping[str, Function], Mapping[str, Any]], Op]] = {
    "cond": lambda f, n: control.cond_op(f["then"], f["otherwise"]),
    "while_loop": lambda f, n: control.while_op(f["condition"], f["body"], **n)[0],
    "while_loop_gradient": lambda f, n: control.while_op(f["condition"], f["body"], n["n"], n["most"])[1](
        n["floating"]
    ),
    "scan": lambda f, n: control.scan_op(f["body"], **n),
    "call": lambda f, n: as_op(f["function"]),
}

OWN = frozenset((*_OWN, *_WITH_FUNCTIONS))
"""The operations that graphs have beside the rows of the table."""


def op_of(kind: str, functions: Mapping[str, Function], numbers: Mapping[str, Any]) -> Op:
    """A branch or a loop with these functions."""
    return _WITH_FUNCTIONS[kind](functions, numbers)


def to_json(graph: Graph) -> str:
    """A graph as JSON.

    Raises
    ------
    GraphError
        A node runs Python code, which no file can hold; names it and the line that made it.
    """
    return json.dumps({"format": FORMAT, "version": VERSION, **written(graph)}, indent=1, allow_nan=False)


def from_json(text: str, *, largest: int | None = None) -> Graph:
    """The graph that `to_json` wrote.

    Parameters
    ----------
    text : str
    largest : int, optional
        Bytes of one value that it may compute at a batch of 1; for a text that is not one's own.

    Raises
    ------
    GraphError
        It is not that, or its nodes make no graph: a name twice or missing, a cycle, an operation that does not exist,
        shapes that do not go together. Names the node.
    """
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        raise GraphError(f"from_json: this is no JSON: {error}.") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise GraphError(f"from_json: expected an object with format {FORMAT!r}, as to_json writes it.")
    if whole.get("version") != VERSION:
        raise GraphError(f"from_json: version {whole.get('version')!r}; this program reads version {VERSION}.")
    try:
        nodes, functions = numbered(whole)
        return Reader(functions, largest=largest).graph(nodes)
    except (KeyError, TypeError, AttributeError) as error:
        raise GraphError(
            f"from_json: a part is missing or of the wrong kind: {type(error).__name__}: {error}."
        ) from None


# Writing


def written(graph: Graph, put: Put | None = None) -> dict[str, Any]:
    """The nodes and functions of a graph as plain data.

    `put` is asked about each array: the name under which it is kept elsewhere, or None where it is to be written here.
    """
    functions: dict[str, Any] = {}
    names: dict[int, str] = {}

    def name_of(function: Function) -> str:
        if id(function) not in names:
            name = names[id(function)] = f"f{len(names)}"
            functions[name] = {}  # keeps its place before those that its body uses
            functions[name].update(
                name=function.name,
                inputs=[node.name for node in function.inputs],
                outputs=[node.name for node in function.outputs],
                captures=len(function.captures),
                nodes=[_record(node, name_of, put) for node in function.graph.nodes],
            )
        return names[id(function)]

    return {"nodes": [_record(node, name_of, put) for node in graph.nodes], "functions": functions}


def _record(node: Node, name_of: Callable[[Function], str], put: Put | None = None) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": node.name,
        "op": node.op.name,
        "inputs": [{"node": one.name} if isinstance(one, Node) else _encoded(one) for one in node.inputs],
        "type": types(node),
    }
    made = getattr(node.op, "made", None)
    if made is not None:
        kind, functions, numbers = made
        record |= {"op": kind, "functions": {key: name_of(one) for key, one in functions.items()}}
        attrs: dict[str, Any] = dict(numbers)
    elif _known(node.op) is not node.op:
        raise GraphError(
            f"to_json: {node.name} (made at {node.where}) runs {node.op.name}, which is Python code and no row of the "
            "table; a file can't hold it."
        )
    else:
        attrs = dict(node.attrs)
    if node.op is PLACEHOLDER:
        attrs["shape"] = node.shape
    if attrs:
        record["attrs"] = {key: _encoded(value, put) for key, value in attrs.items()}
    if node.controls:
        record["controls"] = [one.name for one in node.controls]
    if node.device is not None:
        record["device"] = node.device
    return record | {"where": node.where}


def _known(op: Op) -> Op | None:
    if op.name in _OWN:
        return _OWN[op.name]
    if op.name.startswith("random_") and op.name.removeprefix("random_") in TABLE:
        return seeded(TABLE[op.name.removeprefix("random_")], "seed")
    return TABLE.get(op.name)


def _encoded(value: Any, put: Put | None = None) -> Any:
    """A value as JSON; what JSON has not is an object of one entry that says what it is."""
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if type(value) is float:
        return value if np.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Node):
        return {"node": value.name}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(one, put) for one in value]}
    if isinstance(value, list):
        return [_encoded(one, put) for one in value]
    if isinstance(value, Mapping):
        return {"dict": {key: _encoded(one, put) for key, one in value.items()}}
    if isinstance(value, slice):
        return {"slice": [_encoded(one) for one in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return {"dtype": np.dtype(value).name}
    if isinstance(value, np.generic) or is_array(value):
        host = np.asarray(value if isinstance(value, np.generic) else device_of(value).to_host(value))
        kept = put(host) if put is not None and isinstance(host, np.ndarray) else None
        if kept is not None:
            return {"kept": kept}
        data = base64.b64encode(host.tobytes()).decode("ascii")
        kind = "scalar" if isinstance(value, np.generic) else "array"
        return {kind: [host.dtype.name, list(host.shape), data]}
    raise GraphError(f"to_json: an attribute is {type(value).__name__}, which a file can't hold.")


# Reading


class Reader:
    """Makes nodes of records.

    Parameters
    ----------
    functions : mapping of str to dict
        The records of functions.
    kept : mapping of str to array, optional
        The arrays that are kept outside.
    largest : int, optional
        Bytes of one value that the graph may compute at a batch of 1.
    deepest : int, optional
        How deep a description may be nested, in which a node's record is at the third level.
    """

    def __init__(
        self,
        functions: Mapping[str, Any],
        kept: Mapping[str, np.ndarray] | None = None,
        *,
        largest: int | None = None,
        deepest: int | None = None,
    ) -> None:
        self._deepest = deepest
        self._written, self._kept, self._sizes = functions, kept or {}, Sizes(largest)
        self._alike = Alike(self._kept, self._sizes, self._first)
        self._functions: dict[str, Function] = {}
        self._open: list[str] = []

    def graph(self, records: Sequence[dict[str, Any]]) -> Graph:
        graph = Graph()
        there: There = {}
        done = self._alike.make(graph, records, 0, there)
        while done < len(records):
            record = records[done]
            self._check(record)
            if not record["name"] or not _can_follow(graph, record):
                return self._ordered(records)
            self._make(graph, record)
            self._alike.take(graph.by_name[record["name"]], there)
            done = self._alike.make(graph, records, done + 1, there)
        return graph

    def _ordered(self, records: Sequence[dict[str, Any]]) -> Graph:
        graph = Graph()
        for record in records:
            self._check(record)
        graph.reserve(record["name"] for record in records)
        for record in _in_order(records):
            self._make(graph, record)
        return graph

    def _check(self, record: dict[str, Any]) -> None:
        if self._deepest is not None:
            check_depth(record, self._deepest, 2)
        check_record(record)

    def function(self, name: str, line: str) -> Function:
        if name in self._open:
            raise GraphError(f"graph: {line}: the function {name!r} uses itself: {' -> '.join([*self._open, name])}.")
        if name not in self._functions:
            if name not in self._written:
                raise GraphError(f"graph: {line}: there is no function called {name!r}.")
            written = self._written[name]
            check_function(name, written)
            self._open.append(name)
            graph = self.graph(written["nodes"])
            self._open.pop()
            for part in (*written["inputs"], *written["outputs"]):
                if part not in graph.by_name:
                    raise GraphError(f"graph: the function {name!r} has no node called {part!r}.")
            inputs, outputs = ([graph.by_name[part] for part in written[key]] for key in ("inputs", "outputs"))
            made = self._functions[name] = Function(graph, inputs, outputs, written["name"])
            made.captures = [None] * written["captures"]
        return self._functions[name]

    def _first(self, graph: Graph, record: dict[str, Any], inputs: Sequence[Any]) -> Node:
        """A node of a row that is like none before, of whose record it is known that only the attributes may be odd."""
        if self._deepest is not None:
            check_depth(record.get("attrs"), self._deepest, 3)
        return self._checked(graph, record, inputs)

    def _make(self, graph: Graph, record: dict[str, Any]) -> None:
        line = record["line"]
        node = self._checked(graph, record, [_decoded(one, graph, line, self._kept) for one in record["inputs"]])
        node.controls = tuple(_found(one, graph, line) for one in record.get("controls") or ())
        node.device, node.where = record.get("device"), record.get("where", line)

    def _checked(self, graph: Graph, record: dict[str, Any], inputs: Sequence[Any]) -> Node:
        line, name, op = record["line"], record["name"], record["op"]
        attrs = {key: _decoded(value, graph, line, self._kept) for key, value in (record.get("attrs") or {}).items()}
        try:
            if op in _WITH_FUNCTIONS:
                functions = {key: self.function(one, line) for key, one in (record.get("functions") or {}).items()}
                check_call(op, functions, attrs, inputs)
                node = graph.add(op_of(op, functions, attrs), inputs, {}, name=name, where=line)
            elif op == PLACEHOLDER.name:
                if inputs:
                    raise GraphError(f"placeholder: takes no input, got {len(inputs)}.")
                attrs = checked_attrs(own_ops.PLACEHOLDER, (), attrs)
                node = graph.placeholder(attrs["shape"], attrs["dtype"], name=name, where=line)
            else:
                known = _known(_Named(op))  # type: ignore[arg-type]  # only the name is looked at
                if known is None:
                    raise GraphError(f"there is no operation called {op!r}")
                node = graph.add(known, inputs, checked_attrs(known, inputs, attrs), name=name, where=line)
                if known is GRADIENT:
                    node.shape = inputs[2 * attrs["outputs"] + attrs["index"]].shape
            self._sizes.check(node)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
            raise GraphError(f"graph: {line}: {name}: {error}") from None
        made = types(node)
        if record.get("type") is not None and record["type"] != made:
            raise GraphError(
                f"graph: {line}: {name} is said to be {', '.join(record['type'])}, but {op} of its inputs is "
                f"{', '.join(made)}."
            )
        return node


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name


def _can_follow(graph: Graph, record: Mapping[str, Any]) -> bool:
    """Whether a record's name is free, and what it is made from there."""
    return record["name"] not in graph.by_name and all(one in graph.by_name for one in _read_by(record))


def _in_order(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records so that each comes after what it is made from; as they are, where they can be."""
    by_name: dict[str, dict[str, Any]] = {}
    for record in records:
        if record["name"] in by_name:
            raise GraphError(
                f"graph: {record['line']}: there is a node called {record['name']!r} already ("
                f"{by_name[record['name']]['line']})."
            )
        by_name[record["name"]] = record
    done: set[str] = set()
    ordered: list[dict[str, Any]] = []
    for first in records:
        path = [(first["name"], iter(_read_by(first)))] if first["name"] not in done else []
        entered = {first["name"]: 0}
        while path:
            name, rest = path[-1]
            after = next((one for one in rest if one not in done), None)
            if after is None:
                path.pop()
                del entered[name]
                done.add(name)
                ordered.append(by_name[name])
            elif after not in by_name:
                raise GraphError(f"graph: {by_name[name]['line']}: {name} reads {after!r}, and no node is called that.")
            elif after in entered:
                cycle = [one for one, _ in path[entered[after] :]]
                lines = ", ".join(dict.fromkeys(str(by_name[one]["line"]) for one in cycle))
                raise GraphError(
                    f"graph: {lines}: {' <- '.join([*cycle, after])} is a cycle; none of them can run first."
                )
            else:
                entered[after] = len(path)
                path.append((after, iter(_read_by(by_name[after]))))
    return ordered


def _read_by(record: Mapping[str, Any]) -> list[str]:
    named = [*record["inputs"], *(record.get("attrs") or {}).values()]
    nodes = [one["node"] for one in named if isinstance(one, dict) and one.keys() == {"node"}]
    return [*nodes, *(record.get("controls") or ())]


def _found(name: str, graph: Graph, line: str) -> Node:
    if name not in graph.by_name:
        raise GraphError(f"graph: {line}: no node is called {name!r}.")
    return graph.by_name[name]


def _decoded(value: Any, graph: Graph, line: str, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_decoded(one, graph, line, arrays) for one in value]
    if not isinstance(value, dict):
        return value
    kind, held = next(iter(value.items())) if len(value) == 1 else ("", None)
    held = cast(Any, held)
    try:
        match kind:
            case "float":
                return float(held)
            case "node":
                return _found(held, graph, line)
            case "tuple":
                return tuple([_decoded(one, graph, line, arrays) for one in held])
            case "dict":
                return {key: _decoded(one, graph, line, arrays) for key, one in held.items()}
            case "slice":
                return slice(*[_decoded(one, graph, line, arrays) for one in held])
            case "ellipsis":
                return Ellipsis
            case "dtype":
                return as_dtype("graph", held)
            case "kept":
                if held not in arrays:
                    raise GraphError(f"graph: {line}: the array {held!r}, which is kept elsewhere, is missing.")
                return arrays[held]
            case "array" | "scalar":
                name, shape, data = held
                array = (
                    np.frombuffer(base64.b64decode(data, validate=True), as_dtype("graph", name)).reshape(shape).copy()
                )
                return array[()] if kind == "scalar" else array
    except (TypeError, ValueError, AttributeError, binascii.Error) as error:
        if isinstance(error, GraphError):
            raise
        raise GraphError(f"graph: {line}: {kind} {str(held)[:40]!r} can't be read: {error}.") from None
    raise GraphError(f"graph: {line}: a value of kind {kind or ', '.join(value)!r}, which this program does not know.")
