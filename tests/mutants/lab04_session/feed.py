"""Answers to the task `feed`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B905, F811, F821

# %% right: the shape that was meant


def check_feed(name, shape, dtype, value):
    meant = value.shape
    if len(shape) == len(meant):
        meant = tuple(meant[axis] if size is None else size for axis, size in enumerate(shape))
    if (meant, np.dtype(dtype)) != (value.shape, value.dtype) or len(shape) != value.ndim:
        raise FeedError(f"{name}: expected {dtype} {shape}, got {value.dtype} {value.shape}")
    return value


# %% right: axis by axis


def check_feed(name, shape, dtype, value):
    if value.dtype.name != dtype:
        raise FeedError("wrong dtype for " + name)
    if value.ndim != len(shape):
        raise FeedError("wrong number of axes for " + name)
    for axis in range(value.ndim):
        if shape[axis] is not None and shape[axis] != value.shape[axis]:
            raise FeedError(f"axis {axis} of {name} is {value.shape[axis]} long, not {shape[axis]}")
    return value


# %% wrong: lets everything through | was let through


def check_feed(name, shape, dtype, value):
    return value


# %% wrong: refuses everything | was refused, and fits


def check_feed(name, shape, dtype, value):
    raise FeedError(name)


# %% wrong: zip stops at the shorter | axes, not


def check_feed(name, shape, dtype, value):
    if value.dtype != dtype or any(a is not None and a != b for a, b in zip(shape, value.shape)):
        raise FeedError(name)
    return value


# %% wrong: casts | a silent cast


def check_feed(name, shape, dtype, value):
    if len(shape) != value.ndim or any(a is not None and a != b for a, b in zip(shape, value.shape)):
        raise FeedError(name)
    return value.astype(dtype)


# %% wrong: broadcasts | broadcast does not help


def check_feed(name, shape, dtype, value):
    if value.dtype != dtype or len(shape) != value.ndim:
        raise FeedError(name)
    if any(a is not None and a != b and b != 1 for a, b in zip(shape, value.shape)):
        raise FeedError(name)
    return value


# %% wrong: None is not 0 | None stands for any size


def check_feed(name, shape, dtype, value):
    fits = len(shape) == value.ndim and all((a is None and b > 0) or a == b for a, b in zip(shape, value.shape))
    if not fits or value.dtype != dtype:
        raise FeedError(name)
    return value


# %% wrong: a size of 0 is any size | was let through


def check_feed(name, shape, dtype, value):
    fits = len(shape) == value.ndim and all(not a or a == b for a, b in zip(shape, value.shape))
    if not fits or value.dtype != dtype:
        raise FeedError(name)
    return value


# %% wrong: the message names nothing | does not name the placeholder


def check_feed(name, shape, dtype, value):
    fits = len(shape) == value.ndim and all(a in (None, b) for a, b in zip(shape, value.shape))
    if not fits or value.dtype != dtype:
        raise FeedError("this feed does not fit")
    return value


# %% wrong: another error | ValueError


def check_feed(name, shape, dtype, value):
    fits = len(shape) == value.ndim and all(a in (None, b) for a, b in zip(shape, value.shape))
    if not fits or value.dtype != dtype:
        raise ValueError(name)
    return value


# %% wrong: only the kind of dtype | a silent cast


def check_feed(name, shape, dtype, value):
    fits = len(shape) == value.ndim and all(a in (None, b) for a, b in zip(shape, value.shape))
    if not fits or value.dtype.kind != np.dtype(dtype).kind:
        raise FeedError(name)
    return value


# %% wrong: changes what was fed | not the one that was fed


def check_feed(name, shape, dtype, value):
    fits = len(shape) == value.ndim and all(a in (None, b) for a, b in zip(shape, value.shape))
    if not fits or value.dtype != dtype:
        raise FeedError(name)
    return np.abs(value) + 1
