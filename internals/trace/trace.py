"""One trace: a function's graph, made ready to run for one kind of call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.autodiff import tree
from internals.device import check_one_device, cpu, device_of
from internals.graph import Function, Node
from internals.graph.function import Draw, is_floating
from internals.graph.split import split_op
from internals.ops.table import Op
from internals.tensor import Tensor, wrap
from internals.tensor.node import mode
from internals.tensor.results import RESULT
from internals.tensor.storage import storage_of
from internals.trace.state import State


class Trace:
    """One trace.

    Attributes
    ----------
    function : Function
        Its outputs: what was returned, then what is written into captured Tensors, then what `show` prints.
    signature : str
        The arguments it was made for; ``?`` stands for a size that is left open.
    reason : str
        Why it was made.
    """

    def __init__(
        self, function: Function, answer: Any, places: list[int | None], written: list[Tensor], effects: int
    ) -> None:
        self.function, self.answer, self.places, self.written = function, answer, places, written
        self.signature = self.reason = ""
        self.answers = len(function.outputs) - len(written) - effects
        self.is_open = not all(node.is_known for node in function.graph.nodes)
        self.state: State
        self.kinds: list[Any] = []
        self._n = len(function.captures)
        self._draws = any(isinstance(value, Draw) for value in function.captures)
        where = {node: i for i, node in enumerate(function.inputs)}
        # An output that is an input as it came is that Tensor, with its history and its memory.
        self._same = [(i, where[node]) for i, node in enumerate(function.outputs[: self.answers]) if node in where]
        self._leaves = tree.leaves(answer)
        self._moved = _reached(function)
        self._recorded = any(node in self._moved for node in function.outputs[: self.answers])
        self._single = places == [0] and answer is self._leaves[0]
        self._at: dict[Any, tuple[Function, Any]] = {}

    def run(self, tensors: list[Tensor]) -> Any:
        """The answer for these inputs, recorded where a gradient may be asked; then captured Tensors are written."""
        values = [*tensors, *self.function.captures]
        if self._draws:
            values = [Tensor(value.value()) if isinstance(value, Draw) else value for value in values]
        arrays = [value.data if isinstance(value, Tensor) else value for value in values]
        if (
            self._recorded
            and mode.recording
            and any(isinstance(value, Tensor) and value.node is not None for value in values)
        ):
            found = list(self.op(arrays)(self._kept_from_writes(values)))
            for i, node in enumerate(self.function.outputs[: self.answers]):
                if node not in self._moved:
                    found[i] = wrap(found[i].data)
        else:
            found = [wrap(_array(one)) for one in self._function(arrays)[1].run(arrays)]
        for output, given in self._same:
            found[output] = values[given] if isinstance(values[given], Tensor) else wrap(values[given])
        for target, new in zip(self.written, found[self.answers :], strict=False):
            target.data[...] = new.data
            storage_of(target).version += 1
        if self._single:
            return found[0]
        leaves = [one if place is None else found[place] for one, place in zip(self._leaves, self.places, strict=True)]
        return tree.rebuilt(self.answer, leaves)

    def _kept_from_writes(self, values: list[Any]) -> list[Any]:
        """The same values, those that are about to be written copied: the backward part may read what they were."""
        if not self.written:
            return values
        targets = {id(target) for target in self.written}
        kept = list(values)
        for i, value in enumerate(values):
            if id(value) in targets:
                kept[i] = wrap(value.data.copy())
                kept[i].node = value.node
        return kept

    def _function(self, arrays: Sequence[Any]) -> tuple[Function, Any]:
        """The function and its plan, for these sizes and the device of the first."""
        place = cpu if not arrays or type(arrays[0]) is np.ndarray else device_of(arrays[0])
        key = (place, tuple([array.shape for array in arrays]) if self.is_open else None)
        if key not in self._at:
            seeds = [isinstance(value, Draw) for value in (*[None] * (len(arrays) - self._n), *self.function.captures)]
            check_one_device(self.function.name, [one for one, drawn in zip(arrays, seeds, strict=True) if not drawn])
            shapes = [array.shape for array in arrays]
            function = self.function.at(shapes) if self.is_open else self.function
            self._at[key] = function, function.plan(shapes, place)
        return self._at[key]

    def op(self, arrays: Sequence[Any]) -> Op:
        """The function as one differentiable operation; made when a gradient is first asked for."""
        function = self._function(arrays)[0]
        made: Op | None = getattr(function, "split", None)
        if made is None:
            made = function.split = split_op(function, self.answers)  # type: ignore[attr-defined]
        return made

    def __repr__(self) -> str:
        return f"<trace of {self.function.name}({self.signature}), made because {self.reason}>"


def _reached(function: Function) -> set[Node]:
    """The nodes through which a gradient goes to an input."""
    reached = {node for node in function.inputs if is_floating(node)}
    for node in function.graph.nodes:
        passes = node.op is RESULT or node.op.differentiable
        floating = isinstance(node.dtype, tuple) or is_floating(node)
        if passes and floating and any(isinstance(value, Node) and value in reached for value in node.inputs):
            reached.add(node)
    return reached


def _array(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, np.generic) else value
