"""A float32 lite model made one of int8: ranges from examples, then every step on its grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from internals.deploy.compress.scale import INT8, NARROW_INT8, affine, symmetric
from internals.deploy.lite.runtime import KINDS, Interpreter, LiteError
from internals.deploy.lite.writer import Builder

KEEP = ("MaxPool", "AveragePool", "Reshape", "Transpose", "Pad", "Concat", "Gather", "Part")
"""What has the scale of its first input."""
REAL = ("Lstm",)
"""What is computed in float32, between two steps that change the numbers: its sums go through every step."""
FIXED = {"Softmax": (1 / 256, -128)}
FIXED_FUNCTIONS = {2: (1 / 256, -128), 3: (1 / 128, 0)}
"""Results whose range is known: softmax and sigmoid between 0 and 1, tanh between -1 and 1."""
CHANNELS = {"FullyConnected": 0, "Conv2d": 0, "Depthwise": 2}
Grid = tuple[float, int]


def ranges(builder: Builder, examples: Iterable[Mapping[str, Any]]) -> dict[int, tuple[float, float]]:
    """The least and the greatest number that each value had.

    Raises
    ------
    LiteError
        There was no example, or a value was not finite.
    """
    model: Interpreter | None = None
    found: dict[int, tuple[float, float]] = {}
    data = builder.to_bytes()

    def note(number: int, array: np.ndarray) -> None:
        if array.dtype.kind != "f" or not array.size:
            return
        low, high = float(array.min()), float(array.max())
        if not np.isfinite([low, high]).all():
            raise LiteError(f"to_lite: {builder.tensors[number]['name']!r} was not finite on an example.")
        least, most = found.get(number, (low, high))
        found[number] = min(least, low), max(most, high)

    for example in examples:
        model = model or Interpreter(data)
        model(**example)
        for number in builder.inputs:
            name = builder.tensors[number]["name"]
            note(number, np.asarray(example[name]))
            model.set(name, np.asarray(example[name]))
        for operator, kernel in zip(model.model.operators, model.kernels, strict=True):
            kernel.run()
            note(operator.outputs[0], kernel.result)
    if model is None:
        raise LiteError("to_lite: calibration holds no example.")
    return found


def quantised(
    builder: Builder, examples: Iterable[Mapping[str, Any]], grids: Mapping[str, Grid] | None = None
) -> Builder:
    """The same model in int8.

    Parameters
    ----------
    builder : Builder
        Of float32.
    examples : iterable of mapping of str to array
        The range of each value is that which it has on these (Jacob et al. 2018, section 3).
    grids : mapping of str to (float, int), optional
        Scales and zero points of values by name, in place of those.
    """
    seen, wished = ranges(builder, examples), dict(grids or {})
    out = Builder()
    held: dict[int, tuple[int, Grid | None]] = {}
    kinds = {number: kind.__name__ for number, kind in KINDS.items()}

    def grid_of(number: int, kind: str = "", parameters: tuple[int, ...] = ()) -> Grid:
        name = builder.tensors[number]["name"]
        if name in wished:
            return wished[name]
        if kind == "Unary" and parameters[0] in FIXED_FUNCTIONS:
            return FIXED_FUNCTIONS[parameters[0]]
        if kind in FIXED:
            return FIXED[kind]
        chosen = affine(*seen[number], INT8)
        return float(chosen.scale), int(chosen.zero_point)

    def constant(number: int, beside: tuple[int, ...]) -> tuple[int, Grid | None]:
        one = dict(builder.tensors[number])
        if one["data"].size != 1:  # an int8 value is repeated along whole axes before its own
            one["data"] = np.broadcast_to(one["data"], beside[len(beside) - one["data"].ndim :])
        chosen = affine(float(one["data"].min(initial=0)), float(one["data"].max(initial=0)), INT8)
        grid = float(chosen.scale), int(chosen.zero_point)
        return out.constant(one["name"], chosen.quantise(one["data"]), scale=grid[0], zero_point=grid[1]), grid

    def product(kind: str, inputs: tuple[int, ...]) -> list[int]:
        (x, grid), weight, bias = held[inputs[0]], builder.tensors[inputs[1]], builder.tensors[inputs[2]]
        if grid is None:
            raise LiteError(f"to_lite: {weight['name']!r} meets a value without a scale.")
        axis = CHANNELS[kind]
        rest = tuple(i for i in range(weight["data"].ndim) if i != axis)
        chosen = symmetric(weight["data"].min(rest), weight["data"].max(rest), NARROW_INT8, axis)
        steps = np.rint(bias["data"] / (grid[0] * chosen.scale.astype(np.float64)))
        limited = np.clip(steps, -(2**30), 2**30).astype(np.int32)
        numbers = out.constant(weight["name"], chosen.quantise(weight["data"]), scale=chosen.scale, axis=axis)
        return [x, numbers, out.constant(bias["name"], limited)]

    for number in builder.inputs:
        one = builder.tensors[number]
        if one["dtype"].kind != "f":
            held[number] = out.input(one["name"], one["shape"], one["dtype"]), None
            continue
        grid = grid_of(number)
        held[number] = out.input(one["name"], one["shape"], np.int8, scale=grid[0], zero_point=grid[1]), grid
    for code, _, inputs, (result,), parameters in builder.operators:
        kind, one = kinds[code], builder.tensors[result]
        if kind in REAL:
            given = out.add("Dequantise", [held[inputs[0]][0]], builder.tensors[inputs[0]]["shape"], np.float32)
            rest = [out.constant(builder.tensors[i]["name"], builder.tensors[i]["data"]) for i in inputs[1:]]
            real = out.add(kind, [given, *rest], one["shape"], np.float32, parameters=parameters)
            scale, zero_point = grid_of(result)
            number = out.add(
                "Quantise", [real], one["shape"], np.int8, name=one["name"], scale=scale, zero_point=zero_point
            )
            held[result] = number, (scale, zero_point)
            continue
        for number in inputs:
            if number not in held and kind not in CHANNELS:
                held[number] = constant(number, builder.tensors[inputs[0]]["shape"])
        numbers = product(kind, inputs) if kind in CHANNELS else [held[number][0] for number in inputs]
        first = held[inputs[0]][1]
        if first is None:
            numbers_grid: dict[str, Any] = {}
            grid_out, dtype = None, one["dtype"]
        else:
            if kind == "Concat":
                first = grid_of(result)
                numbers = [_onto(out, n, held[i][1], first) for n, i in zip(numbers, inputs, strict=True)]
            grid_out = first if kind in KEEP else grid_of(result, kind, parameters)
            numbers_grid, dtype = {"scale": grid_out[0], "zero_point": grid_out[1]}, np.dtype(np.int8)
        made = out.add(kind, numbers, one["shape"], dtype, parameters=parameters, name=one["name"], **numbers_grid)
        held[result] = made, grid_out
    for number in builder.outputs:
        out.output(held[number][0])
    return out


def _onto(out: Builder, number: int, grid: Grid | None, wanted: Grid) -> int:
    """A value on another grid."""
    if grid == wanted or grid is None:
        return number
    shape = out.tensors[number]["shape"]
    return out.add("Quantise", [number], shape, scale=wanted[0], zero_point=wanted[1])
