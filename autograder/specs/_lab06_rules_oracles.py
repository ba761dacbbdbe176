"""Who knows the answers of ``lab06_rules``: torch and TensorFlow differentiate the forward computation; so do we.

Each oracle takes its framework module first. The third way differentiates a plain NumPy forward pass by complex steps,
which are finite differences without cancellation: ``f'(x) = Im f(x + ih) / h`` for any small h
(Squire & Trapp 1998, SIAM Review 40(1)).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

STEP = 1e-30


def complex_step(f: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """The gradient of the real scalar ``f`` at `x`, one entry at a time."""
    gradient = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        moved = np.array(x, dtype=np.complex128)
        moved[index] += 1j * STEP
        gradient[index] = np.imag(f(moved)) / STEP
    return np.asarray(gradient, dtype=x.dtype)


def by_torch(torch: Any, g: np.ndarray, forward: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    """Gradients by `arrays` of what `forward` makes of them, for the cotangent g."""
    # torch takes no negative strides, and no memory it may not write to.
    leaves = [torch.tensor(np.array(array, order="C"), requires_grad=True) for array in arrays]
    found = torch.autograd.grad(forward(*leaves), leaves, torch.tensor(np.array(g, order="C")))
    return [gradient.numpy() for gradient in found]


def by_tensorflow(tf: Any, g: np.ndarray, forward: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    """The same by TensorFlow."""
    leaves = [tf.constant(array) for array in arrays]
    with tf.GradientTape() as tape:
        tape.watch(leaves)
        result = forward(*leaves)
    found = tape.gradient(result, leaves, output_gradients=tf.constant(g))
    return [tf.convert_to_tensor(gradient).numpy() for gradient in found]


def by_steps(g: np.ndarray, forward: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    """The same by complex steps."""

    def pulled(place: int) -> Callable[[np.ndarray], Any]:
        return lambda moved: np.sum(g * forward(*arrays[:place], moved, *arrays[place + 1 :]))

    return [complex_step(pulled(place), array) for place, array in enumerate(arrays)]


# --- embedding ------------------------------------------------------------------------------------


def embedding_torch(torch: Any, g: np.ndarray, table: np.ndarray, index: np.ndarray) -> np.ndarray:
    rows = torch.tensor(np.array(index, order="C"))
    return by_torch(torch, g, lambda t: torch.nn.functional.embedding(rows, t), table)[0]


def embedding_tensorflow(tensorflow: Any, g: np.ndarray, table: np.ndarray, index: np.ndarray) -> np.ndarray:
    return by_tensorflow(tensorflow, g, lambda t: tensorflow.gather(t, tensorflow.constant(index)), table)[0]


def embedding_steps(numpy: Any, g: np.ndarray, table: np.ndarray, index: np.ndarray) -> np.ndarray:
    return by_steps(g, lambda t: t[index], table)[0]


# --- softmax --------------------------------------------------------------------------------------


def softmax_torch(torch: Any, op: str, g: np.ndarray, x: np.ndarray, target: np.ndarray | None) -> np.ndarray:
    if op == "log_softmax":
        return by_torch(torch, g, lambda a: torch.log_softmax(a, -1), x)[0]
    classes = torch.tensor(np.array(target, order="C"))
    return by_torch(torch, g, lambda a: torch.nn.functional.cross_entropy(a, classes, reduction="none"), x)[0]


def softmax_tensorflow(tensorflow: Any, op: str, g: np.ndarray, x: np.ndarray, target: np.ndarray | None) -> np.ndarray:
    nn = tensorflow.nn
    if op == "log_softmax":
        return by_tensorflow(tensorflow, g, nn.log_softmax, x)[0]
    return by_tensorflow(
        tensorflow, g, lambda a: nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=a), x
    )[0]


def softmax_steps(numpy: Any, op: str, g: np.ndarray, x: np.ndarray, target: np.ndarray | None) -> np.ndarray:
    def log_softmax(a: np.ndarray) -> np.ndarray:
        shifted = a - a.real.max(axis=-1, keepdims=True)
        return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))

    def cross_entropy(a: np.ndarray) -> np.ndarray:
        assert target is not None
        return -log_softmax(a)[np.arange(len(target)), target]

    return by_steps(g, log_softmax if op == "log_softmax" else cross_entropy, x)[0]


# --- max ------------------------------------------------------------------------------------------
# At a tie the frameworks differ, and torch differs from itself; the judge accepts both conventions.


def max_torch(torch: Any, g: np.ndarray, x: np.ndarray, axis: int | None) -> np.ndarray:
    """``torch.max`` along a dim hands the cotangent to the first of the entries that tie."""
    if axis is None:
        return by_torch(torch, g, lambda a: torch.max(torch.reshape(a, (-1,)), 0).values, x)[0]
    return by_torch(torch, g, lambda a: torch.max(a, axis).values, x)[0]


def max_tensorflow(tensorflow: Any, g: np.ndarray, x: np.ndarray, axis: int | None) -> np.ndarray:
    """``tf.reduce_max`` shares it evenly among them."""
    return by_tensorflow(tensorflow, g, lambda a: tensorflow.reduce_max(a, axis=axis), x)[0]


def max_steps(numpy: Any, g: np.ndarray, x: np.ndarray, axis: int | None) -> np.ndarray:
    """Complex steps follow the entry that NumPy's argmax picks, the first."""

    def largest(a: np.ndarray) -> np.ndarray:
        if axis is None:
            return a.reshape(-1)[np.argmax(a.real)]
        return np.take_along_axis(a, np.expand_dims(np.argmax(a.real, axis), axis), axis).squeeze(axis)

    return by_steps(g, largest, x)[0]


# --- quantise -------------------------------------------------------------------------------------
# Straight-through: rounding adds a constant, the rounding error, which is not differentiated.


def quantise_torch(
    torch: Any, g: np.ndarray, x: np.ndarray, scale: np.ndarray, low: int, high: int
) -> list[np.ndarray]:
    def forward(a: Any, s: Any) -> Any:
        kept = torch.clamp(a / s, low, high)
        return (kept + (torch.round(kept) - kept).detach()) * s

    return by_torch(torch, g, forward, x, scale)


def quantise_tensorflow(
    tensorflow: Any, g: np.ndarray, x: np.ndarray, scale: np.ndarray, low: int, high: int
) -> list[np.ndarray]:
    tf = tensorflow

    def forward(a: Any, s: Any) -> Any:
        kept = tf.clip_by_value(a / s, tf.cast(low, a.dtype), tf.cast(high, a.dtype))
        return (kept + tf.stop_gradient(tf.round(kept) - kept)) * s

    return by_tensorflow(tf, g, forward, x, scale)


def quantise_steps(
    numpy: Any, g: np.ndarray, x: np.ndarray, scale: np.ndarray, low: int, high: int
) -> list[np.ndarray]:
    def forward(a: np.ndarray, s: np.ndarray) -> np.ndarray:
        v = np.asarray(a / s)
        kept = np.where(v.real < low, low, np.where(v.real > high, high, v))
        return (kept + (np.round(kept.real) - kept.real)) * s

    return by_steps(g, forward, x, scale)


# --- layer_norm -----------------------------------------------------------------------------------


def layer_norm_torch(
    torch: Any, g: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float
) -> list[np.ndarray]:
    width = x.shape[-1:]
    return by_torch(torch, g, lambda a, w, b: torch.nn.functional.layer_norm(a, width, w, b, eps), x, weight, bias)


def layer_norm_tensorflow(
    tensorflow: Any, g: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float
) -> list[np.ndarray]:
    tf = tensorflow

    def forward(a: Any, w: Any, b: Any) -> Any:
        mean, variance = tf.nn.moments(a, axes=[-1], keepdims=True)
        return tf.nn.batch_normalization(a, mean, variance, b, w, eps)

    return by_tensorflow(tf, g, forward, x, weight, bias)


def layer_norm_steps(
    numpy: Any, g: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float
) -> list[np.ndarray]:
    def forward(a: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        centred = a - a.mean(axis=-1, keepdims=True)
        return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps) * w + b

    return by_steps(g, forward, x, weight, bias)


# --- conv2d ---------------------------------------------------------------------------------------


def conv2d_torch(
    torch: Any, g: np.ndarray, x: np.ndarray, weight: np.ndarray, stride: list[int], padding: list[int]
) -> list[np.ndarray]:
    return by_torch(
        torch,
        g,
        lambda a, w: torch.nn.functional.conv2d(a, w, stride=tuple(stride), padding=tuple(padding)),
        x,
        weight,
    )


def conv2d_tensorflow(
    tensorflow: Any, g: np.ndarray, x: np.ndarray, weight: np.ndarray, stride: list[int], padding: list[int]
) -> list[np.ndarray]:
    """On the cpu TensorFlow has channels last; its padding is "SAME" or none, so the zeros are put there before."""
    tf = tensorflow
    (high, wide), (up, left) = stride, padding

    def forward(a: Any, w: Any) -> Any:
        images = tf.pad(tf.transpose(a, (0, 2, 3, 1)), [[0, 0], [up, up], [left, left], [0, 0]])
        found = tf.nn.conv2d(images, tf.transpose(w, (2, 3, 1, 0)), strides=[1, high, wide, 1], padding="VALID")
        return tf.transpose(found, (0, 3, 1, 2))

    return by_tensorflow(tf, g, forward, x, weight)


def conv2d_steps(
    numpy: Any, g: np.ndarray, x: np.ndarray, weight: np.ndarray, stride: list[int], padding: list[int]
) -> list[np.ndarray]:
    (high, wide), (up, left) = stride, padding
    rows, columns = g.shape[2:]

    def forward(a: np.ndarray, w: np.ndarray) -> np.ndarray:
        padded = np.pad(a, ((0, 0), (0, 0), (up, up), (left, left)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))
        return np.einsum("nihwkl,oikl->nohw", windows[:, :, ::high, ::wide][:, :, :rows, :columns], w)

    return by_steps(g, forward, x, weight)
