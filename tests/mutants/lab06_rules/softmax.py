"""Answers to the task `softmax`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B905, F811, F821

# %% right: through the log of the sum of exp


def log_softmax_rule(g, x):
    top = x.max(axis=-1, keepdims=True)
    total = top + np.log(np.exp(x - top).sum(axis=-1, keepdims=True))
    return g - np.exp(x - total) * g.sum(axis=-1, keepdims=True)


def cross_entropy_rule(g, logits, target):
    wide = np.zeros_like(logits)
    wide[np.arange(len(target)), target] = -g
    return log_softmax_rule(wide, logits)


# %% right: the whole Jacobian, row by row


def log_softmax_rule(g, x):
    d = np.empty_like(x)
    for place in np.ndindex(x.shape[:-1]):
        e = np.exp(x[place] - x[place].max())
        p = e / e.sum()
        jacobian = np.eye(len(p), dtype=x.dtype) - p[None, :]
        d[place] = g[place] @ jacobian
    return d


def cross_entropy_rule(g, logits, target):
    d = np.empty_like(logits)
    for row, (logit, place) in enumerate(zip(logits, target)):
        e = np.exp(logit - logit.max())
        d[row] = g[row] * e / e.sum()
        d[row, place] -= g[row]
    return d


# %% wrong: exp without a shift | Subtract the largest entry


def log_softmax_rule(g, x):
    e = np.exp(x)
    return g - e / e.sum(axis=-1, keepdims=True) * g.sum(axis=-1, keepdims=True)


# %% wrong: shifted by the largest of all | Subtract the largest entry|exp overflows


def softmax(x):
    e = np.exp(x - x.max(initial=-np.inf))
    return e / e.sum(axis=-1, keepdims=True)


def log_softmax_rule(g, x):
    return g - softmax(x) * g.sum(axis=-1, keepdims=True)


def cross_entropy_rule(g, logits, target):
    d = softmax(logits)
    d[np.arange(len(target)), target] -= 1
    return g[:, None] * d


# %% wrong: the sum of g taken for 1 | sum of g is missing


def log_softmax_rule(g, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return g - e / e.sum(axis=-1, keepdims=True)


# %% wrong: the rule of softmax | rule of softmax


def log_softmax_rule(g, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p * (g - (g * p).sum(axis=-1, keepdims=True))


# %% wrong: only the diagonal | diagonal


def log_softmax_rule(g, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return g * (1 - e / e.sum(axis=-1, keepdims=True))


# %% wrong: along the first axis | first axis


def log_softmax_rule(g, x):
    e = np.exp(x - x.max(axis=0, keepdims=True, initial=-np.inf))
    return g - e / e.sum(axis=0, keepdims=True) * g.sum(axis=0, keepdims=True)


# %% wrong: the cotangent of cross-entropy left out | cotangent is ignored


def cross_entropy_rule(g, logits, target):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    d = e / e.sum(axis=-1, keepdims=True)
    d[np.arange(len(target)), target] -= 1
    return d


# %% wrong: divided by the batch | batch size


def cross_entropy_rule(g, logits, target):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    d = e / e.sum(axis=-1, keepdims=True)
    d[np.arange(len(target)), target] -= 1
    return g[:, None] * d / max(len(target), 1)


# %% wrong: one hot minus softmax | sign


def cross_entropy_rule(g, logits, target):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    d = -e / e.sum(axis=-1, keepdims=True)
    d[np.arange(len(target)), target] += 1
    return g[:, None] * d


# %% wrong: every target in every row | in every row for every target


def cross_entropy_rule(g, logits, target):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    d = e / e.sum(axis=-1, keepdims=True)
    d[:, target] -= 1
    return g[:, None] * d


# %% wrong: the one not subtracted | not subtracted


def cross_entropy_rule(g, logits, target):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return g[:, None] * (e / e.sum(axis=-1, keepdims=True))


# %% wrong: g along the classes | multiplied in along the classes|Two shapes do not fit


def cross_entropy_rule(g, logits, target):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    d = e / e.sum(axis=-1, keepdims=True)
    d[np.arange(len(target)), target] -= 1
    return g * d


# %% wrong: float64 from np.eye | dtype grew


def cross_entropy_rule(g, logits, target):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return g[:, None] * (e / e.sum(axis=-1, keepdims=True) - np.eye(logits.shape[1])[target])


# %% wrong: the second term added | wrong sign


def log_softmax_rule(g, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return g + e / e.sum(axis=-1, keepdims=True) * g.sum(axis=-1, keepdims=True)


# %% wrong: the hole left open | not been filled


def log_softmax_rule(g, x):
    raise NotImplementedError


def cross_entropy_rule(g, logits, target):
    raise NotImplementedError
