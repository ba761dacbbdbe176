"""The table of export rules: for each row of the op table that has a counterpart, how it is written in ONNX.

A rule is ``rule(builder, node, *inputs)`` and gives the name of the result, or names where the row has several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from internals.deploy.onnx.builder import Builder, Name, Value
from internals.graph import Node

Rule = Callable[..., "Name | Sequence[Name]"]

RULES: dict[str, Rule] = {}

WITHOUT: dict[str, str] = {
    "ctc": "ONNX has no CTC loss",
    "dropout": "it draws random numbers; export the model as it evaluates",
    "transfer": "ONNX has no devices",
    "products_of_others": "it is the derivative of a product; ONNX has no operator for it",
    "conv1d_weight": "it is the derivative of a convolution by its weight; export the forward graph",
    "conv2d_weight": "it is the derivative of a convolution by its weight; export the forward graph",
    "max_pool2d_index": "ONNX counts the places of maxima in the whole input, not in their windows",
    "pick2d": "it is a part of the derivative of a maximum; export the forward graph",
    "unpool2d": "it is the derivative of a maximum; export the forward graph",
    "avg_unpool2d": "it is the derivative of an average; export the forward graph",
    "adaptive_avg_unpool2d": "it is the derivative of an average; export the forward graph",
    "solve": "ONNX has no solver of linear systems",
    "triangular_solve": "ONNX has no solver of linear systems",
    "inverse": "ONNX has no inverse of a matrix",
    "slogdet": "ONNX has no logarithm of a determinant",
    "cholesky": "ONNX has no decomposition of matrices",
    "qr": "ONNX has no decomposition of matrices",
    "eigh": "ONNX has no decomposition of matrices",
    "svd": "ONNX has no decomposition of matrices",
}
"""Rows that ONNX's standard operators can't express, and why."""

_DRAWN = "it is drawn anew in each run or round"
_STATE = "it changes a variable, and an ONNX file has constants only"
IN_GRAPHS: dict[str, str] = {
    **dict.fromkeys(("run_seed", "fold_in"), _DRAWN),
    "while_loop_gradient": "it keeps the states of as many rounds as there are; use scan, or export the forward graph",
    **dict.fromkeys(("read", "assign", "assign_add", "apply"), _STATE),
    "gradient": "its sizes are open; give them as numbers, or export the forward graph",
}
"""The same of the operations that only graphs have."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of these rows."""

    def entered(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return entered


def same(**operators: str) -> None:
    """Enter rows that are ONNX operators under another name."""
    for name, operator in operators.items():
        RULES[name] = _operator(operator)


def _operator(operator: str) -> Rule:
    def written(b: Builder, node: Node, *inputs: Value) -> Name:
        return b.op(operator, *inputs)

    return written


def axes_of(node: Node, x: Value) -> list[int]:
    """The attribute `axis` of a reduction, counted from the front."""
    axis: Any = node.attrs["axis"]
    given = range(x.ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    return [int(one) % x.ndim for one in given]
