"""Answers to the task `reshape`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B905, F811, F821

# %% right: ask NumPy


def as_numpy(view):
    size = view.storage.itemsize
    memory = view.storage[view.offset :] if 0 not in view.shape else view.storage
    return np.lib.stride_tricks.as_strided(memory, view.shape, [stride * size for stride in view.strides])


def is_contiguous(view):
    return as_numpy(view).flags.c_contiguous


def reshape(view, shape):
    found = np.reshape(as_numpy(view), shape, copy=False)
    return View(view.storage, shape, [stride // view.storage.itemsize for stride in found.strides], view.offset)


# %% right: fill in strides from both ends, and look whether every place is met


def reads(shape, strides):
    total = np.zeros((), int)
    for size, stride in zip(shape, strides):
        total = total[..., None] + np.arange(size) * stride
    return total


def is_contiguous(view):
    found = reads(view.shape, view.strides).ravel()
    return bool(np.array_equal(found, np.arange(found.size)))


def reshape(view, shape):
    order = reads(view.shape, view.strides).ravel()
    if not order.size:
        return View(view.storage, shape, [1] * len(shape), view.offset)
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, int(order[step]) if size > 1 else 1)
        step *= size
    if not np.array_equal(reads(shape, strides).ravel(), order):
        raise ValueError("a copy is needed")
    return View(view.storage, shape, strides, view.offset)


# %% wrong: only what is contiguous is reshaped | need not be contiguous|left out of account


def is_contiguous(view):
    if 0 in view.shape:
        return True
    return all(n == 1 or s == w for n, s, w in zip(view.shape, view.strides, strides_of(view.shape)))


def reshape(view, shape):
    if not is_contiguous(view):
        raise ValueError("not contiguous")
    return View(view.storage, shape, strides_of(shape), view.offset)


# %% wrong: row-major strides for everything | No strides read|new strides are row-major


def is_contiguous(view):
    if 0 in view.shape:
        return True
    return all(n == 1 or s == w for n, s, w in zip(view.shape, view.strides, strides_of(view.shape)))


def reshape(view, shape):
    return View(view.storage, shape, strides_of(shape), view.offset)


# %% wrong: a copy where a view is not possible | copy is not what was asked


def is_contiguous(view):
    if 0 in view.shape:
        return True
    return all(n == 1 or s == w for n, s, w in zip(view.shape, view.strides, strides_of(view.shape)))


def reshape(view, shape):
    size = view.storage.itemsize
    memory = view.storage[view.offset :] if 0 not in view.shape else view.storage
    whole = np.lib.stride_tricks.as_strided(memory, view.shape, [stride * size for stride in view.strides])
    try:
        found = np.reshape(whole, shape, copy=False)
    except ValueError:
        return View(whole.ravel(), shape, strides_of(shape))
    return View(view.storage, shape, [stride // size for stride in found.strides], view.offset)


# %% wrong: the stride of an axis of size 1 counts | size 1 is never used


def is_contiguous(view):
    return 0 in view.shape or tuple(view.strides) == strides_of(view.shape)


# %% wrong: a view of nothing is not contiguous | view of nothing is


def is_contiguous(view):
    return all(n == 1 or s == w for n, s, w in zip(view.shape, view.strides, strides_of(view.shape)))


# %% wrong: contiguous if the last stride is 1 | is not contiguous


def is_contiguous(view):
    return not view.strides or 0 in view.shape or view.shape[-1] == 1 or view.strides[-1] == 1


# %% wrong: contiguous if it starts at 0 | is contiguous


def is_contiguous(view):
    if 0 in view.shape:
        return True
    wanted = strides_of(view.shape)
    return view.offset == 0 and all(n == 1 or s == w for n, s, w in zip(view.shape, view.strides, wanted))


# %% wrong: the offset is lost | offset is lost


def reshape(view, shape):
    size = view.storage.itemsize
    memory = view.storage[view.offset :] if 0 not in view.shape else view.storage
    whole = np.lib.stride_tricks.as_strided(memory, view.shape, [stride * size for stride in view.strides])
    found = np.reshape(whole, shape, copy=False)
    return View(view.storage, shape, [stride // size for stride in found.strides])


# %% wrong: axes of size 1 stand in the way of joining | left out of account


def reshape(view, shape):
    if 0 in view.shape:
        return View(view.storage, shape, strides_of(shape), view.offset)
    blocks = []
    for size, stride in zip(view.shape[::-1], view.strides[::-1]):
        if blocks and stride == blocks[-1][0] * blocks[-1][1]:
            blocks[-1][0] *= size
        else:
            blocks.append([size, stride])
    strides, left, step = [], 1, 1
    for size in reversed(shape):
        if left == 1 and size > 1:
            if not blocks:
                raise ValueError("no strides")
            left, step = blocks.pop(0)
        if left % size:
            raise ValueError("no strides")
        strides.append(step)
        left, step = left // size, step * size
    return View(view.storage, shape, reversed(strides), view.offset)


# %% wrong: neighbours are never joined | need not be contiguous|left out of account|is_contiguous|strides exist


def reshape(view, shape):
    if 0 in view.shape:
        return View(view.storage, shape, strides_of(shape), view.offset)
    blocks = [[n, s] for n, s in zip(view.shape[::-1], view.strides[::-1]) if n > 1]
    strides, left, step = [], 1, 1
    for size in reversed(shape):
        if left == 1 and size > 1:
            left, step = blocks.pop(0)
        if left % size:
            raise ValueError("no strides")
        strides.append(step)
        left, step = left // size, step * size
    return View(view.storage, shape, reversed(strides), view.offset)


# %% wrong: all strides from the smallest one | No strides read|lies at|new strides are row-major


def reshape(view, shape):
    if 0 in view.shape:
        return View(view.storage, shape, strides_of(shape), view.offset)
    strides, step = [], min(view.strides, default=1)
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return View(view.storage, shape, reversed(strides), view.offset)


# %% wrong: nothing can't be reshaped | view of nothing


def reshape(view, shape):
    blocks = []
    for size, stride in zip(view.shape[::-1], view.strides[::-1]):
        if size == 1:
            continue
        if blocks and stride == blocks[-1][0] * blocks[-1][1]:
            blocks[-1][0] *= size
        else:
            blocks.append([size, stride])
    if any(size == 0 for size, _ in blocks):
        raise ValueError("nothing to reshape")
    strides, left, step = [], 1, 1
    for size in reversed(shape):
        if left == 1 and size > 1:
            left, step = blocks.pop(0)
        if left % size:
            raise ValueError("no strides")
        strides.append(step)
        left, step = left // size, step * size
    return View(view.storage, shape, reversed(strides), view.offset)
