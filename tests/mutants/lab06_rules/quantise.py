"""Answers to the task `quantise`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: three cases, entry by entry


def quantise_rule(g, x, scale, low, high):
    dx, dscale = np.zeros_like(x), scale.dtype.type(0)
    for place in np.ndindex(x.shape):
        v = x[place] / scale
        if v < low:
            dscale += g[place] * low
        elif v > high:
            dscale += g[place] * high
        else:
            dx[place] = g[place]
            dscale += g[place] * (np.round(v) - v)
    return dx, np.asarray(dscale, dtype=scale.dtype)


# %% right: with a clip


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    kept = np.clip(v, low, high)
    passes = (kept == v).astype(x.dtype)
    return [np.asarray(g * passes), np.sum(g * (np.round(kept) - passes * v), dtype=scale.dtype)]


# %% wrong: passes everywhere | passes everywhere


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    inside = (v >= low) & (v <= high)
    return g.copy(), np.sum(g * np.where(inside, np.round(v) - v, np.clip(v, low, high)), dtype=x.dtype)


# %% wrong: the true derivative | true derivative


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    inside = (v >= low) & (v <= high)
    return np.zeros_like(x), np.sum(g * np.where(inside, np.round(v) - v, np.clip(v, low, high)), dtype=x.dtype)


# %% wrong: limits compared with x | limits for x / scale


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    inside = (v >= low) & (v <= high)
    dscale = np.sum(g * np.where(inside, np.round(v) - v, np.clip(v, low, high)), dtype=x.dtype)
    return np.asarray(g * ((x >= low) & (x <= high)), dtype=x.dtype), dscale


# %% wrong: the ends shut out | exactly at low or high


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    inside = (v > low) & (v < high)
    dscale = np.sum(g * np.where(inside, np.round(v) - v, np.clip(v, low, high)), dtype=x.dtype)
    return np.asarray(g * inside, dtype=x.dtype), dscale


# %% wrong: the quotient forgotten | x / scale is missing


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    inside = (v >= low) & (v <= high)
    return np.asarray(g * inside, dtype=x.dtype), np.sum(g * np.clip(np.round(v), low, high), dtype=x.dtype)


# %% wrong: clipped numbers left out of dscale | left out


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    inside = (v >= low) & (v <= high)
    return np.asarray(g * inside, dtype=x.dtype), np.sum(g * inside * (np.round(v) - v), dtype=x.dtype)


# %% wrong: dscale not summed | sum over all


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    inside = (v >= low) & (v <= high)
    dscale = g * np.where(inside, np.round(v) - v, np.clip(v, low, high))
    return np.asarray(g * inside, dtype=x.dtype), np.asarray(dscale, dtype=x.dtype)


# %% wrong: dscale averaged | averaged


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    inside = (v >= low) & (v <= high)
    dscale = g * np.where(inside, np.round(v) - v, np.clip(v, low, high))
    return np.asarray(g * inside, dtype=x.dtype), np.sum(dscale, dtype=x.dtype) / max(x.size, 1)


# %% wrong: divided by the scale | scale too many


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    inside = (v >= low) & (v <= high)
    dscale = np.sum(g * np.where(inside, np.round(v) - v, np.clip(v, low, high)), dtype=x.dtype)
    return np.asarray(g * inside / scale, dtype=x.dtype), dscale


# %% wrong: v of clipped numbers still counted | no longer counts


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    inside = (v >= low) & (v <= high)
    return np.asarray(g * inside, dtype=x.dtype), np.sum(g * (np.clip(np.round(v), low, high) - v), dtype=x.dtype)


# %% wrong: only clipped from above | below low


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    inside = (v >= low) & (v <= high)
    dscale = np.sum(g * np.where(inside, np.round(v) - v, np.clip(v, low, high)), dtype=x.dtype)
    return np.asarray(g * (v <= high), dtype=x.dtype), dscale


# %% wrong: dx alone | expected 2 arrays


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    return np.asarray(g * ((v >= low) & (v <= high)), dtype=x.dtype)


# %% wrong: a Python number for dscale | Python|float


def quantise_rule(g, x, scale, low, high):
    v = x / scale
    inside = (v >= low) & (v <= high)
    dscale = np.sum(g * np.where(inside, np.round(v) - v, np.clip(v, low, high)))
    return np.asarray(g * inside, dtype=x.dtype), float(dscale)


# %% wrong: the hole left open | not been filled


def quantise_rule(g, x, scale, low, high):
    raise NotImplementedError
