"""Of what kind a call is: what a trace was made for, compared with what comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.device import device_of
from internals.graph import Function, Node
from internals.tensor import Tensor
from internals.trace.state import fingerprint


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def kind_of(value: Any) -> Any:
    if is_tensor(value):
        array = value.data if isinstance(value, Tensor) else value
        return "tensor", value.shape, value.dtype, device_of(array).name
    return fingerprint(value)


def is_tensor_kind(kind: Any) -> bool:
    return kind[0] == "tensor" and len(kind) == 4


def fits(trace: Sequence[Any], call: Sequence[Any]) -> bool:
    """Whether a call is of the kinds that a trace was made for."""
    if len(trace) != len(call):
        return False
    for was, now in zip(trace, call, strict=True):
        if was == now:
            continue
        if not (isinstance(was, tuple) and isinstance(now, tuple) and is_tensor_kind(was) and is_tensor_kind(now)):
            return False
        if was[2:] != now[2:] or len(was[1]) != len(now[1]) or (was[1][:1] == (None,) and now[1][0] < 2):
            return False
        if any(a is not None and a != b for a, b in zip(was[1], now[1], strict=True)):
            return False
    return True


def kind_text(kind: Any) -> str:
    if is_tensor_kind(kind):
        sizes = ", ".join("?" if size is None else str(size) for size in kind[1])
        return f"{kind[2]}[{sizes}] on {kind[3]}"
    return repr(float.fromhex(kind[1]) if kind[0] is float else kind[-1])


def program_of(function: Function) -> list[Any]:
    """What a function computes, without names: an op for each node, with its inputs' numbers."""
    numbers = {node: i for i, node in enumerate(function.graph.nodes)}
    described = [
        (
            node.op.name,
            [numbers[v] if isinstance(v, Node) else repr(v) for v in node.inputs],
            sorted((name, _text(value)) for name, value in node.attrs.items() if name != "shape" or node.inputs),
            node.shape,
            node.dtype,
        )
        for node in function.graph.nodes
    ]
    return [*described, [numbers[node] for node in function.outputs]]


def _text(value: Any) -> str:
    return repr((value.shape, value.tobytes())) if isinstance(value, np.ndarray) else repr(value)
