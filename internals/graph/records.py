"""The form of a graph's description, before a node is made of it: which parts there are, and of which kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from internals.graph.node import GraphError


def numbered(whole: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The records of a graph's nodes, and its functions, each record knowing which it is.

    Raises
    ------
    GraphError
        A part is missing or of the wrong kind; says which.
    """
    nodes, functions = whole.get("nodes"), whole.get("functions")
    if not isinstance(nodes, list):
        raise GraphError(f"graph: its nodes are missing or of the wrong kind: {_told(nodes)}.")
    if not isinstance(functions, dict):
        raise GraphError(f"graph: its functions are missing or of the wrong kind: {_told(functions)}.")
    _number(nodes, "")
    for name, function in functions.items():
        if not isinstance(function, dict) or not isinstance(function.get("nodes"), list):
            raise GraphError(f"graph: the function {name!r} has no list of nodes.")
        _number(function["nodes"], f" of function {name}")
    return nodes, functions


def _number(nodes: list[Any], rest: str) -> None:
    for number, record in enumerate(nodes, 1):
        if not isinstance(record, dict):
            raise GraphError(f"graph: node {number}{rest} is {_told(record)}, which is no node.")
        record["line"] = f"node {number}{rest}"


def check_record(record: Mapping[str, Any]) -> None:
    """Refuse a node's record that is not of the form in which nodes are written.

    Raises
    ------
    GraphError
    """
    wrong = _unfit(record, _NODE)
    if wrong is not None:
        name, op = record.get("name"), record.get("op")
        raise GraphError(
            f"graph: {record['line']}: {name}, {op}: its {wrong} are missing or of the wrong kind: "
            f"{_told(record.get(wrong))}."
        )


def check_depth(value: Any, most: int, depth: int = 0) -> None:
    """Refuse values of lists and objects that are nested deeper than that; this one lies in `depth` others.

    Raises
    ------
    GraphError
    """
    layer = [value] if type(value) in _NESTED else []
    while layer:
        depth += 1
        if depth > most:
            raise GraphError(f"its values are nested more than {most} deep.")
        parts = [part.values() if type(part) is dict else part for part in layer]
        layer = [one for part in parts for one in part if type(one) in _NESTED]


_NESTED = (dict, list)


def check_function(name: str, function: Mapping[str, Any]) -> None:
    """The same of a function's.

    Raises
    ------
    GraphError
    """
    wrong = _unfit(function, _FUNCTION)
    if wrong is None and not 0 <= function["captures"] <= len(function["inputs"]):
        wrong = "captures"
    if wrong is not None:
        raise GraphError(
            f"graph: the function {name!r}: its {wrong} are missing or of the wrong kind: {_told(function.get(wrong))}."
        )


def _unfit(part: Mapping[str, Any], wanted: Mapping[str, tuple[bool, Callable[[Any], bool]]]) -> str | None:
    """The first key whose value is missing, or is not of the kind that it must be."""
    for key, (needed, fits) in wanted.items():
        value = part.get(key)
        if needed if value is None else not fits(value):
            return key
    return None


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _values(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_value, value))


def _named_values(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_value, value.values()))


def _is_value(value: Any) -> bool:
    return not isinstance(value, dict) or value.keys() != {"node"} or _text(value["node"])


_NODE: dict[str, tuple[bool, Callable[[Any], bool]]] = {
    "name": (True, _text),
    "op": (True, _text),
    "inputs": (True, _values),
    "attrs": (False, _named_values),
    "type": (False, _texts),
    "functions": (False, lambda value: isinstance(value, dict) and all(map(_text, value.values()))),
    "controls": (False, _texts),
    "device": (False, _text),
    "where": (False, _text),
}
_FUNCTION: dict[str, tuple[bool, Callable[[Any], bool]]] = {
    "name": (True, _text),
    "inputs": (True, _texts),
    "outputs": (True, _texts),
    "captures": (True, lambda value: type(value) is int),
}


def _told(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"
