"""Drivers for ``lab01_tensor``: plain data in, a call of what the learner wrote, plain data out. No answers here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Names = Mapping[str, Any]

FUNCTIONS = {"add": np.add, "subtract": np.subtract, "maximum": np.maximum, "divide": np.divide}


def layout(names: Names, shape: list[int], index: list[int], strides: list[int], offset: int) -> dict[str, Any]:
    """The row-major strides of a shape; and where an entry of any layout lies."""
    found = names["strides_of"](tuple(shape))
    return {
        "strides": integers(found, "strides_of"),
        "place": integer(names["locate"](tuple(index), tuple(strides), offset), "locate"),
    }


def broadcast(names: Names, shapes: list[list[int]]) -> dict[str, Any]:
    """The shape that the shapes broadcast to, or the refusal."""
    return refusing(lambda: {"shape": integers(names["broadcast_shapes"](*map(tuple, shapes)), "broadcast_shapes")})


def view(names: Names, of: dict[str, Any], do: list[Any]) -> dict[str, Any]:
    """A view of a view; `do` is the name of the function and its arguments, such as ``["transpose", [1, 0]]``."""
    start, storage = made(names, of)
    kind, *arguments = do
    arguments = [tuple(one) if isinstance(one, list) else one for one in arguments]
    before = (storage.copy(), tuple(start.shape), tuple(start.strides), start.offset)
    found = refusing(lambda: described(names[kind](start, *arguments), storage, kind))
    if "raised" in found:
        return found
    after = (tuple(start.shape), tuple(start.strides), start.offset)
    return found | {"changed": not np.array_equal(storage, before[0]) or after != before[1:]}


def reshape(names: Names, of: dict[str, Any], shape: list[int]) -> dict[str, Any]:
    """Whether a view is contiguous, and it in another shape without a copy, or the refusal."""
    start, storage = made(names, of)
    contiguous = names["is_contiguous"](start)
    if not isinstance(contiguous, (bool, np.bool_)):
        raise TypeError(f"is_contiguous returned {_kind(contiguous)}; expected True or False.")
    found = refusing(lambda: described(names["reshape"](start, tuple(shape)), storage, "reshape"))
    return {"contiguous": bool(contiguous)} | found


def elementwise(names: Names, f: str, a: dict[str, Any], b: dict[str, Any], every: int) -> dict[str, Any]:
    """A function of two views, entry by entry; of a large result, every so many entries are looked at."""
    (one, first), (two, second) = made(names, a), made(names, b)

    def run() -> dict[str, Any]:
        answer = names["elementwise"](FUNCTIONS[f], one, two)
        storage = getattr(answer, "storage", None)
        if not isinstance(storage, np.ndarray) or storage.ndim != 1:
            raise TypeError(f"elementwise returned {_kind(answer)}; expected a View with a storage of its own.")
        found = described(answer, storage, "elementwise")
        reads = found["reads"]
        if reads.size and not 0 <= reads.min() <= reads.max() < storage.size:
            raise IndexError(f"elementwise returned a View that reads outside its storage of {storage.size} entries.")
        values = storage[reads].reshape(-1)
        return {
            "shape": found["shape"],
            "values": values[::every],
            "row_major": bool(np.array_equal(reads.reshape(-1), np.arange(values.size)) and storage.size == reads.size),
            "shares": bool(np.shares_memory(storage, first) or np.shares_memory(storage, second)),
        }

    return refusing(run)


def made(names: Names, of: dict[str, Any]) -> tuple[Any, np.ndarray]:
    """The learner's View of a description, and its storage."""
    storage = of["storage"].copy()
    return names["View"](storage, tuple(of["shape"]), tuple(of["strides"]), of["offset"]), storage


def described(answer: Any, storage: np.ndarray, name: str) -> dict[str, Any]:
    """A View as plain data: its shape, where each of its entries is read from, and whether it is on that storage."""
    parts = [getattr(answer, part, None) for part in ("storage", "shape", "strides", "offset")]
    if any(part is None for part in parts):
        raise TypeError(f"{name} returned {_kind(answer)}; expected a View.")
    shape, strides = integers(parts[1], f"{name}'s shape"), integers(parts[2], f"{name}'s strides")
    offset = integer(parts[3], f"{name}'s offset")
    if len(shape) != len(strides):
        raise ValueError(
            f"{name} returned a View of shape {tuple(shape)} with {len(strides)} strides: {tuple(strides)}."
        )
    if any(size < 0 for size in shape):
        raise ValueError(f"{name} returned a View of shape {tuple(shape)}; a size can't be negative.")
    reads = np.full(shape, offset, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        reads += (np.arange(size) * stride).reshape((size,) + (1,) * (len(shape) - axis - 1))
    return {"shape": shape, "reads": reads, "shares": parts[0] is storage}


def refusing(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `run` gives, or that it raised ValueError: a refusal is an answer. Any other error is to be shown."""
    try:
        return run()
    except ValueError as error:
        if type(error) is not ValueError or "returned a View" in str(error):
            raise
        return {"raised": "ValueError"}


def integers(value: Any, name: str) -> list[int]:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{name}: {_kind(value)} came; expected a tuple of integers.")
    return [integer(one, name) for one in value]


def integer(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name}: {_kind(value)} came; expected an integer.")
    return int(value)


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    size = f" of {len(value)}" if isinstance(value, (tuple, list, dict)) else ""
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return f"{article} {type(value).__name__}{size}"
