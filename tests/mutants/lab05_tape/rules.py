"""Answers to the task `rules`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B905, F811, F821

# %% right: einsum, one formula for every form


def fit(a, shape):
    while np.ndim(a) > len(shape):
        a = np.add.reduce(a, 0)
    for axis, size in enumerate(shape):
        if size == 1 and a.shape[axis] > 1:
            a = np.add.reduce(a, axis, keepdims=True)
    # A size of 0 stretched from 1 sums to 0.
    return np.asarray(a) if np.shape(a) == shape else np.zeros(shape, a.dtype)


def mul_rule(g, x, y):
    return [fit(np.einsum("...,...->...", g, a), b.shape) for a, b in ((y, x), (x, y))]


def matmul_rule(g, x, y):
    g = np.asarray(g)
    if x.ndim == y.ndim == 1:
        return g * y, g * x
    if y.ndim == 1:
        return fit(np.einsum("...i,j->...ij", g, y), x.shape), fit(np.einsum("...i,...ij->...j", g, x), y.shape)
    if x.ndim == 1:
        return fit(np.einsum("...j,...ij->...i", g, y), x.shape), fit(np.einsum("...j,i->...ij", g, x), y.shape)
    return fit(np.einsum("...ik,...jk->...ij", g, y), x.shape), fit(np.einsum("...ij,...ik->...jk", x, g), y.shape)


# %% right: plain loops over entries


def collect(shape, dtype, full, terms):
    total = np.zeros(shape, dtype)
    offset = len(full) - len(shape)
    for index in np.ndindex(full):
        place = tuple(0 if size == 1 else k for k, size in zip(index[offset:], shape))
        total[place] += terms[index]
    return total


def mul_rule(g, x, y):
    g = np.asarray(g)
    return (
        collect(x.shape, x.dtype, g.shape, np.asarray(g * y)),
        collect(y.shape, y.dtype, g.shape, np.asarray(g * x)),
    )


def matmul_rule(g, x, y):
    a = x.reshape(1, -1) if x.ndim == 1 else x
    b = y.reshape(-1, 1) if y.ndim == 1 else y
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    g = np.reshape(g, (*batch, a.shape[-2], b.shape[-1]))
    left, right = np.zeros((*batch, *a.shape[-2:]), x.dtype), np.zeros((*batch, *b.shape[-2:]), y.dtype)
    wide_a, wide_b = np.broadcast_to(a, left.shape), np.broadcast_to(b, right.shape)
    for place in np.ndindex(batch):
        left[place] = g[place].dot(wide_b[place].T)
        right[place] = wide_a[place].T.dot(g[place])
    return (
        collect(a.shape, x.dtype, left.shape, left).reshape(x.shape),
        collect(b.shape, y.dtype, right.shape, right).reshape(y.shape),
    )


# %% wrong: broadcasting not undone | Broadcasting is not undone


def mul_rule(g, x, y):
    return g * y, g * x


def matmul_rule(g, x, y):
    if x.ndim == 1 or y.ndim == 1:
        a, b = np.atleast_2d(x), y if y.ndim > 1 else y[:, None]
        g = np.reshape(g, (a @ b).shape)
        return (g @ np.swapaxes(b, -1, -2)).reshape(x.shape), (np.swapaxes(a, -1, -2) @ g).reshape(y.shape)
    return g @ np.swapaxes(y, -1, -2), np.swapaxes(x, -1, -2) @ g


# %% wrong: swapped | another order


def mul_rule(g, x, y):
    return undo_broadcast(g * x, y.shape), undo_broadcast(g * y, x.shape)


# %% wrong: mean instead of sum | averaged


def undo_broadcast(gradient, shape):
    added = np.ndim(gradient) - len(shape)
    stretched = tuple(range(added)) + tuple(added + axis for axis, size in enumerate(shape) if size == 1)
    return np.mean(gradient, axis=stretched).reshape(shape) if np.size(gradient) else np.zeros(shape)


# %% wrong: axes of size 1 dropped | axis of size 1 is lost


def undo_broadcast(gradient, shape):
    added = np.ndim(gradient) - len(shape)
    stretched = tuple(range(added)) + tuple(added + axis for axis, size in enumerate(shape) if size == 1)
    return np.asarray(np.sum(gradient, axis=stretched))


# %% wrong: only the axes added in front are summed | should be summed down to|Sum it over


def undo_broadcast(gradient, shape):
    return np.asarray(np.sum(gradient, axis=tuple(range(np.ndim(gradient) - len(shape)))))


def matmul_rule(g, x, y):
    a, b = (x[None, :] if x.ndim == 1 else x), (y[:, None] if y.ndim == 1 else y)
    g = np.reshape(g, (a @ b).shape)
    dx, dy = g @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ g
    return undo_broadcast(dx, a.shape).reshape(x.shape), undo_broadcast(dy, b.shape).reshape(y.shape)


# %% wrong: dy transposed | transposed


def matmul_rule(g, x, y):
    a, b = (x[None, :] if x.ndim == 1 else x), (y[:, None] if y.ndim == 1 else y)
    g = np.reshape(g, (a @ b).shape)
    dx = undo_broadcast(g @ np.swapaxes(b, -1, -2), a.shape).reshape(x.shape)
    if x.ndim == y.ndim == 2:
        return dx, g.T @ x
    return dx, undo_broadcast(np.swapaxes(a, -1, -2) @ g, b.shape).reshape(y.shape)


# %% wrong: .T reverses the batch axes too


def matmul_rule(g, x, y):
    a, b = (x[None, :] if x.ndim == 1 else x), (y[:, None] if y.ndim == 1 else y)
    g = np.reshape(g, (a @ b).shape)
    return undo_broadcast(g @ b.T, a.shape).reshape(x.shape), undo_broadcast(a.T @ g, b.shape).reshape(y.shape)


# %% wrong: vectors forgotten | 1-D|1-d


def matmul_rule(g, x, y):
    return undo_broadcast(g @ np.swapaxes(y, -1, -2), x.shape), undo_broadcast(np.swapaxes(x, -1, -2) @ g, y.shape)


# %% wrong: the cotangent left out | all ones


def mul_rule(g, x, y):
    full = np.broadcast_shapes(x.shape, y.shape)
    return undo_broadcast(np.broadcast_to(y, full), x.shape), undo_broadcast(np.broadcast_to(x, full), y.shape)


# %% wrong: float64 whatever came | dtype grew


def mul_rule(g, x, y):
    return undo_broadcast(np.float64(1) * np.asarray(g, dtype=float) * y, x.shape), undo_broadcast(
        np.asarray(g, dtype=float) * x, y.shape
    )


# %% wrong: computed in float32, handed back in float64 | digits are lost


def mul_rule(g, x, y):
    few = g.astype(np.float32)
    return undo_broadcast((few * y.astype(np.float32)).astype(g.dtype), x.shape), undo_broadcast(
        (few * x.astype(np.float32)).astype(g.dtype), y.shape
    )


# %% wrong: the sign of dy | sign


def mul_rule(g, x, y):
    return undo_broadcast(g * y, x.shape), -undo_broadcast(g * x, y.shape)


# %% wrong: writes into the cotangent | only given to read


def mul_rule(g, x, y):
    dy = undo_broadcast(g * x, y.shape)
    g *= y
    return undo_broadcast(g, x.shape), dy


# %% wrong: batches of the matrix product not summed | Broadcasting is not undone


def matmul_rule(g, x, y):
    a, b = (x[None, :] if x.ndim == 1 else x), (y[:, None] if y.ndim == 1 else y)
    g = np.reshape(g, (a @ b).shape)
    dx, dy = g @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ g
    return dx.reshape(x.shape) if dx.size == x.size else dx, dy.reshape(y.shape) if dy.size == y.size else dy


# %% wrong: dx only | expected a pair


def mul_rule(g, x, y):
    return undo_broadcast(g * y, x.shape)


# %% wrong: reshape where a sum is needed | more or fewer entries


def undo_broadcast(gradient, shape):
    return np.reshape(gradient, shape)


# %% wrong: a Python number for 0-d | Python|float


def mul_rule(g, x, y):
    dx, dy = undo_broadcast(g * y, x.shape), undo_broadcast(g * x, y.shape)
    return (float(dx) if dx.ndim == 0 else dx), (float(dy) if dy.ndim == 0 else dy)


# %% wrong: the hole left open | not been filled


def mul_rule(g, x, y):
    raise NotImplementedError


def matmul_rule(g, x, y):
    raise NotImplementedError
