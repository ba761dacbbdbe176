"""What collectives are tried on, on ours and on gloo: the same arrays, drawn from the case alone."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import ml_dtypes
import numpy as np

MOST_RANKS = 5
DTYPES = ("uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
"""Those that torch has on gloo."""
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (3,), (7, 5), (1001,))
OPS = ("sum", "max", "min", "prod")


@dataclass(frozen=True)
class Case:
    """One collective, on the first `ranks` ranks."""

    call: str
    ranks: int
    dtype: str = "float32"
    shape: tuple[int, ...] = (7, 5)
    op: str = "sum"
    root: int = 0

    @property
    def name(self) -> str:
        return f"{self.call}-{self.ranks}-{self.dtype}-{'x'.join(map(str, self.shape)) or '0d'}-{self.op}-{self.root}"

    def array(self, rank: int, place: int = 0) -> np.ndarray:
        """What a rank starts with. Products of small numbers stay in range; integers too."""
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), rank, place])
        dtype = as_dtype(self.dtype)
        if dtype.kind in "iu":
            return rng.integers(0 if dtype.kind == "u" else -3, 4, self.shape).astype(dtype)
        return np.asarray(rng.uniform(-2, 2, self.shape)).astype(dtype)


def as_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def cases() -> list[Case]:
    """Every dtype with every shape and operation on two numbers of ranks; every number of ranks with every call."""
    table = [Case("all_reduce", ranks, dtype, shape, op)
             for ranks in (3, 4) for dtype in DTYPES for shape in SHAPES for op in OPS]  # fmt: skip
    for ranks in range(1, MOST_RANKS + 1):
        table += [Case("all_reduce", ranks, "float32", shape, "sum") for shape in SHAPES]
        for shape in SHAPES:
            table += [Case("broadcast", ranks, "float64", shape, root=root) for root in range(ranks)]
            table += [Case("reduce", ranks, "float64", shape, "sum", root) for root in range(ranks)]
            table += [Case("gather", ranks, "float32", shape, root=root) for root in range(ranks)]
            table += [Case("scatter", ranks, "float32", shape, root=root) for root in range(ranks)]
            table += [Case("all_gather", ranks, "int64", shape), Case("all_to_all", ranks, "float32", shape)]
        table += [Case("reduce_scatter", ranks, "float32", (ranks * rows, 3), op) for rows in (0, 1, 4) for op in OPS]
    return list(dict.fromkeys(table))
