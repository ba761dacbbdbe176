"""The bytes of a lite model, read where they lie.

All numbers are little-endian. A file is a header of 192 bytes, tables of fixed-size records, and data at multiples of
64 bytes, so that a mapped file is a set of aligned arrays and nothing is copied.

====== ===== ============================================================
offset size  the header
====== ===== ============================================================
0      8     ``\\x89ILITE\\r\\n``; a transfer as text damages it visibly
8      4     version of this layout, 1
12     4     CRC-32 of the header from byte 20 on, and of the tables
16     4     CRC-32 of the data
20     4     0
24     8     size of the file
32     4     how many inputs; their numbers come first in `words`
36     4     how many outputs; their numbers come next
40     16    `operations`, and so on for each section: offset (8), count (8)
152    40    0
====== ===== ============================================================

The sections, in this order; the data follow the last:

operations
    (kind, version), 2 + 2 bytes: the operations that the file uses.
tensors
    40 bytes: offset of the name in `strings` (4) and its length (2); dtype (1); rank (1); six sizes (4 each), where
    ``-k`` is k times the batch; number of the buffer (4), or 0xFFFFFFFF for a value that is computed; number of the
    quantisation (4), or 0xFFFFFFFF.
grids
    16 bytes: the buffers of scales (float32) and zero points (int32), the axis along which they vary, or -1; 0.
buffers
    offset in the file (8), bytes (8).
operators
    16 bytes, in the order in which they run: number in `operations` (2); how many inputs, outputs and parameters
    (2 each); where they begin in `words` (4); 0 (4).
words
    int32: numbers of tensors, and parameters.
strings
    UTF-8.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np

MAGIC = b"\x89ILITE\r\n"
VERSION = 1
HEADER = 192
ALIGNMENT = 64
NONE = 0xFFFFFFFF
HIGHEST_RANK = 6
DTYPES = tuple(np.dtype(name) for name in ("<f4", "i1", "<i4", "<i8"))
FIELDS = struct.Struct("<8s4IQ2I")
SECTIONS = {"operations": 4, "tensors": 40, "grids": 16, "buffers": 16, "operators": 16, "words": 4, "strings": 1}
TENSOR = struct.Struct("<IHBB6i2I")
GRID = struct.Struct("<2Ii4x")
OPERATOR = struct.Struct("<4HI4x")


class LiteError(ValueError):
    """A lite model is not what it should be, or is used as it cannot be; names the part."""


@dataclass(frozen=True)
class Tensor:
    """One value of a model.

    Attributes
    ----------
    name : str
    dtype : numpy.dtype
    shape : tuple of int
        ``-k`` is k times the batch.
    data : numpy.ndarray or None
        The file's own bytes, for a constant.
    scale, zero_point : numpy.ndarray or None
        (1,) or (n,): ``real = scale * (integer - zero_point)``.
    axis : int
        Along which the n lie; -1 for one of all.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    data: np.ndarray | None
    scale: np.ndarray | None
    zero_point: np.ndarray | None
    axis: int

    def at(self, batch: int) -> tuple[int, ...]:
        """The shape for a batch."""
        return tuple([-size * batch if size < 0 else size for size in self.shape])


@dataclass(frozen=True)
class Operator:
    """One step: which operation, on which tensors, with which parameters."""

    kind: int
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    parameters: tuple[int, ...]


@dataclass(frozen=True)
class Model:
    """What a file says."""

    tensors: list[Tensor]
    operators: list[Operator]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operations: list[tuple[int, int]]


def read(data: bytes | memoryview, *, verify: bool = True) -> Model:
    """The model in these bytes; its arrays are views of them.

    Parameters
    ----------
    data : bytes, memoryview or mmap
    verify : bool
        Compare the data with their checksum, which reads every byte once. The tables are always compared.

    Raises
    ------
    LiteError
        It is cut off, damaged or hostile, or of a newer layout.
    """
    whole = memoryview(data).cast("B")
    if len(whole) < HEADER or bytes(whole[:8]) != MAGIC:
        raise LiteError(f"lite: no lite model: {len(whole):,} bytes that begin with {bytes(whole[:8])!r}.")
    _, version, tables_sum, data_sum, _, size, n_inputs, n_outputs = FIELDS.unpack_from(whole)
    if version > VERSION:
        raise LiteError(f"lite: the file has layout {version}; this interpreter reads up to {VERSION}. Update it.")
    if size != len(whole):
        raise LiteError(f"lite: the header says {size:,} bytes, the file has {len(whole):,}: cut off, or damaged.")
    sections, end = {}, HEADER
    for position, (name, each) in enumerate(SECTIONS.items()):
        start, count = struct.unpack_from("<2Q", whole, FIELDS.size + 16 * position)
        if start < end or start % 4 or start > size or count > (size - start) // each:
            raise LiteError(f"lite: section {name} has {count:,} records from byte {start:,}; the file has {size:,}.")
        end = start + count * each
        sections[name] = whole[start:end]
    if zlib.crc32(whole[20:end]) != tables_sum:
        raise LiteError("lite: the tables are damaged: their checksum is not the one in the header.")
    if verify and zlib.crc32(whole[end:]) != data_sum:
        raise LiteError("lite: the data are damaged: their checksum is not the one in the header.")
    return _Reader(whole, end, sections).model(n_inputs, n_outputs)


class _Reader:
    def __init__(self, whole: memoryview, end: int, sections: dict[str, memoryview]) -> None:
        self.whole, self.end, self.sections = whole, end, sections
        self.words = np.frombuffer(sections["words"], "<i4")
        self.buffers = np.frombuffer(sections["buffers"], "<u8").reshape(-1, 2)

    def model(self, n_inputs: int, n_outputs: int) -> Model:
        tensors = [self._tensor(i, *row) for i, row in enumerate(TENSOR.iter_unpack(self.sections["tensors"]))]
        operations = list(struct.Struct("<2H").iter_unpack(self.sections["operations"]))
        operators = []
        for i, (number, *counts, start) in enumerate(OPERATOR.iter_unpack(self.sections["operators"])):
            if number >= len(operations):
                raise LiteError(f"lite: operator {i} is of operation {number}; there are {len(operations)}.")
            parts = self._split(f"operator {i}", start, counts, len(tensors))
            operators.append(Operator(*operations[number], *parts))
        inputs, outputs, _ = self._split("the model", 0, [n_inputs, n_outputs, 0], len(tensors))
        names = [tensors[i].name for i in inputs], [tensors[i].name for i in outputs]
        if not outputs or any(len(set(side)) < len(side) or "" in side for side in names):
            raise LiteError(f"lite: inputs {names[0]} and outputs {names[1]} must have names of their own.")
        _check_order(tensors, operators, inputs, outputs)
        return Model(tensors, operators, inputs, outputs, operations)

    def _split(self, what: str, start: int, counts: list[int], tensors: int) -> list[tuple[int, ...]]:
        if start + sum(counts) > len(self.words):
            raise LiteError(f"lite: {what} has words {start} to {start + sum(counts)}; there are {len(self.words)}.")
        parts = []
        for count in counts:
            parts.append(tuple(self.words[start : start + count].tolist()))
            start += count
        for number in parts[0] + parts[1]:
            if not 0 <= number < tensors:
                raise LiteError(f"lite: {what} uses tensor {number}; there are {tensors}.")
        return parts

    def _buffer(self, what: str, number: int, dtype: np.dtype) -> np.ndarray:
        if number >= len(self.buffers):
            raise LiteError(f"lite: {what} is in buffer {number}; there are {len(self.buffers)}.")
        start, size = self.buffers[number].tolist()
        if start < self.end or start % ALIGNMENT or start + size > len(self.whole) or size % dtype.itemsize:
            raise LiteError(f"lite: {what}: bytes {start:,} to {start + size:,} are not aligned data of the file.")
        found = np.frombuffer(self.whole[start : start + size], dtype)
        found.flags.writeable = False
        return found

    def _tensor(self, i: int, start: int, length: int, dtype: int, rank: int, *rest: int) -> Tensor:
        sizes, (buffer, grid) = rest[:6], rest[6:]
        strings = self.sections["strings"]
        try:
            name = str(strings[start : start + length], "utf-8")
        except UnicodeDecodeError:
            raise LiteError(f"lite: tensor {i}: its name is no text.") from None
        what = f"tensor {i} {name!r}"
        if start + length > len(strings) or dtype >= len(DTYPES) or rank > HIGHEST_RANK or any(sizes[rank:]):
            raise LiteError(f"lite: {what}: name, dtype {dtype}, rank {rank} or sizes {sizes} make no sense.")
        shape, kind, data = sizes[:rank], DTYPES[dtype], None
        if buffer != NONE:
            flat = self._buffer(what, buffer, kind)
            count = 1
            for one in shape:
                count *= one
            if count != flat.size or min(shape, default=0) < 0:
                raise LiteError(f"lite: {what} has shape {shape}, and {flat.size:,} entries.")
            data = flat.reshape(shape)
        scale, zero_point, axis = self._grid(what, grid, shape) if grid != NONE else (None, None, -1)
        return Tensor(name, kind, shape, data, scale, zero_point, axis)

    def _grid(self, what: str, number: int, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, int]:
        rows = self.sections["grids"]
        if number >= len(rows) // GRID.size:
            raise LiteError(f"lite: {what} has quantisation {number}; there are {len(rows) // GRID.size}.")
        first, second, axis = GRID.unpack_from(rows, number * GRID.size)
        scale, zero = self._buffer(what, first, DTYPES[0]), self._buffer(what, second, DTYPES[2])
        slices = 1 if axis == -1 else shape[axis] if 0 <= axis < len(shape) else 0
        fine = scale.size == zero.size == slices > 0 and np.isfinite(scale).all() and bool((scale > 0).all())
        if not fine or zero.min() < -128 or zero.max() > 127:
            raise LiteError(f"lite: {what}: {scale.size} scales and {zero.size} zero points along axis {axis}.")
        return scale, zero, axis


def _check_order(
    tensors: list[Tensor], operators: list[Operator], inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> None:
    """Each value is known before it is used, and written once."""
    known = {i for i, tensor in enumerate(tensors) if tensor.data is not None}
    if known & set(inputs):
        raise LiteError("lite: an input is a constant.")
    known |= set(inputs)
    for i, operator in enumerate(operators):
        for number in operator.inputs:
            if number not in known:
                raise LiteError(f"lite: operator {i} reads {tensors[number].name!r} before it is computed.")
        for number in operator.outputs:
            if number in known:
                raise LiteError(f"lite: operator {i} writes {tensors[number].name!r}, which has a value.")
            known.add(number)
    for number in outputs:
        if number not in known or tensors[number].data is not None:
            raise LiteError(f"lite: the output {tensors[number].name!r} is never computed.")
