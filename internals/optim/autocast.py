"""Mixed precision: products in half the bits, sums in all of them.

Matrix products take most of the time and most of the memory, and stand rounding. Sums over many terms, losses and
norms do not. So inside `autocast` the rows of `HALF` compute in half precision and those of `FULL` and `FULL_ROOMS` in
float32, whatever they are given; all others take their inputs as they come. Weights stay float32: an update is often
less than a half number's last digit.

On the cpu this saves memory, not time: NumPy's half products are slow. It is here to show the arithmetic.
"""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from functools import partial
from typing import Any

import numpy as np

from internals.ops.operators import Operators
from internals.ops.table import _STYLES, TABLE, Execution, Op, style
from internals.tensor import Tensor
from internals.tensor.node import mode

_PRODUCTS = """
matmul linear einsum tensordot outer conv1d conv2d conv_transpose1d conv_transpose2d scaled_dot_product rnn lstm gru
"""
HALF = frozenset(_PRODUCTS.split())
"""The rows that autocast runs in half precision: products."""

_SUMS_AND_WIDE_RANGES = """
sum prod mean logsumexp exp exp2 expm1 log log2 log10 log1p logaddexp pow reciprocal rsqrt softplus
tan sinh cosh acos asin acosh atanh asinh
"""
FULL = frozenset(_SUMS_AND_WIDE_RANGES.split())
"""The rows that autocast runs in float32: what adds up many numbers, or leaves half precision's range."""

FULL_ROOMS = frozenset(("loss", "classification", "ctc", "normalise", "statistics", "scan", "solve", "decompose"))
"""And the rooms of the op table whose rows all do."""


class _Casting(threading.local):
    dtype: np.dtype | None = None


_casting = _Casting()
_active = 0
_lock = threading.Lock()
_usual: dict[type, tuple[Execution, int]] = {}
"""Who runs rows outside: eager code, or what watches it, such as anomaly mode; transformations; graphs."""
_short_ways = {name: vars(Tensor)[name] for name in ("__matmul__", "__rmatmul__", "__pow__", "__rpow__")}


class autocast(ContextDecorator):
    """Within it, rows choose their precision: products in `dtype`, sums, losses and norms in float32.

    The forward pass goes inside, the backward pass and the step outside: gradients are computed in the precision of
    what they are gradients of, and come out in that of the weights. float64 stays float64. A function given to
    `checkpoint` enters its own autocast: it is run again later. Each thread has its own
    setting; outside all such blocks nothing is looked up and nothing costs.

    Parameters
    ----------
    dtype : {"float16", "bfloat16"} or dtype
        bfloat16 needs ml_dtypes.
    enabled : bool
        False computes as usual, also inside another autocast.

    Raises
    ------
    TypeError
        `dtype` is not a half precision, or ml_dtypes is not installed.

    References
    ----------
    Micikevicius et al. (2018), Mixed precision training. The lists are those of torch.autocast on CUDA; on the CPU
    PyTorch lists fewer. `binary_cross_entropy` is refused there and computed in float32 here.
    """

    def __init__(self, dtype: Any = "float16", *, enabled: bool = True) -> None:
        self.dtype = _half(dtype) if enabled else None
        self._before: list[np.dtype | None] = []

    def __enter__(self) -> None:
        self._before.append(_casting.dtype)
        _casting.dtype = self.dtype
        _install(1)

    def __exit__(self, *_: object) -> None:
        _casting.dtype = self._before.pop()
        _install(-1)


def _half(dtype: Any) -> np.dtype:
    name = str(getattr(dtype, "name", dtype if isinstance(dtype, str) else getattr(dtype, "__name__", dtype)))
    if name == "float16":
        return np.dtype(np.float16)
    if name != "bfloat16":
        raise TypeError(f"autocast: dtype must be 'float16' or 'bfloat16', got {dtype!r}.")
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError("autocast: bfloat16 needs ml_dtypes; install it with: pip install ml-dtypes") from None
    return np.dtype(ml_dtypes.bfloat16)


def _install(change: int) -> None:
    """Have rows come through `_run`, in every style, while any thread is inside an autocast.

    In every style, so that the casts come before whatever the style writes down: a gradient is cast back then.
    """
    global _active
    with _lock:
        before, _active = _active, _active + change
        if bool(before) == bool(_active):
            return
        if _active:
            _usual.update(_STYLES)
        for value_type, (run, rank) in _usual.items():
            style(value_type, partial(_run, run) if _active else run, rank=rank)
        # These operators go past the table's dispatch in a Tensor, which saves a quarter of a small product's time.
        for name, short in _short_ways.items():
            setattr(Tensor, name, vars(Operators)[name] if _active else short)


def _run(run: Execution, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    half = _casting.dtype
    if half is None or mode.pulling:
        return run(op, inputs, attrs)
    if op.name in HALF:
        # All or none, so that one input of float64 does not meet the others in float16.
        if all(value.dtype in (_FLOAT32, half) for value in inputs if _is_floating(value)):
            inputs = tuple([_cast(value, half) for value in inputs])
    elif op.name in FULL or op.room in FULL_ROOMS:
        inputs = tuple([_cast(value, _FLOAT32) if is_half(value) else value for value in inputs])
    return run(op, inputs, attrs)


_FLOAT32 = np.dtype(np.float32)


def _is_floating(value: Any) -> bool:
    return hasattr(value, "dtype") and (value.dtype.kind == "f" or value.dtype.name == "bfloat16")


def is_half(value: Any) -> bool:
    """Whether a value is of float16 or bfloat16."""
    return _is_floating(value) and value.dtype.itemsize == 2


def _cast(value: Any, dtype: np.dtype) -> Any:
    """A floating value in another dtype; the cast is on the tape, so the cotangent is cast back."""
    return TABLE["cast"](value, dtype=dtype) if _is_floating(value) and value.dtype != dtype else value
