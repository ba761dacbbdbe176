"""Answers to the task `straight_through`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: E501, F811, F821, F841

# %% right: with a mask to multiply by


def fake_quantise(x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    return (np.clip(steps, -128, 127) - zero_point) * scale


def fake_quantise_backward(g, x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    mask = (steps >= -128) & (steps <= 127)
    return g * mask.astype(g.dtype)


# %% right: where clipping changes nothing


def fake_quantise(x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    return (np.clip(steps, -128, 127) - zero_point) * scale


def fake_quantise_backward(g, x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    mask = np.clip(steps, -128, 127) == steps
    return np.where(mask, g, 0)


# %% wrong: everything passes | nothing passes


def fake_quantise(x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    return (np.clip(steps, -128, 127) - zero_point) * scale


def fake_quantise_backward(g, x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    mask = np.ones(np.shape(x), bool)
    return np.where(mask, g, 0)


# %% wrong: nothing passes, the true derivative | passes as it is


def fake_quantise(x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    return (np.clip(steps, -128, 127) - zero_point) * scale


def fake_quantise_backward(g, x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    mask = np.zeros(np.shape(x), bool)
    return np.where(mask, g, 0)


# %% wrong: times the scale | passes as it is


def fake_quantise(x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    return (np.clip(steps, -128, 127) - zero_point) * scale


def fake_quantise_backward(g, x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    mask = (steps >= -128) & (steps <= 127)
    return np.where(mask, g * scale, 0)


# %% wrong: reals from -128 to 127 | passes


def fake_quantise(x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    return (np.clip(steps, -128, 127) - zero_point) * scale


def fake_quantise_backward(g, x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    mask = (x >= -128) & (x <= 127)
    return np.where(mask, g, 0)


# %% wrong: the ends do not count | passes as it is


def fake_quantise(x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    return (np.clip(steps, -128, 127) - zero_point) * scale


def fake_quantise_backward(g, x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    mask = (steps > -128) & (steps < 127)
    return np.where(mask, g, 0)


# %% wrong: the zero point is not in the mask | passes


def fake_quantise(x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    return (np.clip(steps, -128, 127) - zero_point) * scale


def fake_quantise_backward(g, x, scale, zero_point):
    steps = np.rint(x / scale)
    mask = (steps >= -128) & (steps <= 127)
    return np.where(mask, g, 0)


# %% wrong: the reals' range, half a step short | passes as it is


def fake_quantise(x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    return (np.clip(steps, -128, 127) - zero_point) * scale


def fake_quantise_backward(g, x, scale, zero_point):
    steps = x / scale + zero_point
    mask = (steps >= -128) & (steps <= 127)
    return np.where(mask, g, 0)


# %% wrong: the forward pass gives integers | should come back as


def fake_quantise(x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    return np.clip(steps, -128, 127)


def fake_quantise_backward(g, x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    mask = (steps >= -128) & (steps <= 127)
    return np.where(mask, g, 0)


# %% wrong: the forward pass is not cut off | should come back as


def fake_quantise(x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    return (steps - zero_point) * scale


def fake_quantise_backward(g, x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    mask = (steps >= -128) & (steps <= 127)
    return np.where(mask, g, 0)


# %% wrong: the mask turned round | passes


def fake_quantise(x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    return (np.clip(steps, -128, 127) - zero_point) * scale


def fake_quantise_backward(g, x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    mask = (steps >= -128) & (steps <= 127)
    return np.where(mask, 0, g)


# %% wrong: x goes on, not the cotangent | passes as it is


def fake_quantise(x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    return (np.clip(steps, -128, 127) - zero_point) * scale


def fake_quantise_backward(g, x, scale, zero_point):
    steps = np.rint(x / scale) + zero_point
    mask = (steps >= -128) & (steps <= 127)
    return np.where(mask, x, 0)
