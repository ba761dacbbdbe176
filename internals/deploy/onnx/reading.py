"""An ONNX file as a model of ours: a graph to run, to differentiate, to train further and to save.

The file's graph is run once, as a function, by the rules of `internals.deploy.onnx.readers`, while that function is
captured. Nothing of the file is code: an operator that has no rule is an error.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from internals.deploy.errors import FormatError, SignatureError
from internals.deploy.onnx.builder import load_onnx, names_read
from internals.deploy.onnx.export import LARGEST, TRAINED
from internals.deploy.onnx.readers import READERS
from internals.deploy.onnx.readers.elementwise import numpy_type
from internals.deploy.onnx.readers.table import Call, NotKnown, known
from internals.deploy.onnx.wire import check_fields
from internals.deploy.saved.folder import Folder, check_name
from internals.deploy.saved.model import SavedModel
from internals.deploy.saved.signature import Signature, TensorSpec
from internals.deploy.saved.sources import content_of
from internals.graph import GraphError
from internals.graph.calls import LARGEST_VALUE, Sizes
from internals.graph.graph import being_built
from internals.ops.spec import is_floating
from internals.tensor import Tensor

OLDEST, NEWEST = 1, 28
"""Versions of ONNX's operator set that are read."""
SMALL = 1
"""Floating initialisers of no axes are numbers; others are variables."""
LARGEST_COMPUTED = 2**31
"""Bytes of all arrays that are computed while a model is read."""
LARGEST_GRAPH = 1_000_000
"""Nodes, with those of the rounds and steps that are written out."""


def from_onnx(
    source: str | os.PathLike[str] | bytes | Any,
    *,
    name: str = "serve",
    fixed: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> SavedModel:
    """Read an ONNX model.

    Parameters
    ----------
    source : path, bytes, or onnx.ModelProto
    name : str
        Of the signature.
    fixed : mapping of str to array, optional
        Values for inputs that become part of the model, such as axes or a shape: what operators here must know before
        they run.
    sizes : mapping of str to int, optional
        Numbers for sizes that the file leaves open: for a file that is right for one size only, as tracers make them,
        whatever it says.

    Returns
    -------
    SavedModel
        Its initialisers are variables, those of floating numbers trained; sizes that have names in the file are open.

    Raises
    ------
    FormatError
        It is no ONNX model, is damaged or hostile, or has an operator, a type or a setting that has no counterpart
        here; names the node.
    ValueError
        There is no input, or no open size, that `fixed` or `sizes` names.
    OSError
        It can't be read.
    """
    model, folder = _parsed(source)
    inputs, sizes = list(model.graph.input), sizes or {}
    dims = [dim.dim_param for one in inputs for dim in one.type.tensor_type.shape.dim if dim.dim_param]
    for what, given, known_names in (("input", fixed or {}, [i.name for i in inputs]), ("open size", sizes, dims)):
        if given.keys() - {*known_names}:
            wrong, there = sorted(given.keys() - {*known_names})[0], ", ".join(dict.fromkeys(known_names)) or "none"
            raise ValueError(f"from_onnx: the model has no {what} called {wrong!r}; there are {there}.")
    left = [name for name in dict.fromkeys(dims) if name not in sizes]
    hint = f" If the file is right for one size only, give it: sizes={{{left[-1]!r}: ...}}." if left else ""
    try:
        program = _Program(model, folder, fixed or {}, sizes)
        signature = Signature(program.specs, tuple(program.outputs), program.run)
        try:
            content = content_of(program.run, {name: signature}, names=program.names)
        except (FormatError, SignatureError) as error:
            raise FormatError(f"{error}{hint}") from None
    except (FormatError, GraphError) as error:
        raise FormatError(f"from_onnx: {str(error).removeprefix('from_onnx: ')}") from None
    except _WRONG as error:
        raise FormatError(f"from_onnx: the model makes no sense: {type(error).__name__}: {error}") from None
    return SavedModel(content, path=Path(source) if isinstance(source, str | os.PathLike) else None)


_WRONG = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, MemoryError,
          ZeroDivisionError)  # fmt: skip


def _parsed(source: Any) -> tuple[Any, Path | None]:
    onnx = load_onnx()
    if isinstance(source, onnx.ModelProto):
        return source, None
    folder = None
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        folder = path.parent
        data = _content(path)
    else:
        data = bytes(source)
    check_fields(data, onnx.ModelProto.DESCRIPTOR)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # noqa: BLE001  # protobuf's own class of errors differs between its implementations
        raise FormatError(f"from_onnx: this is no ONNX model, or only a part of one: {error}.") from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.initializer):
        raise FormatError("from_onnx: this is no ONNX model: it has no graph.")
    return model, folder


def _content(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # else a pipe would be waited for
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
        os.close(handle)
        what = f"has {about.st_size:,} bytes; an ONNX file has at most {LARGEST:,}"
        raise FormatError(f"from_onnx: {path} {what if stat.S_ISREG(about.st_mode) else 'is no plain file'}.")
    with os.fdopen(handle, "rb") as file:
        return file.read(about.st_size)


class _Body:
    """A graph of an ONNX file: what it is given, its nodes in their order, and what it gives.

    Attributes
    ----------
    values : dict
        Its initialisers.
    inputs, outputs : list of str
    steps : list of (NodeProto, rule, Call)
    """

    def __init__(self, graph: Any, values: dict[str, Any], inputs: list[str], steps: list[Any], room: _Room) -> None:
        self.values, self.inputs, self.steps, self.room = values, inputs, steps, room
        self.outputs = [one.name for one in graph.output]
        self._names = set(self.outputs).union(*[names_read(node) for node, _, _ in steps])

    def reads(self, position: int) -> bool:
        """Whether anything looks at an input."""
        return self.inputs[position] in self._names

    def check_order(self, around: set[str]) -> None:
        """Refuse what reads a value that is not there yet, or makes one a second time."""
        there = {"", *self.values, *self.inputs}
        for node, _, call in self.steps:
            missing = [one for one in node.input if one not in there and one not in around]
            if missing:
                raise FormatError(
                    f"from_onnx: {call.name} ({node.op_type}) reads {missing[0]!r}, which nothing before it makes: it "
                    "is missing, or the graph has a cycle."
                )
            for inner in call.attrs.values():
                if isinstance(inner, _Body):
                    inner.check_order(around | there)
            twice = [one for one in node.output if one and one in there]
            if twice:
                raise FormatError(
                    f"from_onnx: {call.name} ({node.op_type}) makes {twice[0]!r}, which is there already."
                )
            there.update(node.output)
        for name in self.outputs:
            if name not in there and name not in around:
                raise FormatError(f"from_onnx: nothing makes the output {name!r}.")

    def run(self, around: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
        """The outputs, for these inputs and what there is around it."""
        if len(inputs) != len(self.inputs):
            raise FormatError(f"a graph within it takes {len(self.inputs)} inputs and is given {len(inputs)}")
        values: dict[str, Any] = {**around, **self.values, **dict(zip(self.inputs, inputs, strict=True))}
        for node, rule, call in self.steps:
            given = [values[one] if one else None for one in node.input]
            call.around = values
            try:
                with self.room.watched():
                    found = rule(call, *given)
                    results = list(found) if isinstance(found, list | tuple) else [found]
                    self.room.take(results)
            except (FormatError, *_WRONG) as error:
                kind = NotKnown if isinstance(error, NotKnown) else FormatError
                raise kind(f"from_onnx: {call.name} ({node.op_type}): {_told(error)}.") from None
            if len(results) < call.outputs:
                raise FormatError(
                    f"from_onnx: {call.name} ({node.op_type}) has {call.outputs} results; here {len(results)}."
                )
            values.update((name, one) for name, one in zip(node.output, results, strict=False) if name)
        return [values[name] for name in self.outputs]


class _Room:
    """How much a file may ask for while it is read: bytes of arrays that are computed, nodes, and bytes of a node."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.bytes = self.nodes = 0

    def take(self, results: Sequence[Any]) -> None:
        """Count what a node computed."""
        self.bytes += sum(one.nbytes for one in results if isinstance(one, np.ndarray))
        if self.bytes > LARGEST_COMPUTED:
            raise FormatError(f"arrays of more than {LARGEST_COMPUTED:,} bytes are computed while the model is read")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the nodes that are made inside."""
        graph = being_built()
        there = len(graph.nodes) if graph is not None else 0
        yield
        made = graph.nodes[there:] if graph is not None else []
        sizes = Sizes(LARGEST_VALUE)
        for node in made:
            sizes.check(node)
        self.nodes += len(made)
        if self.nodes > LARGEST_GRAPH:
            raise FormatError(f"it comes to more than {LARGEST_GRAPH:,} nodes here")


class _Program:
    """The graph of an ONNX model as a function of Tensors."""

    def __init__(self, model: Any, folder: Path | None, fixed: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        self.onnx, self.folder = load_onnx(), folder
        self.opset = self._checked_versions(model)
        props = {one.key: one.value for one in model.metadata_props}
        self.floating: set[str] | None = None
        if TRAINED in props:
            self.floating = {str(one) for one in json.loads(props[TRAINED])}
        self.names: dict[int, str] = {}
        self.sizes = sizes
        self.files: dict[str, memoryview] = {}
        self.functions = {(one.domain, one.name) for one in model.functions}
        self.room = _Room()
        self.whole = self._body(model.graph, {key: known(value) for key, value in fixed.items()})
        self.whole.check_order(set())
        self.keys = _identifiers([*self.whole.inputs, *self.whole.outputs])
        self.specs = {
            self.keys[one.name]: self._spec(one) for one in model.graph.input if one.name in self.whole.inputs
        }
        self.outputs = [self.keys[key] for key in self.whole.outputs]

    def run(self, *inputs: Any) -> Any:
        """The outputs for these inputs."""
        self.room.begin()
        return tuple(self.whole.run({}, inputs))

    def _body(self, graph: Any, fixed: Mapping[str, Any], scope: str = "") -> _Body:
        if graph.sparse_initializer:
            raise FormatError("from_onnx: the model has sparse initialisers, which arrays here are not.")
        values = {one.name: self._initialiser(one, scope) for one in graph.initializer} | dict(fixed)
        inputs = [one.name for one in graph.input if one.name not in values]
        steps = [self._step(node, number, scope) for number, node in enumerate(graph.node, 1)]
        return _Body(graph, values, inputs, steps, self.room)

    def _checked_versions(self, model: Any) -> int:
        found = 0
        for one in model.opset_import:
            if one.domain in ("", "ai.onnx"):
                found = one.version
        if not OLDEST <= found <= NEWEST:
            raise FormatError(
                f"from_onnx: the model is of operator set {found}; this program reads {OLDEST} to {NEWEST}. Convert it "
                "with onnx.version_converter, or update the program."
            )
        return found

    # What the file holds

    def _array(self, tensor: Any) -> np.ndarray:
        dtype = numpy_type(tensor.data_type)
        shape = tuple(tensor.dims)
        if any(size < 0 for size in shape):
            raise FormatError(f"from_onnx: the initialiser {tensor.name!r} has the shape {shape}.")
        if tensor.data_location == self.onnx.TensorProto.EXTERNAL:
            return self._external(tensor, dtype, shape)
        count = math.prod(shape)
        stored = len(tensor.raw_data) // dtype.itemsize if tensor.HasField("raw_data") else None
        if stored is not None and stored * dtype.itemsize != len(tensor.raw_data):
            stored = -1
        if stored is None:
            fields = (tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data, tensor.uint64_data)
            stored = max(map(len, fields))
        if stored != count:
            raise FormatError(f"from_onnx: the initialiser {tensor.name!r} of shape {shape} holds {stored} entries.")
        return np.array(self.onnx.numpy_helper.to_array(tensor)).reshape(shape)

    def _external(self, tensor: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """An array in a file of its own, which must lie beside the model."""
        about = {one.key: one.value for one in tensor.external_data}
        if self.folder is None:
            raise FormatError(
                f"from_onnx: {tensor.name!r} is in a file of its own; give the model's path, not its bytes."
            )
        location, offset = about["location"].removeprefix("./"), int(about.get("offset", 0))
        check_name(location)
        if location not in self.files:
            with Folder(self.folder) as folder:
                self.files[location] = folder.whole(location)
        data = self.files[location]
        size = math.prod(shape) * dtype.itemsize
        if offset < 0 or offset + size > len(data) or int(about.get("length", size)) != size:
            raise FormatError(
                f"from_onnx: {tensor.name!r} is said to be {size:,} bytes at {offset:,} of {location}, which has "
                f"{len(data):,}."
            )
        return np.frombuffer(data, dtype, math.prod(shape), offset).reshape(shape) if size else np.zeros(shape, dtype)

    def _initialiser(self, tensor: Any, scope: str) -> Any:
        array = self._array(tensor)
        if self.floating is None:
            trained = is_floating(array.dtype) and array.ndim >= SMALL
        else:
            trained = is_floating(array.dtype) and tensor.name in self.floating
        if not trained:
            return known(array)
        value = Tensor(array, requires_grad=True)
        self.names[id(value)] = scope + tensor.name
        return value

    def _spec(self, one: Any) -> TensorSpec:
        if not one.type.HasField("tensor_type") or not one.type.tensor_type.HasField("shape"):
            raise FormatError(f"from_onnx: the input {one.name!r} is no array, or its number of axes is not said.")
        shape: list[int | str | None] = []
        for dim in one.type.tensor_type.shape.dim:
            if dim.HasField("dim_value"):
                shape.append(dim.dim_value)
            else:
                shape.append(self.sizes.get(dim.dim_param, dim.dim_param if dim.dim_param.isidentifier() else None))
        return TensorSpec(shape, numpy_type(one.type.tensor_type.elem_type))

    # Nodes

    def _step(self, node: Any, number: int, scope: str) -> tuple[Any, Callable[..., Any], Call]:
        label = node.name or f"node {number}"
        label = label if label.isprintable() else ascii(label)
        if (node.domain, node.op_type) in self.functions:
            raise FormatError(
                f"from_onnx: {label} is a {node.op_type}, a function of the file's own, which is not read. Inline it: "
                "onnx.inliner.inline_local_functions(model)."
            )
        if node.domain not in ("", "ai.onnx") or node.op_type not in READERS:
            domain = f"{node.domain}." if node.domain else ""
            raise FormatError(f"from_onnx: {label} is a {domain}{node.op_type}, which has no counterpart here.")
        try:
            attrs = {one.name: self._attribute(one, f"{scope}{label}/") for one in node.attribute}
        except (FormatError, *_WRONG) as error:
            raise FormatError(f"from_onnx: {label} ({node.op_type}): {_told(error)}.") from None
        outputs = max((i + 1 for i, one in enumerate(node.output) if one), default=0)
        return node, READERS[node.op_type], Call(label, node.op_type, attrs, self.opset, outputs)

    def _attribute(self, one: Any, scope: str) -> Any:
        kinds = self.onnx.AttributeProto
        if one.ref_attr_name or one.type == kinds.GRAPHS:
            raise FormatError(f"its attribute {one.name} is several graphs or of a function, which is not read")
        if one.type == kinds.GRAPH:
            return self._body(one.g, {}, f"{scope}{one.name}/")
        if one.type == kinds.TENSOR:
            return self._array(one.t)
        value = self.onnx.helper.get_attribute_value(one)
        if isinstance(value, bytes):
            return value.decode()
        return [part.decode() if isinstance(part, bytes) else part for part in value] if one.type > 5 else value


def _told(error: Exception) -> str:
    return str(error).removeprefix("from_onnx: ").removesuffix(".") or type(error).__name__


def _identifiers(names: Sequence[str]) -> dict[str, str]:
    """Names that Python takes as names of arguments, different ones for different names."""
    found: dict[str, str] = {}
    for name in names:
        if name in found:
            continue
        plain = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "value"
        plain = plain if plain.isidentifier() else f"_{plain}"
        while plain in found.values():
            plain += "_"
        found[name] = plain
    return found
