"""Drivers for ``lab06_rules``: plain data in, a call of what the learner wrote, plain data out. No answers here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Names = Mapping[str, Any]


def embedding(names: Names, g: np.ndarray, table: np.ndarray, index: np.ndarray) -> Any:
    """The cotangent of the table. The arrays can't be changed: others hold them too."""
    _lock(g, table, index)
    return _array("embedding_rule", names["embedding_rule"](g, table, index))


def softmax(names: Names, op: str, g: np.ndarray, x: np.ndarray, target: np.ndarray | None) -> Any:
    """The cotangent of the logits, by the rule of log_softmax or of cross_entropy."""
    _lock(g, x)
    if op == "log_softmax":
        return _array("log_softmax_rule", names["log_softmax_rule"](g, x))
    assert target is not None
    _lock(target)
    return _array("cross_entropy_rule", names["cross_entropy_rule"](g, x, target))


def maximum(names: Names, g: np.ndarray, x: np.ndarray, axis: int | None) -> Any:
    """The cotangent of what the largest entries were taken from."""
    _lock(g, x)
    return _array("max_rule", names["max_rule"](g, x, axis))


def quantise(names: Names, g: np.ndarray, x: np.ndarray, scale: np.ndarray, low: int, high: int) -> list[Any]:
    """The straight-through cotangents of the numbers and of the scale."""
    _lock(g, x, scale)
    return _several("quantise_rule", names["quantise_rule"](g, x, scale, low, high), "dx", "dscale")


def layer_norm(
    names: Names, g: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float
) -> list[Any]:
    """The cotangents of a layer normalisation's three arrays."""
    _lock(g, x, weight, bias)
    answer = names["layer_norm_rule"](g, x, weight, bias, eps)
    return _several("layer_norm_rule", answer, "dx", "dweight", "dbias")


def conv2d(
    names: Names, g: np.ndarray, x: np.ndarray, weight: np.ndarray, stride: list[int], padding: list[int]
) -> list[Any]:
    """The cotangents of a convolution's image and weight; stride and padding come as pairs."""
    _lock(g, x, weight)
    answer = names["conv2d_rule"](g, x, weight, tuple(stride), tuple(padding))
    return _several("conv2d_rule", answer, "dx", "dweight")


def _lock(*arrays: np.ndarray) -> None:
    for array in arrays:
        array.flags.writeable = False


def _array(name: str, answer: Any) -> Any:
    if not isinstance(answer, (np.ndarray, np.generic)):
        raise TypeError(f"{name} returned {_kind(answer)}; expected one array.")
    return answer


def _several(name: str, answer: Any, *parts: str) -> list[Any]:
    if not isinstance(answer, (tuple, list)) or len(answer) != len(parts):
        raise TypeError(f"{name} returned {_kind(answer)}; expected {len(parts)} arrays, ({', '.join(parts)}).")
    return list(answer)


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    size = f" of {len(value)}" if isinstance(value, (tuple, list, dict)) else ""
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return f"{article} {type(value).__name__}{size}"
