"""Answers to the task `compress`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821


# %% right: argpartition


class TopK:
    def __init__(self, k):
        self.k, self.kept = k, 0

    def encode(self, gradient):
        whole = self.kept + gradient
        n = len(whole)
        places = np.arange(n) if self.k >= n else np.argpartition(np.abs(whole), n - self.k)[n - self.k :]
        mask = np.zeros(n, bool)
        mask[places] = True
        self.kept = np.where(mask, 0, whole).astype(gradient.dtype)
        return np.flatnonzero(mask), whole[mask]


# %% right: a list, sorted


class TopK:
    def __init__(self, k):
        self.k = k
        self.left = None

    def encode(self, gradient):
        if self.left is None:
            self.left = np.zeros_like(gradient)
        self.left = self.left + gradient
        order = sorted(range(len(gradient)), key=lambda i: abs(self.left[i]), reverse=True)
        chosen = np.array(order[: self.k], dtype=int)
        values = self.left[chosen].copy()
        self.left[chosen] = 0
        return chosen, values


# %% wrong: no feedback | of the gradient alone|left over from before


class TopK:
    def __init__(self, k):
        self.k = k

    def encode(self, gradient):
        indices = np.argsort(-np.abs(gradient))[: self.k]
        return indices, gradient[indices]


# %% wrong: what was sent is kept too | sent again|left over


class TopK:
    def __init__(self, k):
        self.k, self.rest = k, 0

    def encode(self, gradient):
        self.rest = self.rest + gradient
        indices = np.argsort(-np.abs(self.rest))[: self.k]
        return indices, self.rest[indices]


# %% wrong: largest, not largest in magnitude | what counts is the magnitude


class TopK:
    def __init__(self, k):
        self.k, self.rest = k, 0

    def encode(self, gradient):
        self.rest = self.rest + gradient
        indices = np.argsort(-self.rest)[: self.k]
        values = self.rest[indices]
        self.rest[indices] = 0
        return indices, values


# %% wrong: the smallest | These are the smallest


class TopK:
    def __init__(self, k):
        self.k, self.rest = k, 0

    def encode(self, gradient):
        self.rest = self.rest + gradient
        indices = np.argsort(np.abs(self.rest))[: self.k]
        values = self.rest[indices]
        self.rest[indices] = 0
        return indices, values


# %% wrong: magnitudes are sent | with their signs


class TopK:
    def __init__(self, k):
        self.k, self.rest = k, 0

    def encode(self, gradient):
        self.rest = self.rest + gradient
        indices = np.argsort(-np.abs(self.rest))[: self.k]
        values = np.abs(self.rest[indices])
        self.rest[indices] = 0
        return indices, values


# %% wrong: chosen by the gradient alone | of the gradient alone


class TopK:
    def __init__(self, k):
        self.k, self.rest = k, 0

    def encode(self, gradient):
        self.rest = self.rest + gradient
        indices = np.argsort(-np.abs(gradient))[: self.k]
        values = self.rest[indices]
        self.rest[indices] = 0
        return indices, values


# %% wrong: the values of the gradient alone are sent | left over from before


class TopK:
    def __init__(self, k):
        self.k, self.rest = k, 0

    def encode(self, gradient):
        self.rest = self.rest + gradient
        indices = np.argsort(-np.abs(self.rest))[: self.k]
        values = gradient[indices]
        self.rest[indices] = 0
        return indices, values


# %% wrong: only the last rest is kept | left over|alone|entries


class TopK:
    def __init__(self, k):
        self.k, self.rest = k, 0

    def encode(self, gradient):
        whole = self.rest + gradient
        indices = np.argsort(-np.abs(whole))[: self.k]
        values = whole[indices]
        self.rest = gradient.copy()
        self.rest[indices] = 0
        return indices, values


# %% wrong: k is off by one | entries were sent


class TopK:
    def __init__(self, k):
        self.k, self.rest = k, 0

    def encode(self, gradient):
        self.rest = self.rest + gradient
        indices = np.argsort(-np.abs(self.rest))[: self.k + 1]
        values = self.rest[indices]
        self.rest[indices] = 0
        return indices, values


# %% wrong: the gradient itself is emptied | has been changed


class TopK:
    def __init__(self, k):
        self.k, self.rest = k, None

    def encode(self, gradient):
        if self.rest is not None:
            gradient += self.rest
        indices = np.argsort(-np.abs(gradient))[: self.k]
        values = gradient[indices]
        gradient[indices] = 0
        self.rest = gradient
        return indices, values


# %% wrong: the rest is a float64 | values are float64


class TopK:
    def __init__(self, k):
        self.k, self.rest = k, 0

    def encode(self, gradient):
        self.rest = self.rest + gradient.astype(float)
        indices = np.argsort(-np.abs(self.rest))[: self.k]
        values = self.rest[indices]
        self.rest[indices] = 0
        return indices, values
