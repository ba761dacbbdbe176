"""The cases of internals/ops/activations.py."""

from __future__ import annotations

import math
from typing import Any

from op_case import Case
from op_samples import BRIEF, on

FUNCTIONAL = "nn.functional."
INT = ("int64",)


def tf_gelu(f: Any, x: Any) -> Any:
    # In float64, tensorflow's own has its constants rounded to float32.
    return f.nn.gelu(x) if x.dtype == "float32" else 0.5 * x * (1 + f.math.erf(x / math.sqrt(2)))


def tf_gelu_tanh(f: Any, x: Any) -> Any:
    if x.dtype == "float32":
        return f.nn.gelu(x, approximate=True)
    return 0.5 * x * (1 + f.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


ACTIVATIONS = [
    Case("erf", "erf", "math.erf", BRIEF, also=INT),
    Case("gelu", FUNCTIONAL + "gelu", tf_gelu, BRIEF),
    Case("gelu_slope", lambda t, x: (1 + t.erf(x / math.sqrt(2))) / 2 + x * t.exp(-x * x / 2) / math.sqrt(2 * math.pi),
         lambda f, x: (1 + f.math.erf(x / math.sqrt(2))) / 2 + x * f.exp(-x * x / 2) / math.sqrt(2 * math.pi), BRIEF),
    Case("gelu_tanh", lambda t, x: t.nn.functional.gelu(x, approximate="tanh"),
         tf_gelu_tanh, BRIEF),
    Case("silu", FUNCTIONAL + "silu", "nn.silu", BRIEF),
    Case("softsign", FUNCTIONAL + "softsign", "nn.softsign", BRIEF),
    Case("leaky_relu", lambda t, x, slope: t.nn.functional.leaky_relu(x, slope),
         lambda f, x, slope: f.nn.leaky_relu(x, slope),
         [on((), slope=-1), on((0,)), on((1,), slope=0.5), on((2, 3), slope=0.25)]),
    Case("elu", FUNCTIONAL + "elu", lambda f, x, alpha: f.where(x > 0, x, alpha * f.nn.elu(x)),
         [on(()), on((0,)), on((1,)), on((2, 3), alpha=0.5)]),
]  # fmt: skip
