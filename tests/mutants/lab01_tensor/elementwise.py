"""Answers to the task `elementwise`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B905, F811, F821

# %% right: through NumPy's strides


def through(view):
    if 0 in view.shape:
        return np.zeros(view.shape, view.storage.dtype)
    size = view.storage.itemsize
    first = view.offset + sum((n - 1) * min(s, 0) for n, s in zip(view.shape, view.strides))
    turned = np.lib.stride_tricks.as_strided(
        view.storage[first:], view.shape, [abs(stride) * size for stride in view.strides]
    )
    return turned[tuple(slice(None, None, -1 if stride < 0 else 1) for stride in view.strides)]


def elementwise(f, a, b):
    result = np.array(f(through(a), through(b)), order="C")
    return View(result.reshape(-1), result.shape, strides_of(result.shape))


# %% right: places by the digits of a running number


def elementwise(f, a, b):
    shape = broadcast_shapes(a.shape, b.shape)
    number = np.arange(int(np.prod(shape, dtype=int)))
    gathered = []
    for view in (broadcast_to(a, shape), broadcast_to(b, shape)):
        place, rest = np.full(number.shape, view.offset), number
        for size, stride in zip(reversed(view.shape), reversed(view.strides)):
            place = place + (rest % max(size, 1)) * stride
            rest = rest // max(size, 1)
        gathered.append(view.storage[place])
    return View(f(*gathered), shape, strides_of(shape))


# %% wrong: swapped | swapped


def elementwise(f, a, b):
    shape = broadcast_shapes(a.shape, b.shape)
    one, two = (view.storage[places_of(broadcast_to(view, shape))] for view in (b, a))
    return View(np.ravel(f(one, two)), shape, strides_of(shape))


# %% wrong: storages from front to back | front to back|offsets are left out


def elementwise(f, a, b):
    shape = broadcast_shapes(a.shape, b.shape)
    one, two = (
        np.broadcast_to(view.storage[: int(np.prod(view.shape, dtype=int))].reshape(view.shape), shape)
        for view in (a, b)
    )
    return View(np.ravel(f(one, two)), shape, strides_of(shape))


# %% wrong: no offset | offsets are left out


def elementwise(f, a, b):
    shape = broadcast_shapes(a.shape, b.shape)
    one, two = (
        view.storage[places_of(View(view.storage, *(lambda v: (v.shape, v.strides))(broadcast_to(view, shape))))]
        for view in (a, b)
    )
    return View(np.ravel(f(one, two)), shape, strides_of(shape))


# %% wrong: entry by entry | Ran longer


def elementwise(f, a, b):
    shape = broadcast_shapes(a.shape, b.shape)
    one, two = broadcast_to(a, shape), broadcast_to(b, shape)
    result = []
    for index in np.ndindex(*shape):
        first = one.storage[locate(index, one.strides, one.offset)]
        second = two.storage[locate(index, two.strides, two.offset)]
        result.append(f(first, second))
    return View(np.array(result, dtype=a.storage.dtype), shape, strides_of(shape))


# %% wrong: into the storage of the first input | storage of an input


def elementwise(f, a, b):
    shape = broadcast_shapes(a.shape, b.shape)
    one, two = (view.storage[places_of(broadcast_to(view, shape))] for view in (a, b))
    result = np.ravel(f(one, two))
    if result.size <= a.storage.size:
        a.storage[: result.size] = result
        return View(a.storage, shape, strides_of(shape))
    return View(result, shape, strides_of(shape))


# %% wrong: a storage with room to spare | no more memory than entries


def elementwise(f, a, b):
    shape = broadcast_shapes(a.shape, b.shape)
    one, two = (view.storage[places_of(broadcast_to(view, shape))] for view in (a, b))
    result = np.ravel(f(one, two))
    return View(np.concatenate([result, result[:1]]), shape, strides_of(shape))


# %% wrong: column-major | row-major


def elementwise(f, a, b):
    shape = broadcast_shapes(a.shape, b.shape)
    one, two = (view.storage[places_of(broadcast_to(view, shape))] for view in (a, b))
    result = f(one, two)
    return View(result.ravel(order="F"), shape, strides_of(shape[::-1])[::-1])


# %% wrong: no broadcasting | broadcast|shape


def elementwise(f, a, b):
    if a.shape != b.shape:
        raise ValueError("shapes differ")
    return View(np.ravel(f(a.storage[places_of(a)], b.storage[places_of(b)])), a.shape, strides_of(a.shape))


# %% wrong: always float64 | dtype|float


def elementwise(f, a, b):
    shape = broadcast_shapes(a.shape, b.shape)
    one, two = (view.storage[places_of(broadcast_to(view, shape))].astype(np.float64) for view in (a, b))
    return View(np.ravel(f(one, two)), shape, strides_of(shape))


# %% wrong: an array, and no View | View


def elementwise(f, a, b):
    shape = broadcast_shapes(a.shape, b.shape)
    one, two = (view.storage[places_of(broadcast_to(view, shape))] for view in (a, b))
    return f(one, two)


# %% wrong: only the first row of a 0-stride view | outside|index|IndexError|broadcast


def elementwise(f, a, b):
    shape = broadcast_shapes(a.shape, b.shape)
    one, two = a.storage[places_of(a)], b.storage[places_of(b)]
    return View(np.ravel(f(one, two))[: one.size], shape, strides_of(shape))
