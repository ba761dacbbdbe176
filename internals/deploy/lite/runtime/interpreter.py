"""A lite model that runs: memory that is planned when the batch is known, and steps that write into it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .arena import Block, aligned, place, put
from .kernels import FullyConnected, Kernel, Value
from .layout import LiteError, read
from .pointwise import (
    Add,
    Concat,
    Dequantise,
    Gather,
    Mean,
    Multiply,
    Pad,
    Quantise,
    Reshape,
    Softmax,
    Transpose,
    Unary,
)  # fmt: skip
from .recurrent import Lstm, Part
from .windows import AveragePool, Conv2d, Depthwise, MaxPool

KINDS: dict[int, type[Kernel]] = dict(
    enumerate(
        (
            FullyConnected, Conv2d, Depthwise, MaxPool, AveragePool, Add, Multiply, Unary, Softmax, Reshape, Transpose,
            Pad, Concat, Mean, Quantise, Dequantise, Gather, Part, Lstm,
        ),
        1,
    )
)  # fmt: skip
"""Operations by the number that files know them by; a number is never used again for another."""
LARGEST_ARENA = 2**30


class Interpreter:
    """A model that was read.

    Parameters
    ----------
    source : path, bytes or memoryview
        A path is mapped: weights are read from the file as they are used, and never copied.
    batch : int
    scratch : int
        Bytes of working room that a kernel may take beside inputs and results, where it can choose; more is faster.
    verify : bool
        Compare the weights with their checksum first, which reads them once.
    limit : int
        The most memory, in bytes: arena and room.

    Attributes
    ----------
    blocks : list of Block
        The plan: each value with its steps and its offset.
    arena : numpy.ndarray
        The values that steps write.
    room : numpy.ndarray
        Where kernels work, one after the other, behind the arena; and in it, where no value is alive that is in the
        way. TensorFlow Lite's kernels keep theirs beside its arena too.

    Raises
    ------
    LiteError
        The file is damaged or hostile, uses an operation or a version of one that this interpreter does not have, or
        needs a larger arena.
    """

    def __init__(
        self,
        source: Any,
        *,
        batch: int = 1,
        scratch: int = 2**16,
        verify: bool = True,
        limit: int = LARGEST_ARENA,
    ) -> None:
        if isinstance(source, (str, os.PathLike)):
            import mmap  # not where there are no files to map, as in a browser

            with open(source, "rb") as file:
                empty = os.fstat(file.fileno()).st_size == 0
                source = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.model = read(source, verify=verify)
        self.scratch, self.limit = scratch, limit
        for kind, version in self.model.operations:
            if kind not in KINDS:
                raise LiteError(f"lite: operation {kind} is not known; the file is for a newer interpreter.")
            if not 1 <= version <= KINDS[kind].version:
                raise LiteError(
                    f"lite: the file needs version {version} of {KINDS[kind].__name__}; this interpreter has up to "
                    f"{KINDS[kind].version}. Update it."
                )
        self.resize(batch)

    def resize(self, batch: int) -> None:
        """Plan again for another batch; what was in the arena is lost."""
        if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
            raise LiteError(f"lite: the batch must be a whole number, 1 or more, got {batch!r}.")
        values = [Value(tensor, batch) for tensor in self.model.tensors]
        for value in values:
            if value.size * value.dtype.itemsize > self.limit and value.data is None:
                raise LiteError(f"lite: {value.name!r} has shape {value.shape}; the limit is {self.limit:,} bytes.")
        kernels = [self._kernel(i, values) for i in range(len(self.model.operators))]
        blocks, of_value = self._blocks(values, kernels)
        size = place(blocks)
        placed = sorted(blocks, key=lambda one: one.offset)
        rooms = [Block("room", self._wanted(kernel), step, step) for step, kernel in enumerate(kernels)]
        for room in rooms:
            put(room, placed)
        whole = max([size, *[room.offset + room.size for room in rooms]])
        if whole > self.limit:
            raise LiteError(
                f"lite: the arena would have {size:,} bytes, and {whole:,} with what kernels need to work; the limit "
                f"is {self.limit:,}."
            )
        self.batch, self.values, self.kernels, self.blocks = batch, values, kernels, blocks
        self.of_value = of_value
        memory = _zeros(whole)
        self.arena, self.room = memory[:size], memory[size:]
        self.arrays: list[Any] = [
            value.data if value.data is not None else _view(self.arena, of_value[i].offset, value.shape, value.dtype)
            if i in of_value else None
            for i, value in enumerate(values)
        ]  # fmt: skip
        arrays = self.arrays
        for operator, kernel, room in zip(self.model.operators, kernels, rooms):
            working, at = [], room.offset
            for shape, dtype in kernel.room:
                working.append(_view(memory, at, shape, dtype))
                at += aligned(math.prod(shape) * dtype.itemsize)
            kernel.bind([arrays[i] for i in operator.inputs], arrays[operator.outputs[0]], working)
        self.inputs = {values[i].name: arrays[i] for i in self.model.inputs}
        self.outputs = {values[i].name: arrays[i] for i in self.model.outputs}

    def _kernel(self, number: int, values: Sequence[Value]) -> Kernel:
        operator = self.model.operators[number]
        kind = KINDS[operator.kind]
        (least, most), (fewest, highest) = kind.arity, kind.parameters
        counts = len(operator.inputs), len(operator.parameters), len(operator.outputs)
        if not (least <= counts[0] <= most and fewest <= counts[1] <= highest and counts[2] == 1):
            raise LiteError(f"lite: operator {number}, {kind.__name__}: {counts[0]} inputs, {counts[1]} parameters.")
        given = [values[i] for i in operator.inputs]
        with np.errstate(all="ignore"):
            return kind(given, values[operator.outputs[0]], operator.parameters, self.scratch)

    @staticmethod
    def _wanted(kernel: Kernel) -> int:
        return sum(aligned(math.prod(shape) * dtype.itemsize) for shape, dtype in kernel.room)

    def _blocks(self, values: Sequence[Value], kernels: Sequence[Kernel]) -> tuple[list[Block], dict[int, Block]]:
        last = {i: len(kernels) for i in self.model.outputs}
        for step in range(len(kernels) - 1, -1, -1):
            for i in self.model.operators[step].inputs:
                last.setdefault(i, step)
        of_value: dict[int, Block] = {}
        for i in self.model.inputs:
            of_value[i] = Block(values[i].name, self._bytes(values[i]), -1, last.get(i, -1))
        for step, (operator, kernel) in enumerate(zip(self.model.operators, kernels)):
            out, first = operator.outputs[0], operator.inputs[0]
            size = self._bytes(values[out])
            end = last.get(out, step)
            held = of_value.get(first)
            alone = operator.inputs.count(first) == 1 and last[first] == step
            if kernel.in_place and held and alone and held.last == step and held.size == size:
                held.last, held.name = end, f"{held.name}, {values[out].name}"
                of_value[out] = held
            else:
                of_value[out] = Block(values[out].name, size, step, end)
        return list({id(block): block for block in of_value.values()}.values()), of_value

    @staticmethod
    def _bytes(value: Value) -> int:
        return aligned(value.size * value.dtype.itemsize)

    def set(self, name: str, array: Any) -> None:
        """Copy an input into the arena; all of them before each `invoke`, which may reuse their memory.

        Raises
        ------
        LiteError
            There is no such input, or it has another shape or dtype.
        """
        if name not in self.inputs:
            raise LiteError(f"lite: there is no input {name!r}; there are {', '.join(self.inputs) or 'none'}.")
        array, place = np.asarray(array), self.inputs[name]
        if array.shape != place.shape or array.dtype != place.dtype:
            raise LiteError(
                f"lite: input {name!r} is {place.dtype}{list(place.shape)}, got {array.dtype}{list(array.shape)}; "
                "resize() sets the batch, quantised() writes reals as int8."
            )
        np.copyto(place, array)

    def invoke(self) -> None:
        """Run all steps. `outputs` are then views of the arena, good until the next call."""
        with np.errstate(all="ignore"):
            for kernel in self.kernels:
                kernel.run()

    def __call__(self, **arrays: Any) -> dict[str, np.ndarray]:
        """Set, invoke, and copy the outputs; the batch is that of the inputs."""
        if arrays.keys() != self.inputs.keys():
            raise LiteError(
                f"lite: the inputs are {', '.join(self.inputs) or 'none'}; got {', '.join(arrays) or 'none'}."
            )
        for i in self.model.inputs:
            tensor = self.model.tensors[i]
            given = np.shape(arrays[tensor.name])
            if tensor.shape and tensor.shape[0] < 0 and given and given[0] and given[0] % -tensor.shape[0] == 0:
                if given[0] // -tensor.shape[0] != self.batch and given[1:] == tensor.at(1)[1:]:
                    self.resize(given[0] // -tensor.shape[0])
                break
        for name, array in arrays.items():
            self.set(name, array)
        self.invoke()
        return {name: array.copy() for name, array in self.outputs.items()}

    def _ends(self, name: str) -> Value:
        for i in (*self.model.inputs, *self.model.outputs):
            if self.values[i].name == name:
                return self.values[i]
        raise LiteError(f"lite: {name!r} is no input and no output.")

    def quantised(self, name: str, real: Any) -> np.ndarray:
        """Reals as the integers of an input."""
        scale, zero = self._ends(name).one
        return np.clip(np.rint(np.asarray(real, np.float32) / np.float32(scale)) + zero, -128, 127).astype(np.int8)

    def real(self, name: str, steps: Any) -> np.ndarray:
        """What the integers of an output stand for: float32."""
        scale, zero = self._ends(name).one
        return (np.asarray(steps, np.float32) - np.float32(zero)) * np.float32(scale)


def _zeros(size: int) -> np.ndarray:
    """Bytes that begin at a multiple of 64."""
    whole = np.zeros(size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size]


def _view(memory: np.ndarray, at: int, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    return memory[at : at + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
