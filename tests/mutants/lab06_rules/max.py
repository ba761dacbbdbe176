"""Answers to the task `max`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: all to the first, as torch.max along a dim


def max_rule(g, x, axis):
    d = np.zeros_like(x)
    if axis is None:
        d.reshape(-1)[np.argmax(x)] = g
    elif x.size:
        np.put_along_axis(d, np.expand_dims(np.argmax(x, axis), axis), np.expand_dims(g, axis), axis)
    return d


# %% right: shared evenly, by loops


def max_rule(g, x, axis):
    if axis is None:
        return max_rule(np.reshape(g, ()), x.reshape(-1), 0).reshape(x.shape)
    d = np.zeros_like(x)
    lines, out = np.moveaxis(x, axis, -1), np.moveaxis(d, axis, -1)
    for place in np.ndindex(lines.shape[:-1]):
        tied = np.flatnonzero(lines[place] == max(lines[place]))
        out[place][tied] = g[place] / len(tied)
    return d


# %% right: shared evenly, with a mask


def max_rule(g, x, axis):
    axes = tuple(range(x.ndim)) if axis is None else (axis,)
    if x.size == 0:
        return np.zeros_like(x)
    tied = (x == x.max(axis=axes, keepdims=True)).astype(x.dtype)
    return np.asarray(np.expand_dims(g, axes) * tied / tied.sum(axis=axes, keepdims=True))


# %% wrong: each of the ties gets all | whole cotangent


def max_rule(g, x, axis):
    axes = tuple(range(x.ndim)) if axis is None else axis
    return np.expand_dims(g, axes) * (x == x.max(axis=axes, keepdims=True))


# %% wrong: the last of the ties | last of the entries


def max_rule(g, x, axis):
    if axis is None:
        return np.asarray(max_rule(g, x.reshape(-1), 0).reshape(x.shape))
    d = np.zeros_like(x)
    last = x.shape[axis] - 1 - np.argmax(np.flip(x, axis), axis)
    np.put_along_axis(d, np.expand_dims(last, axis), np.expand_dims(g, axis), axis)
    return d


# %% wrong: the largest anywhere | largest entry of the whole array


def max_rule(g, x, axis):
    axes = tuple(range(x.ndim)) if axis is None else axis
    tied = x == x.max(initial=-np.inf)
    return np.asarray(np.expand_dims(g, axes) * tied / np.maximum(tied.sum(axis=axes, keepdims=True), 1), dtype=x.dtype)


# %% wrong: ties counted over the whole array | count them along the axis


def max_rule(g, x, axis):
    axes = tuple(range(x.ndim)) if axis is None else axis
    tied = x == x.max(axis=axes, keepdims=True)
    return np.asarray(np.expand_dims(g, axes) * tied / max(tied.sum(), 1), dtype=x.dtype)


# %% wrong: the cotangent left out | cotangent is ignored


def max_rule(g, x, axis):
    axes = tuple(range(x.ndim)) if axis is None else axis
    tied = x == x.max(axis=axes, keepdims=True)
    return np.asarray(tied / tied.sum(axis=axes, keepdims=True), dtype=x.dtype)


# %% wrong: the lost axis not put back | np.expand_dims\(g, axis\) puts it back|put it back


def max_rule(g, x, axis):
    axes = tuple(range(x.ndim)) if axis is None else axis
    tied = x == x.max(axis=axes, keepdims=True)
    return np.asarray(g * (tied / tied.sum(axis=axes, keepdims=True)), dtype=x.dtype)


# %% wrong: everything gets the cotangent | only the largest ones


def max_rule(g, x, axis):
    axes = tuple(range(x.ndim)) if axis is None else axis
    return np.broadcast_to(np.expand_dims(g, axes), x.shape).copy()


# %% wrong: axis None forgotten | axis may be|0-d


def max_rule(g, x, axis):
    d = np.zeros_like(x)
    np.put_along_axis(d, np.expand_dims(np.argmax(x, axis), axis), np.expand_dims(g, axis), axis)
    return d


# %% wrong: float64 from counting | dtype grew


def max_rule(g, x, axis):
    axes = tuple(range(x.ndim)) if axis is None else axis
    tied = x == x.max(axis=axes, keepdims=True)
    return np.asarray(np.expand_dims(g, axes) * (tied / tied.sum(axis=axes, keepdims=True)))


# %% wrong: the smallest | smallest entries get


def max_rule(g, x, axis):
    axes = tuple(range(x.ndim)) if axis is None else axis
    tied = x == x.min(axis=axes, keepdims=True)
    return np.asarray(np.expand_dims(g, axes) * tied / tied.sum(axis=axes, keepdims=True), dtype=x.dtype)


# %% wrong: the hole left open | not been filled


def max_rule(g, x, axis):
    raise NotImplementedError
