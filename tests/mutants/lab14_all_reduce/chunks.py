"""Answers to the task `chunks`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: by multiplication


def chunk_bounds(n, p):
    edge = lambda i: i * (n // p) + min(i, n % p)  # noqa: E731
    return [(edge(i), edge(i + 1)) for i in range(p)]


# %% right: NumPy cuts


def chunk_bounds(n, p):
    parts = np.array_split(np.arange(n), p)
    ends = np.cumsum([0] + [len(part) for part in parts])
    return [[ends[i], ends[i + 1]] for i in range(p)]


# %% wrong: the rest is lost | no multiple of


def chunk_bounds(n, p):
    size = n // p
    return [(i * size, (i + 1) * size) for i in range(p)]


# %% wrong: the last chunk takes the rest | larger chunks come first|differ by one


def chunk_bounds(n, p):
    size = n // p
    return [(i * size, (i + 1) * size if i < p - 1 else n) for i in range(p)]


# %% wrong: rounded up | differ by one at most|ends before it begins|larger chunks come first


def chunk_bounds(n, p):
    size = -(-n // p)
    return [(min(i * size, n), min((i + 1) * size, n)) for i in range(p)]


# %% wrong: the larger ones last | larger chunks come first


def chunk_bounds(n, p):
    size, rest = divmod(n, p)
    bounds, start = [], 0
    for i in range(p):
        stop = start + size + (i >= p - rest)
        bounds.append((start, stop))
        start = stop
    return bounds


# %% wrong: spread by rounding | larger chunks come first


def chunk_bounds(n, p):
    return [(i * n // p, (i + 1) * n // p) for i in range(p)]


# %% wrong: empty chunks are left out | one for each rank


def chunk_bounds(n, p):
    size, rest = divmod(n, p)
    bounds, start = [], 0
    for i in range(p):
        stop = start + size + (i < rest)
        if stop > start:
            bounds.append((start, stop))
        start = stop
    return bounds


# %% wrong: inclusive ends | index after the last element


def chunk_bounds(n, p):
    size, rest = divmod(n, p)
    bounds, start = [], 0
    for i in range(p):
        stop = start + size + (i < rest)
        bounds.append((start, stop - 1))
        start = stop
    return bounds


# %% wrong: start and length | a start and a length


def chunk_bounds(n, p):
    size, rest = divmod(n, p)
    bounds, start = [], 0
    for i in range(p):
        length = size + (i < rest)
        bounds.append((start, length))
        start += length
    return bounds


# %% wrong: sizes only | expected pairs


def chunk_bounds(n, p):
    return [n // p + (i < n % p) for i in range(p)]


# %% wrong: one chunk more for the rest | one for each rank


def chunk_bounds(n, p):
    size = n // p
    bounds = [(i * size, (i + 1) * size) for i in range(p)]
    return [*bounds, (p * size, n)] if n % p else bounds
