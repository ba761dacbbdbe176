"""The graph of a saved model as bytes: JSON, which people read, or a compact binary form; one says what the other says.

The binary form is eight bytes that name it and then msgpack. A node is a list in place of an object, since all have the
same keys; an input that is a node is its name; and an array's bytes are bytes, where JSON has base64.
"""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from internals.deploy.errors import FormatError
from internals.deploy.saved.bounded import check_msgpack, read_json
from internals.graph import Graph, GraphError
from internals.graph.calls import LARGEST_VALUE
from internals.graph.graphdef import FORMAT, OWN, VERSION, Put, Reader, written
from internals.graph.records import check_depth, numbered
from internals.ops.table import TABLE

MAGIC = b"\x89IGRAPH\n"
KEYS = ("name", "op", "inputs", "type", "attrs", "controls", "device", "where", "functions")
DEEPEST = 64
"""How deep values, or functions that use functions, may be nested."""
LARGEST = 10_000_000
"""Nodes, counted each time a function is used; past it a small file could take for ever to run."""
WRONG = (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError, RecursionError, MemoryError)
"""What reading a description that makes no sense can raise."""


def graph_to_json(graph: Graph, put: Put | None = None) -> bytes:
    """A graph as JSON; arrays that `put` gives a name to stay outside."""
    whole = {"format": FORMAT, "version": VERSION, **written(graph, put)}
    return json.dumps(whole, allow_nan=False, separators=(",", ":")).encode()


def json_to_binary(data: bytes) -> bytes:
    """The binary form of what `graph_to_json` gives.

    Raises
    ------
    FormatError
        It is no such JSON.
    """
    whole = _plain(data)
    try:
        functions = {
            name: {**function, "nodes": list(map(_listed, function["nodes"]))}
            for name, function in whole["functions"].items()
        }
        packed = {**whole, "nodes": list(map(_listed, whole["nodes"])), "functions": functions}
        return MAGIC + _msgpack().packb(packed)
    except WRONG as error:
        raise FormatError(f"graph: it has no binary form: {type(error).__name__}: {error}.") from None


def binary_to_json(data: bytes) -> bytes:
    """The JSON that `json_to_binary` was given, to the byte.

    Raises
    ------
    FormatError
        It is no such binary form.
    """
    return json.dumps(_plain(data), allow_nan=False, separators=(",", ":")).encode()


def read_graph(name: str, data: bytes, kept: Mapping[str, np.ndarray]) -> Graph:
    """The graph in a file of either form.

    Parameters
    ----------
    name : str
        Of the file, for errors.
    data : bytes
    kept : mapping of str to array
        The arrays that were put outside.

    Raises
    ------
    FormatError
        It is cut off, damaged or hostile, or has an operation that this program does not know; names the node.
    """
    try:
        whole = _parsed(data)
        if whole.get("format") != FORMAT or whole.get("version") != VERSION:
            raise FormatError(
                f"it is {whole.get('format')!r} of version {whole.get('version')!r}; this program reads {FORMAT!r} of "
                f"version {VERSION}"
            )
        nodes, functions = numbered(whole)
        # The reader looks at the nodes themselves, but not at functions that nothing uses.
        check_depth(whole if functions else {key: whole[key] for key in whole if key != "nodes"}, DEEPEST)
        _check_sizes(nodes, functions)
        return Reader(functions, kept, largest=LARGEST_VALUE, deepest=DEEPEST).graph(nodes)
    except GraphError as error:
        raise FormatError(f"load: {name}: {error}") from None
    except WRONG as error:
        what = str(error) if isinstance(error, FormatError) else f"a part is missing or of the wrong kind: {error!r}"
        raise FormatError(f"load: {name}: {what}.") from None


def _plain(data: bytes) -> dict[str, Any]:
    """Either form as plain data, in which nothing is nested deeper than is sane, as graphs are written."""
    whole = _parsed(data)
    try:
        check_depth(whole, DEEPEST)
        bodies = [whole, *whole["functions"].values()] if data.startswith(MAGIC) else []
        for body in bodies:
            body["nodes"] = [{key: record[key] for key in _ORDER if key in record} for record in body["nodes"]]
    except (*WRONG, GraphError) as error:
        raise FormatError(f"graph: {error}") from None
    return whole


def _parsed(data: bytes) -> dict[str, Any]:
    """Either form as plain data."""
    if data.startswith(MAGIC):
        check_msgpack(data)
        whole = _unpacked(data)
    else:
        try:
            whole = read_json(data)
        except FormatError:
            raise
        except (ValueError, RecursionError) as error:
            raise FormatError(f"it is neither a binary graph nor JSON ({error})") from None
    if not isinstance(whole, dict):
        raise FormatError(f"it holds a {type(whole).__name__} in place of a graph")
    return whole


def _unpacked(data: bytes) -> Any:
    msgpack = _msgpack()
    try:
        whole = msgpack.unpackb(memoryview(data)[len(MAGIC) :], raw=False, ext_hook=_no_extension)
        whole["nodes"] = list(map(_record, whole["nodes"]))
        for function in whole["functions"].values():
            function["nodes"] = list(map(_record, function["nodes"]))
    except (*WRONG, msgpack.UnpackException) as error:
        raise FormatError(f"it is a damaged binary graph ({type(error).__name__}: {error})") from None
    return whole


def _no_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"extension type {code}")


def _listed(record: Mapping[str, Any]) -> list[Any]:
    if record.keys() - set(KEYS):
        raise KeyError(f"{record.get('name')} has {', '.join(record.keys() - set(KEYS))}")
    inputs = [one["node"] if isinstance(one, dict) and "node" in one else _raw(one) for one in record["inputs"]]
    row: list[Any] = [record.get(key) for key in KEYS]
    row[KEYS.index("inputs")] = inputs
    row[KEYS.index("attrs")] = _raw(record.get("attrs"))
    while row[-1] is None:
        row.pop()
    return row


def _record(row: list[Any]) -> dict[str, Any]:
    if type(row) is not list:
        raise TypeError(f"a node is a {type(row).__name__}")
    record: dict[str, Any] = {}
    for key, value in zip(KEYS, row, strict=False):
        if value is not None:
            record[key] = value
    record["inputs"] = [{"node": one} if type(one) is str else _unraw(one) for one in record["inputs"]]
    if "attrs" in record:
        record["attrs"] = _unraw(record["attrs"])
    return record


_ORDER = ("name", "op", "inputs", "type", "functions", "attrs", "controls", "device", "where")
"""The keys of a node in the order in which graphs write them."""


def _raw(value: Any) -> Any:
    """An encoded value with its arrays' base64 as bytes."""
    if isinstance(value, dict):
        for kind in ("array", "scalar"):
            if value.keys() == {kind}:
                dtype, shape, data = value[kind]
                return {kind: [dtype, shape, base64.b64decode(data, validate=True)]}
        return {key: _raw(one) for key, one in value.items()}
    if type(value) is int and not -(2**63) <= value < 2**64:
        return {"integer": str(value)}
    return [_raw(one) for one in value] if isinstance(value, list) else value


def _unraw(value: Any) -> Any:
    if type(value) is dict:
        if len(value) == 1 and "integer" in value:
            return int(value["integer"])
        return {key: one if type(one) is str else _unraw(one) for key, one in value.items()}
    if type(value) is bytes:
        return base64.b64encode(value).decode("ascii")
    return [_unraw(one) for one in value] if type(value) is list else value


def _check_sizes(nodes: list[Any], functions: dict[str, Any]) -> None:
    """Refuse functions that use functions that use functions until a few lines stand for a program without end."""
    if not functions and len(nodes) <= LARGEST:
        return
    sizes: dict[str, tuple[int, int]] = {}
    every = {"": {"nodes": nodes}, **functions}
    uses = {
        name: [one for record in function["nodes"] for one in (record.get("functions") or {}).values()]
        for name, function in every.items()
    }
    stack = [("", iter(uses[""]))]
    while stack:
        name, rest = stack[-1]
        after = next((one for one in rest if one not in sizes), None)
        if after is None:
            stack.pop()
            inner = [sizes[one] for one in uses[name] if one in sizes]
            total = len(every[name]["nodes"]) + sum(size for size, _ in inner)
            sizes[name] = total, 1 + max((depth for _, depth in inner), default=0)
            if total > LARGEST:
                raise FormatError(f"its functions, used as often as they are, come to more than {LARGEST:,} nodes")
        elif after not in every or len(stack) > DEEPEST:
            if after in every:
                raise FormatError(f"its functions use one another more than {DEEPEST} deep, or in a circle")
            sizes[after] = 0, 0  # the reader tells of it
        else:
            stack.append((after, iter(uses[after])))


def unknown_operations(names: list[str]) -> list[str]:
    """Which of these operations this program does not have."""
    return sorted({one for one in names if one.removeprefix("random_") not in TABLE and one not in OWN})


def operations_of(graph: Graph) -> list[str]:
    """The names of the operations in a graph and in its functions."""
    whole = written(graph, lambda array: "")
    bodies = [whole["nodes"], *[function["nodes"] for function in whole["functions"].values()]]
    return sorted({record["op"] for nodes in bodies for record in nodes})


def _msgpack() -> Any:
    try:
        return importlib.import_module("msgpack")
    except ImportError:
        raise ImportError("The binary form of graphs needs msgpack: pip install msgpack") from None
