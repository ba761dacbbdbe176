"""A linear layer as one row: one matrix product over all leading axes, the bias added in place."""

from __future__ import annotations

from typing import Any

from internals.ops.linalg import matmul
from internals.ops.reduce import sum
from internals.ops.shape import broadcast_to, reshape
from internals.ops.spec import Spec
from internals.ops.table import row


def _rows(x: Any) -> Any:
    """All leading axes as one."""
    if x.ndim == 2:
        return x
    width = x.shape[-1]
    return reshape(x, shape=(x.size // width if width else _count(x.shape[:-1]), width))


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _linear(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    width, out_features = weight.shape
    product = xp.matmul(xp.reshape(x, (_count(x.shape[:-1]), width)), weight)
    if hasattr(bias, "dtype") or bias:
        xp.add(product, bias, out=product)
    return xp.reshape(product, (*x.shape[:-1], out_features))


def _by_x(g: Any, out: Any, x: Any, weight: Any, bias: Any) -> Any:
    product = matmul(_rows(g), weight.T)
    return product if g.ndim == 2 else reshape(product, shape=tuple(x.shape))


def _by_weight(g: Any, out: Any, x: Any, weight: Any, bias: Any) -> Any:
    return matmul(_rows(x).T, _rows(g))


def _by_bias(g: Any, out: Any, x: Any, weight: Any, bias: Any) -> Any:
    return sum(_rows(g), axis=0) if bias.ndim else sum(g)


def _infer(x: Spec, weight: Spec, bias: Spec) -> Spec:
    if weight.ndim != 2 or x.ndim == 0 or x.shape[-1] != weight.shape[0]:
        raise ValueError(
            f"linear: x has shape {x.shape}, the weight {weight.shape}; expected (..., in_features) and (in_features, "
            "out_features). Transpose the weight, or check the layer's in_features."
        )
    if bias.shape not in ((), weight.shape[1:]):
        raise ValueError(f"linear: the bias has shape {bias.shape}; expected {weight.shape[1:]}, or 0.0 for none.")
    return Spec((*x.shape[:-1], weight.shape[1]), x.dtype)


linear = row(
    "linear",
    _linear,
    vjp=(_by_x, _by_weight, _by_bias),
    jvp=(
        lambda t, out, x, weight, bias: linear(t, weight, 0.0),
        lambda t, out, x, weight, bias: linear(x, t, 0.0),
        lambda t, out, x, weight, bias: broadcast_to(t, shape=tuple(out.shape)),
    ),
    saves=("weight", "x", ""),
    infer=_infer,
    strict=True,
    dtypes="promote",
    doc="x @ weight + bias over the last axis of x, the weight (in, out); the bias 0.0 where there is none. "
    "torch.nn.functional.linear, whose weight is (out, in), and keras.ops.matmul with a bias added.",
)
