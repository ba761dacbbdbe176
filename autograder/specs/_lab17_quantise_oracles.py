"""Who knows the answers of ``lab17_quantise``: torch, TensorFlow, and arithmetic in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

SMALLEST = 2.0**-23

# --- scale and zero point -------------------------------------------------------------------------


def scale_numpy(numpy: Any, low: Any, high: Any, symmetric: bool) -> dict[str, Any]:
    low, high = np.minimum(low, 0).astype(np.float64), np.maximum(high, 0).astype(np.float64)
    if symmetric:
        scale = np.maximum(np.maximum(-low, high) / 127, SMALLEST)
        return {"scale": scale, "zero_point": np.zeros(np.shape(scale), np.int64)}
    scale = np.maximum((high - low) / 255, SMALLEST)
    return {"scale": scale, "zero_point": np.clip(np.rint(-128 - low / scale), -128, 127).astype(np.int64)}


def scale_torch(torch: Any, low: Any, high: Any, symmetric: bool) -> dict[str, Any]:
    low, high = (torch.tensor(np.asarray(one)).double() for one in (low, high))
    if symmetric:
        largest = torch.clamp(torch.maximum(-low, high), min=0.0)
        scale, zero = torch.clamp(largest / 127, min=SMALLEST), torch.zeros_like(low)
    else:
        low, high = torch.clamp(low, max=0.0), torch.clamp(high, min=0.0)
        scale = torch.clamp((high - low) / 255, min=SMALLEST)
        zero = torch.clamp(-128 - torch.round(low / scale), -128, 127)
    return {"scale": scale.numpy(), "zero_point": zero.long().numpy()}


def scale_tensorflow(tf: Any, low: Any, high: Any, symmetric: bool) -> dict[str, Any]:
    low, high = (tf.cast(np.asarray(one), tf.float64) for one in (low, high))
    low, high = tf.minimum(low, tf.zeros_like(low)), tf.maximum(high, tf.zeros_like(high))
    reach = tf.maximum(-low, high) / 127 if symmetric else (high - low) / 255
    scale = tf.maximum(reach, SMALLEST * tf.ones_like(reach))
    zero = tf.zeros_like(low) if symmetric else -128 - tf.round(low / scale)
    return {"scale": scale.numpy(), "zero_point": tf.cast(tf.clip_by_value(zero, -128, 127), tf.int64).numpy()}


# --- quantise and dequantise ----------------------------------------------------------------------


def _along(values: Any, axis: int | None, ndim: int) -> Any:
    values = np.asarray(values)
    return values if axis is None else values.reshape([-1 if i == axis % ndim else 1 for i in range(ndim)])


def integers_numpy(numpy: Any, x: Any, scale: Any, zero_point: Any, axis: int | None) -> dict[str, Any]:
    """One number after another, rounded by Python."""
    x = np.asarray(x)
    s, z = (np.broadcast_to(_along(one, axis, x.ndim), x.shape) for one in (scale, zero_point))
    q = np.zeros(x.shape, np.int8)
    for place in np.ndindex(x.shape):
        steps = float(x[place]) / float(s[place])
        whole = round(steps) if np.isfinite(steps) else (1000 if steps > 0 else -1000)
        q[place] = min(max(whole + int(z[place]), -128), 127)
    return {"q": q, "back": ((q.astype(np.int64) - z) * s.astype(np.float64)).astype(np.float32)}


def integers_torch(torch: Any, x: Any, scale: Any, zero_point: Any, axis: int | None) -> dict[str, Any]:
    """The reals of fake_quantize, which rounds as the lab does, and the integers that stand for them."""
    x = torch.tensor(np.asarray(x), dtype=torch.float32)
    scale, zero = torch.tensor(np.asarray(scale)), torch.tensor(np.asarray(zero_point))
    if axis is None:
        back = torch.fake_quantize_per_tensor_affine(x, scale, zero, -128, 127)
    else:
        back = torch.fake_quantize_per_channel_affine(x, scale, zero, axis % x.ndim, -128, 127)
    s, z = (torch.tensor(_along(one.numpy(), axis, x.ndim)) for one in (scale, zero))
    return {"q": (torch.round(back / s) + z).to(torch.int8).numpy(), "back": back.numpy()}


def integers_tensorflow(tf: Any, x: Any, scale: Any, zero_point: Any, axis: int | None) -> dict[str, Any]:
    x = tf.constant(np.asarray(x, np.float32))
    s, z = (tf.constant(_along(one, axis, len(x.shape)).astype(np.float32)) for one in (scale, zero_point))
    q = tf.saturate_cast(tf.round(x / s) + z, tf.int8)
    return {"q": q.numpy(), "back": ((tf.cast(q, tf.float32) - z) * s).numpy()}


# --- the product ----------------------------------------------------------------------------------


def product_numpy(numpy: Any, qx: Any, qw: Any, x: Any, w: Any, y: Any) -> Any:
    """Sum by sum in Python's integers."""
    sums = np.array(
        [
            [sum((int(a) - int(x[1])) * (int(b) - int(zero)) for a, b in zip(row, column, strict=True))
             for column, zero in zip(qw.T, np.broadcast_to(w[1], qw.shape[1]), strict=True)]
            for row in qx
        ],
        np.float64,
    ).reshape(len(qx), qw.shape[1])  # fmt: skip
    real = sums * float(x[0]) * np.asarray(w[0], np.float64)
    return np.clip(np.rint(real / float(y[0])) + int(y[1]), -128, 127).astype(np.int8)


def product_torch(torch: Any, qx: Any, qw: Any, x: Any, w: Any, y: Any) -> Any:
    a = (torch.tensor(qx).double() - int(x[1])) * float(x[0])
    b = (torch.tensor(qw).double() - torch.tensor(np.asarray(w[1], np.float64))) * torch.tensor(
        np.asarray(w[0])
    ).double()
    return torch.clamp(torch.round(a @ b / float(y[0])) + int(y[1]), -128, 127).to(torch.int8).numpy()


def product_tensorflow(tf: Any, qx: Any, qw: Any, x: Any, w: Any, y: Any) -> Any:
    a, b = tf.cast(qx, tf.int32) - int(x[1]), tf.cast(qw, tf.int32) - tf.constant(np.asarray(w[1], np.int32))
    real = tf.cast(tf.matmul(a, b), tf.float64) * float(x[0]) * tf.constant(np.asarray(w[0], np.float64))
    return tf.saturate_cast(tf.round(real / float(y[0])) + float(y[1]), tf.int8).numpy()


# --- calibration ----------------------------------------------------------------------------------


def calibrate_numpy(numpy: Any, batches: list[Any], percentile: float) -> list[float]:
    """Between the two nearest of the sorted numbers."""
    together = np.sort(np.concatenate([np.ravel(batch) for batch in batches])).astype(np.float64)
    ends = []
    for part in ((100 - percentile) / 200, (100 + percentile) / 200):
        place = part * (len(together) - 1)
        below = min(int(np.floor(place)), len(together) - 1)
        above = min(below + 1, len(together) - 1)
        ends.append(float(together[below] + (place - below) * (together[above] - together[below])))
    return [min(ends[0], 0.0), max(ends[1], 0.0)]


def calibrate_torch(torch: Any, batches: list[Any], percentile: float) -> list[float]:
    together = torch.cat([torch.tensor(np.ravel(batch), dtype=torch.float64) for batch in batches])
    parts = torch.tensor([(100 - percentile) / 200, (100 + percentile) / 200], dtype=torch.float64)
    low, high = torch.quantile(together, parts).tolist()
    return [min(low, 0.0), max(high, 0.0)]


# --- straight through -----------------------------------------------------------------------------


def straight_numpy(numpy: Any, x: Any, scale: Any, zero_point: Any, g: Any) -> dict[str, Any]:
    steps = np.rint(np.asarray(x, np.float64) / float(scale)) + int(zero_point)
    y = (np.clip(steps, -128, 127) - int(zero_point)) * float(scale)
    return {"y": y.astype(np.float32), "g": np.where((steps >= -128) & (steps <= 127), g, 0).astype(np.float32)}


def straight_torch(torch: Any, x: Any, scale: Any, zero_point: Any, g: Any) -> dict[str, Any]:
    x = torch.tensor(np.asarray(x), requires_grad=True)
    scale, zero = torch.tensor(np.asarray(scale)), torch.tensor(np.asarray(zero_point))
    y = torch.fake_quantize_per_tensor_affine(x, scale, zero, -128, 127)
    (found,) = torch.autograd.grad(y, x, torch.tensor(np.asarray(g)))
    return {"y": y.detach().numpy(), "g": found.numpy()}


def straight_tensorflow(tf: Any, x: Any, scale: Any, zero_point: Any, g: Any) -> dict[str, Any]:
    x = tf.constant(np.asarray(x))
    with tf.GradientTape() as tape:
        tape.watch(x)
        steps = x / float(scale) + float(zero_point)
        on_grid = steps + tf.stop_gradient(tf.round(steps) - steps)  # straight through the rounding
        y = (tf.clip_by_value(on_grid, -128.0, 127.0) - float(zero_point)) * float(scale)
    found = tape.gradient(y, x, tf.constant(np.asarray(g)))
    return {"y": y.numpy(), "g": found.numpy()}
