"""The cases of internals/ops/functions.py."""

from __future__ import annotations

import numpy as np
from op_case import Case
from op_samples import (
    BRIEF,
    BRIEF_TWO,
    above_one,
    anything,
    beyond_one,
    fraction,
    positive,
    shapes,
    with_nan,
)

INT = ("int64",)

FUNCTIONS = [
    Case("tan", "tan", "tan", BRIEF, fraction),
    Case("asin", "asin", "asin", BRIEF, fraction),
    Case("acos", "acos", "acos", BRIEF, fraction),
    Case("atan", "atan", "atan", BRIEF, also=INT),
    Case("sinh", "sinh", "sinh", BRIEF),
    Case("cosh", "cosh", "cosh", BRIEF),
    Case("asinh", "asinh", "asinh", BRIEF),
    Case("acosh", "acosh", "acosh", BRIEF, above_one),
    Case("atanh", "atanh", "atanh", BRIEF, fraction),
    Case("log2", "log2", lambda f, x: f.math.log(x) / float(np.log(2)), BRIEF, positive, also=INT),
    Case("log10", "log10", lambda f, x: f.math.log(x) / float(np.log(10)), BRIEF, positive),
    Case("exp2", "exp2", lambda f, x: f.pow(f.constant(2, x.dtype), x), BRIEF, also=INT),
    Case("trunc", "trunc", lambda f, x: f.where(x < 0, f.math.ceil(x), f.floor(x)), BRIEF, also=INT),
    Case("isinf", "isinf", "math.is_inf", BRIEF, with_nan),
    Case("isfinite", "isfinite", "math.is_finite", BRIEF, with_nan),
    Case("hypot", "hypot", "experimental.numpy.hypot", BRIEF_TWO),
    Case("atan2", "atan2", "atan2", BRIEF_TWO),
    Case("floor_divide", lambda t, x, y: t.div(x, y, rounding_mode="floor"), lambda f, x, y: f.floor(x / y), BRIEF_TWO,
         (anything, beyond_one), also=INT),
    Case("remainder", "remainder", "math.floormod", BRIEF_TWO, (anything, beyond_one), also=INT),
    Case("logaddexp", "logaddexp", "experimental.numpy.logaddexp", BRIEF_TWO),
    Case("lerp", "lerp", lambda f, x, y, w: x + w * (y - x),
         shapes(((), (), ()), ((0,), (1,), ()), ((1,), (1,), (1,)), ((3, 1), (2,), ()), ((2, 3), (2, 3), (2, 3)))),
]  # fmt: skip
