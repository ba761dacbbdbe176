"""What can be saved: a Module, a Keras-style model, a net of layers, a traced function, a Graph, a loaded model.

Each becomes one graph in which every signature has placeholders and results, and the values of its variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals.deploy.saved.capture import captured
from internals.deploy.saved.nets import net_signatures
from internals.deploy.saved.signature import Signature, TensorSpec
from internals.front import Model
from internals.graph import Graph, GraphError, Node, Session, needed
from internals.graph.graph import CONSTANT, PLACEHOLDER, VARIABLE
from internals.layers import Net
from internals.nn import Module
from internals.tensor import Tensor

Ends = dict[str, dict[str, tuple[Node, TensorSpec]]]
"""``inputs`` and ``outputs`` of one signature."""


@dataclass
class Content:
    """A model as it is saved."""

    graph: Graph
    signatures: dict[str, Ends]
    values: dict[str, np.ndarray]
    trainable: dict[str, bool] = field(default_factory=dict)
    assets: dict[str, Any] = field(default_factory=dict)


def content_of(
    source: Any, signatures: Mapping[str, Signature] | None, *, names: Mapping[int, str] | None = None
) -> Content:
    """A model as it is saved; `names` has names for Tensors that a function reads from outside, by their ids.

    Raises
    ------
    TypeError
        It is nothing that can be saved, or a signature is missing or of the wrong kind.
    SignatureError, GraphError
        A function can't be traced, or not for every size that is left open.
    """
    made = getattr(source, "content", None)
    if callable(made):
        if signatures is not None:
            raise TypeError(f"save: a {type(source).__name__} has its own signatures; leave them out.")
        content: Content = made()
        return content
    if isinstance(source, Net):
        signatures, names = net_signatures(source, signatures)
        return _from_functions(None, signatures, None, names)
    signatures = _default(source) if signatures is None else signatures
    if not isinstance(signatures, Mapping) or not signatures:
        raise TypeError(
            "save: give signatures, such as {'serve': Signature({'x': TensorSpec(('batch', 784))})}; only a "
            "Keras-style model has one of its own."
        )
    for name, signature in signatures.items():
        if not isinstance(signature, Signature) or not isinstance(name, str):
            raise TypeError(f"save: signatures map names to Signatures, got {name!r}: {type(signature).__name__}.")
        if not name.isidentifier():
            raise ValueError(f"save: {name!r} is no name of a signature; give letters, digits and _, such as 'serve'.")
    if isinstance(source, Graph | Session):
        return _from_graph(source, signatures)
    if isinstance(source, Module):
        with _evaluating(source):
            return _from_functions(source, signatures, source)
    if callable(source) or (source is None and all(one.function for one in signatures.values())):
        return _from_functions(source, signatures, None, names)
    raise TypeError(
        f"save: a {type(source).__name__} can't be saved; expected a Module, a Keras-style model, a Net, a function, a "
        "Graph, a Session or a SavedModel."
    )


def _default(source: Any) -> dict[str, Signature] | None:
    if not isinstance(source, Model) or not source.built:
        return None
    inputs = {}
    for i, symbol in enumerate(source.inputs):
        shape = ["batch", *[f"size_{i}_{axis}" if s is None else s for axis, s in enumerate(symbol.shape[1:], 1)]]
        inputs[symbol.name or f"input_{i}"] = TensorSpec(shape, symbol.dtype)
    return {"serve": Signature(inputs, outputs=tuple(source.output_names))}


@contextmanager
def _evaluating(model: Module) -> Any:
    """Evaluation mode for a while; each part is afterwards in the mode it was in."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def _from_functions(
    source: Any, signatures: Mapping[str, Signature], model: Module | None, given: Mapping[int, str] | None = None
) -> Content:
    graph = Graph()
    names = {id(value): name for name, value in _state(model)} | dict(given or {})
    held: dict[int, tuple[Tensor, Node]] = {}
    trainable: dict[str, bool] = {}

    def variable(value: Tensor) -> Node:
        if id(value) not in held:
            name = names.get(id(value)) or f"captured_{len(held)}"
            node = graph.variable(value.detach().to("cpu").numpy().copy(), name=name)
            trainable[name] = bool(value.requires_grad) and value.dtype.kind not in "biu"
            held[id(value)] = value, node
        return held[id(value)][1]

    found: dict[str, Ends] = {}
    graph.reserve(names.values())
    for name, signature in signatures.items():
        _check_specs(name, signature.inputs)
        function: Callable[..., Any] = signature.function or source
        placeholders, answer, results = captured(name, function, signature.inputs, graph, _outside(graph, variable))
        if not results:
            raise TypeError(f"save: {name} gives no Tensor.")
        keys = _names(name, answer, len(results), signature.outputs)
        inputs = {key: (node, signature.inputs[key]) for key, node in placeholders.items()}
        found[name] = {"inputs": inputs, "outputs": dict(zip(keys, results, strict=True))}
    values = {node.name: node.attrs["initial"] for node in graph.variables}
    return Content(graph, found, values, trainable)


def _outside(graph: Graph, variable: Callable[[Tensor], Node]) -> Callable[[Tensor], Node]:
    """Variables are made at the top, whatever scope is open."""

    def made(value: Tensor) -> Node:
        scope, graph._scope = graph._scope, []
        try:
            return variable(value)
        finally:
            graph._scope = scope

    return made


def _state(model: Module | None) -> list[tuple[str, Tensor]]:
    return [] if model is None else [*model.named_parameters(), *model.named_buffers()]


def _check_specs(name: str, inputs: Mapping[str, Any]) -> None:
    for key, spec in inputs.items():
        if not isinstance(spec, TensorSpec) or not isinstance(key, str):
            raise TypeError(
                f"save: the inputs of {name} map names to TensorSpecs, got {key!r}: {type(spec).__name__}. Write "
                "TensorSpec(('batch', 3), 'float32')."
            )
        if not key.isidentifier():
            raise ValueError(f"save: {key!r} is no name of an input of {name}; give letters, digits and _.")


def _names(name: str, answer: Any, count: int, given: Sequence[str]) -> list[str]:
    """Names for results: those given, a dict's keys, or output, output_0, output_1."""
    if given:
        if len(given) != count or len(set(given)) != count:
            raise TypeError(f"save: {name} gives {count} results, and was given the names {', '.join(given)}.")
        return list(given)
    if isinstance(answer, Mapping) and len(answer) == count:
        return [str(key) for key in answer]
    return ["output"] if count == 1 else [f"output_{i}" for i in range(count)]


def _from_graph(source: Graph | Session, signatures: Mapping[str, Signature]) -> Content:
    graph = source.graph if isinstance(source, Session) else source
    values: Mapping[str, Any] = source.values if isinstance(source, Session) else {}
    found: dict[str, Ends] = {}
    ends: list[Node] = []
    for name, signature in signatures.items():
        sides = {"inputs": dict(signature.inputs), "outputs": dict(signature.outputs or {})}
        for side, nodes in sides.items():
            wrong = [key for key, node in nodes.items() if not isinstance(node, Node) or node.graph is not graph]
            if wrong or (not nodes and side == "outputs"):
                raise TypeError(
                    f"save: the {side} of {name} map names to nodes of the graph that is saved; "
                    f"{wrong[0] if wrong else 'there are none'}{' is none' if wrong else ''}."
                )
        if len({*sides["inputs"].values()}) < len(sides["inputs"]):
            raise TypeError(f"save: two inputs of {name} are one node; each needs a placeholder of its own.")
        ends += sides["outputs"].values()
        _check_fed(name, sides)
        found[name] = {
            side: {key: (node, TensorSpec(node.shape, node.dtype)) for key, node in nodes.items()}
            for side, nodes in sides.items()
        }
    return _copied(graph, ends, found, values)


def _check_fed(name: str, sides: Mapping[str, Mapping[str, Node]]) -> None:
    fed = set(sides["inputs"].values())
    for node in needed(list(sides["outputs"].values()), fed):
        if node.op is PLACEHOLDER and node not in fed:
            raise GraphError(f"save: {name} needs {node.name} (made at {node.where}), which is not among its inputs.")


def _copied(graph: Graph, ends: Sequence[Node], found: dict[str, Ends], values: Mapping[str, Any]) -> Content:
    """The part of a graph that signatures need, with values in its variables."""
    fed = [node for one in found.values() for node, _ in one["inputs"].values()]
    made = Graph()
    there: dict[Node, Node] = {}
    nodes = sorted({*needed(ends), *fed}, key=lambda node: node.order)
    made.reserve(node.name for node in nodes)
    kept: dict[str, np.ndarray] = {}
    for node in nodes:
        if node.op is PLACEHOLDER:
            copy = made.placeholder(node.shape, node.dtype, name=node.name)
        elif node.op is VARIABLE:
            value = values.get(node.name, node.attrs["initial"])
            if isinstance(value, Node):
                raise GraphError(
                    f"save: the variable {node.name} (made at {node.where}) is initialised by a node and has no value "
                    "yet. Save the Session, after initialise()."
                )
            kept[node.name] = np.asarray(value)
            copy = made.variable(kept[node.name], name=node.name)
        else:
            inputs = [there[one] if isinstance(one, Node) else one for one in node.inputs]
            copy = made.add(node.op, inputs, node.attrs, name=node.name)
            copy.shape = node.shape
        copy.where, copy.device = node.where, node.device
        copy.controls = tuple(there[one] for one in node.controls)
        there[node] = copy
    moved: dict[str, Ends] = {
        name: {side: {key: (there[node], spec) for key, (node, spec) in part.items()} for side, part in one.items()}
        for name, one in found.items()
    }
    trainable = {name: value.dtype.kind not in "biu" for name, value in kept.items()}
    return Content(made, moved, kept, trainable)


def frozen(content: Content) -> Content:
    """The same model with its variables made constants; nothing of it can be trained."""
    graph = Graph()
    there: dict[Node, Node] = {}
    graph.reserve(node.name for node in content.graph.nodes)
    for node in content.graph.nodes:
        if node.op is VARIABLE:
            copy = graph.constant(content.values[node.name], name=node.name)
        elif node.op is PLACEHOLDER:
            copy = graph.placeholder(node.shape, node.dtype, name=node.name)
        else:
            inputs = [there[one] if isinstance(one, Node) else one for one in node.inputs]
            if any(isinstance(one, Node) and one.op is CONSTANT for one in inputs) and node.op.name in _WRITES:
                raise GraphError(
                    f"freeze: {node.name} (made at {node.where}) writes a variable, so it can't be frozen."
                )
            copy = graph.add(node.op, inputs, node.attrs, name=node.name)
            copy.shape = node.shape
        copy.where, copy.device = node.where, node.device
        copy.controls = tuple(there[one] for one in node.controls)
        there[node] = copy
    signatures: dict[str, Ends] = {
        name: {side: {k: (there[node], spec) for k, (node, spec) in part.items()} for side, part in one.items()}
        for name, one in content.signatures.items()
    }
    return Content(graph, signatures, {}, {}, content.assets)


_WRITES = ("assign", "assign_add", "apply", "read")
