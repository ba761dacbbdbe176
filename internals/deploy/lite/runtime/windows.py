"""Operations in which a window moves over an image: (batch, height, width, channels), a few output rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .kernels import F4, I8, Kernel, Product, Rescale


class Windowed(Kernel):
    """A window of `size` at every position of a padded image."""

    fill = 0.0

    def geometry(
        self, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int], padding: Sequence[int]
    ) -> tuple[int, int, int]:
        """Positions and channels; refuses what has none."""
        if len(self.x.shape) != 4 or min(*size, *stride, *dilation) < 1 or min(padding) < 0 or max(padding) > 2**15:
            self.refuse("expected (batch, height, width, channels), and a window, stride and padding for two axes")
        if size[0] * size[1] > 2**14:
            self.refuse(f"a window of {size[0]} x {size[1]} is larger than {2**14:,} places")
        self.size, self.stride, self.dilation, self.padding = size, stride, dilation, padding
        self.reach = [d * (k - 1) + 1 for k, d in zip(size, dilation)]
        self.padded = self.x.shape[1] + sum(padding[:2]), self.x.shape[2] + sum(padding[2:])
        counts = [(n - r) // s + 1 for n, r, s in zip(self.padded, self.reach, stride)]
        if min(counts) < 1:
            self.refuse(f"a window that reaches over {self.reach} does not fit an image of {self.padded}")
        return counts[0], counts[1], self.x.shape[3]

    def band_shape(self, rows: int) -> tuple[int, int, int]:
        return (rows - 1) * self.stride[0] + self.reach[0], self.padded[1], self.x.shape[3]

    def windows(self, rows: int, band: np.ndarray | None) -> Iterator[tuple[int, int, int, np.ndarray]]:
        """Image, first and last output row, and their windows: (rows, columns, kernel height, kernel width, channels).

        A band of the image is copied to `band` with its padding; without padding the image itself is looked at.
        """
        x, height = self.arrays[0], self.out.shape[1]
        (top, _, left, _), (sh, sw), (dh, dw) = self.padding, self.stride, self.dilation
        width, channels = (self.padded[1] if band is not None else x.shape[2]), x.shape[3]
        source = x if band is None else band
        pixel = channels * source.itemsize
        strides = (sh * width * pixel, sw * pixel, dh * width * pixel, dw * pixel, source.itemsize)
        for image in range(x.shape[0]):
            for first in range(0, height, rows):
                last = min(first + rows, height)
                start, offset = first * sh - top, 0
                if band is None:
                    offset = (image * x.shape[1] + start) * width * pixel
                else:
                    stop = start + (last - first - 1) * sh + self.reach[0]
                    begin, end = min(max(start, 0), x.shape[1]), max(min(stop, x.shape[1]), 0)
                    if any(self.padding):
                        band.fill(self.fill)
                    if end > begin:
                        inner = band[begin - start : end - start, left : left + x.shape[2]]
                        np.copyto(inner, x[image, begin:end])
                shape = (last - first, self.out.shape[2], *self.size, channels)
                yield image, first, last, np.ndarray(shape, source.dtype, source, offset, strides)


class Conv2d(Product, Windowed):
    """A weight of (out, kernel height, kernel width, in). Version 2 has a scale for each output channel."""

    version = 2
    parameters = (9, 9)

    def check(self) -> None:
        shape = self.values[1].shape
        if len(shape) != 4 or shape[3:] != self.x.shape[3:]:
            self.refuse("expected a weight of (out, kernel height, kernel width, in)")
        _, *rest = self.parameters_given
        height, width, channels = self.geometry(shape[1:3], rest[:2], rest[2:4], rest[4:])
        self.expect((self.x.shape[0], height, width, shape[0]), same=False)
        depth = shape[1] * shape[2] * channels
        self.prepare(height * width, depth, shape[0], least=width)
        steps = self.each * self.columns if self.integer else 0
        self.lines = self.chunks(height, 2 * width * (4 * depth + steps))
        if self.integer:
            self.products(self.lines * width)
            self.fill = float(self.x.one[1])
        self.need(self.lines * width, depth, dtype=F4)
        if any(self.padding):
            self.need(*self.band_shape(self.lines), dtype=self.x.dtype)

    def run(self) -> None:
        self.loaded = None
        width, band = self.out.shape[2], self.working[-1] if any(self.padding) else None
        columns = self.working[-1 if band is None else -2]
        for image, first, last, found in self.windows(self.lines, band):
            rows = columns[: (last - first) * width]
            np.copyto(rows.reshape(found.shape), found)
            self.multiply(rows, self.result[image, first:last].reshape(len(rows), -1))


class Depthwise(Windowed):
    """Each channel by a window of its own: a weight of (kernel height, kernel width, channels)."""

    version = 2
    arity = (3, 3)
    parameters = (9, 9)

    def check(self) -> None:
        weight, bias = self.values[1], self.values[2]
        activation, *rest = self.parameters_given
        if len(weight.shape) != 3 or weight.shape[2:] != self.x.shape[3:] or weight.dtype != self.x.dtype:
            self.refuse("expected a weight of (kernel height, kernel width, channels), of the input's dtype")
        if weight.data is None or bias.data is None or bias.shape != weight.shape[2:]:
            self.refuse("weight and bias must be constants, with one number of the bias for each channel")
        height, width, channels = self.geometry(weight.shape[:2], rest[:2], rest[2:4], rest[4:])
        self.expect((self.x.shape[0], height, width, channels))
        self.limits = self.bounds(activation)
        self.weight, self.bias = weight.data, bias.data
        if bias.dtype != (np.dtype("i4") if self.integer else F4):
            self.refuse("the bias is int32 beside int8, float32 beside float32")
        self.lines = self.chunks(height, (self.padded[1] * self.stride[0] + 5 * width) * channels * 4)
        if self.integer:
            (scale, zero), (out_scale, out_zero) = self.x.one, self.out.one
            if weight.scale is None or weight.zero.any() or (weight.scale.size > 1 and weight.axis != 2):
                self.refuse("an int8 weight has zero points of 0, and one scale or one per channel")
            if weight.shape[0] * weight.shape[1] > 512:
                self.refuse("a window of more than 512 places may not fit the sums of float32")
            self.weight = weight.data.astype(F4)
            self.bias = bias.data.astype(I8) - zero * weight.data.sum((0, 1), dtype=I8)
            self.fill = float(zero)
            ratio = scale * weight.scale.astype(float) / out_scale
            self.rescale = Rescale(np.broadcast_to(ratio, (channels,)), out_zero)
            self.need(self.lines, width, channels, dtype=I8)
            self.need(self.lines, width, channels, dtype=F4)
        self.need(self.lines, width, channels, dtype=F4)
        if any(self.padding) or self.integer:
            self.need(*self.band_shape(self.lines), dtype=F4)

    def run(self) -> None:
        band = self.working[-1] if any(self.padding) or self.integer else None
        term = self.working[-2 if band is not None else -1]
        for image, first, last, found in self.windows(self.lines, band):
            count = last - first
            out = self.result[image, first:last]
            total, part = (self.working[1][:count] if self.integer else out), term[:count]
            for i, j in np.ndindex(*self.size):
                np.multiply(found[:, :, i, j], self.weight[i, j], out=part if i or j else total)
                if i or j:
                    np.add(total, part, out=total)
            if not self.integer:
                np.add(out, self.bias, out=out)
                self.clip(out)
                continue
            steps = self.working[0][:count]
            np.copyto(steps, total, casting="unsafe")
            np.add(steps, self.bias, out=steps)
            self.rescale(steps)
            self.clip(steps)
            np.copyto(out, steps, casting="unsafe")


class MaxPool(Windowed):
    """The largest under a window; padding is never the largest."""

    parameters = (8, 8)

    def check(self) -> None:
        given = self.parameters_given
        height, width, channels = self.geometry(given[:2], given[2:4], (1, 1), given[4:8])
        if any(p >= k for p, k in zip(self.padding, (given[0], given[0], given[1], given[1]))):
            self.refuse("a window could see nothing but padding")
        self.expect((self.x.shape[0], height, width, channels))
        if self.x.grid != self.out.grid:
            self.refuse("the result must have the input's scale and zero point")
        self.fill = -128 if self.integer else -np.inf
        self.lines = self.chunks(height, self.padded[1] * self.stride[0] * channels * self.x.dtype.itemsize)
        if any(self.padding):
            self.need(*self.band_shape(self.lines), dtype=self.x.dtype)

    def run(self) -> None:
        for image, first, last, found in self.windows(self.lines, self.working[0] if self.working else None):
            out = self.result[image, first:last]
            np.copyto(out, found[:, :, 0, 0])
            for i, j in np.ndindex(*self.size):
                np.maximum(out, found[:, :, i, j], out=out)


class AveragePool(MaxPool):
    """The mean under a window. Version 1 counts padding as zeros; version 2 has a parameter that leaves it out."""

    version = 2
    parameters = (8, 9)

    def check(self) -> None:
        super().check()
        counted = self.parameters_given[8:] in ((), (1,))
        self.fill, self.room = 0.0, []
        height, width, channels = self.out.shape[1:]
        inside = []
        for axis, (length, before) in enumerate(
            ((self.x.shape[1], self.padding[0]), (self.x.shape[2], self.padding[2]))
        ):
            starts = np.arange(self.out.shape[1 + axis]) * self.stride[axis] - before
            inside.append(np.minimum(starts + self.size[axis], length) - np.maximum(starts, 0))
        self.counts = (inside[0][:, None] * inside[1])[:, :, None].astype(F4)
        if counted:
            self.counts[...] = self.size[0] * self.size[1]
        if self.integer:
            self.fill = float(self.x.one[1])
            self.lines = self.chunks(height, (self.padded[1] * self.stride[0] + 2 * width) * channels * 4)
            self.need(self.lines, width, channels, dtype=F4)
            self.need(self.lines, width, channels, dtype=F4)
            if not counted:
                self.fill = 0.0
        if any(self.padding) or self.integer:
            self.need(*self.band_shape(self.lines), dtype=F4)

    def run(self) -> None:
        band = self.working[-1] if any(self.padding) or self.integer else None
        for image, first, last, found in self.windows(self.lines, band):
            out, count = self.result[image, first:last], self.counts[first:last]
            total = self.working[0][: last - first] if self.integer else out
            total.fill(0)
            for i, j in np.ndindex(*self.size):
                np.add(total, found[:, :, i, j], out=total)
            if self.integer:  # halves away from zero, as TensorFlow Lite
                half = self.working[1][: last - first]
                np.copyto(half, count)
                np.multiply(half, 0.5, out=half)
                np.floor(half, out=half)
                np.copysign(half, total, out=half)
                np.add(total, half, out=total)
                np.divide(total, count, out=total)
                np.trunc(total, out=total)
                np.copyto(out, total, casting="unsafe")
            else:
                np.divide(total, count, out=out)
