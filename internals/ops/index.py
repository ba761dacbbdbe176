"""Rows that pick entries, and the rows that put cotangents back where they were picked."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals.device import SimArray, pick
from internals.ops.elementwise import zeros_like
from internals.ops.spec import Spec, broadcast_shapes, normalise_axis
from internals.ops.table import row


def _indexed_shape(name: str, shape: tuple[int, ...], key: Any) -> tuple[int, ...]:
    # An array of zero strides has the shape and none of the memory.
    probe = np.broadcast_to(np.zeros((), bool), shape)
    try:
        return probe[_host_key(key)].shape
    except IndexError as error:
        raise IndexError(f"{name}: {error} (tensor of shape {shape}, index {describe_key(key)}).") from None


def _host_key(key: Any) -> Any:
    """The key with arrays of other devices copied to the host."""
    if isinstance(key, tuple):
        return tuple(_host_key(part) for part in key)
    if isinstance(key, SimArray):
        return key._memory
    return key.get() if type(key).__module__.partition(".")[0] == "cupy" else key


def describe_key(key: Any) -> str:
    """An index as it is typed."""
    if isinstance(key, tuple):
        return ", ".join(map(describe_key, key))
    if isinstance(key, slice):
        return ":".join(
            "" if part is None else str(part)
            for part in ((key.start, key.stop) if key.step is None else (key.start, key.stop, key.step))
        )
    return "..." if key is Ellipsis else f"<{key.dtype}{list(key.shape)}>" if hasattr(key, "shape") else repr(key)


def is_basic(key: Any) -> bool:
    """Whether an index is of integers, slices, None and Ellipsis only: it gives a view and picks no entry twice."""
    return all(
        part is None or part is Ellipsis or (isinstance(part, int | np.integer | slice) and not isinstance(part, bool))
        for part in (key if isinstance(key, tuple) else (key,))
    )


def _getitem_infer(x: Spec, *, key: Any) -> Spec:
    return Spec(_indexed_shape("getitem", x.shape, key), x.dtype)


getitem = row(
    "getitem",
    lambda xp, x, key: pick(x, key),
    vjp=lambda g, out, x, key: unindex(g, key=key, shape=tuple(x.shape)),
    jvp="linear",
    infer=_getitem_infer,
    view=True,
    doc="x[key], NumPy's basic and advanced indexing. A view for basic keys, a copy for arrays of indices and masks.",
)


def _unindex(xp: Any, g: Any, key: Any, shape: tuple[int, ...]) -> Any:
    result = xp.zeros(shape, g.dtype)
    if is_basic(key):
        result[key] = g
    else:
        xp.add.at(result, key, g)
    return result


def _unindex_infer(g: Spec, *, key: Any, shape: tuple[int, ...]) -> Spec:
    if broadcast_shapes("unindex", g.shape, _indexed_shape("unindex", shape, key)) != _indexed_shape(
        "unindex", shape, key
    ):
        raise ValueError(f"unindex: values of shape {g.shape} do not fit index {describe_key(key)} of shape {shape}.")
    return Spec(shape, g.dtype)


unindex = row(
    "unindex",
    _unindex,
    vjp=lambda v, out, g, key, shape: getitem(v, key=key),
    jvp="linear",
    infer=_unindex_infer,
    strict=True,
    broadcasts=True,
    doc="Zeros of `shape` with g added at `key`: the derivative of getitem. An entry picked twice receives both.",
)


def _index_put_infer(x: Spec, value: Spec, *, key: Any) -> Spec:
    target = _indexed_shape("index_put", x.shape, key)
    if broadcast_shapes("index_put", value.shape, target) != target:
        raise ValueError(
            f"index_put: a value of shape {value.shape} does not fit index {describe_key(key)} of shape {x.shape}, "
            f"which selects {target}."
        )
    return x


def _index_put(xp: Any, x: Any, value: Any, key: Any) -> Any:
    result = xp.array(x)  # not x.copy(): that of a NumPy scalar is a scalar
    result[key] = value
    return result


index_put = row(
    "index_put",
    _index_put,
    vjp=(
        lambda g, out, x, value, key: index_put(g, 0, key=key),
        lambda g, out, x, value, key: getitem(g, key=key),
    ),
    jvp="linear",
    infer=_index_put_infer,
    strict=True,
    broadcasts=True,
    dtypes="first",
    doc="A copy of x with `value` at `key`: what x[key] = value means without changing x. The entries replaced get no "
    "cotangent.",
)


def _gather_infer(x: Spec, index: Spec, *, axis: int) -> Spec:
    _check_index("gather", x, index, axis)
    return Spec(index.shape, x.dtype)


def _check_index(name: str, x: Spec, index: Spec, axis: int) -> None:
    if index.dtype.kind not in "iu":
        raise TypeError(f"{name}: the index must be of an integer dtype, got {index.dtype}.")
    along = normalise_axis(name, axis, x.ndim)
    same = index.ndim == x.ndim and all(
        a == b for i, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)) if i != along
    )
    if not same:
        raise ValueError(f"{name}: index of shape {index.shape} must match {x.shape} in every axis but {axis}.")


gather = row(
    "gather",
    lambda xp, x, index, axis: xp.take_along_axis(x, index, axis),
    vjp=(lambda g, out, x, index, axis: scatter_add(g, index, axis=axis, size=x.shape[axis]), None),
    jvp="linear",
    saves="index",
    infer=_gather_infer,
    strict=True,
    doc="One entry per position of `index`, taken along an axis: out[i, j] = x[index[i, j], j] for axis 0. As "
    "torch.gather, with equal sizes in the other axes. A negative index counts from the back, as in NumPy; PyTorch and "
    "TensorFlow refuse it.",
)


def _scatter_add(xp: Any, g: Any, index: Any, axis: int, size: int) -> Any:
    axis = axis % g.ndim
    result = xp.zeros((*g.shape[:axis], size, *g.shape[axis + 1 :]), g.dtype)
    xp.add.at(result, _places(xp, g.shape, index, axis), g)
    return result


def _scatter_add_infer(g: Spec, index: Spec, *, axis: int, size: int) -> Spec:
    _check_index("scatter_add", g, index, axis)
    along = normalise_axis("scatter_add", axis, g.ndim)
    return Spec((*g.shape[:along], size, *g.shape[along + 1 :]), g.dtype)


scatter_add = row(
    "scatter_add",
    _scatter_add,
    vjp=(lambda v, out, g, index, axis, size: gather(v, index, axis=axis), None),
    jvp="linear",
    saves="index",
    infer=_scatter_add_infer,
    strict=True,
    doc="Zeros with g added at `index` along an axis of length `size`: the derivative of gather.",
)


def _places(xp: Any, shape: tuple[int, ...], index: Any, axis: int) -> tuple[Any, ...]:
    """The key that picks, at each position, the entry that `index` names along an axis."""
    return tuple(
        index if i == axis else xp.arange(n).reshape((1,) * i + (n,) + (1,) * (len(shape) - i - 1))
        for i, n in enumerate(shape)
    )


def _scatter_infer(x: Spec, index: Spec, value: Spec, *, axis: int) -> Spec:
    _check_index("scatter", x, index, axis)
    if value.shape != index.shape:
        raise ValueError(f"scatter: a value of shape {value.shape} must have the shape of the index, {index.shape}.")
    if value.dtype != x.dtype:
        raise TypeError(f"scatter: the value is {value.dtype} and x {x.dtype}. Cast one to the other's dtype.")
    return x


def _scatter(xp: Any, x: Any, index: Any, value: Any, axis: int) -> Any:
    result = x.copy()
    result[_places(xp, index.shape, index, axis % x.ndim)] = value
    return result


scatter = row(
    "scatter",
    _scatter,
    vjp=(
        lambda g, out, x, index, value, axis: scatter(g, index, zeros_like(gather(g, index, axis=axis)), axis=axis),
        None,
        lambda g, out, x, index, value, axis: gather(g, index, axis=axis),
    ),
    jvp="linear",
    saves=("index", "", "index"),
    infer=_scatter_infer,
    strict=True,
    doc="A copy of x with one entry per position of `index` replaced by that of `value`: out[index[i, j], j] = "
    "value[i, j] for axis 0. Entries replaced get no cotangent. If an index comes twice, which value stays is not "
    "defined, nor is the derivative, as in PyTorch's scatter; scatter_add adds them up. TensorFlow's "
    "tensor_scatter_nd_update names every axis.",
)


def _one_hot_infer(index: Spec, *, size: int, dtype: Any = np.float32) -> Spec:
    if index.dtype.kind not in "iu":
        raise TypeError(f"one_hot: the index must be of an integer dtype, got {index.dtype}.")
    if size < 0:
        raise ValueError(f"one_hot: size is the number of classes and can't be {size}.")
    return Spec((*index.shape, size), dtype)


one_hot = row(
    "one_hot",
    lambda xp, index, size, dtype: (index[..., None] == xp.arange(size)).astype(dtype),
    vjp=None,
    infer=_one_hot_infer,
    strict=True,
    doc="1 at the index, 0 elsewhere, along a new last axis. An index out of range gives zeros, as in "
    "TensorFlow; PyTorch refuses it.",
)
