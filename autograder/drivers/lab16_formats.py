"""Drivers for ``lab16_formats``: plain data in, a call of what the learner wrote, plain data out. No answers here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Names = Mapping[str, Any]


def signature(names: Names, signature: list[list[Any]], given: dict[str, np.ndarray]) -> dict[str, Any]:
    """The sizes that a call binds, or the message with which it is refused."""
    described = {name: (tuple(shape), dtype) for name, shape, dtype in signature}
    try:
        found = names["bind"](described, dict(given))
    except names["SignatureError"] as error:
        return {"refused": str(error)}
    if not isinstance(found, dict):
        raise TypeError(f"bind returned {_kind(found)}; expected a dict from the names of sizes to sizes.")
    for key, size in found.items():
        if not isinstance(key, str) or isinstance(size, bool) or not isinstance(size, int | np.integer):
            raise TypeError(f"bind returned {key!r}: {size!r}; expected names of sizes and integers.")
    return {"sizes": {key: int(size) for key, size in found.items()}}


def freeze(names: Names, nodes: list[dict[str, Any]], values: dict[str, np.ndarray], outputs: list[str]) -> Any:
    """The nodes of the frozen graph, or the message with which it is refused."""
    given, arrays = _copied(nodes), {name: array.copy() for name, array in values.items()}
    try:
        found = names["freeze"](given, arrays, list(outputs))
    except names["FreezeError"] as error:
        return {"refused": str(error)}
    if not isinstance(found, list | tuple):
        raise TypeError(f"freeze returned {_kind(found)}; expected a list of nodes.")
    if not (_same(given, _copied(nodes)) and _same(arrays, dict(values))):
        return {"changed": "the nodes and values"}
    return {"nodes": [_node(one, "freeze") for one in found]}


def sizes(names: Names, first: list[dict[str, Any]], second: list[dict[str, Any]], batches: list[int]) -> Any:
    """The record with its open sizes, or the message with which it is refused."""
    given = _copied(first), _copied(second)
    try:
        found = names["open_sizes"](*given, tuple(batches))
    except names["SizeError"] as error:
        return {"refused": str(error)}
    if not isinstance(found, list | tuple):
        raise TypeError(f"open_sizes returned {_kind(found)}; expected a list of steps.")
    if not _same(given, (_copied(first), _copied(second))):
        return {"changed": "the records"}
    return {"steps": [_step(one) for one in found]}


def export(names: Names, nodes: list[dict[str, Any]], weights: dict[str, np.ndarray], x: np.ndarray) -> dict[str, Any]:
    """The ONNX graph that the learner writes; `x` is what the grader runs it on."""
    given, held = _copied(nodes), {name: array.copy() for name, array in weights.items()}
    found = names["export"](given, held)
    if not isinstance(found, dict) or found.keys() != {"nodes", "initializers"}:
        raise TypeError(f"export returned {_kind(found)}; expected a dict with 'nodes' and 'initializers'.")
    made, arrays = found["nodes"], found["initializers"]
    if not isinstance(made, list | tuple) or not isinstance(arrays, dict):
        raise TypeError("export: 'nodes' is a list, and 'initializers' a dict from names to arrays.")
    operators = []
    for one in made:
        if not isinstance(one, dict) or one.keys() != {"op_type", "inputs", "outputs", "attrs"}:
            raise TypeError(f"export: a node is {one!r}; expected op_type, inputs, outputs and attrs.")
        operators.append(
            {
                "op_type": str(one["op_type"]),
                "inputs": _listed("export: inputs", one["inputs"]),
                "outputs": _listed("export: outputs", one["outputs"]),
                "attrs": {str(key): _plain(value) for key, value in one["attrs"].items()},
            }
        )
    if not (_same(given, _copied(nodes)) and _same(held, dict(weights))):
        return {"changed": "the nodes and weights"}
    return {"nodes": operators, "initializers": {str(name): np.asarray(array) for name, array in arrays.items()}}


def _copied(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Nodes as the lab has them: what was a list of numbers is a tuple."""
    return [
        {**node, "inputs": list(node["inputs"]), "attrs": {key: _tuple(value) for key, value in node["attrs"].items()}}
        for node in nodes
    ]


def _same(one: Any, two: Any) -> bool:
    """Whether what a learner was given is still what it was."""
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return type(one) is type(two) and one.dtype == two.dtype and np.array_equal(one, two, equal_nan=True)
    if type(one) is not type(two):
        return False
    if isinstance(two, dict):
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in two)
    if isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    return bool(one == two)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _node(one: Any, function: str) -> dict[str, Any]:
    if not isinstance(one, dict) or not {"name", "op", "inputs", "attrs"} <= one.keys():
        raise TypeError(f"{function}: a node is {_kind(one)}; expected a dict with name, op, inputs and attrs.")
    return {
        "name": str(one["name"]),
        "op": str(one["op"]),
        "inputs": _listed(f"{function}: inputs", one["inputs"]),
        "attrs": {str(key): _plain(value) for key, value in one["attrs"].items()},
    }


def _step(one: Any) -> dict[str, Any]:
    if not isinstance(one, dict) or not {"op", "inputs", "attrs"} <= one.keys():
        raise TypeError(f"open_sizes: a step is {_kind(one)}; expected a dict with op, inputs and attrs.")
    attrs = {str(key): _plain(value) for key, value in one["attrs"].items()}
    inputs = _listed("open_sizes: inputs", one["inputs"], int)
    return {"op": str(one["op"]), "inputs": inputs, "attrs": attrs}


def _listed(what: str, value: Any, kind: type = str) -> list[Any]:
    """Names, or numbers of steps."""
    kinds = str if kind is str else int | np.integer
    if not isinstance(value, list | tuple) or not all(isinstance(one, kinds) for one in value):
        raise TypeError(f"{what} is {value!r}; expected a list of {'names' if kind is str else 'numbers of steps'}.")
    return [kind(one) for one in value]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.integer):
        return int(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"an attribute is {_kind(value)}; expected numbers, text, tuples of them or an array.")


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
