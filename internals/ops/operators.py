"""What every value that ops work on can be asked in Python's own notation: operators, indexing, and a few methods.

A style of execution gives its values these by inheriting them: a Tensor, a dual number and a graph node all write
``(x @ w + b).sum(axis=0)`` the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from internals.ops import elementwise, functions, in_numpy, index, linalg, loss, order, reduce, scan, shape, statistics


class Operators:
    """Operators and methods in terms of ops. A subclass has `shape`, `dtype`, `ndim` and `size`."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        """``array + x`` and ``np.add(array, x)``; see `internals.ops.in_numpy`."""
        return in_numpy.run_ufunc(Operators, ufunc, method, inputs, named)

    def __array_function__(self, function: Any, types: Any, inputs: Any, named: Any) -> Any:
        """``np.sum(x)``; see `internals.ops.in_numpy`."""
        return in_numpy.run_function(Operators, function, inputs, named)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{type(self).__name__}: it has no entries that NumPy could read.")

    def __add__(self, other: Any) -> Self:
        return elementwise.add(self, other)

    def __radd__(self, other: Any) -> Self:
        return elementwise.add(other, self)

    def __sub__(self, other: Any) -> Self:
        return elementwise.sub(self, other)

    def __rsub__(self, other: Any) -> Self:
        return elementwise.sub(other, self)

    def __mul__(self, other: Any) -> Self:
        return elementwise.mul(self, other)

    def __rmul__(self, other: Any) -> Self:
        return elementwise.mul(other, self)

    def __truediv__(self, other: Any) -> Self:
        return elementwise.div(self, other)

    def __rtruediv__(self, other: Any) -> Self:
        return elementwise.div(other, self)

    def __pow__(self, other: Any) -> Self:
        return elementwise.pow(self, other)

    def __rpow__(self, other: Any) -> Self:
        return elementwise.pow(other, self)

    def __matmul__(self, other: Any) -> Self:
        return linalg.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Self:
        return linalg.matmul(other, self)

    def __pos__(self) -> Self:
        return self

    def __neg__(self) -> Self:
        return elementwise.neg(self)

    def __abs__(self) -> Self:
        return elementwise.abs(self)

    def __floordiv__(self, other: Any) -> Self:
        return functions.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Self:
        return functions.floor_divide(other, self)

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Self, Self]:
        return other // self, other % self

    def __mod__(self, other: Any) -> Self:
        return functions.remainder(self, other)

    def __rmod__(self, other: Any) -> Self:
        return functions.remainder(other, self)

    def __invert__(self) -> Self:
        return elementwise.logical_not(_truths("~", self))

    def __and__(self, other: Any) -> Self:
        return elementwise.logical_and(_truths("&", self), _truths("&", other))

    __rand__ = __and__

    def __or__(self, other: Any) -> Self:
        return elementwise.logical_or(_truths("|", self), _truths("|", other))

    __ror__ = __or__

    def __xor__(self, other: Any) -> Self:
        return elementwise.not_equal(_truths("^", self), _truths("^", other))

    __rxor__ = __xor__

    def __lt__(self, other: Any) -> Self:
        return elementwise.less(self, other)

    def __le__(self, other: Any) -> Self:
        return elementwise.less_equal(self, other)

    def __gt__(self, other: Any) -> Self:
        return elementwise.greater(self, other)

    def __ge__(self, other: Any) -> Self:
        return elementwise.greater_equal(self, other)

    # Element-wise, as every array library has them; None equals nothing.

    def __eq__(self, other: Any) -> Self:  # type: ignore[override]
        return NotImplemented if other is None else elementwise.equal(self, other)

    def __ne__(self, other: Any) -> Self:  # type: ignore[override]
        return NotImplemented if other is None else elementwise.not_equal(self, other)

    __hash__ = object.__hash__  # by identity, since == is element-wise

    def __getitem__(self, key: Any) -> Self:
        return index.getitem(self, key=key)

    # Shapes

    @property
    def T(self) -> Self:
        """The axes in reverse order."""
        return shape.transpose(self)

    def reshape(self, *sizes: Any) -> Self:
        return shape.reshape(self, shape=unpacked(sizes))

    def permute(self, *axes: Any) -> Self:
        """The axes in the given order; negative ones count from the back."""
        return shape.transpose(self, axes=unpacked(axes))

    transpose = permute

    def swapaxes(self, a: int, b: int) -> Self:
        return shape.swapaxes(self, a, b)

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Self:
        return shape.squeeze(self, axis=axis)

    def unsqueeze(self, axis: int) -> Self:
        return shape.expand_dims(self, axis=axis)

    def broadcast_to(self, *sizes: Any) -> Self:
        return shape.broadcast_to(self, shape=unpacked(sizes))

    def flatten(self) -> Self:
        return shape.reshape(self, shape=(-1,))

    def split(self, size: int | Sequence[int], axis: int = 0) -> tuple[Self, ...]:
        return shape.split(self, size, axis=axis)

    def chunk(self, pieces: int, axis: int = 0) -> tuple[Self, ...]:
        return shape.chunk(self, pieces, axis=axis)

    def unbind(self, axis: int = 0) -> tuple[Self, ...]:
        return shape.unbind(self, axis=axis)

    # Reductions and element-wise functions

    def sum(self, axis: Any = None, keepdims: bool = False) -> Self:
        return reduce.sum(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Self:
        return reduce.mean(self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Self:
        return reduce.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Self:
        return reduce.min(self, axis=axis, keepdims=keepdims)

    def prod(self, axis: int | None = None, keepdims: bool = False) -> Self:
        return reduce.prod(self, axis=axis, keepdims=keepdims)

    def var(self, axis: Any = None, keepdims: bool = False, correction: float = 1) -> Self:
        return statistics.var(self, axis=axis, keepdims=keepdims, correction=correction)

    def std(self, axis: Any = None, keepdims: bool = False, correction: float = 1) -> Self:
        return statistics.std(self, axis=axis, keepdims=keepdims, correction=correction)

    def norm(self, p: float = 2, axis: Any = None, keepdims: bool = False) -> Self:
        return statistics.norm(self, p=p, axis=axis, keepdims=keepdims)

    def cumsum(self, axis: int) -> Self:
        return scan.cumsum(self, axis=axis)

    def cumprod(self, axis: int) -> Self:
        return scan.cumprod(self, axis=axis)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Self:
        return reduce.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Self:
        return reduce.argmin(self, axis=axis, keepdims=keepdims)

    amax, amin = max, min  # PyTorch's and NumPy's names

    def argsort(self, axis: int = -1, descending: bool = False) -> Self:
        return order.argsort(self, axis=axis, descending=descending)

    def sort(self, axis: int = -1, descending: bool = False) -> Any:
        """The entries in order, and the indices they were at."""
        return order.sort(self, axis=axis, descending=descending)

    def topk(self, k: int, axis: int = -1, largest: bool = True) -> Any:
        """The k largest entries, and the indices they are at."""
        return order.topk(self, k=k, axis=axis, largest=largest)

    def any(self, axis: Any = None, keepdims: bool = False) -> Self:
        return reduce.any(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Self:
        return reduce.all(self, axis=axis, keepdims=keepdims)

    def clip(self, low: float | None = None, high: float | None = None) -> Self:
        return elementwise.clip(self, low=low, high=high)

    def masked_fill(self, mask: Any, value: Any) -> Self:
        return functions.masked_fill(self, mask, value)

    def softmax(self, axis: int = -1) -> Self:
        return loss.softmax(self, axis=axis)

    def log_softmax(self, axis: int = -1) -> Self:
        return loss.log_softmax(self, axis=axis)

    def exp(self) -> Self:
        return elementwise.exp(self)

    def log(self) -> Self:
        return elementwise.log(self)

    def sqrt(self) -> Self:
        return elementwise.sqrt(self)

    def tanh(self) -> Self:
        return elementwise.tanh(self)

    def sigmoid(self) -> Self:
        return elementwise.sigmoid(self)

    def relu(self) -> Self:
        return elementwise.relu(self)


def unpacked(sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    """``(2, 3)`` from ``f(2, 3)`` and from ``f((2, 3))``."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes


def _truths(sign: str, value: Any) -> Any:
    """A value of booleans. Of integers NumPy and PyTorch combine the bits, for which there is no row."""
    kind = str(value.dtype) if hasattr(value, "dtype") else type(value).__name__
    if kind not in ("bool", "list", "tuple"):
        raise TypeError(
            f"{sign}: takes booleans, got {kind}. Compare first, as in x != 0; or call logical_not, logical_and or "
            "logical_or."
        )
    return value
