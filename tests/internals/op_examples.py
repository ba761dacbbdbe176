"""The examples that are made from the cases: each sample in each dtype, and the richest in every memory layout."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from op_cases import CASES, Case
from op_samples import Values, away_from_zero, positive

LAYOUTS = ("plain", "reversed", "transposed", "stretched")


@dataclass(frozen=True, eq=False)
class Example:
    """One call of one row: exact inputs, the same on every run."""

    case: Case
    shapes: tuple[tuple[int, ...], ...]
    attrs: dict[str, Any]
    dtype: str
    layout: str

    def __str__(self) -> str:
        arguments = [str(list(shape)).replace(" ", "") for shape in self.shapes]
        arguments += [f"{name}={describe(value)}" for name, value in self.attrs.items()]
        return f"{self.case.op}({','.join(arguments)})-{self.dtype}-{self.layout}"

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(str(self).encode()))

    def inputs(self) -> list[np.ndarray]:
        """The values of the inputs, in ordinary memory; `layout` says how the op is to see them."""
        rng, values = self.rng, self.case.values
        sources = values if isinstance(values, tuple) else (values,) * len(self.shapes)
        return [self._one(source, source(rng, shape)) for source, shape in zip(sources, self.shapes, strict=True)]

    def _one(self, source: Values, array: np.ndarray) -> np.ndarray:
        array = np.asarray(array)
        if self.layout == "stretched" and array.ndim:
            array = np.broadcast_to(array[:1], array.shape).copy()
        if array.dtype.kind != "f":
            return array
        if self.dtype == "int64" and source in (positive, away_from_zero):
            array = np.copysign(np.ceil(np.abs(array)), array)
        return array.astype(self.dtype)

    def cotangent(self, out: np.ndarray) -> np.ndarray:
        return np.asarray(
            np.random.default_rng(zlib.crc32(f"cotangent of {self}".encode())).standard_normal(out.shape)
        ).astype(out.dtype)

    def wrt(self) -> tuple[int, ...]:
        """Positions of the inputs that a gradient is asked of."""
        floating = tuple(i for i, array in enumerate(self.inputs()) if array.dtype.kind == "f")
        return floating if self.case.wrt is None else self.case.wrt

    @property
    def smooth(self) -> bool:
        """Whether finite differences mean anything here."""
        return not (self.case.staircase or (self.case.ties and self.layout == "stretched"))


def describe(value: Any) -> str:
    if isinstance(value, slice):
        return ":".join("" if part is None else str(part) for part in (value.start, value.stop, value.step))
    if isinstance(value, tuple | list):
        return f"({','.join(map(describe, value))})"
    return (
        str(value.tolist()).replace(" ", "") if isinstance(value, np.ndarray) else str(value).replace("Ellipsis", "...")
    )


@dataclass(frozen=True, eq=False)
class Group:
    """All examples of one case in one dtype."""

    case: Case
    dtype: str
    examples: tuple[Example, ...]

    def __str__(self) -> str:
        same = [case for case in CASES if case.op == self.case.op]
        return f"{self.case.op}{same.index(self.case) + 1 if len(same) > 1 else ''}-{self.dtype}"


def groups() -> list[Group]:
    """Every case in every dtype it is for: all its samples, and that with the most axes once more in every layout."""
    made = []
    for case in CASES:
        for dtype in ("float32", "float64", *case.also):
            plain = [Example(case, inputs, attrs, dtype, "plain") for inputs, attrs in case.samples]
            inputs, attrs = case.samples[-1]
            made.append(
                Group(case, dtype, (*plain, *[Example(case, inputs, attrs, dtype, layout) for layout in LAYOUTS[1:]]))
            )
    return made


GROUPS = groups()
