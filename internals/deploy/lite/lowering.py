"""A graph lowered to the operations of lite models.

Images are laid out as (batch, height, width, channels), so that a convolution reads its channels in one run. A constant
that scales or shifts channels behind a product goes into its weight and bias, which folds batch normalisation away; an
activation becomes the end of the step before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from internals.deploy.lite.runtime import LiteError
from internals.deploy.lite.writer import NUMBERS, Builder
from internals.deploy.saved.sources import Content
from internals.graph import Node, needed
from internals.graph.graph import CONSTANT, PLACEHOLDER, VARIABLE
from internals.graph.plan import Plan

PLAIN, IMAGE, FLAT = "plain", "image", "flat"
"""How a value lies: as in the graph; with its channels last; or such an image as one row."""
PRODUCTS = ("FullyConnected", "Conv2d", "Depthwise")
FUSING = (*PRODUCTS, "Add", "Multiply")
Rule = Callable[["Lowering", Node], tuple[int, str]]


class Lowering:
    """One signature of a model, step by step into a `Builder`."""

    def __init__(self, content: Content, signature: str, rules: Mapping[str, Rule]) -> None:
        self.content, self.builder, self.rules = content, Builder(), rules
        ends = content.signatures[signature]
        given = [node for node, _ in ends["inputs"].values()]
        self.results = [node for node, _ in ends["outputs"].values()]
        self.zeros = zero_states(needed(self.results, set(given)))
        ends_here = {*given, *self.zeros}
        nodes = sorted({*needed(self.results, ends_here), *given} - self.zeros, key=lambda one: one.order)
        self.uses = dict.fromkeys(nodes, 0)
        for node in nodes:
            for one in node.inputs:
                if isinstance(one, Node):
                    self.uses[one] = self.uses.get(one, 0) + 1
        for node in self.results:
            self.uses[node] += 2  # never folded into what follows
        self.values: dict[Node, tuple[int, str]] = {}
        self.known: dict[Node, np.ndarray] = {}
        self.flat: dict[int, tuple[int, int, int]] = {}
        for name, (node, _) in ends["inputs"].items():
            self.values[node] = self.builder.input(name, self._open(node), node.dtype), PLAIN
        for node in nodes:
            if node not in self.values:
                self._lower(node)
        for name, (node, _) in ends["outputs"].items():
            number = self.plain(node)
            if number in (*self.builder.inputs, *self.builder.outputs):
                number = self.put("Reshape", [number], self.shape(number))
            self.builder.output(number, name)

    def _open(self, node: Node) -> tuple[int, ...]:
        if any(size is None for size in node.shape[1:]) or isinstance(node.dtype, tuple):
            raise self.error(node, f"has shape {node.shape}; only the first size may be open")
        return tuple([-1 if size is None else int(size) for size in node.shape])

    @staticmethod
    def error(node: Node, why: str) -> LiteError:
        return LiteError(f"to_lite: {node.name} (made at {node.where}) is {node.op.name}, and {why}.")

    def _lower(self, node: Node) -> None:
        if node.op is PLACEHOLDER:
            raise self.error(node, "is no input of the signature")
        if node.op is VARIABLE or node.op is CONSTANT or all(self.array(one) is not None for one in node.inputs):
            if node.op is VARIABLE:
                self.known[node] = np.asarray(self.content.values[node.name])
            else:
                self.known[node] = np.asarray(Plan([], [node]).run([], self.content.values)[0])
            return
        rule = self.rules.get(node.op.name)
        if rule is None:
            raise self.error(node, f"lite models have none of that; they have {', '.join(sorted(self.rules))}")
        number, layout = self.values[node] = rule(self, node)
        if layout == FLAT and number not in self.flat:
            sources = [self.values[one][0] for one in node.inputs if one in self.values]
            self.flat[number] = next(self.flat[one] for one in sources if one in self.flat)

    # Values

    def array(self, value: Any) -> np.ndarray | None:
        """A value that depends on no input."""
        return self.known.get(value) if isinstance(value, Node) else np.asarray(value)

    def constant_of(self, node: Node, position: int, what: str) -> np.ndarray:
        found = self.array(node.inputs[position])
        if found is None:
            raise self.error(node, f"its {what} must not depend on an input")
        return found.astype(np.float32)

    def shape(self, number: int) -> tuple[int, ...]:
        found: tuple[int, ...] = self.builder.tensors[number]["shape"]
        return found

    def put(self, kind: str, inputs: Sequence[int], shape: Sequence[int], parameters: Sequence[int] = ()) -> int:
        return self.builder.add(kind, inputs, shape, parameters=parameters)

    def constant(self, array: np.ndarray) -> int:
        name = f"constant_{len(self.builder.tensors)}"
        return self.builder.constant(name, np.array(array, np.float32, order="C"))

    def plain(self, node: Node) -> int:
        """The number of a value that lies as in the graph."""
        if node in self.known:
            raise self.error(node, "does not depend on an input")
        number, layout = self.values[node]
        if layout == FLAT:
            height, width, channels = self.flat[number]
            number = self.put("Reshape", [number], (self.shape(number)[0], height, width, channels))
        if layout != PLAIN:
            n, height, width, channels = self.shape(number)
            moved = (n, channels, height, width)
            alike = channels == 1 or height * width == 1
            number = self.put("Reshape" if alike else "Transpose", [number], moved, () if alike else (0, 3, 1, 2))
        if layout == FLAT:
            number = self.put("Reshape", [number], (n, channels * height * width))
        return number

    def image(self, node: Node) -> int:
        """The number of a value with its channels last."""
        number, layout = self.values[node]
        if layout == IMAGE:
            return number
        number = self.plain(node)
        n, channels, height, width = self.shape(number)
        moved = (n, height, width, channels)
        if channels == 1 or height * width == 1:
            return self.put("Reshape", [number], moved)
        return self.put("Transpose", [number], moved, (0, 2, 3, 1))

    # Folding into the step before

    def before(self, node: Any, kinds: Sequence[str]) -> int | None:
        """The step that made a value which nothing else reads, if it is one of these without an activation."""
        if not isinstance(node, Node) or self.uses[node] != 1 or node not in self.values:
            return None
        for i, (kind, _, _, outputs, parameters) in enumerate(self.builder.operators):
            if outputs == (self.values[node][0],):
                fine = kind in [NUMBERS[name] for name in kinds] and not parameters[0]
                return i if fine else None
        return None

    def activate(self, node: Node, activation: int, function: int) -> tuple[int, str]:
        step = self.before(node.inputs[0], FUSING)
        number, layout = self.values[node.inputs[0]]
        if step is None:
            return self.put("Unary", [number], self.shape(number), (function,)), layout
        kind, version, inputs, outputs, parameters = self.builder.operators[step]
        self.builder.operators[step] = kind, version, inputs, outputs, (activation, *parameters[1:])
        return number, layout

    def channels(self, number: int, layout: str, other: np.ndarray) -> np.ndarray | None:
        """A constant as it meets a value of this layout; None where it does not fit without being repeated."""
        rank = len(self.shape(number))
        if layout == FLAT or other.ndim > rank:
            return other if other.size == 1 else None
        other = other.reshape((1,) * (rank - other.ndim) + other.shape)
        if layout == IMAGE:
            other = other.transpose(0, 2, 3, 1)
        while other.ndim and other.shape[0] == 1:
            other = other[0]
        return other

    def combine(self, node: Node, kind: str, other: np.ndarray, first: Node) -> tuple[int, str]:
        """A value plus or times a constant."""
        number, layout = self.values[first]
        fitted = self.channels(number, layout, other)
        if fitted is None:
            number, layout = self.plain(first), PLAIN
            fitted = self.channels(number, layout, other)
        shape = self.shape(number)
        fits = fitted is not None and all(
            n in (1, size) for n, size in zip(fitted.shape[::-1], shape[::-1], strict=False)
        )
        if fitted is None or not fits:
            raise self.error(node, f"a constant of shape {other.shape} would repeat the other value")
        step = self.before(first, PRODUCTS)
        if step is not None and fitted.shape in ((), (1,), shape[-1:]):
            made, _, (_, weight, bias), *_ = self.builder.operators[step]
            tensors = self.builder.tensors
            if kind == "Add":
                tensors[bias]["data"] += fitted
            else:
                rows = np.broadcast_to(fitted, shape[-1:])
                last = made == NUMBERS["Depthwise"]
                by_channel = rows if last else rows.reshape(-1, *(1,) * (tensors[weight]["data"].ndim - 1))
                tensors[weight]["data"] *= by_channel
                tensors[bias]["data"] *= rows
            return number, layout
        return self.put(kind, [number, self.constant(fitted)], shape, (0,)), layout


def zero_states(nodes: Sequence[Node]) -> set[Node]:
    """What LSTMs begin with, where it is zeros, as many as the batch is large."""
    zeros: set[Node] = set()
    for node in nodes:
        sources = [one in zeros if isinstance(one, Node) else one == 0 for one in node.inputs]
        constant = node.op is CONSTANT and not np.any(node.attrs["value"])
        product = node.op.name == "mul" and any(sources)
        if constant or product or node.op.name == "zeros_like" or (node.op.name in MOVES and sources[0]):
            zeros.add(node)
    begun = [one for node in nodes if node.op.name == "lstm" for one in node.inputs[1:3] if isinstance(one, Node)]
    return zeros & set(begun)


MOVES = ("getitem", "reshape", "transpose", "broadcast_to", "expand_dims", "squeeze", "cast")
"""What gives zeros for zeros."""
