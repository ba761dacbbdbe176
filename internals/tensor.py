"""The eager Tensor: compute at once, and write down what was done.

A Tensor is a bare array plus, if a gradient may be asked of it, a `Node`: which operation made it, from which other
nodes, and the values its rule will read. The nodes are the tape. They point backwards only, so a result keeps its own
history alive and nothing else does; walking the tape is the next room's business (`internals.autodiff`).
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ContextDecorator
from typing import Any

import numpy as np

from internals import ops
from internals.device import Array, Device, DeviceError, SimArray, device, device_of
from internals.ops.table import DEFAULT_FLOAT, TABLE, Op, Spec, check_one_device, is_array, style

_new = object.__new__
_sequence = itertools.count().__next__


class _Mode(threading.local):
    recording = True


_mode = _Mode()


class no_grad(ContextDecorator):  # noqa: N801 - PyTorch's name
    """Nothing done inside is recorded; as a context manager or a decorator. Each thread has its own setting."""

    _recording = False

    def __enter__(self) -> None:
        self._before = _mode.recording
        _mode.recording = self._recording

    def __exit__(self, *_: object) -> None:
        _mode.recording = self._before

    def _recreate_cm(self) -> no_grad:
        # A decorated function may call itself; each call needs its own memory of what was set before.
        return type(self)()


class enable_grad(no_grad):  # noqa: N801 - PyTorch's name
    """Record again inside a `no_grad` block."""

    _recording = True


def is_recording() -> bool:
    """Whether operations of this thread are being recorded."""
    return _mode.recording


class Storage:
    """What all Tensors on one piece of memory share: how often it was written to, and which of them are alive."""

    __slots__ = ("tensors", "version")

    def __init__(self) -> None:
        self.version = 0
        self.tensors: list[weakref.ref[Tensor]] = []


class Leaf:
    """The end of the tape: a Tensor that a gradient was asked for. Holds the gradient."""

    __slots__ = ("__weakref__", "dtype", "grad", "shape")

    inputs: tuple[()] = ()

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype
        self.grad: Tensor | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    size = Spec.size

    def __repr__(self) -> str:
        return f"<leaf {Spec(self.shape, self.dtype)}>"


class Node:
    """One entry of the tape: an operation that was run.

    Attributes
    ----------
    op : Op
    inputs : tuple of (Node, Leaf or None)
        Where each input came from; None for an input that needs no gradient.
    saved : tuple
        For each input the Tensor, if the rule reads its value, else something that has its shape and dtype.
    guards : tuple of (Storage, int)
        The version of each saved value when it was saved.
    out : array or None
        The result, if the rule reads it. The bare array: the Tensor would keep this node alive in a circle.
    attrs : dict or None
    order : int
        Counts up over all nodes, so a node's order is above that of everything it was made from.
    shape, dtype
        Of the result.
    """

    __slots__ = ("__weakref__", "attrs", "dtype", "guards", "inputs", "op", "order", "out", "retained", "saved", "shape")

    op: Op
    inputs: tuple[Node | Leaf | None, ...]
    saved: tuple[Any, ...] | None
    guards: tuple[tuple[Storage, int], ...]
    out: Array
    attrs: dict[str, Any] | None
    order: int
    shape: tuple[int, ...]
    dtype: np.dtype
    retained: Leaf | None

    ndim = Leaf.ndim
    size = Spec.size

    def __repr__(self) -> str:
        return f"<node {self.order}: {self.op.name} -> {Spec(self.shape, self.dtype)}>"


def _record(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any] | None, out: Tensor) -> None:
    """Write `out = op(*inputs)` on the tape."""
    data = out.data
    node = _new(Node)
    node.op, node.attrs, node.order = op, attrs, _sequence()
    node.shape, node.dtype, node.retained = data.shape, data.dtype, None
    node.inputs = edges = tuple([value.node if type(value) is Tensor else None for value in inputs])
    guards = []
    saved = []
    keeps = itertools.repeat(bool(op.saves), len(inputs)) if op.variadic else op.saves_inputs
    for value, edge, keep in zip(inputs, edges, keeps, strict=True):
        if keep and type(value) is Tensor:
            storage = value.storage
            guards.append((storage, storage.version))
            saved.append(value)
        else:
            saved.append(edge or (Spec(value.data.shape, value.data.dtype) if type(value) is Tensor else value))
    node.saved = tuple(saved)
    node.out = None
    if op.saves_out:
        node.out = data
        storage = out.storage
        guards.append((storage, storage.version))
    node.guards = tuple(guards)
    out.node = node


class Tensor:
    """An n-dimensional array on a device, which can be differentiated.

    Parameters
    ----------
    data : array-like
        Nested sequences, a number, a NumPy array or another Tensor; copied. Python floats become float32, integers
        int64; arrays keep their dtype.
    dtype : dtype, optional
    device : str or Device, optional
        ``"cpu"`` unless `data` is on a device already.
    requires_grad : bool
        Whether a backward pass is to leave a gradient in `grad`.

    Raises
    ------
    TypeError
        `data` is ragged or not numeric, or a gradient is asked of an integer or boolean tensor.
    """

    __slots__ = ("__weakref__", "_storage", "data", "node")
    __array_ufunc__ = None  # so that array + Tensor asks the Tensor

    data: Array
    node: Node | Leaf | None
    _storage: Storage | None

    def __init__(self, data: Any, dtype: Any = None, device: str | Device | None = None, requires_grad: bool = False) -> None:
        if isinstance(data, Tensor):
            data = data.data
        if is_array(data):
            array = data.copy() if dtype is None else data.astype(dtype)
            array = np.asarray(array) if isinstance(array, np.generic) else array
        else:
            array = _array_of(data, dtype)
        if device is not None:
            array = _moved(array, device)
        if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
            raise TypeError(f"Tensor: dtype {array.dtype} is not supported; expected booleans, integers or floating numbers.")
        self.data, self.node, self._storage = array, None, None
        if requires_grad:
            self.requires_grad = True

    # What it is

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def size(self) -> int:
        return self.data.size

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one entry to the next along each axis."""
        return self.data.strides

    @property
    def device(self) -> Device:
        return device_of(self.data)

    @property
    def storage(self) -> Storage:
        """What is shared by all Tensors on this memory."""
        if self._storage is None:
            self._storage = Storage()
        return self._storage

    @property
    def version(self) -> int:
        """How often this memory was written to in place."""
        return self._storage.version if self._storage else 0

    # Gradients

    @property
    def requires_grad(self) -> bool:
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if type(self.node) is Node:
            if not value:
                raise RuntimeError(f"requires_grad: this tensor was made by {self.node.op.name}; use detach() for one that is cut off from the tape.")
        elif not value:
            self.node = None
        elif self.node is None:
            if self.dtype.kind in "biu":
                raise TypeError(f"requires_grad: a tensor of dtype {self.dtype} has no gradient; only floating tensors do. Cast it: x.to('float32').")
            self.node = Leaf(self.data.shape, self.data.dtype)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return type(self.node) is not Node

    @property
    def grad(self) -> Tensor | None:
        """What backward passes have summed up here; None before the first."""
        if type(self.node) is Leaf:
            return self.node.grad
        return self.node.retained.grad if type(self.node) is Node and self.node.retained else None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if type(self.node) is not Leaf:
            raise RuntimeError("grad: only a leaf that requires a gradient can be given one; see requires_grad and retain_grad.")
        if value is not None and (value.shape != self.shape or value.dtype != self.dtype):
            raise ValueError(f"grad: a gradient of {Spec(value.shape, value.dtype)} does not fit a tensor of {Spec(self.shape, self.dtype)}.")
        self.node.grad = value

    def retain_grad(self) -> None:
        """Keep the gradient of this tensor too, though it is not a leaf."""
        if type(self.node) is Node and self.node.retained is None:
            self.node.retained = Leaf(self.node.shape, self.node.dtype)
        elif self.node is None:
            raise RuntimeError("retain_grad: this tensor does not require a gradient.")

    def backward(self, gradient: Tensor | None = None, *, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add the gradient of this tensor by every leaf to the leaf's `grad`.

        Parameters
        ----------
        gradient : Tensor, same shape and dtype, optional
            The cotangent to start from; 1 for a tensor of one entry.
        retain_graph : bool
            Keep the tape for another backward pass; it is freed as it is used otherwise.
        create_graph : bool
            Record the backward pass itself, so that gradients can be differentiated. Implies `retain_graph`.

        Raises
        ------
        RuntimeError
            Nothing to differentiate, the tape was used already, or a saved value was changed in place since.
        """
        _walker[0](self, gradient, retain_graph=retain_graph or create_graph, create_graph=create_graph)

    def detach(self) -> Tensor:
        """The same memory, cut off from the tape."""
        return _alias(self, self.data)

    # Out of the framework

    def numpy(self) -> np.ndarray:
        """The memory of a cpu tensor as a NumPy array, shared.

        Raises
        ------
        RuntimeError
            The tensor requires a gradient, which NumPy could not follow.
        DeviceError
            It is not on the cpu.
        """
        if self.node is not None:
            raise RuntimeError("numpy: this tensor requires a gradient, which NumPy can't follow. Use detach().numpy().")
        if not isinstance(self.data, np.ndarray):
            raise DeviceError(f"numpy: this tensor is on {self.device}. Copy it first: x.to('cpu').")
        return self.data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if copy is False and dtype is not None and array.dtype != dtype:
            raise ValueError(f"array: {array.dtype} can't become {np.dtype(dtype)} without a copy.")
        return np.array(array, dtype=dtype, copy=True if copy else None)

    def item(self) -> bool | int | float:
        """The only entry as a Python number.

        Raises
        ------
        ValueError
            The tensor has more than one entry, or none.
        """
        if self.size != 1:
            raise ValueError(f"item: a tensor of shape {self.shape} has {self.size} entries; only one of one entry is a number.")
        return device_of(self.data).to_host(self.data).item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return device_of(self.data).to_host(self.data).tolist()

    def to(self, target: Any) -> Tensor:
        """This tensor on another device, or in another dtype; itself if it is there already. Differentiable.

        Parameters
        ----------
        target : str, Device or dtype
            ``"sim:0"``, ``"cpu"``, ``"float64"``, ``numpy.float16``, ...
        """
        if isinstance(target, Device) or isinstance(target, str) and target.partition(":")[0] in ("cpu", "cuda", "sim"):
            there = device(target)
            return self if there is self.device else transfer(self, device=there.name, source=self.device.name)
        return self if self.dtype == np.dtype(target) else ops.cast(self, dtype=np.dtype(target))

    def cpu(self) -> Tensor:
        return self.to("cpu")

    def clone(self) -> Tensor:
        """A copy with memory of its own; differentiable."""
        return ops.clone(self)

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len: a 0-d tensor has no length.")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("iteration: a 0-d tensor can't be iterated over; use item().")
        return (self[i] for i in range(self.shape[0]))

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"truth: a tensor of shape {self.shape} is neither true nor false; use any() or all().")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TypeError(f"index: only an integer tensor can be an index, got {self.dtype}.")
        return int(self.item())

    __hash__ = object.__hash__  # by identity: == is element-wise

    def __repr__(self) -> str:
        array = device_of(self.data).to_host(self.data)
        prefix = "Tensor("
        text = np.array2string(array, separator=", ", prefix=prefix, precision=4, suppress_small=False, threshold=200)
        parts = [text]
        if array.dtype not in (DEFAULT_FLOAT, np.dtype(np.int64), np.dtype(bool)) or array.size == 0:
            parts.append(f"dtype={array.dtype}")
        if array.size == 0:
            parts.append(f"shape={array.shape}")
        if not isinstance(self.data, np.ndarray):
            parts.append(f"device={self.device.name!r}")
        if self.node is not None:
            parts.append("requires_grad=True" if type(self.node) is Leaf else f"op={self.node.op.name}")
        return f"{prefix}{', '.join(parts)})"

    # Indexing

    def __getitem__(self, key: Any) -> Tensor:
        return ops.getitem(self, key=_plain_key(key, self))

    def __setitem__(self, key: Any, value: Any) -> None:
        _write_in_place(self, ops.index_put, _as_operand(value, self), key=_plain_key(key, self))

    # Shapes

    @property
    def T(self) -> Tensor:  # noqa: N802 - NumPy's name
        """The axes in reverse order."""
        return ops.transpose(self)

    def reshape(self, *shape: Any) -> Tensor:
        return ops.reshape(self, shape=_unpacked(shape))

    def permute(self, *axes: Any) -> Tensor:
        """The axes in the given order; negative ones count from the back."""
        return ops.transpose(self, axes=_unpacked(axes))

    transpose = permute

    def swapaxes(self, a: int, b: int) -> Tensor:
        return ops.swapaxes(self, a, b)

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Tensor:
        return ops.squeeze(self, axis=axis)

    def unsqueeze(self, axis: int) -> Tensor:
        return ops.expand_dims(self, axis=axis)

    def broadcast_to(self, *shape: Any) -> Tensor:
        return ops.broadcast_to(self, shape=_unpacked(shape))

    def flatten(self) -> Tensor:
        return ops.reshape(self, shape=(-1,))

    # Reductions and element-wise functions

    def sum(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return ops.sum(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return ops.mean(self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return ops.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return ops.min(self, axis=axis, keepdims=keepdims)

    def prod(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        return ops.prod(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        return ops.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        return ops.argmin(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return ops.any(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return ops.all(self, axis=axis, keepdims=keepdims)

    def clip(self, low: float | None = None, high: float | None = None) -> Tensor:
        return ops.clip(self, low=low, high=high)

    def softmax(self, axis: int = -1) -> Tensor:
        return ops.softmax(self, axis=axis)

    def log_softmax(self, axis: int = -1) -> Tensor:
        return ops.log_softmax(self, axis=axis)

    def exp(self) -> Tensor:
        return ops.exp(self)

    def log(self) -> Tensor:
        return ops.log(self)

    def sqrt(self) -> Tensor:
        return ops.sqrt(self)

    def tanh(self) -> Tensor:
        return ops.tanh(self)

    def sigmoid(self) -> Tensor:
        return ops.sigmoid(self)

    def relu(self) -> Tensor:
        return ops.relu(self)

    def __neg__(self) -> Tensor:
        return ops.neg(self)

    def __abs__(self) -> Tensor:
        return ops.abs(self)

    def __invert__(self) -> Tensor:
        return ops.logical_not(self)

    # Binary operators: one line each, and short, since this is the path every small operation takes

    def __add__(self, other: Any) -> Tensor:
        return _binary(_ADD, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _binary(_ADD, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _binary(_SUB, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _binary(_SUB, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _binary(_MUL, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _binary(_MUL, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _binary(ops.div, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _binary(ops.div, other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _binary(ops.pow, self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _binary(ops.pow, other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return _binary(ops.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return _binary(ops.matmul, other, self)

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]  # element-wise, as every array library has it
        return _binary(ops.equal, self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return _binary(ops.not_equal, self, other)

    def __lt__(self, other: Any) -> Tensor:
        return _binary(ops.less, self, other)

    def __le__(self, other: Any) -> Tensor:
        return _binary(ops.less_equal, self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _binary(ops.greater, self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _binary(ops.greater_equal, self, other)

    def __and__(self, other: Any) -> Tensor:
        return _binary(ops.logical_and, self, other)

    def __or__(self, other: Any) -> Tensor:
        return _binary(ops.logical_or, self, other)

    def __iadd__(self, other: Any) -> Tensor:
        return _write_in_place(self, ops.add, other)

    def __isub__(self, other: Any) -> Tensor:
        return _write_in_place(self, ops.sub, other)

    def __imul__(self, other: Any) -> Tensor:
        return _write_in_place(self, ops.mul, other)

    def __itruediv__(self, other: Any) -> Tensor:
        return _write_in_place(self, ops.div, other)


_ADD, _SUB, _MUL = ops.add, ops.sub, ops.mul
_walker: list[Callable[..., None]] = []
"""The reverse pass, put here by `internals.autodiff`: the tape is written in this room and walked in that one."""


# The eager style


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
    if not (short and dtype is not None and dtype.kind == "f"):
        inputs, arrays = _prepared(op, inputs)
    try:
        data = op.on_numpy(*arrays, **attrs) if short else op.kernel(_array_module(op, arrays), *arrays, **attrs)
    except DeviceError:
        raise
    except Exception as error:
        _explain(op, inputs, attrs, error)
        raise
    out = _new(Tensor)
    out.data = np.asarray(data) if isinstance(data, np.generic) else data
    out.node = out._storage = None
    if op.view and _is_view(out.data, arrays[0]):
        _share_storage(inputs[0], out)
    if differentiable and _mode.recording and op.vjp is not None and out.data.dtype.kind not in "biu":
        for position, value in enumerate(inputs):
            if type(value) is Tensor and value.node is not None and op.has_rule(position):
                _record(op, inputs, attrs or None, out)
                break
    return out


def _prepared(op: Op, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any]]:
    """Inputs as Tensors and numbers of the dtypes the row asks for, and their arrays."""
    inputs = tuple([_as_operand(value) for value in inputs])
    if op.dtypes != "own":
        inputs = tuple(
            [
                ops.cast(value, dtype=dtype) if dtype is not None and type(value) is Tensor and value.data.dtype != dtype else value
                for value, dtype in zip(inputs, op.input_dtypes(inputs), strict=True)
            ]
        )
    return inputs, [value.data if type(value) is Tensor else value for value in inputs]


def _explain(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], error: Exception) -> None:
    """Raise an error in terms of the op, if its shapes or dtypes are to blame for the kernel's."""
    op.infer_from(inputs, attrs)
    if isinstance(error, ValueError | TypeError | IndexError) and not str(error).startswith(op.name):
        raise type(error)(f"{op.name}: {error}") from None


def _binary(op: Op, x: Any, y: Any) -> Tensor:
    """`run_eagerly` for two inputs and no attributes; the first lines are the short way for two cpu tensors of one dtype."""
    if type(x) is Tensor and type(y) is Tensor:
        a, b = x.data, y.data
        if type(a) is np.ndarray and type(b) is np.ndarray and a.dtype is b.dtype and a.dtype.kind == "f" and op.vjp is not None:
            try:
                data = op.on_numpy(a, b)
            except ValueError as error:
                _explain(op, (x, y), {}, error)
                raise
            out = _new(Tensor)
            out.data = data if type(data) is np.ndarray else np.asarray(data)
            out._storage = out.node = None
            left, right = x.node, y.node
            if (left is not None or right is not None) and _mode.recording:
                if op.saves or left is None or right is None:
                    _record(op, (x, y), None, out)
                else:
                    node = _new(Node)
                    node.op, node.attrs, node.order = op, None, _sequence()
                    node.shape, node.dtype = data.shape, data.dtype
                    node.inputs = node.saved = (left, right)
                    node.guards, node.out, node.retained = (), None, None
                    out.node = node
            return out
    return op(_as_operand(x), _as_operand(y))


def _write_in_place(target: Tensor, op: Op, other: Any, **attrs: Any) -> Tensor:
    """``target = op(target, other)``, written into the memory that target has."""
    other = _as_operand(other, target)
    differentiable = target.node is not None or type(other) is Tensor and other.node is not None
    if _mode.recording and differentiable:
        if type(target.node) is Leaf:
            raise RuntimeError(
                f"in-place {op.name}: this tensor is a leaf that requires a gradient; its value at recording would be lost. "
                "Use no_grad() for an update, or an operation that makes a new tensor."
            )
        if any(other_view() not in (None, target) for other_view in (target._storage.tensors if target._storage else ())):
            raise RuntimeError(
                f"in-place {op.name}: another tensor shares this memory, and the tape can't follow a change through it. "
                "Write x[i] = x[i] + y rather than x[i] += y, or clone() first."
            )
    array = target.data
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        raise RuntimeError(f"in-place {op.name}: this tensor is a broadcast view and can't be written to; clone() it first.")
    if not (_mode.recording and differentiable) and isinstance(op.on_numpy, np.ufunc) and _same_kind(array, other):
        op.on_numpy(array, other.data if type(other) is Tensor else other, out=array)
        target.storage.version += 1
        return target
    # The tape must see the value from before the write; a copy is needed only where the rule will read it.
    before = _wrap(array.copy() if op.saves_inputs[0] and _mode.recording and differentiable else array)
    before.node = target.node
    result = op(before, other, **attrs)
    if result.shape != target.shape:
        raise ValueError(f"in-place {op.name}: the result has shape {result.shape} and does not fit a tensor of shape {target.shape}.")
    if not np.can_cast(result.dtype, target.dtype, "same_kind"):
        raise TypeError(f"in-place {op.name}: the result is {result.dtype} and can't be held by a tensor of {target.dtype}.")
    if result.dtype != target.dtype:
        result = ops.cast(result, dtype=target.dtype)
    array[...] = result.data
    target.storage.version += 1
    if type(result.node) is Node:
        target.node = result.node
    return target


def _same_kind(array: Array, other: Any) -> bool:
    """Whether NumPy can compute `array op other` straight into `array`."""
    if type(array) is not np.ndarray or array.dtype.kind != "f":
        return False
    if type(other) is Tensor:
        return type(other.data) is np.ndarray and other.data.dtype == array.dtype and (other.shape == array.shape or other.ndim == 0)
    return type(other) in (int, float)


def _array_module(op: Op, arrays: Sequence[Any]) -> Any:
    check_one_device(op.name, arrays)
    return next((device_of(array).xp for array in arrays if not isinstance(array, bool | int | float)), np)


def _as_operand(value: Any, like: Tensor | None = None) -> Any:
    """An input of an op: a Tensor, or a Python number as it is. NumPy arrays become tensors of the cpu."""
    if type(value) is Tensor or type(value) in (int, float, bool):
        return value
    if isinstance(value, np.bool_ | np.integer | np.floating) and value.ndim == 0:
        return _wrap(np.asarray(value))
    if is_array(value):
        return _wrap(value)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return Tensor(value, device=like.device if like is not None else None)
    raise TypeError(f"tensor: {type(value).__name__} can't take part in an operation; expected a Tensor, an array or a number.")


def _wrap(array: Array) -> Tensor:
    """A Tensor on this very array."""
    out = _new(Tensor)
    out.data, out.node, out._storage = array, None, None
    return out


def _alias(x: Tensor, data: Array) -> Tensor:
    out = _wrap(data)
    if data is x.data:
        _share_storage(x, out)
    return out


def _share_storage(x: Tensor, view: Tensor) -> None:
    storage = view._storage = x.storage
    storage.tensors = [ref for ref in storage.tensors if ref() is not None]
    if not any(ref() is x for ref in storage.tensors):
        storage.tensors.append(weakref.ref(x))
    storage.tensors.append(weakref.ref(view))


def _is_view(result: Array, source: Array) -> bool:
    if isinstance(result, SimArray):
        return result._block is source._block
    return result is source or (result.base is not None and (result.base is source or result.base is source.base))


def _plain_key(key: Any, x: Tensor) -> Any:
    """An index with Tensors replaced by their arrays, lists by arrays, and Python numbers left alone."""
    if isinstance(key, tuple):
        return tuple(_plain_key(part, x) for part in key)
    if isinstance(key, Tensor):
        check_one_device("getitem", [x.data, key.data])
        key = key.data
    elif isinstance(key, list):
        key = _moved(np.asarray(key), x.device)
    if hasattr(key, "dtype") and key.dtype.kind not in "biu":
        raise IndexError(f"getitem: an index must be of integers or booleans, got {key.dtype}.")
    if isinstance(key, np.ndarray) and x.device.name != "cpu":
        key = _moved(key, x.device)
    return key


def _unpacked(sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes


def _array_of(data: Any, dtype: Any) -> np.ndarray:
    if isinstance(data, list | tuple) and data and any(isinstance(item, Tensor) for item in data):
        data = [item.tolist() if isinstance(item, Tensor) else item for item in data]
    try:
        array = np.array(data, dtype=dtype)
    except ValueError as error:
        raise TypeError(f"Tensor: the data has no regular shape ({error}).") from None
    if dtype is None and array.dtype == np.float64:
        array = array.astype(DEFAULT_FLOAT)
    return array


def _moved(array: Array, target: str | Device) -> Array:
    there, here = device(target), device_of(array)
    return array if there is here else there.from_host(here.to_host(array))


def _transfer_infer(x: Spec, *, device: str, source: str) -> Spec:
    return x


transfer = ops.row(
    "transfer",
    lambda xp, x, device, source: _moved(x, device),
    vjp=lambda g, out, x, device, source: TABLE["transfer"](g, device=source, source=device),
    infer=_transfer_infer,
    doc="x copied from the device `source` to `device`; the cotangent is copied back.",
)

style(Tensor, run_eagerly, rank=10)
