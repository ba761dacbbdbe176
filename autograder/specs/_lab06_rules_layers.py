"""The mistakes people make in the rules of layer normalisation and convolution, and the numbers each of them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from autograder.spec import Inputs

Mistake = tuple[int, str, Callable[[], Any]]
"""The place of the answer that it concerns, a sentence, and a function that computes the wrong numbers, or raises
ValueError or IndexError where the mistake would not run. Likelier ones come first."""

Pair = tuple[int, int]

# --- layer_norm -----------------------------------------------------------------------------------


def layer_norm_mistakes(inputs: Inputs) -> Iterator[Mistake]:
    g, x, weight = (inputs[name].astype(np.float64) for name in ("g", "x", "weight"))
    eps, width = inputs["eps"], x.shape[-1]

    def mean(a: np.ndarray) -> np.ndarray:
        return a.mean(axis=-1, keepdims=True)

    def over_batch(a: np.ndarray) -> np.ndarray:
        return a.sum(axis=tuple(range(a.ndim - 1)))

    centred = x - mean(x)
    variance = mean(centred * centred)
    scale = 1 / np.sqrt(variance + eps)
    normal, gw = centred * scale, g * weight

    def rule(s: Any = scale, h: np.ndarray = normal, into: np.ndarray = gw) -> np.ndarray:
        return s * (into - mean(into) - h * mean(into * h))

    def with_scale(s: np.ndarray) -> np.ndarray:
        return rule(s, centred * s)

    yield (
        0,
        "Mean and variance are taken for constants. Both are computed from x, so each adds a term.",
        lambda: scale * gw,
    )
    yield (
        0,
        "The term of the variance is missing; the mean's is there.",
        lambda: scale * (gw - mean(gw)),
    )
    yield (
        0,
        "The term of the mean is missing; the variance's is there.",
        lambda: scale * (gw - normal * mean(gw * normal)),
    )
    yield (
        0,
        "weight is missing: the cotangent of the normalised values is g * weight.",
        lambda: rule(into=g),
    )
    yield (
        0,
        "weight is multiplied in at the end. It belongs to g before anything is averaged over the features, since it "
        "differs from one to the next.",
        lambda: weight * rule(into=g),
    )
    yield (
        0,
        "The two terms are summed over the features where they should be averaged.",
        lambda: scale * (gw - gw.sum(-1, keepdims=True) - normal * (gw * normal).sum(-1, keepdims=True)),
    )
    yield (
        0,
        "eps stands outside the root, 1 / (sqrt(var) + eps); it belongs inside, 1 / sqrt(var + eps).",
        lambda: with_scale(1 / (np.sqrt(variance) + eps)),
    )
    yield 0, "eps is missing from the root.", lambda: with_scale(1 / np.sqrt(variance))
    yield (
        0,
        "The variance is divided by n - 1; layer normalisation divides by n.",
        lambda: with_scale(1 / np.sqrt(variance * width / (width - 1) + eps)),
    )
    yield 0, "The division by the standard deviation is missing.", lambda: rule(s=1.0)
    yield 0, "It is divided by the variance where it should be by the standard deviation.", lambda: rule(s=scale**2)
    yield (
        0,
        "x stands where the normalised x should, in the term of the variance.",
        lambda: scale * (gw - mean(gw) - x * mean(gw * x)),
    )
    yield (
        0,
        "x - mean stands where the normalised x should, in the term of the variance: each of the two factors is "
        "divided by the standard deviation.",
        lambda: scale * (gw - mean(gw) - centred * mean(gw * centred)),
    )
    yield (
        0,
        "The term of the variance has the wrong sign.",
        lambda: scale * (gw - mean(gw) + normal * mean(gw * normal)),
    )
    yield (
        0,
        "The averages run over the batch; layer normalisation has its mean over the last axis.",
        lambda: scale * (gw - gw.mean(axis=0, keepdims=True) - normal * (gw * normal).mean(axis=0, keepdims=True)),
    )
    yield 1, "x stands where the normalised x should: weight was multiplied with that.", lambda: over_batch(g * x)
    yield (
        1,
        "x - mean stands where the normalised x should; it is not divided by the standard deviation.",
        lambda: over_batch(g * centred),
    )
    yield 1, "It is averaged over the rows where it should be summed.", lambda: over_batch(g * normal) * width / x.size
    yield 1, "It is not summed: one weight served all rows.", lambda: g * normal
    yield 1, "weight does not belong into its own cotangent.", lambda: over_batch(gw * normal)
    yield 1, "It is summed over the first axis only; all axes but the last are rows.", lambda: (g * normal).sum(axis=0)
    yield 1, "It is summed over the features; each feature has a weight of its own.", lambda: (g * normal).sum(axis=-1)
    yield (
        1,
        "eps stands outside the root, 1 / (sqrt(var) + eps); it belongs inside, 1 / sqrt(var + eps).",
        lambda: over_batch(g * centred / (np.sqrt(variance) + eps)),
    )
    yield (
        1,
        "The variance is divided by n - 1; layer normalisation divides by n.",
        lambda: over_batch(g * centred / np.sqrt(variance * width / (width - 1) + eps)),
    )
    yield 1, "eps is missing from the root.", lambda: over_batch(g * centred / np.sqrt(variance))
    yield 2, "It is averaged over the rows where it should be summed.", lambda: over_batch(g) * width / x.size
    yield 2, "It is not summed: one bias served all rows.", lambda: g
    yield 2, "weight does not belong into it: bias is added after weight was multiplied in.", lambda: over_batch(gw)
    yield 2, "It is summed over the first axis only; all axes but the last are rows.", lambda: g.sum(axis=0)
    yield 2, "It is summed over the features; each feature has a bias of its own.", lambda: g.sum(axis=-1)
    yield 2, "The cotangent is ignored.", lambda: over_batch(np.ones_like(g))


# --- conv2d ---------------------------------------------------------------------------------------


def scattered(g: np.ndarray, weight: np.ndarray, shape: tuple[int, ...], stride: Pair, corner: Pair) -> np.ndarray:
    """The cotangent of an image of `shape`: each g, times the kernel, added where its window lies.

    `corner` is where the image begins among the windows: the padding, if nothing is wrong. What falls outside is
    dropped.
    """
    n, _, height, width = shape
    (rows, columns), (down, across) = weight.shape[2:], stride
    room = np.zeros((n, weight.shape[1], height + 64, width + 64))
    for i, j in np.ndindex(g.shape[2:]):
        piece = np.einsum("no,oikl->nikl", g[:, :, i, j], weight)
        top, left = i * down - corner[0] + 32, j * across - corner[1] + 32
        room[:, :, top : top + rows, left : left + columns] += piece
    return room[:, :, 32 : 32 + height, 32 : 32 + width]


def gathered(g: np.ndarray, x: np.ndarray, shape: tuple[int, ...], stride: Pair, corner: Pair) -> np.ndarray:
    """The cotangent of a weight of `shape`: each g, times the piece of the image under its window, added up."""
    (rows, columns), (down, across) = shape[2:], stride
    room = np.pad(x, ((0, 0), (0, 0), (32, 64), (32, 64)))
    total = np.zeros(shape)
    for i, j in np.ndindex(g.shape[2:]):
        top, left = i * down - corner[0] + 32, j * across - corner[1] + 32
        total += np.einsum("no,nikl->oikl", g[:, :, i, j], room[:, :, top : top + rows, left : left + columns])
    return total


def conv2d_mistakes(inputs: Inputs) -> Iterator[Mistake]:
    g, x, weight = (inputs[name].astype(np.float64) for name in ("g", "x", "weight"))
    down, across = inputs["stride"]
    up, left = inputs["padding"]
    stride, corner, n = (down, across), (up, left), len(x)
    flipped = weight[:, :, ::-1, ::-1]

    def dx(g: np.ndarray = g, w: np.ndarray = weight, stride: Pair = stride, corner: Pair = corner) -> np.ndarray:
        return scattered(g, w, x.shape, stride, corner)

    def dw(g: np.ndarray = g, a: np.ndarray = x, stride: Pair = stride, corner: Pair = corner) -> np.ndarray:
        return gathered(g, a, weight.shape, stride, corner)

    yield (
        0,
        "The kernel is turned by 180 degrees with respect to what it should be. If you add g * weight into each "
        "window, leave the kernel as it is; if you correlate g (with k - 1 zeros around it) with the kernel, turn it: "
        "weight[:, :, ::-1, ::-1].",
        lambda: dx(w=flipped),
    )
    yield (
        0,
        "The stride is left out: neighbouring entries of g belong to windows that are stride pixels apart.",
        lambda: dx(stride=(1, 1)),
    )
    yield (
        0,
        "The padding is not cut off where it should be: the image begins `padding` pixels into the padded one, on top "
        "and on the left.",
        lambda: dx(corner=(0, 0)),
    )
    yield (
        0,
        "The padding is cut off one pixel wrong.",
        lambda: dx(corner=(up + 1, left + 1)),
    )
    yield 0, "The padding is cut off one pixel wrong.", lambda: dx(corner=(up - 1, left - 1))
    if 0 in corner:
        frame = (*x.shape[:2], x.shape[2] + 2 * up, x.shape[3] + 2 * left)
        yield (
            0,
            "The slice p:-p is empty where the padding is 0; p : p + height is not.",
            lambda: scattered(g, weight, frame, stride, (0, 0))[:, :, up:-up, left:-left],
        )
    yield 0, "The two numbers of stride are swapped: the first is for the rows.", lambda: dx(stride=(across, down))
    yield 0, "The two numbers of padding are swapped: the first is for the rows.", lambda: dx(corner=(left, up))
    yield 0, "Rows and columns of the kernel are swapped.", lambda: dx(w=np.swapaxes(weight, 2, 3))
    yield (
        0,
        "The channels of the weight are swapped: it is (out, in, height, width).",
        lambda: dx(w=np.swapaxes(weight, 0, 1)),
    )
    yield 0, "The cotangent is ignored.", lambda: dx(g=np.ones_like(g))
    yield 0, "It is averaged over the batch; each image has its own cotangent.", lambda: dx() / n
    yield (
        0,
        "Windows that overlap overwrite each other: a pixel under several windows gets the sum of what comes from "
        "each. Write += and go through the windows, or the places of the kernel, one at a time.",
        lambda: _overwritten(g, weight, x.shape, stride, corner),
    )
    yield 1, "The kernel comes out turned by 180 degrees.", lambda: dw()[:, :, ::-1, ::-1]
    yield (
        1,
        "The stride is left out: neighbouring entries of g belong to windows that are stride pixels apart.",
        lambda: dw(stride=(1, 1)),
    )
    yield (
        1,
        "The padding is left out: the windows lie on the padded image.",
        lambda: dw(corner=(0, 0)),
    )
    yield 1, "It is averaged over the batch; the weight served all images, so it is the sum.", lambda: dw() / n
    yield (
        1,
        "It is averaged over the places of the window where it should be summed.",
        lambda: dw() / (g.shape[2] * g.shape[3]),
    )
    yield 1, "Only the first image of the batch is counted.", lambda: dw(g=g[:1], a=x[:1])
    yield 1, "The two numbers of stride are swapped: the first is for the rows.", lambda: dw(stride=(across, down))
    yield 1, "The two numbers of padding are swapped: the first is for the rows.", lambda: dw(corner=(left, up))
    yield 1, "Rows and columns of the kernel are swapped.", lambda: np.swapaxes(dw(), 2, 3)
    yield 1, "The channels are swapped: dweight is (out, in, height, width).", lambda: np.swapaxes(dw(), 0, 1)
    yield 1, "The cotangent is ignored.", lambda: dw(g=np.ones_like(g))


def _overwritten(g: np.ndarray, weight: np.ndarray, shape: tuple[int, ...], stride: Pair, corner: Pair) -> np.ndarray:
    """As `scattered`, but a later window replaces what an earlier one left."""
    n, _, height, width = shape
    (rows, columns), (up, left) = weight.shape[2:], corner
    room = np.zeros((n, weight.shape[1], height + 2 * up, width + 2 * left))
    for i, j in np.ndindex(g.shape[2:]):
        piece = np.einsum("no,oikl->nikl", g[:, :, i, j], weight)
        room[:, :, i * stride[0] : i * stride[0] + rows, j * stride[1] : j * stride[1] + columns] = piece
    return room[:, :, up : up + height, left : left + width]
