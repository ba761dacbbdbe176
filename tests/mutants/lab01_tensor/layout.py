"""Answers to the task `layout`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B905, F811, F821

# %% right: products of what comes after


def strides_of(shape):
    return tuple(int(np.prod([n or 1 for n in shape[axis + 1 :]], dtype=int)) for axis in range(len(shape)))


def locate(index, strides, offset):
    return int(np.dot(index, strides)) + offset if index else offset


# %% right: recursion from the front


def strides_of(shape):
    if not shape:
        return []
    rest = list(strides_of(shape[1:]))
    return [max(shape[1], 1) * rest[0] if rest else 1, *rest]


def locate(index, strides, offset):
    if not index:
        return offset
    return locate(index[1:], strides[1:], offset + index[0] * strides[0])


# %% wrong: column-major | column-major


def strides_of(shape):
    strides, step = [], 1
    for size in shape:
        strides.append(step)
        step *= max(size, 1)
    return tuple(strides)


def locate(index, strides, offset):
    return offset + sum(i * s for i, s in zip(index, strides))


# %% wrong: its own size in the stride | its own size is in it


def strides_of(shape):
    strides, step = [], 1
    for size in reversed(shape):
        step *= max(size, 1)
        strides.append(step)
    return tuple(reversed(strides))


def locate(index, strides, offset):
    return offset + sum(i * s for i, s in zip(index, strides))


# %% wrong: not turned round at the end | in reverse


def strides_of(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(strides)


def locate(index, strides, offset):
    return offset + sum(i * s for i, s in zip(index, strides))


# %% wrong: bytes, as NumPy has them | count bytes


def strides_of(shape):
    return tuple(8 * int(np.prod([n or 1 for n in shape[axis + 1 :]], dtype=int)) for axis in range(len(shape)))


def locate(index, strides, offset):
    return offset + sum(i * s for i, s in zip(index, strides))


# %% wrong: a size of 0 makes strides of 0 | size 0 counts as 1


def strides_of(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def locate(index, strides, offset):
    return offset + sum(i * s for i, s in zip(index, strides))


# %% wrong: no offset | offset is left out


def strides_of(shape):
    return tuple(int(np.prod([n or 1 for n in shape[axis + 1 :]], dtype=int)) for axis in range(len(shape)))


def locate(index, strides, offset):
    return sum(i * s for i, s in zip(index, strides))


# %% wrong: strides without their signs | without their signs


def strides_of(shape):
    return tuple(int(np.prod([n or 1 for n in shape[axis + 1 :]], dtype=int)) for axis in range(len(shape)))


def locate(index, strides, offset):
    return offset + sum(i * abs(s) for i, s in zip(index, strides))


# %% wrong: strides met in reverse | in reverse order


def strides_of(shape):
    return tuple(int(np.prod([n or 1 for n in shape[axis + 1 :]], dtype=int)) for axis in range(len(shape)))


def locate(index, strides, offset):
    return offset + sum(i * s for i, s in zip(index, strides[::-1]))


# %% wrong: fails for 0-d | max|empty|0-d


def strides_of(shape):
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def locate(index, strides, offset):
    return offset + max(np.cumsum([i * s for i, s in zip(index, strides)]), key=abs)


# %% wrong: a float from a mean way of adding | float


def strides_of(shape):
    return tuple(np.prod([float(n or 1) for n in shape[axis + 1 :]]) for axis in range(len(shape)))


def locate(index, strides, offset):
    return offset + sum(i * s for i, s in zip(index, strides))
