"""The Tensor: a bare array plus, if a gradient may be asked of it, the tape entry that made it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from internals import ops
from internals.device import Array, Device, DeviceError, base_array, device, device_of, move
from internals.ops.operators import Operators
from internals.ops.spec import DEFAULT_FLOAT, Spec, as_dtype, is_floating
from internals.ops.table import is_array
from internals.tensor import eager
from internals.tensor.hooks import Hook, HookFunction, register, register_accumulated
from internals.tensor.inplace import in_place, rows_in_place, write_in_place
from internals.tensor.node import Leaf, Node, reverse_pass
from internals.tensor.storage import Storage, Stored
from internals.tensor.views import View


class Tensor(Stored, Operators):
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

    __slots__ = ("__weakref__", "_storage", "_view", "data", "node")

    data: Array
    node: Node | Leaf | None
    _storage: Storage | None
    _view: View  # of views only

    def __init__(
        self, data: Any, dtype: Any = None, device: str | Device | None = None, requires_grad: bool = False
    ) -> None:
        if isinstance(data, Tensor):
            data = data.data
        dtype = None if dtype is None else as_dtype("Tensor", dtype)
        if is_array(data):
            data = base_array(data, "Tensor")
            array = data.copy() if dtype is None else data.astype(dtype)
            array = np.asarray(array) if isinstance(array, np.generic) else array
        else:
            array = _array_of(data, dtype)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if device is not None:
            array = move(array, device)
        if array.dtype.kind not in "biu" and not is_floating(array.dtype):
            raise TypeError(
                f"Tensor: dtype {array.dtype} is not supported; expected booleans, integers or floating numbers."
            )
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
    def device(self) -> Device:
        return device_of(self.data)

    # Gradients

    @property
    def requires_grad(self) -> bool:
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if type(self.node) is Node:
            if not value:
                raise RuntimeError(
                    f"requires_grad: this tensor was made by {self.node.op.name}; use detach() for one that is cut "
                    "off from the tape."
                )
        elif not value:
            self.node = None
        elif self.node is None:
            if self.dtype.kind in "biu":
                raise TypeError(
                    f"requires_grad: a tensor of dtype {self.dtype} has no gradient; only floating tensors do. Cast "
                    "it: x.to('float32')."
                )
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
            raise RuntimeError(
                "grad: only a leaf that requires a gradient can be given one; see requires_grad and retain_grad."
            )
        if not isinstance(value, Tensor | None):
            raise TypeError(f"grad: expected a Tensor or None, got {type(value).__name__}.")
        if value is not None and (value.shape != self.shape or value.dtype != self.dtype):
            raise ValueError(
                f"grad: a gradient of {Spec(value.shape, value.dtype)} does not fit a tensor of "
                f"{Spec(self.shape, self.dtype)}."
            )
        self.node.grad = value

    def retain_grad(self) -> None:
        """Keep the gradient of this tensor too, though it is not a leaf."""
        if type(self.node) is Node and self.node.retained is None:
            self.node.retained = Leaf(self.node.shape, self.node.dtype)
        elif self.node is None:
            raise RuntimeError("retain_grad: this tensor does not require a gradient.")

    def register_hook(self, function: HookFunction) -> Hook:
        """Call ``function(gradient)`` when this tensor's gradient is known in a backward pass, leaf or not.

        What it returns, a tensor of the same shape and dtype, goes on in the gradient's place; None changes nothing.
        Hooks run in the order of registration, before `grad` is added to. ``hook.remove()`` takes it off.
        """
        return register(self, function)

    def register_post_accumulate_grad_hook(self, function: Callable[[Tensor], None]) -> Hook:
        """Call ``function(tensor)`` when a backward pass has added to this leaf's `grad`.

        It is called in the middle of the pass, as soon as no entry of the tape is left that this leaf's gradient
        depends on; the pass goes on with the entries before it. ``hook.remove()`` takes it off.
        """
        return register_accumulated(self, function)

    def backward(
        self, gradient: Tensor | None = None, *, retain_graph: bool = False, create_graph: bool = False
    ) -> None:
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
        reverse_pass()(self, gradient, retain_graph=retain_graph or create_graph, create_graph=create_graph)

    def detach(self) -> Tensor:
        """The same memory, cut off from the tape."""
        return eager.alias(self)

    # Out of the framework

    def numpy(self) -> np.ndarray:
        """The memory of a cpu tensor as a NumPy array, shared.

        What is written into the array is not counted as a change of the tensor, as in PyTorch: the tape can't see it.

        Raises
        ------
        RuntimeError
            The tensor requires a gradient, which NumPy could not follow.
        DeviceError
            It is not on the cpu.
        """
        if self.node is not None:
            raise RuntimeError(
                "numpy: this tensor requires a gradient, which NumPy can't follow. Use detach().numpy()."
            )
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
            raise ValueError(
                f"item: a tensor of shape {self.shape} has {self.size} entries; only one of one entry is a number."
            )
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
        named = isinstance(target, str) and target.partition(":")[0] in ("cpu", "cuda", "sim")
        if named or isinstance(target, Device):
            there = device(target)
            return self if there is self.device else eager.transfer(self, device=there.name, source=self.device.name)
        dtype = as_dtype("to", target)
        return self if self.dtype == dtype else ops.cast(self, dtype=dtype)

    def cpu(self) -> Tensor:
        return self.to("cpu")

    def clone(self) -> Tensor:
        """A copy with memory of its own; differentiable."""
        return ops.clone(self)

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.node, Node):
            raise RuntimeError(
                f"copy: this tensor was made by {self.node.op.name}, and its history can't be copied or pickled with "
                "it. Use clone() for a differentiable copy, or detach() first."
            )
        return _rebuilt, (device_of(self.data).to_host(self.data), self.device.name, self.requires_grad, self.grad)

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
            parts.append(f"op={self.node.op.name}" if isinstance(self.node, Node) else "requires_grad=True")
        return f"{prefix}{', '.join(parts)})"

    # Indexing

    def __getitem__(self, key: Any) -> Tensor:
        return ops.getitem(self, key=eager.plain_key(key, self))

    def __setitem__(self, key: Any, value: Any) -> None:
        write_in_place(self, ops.index_put, eager.as_operand(value, "index_put", self), key=eager.plain_key(key, self))

    # In place

    def fill_(self, value: Any) -> Tensor:
        """Every entry becomes `value`, a number or a 0-d tensor."""
        if isinstance(value, Tensor) and value.ndim:
            raise ValueError(f"fill_: expected a number or a 0-d tensor, got one of shape {value.shape}; see copy_.")
        self[...] = value
        return self

    def zero_(self) -> Tensor:
        """Every entry becomes 0."""
        return self.fill_(0)

    def copy_(self, other: Any) -> Tensor:
        """The entries of `other`, broadcast to this shape and cast to this dtype, from whatever device it is on."""
        self[...] = other.to(self.device) if isinstance(other, Tensor) else other
        return self

    # Binary operators, past the table's dispatch: this is the path that every small operation takes

    def __add__(self, other: Any) -> Tensor:
        return eager.binary(_ADD, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return eager.binary(_ADD, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return eager.binary(_SUB, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return eager.binary(_SUB, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return eager.binary(_MUL, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return eager.binary(_MUL, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return eager.binary(ops.div, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return eager.binary(ops.div, other, self)

    def __pow__(self, other: Any) -> Tensor:
        return eager.binary(ops.pow, self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return eager.binary(ops.pow, other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return eager.binary(ops.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return eager.binary(ops.matmul, other, self)

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]  # element-wise, as every array library has it
        return NotImplemented if other is None else eager.binary(ops.equal, self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return NotImplemented if other is None else eager.binary(ops.not_equal, self, other)

    def __lt__(self, other: Any) -> Tensor:
        return eager.binary(ops.less, self, other)

    def __le__(self, other: Any) -> Tensor:
        return eager.binary(ops.less_equal, self, other)

    def __gt__(self, other: Any) -> Tensor:
        return eager.binary(ops.greater, self, other)

    def __ge__(self, other: Any) -> Tensor:
        return eager.binary(ops.greater_equal, self, other)

    def __iadd__(self, other: Any) -> Tensor:
        return write_in_place(self, ops.add, other)

    def __isub__(self, other: Any) -> Tensor:
        return write_in_place(self, ops.sub, other)

    def __imul__(self, other: Any) -> Tensor:
        return write_in_place(self, ops.mul, other)

    def __itruediv__(self, other: Any) -> Tensor:
        return write_in_place(self, ops.div, other)

    def __ifloordiv__(self, other: Any) -> Tensor:
        return write_in_place(self, ops.floor_divide, other)

    def __imod__(self, other: Any) -> Tensor:
        return write_in_place(self, ops.remainder, other)

    def __ipow__(self, other: Any) -> Tensor:
        return write_in_place(self, ops.pow, other)

    __hash__ = Operators.__hash__  # a class that defines == loses it


for _row in rows_in_place():
    setattr(Tensor, f"{_row.name}_", in_place(_row))

_ADD, _SUB, _MUL = ops.add, ops.sub, ops.mul


def _rebuilt(array: np.ndarray, name: str, requires_grad: bool, grad: Tensor | None) -> Tensor:
    """A leaf from its copy or pickle; memory is not shared with the original."""
    tensor = Tensor(array, device=name, requires_grad=requires_grad)
    if grad is not None:
        tensor.grad = Tensor(grad)
    return tensor


def _array_of(data: Any, dtype: Any) -> np.ndarray:
    if isinstance(data, list | tuple) and data and any(isinstance(item, Tensor) for item in data):
        data = [item.tolist() if isinstance(item, Tensor) else item for item in data]
    try:
        array = np.array(data, dtype=dtype)
    except (ValueError, OverflowError) as error:
        if dtype is not None:
            raise TypeError(f"Tensor: the data can't become {dtype} ({error}).") from None
        raise TypeError(f"Tensor: the data has no regular shape ({error}).") from None
    if dtype is None and array.dtype == np.float64:
        array = array.astype(DEFAULT_FLOAT)
    return array
