"""A model as an ONNX file: what runs in onnxruntime, and in every other program that reads the format."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from internals.deploy.errors import FormatError
from internals.deploy.onnx.builder import DEFAULT, IR_VERSIONS, NEWEST, OLDEST, Builder, Name, Value, names_read
from internals.deploy.onnx.rules import IN_GRAPHS, RULES, WITHOUT
from internals.deploy.saved.signature import Signature, TensorSpec
from internals.deploy.saved.sources import Content, Ends, content_of
from internals.graph import Function, Node, needed
from internals.graph.graph import CONSTANT, PLACEHOLDER, VARIABLE
from internals.graph.plan import Plan
from internals.nn.weights import replace_file
from internals.ops.table import is_array
from internals.tensor.results import RESULT

TRAINED = "internals.trainable"
"""Under this name the file's metadata list the initialisers that are trained, which ONNX does not tell apart."""
LARGEST = 2**31 - 1
"""Bytes of a file; protobuf has no more."""


def to_onnx(
    source: Any,
    signatures: Mapping[str, Signature] | None = None,
    *,
    signature: str | None = None,
    opset: int = DEFAULT,
) -> Any:
    """A model as an ``onnx.ModelProto``.

    Parameters
    ----------
    source, signatures
        What `internals.deploy.save` takes.
    signature : str, optional
        Which one, where there are several; an ONNX file has one.
    opset : int
        The version of ONNX's operator set, 17 to 28. Older programs read older ones; a row may need a newer one.

    Raises
    ------
    FormatError
        An operation has no counterpart in ONNX; names the node and the line that made it.
    TypeError, ValueError
        As `save`; or no such operator set or signature.
    ImportError
        The onnx package is not installed.
    """
    if not isinstance(opset, int) or not OLDEST <= opset <= NEWEST:
        raise ValueError(f"to_onnx: opset must be {OLDEST} to {NEWEST}, got {opset!r}.")
    content = content_of(source, signatures)
    if signature is None and len(content.signatures) == 1:
        signature = next(iter(content.signatures))
    if signature not in content.signatures:
        raise ValueError(f"to_onnx: which signature? There are {', '.join(content.signatures)}; got {signature!r}.")
    return _Export(content, signature, opset).model()


def export_onnx(path: str | os.PathLike[str], source: Any, signatures: Any = None, **settings: Any) -> None:
    """Write a model as an ONNX file, in place of the one that may be there; see `to_onnx`.

    Raises
    ------
    FormatError
        As `to_onnx`; or the weights are more than the 2 GB that a file can have.
    OSError
        It could not be written; what was at `path` is unchanged.
    """
    model = to_onnx(source, signatures, **settings)
    if model.ByteSize() > LARGEST:
        raise FormatError(
            f"export_onnx: the model has {model.ByteSize():,} bytes; an ONNX file has at most {LARGEST:,}."
        )
    replace_file(path, model.SerializeToString(deterministic=True))


class _Export:
    def __init__(self, content: Content, signature: str, opset: int) -> None:
        self.content, self.signature = content, signature
        self.ends: Ends = content.signatures[signature]
        self.b = Builder(opset)
        self.bundles: dict[Node, Sequence[str]] = {}
        self.bound: dict[Node, Any] = {}
        self.names: dict[Node, str] = {}
        self.outputs: dict[str, str] = {}
        self.b.name_of, self.b.value_of, self.b.inline = self._name, self._array, self._inline

    def model(self) -> Any:
        helper = self.b.onnx.helper
        results = [node for node, _ in self.ends["outputs"].values()]
        given = {node for node, _ in self.ends["inputs"].values()}
        nodes = needed(results, given)
        for node in given:
            if node.op is not PLACEHOLDER:
                nodes.append(node)
        self.b.names.update(node.name for node in nodes)
        nodes[0].graph.wanted = set(results)  # type: ignore[attr-defined]
        inputs = [self._input(key, node, spec) for key, (node, spec) in self.ends["inputs"].items()]
        self._reserve(nodes)
        for node in sorted(set(nodes), key=lambda one: one.order):
            if node not in given:
                self._write(node)
        outputs = [self._output(key, node, spec) for key, (node, spec) in self.ends["outputs"].items()]
        used = self.b.read_by([one.name for one in outputs])
        read = {one.name for one in outputs}.union(*map(names_read, used))
        self.b.initialisers = {name: array for name, array in self.b.initialisers.items() if name in read}
        tensors = [self._tensor(name, array) for name, array in self.b.initialisers.items()]
        graph = helper.make_graph(used, self.signature, inputs, outputs, tensors)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self.b.opset)],
            ir_version=IR_VERSIONS[self.b.opset],
            producer_name="internals",
        )
        trained = [n for n, one in self.content.trainable.items() if one and n in self.b.initialisers]
        trained += [name for name in self.b.weights if name in self.b.initialisers and name not in trained]
        helper.set_model_props(model, {TRAINED: json.dumps(trained)})
        return model

    def _input(self, key: str, node: Node, spec: TensorSpec) -> Any:
        name = self.b.name(key) if key != node.name else key
        self.names[node] = name
        return self.b.typed(name, spec.shape, spec.dtype)

    def _reserve(self, nodes: Sequence[Node]) -> None:
        """Names for outputs: that of the signature, where no other value has it."""
        taken = {node.name for node in nodes} | {self.names.get(node, "") for node in nodes}
        ends = list(self.ends["outputs"].items())
        for key, (node, _) in ends:
            alone = sum(other is node for _, (other, _) in ends) == 1
            own = alone and node not in self.names and node.op not in (VARIABLE, CONSTANT, RESULT)
            if own and (key == node.name or key not in taken):
                self.names[node] = self.outputs[key] = key
                self.b.names.add(key)
            else:
                self.outputs[key] = self.b.name(key)

    def _output(self, key: str, node: Node, spec: TensorSpec) -> Any:
        if self._name(node) != self.outputs[key]:
            copied = self.outputs[key]
            self.b.nodes.append(self.b.onnx.helper.make_node("Identity", [self._name(node)], [copied], copied))
        return self.b.typed(self.outputs[key], spec.shape, spec.dtype)

    def _tensor(self, name: str, array: np.ndarray) -> Any:
        return self.b.onnx.numpy_helper.from_array(np.array(array, order="C", copy=None), name)

    # Nodes

    def _array(self, node: Any) -> np.ndarray | None:
        """The value of a node that depends on no input; None for one that does."""
        if not isinstance(node, Node):
            return np.asarray(node)
        fed = [one for one in needed([node]) if one.op is PLACEHOLDER]
        values = [self._array(self.bound[one]) if isinstance(self.bound.get(one), Node) else None for one in fed]
        if any(value is None for value in values):
            return None
        return np.asarray(Plan(fed, [node]).run(values, self.content.values)[0])

    def _name(self, node: Node) -> str:
        return self.names.get(node, node.name)

    def _value(self, node: Node, position: int, value: Any) -> Value:
        if isinstance(value, Node):
            return Value(self._name(value), value.shape, value.dtype)
        wanted = node.op.input_dtypes(node.inputs)[position]
        floating = next((v.dtype for v in node.inputs if isinstance(v, Node)), np.dtype(np.float32))
        dtype = wanted or floating
        return Value(self.b.constant(value, dtype), (), dtype)

    def _write(self, node: Node) -> None:
        b = self.b
        if node.op is VARIABLE or node.op is CONSTANT:
            array = self.content.values[node.name] if node.op is VARIABLE else node.attrs["value"]
            b.initialiser(self._name(node), np.asarray(array))
            return
        if node.op is RESULT:
            self.names[node] = self.bundles[node.inputs[0]][node.attrs["index"]]
            return
        kind = (getattr(node.op, "made", None) or (node.op.name,))[0]
        rule = RULES.get(kind)
        if rule is None:
            why = (WITHOUT | IN_GRAPHS).get(kind, "it is none of the rows that have one")
            raise FormatError(
                f"to_onnx: {node.name} (made at {node.where}) is {node.op.name}, which has no counterpart in ONNX: "
                f"{why}."
            )
        for value in node.inputs:
            if not isinstance(value, Node) and is_array(value):
                raise FormatError(f"to_onnx: {node.name} (made at {node.where}) has an array that is no constant.")
        b.scope = node.name if node.graph is self.content.graph else self._name(node)
        start = len(b.nodes)
        inputs = [self._cast(node, i, self._value(node, i, value)) for i, value in enumerate(node.inputs)]
        found = rule(b, node, *inputs)
        if isinstance(found, str):
            self._named(node, found, start)
        else:
            self.bundles[node] = found

    def _inline(self, function: Function, given: Sequence[Value | Name], bound: Sequence[Any] = ()) -> list[Name]:
        """Write the nodes of a function, for these inputs; `bound` has the nodes that some of them always are."""
        scope = self.b.scope
        self.names |= {
            node: one.name if isinstance(one, Value) else one for node, one in zip(function.inputs, given, strict=True)
        }
        self.bound |= dict(zip(function.inputs, [*bound, *[None] * (len(given) - len(bound))], strict=True))
        function.graph.wanted = set(function.outputs)  # type: ignore[attr-defined]
        fed = set(function.inputs)
        for node in sorted(needed(function.outputs, fed), key=lambda one: one.order):
            if node not in fed:
                self.names[node] = self.b.name(f"{scope}/{node.name}")
                self._write(node)
        self.b.scope = scope
        return [self._name(node) for node in function.outputs]

    def _cast(self, node: Node, position: int, value: Value) -> Value:
        wanted = node.op.input_dtypes(node.inputs)[position]
        if wanted is None or wanted == value.dtype:
            return value
        return Value(self.b.cast(value, wanted), value.shape, wanted)

    def _named(self, node: Node, found: str, start: int) -> None:
        """Give the result the node's own name, where it was made just now."""
        made = [one for one in self.b.nodes[start:] if found in one.output]
        if not made:
            self.names[node] = found
            return
        name = self._name(node)
        for one in self.b.nodes[start:]:
            for field in (one.output, one.input):
                for i, value in enumerate(field):
                    if value == found:
                        field[i] = name
            if one.name == found:
                one.name = name
