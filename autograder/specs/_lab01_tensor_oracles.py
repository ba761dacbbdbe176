"""Who knows the answers of ``lab01_tensor``: torch, TensorFlow where it has the notion, and NumPy.

A view is asked for by the places it reads: an array of storage positions is transposed, stretched or sliced by the
framework, and what comes out says where each entry of the answer lies.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autograder.drivers.lab01_tensor import FUNCTIONS


def positions(of: dict[str, Any]) -> np.ndarray:
    """Where each entry of a view is read from, by NumPy's own strides over the numbers 0, 1, 2, ..."""
    numbers = np.arange(of["storage"].size, dtype=np.int64)
    start = numbers[of["offset"] :] if math.prod(of["shape"]) else numbers
    strides = [stride * numbers.itemsize for stride in of["strides"]]
    return np.array(np.lib.stride_tricks.as_strided(start, of["shape"], strides))


def entries(of: dict[str, Any]) -> np.ndarray:
    empty = np.zeros(of["shape"], of["storage"].dtype)
    return np.asarray(of["storage"][positions(of)]) if empty.size else empty


# --- layout ---------------------------------------------------------------------------------------


def layout_torch(torch: Any, shape: list[int], index: list[int], strides: list[int], offset: int) -> dict[str, Any]:
    return {
        "strides": list(torch.empty(shape).stride()),
        "place": int(offset + torch.tensor(index, dtype=torch.int64) @ torch.tensor(strides, dtype=torch.int64)),
    }


def layout_numpy(numpy: Any, shape: list[int], index: list[int], strides: list[int], offset: int) -> dict[str, Any]:
    found = [stride // 8 for stride in np.empty(shape, np.float64).strides]
    if not math.prod(shape):  # where nothing is stored NumPy gives strides of its own; the lab's rule is torch's
        found = [math.prod(max(size, 1) for size in shape[axis + 1 :]) for axis in range(len(shape))]
    return {"strides": found, "place": offset + sum(i * s for i, s in zip(index, strides, strict=True))}


# --- broadcast ------------------------------------------------------------------------------------


def broadcast_torch(torch: Any, shapes: list[list[int]]) -> dict[str, Any]:
    try:
        return {"shape": list(torch.broadcast_tensors(*[torch.empty(shape) for shape in shapes])[0].shape)}
    except RuntimeError:
        return {"raised": "ValueError"}


def broadcast_tensorflow(tensorflow: Any, shapes: list[list[int]]) -> dict[str, Any]:
    shape = tensorflow.TensorShape([])
    try:
        for one in shapes:
            shape = tensorflow.broadcast_static_shape(shape, tensorflow.TensorShape(one))
    except ValueError:
        return {"raised": "ValueError"}
    return {"shape": list(shape)}


def broadcast_numpy(numpy: Any, shapes: list[list[int]]) -> dict[str, Any]:
    try:
        return {"shape": list(np.broadcast_shapes(*map(tuple, shapes)))}
    except ValueError:
        return {"raised": "ValueError"}


# --- views ----------------------------------------------------------------------------------------


def _view(reads: Any) -> dict[str, Any]:
    reads = np.asarray(reads, dtype=np.int64)
    return {"shape": list(reads.shape), "reads": reads, "shares": True, "changed": False}


def view_torch(torch: Any, of: dict[str, Any], do: list[Any]) -> dict[str, Any]:
    t, (kind, *arguments) = torch.tensor(positions(of)), do
    if kind == "transpose":
        return _view(t.permute(arguments[0]).numpy())
    if kind == "broadcast_to":
        try:
            return _view(t.expand(arguments[0]).numpy())
        except RuntimeError:
            return {"raised": "ValueError"}
    axis, start, stop, step = arguments  # torch has no negative steps: it picks the same places by number
    picked = torch.tensor(range(of["shape"][axis])[start:stop:step], dtype=torch.int64)
    return _view(t.index_select(axis, picked).numpy())


def view_tensorflow(tensorflow: Any, of: dict[str, Any], do: list[Any]) -> dict[str, Any]:
    t, (kind, *arguments) = tensorflow.constant(positions(of)), do
    if kind == "transpose":
        return _view(tensorflow.transpose(t, arguments[0]).numpy())
    if kind == "broadcast_to":
        try:
            return _view(tensorflow.broadcast_to(t, tensorflow.constant(arguments[0], tensorflow.int64)).numpy())
        except tensorflow.errors.InvalidArgumentError:
            return {"raised": "ValueError"}
    axis, start, stop, step = arguments
    return _view(t[(slice(None),) * axis + (slice(start, stop, step),)].numpy())


def view_numpy(numpy: Any, of: dict[str, Any], do: list[Any]) -> dict[str, Any]:
    t, (kind, *arguments) = positions(of), do
    if kind == "transpose":
        return _view(np.transpose(t, arguments[0]))
    if kind == "broadcast_to":
        try:
            return _view(np.broadcast_to(t, arguments[0]))
        except ValueError:
            return {"raised": "ValueError"}
    axis, start, stop, step = arguments
    return _view(t[(slice(None),) * axis + (slice(start, stop, step),)])


# --- reshape --------------------------------------------------------------------------------------
# TensorFlow has no strides, and can't be asked.


def reshape_torch(torch: Any, of: dict[str, Any], shape: list[int]) -> dict[str, Any]:
    t = torch.as_strided(torch.arange(of["storage"].size), of["shape"], of["strides"], of["offset"])
    answer = {"contiguous": t.is_contiguous()}
    try:
        reads = t.view(shape).numpy()
    except RuntimeError:
        return answer | {"raised": "ValueError"}
    return answer | {"shape": list(reads.shape), "reads": reads.astype(np.int64), "shares": True}


def reshape_numpy(numpy: Any, of: dict[str, Any], shape: list[int]) -> dict[str, Any]:
    numbers = np.arange(of["storage"].size, dtype=np.int64)
    start = numbers[of["offset"] :] if math.prod(of["shape"]) else numbers
    view = np.lib.stride_tricks.as_strided(start, of["shape"], [stride * 8 for stride in of["strides"]])
    answer = {"contiguous": bool(view.flags.c_contiguous)}
    try:
        reads = np.reshape(view, shape, copy=False)
    except ValueError:
        return answer | {"raised": "ValueError"}
    return answer | {"shape": list(reads.shape), "reads": np.array(reads), "shares": True}


# --- elementwise ----------------------------------------------------------------------------------


def _result(values: np.ndarray, every: int) -> dict[str, Any]:
    flat = np.ascontiguousarray(values).reshape(-1)
    return {"shape": list(values.shape), "values": flat[::every], "row_major": True, "shares": False}


def elementwise_torch(torch: Any, f: str, a: dict[str, Any], b: dict[str, Any], every: int) -> dict[str, Any]:
    one, two = torch.tensor(entries(a)), torch.tensor(entries(b))
    try:
        return _result(getattr(torch, f)(one, two).numpy(), every)
    except RuntimeError:
        return {"raised": "ValueError"}


def elementwise_tensorflow(tensorflow: Any, f: str, a: dict[str, Any], b: dict[str, Any], every: int) -> dict[str, Any]:
    one, two = tensorflow.constant(entries(a)), tensorflow.constant(entries(b))
    try:
        return _result(getattr(tensorflow.math, f)(one, two).numpy(), every)
    except tensorflow.errors.InvalidArgumentError:
        return {"raised": "ValueError"}


def elementwise_numpy(numpy: Any, f: str, a: dict[str, Any], b: dict[str, Any], every: int) -> dict[str, Any]:
    try:
        return _result(np.asarray(FUNCTIONS[f](entries(a), entries(b))), every)
    except ValueError:
        return {"raised": "ValueError"}
