"""A signature of a loaded model as a Module: called with Tensors, on the tape, with parameters to train."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from internals.deploy.errors import SignatureError
from internals.deploy.saved.sources import Content
from internals.graph import Function, Node, needed
from internals.graph.graph import PLACEHOLDER, VARIABLE, Graph, being_built
from internals.graph.split import split_op
from internals.nn import Module
from internals.tensor import Tensor, no_grad, wrap
from internals.tensor.node import mode


class LoadedModule(Module):
    """A signature that can be differentiated.

    Called with its inputs in order, or by name; gives a Tensor, or a dict of them where there are several outputs.
    """

    def __init__(self, content: Content, signature: str, values: Mapping[str, Any]) -> None:
        ends = content.signatures[signature]
        self.signature = signature
        self._content = content
        self.inputs = tuple(ends["inputs"])
        self.outputs = tuple(ends["outputs"])
        self.specs = {key: spec for key, (_, spec) in ends["inputs"].items()}
        results = [node for node, _ in ends["outputs"].values()]
        graph, there, variables = _as_function(results, [node for node, _ in ends["inputs"].values()])
        self.names = [node.name for node in variables]
        self.tensors = {}
        for i, name in enumerate(self.names):
            trained = content.trainable.get(name, False)
            value = Tensor(np.array(values[name]), requires_grad=trained)
            self.tensors[name] = value
            if trained:
                setattr(self, f"p{i}", value)
            else:
                self.register_buffer(f"p{i}", value)
        given = [*[there[node] for node, _ in ends["inputs"].values()], *[there[node] for node in variables]]
        self._function = Function(graph, given, [there[node] for node in results], signature)
        self._at: dict[Any, Function] = {}

    def _walk(self, prefix: str, wanted: Any) -> Any:
        """The variables by the names that they have in the model, in place of attributes' names."""
        for i, name in enumerate(self.names):
            if wanted(self, f"p{i}", self.tensors[name]):
                yield prefix + name, self.tensors[name]

    def values(self) -> dict[str, np.ndarray]:
        """The variables as they are now, by their names in the model."""
        with no_grad():
            return {name: value.detach().numpy().copy() for name, value in self.tensors.items()}

    def content(self) -> Content:
        """What `save` writes: the model that it came from, with the values that the parameters have now."""
        whole = self._content
        return Content(whole.graph, whole.signatures, whole.values | self.values(), whole.trainable, whole.assets)

    def forward(self, /, *inputs: Any, **named: Any) -> Any:
        given = dict(zip(self.inputs, inputs, strict=False)) | named
        if given.keys() != set(self.inputs) or len(inputs) > len(self.inputs):
            raise SignatureError(
                f"{self.signature}: takes {', '.join(self.inputs)}, got {len(inputs)} and {list(named)}."
            )
        kinds = Tensor | Node
        tensors = [given[key] if isinstance(given[key], kinds) else Tensor(given[key]) for key in self.inputs]
        for key, tensor in zip(self.inputs, tensors, strict=True):
            if tensor.dtype != self.specs[key].dtype or tensor.ndim != len(self.specs[key].shape):
                raise SignatureError(
                    f"{self.signature}: {key} is {tensor.dtype}{list(tensor.shape)}; expected {self.specs[key]}."
                )
        values = [*tensors, *self.tensors.values()]
        if any(isinstance(value, Node) for value in tensors):
            return self._answer(self._again(values))
        shapes = tuple(value.shape for value in values)
        if shapes not in self._at:
            self._at[shapes] = self._function.at(shapes)
        function = self._at[shapes]
        n = len(self.outputs)
        if mode.recording and any(value.node is not None for value in values):
            op = vars(function).setdefault("split", None) or split_op(function, n)
            function.split = op  # type: ignore[attr-defined]
            found = list(op(values))[:n]
        else:
            found = [wrap(np.asarray(one)) for one in function(*[value.data for value in values])]
        return self._answer(found)

    def _answer(self, found: list[Any]) -> Any:
        return found[0] if len(found) == 1 else dict(zip(self.outputs, found, strict=True))

    def _again(self, values: list[Any]) -> list[Any]:
        """Its nodes once more, in the graph that is being built: the model is a part of another one."""
        graph = being_built()
        assert graph is not None
        there: dict[Node, Any] = dict(zip(self._function.inputs, map(graph.own, values), strict=True))
        for node in self._function.graph.nodes:
            if node not in there:
                inputs = [there[one] if isinstance(one, Node) else one for one in node.inputs]
                there[node] = graph.add(node.op, inputs, node.attrs)
        return [there[node] for node in self._function.outputs]

    def __deepcopy__(self, memo: dict[int, Any]) -> LoadedModule:
        """With variables of its own. The graph, which nothing changes, is shared."""
        for shared in (self._content, self._function, *self._at.values()):
            memo[id(shared)] = shared
        copied = object.__new__(type(self))
        memo[id(self)] = copied
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    def __repr__(self) -> str:
        return f"LoadedModule({self.signature}, {self.num_parameters():,} parameters)"


def _as_function(results: list[Node], inputs: list[Node]) -> tuple[Graph, dict[Node, Node], list[Node]]:
    """The graph with placeholders for its variables."""
    graph, there = Graph(), {}
    nodes = sorted({*needed(results), *inputs}, key=lambda node: node.order)
    graph.reserve(node.name for node in nodes)
    for node in nodes:
        if node.op in (PLACEHOLDER, VARIABLE):
            there[node] = graph.placeholder(node.shape, node.dtype, name=node.name)
            continue
        given = [there[one] if isinstance(one, Node) else one for one in node.inputs]
        there[node] = graph.add(node.op, given, node.attrs, name=node.name)
        there[node].shape, there[node].where = node.shape, node.where
    return graph, there, [node for node in nodes if node.op is VARIABLE]
