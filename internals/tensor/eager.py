"""The eager style: compute now, and write down what was done.

This is the path every operation on Tensors takes: bring dtypes together, run the kernel, record if a gradient may be
asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from internals import ops
from internals.device import Array, DeviceError, SimArray, base_array, check_one_device, move
from internals.ops.errors import check_numeric, checked_number, explain
from internals.ops.operators import Operators
from internals.ops.rules import promoted
from internals.ops.spec import Spec
from internals.ops.table import TABLE, Op, for_dtype, is_array, run_on_arrays, style
from internals.tensor.node import Node, mode, next_order
from internals.tensor.results import bundled, is_floating, kept_results, picked
from internals.tensor.storage import storage_of
from internals.tensor.tensor import Tensor
from internals.tensor.views import note_view

_new = object.__new__

SHORT = frozenset((np.dtype(np.float32), np.dtype(np.float64)))
"""The dtypes whose kernels run on the arrays as they are. For the others inputs may be cast, or the row has a form."""


def run_eagerly(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Tensor:
    """Run a row now: bring dtypes together, call the kernel, record."""
    arrays, dtype, short, differentiable = [], None, True, False
    for value in inputs:
        if type(value) is Tensor:
            array = value.data
            if type(array) is not np.ndarray or (dtype is not None and array.dtype is not dtype):
                short = False
            else:
                dtype = array.dtype
            if value.node is not None:
                differentiable = True
            arrays.append(array)
        else:
            short = short and type(value) is float
            arrays.append(value)
    if not (short and dtype in SHORT):
        inputs, arrays = _prepared(op, inputs)
        for array in arrays:
            if hasattr(array, "dtype"):
                op = for_dtype(op, array.dtype)
    if op.strict:
        op.infer_from(inputs, attrs)
    try:
        data = op.on_numpy(*arrays, **attrs) if short else _on_any_device(op, arrays, attrs)
    except DeviceError as error:
        if str(error).startswith(f"{op.name}:"):
            raise
        explain(op, inputs, attrs, error)
        raise DeviceError(f"{op.name}: {error}") from None
    except Exception as error:
        explain(op, inputs, attrs, error)
        raise
    if op.results:
        return _several(op, inputs, attrs, data, arrays[0])
    out = _new(Tensor)
    out.data = np.asarray(data) if isinstance(data, np.generic) else data
    out.node = out._storage = None
    if differentiable and mode.recording and op.vjp is not None and out.data.dtype.kind not in "biu":
        for position, value in enumerate(inputs):
            if type(value) is Tensor and value.node is not None and op.has_rule(position):
                record(op, inputs, attrs or None, out)
                break
    if op.view and _is_view(out.data, arrays[0]):
        note_view(inputs[0], out, op, attrs)
    return out


def _several(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], data: Any, source: Array) -> Any:
    """The results of a row that has several: one node for the row, and one on it for each floating result."""
    outs = [wrap(np.asarray(array) if isinstance(array, np.generic) else array) for array in data]
    edges = tuple([value.node if type(value) is Tensor else None for value in inputs])
    if mode.recording and any(edge is not None and op.has_rule(i) for i, edge in enumerate(edges)):
        node = bundled(op, [out.data for out in outs])
        node.attrs = _frozen(attrs)
        keeps = _save(node, inputs, edges)
        kept_results(node, keeps, [out.data for out in outs], [storage_of(out) for out in outs])
        for i, out in enumerate(outs):
            if is_floating(out.data):
                out.node = picked(node, i)
    if op.view:
        for out in outs:
            if _is_view(out.data, source):
                note_view(inputs[0], out, op, attrs)
    return op.bundle(outs)


def _prepared(op: Op, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any]]:
    """Inputs as Tensors and numbers of the dtypes the row asks for, and their arrays."""
    inputs = tuple([as_operand(value, op.name) for value in inputs])
    inputs = promoted(op, inputs)
    return inputs, [value.data if type(value) is Tensor else value for value in inputs]


def binary(op: Op, x: Any, y: Any) -> Tensor:
    """`run_eagerly` for two inputs and no attributes, with a short way for floating cpu tensors and numbers."""
    left = right = None
    short = False
    if type(x) is Tensor:
        a, left = x.data, x.node
        if type(y) is Tensor:
            b, right = y.data, y.node
            short = type(a) is np.ndarray and type(b) is np.ndarray and a.dtype is b.dtype and a.dtype in SHORT
        else:
            b = y
            short = type(y) in _NUMBERS and type(a) is np.ndarray and a.dtype in SHORT
    elif type(x) in _NUMBERS:
        a, b, right = x, y.data, y.node
        short = type(b) is np.ndarray and b.dtype in SHORT
    if not short:
        return op(as_operand(x, op.name), as_operand(y, op.name))
    try:
        data = op.on_numpy(a, b)
    except (ValueError, OverflowError) as error:
        explain(op, (x, y), {}, error)
        raise
    out = _new(Tensor)
    out.data = data if type(data) is np.ndarray else np.asarray(data)
    out._storage = out.node = None
    if (left is not None or right is not None) and mode.recording and op.vjp is not None:
        if op.saves:
            record(op, (x, y), None, out)
        else:
            node = _new(Node)
            node.op, node.attrs, node.order = op, None, next_order()
            node.shape, node.dtype = data.shape, data.dtype
            node.inputs = (left, right)
            node.saved = (left or _described(x), right or _described(y))
            node.guards, node.out, node.retained = (), None, None
            out.node = node
    return out


_NUMBERS = frozenset((float, int))


def _described(value: Any) -> Any:
    """What a rule may ask of an input that it neither reads nor differentiates by."""
    if type(value) is not Tensor:
        return value
    spec = _new(Spec)
    spec.shape, spec.dtype = value.data.shape, value.data.dtype
    return spec


def record(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any] | None, out: Tensor) -> None:
    """Write `out = op(*inputs)` on the tape."""
    data = out.data
    node = _new(Node)
    node.op, node.attrs, node.order = op, attrs and _frozen(attrs), next_order()
    node.shape, node.dtype, node.retained = data.shape, data.dtype, None
    edges = tuple([value.node if type(value) is Tensor else None for value in inputs])
    if _save(node, inputs, edges):
        node.out = data
        storage = storage_of(out)
        node.guards += ((storage, storage.version, "result"),)
    out.node = node


def _save(node: Node, inputs: tuple[Any, ...], edges: tuple[Any, ...]) -> Any:
    """Keep alive what the rules of a node's row read of its inputs; what they read of the result is handed back."""
    node.inputs = edges
    guards = []
    saved: list[Any] = []
    keeps, keeps_out = node.op.keeps(edges)
    for value, edge, keep in zip(inputs, edges, keeps):  # noqa: B905 - of one length, and this loop is hot
        if keep and type(value) is Tensor:
            storage = value._storage or storage_of(value)
            guards.append((storage, storage.version, keep))
            saved.append(value)
        else:
            saved.append(edge or _described(value))
    node.saved, node.guards, node.out = tuple(saved), tuple(guards), None
    return keeps_out


def _frozen(value: Any) -> Any:
    """Attributes as they are now: an index array or a list of axes may be changed before the backward pass reads it."""
    kind = type(value)
    if kind is dict:
        return {name: part if type(part) in _CONSTANTS else _frozen(part) for name, part in value.items()}
    if kind is tuple or kind is list:
        return kind([_frozen(part) for part in value])
    return value.copy() if is_array(value) else value


_CONSTANTS = frozenset((type(None), bool, int, float, str, slice))


def _on_any_device(op: Op, arrays: list[Any], attrs: dict[str, Any]) -> Array:
    check_one_device(op.name, arrays)
    return run_on_arrays(op, tuple(arrays), attrs)


def as_operand(value: Any, name: str, like: Tensor | None = None) -> Any:
    """An input of an op: a Tensor, or a Python number as it is.

    NumPy arrays become tensors of the cpu, with memory of their own. NumPy's scalars count as numbers, as in PyTorch:
    1 / np.sqrt(d) is a float64, and would widen whatever it scales.
    """
    if type(value) is Tensor or type(value) in (float, bool):
        return value
    if type(value) is int:
        if not -(2**63) <= value < 2**63:
            checked_number(name, value)
        return value
    if isinstance(value, np.bool_ | np.integer | np.floating):
        return value.item()
    if is_array(value):
        check_numeric(name, value)
        return Tensor(base_array(value, name))  # by value: a change of the array has no version the tape could see
    if isinstance(value, bool | int | float | Operators):
        return value  # a number, or a value of another style, which will run the op
    if isinstance(value, list | tuple):
        return Tensor(value, device=like.device if like is not None else None)
    raise TypeError(
        f"{name}: {type(value).__name__} can't take part in an operation; expected a Tensor, an array or a number."
    )


def wrap(array: Array) -> Tensor:
    """A Tensor on this very array."""
    out = _new(Tensor)
    out.data, out.node, out._storage = array, None, None
    return out


def alias(x: Tensor) -> Tensor:
    """Another Tensor on the memory of `x`, cut off from the tape."""
    out = wrap(x.data)
    storage_of(x).share(x, out)
    return out


def _is_view(result: Array, source: Array) -> bool:
    if isinstance(result, SimArray):
        return result._block is source._block
    return result is source or (result.base is not None and (result.base is source or result.base is source.base))


def plain_key(key: Any, x: Tensor) -> Any:
    """An index with Tensors replaced by their arrays, lists by arrays, and Python numbers left alone."""
    if isinstance(key, tuple):
        return tuple(plain_key(part, x) for part in key)
    if isinstance(key, Tensor):
        check_one_device("getitem", [x.data, key.data])
        key = key.data
    elif isinstance(key, list):
        key = move(_index_array(key), x.device)
    if hasattr(key, "dtype") and key.dtype.kind not in "biu":
        raise IndexError(f"getitem: an index must be of integers or booleans, got {key.dtype}.")
    if isinstance(key, np.ndarray) and x.device.name != "cpu":
        key = move(key, x.device)
    return key


def _index_array(key: list[Any]) -> np.ndarray:
    try:
        array = np.asarray(key)
    except ValueError as error:
        raise IndexError(f"getitem: an index must be regular ({error}).") from None
    return array if array.size else array.astype(np.int64)  # [] picks nothing; NumPy makes it float64


def _transfer_infer(x: Spec, *, device: str, source: str) -> Spec:
    return x


transfer = ops.row(
    "transfer",
    lambda xp, x, device, source: move(x, device),
    vjp=lambda g, out, x, device, source: TABLE["transfer"](g, device=source, source=device),
    jvp="linear",
    infer=_transfer_infer,
    doc="x copied from the device `source` to `device`; the cotangent is copied back.",
)

style(Tensor, run_eagerly, rank=10)
