"""Answers to the task `jacobian`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: stacked


def jacobian(push, pull, inner, outer):
    n, m = int(np.prod(inner)), int(np.prod(outer))
    if not n or not m:
        return np.zeros((*outer, *inner))
    if m < n:
        rows = [pull(unit.reshape(outer)) for unit in np.eye(m)]
        return np.stack(rows).reshape((*outer, *inner))
    columns = [push(unit.reshape(inner)) for unit in np.eye(n)]
    return np.stack(columns, axis=-1).reshape((*outer, *inner))


# %% right: entry by entry of a unit array


def jacobian(push, pull, inner, outer):
    J = np.zeros((*outer, *inner))
    if np.prod(inner) <= np.prod(outer):
        for j in np.ndindex(*inner):
            unit = np.zeros(inner)
            unit[j] = 1.0
            J[(..., *j)] = push(unit)
    else:
        for i in np.ndindex(*outer):
            unit = np.zeros(outer)
            unit[i] = 1.0
            J[i] = pull(unit)
    return J


# %% wrong: always by columns | calls of push and pull


def jacobian(push, pull, inner, outer):
    n = int(np.prod(inner))
    columns = [push(unit.reshape(inner)).ravel() for unit in np.eye(n)]
    return np.array(columns).reshape(n, int(np.prod(outer))).T.reshape((*outer, *inner))


# %% wrong: always by rows | calls of push and pull


def jacobian(push, pull, inner, outer):
    m = int(np.prod(outer))
    return np.array([pull(unit.reshape(outer)) for unit in np.eye(m)]).reshape((*outer, *inner))


# %% wrong: the dearer side | calls of push and pull


def jacobian(push, pull, inner, outer):
    n, m = int(np.prod(inner)), int(np.prod(outer))
    J = np.zeros((m, n))
    if n >= m:
        for j, unit in enumerate(np.eye(n)):
            J[:, j] = push(unit.reshape(inner)).ravel()
    else:
        for i, unit in enumerate(np.eye(m)):
            J[i] = pull(unit.reshape(outer)).ravel()
    return J.reshape((*outer, *inner))


# %% wrong: sides chosen by the number of axes | calls of push and pull


def jacobian(push, pull, inner, outer):
    n, m = int(np.prod(inner)), int(np.prod(outer))
    J = np.zeros((m, n))
    if len(inner) <= len(outer):
        for j, unit in enumerate(np.eye(n)):
            J[:, j] = push(unit.reshape(inner)).ravel()
    else:
        for i, unit in enumerate(np.eye(m)):
            J[i] = pull(unit.reshape(outer)).ravel()
    return J.reshape((*outer, *inner))


# %% wrong: transposed | transposed|argument last|shape


def jacobian(push, pull, inner, outer):
    n, m = int(np.prod(inner)), int(np.prod(outer))
    J = np.zeros((m, n))
    if n <= m:
        for j, unit in enumerate(np.eye(n)):
            J[:, j] = push(unit.reshape(inner)).ravel()
    else:
        for i, unit in enumerate(np.eye(m)):
            J[i] = pull(unit.reshape(outer)).ravel()
    return J.T.reshape((*inner, *outer))


# %% wrong: columns laid down as rows | transposed


def jacobian(push, pull, inner, outer):
    n, m = int(np.prod(inner)), int(np.prod(outer))
    if n <= m:
        J = np.array([push(unit.reshape(inner)) for unit in np.eye(n)])
    else:
        J = np.array([pull(unit.reshape(outer)) for unit in np.eye(m)])
    return J.reshape((*outer, *inner))


# %% wrong: flat | shape


def jacobian(push, pull, inner, outer):
    n, m = int(np.prod(inner)), int(np.prod(outer))
    J = np.zeros((m, n))
    if n <= m:
        for j, unit in enumerate(np.eye(n)):
            J[:, j] = push(unit.reshape(inner)).ravel()
    else:
        for i, unit in enumerate(np.eye(m)):
            J[i] = pull(unit.reshape(outer)).ravel()
    return J


# %% wrong: ones instead of unit vectors | expected|shape|takes


def jacobian(push, pull, inner, outer):
    n, m = int(np.prod(inner)), int(np.prod(outer))
    J = np.zeros((m, n))
    for j in range(n):
        J[:, j] = push(np.ones(inner)).ravel()
    return J.reshape((*outer, *inner))


# %% wrong: flat unit vectors | takes


def jacobian(push, pull, inner, outer):
    n, m = int(np.prod(inner)), int(np.prod(outer))
    J = np.zeros((m, n))
    if n <= m:
        for j, unit in enumerate(np.eye(n)):
            J[:, j] = push(unit).ravel()
    else:
        for i, unit in enumerate(np.eye(m)):
            J[i] = pull(unit).ravel()
    return J.reshape((*outer, *inner))


# %% wrong: one product to learn the shape | calls of push and pull


def jacobian(push, pull, inner, outer):
    outer = push(np.zeros(inner)).shape
    n, m = int(np.prod(inner)), int(np.prod(outer))
    J = np.zeros((m, n))
    if n <= m:
        for j, unit in enumerate(np.eye(n)):
            J[:, j] = push(unit.reshape(inner)).ravel()
    else:
        for i, unit in enumerate(np.eye(m)):
            J[i] = pull(unit.reshape(outer)).ravel()
    return J.reshape((*outer, *inner))


# %% wrong: in float32 | float32


def jacobian(push, pull, inner, outer):
    n, m = int(np.prod(inner)), int(np.prod(outer))
    J = np.zeros((m, n), np.float32)
    if n <= m:
        for j, unit in enumerate(np.eye(n)):
            J[:, j] = push(unit.reshape(inner)).ravel()
    else:
        for i, unit in enumerate(np.eye(m)):
            J[i] = pull(unit.reshape(outer)).ravel()
    return J.reshape((*outer, *inner))


# %% wrong: the hole left open | not been filled


def jacobian(push, pull, inner, outer):
    raise NotImplementedError
