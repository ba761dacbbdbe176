"""Answers to the task `scale_point`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: one range after another


def scale_and_zero_point(low, high, symmetric):
    scales, points = [], []
    for a, b in zip(np.ravel(low).tolist(), np.ravel(high).tolist(), strict=True):
        a, b = min(a, 0.0), max(b, 0.0)
        scales.append(max(max(-a, b) / 127 if symmetric else (b - a) / 255, SMALLEST))
        points.append(0 if symmetric else min(127, max(-128, round(-128 - a / scales[-1]))))
    return np.reshape(scales, np.shape(low)), np.reshape(points, np.shape(low)).astype(np.int64)


# %% right: in float32, rounded before -128 is added


def scale_and_zero_point(low, high, symmetric):
    low, high = np.float32(np.minimum(low, 0.0)), np.float32(np.maximum(high, 0.0))
    if symmetric:
        scale = np.maximum(np.maximum(-low, high) / 127, SMALLEST)
        return scale, np.zeros(np.shape(scale), int)
    scale = np.maximum((high - low) / 255, SMALLEST)
    return scale, np.clip(-128 - np.rint(low / scale), -128, 127).astype(int)


# %% wrong: the range without 0 | has to hold 0


def scale_and_zero_point(low, high, symmetric):
    if symmetric:
        scale = np.maximum(np.maximum(-low, high) / 127, SMALLEST)
        return scale, np.zeros(np.shape(scale), int)
    scale = np.maximum((high - low) * 1.0 / 255, SMALLEST)
    return scale, np.clip(np.rint(-128 - low / scale), -128, 127).astype(int)


# %% wrong: 256 steps | by 255


def scale_and_zero_point(low, high, symmetric):
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    if symmetric:
        scale = np.maximum(np.maximum(-low, high) / 127, SMALLEST)
        return scale, np.zeros(np.shape(scale), int)
    scale = np.maximum((high - low) / 256, SMALLEST)
    return scale, np.clip(np.rint(-128 - low / scale), -128, 127).astype(int)


# %% wrong: symmetric by 127.5 | by 127


def scale_and_zero_point(low, high, symmetric):
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    if symmetric:
        scale = np.maximum(np.maximum(-low, high) / 127.5, SMALLEST)
        return scale, np.zeros(np.shape(scale), int)
    scale = np.maximum((high - low) / 255, SMALLEST)
    return scale, np.clip(np.rint(-128 - low / scale), -128, 127).astype(int)


# %% wrong: the greatest number, not the largest magnitude | largest magnitude


def scale_and_zero_point(low, high, symmetric):
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    if symmetric:
        scale = np.maximum(high / 127, SMALLEST)
        return scale, np.zeros(np.shape(scale), int)
    scale = np.maximum((high - low) / 255, SMALLEST)
    return scale, np.clip(np.rint(-128 - low / scale), -128, 127).astype(int)


# %% wrong: one range for all channels | scale


def scale_and_zero_point(low, high, symmetric):
    low = np.full(np.shape(low), min(np.min(low), 0.0))
    high = np.full(np.shape(high), max(np.max(high), 0.0))
    if symmetric:
        scale = np.maximum(np.maximum(-low, high) / 127, SMALLEST)
        return scale, np.zeros(np.shape(scale), int)
    scale = np.maximum((high - low) / 255, SMALLEST)
    return scale, np.clip(np.rint(-128 - low / scale), -128, 127).astype(int)


# %% wrong: the zero point cut off, not rounded | stands for 0.0


def scale_and_zero_point(low, high, symmetric):
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    if symmetric:
        scale = np.maximum(np.maximum(-low, high) / 127, SMALLEST)
        return scale, np.zeros(np.shape(scale), int)
    scale = np.maximum((high - low) / 255, SMALLEST)
    return scale, np.clip(np.trunc(-128 - low / scale), -128, 127).astype(int)


# %% wrong: the zero point of uint8 | no int8


def scale_and_zero_point(low, high, symmetric):
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    if symmetric:
        scale = np.maximum(np.maximum(-low, high) / 127, SMALLEST)
        return scale, np.zeros(np.shape(scale), int)
    scale = np.maximum((high - low) / 255, SMALLEST)
    return scale, np.rint(-low / scale).astype(int)


# %% wrong: the sign of low | zero point


def scale_and_zero_point(low, high, symmetric):
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    if symmetric:
        scale = np.maximum(np.maximum(-low, high) / 127, SMALLEST)
        return scale, np.zeros(np.shape(scale), int)
    scale = np.maximum((high - low) / 255, SMALLEST)
    return scale, np.clip(np.rint(-128 + low / scale), -128, 127).astype(int)


# %% wrong: not widened, and the zero point not clamped | has to hold 0|no int8


def scale_and_zero_point(low, high, symmetric):
    if symmetric:
        scale = np.maximum(np.maximum(-low, high) / 127, SMALLEST)
        return scale, np.zeros(np.shape(scale), int)
    scale = np.maximum((high - low) / 255, SMALLEST)
    return scale, np.rint(-128 - low / scale).astype(int)


# %% wrong: nothing keeps a scale from being 0 | SMALLEST|finite|scale


def scale_and_zero_point(low, high, symmetric):
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    if symmetric:
        scale = np.maximum(-low, high) / 127
        return scale, np.zeros(np.shape(scale), int)
    scale = (high - low) / 255 + 0.0
    return scale, np.clip(np.rint(-128 - low / scale), -128, 127).astype(int)


# %% wrong: a zero point of floats | integers


def scale_and_zero_point(low, high, symmetric):
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    if symmetric:
        scale = np.maximum(np.maximum(-low, high) / 127, SMALLEST)
        return scale, np.zeros(np.shape(scale), int)
    scale = np.maximum((high - low) / 255, SMALLEST)
    return scale, np.clip(np.rint(-128 - low / scale), -128, 127)
