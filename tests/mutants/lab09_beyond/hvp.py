"""Answers to the task `hvp`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B023, F811, F821, F841

# %% right: reverse over forward


def hvp(f, x, v):
    return gradient(lambda y: jvp(f, (y,), (v,))[1])(x)


# %% right: reverse over reverse


def hvp(f, x, v):
    slope = gradient(f)
    return gradient(lambda y: total(slope(y) * v))(x)


# %% right: by hand, on a dual number


def hvp(f, x, v):
    level = new_level()
    moved = gradient(f)(Dual(x, v, level))
    if isinstance(moved, Dual) and moved.level == level and moved.tangent is not None:
        return moved.tangent
    return zeros_like(x)


# %% wrong: differences of gradients | not exact|expected


def hvp(f, x, v):
    h = 1e-5
    slope = gradient(f)
    return (slope(x + h * v) - slope(x)) / h


# %% wrong: central differences of gradients | not exact|expected


def hvp(f, x, v):
    h = np.asarray(1e-4, x.dtype)
    slope = gradient(f)
    return (slope(x + h * v) - slope(x - h * v)) / (2 * h)


# %% wrong: the whole Hessian | times for an x of


def hvp(f, x, v):
    slope = gradient(f)
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        unit = np.zeros_like(x)
        unit[place] = 1
        found += jvp(slope, (x,), (unit,))[1] * v[place]
    return found


# %% wrong: entry by entry | times for an x of


def hvp(f, x, v):
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        unit = np.zeros_like(x)
        unit[place] = 1
        found[place] = jvp(lambda y: jvp(f, (y,), (unit,))[1], (x,), (v,))[1]
    return found


# %% wrong: the gradient | gradient


def hvp(f, x, v):
    return jvp(gradient(f), (x,), (v,))[0]


# %% wrong: a pair | tuple


def hvp(f, x, v):
    return jvp(gradient(f), (x,), (v,))


# %% wrong: v'Hv | v'Hv|number


def hvp(f, x, v):
    return np.asarray(np.sum(v * jvp(gradient(f), (x,), (v,))[1]))


# %% wrong: the second derivative along v | v'Hv|number|expected


def hvp(f, x, v):
    return jvp(lambda y: jvp(f, (y,), (v,))[1], (x,), (v,))[1]


# %% wrong: a direction of ones | ones|expected


def hvp(f, x, v):
    return jvp(gradient(f), (x,), (np.ones_like(v),))[1]


# %% wrong: the diagonal | diagonal|expected


def hvp(f, x, v):
    slope = gradient(f)
    ones = np.ones_like(x)
    diagonal = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        unit = np.zeros_like(x)
        unit[place] = 1
        diagonal[place] = jvp(slope, (x,), (unit,))[1][place]
    return diagonal * v


# %% wrong: the gradient along v only | expected|shape


def hvp(f, x, v):
    return jvp(f, (x,), (v,))[1]


# %% wrong: the sign | sign|expected


def hvp(f, x, v):
    return -jvp(gradient(f), (x,), (v,))[1]


# %% wrong: a direction of length 1 | expected|ones


def hvp(f, x, v):
    return jvp(gradient(f), (x,), (v / np.sqrt(np.sum(v * v)),))[1]


# %% wrong: the hole left open | not been filled


def hvp(f, x, v):
    raise NotImplementedError
