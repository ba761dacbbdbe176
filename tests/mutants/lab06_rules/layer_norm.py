"""Answers to the task `layer_norm`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: step by step, as a tape would


def layer_norm_rule(g, x, weight, bias, eps):
    n = x.shape[-1]
    mean = x.sum(axis=-1, keepdims=True) / n
    centred = x - mean
    variance = (centred**2).sum(axis=-1, keepdims=True) / n
    root = np.sqrt(variance + eps)
    normal = centred / root
    rows = tuple(range(x.ndim - 1))
    dnormal = g * weight
    droot = (-dnormal * centred / root**2).sum(axis=-1, keepdims=True)
    dvariance = droot / (2 * root)
    dcentred = dnormal / root + dvariance * 2 * centred / n
    dmean = -dcentred.sum(axis=-1, keepdims=True)
    dx = dcentred + dmean / n
    return dx, np.sum(g * normal, axis=rows), np.sum(g, axis=rows)


# %% right: the whole Jacobian of a row


def layer_norm_rule(g, x, weight, bias, eps):
    n = x.shape[-1]
    dx, dweight, dbias = np.zeros_like(x), np.zeros_like(weight), np.zeros_like(bias)
    centre = np.eye(n, dtype=x.dtype) - np.ones((n, n), x.dtype) / n
    for place in np.ndindex(x.shape[:-1]):
        centred = centre @ x[place]
        root = np.sqrt(centred @ centred / n + eps)
        h = centred / root
        jacobian = (centre - np.outer(h, h) / n) / root
        dx[place] = jacobian @ (g[place] * weight)
        dweight += g[place] * h
        dbias += g[place]
    return [dx, dweight, dbias]


# %% wrong: mean and variance taken for constants | taken for constants


def layer_norm_rule(g, x, weight, bias, eps):
    normal, scale, rows = parts(x, eps)
    return g * weight * scale, np.sum(g * normal, axis=rows), np.sum(g, axis=rows)


def parts(x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(eps))
    return centred * scale, scale, tuple(range(x.ndim - 1))


# %% wrong: the mean's term alone | term of the variance is missing


def layer_norm_rule(g, x, weight, bias, eps):
    normal, scale, rows = parts(x, eps)
    h = g * weight
    dx = scale * (h - h.mean(axis=-1, keepdims=True))
    return dx, np.sum(g * normal, axis=rows), np.sum(g, axis=rows)


def parts(x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(eps))
    return centred * scale, scale, tuple(range(x.ndim - 1))


# %% wrong: the variance's term alone | term of the mean is missing


def layer_norm_rule(g, x, weight, bias, eps):
    normal, scale, rows = parts(x, eps)
    h = g * weight
    dx = scale * (h - normal * np.mean(h * normal, axis=-1, keepdims=True))
    return dx, np.sum(g * normal, axis=rows), np.sum(g, axis=rows)


def parts(x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(eps))
    return centred * scale, scale, tuple(range(x.ndim - 1))


# %% wrong: weight left out of dx | weight is missing


def layer_norm_rule(g, x, weight, bias, eps):
    normal, scale, rows = parts(x, eps)
    dx = scale * (g - g.mean(axis=-1, keepdims=True) - normal * np.mean(g * normal, axis=-1, keepdims=True))
    return dx, np.sum(g * normal, axis=rows), np.sum(g, axis=rows)


def parts(x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(eps))
    return centred * scale, scale, tuple(range(x.ndim - 1))


# %% wrong: weight multiplied in at the end | multiplied in at the end


def layer_norm_rule(g, x, weight, bias, eps):
    normal, scale, rows = parts(x, eps)
    dx = scale * (g - g.mean(axis=-1, keepdims=True) - normal * np.mean(g * normal, axis=-1, keepdims=True))
    return weight * dx, np.sum(g * normal, axis=rows), np.sum(g, axis=rows)


def parts(x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(eps))
    return centred * scale, scale, tuple(range(x.ndim - 1))


# %% wrong: eps outside the root | outside the root


def layer_norm_rule(g, x, weight, bias, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / (np.std(x, axis=-1, keepdims=True) + x.dtype.type(eps))
    normal, rows, h = centred * scale, tuple(range(x.ndim - 1)), g * weight
    dx = scale * (h - h.mean(axis=-1, keepdims=True) - normal * np.mean(h * normal, axis=-1, keepdims=True))
    return dx, np.sum(g * normal, axis=rows), np.sum(g, axis=rows)


# %% wrong: the variance of a sample | n - 1


def layer_norm_rule(g, x, weight, bias, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).sum(axis=-1, keepdims=True) / max(x.shape[-1] - 1, 1)
    scale = 1 / np.sqrt(variance + x.dtype.type(eps))
    normal, rows, h = centred * scale, tuple(range(x.ndim - 1)), g * weight
    dx = scale * (h - h.mean(axis=-1, keepdims=True) - normal * np.mean(h * normal, axis=-1, keepdims=True))
    return dx, np.sum(g * normal, axis=rows), np.sum(g, axis=rows)


# %% wrong: eps forgotten | eps


def layer_norm_rule(g, x, weight, bias, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.std(x, axis=-1, keepdims=True)
    normal, rows, h = centred * scale, tuple(range(x.ndim - 1)), g * weight
    dx = scale * (h - h.mean(axis=-1, keepdims=True) - normal * np.mean(h * normal, axis=-1, keepdims=True))
    return dx, np.sum(g * normal, axis=rows), np.sum(g, axis=rows)


# %% wrong: sums where means should be | summed over the features where


def layer_norm_rule(g, x, weight, bias, eps):
    normal, scale, rows = parts(x, eps)
    h = g * weight
    dx = scale * (h - h.sum(axis=-1, keepdims=True) - normal * np.sum(h * normal, axis=-1, keepdims=True))
    return dx, np.sum(g * normal, axis=rows), np.sum(g, axis=rows)


def parts(x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(eps))
    return centred * scale, scale, tuple(range(x.ndim - 1))


# %% wrong: dweight from x itself | normalised x should


def layer_norm_rule(g, x, weight, bias, eps):
    normal, scale, rows = parts(x, eps)
    h = g * weight
    dx = scale * (h - h.mean(axis=-1, keepdims=True) - normal * np.mean(h * normal, axis=-1, keepdims=True))
    return dx, np.sum(g * x, axis=rows), np.sum(g, axis=rows)


def parts(x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(eps))
    return centred * scale, scale, tuple(range(x.ndim - 1))


# %% wrong: dweight summed over the first axis only | first axis only|axis 0|1-d


def layer_norm_rule(g, x, weight, bias, eps):
    normal, scale, _ = parts(x, eps)
    h = g * weight
    dx = scale * (h - h.mean(axis=-1, keepdims=True) - normal * np.mean(h * normal, axis=-1, keepdims=True))
    return dx, np.sum(g * normal, axis=0), np.sum(g, axis=0)


def parts(x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(eps))
    return centred * scale, scale, tuple(range(x.ndim - 1))


# %% wrong: normalised over the batch | over the batch|last axis


def layer_norm_rule(g, x, weight, bias, eps):
    normal, scale, rows = parts(x, eps)
    h = g * weight
    dx = scale * (h - h.mean(axis=0, keepdims=True) - normal * np.mean(h * normal, axis=0, keepdims=True))
    return dx, np.sum(g * normal, axis=rows), np.sum(g, axis=rows)


def parts(x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(eps))
    return centred * scale, scale, tuple(range(x.ndim - 1))


# %% wrong: dbias averaged | averaged


def layer_norm_rule(g, x, weight, bias, eps):
    normal, scale, rows = parts(x, eps)
    h = g * weight
    dx = scale * (h - h.mean(axis=-1, keepdims=True) - normal * np.mean(h * normal, axis=-1, keepdims=True))
    return dx, np.sum(g * normal, axis=rows), np.sum(g, axis=rows) * x.shape[-1] / max(x.size, 1)


def parts(x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(eps))
    return centred * scale, scale, tuple(range(x.ndim - 1))


# %% wrong: the parameters come first | another order|shape


def layer_norm_rule(g, x, weight, bias, eps):
    normal, scale, rows = parts(x, eps)
    h = g * weight
    dx = scale * (h - h.mean(axis=-1, keepdims=True) - normal * np.mean(h * normal, axis=-1, keepdims=True))
    return np.sum(g * normal, axis=rows), np.sum(g, axis=rows), dx


def parts(x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(eps))
    return centred * scale, scale, tuple(range(x.ndim - 1))


# %% wrong: the hole left open | not been filled


def layer_norm_rule(g, x, weight, bias, eps):
    raise NotImplementedError
