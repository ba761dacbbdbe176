"""Answers to the task `solve`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: with the remainders' lengths


def conjugate_gradient(product, b, tolerance, limit):
    p = np.zeros_like(b)
    r, d = b.copy(), b.copy()
    old, stop = r @ r, tolerance**2 * (b @ b)
    taken = 0
    while old > stop and taken < limit:
        Hd = product(d)
        taken += 1
        bend = d @ Hd
        if not bend > 0:
            return b.copy() if taken == 1 else p
        alpha = old / bend
        p += alpha * d
        r -= alpha * Hd
        new = r @ r
        d *= new / old
        d += r
        old = new
    return p


# %% right: from an orthogonal basis of what the products span


def conjugate_gradient(product, b, tolerance, limit):
    p, r = np.zeros_like(b), b
    directions = []
    for _ in range(limit):
        if np.linalg.norm(r) <= tolerance * np.linalg.norm(b):
            return p
        d = r
        for one, moved, bend in directions:
            d = d - one * (moved @ r) / bend
        moved = product(d)
        bend = d @ moved
        if bend <= 0:
            return p if directions else b
        directions.append((d, moved, bend))
        step = (d @ r) / bend
        p, r = p + step * d, r - step * moved
    return p


# %% wrong: steepest descent | gradient descent|products


def conjugate_gradient(product, b, tolerance, limit):
    p, r = np.zeros_like(b), b
    for step in range(limit):
        if np.linalg.norm(r) <= tolerance * np.linalg.norm(b):
            break
        moved = product(r)
        bend = r @ moved
        if bend <= 0:
            return p if step else b
        size = (r @ r) / bend
        p, r = p + size * r, r - size * moved
    return p


# %% wrong: beta upside down | old r'r by the new|calls of product


def conjugate_gradient(product, b, tolerance, limit):
    p, r = np.zeros_like(b), b
    d = r
    for step in range(limit):
        if np.linalg.norm(r) <= tolerance * np.linalg.norm(b):
            break
        moved = product(d)
        bend = d @ moved
        if bend <= 0:
            return p if step else b
        size = (r @ r) / bend
        p = p + size * d
        left = r - size * moved
        d = left + (r @ r) / (left @ left) * d
        r = left
    return p


# %% wrong: negative curvature is not looked at | not positive definite|Hd


def conjugate_gradient(product, b, tolerance, limit):
    p, r = np.zeros_like(b), b
    d = r
    for _ in range(limit):
        if np.linalg.norm(r) <= tolerance * np.linalg.norm(b):
            break
        moved = product(d)
        size = (r @ r) / (d @ moved)
        p = p + size * d
        left = r - size * moved
        d = left + (left @ left) / (r @ r) * d
        r = left
    return p


# %% wrong: zeros where the first direction bends down | not positive definite|Hd


def conjugate_gradient(product, b, tolerance, limit):
    p, r = np.zeros_like(b), b
    d = r
    for _ in range(limit):
        if np.linalg.norm(r) <= tolerance * np.linalg.norm(b):
            break
        moved = product(d)
        bend = d @ moved
        if bend <= 0:
            return p
        size = (r @ r) / bend
        p = p + size * d
        left = r - size * moved
        d = left + (left @ left) / (r @ r) * d
        r = left
    return p


# %% wrong: b whenever it bends down | not positive definite|Hd


def conjugate_gradient(product, b, tolerance, limit):
    p, r = np.zeros_like(b), b
    d = r
    for _ in range(limit):
        if np.linalg.norm(r) <= tolerance * np.linalg.norm(b):
            break
        moved = product(d)
        bend = d @ moved
        if bend <= 0:
            return b
        size = (r @ r) / bend
        p = p + size * d
        left = r - size * moved
        d = left + (left @ left) / (r @ r) * d
        r = left
    return p


# %% wrong: nothing left, divided by | NaN


def conjugate_gradient(product, b, tolerance, limit):
    p, r = np.zeros_like(b), b
    d = r
    for step in range(limit):
        moved = product(d)
        bend = d @ moved
        if bend < 0:
            return p if step else b
        size = (r @ r) / bend
        p = p + size * d
        left = r - size * moved
        if np.linalg.norm(left) <= tolerance * np.linalg.norm(b):
            break
        d = left + (left @ left) / (r @ r) * d
        r = left
    return p


# %% wrong: the tolerance is not relative | products


def conjugate_gradient(product, b, tolerance, limit):
    p, r = np.zeros_like(b), b
    d = r
    for step in range(limit):
        if r @ r <= tolerance:
            break
        moved = product(d)
        bend = d @ moved
        if bend <= 0:
            return p if step else b
        size = (r @ r) / bend
        p = p + size * d
        left = r - size * moved
        d = left + (left @ left) / (r @ r) * d
        r = left
    return p


# %% wrong: a product more to see what is left | calls of product


def conjugate_gradient(product, b, tolerance, limit):
    p, r = np.zeros_like(b), b
    d = r
    for step in range(limit):
        if np.linalg.norm(r) <= tolerance * np.linalg.norm(b):
            break
        moved = product(d)
        bend = d @ moved
        if bend <= 0:
            return p if step else b
        size = (r @ r) / bend
        p = p + size * d
        left = b - product(p)
        d = left + (left @ left) / (r @ r) * d
        r = left
    return p


# %% wrong: the limit is passed by one | calls of product


def conjugate_gradient(product, b, tolerance, limit):
    p, r = np.zeros_like(b), b
    d = r
    for step in range(limit + 1):
        if np.linalg.norm(r) <= tolerance * np.linalg.norm(b):
            break
        moved = product(d)
        bend = d @ moved
        if bend <= 0:
            return p if step else b
        size = (r @ r) / bend
        p = p + size * d
        left = r - size * moved
        d = left + (left @ left) / (r @ r) * d
        r = left
    return p


# %% wrong: the whole matrix is built | calls of product|products


def conjugate_gradient(product, b, tolerance, limit):
    H = np.stack([product(unit) for unit in np.eye(len(b))], axis=1)
    return np.linalg.solve(H, b)


# %% wrong: r is overwritten too early | beta is 1 throughout


def conjugate_gradient(product, b, tolerance, limit):
    p, r = np.zeros_like(b), b
    d = r
    for step in range(limit):
        if np.linalg.norm(r) <= tolerance * np.linalg.norm(b):
            break
        moved = product(d)
        bend = d @ moved
        if bend <= 0:
            return p if step else b
        size = (r @ r) / bend
        p = p + size * d
        r = r - size * moved
        d = r + (r @ r) / (r @ r) * d
    return p


# %% wrong: the direction is the remainder itself | one array under two names


def conjugate_gradient(product, b, tolerance, limit):
    p, r = np.zeros_like(b), b.copy()
    d, old = r, r @ r
    for step in range(limit):
        if np.linalg.norm(r) <= tolerance * np.linalg.norm(b):
            return p
        Hd = product(d)
        bend = d @ Hd
        if bend <= 0:
            return p if step else b
        alpha = old / bend
        p += alpha * d
        r -= alpha * Hd
        new = r @ r
        d, old = r + new / old * d, new
    return p


# %% wrong: writes into b | read-only|can't be written


def conjugate_gradient(product, b, tolerance, limit):
    p, r, enough = np.zeros_like(b), b, tolerance * np.linalg.norm(b)
    d = r.copy()
    for step in range(limit):
        if np.linalg.norm(r) <= enough:
            break
        moved = product(d)
        bend = d @ moved
        if bend <= 0:
            return p if step else b
        old = r @ r
        p += old / bend * d
        r -= old / bend * moved
        d = r + (r @ r) / old * d
    return p


# %% wrong: the hole left open | not been filled


def conjugate_gradient(product, b, tolerance, limit):
    raise NotImplementedError
