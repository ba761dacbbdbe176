"""Answers to the task `integers`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821, RUF059

# %% right: the axis moved to the end and back


def _last(x, axis):
    return x if axis is None else np.moveaxis(x, axis, -1)


def _home(x, axis):
    return x if axis is None else np.moveaxis(x, -1, axis)


def quantise(x, scale, zero_point, axis):
    steps = np.round(_last(np.asarray(x), axis) / scale)
    return _home(np.minimum(np.maximum(steps + zero_point, -128), 127).astype(np.int8), axis)


def dequantise(q, scale, zero_point, axis):
    reals = (_last(np.asarray(q), axis).astype(np.float64) - zero_point) * scale
    return _home(reals, axis).astype(np.float32)


# %% right: ties by hand


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def quantise(x, scale, zero_point, axis):
    x = np.clip(x, -1e6, 1e6)
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.where(np.abs(x / s - np.floor(x / s)) == 0.5, 2 * np.round(x / s / 2), np.floor(x / s + 0.5)) + z
    return np.clip(steps, -128, 127).astype(np.int8)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return ((np.asarray(q, np.int32) - z) * s).astype(np.float32)


# %% wrong: cut off, not rounded | nearest


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def quantise(x, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.trunc(x / s) + z
    return np.clip(steps, -128, 127).astype(np.int8)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return ((np.asarray(q, np.int32) - z) * s).astype(np.float32)


# %% wrong: ties up | even


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def quantise(x, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.floor(x / s + 0.5) + z
    return np.clip(steps, -128, 127).astype(np.int8)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return ((np.asarray(q, np.int32) - z) * s).astype(np.float32)


# %% wrong: the zero point is added before rounding | even number


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def quantise(x, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.rint(x / s + z)
    return np.clip(steps, -128, 127).astype(np.int8)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return ((np.asarray(q, np.int32) - z) * s).astype(np.float32)


# %% wrong: wraps around | end


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def quantise(x, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.rint(x / s) + z
    return np.nan_to_num(steps).astype(np.int64).astype(np.int8)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return ((np.asarray(q, np.int32) - z) * s).astype(np.float32)


# %% wrong: the zero point subtracted | expected


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def quantise(x, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.rint(x / s) - z
    return np.clip(steps, -128, 127).astype(np.int8)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return ((np.asarray(q, np.int32) - z) * s).astype(np.float32)


# %% wrong: cut off before the zero point is added | expected


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def quantise(x, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.clip(np.rint(x / s), -128, 127) + z
    return np.nan_to_num(steps).astype(np.int64).astype(np.int8)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return ((np.asarray(q, np.int32) - z) * s).astype(np.float32)


# %% wrong: scales along the last axis always | expected|broadcast


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return values


def quantise(x, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.rint(x / s) + z
    return np.clip(steps, -128, 127).astype(np.int8)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return ((np.asarray(q, np.int32) - z) * s).astype(np.float32)


# %% wrong: a difference in int8 | dequantise read


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def quantise(x, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.rint(x / s) + z
    return np.clip(steps, -128, 127).astype(np.int8)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return ((q - z.astype(np.int8)).astype(np.int8) * s).astype(np.float32)


# %% wrong: read without the zero point | dequantise read


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def quantise(x, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.rint(x / s) + z
    return np.clip(steps, -128, 127).astype(np.int8)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return (np.asarray(q, np.int32) * s).astype(np.float32)


# %% wrong: integers of 32 bits | expected int8


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def quantise(x, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.rint(x / s) + z
    return np.clip(steps, -128, 127).astype(np.int32)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return ((np.asarray(q, np.int32) - z) * s).astype(np.float32)


# %% wrong: reals of 64 bits | float64


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def quantise(x, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.rint(x / s) + z
    return np.clip(steps, -128, 127).astype(np.int8)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return ((np.asarray(q, np.int32) - z) * s).astype(np.float64)


# %% wrong: -128 is left out | end


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def quantise(x, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.rint(x / s) + z
    return np.clip(steps, -127, 127).astype(np.int8)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return ((np.asarray(q, np.int32) - z) * s).astype(np.float32)


# %% wrong: reals of 16 bits on the way | dequantise read


def _placed(values, axis, ndim):
    if axis is None:
        return np.asarray(values)
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def quantise(x, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(x)) for one in (scale, zero_point))
    steps = np.rint(x / s) + z
    return np.clip(steps, -128, 127).astype(np.int8)


def dequantise(q, scale, zero_point, axis):
    s, z = (_placed(one, axis, np.ndim(q)) for one in (scale, zero_point))
    return ((np.asarray(q, np.int32) - z) * s).astype(np.float16).astype(np.float32)
