"""Answers to the task `views`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B905, F811, F821

# %% right: by hand, without Python's slice


def transpose(view, axes):
    pairs = list(zip(view.shape, view.strides))
    turned = [pairs[axis] for axis in axes]
    return View(view.storage, tuple(s for s, _ in turned), tuple(s for _, s in turned), view.offset)


def broadcast_to(view, shape):
    sizes, strides = list(view.shape), list(view.strides)
    while len(sizes) < len(shape):
        sizes.insert(0, 1)
        strides.insert(0, 0)
    if len(sizes) > len(shape):
        raise ValueError("too many axes")
    for axis, (old, new) in enumerate(zip(sizes, shape)):
        if old != new:
            if old != 1:
                raise ValueError("only 1 stretches")
            strides[axis] = 0
    return View(view.storage, shape, strides, view.offset)


def take_slice(view, axis, start, stop, step):
    size = view.shape[axis]

    def bound(value, low, high):
        value = value + size if value < 0 else value
        return min(max(value, low), high)

    if step > 0:
        first = 0 if start is None else bound(start, 0, size)
        last = size if stop is None else bound(stop, 0, size)
        count = max(0, -(-(last - first) // step))
    else:
        first = size - 1 if start is None else bound(start, -1, size - 1)
        last = -1 if stop is None else bound(stop, -1, size - 1)
        count = max(0, -(-(first - last) // -step))
    shape, strides = list(view.shape), list(view.strides)
    shape[axis], strides[axis] = count, strides[axis] * step
    return View(view.storage, shape, strides, view.offset + first * view.strides[axis] if count else view.offset)


# %% right: let NumPy compute it, in bytes


def through_numpy(view, change):
    size = view.storage.itemsize
    memory = np.lib.stride_tricks.as_strided(
        view.storage[view.offset :], view.shape, [stride * size for stride in view.strides]
    )
    found = change(memory)
    start = view.storage.__array_interface__["data"][0]
    offset = (found.__array_interface__["data"][0] - start) // size
    strides = [stride // size for stride in found.strides]
    return View(view.storage, found.shape, strides, offset if found.size else 0)


def transpose(view, axes):
    return through_numpy(view, lambda x: np.transpose(x, axes))


def broadcast_to(view, shape):
    return through_numpy(view, lambda x: np.broadcast_to(x, shape))


def take_slice(view, axis, start, stop, step):
    return through_numpy(view, lambda x: x[(slice(None),) * axis + (slice(start, stop, step),)])


# %% wrong: a copy, transposed | another storage


def transpose(view, axes):
    shape = [view.shape[axis] for axis in axes]
    return View(view.storage.copy(), shape, [view.strides[axis] for axis in axes], view.offset)


# %% wrong: strides stay behind | strides are as they were


def transpose(view, axes):
    return View(view.storage, [view.shape[axis] for axis in axes], view.strides, view.offset)


# %% wrong: axes the other way round | other way round


def transpose(view, axes):
    back = sorted(range(len(axes)), key=lambda k: axes[k])
    return View(view.storage, [view.shape[k] for k in back], [view.strides[k] for k in back], view.offset)


# %% wrong: always reversed | reversed, whatever


def transpose(view, axes):
    return View(view.storage, view.shape[::-1], view.strides[::-1], view.offset)


# %% wrong: the offset is lost in a transpose | offset is lost


def transpose(view, axes):
    return View(view.storage, [view.shape[axis] for axis in axes], [view.strides[axis] for axis in axes])


# %% wrong: a stretched axis keeps its stride | keeps its stride


def broadcast_to(view, shape):
    if broadcast_shapes(view.shape, shape) != tuple(shape):
        raise ValueError("no")
    added = len(shape) - len(view.shape)
    return View(view.storage, shape, (0,) * added + tuple(view.strides), view.offset)


# %% wrong: stretches what can't be stretched | can't be stretched


def broadcast_to(view, shape):
    added = max(len(shape) - len(view.shape), 0)
    strides = [0] * added
    for old, new, stride in zip(view.shape, shape[added:], view.strides):
        strides.append(stride if old == new else 0)
    return View(view.storage, shape, strides[: len(shape)], view.offset)


# %% wrong: fine with a shape that the result does not have | can't be stretched


def broadcast_to(view, shape):
    broadcast_shapes(view.shape, shape)
    added = max(len(shape) - len(view.shape), 0)
    strides = [0] * added
    for old, new, stride in zip(view.shape, shape[added:], view.strides):
        strides.append(stride if old == new else 0)
    return View(view.storage, shape, strides + [0] * (len(shape) - len(strides)), view.offset)


# %% wrong: the slice starts where the axis starts | starts where the whole axis starts


def take_slice(view, axis, start, stop, step):
    start, stop, step = slice(start, stop, step).indices(view.shape[axis])
    shape, strides = list(view.shape), list(view.strides)
    shape[axis] = len(range(start, stop, step))
    strides[axis] *= step
    return View(view.storage, shape, strides, view.offset)


# %% wrong: the offset moves by start alone | by start, not by


def take_slice(view, axis, start, stop, step):
    start, stop, step = slice(start, stop, step).indices(view.shape[axis])
    shape, strides = list(view.shape), list(view.strides)
    shape[axis] = len(range(start, stop, step))
    strides[axis] *= step
    return View(view.storage, shape, strides, view.offset + start)


# %% wrong: the step is not in the stride | step is missing


def take_slice(view, axis, start, stop, step):
    start, stop, step = slice(start, stop, step).indices(view.shape[axis])
    shape = list(view.shape)
    shape[axis] = len(range(start, stop, step))
    return View(view.storage, shape, view.strides, view.offset + start * view.strides[axis])


# %% wrong: the stride is the step | step alone


def take_slice(view, axis, start, stop, step):
    start, stop, step = slice(start, stop, step).indices(view.shape[axis])
    shape, strides = list(view.shape), list(view.strides)
    shape[axis] = len(range(start, stop, step))
    offset = view.offset + start * strides[axis]
    strides[axis] = step
    return View(view.storage, shape, strides, offset)


# %% wrong: the number of entries is rounded down | rounded up


def take_slice(view, axis, start, stop, step):
    start, stop, step = slice(start, stop, step).indices(view.shape[axis])
    shape, strides = list(view.shape), list(view.strides)
    shape[axis] = max(0, int((stop - start) / step))
    offset = view.offset + start * strides[axis]
    strides[axis] *= step
    return View(view.storage, shape, strides, offset)


# %% wrong: changes the view it was given | changed the view


def take_slice(view, axis, start, stop, step):
    start, stop, step = slice(start, stop, step).indices(view.shape[axis])
    shape, strides = list(view.shape), list(view.strides)
    shape[axis] = len(range(start, stop, step))
    view.offset += start * strides[axis]
    strides[axis] *= step
    view.shape, view.strides = tuple(shape), tuple(strides)
    return view


# %% wrong: negative numbers are not counted from the back | negative|expected|rounded up|TypeError


def take_slice(view, axis, start, stop, step):
    size = view.shape[axis]
    start = (0 if step > 0 else size - 1) if start is None else start
    stop = (size if step > 0 else -1) if stop is None else stop
    shape, strides = list(view.shape), list(view.strides)
    shape[axis] = len(range(start, stop, step))
    offset = view.offset + start * strides[axis]
    strides[axis] *= step
    return View(view.storage, shape, strides, offset)
