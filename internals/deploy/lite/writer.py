"""Writing a lite model: tensors and operators one after the other, then bytes."""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.deploy.lite.runtime import KINDS
from internals.deploy.lite.runtime.layout import (
    ALIGNMENT,
    DTYPES,
    GRID,
    HEADER,
    HIGHEST_RANK,
    MAGIC,
    NONE,
    OPERATOR,
    SECTIONS,
    TENSOR,
    VERSION,
    LiteError,
)
from internals.nn.weights import replace_file

NUMBERS = {kind.__name__: number for number, kind in KINDS.items()}
PAIR = struct.Struct("<2H")
EXTENT = struct.Struct("<2Q")


class Builder:
    """A model that is being written; tensors are known by their numbers.

    Examples
    --------
    >>> b = Builder()
    >>> x = b.input("x", (-1, 64))
    >>> weight, bias = b.constant("weight", w), b.constant("bias", v)
    >>> b.output(b.add("FullyConnected", [x, weight, bias], (-1, 10), parameters=(0,), name="scores"))
    >>> Interpreter(b.to_bytes())(x=images)
    """

    def __init__(self) -> None:
        self.tensors: list[dict[str, Any]] = []
        self.operators: list[tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: Any = np.float32,
        *,
        scale: Any = None,
        zero_point: Any = 0,
        axis: int = -1,
        data: np.ndarray | None = None,
    ) -> int:
        """A value that some operator writes.

        Parameters
        ----------
        shape : sequence of int
            ``-k`` is k times the batch.
        scale, zero_point : float and int, or (n,) array-like, optional
            How int8 stands for reals; (n,) along `axis`.
        """
        dtype = np.dtype(dtype).newbyteorder("<")
        if dtype not in DTYPES or len(shape) > HIGHEST_RANK:
            raise LiteError(f"lite: {name!r}: {dtype}, rank {len(shape)}; a file holds float32, int8, int32, int64.")
        grid = None
        if scale is not None:
            scales = np.atleast_1d(np.asarray(scale, "<f4"))
            zeros = np.broadcast_to(np.asarray(zero_point, "<i4"), scales.shape)
            grid = scales, zeros, axis
        self.tensors.append({"name": name, "shape": tuple(map(int, shape)), "dtype": dtype, "data": data, "grid": grid})
        return len(self.tensors) - 1

    def input(self, name: str, shape: Sequence[int], dtype: Any = np.float32, **grid: Any) -> int:
        """A value that is set before each run."""
        self.inputs.append(self.tensor(name, shape, dtype, **grid))
        return self.inputs[-1]

    def constant(self, name: str, array: Any, **grid: Any) -> int:
        """A value that lies in the file."""
        array = np.asarray(array)
        return self.tensor(name, array.shape, array.dtype, data=array, **grid)

    def add(
        self,
        kind: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        dtype: Any = None,
        *,
        parameters: Sequence[int] = (),
        name: str = "",
        version: int | None = None,
        **grid: Any,
    ) -> int:
        """A step, and the value that it writes: of the first input's dtype where none is given."""
        if kind not in NUMBERS:
            raise LiteError(f"lite: there is no operation {kind!r}; there are {', '.join(NUMBERS)}.")
        dtype = self.tensors[inputs[0]]["dtype"] if dtype is None else dtype
        out = self.tensor(name or f"{kind}_{len(self.operators)}", shape, dtype, **grid)
        needed = version or self._version(kind, inputs, parameters)
        self.operators.append((NUMBERS[kind], needed, tuple(inputs), (out,), tuple(map(int, parameters))))
        return out

    def _version(self, kind: str, inputs: Sequence[int], parameters: Sequence[int]) -> int:
        """The oldest version that does what is asked."""
        if kind == "AveragePool":
            return 2 if len(parameters) > KINDS[NUMBERS[kind]].parameters[0] else 1
        if kind in ("Add", "Multiply"):
            one, other = (self.tensors[number] for number in inputs)
            single = other["shape"] in ((), (1,), one["shape"][-1:], one["shape"])
            return 1 if single or one["dtype"] != np.int8 else 2
        grid = self.tensors[inputs[1]]["grid"] if len(inputs) > 1 else None
        return KINDS[NUMBERS[kind]].version if grid is not None and len(grid[0]) > 1 else 1

    def output(self, number: int, name: str = "") -> None:
        """What the model gives; a value is given once."""
        if name:
            self.tensors[number]["name"] = name
        self.outputs.append(number)

    def to_bytes(self) -> bytes:
        """The file."""
        buffers: list[bytes] = []
        grids: dict[tuple[bytes, bytes, int], int] = {}
        rows, strings = [], b""
        for one in self.tensors:
            text, buffer, grid = one["name"].encode(), NONE, NONE
            if one["data"] is not None:
                buffer = len(buffers)
                buffers.append(np.ascontiguousarray(one["data"], one["dtype"]).tobytes())
            if one["grid"] is not None:
                scales, zeros, axis = one["grid"]
                grid = grids.setdefault((scales.tobytes(), zeros.tobytes(), axis), len(grids))
            shape = (*one["shape"], *[0] * (HIGHEST_RANK - len(one["shape"])))
            kind = DTYPES.index(one["dtype"])
            rows.append(TENSOR.pack(len(strings), len(text), kind, len(one["shape"]), *shape, buffer, grid))
            strings += text
        grid_rows = []
        for scales, zeros, axis in grids:
            grid_rows.append(GRID.pack(len(buffers), len(buffers) + 1, axis))
            buffers += [scales, zeros]
        kinds = list(dict.fromkeys(operator[:2] for operator in self.operators))
        words = [*self.inputs, *self.outputs]
        operators = []
        for number, version, *lists in self.operators:
            at = kinds.index((number, version))
            operators.append(OPERATOR.pack(at, *map(len, lists), len(words)))
            words += [word for part in lists for word in part]
        parts = {
            "operations": b"".join(PAIR.pack(*pair) for pair in kinds),
            "tensors": b"".join(rows),
            "grids": b"".join(grid_rows),
            "buffers": b"\0" * EXTENT.size * len(buffers),
            "operators": b"".join(operators),
            "words": np.array(words, "<i4").tobytes(),
            "strings": strings,
        }
        return self._joined(parts, buffers)

    def _joined(self, parts: dict[str, bytes], buffers: Sequence[bytes]) -> bytes:
        directory, starts, end = b"", {}, HEADER
        for name, part in parts.items():
            starts[name] = end
            directory += EXTENT.pack(end, len(part) // SECTIONS[name])
            end += -(-len(part) // 4) * 4
        extents, end_of_tables = b"", starts["strings"] + len(parts["strings"])
        data = b"\0" * (math.ceil(end / ALIGNMENT) * ALIGNMENT - end_of_tables)
        pieces = [data]
        at = end_of_tables + len(data)
        for one in buffers:
            extents += EXTENT.pack(at, len(one))
            pieces += [one, b"\0" * (-len(one) % ALIGNMENT)]
            at += len(one) + len(pieces[-1])
        parts["buffers"] = extents
        tables = b"".join(part + b"\0" * (-len(part) % 4) for part in parts.values())
        tables = tables[: end_of_tables - HEADER]
        data = b"".join(pieces)
        size = HEADER + len(tables) + len(data)
        rest = struct.pack("<IQ2I", 0, size, len(self.inputs), len(self.outputs)) + directory
        rest += b"\0" * (HEADER - 20 - len(rest))
        sums = zlib.crc32(rest + tables), zlib.crc32(data)
        return MAGIC + struct.pack("<3I", VERSION, *sums) + rest + tables + data

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file in place of the one that may be there."""
        replace_file(path, self.to_bytes())
