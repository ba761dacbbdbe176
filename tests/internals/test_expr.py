"""The C expression of every element-wise row computes what its kernel does."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from op_cases import CASES

from internals.ops import TABLE, Op

WITH_ATTRIBUTES = {"cast", "clip"}
"""Element-wise, but what they do depends on attributes; a code generator writes these itself."""

ROOMS = {"elementwise", "functions", "activations"}

ROWS = [op for op in TABLE.values() if op.expr]

# Every kind of number: zeros of both signs, ties, infinities, NaN, large and small.
NUMBERS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-9, 30.0, -30.0, 800.0, -800.0, np.inf, -np.inf, np.nan])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if not shutil.which("gcc"):
        pytest.skip("no C compiler (see `make doctor`)")
    folder: Path = tmp_path_factory.mktemp("expr")
    functions = []
    for op in ROWS:
        arguments = ", ".join(f"const double *x{i}" for i in range(op.arity))
        expression = op.expr.format(*[f"x{i}[k]" for i in range(op.arity)], **op.attrs)
        functions.append(
            f"void f_{op.name}({arguments}, double *out, long n) "
            f"{{ for (long k = 0; k < n; k++) out[k] = {expression}; }}"
        )
    (folder / "rows.c").write_text("#include <math.h>\n" + "\n".join(functions), encoding="utf-8")
    subprocess.run(
        ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", folder / "rows.so", folder / "rows.c", "-lm"],
        check=True,
    )
    return ctypes.CDLL(str(folder / "rows.so"))


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_expression_computes_what_the_kernel_does(op: Op, compiled: ctypes.CDLL) -> None:
    inputs = [np.ascontiguousarray(grid.ravel()) for grid in np.meshgrid(*[NUMBERS] * op.arity)]
    if op.name == "where":
        inputs[0] = (inputs[0] > 0).astype(float)
    out = np.empty(inputs[0].size)
    pointers = [array.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for array in [*inputs, out]]
    getattr(compiled, f"f_{op.name}")(*pointers, ctypes.c_long(out.size))
    with np.errstate(all="ignore"):
        arrays = [inputs[0] > 0, *inputs[1:]] if op.name == "where" else inputs
        want = op.on_numpy(*arrays, **op.attrs).astype(float)
    np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-300)


def test_every_element_wise_row_has_an_expression() -> None:
    elementwise = {op.name for op in TABLE.values() if op.room in ROOMS}
    assert elementwise - {op.name for op in ROWS} == WITH_ATTRIBUTES
    assert {op.name for op in ROWS} <= {case.op for case in CASES}
