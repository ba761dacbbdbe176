"""Answers to the task `broadcast`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B905, F811

# %% right: two at a time, from the back


def broadcast_shapes(*shapes):
    from itertools import zip_longest

    def pair(a, b):
        result = []
        for x, y in zip_longest(reversed(a), reversed(b), fillvalue=1):
            if x != 1 and y != 1 and x != y:
                raise ValueError(f"{x} and {y}")
            result.append(y if x == 1 else x)
        return result[::-1]

    total = []
    for shape in shapes:
        total = pair(total, shape)
    return total


# %% right: in place on a list of ones


def broadcast_shapes(*shapes):
    result = [1] * max(map(len, shapes))
    for shape in shapes:
        for axis in range(1, len(shape) + 1):
            if shape[-axis] != 1:
                if result[-axis] not in (1, shape[-axis]):
                    raise ValueError("sizes differ")
                result[-axis] = shape[-axis]
    return tuple(result)


# %% wrong: the larger size, so that 0 is lost | where that is 0


def broadcast_shapes(*shapes):
    ndim = max(map(len, shapes))
    result = []
    for sizes in zip(*((1,) * (ndim - len(s)) + tuple(s) for s in shapes)):
        large = max(sizes)
        if any(size not in (0, 1, large) for size in sizes):
            raise ValueError("sizes differ")
        result.append(large)
    return tuple(result)


# %% wrong: aligned at the left | at the left|ValueError was raised. The shapes


def broadcast_shapes(*shapes):
    ndim = max(map(len, shapes))
    result = []
    for sizes in zip(*(tuple(s) + (1,) * (ndim - len(s)) for s in shapes)):
        different = set(sizes) - {1}
        if len(different) > 1:
            raise ValueError("sizes differ")
        result.append(different.pop() if different else 1)
    return tuple(result)


# %% wrong: refuses nothing | Raise ValueError


def broadcast_shapes(*shapes):
    ndim = max(map(len, shapes))
    result = []
    for sizes in zip(*((1,) * (ndim - len(s)) + tuple(s) for s in shapes)):
        different = set(sizes) - {1}
        result.append(different.pop() if different else 1)
    return tuple(result)


# %% wrong: only two shapes | first two|takes|argument


def broadcast_shapes(*shapes):
    a, b = (tuple(shapes) * 2)[:2]
    ndim = max(len(a), len(b))
    result = []
    for x, y in zip((1,) * (ndim - len(a)) + tuple(a), (1,) * (ndim - len(b)) + tuple(b)):
        if 1 not in (x, y) and x != y:
            raise ValueError("sizes differ")
        result.append(y if x == 1 else x)
    return tuple(result)


# %% wrong: new axes are dropped | longer shapes have are missing


def broadcast_shapes(*shapes):
    result = []
    for sizes in zip(*(reversed(s) for s in shapes)):
        different = set(sizes) - {1}
        if len(different) > 1:
            raise ValueError("sizes differ")
        result.append(different.pop() if different else 1)
    return tuple(reversed(result))


# %% wrong: asserts instead of raising ValueError | AssertionError


def broadcast_shapes(*shapes):
    ndim = max(map(len, shapes))
    result = []
    for sizes in zip(*((1,) * (ndim - len(s)) + tuple(s) for s in shapes)):
        different = set(sizes) - {1}
        assert len(different) < 2
        result.append(different.pop() if different else 1)
    return tuple(result)


# %% wrong: gives None where shapes do not go together | None


def broadcast_shapes(*shapes):
    ndim = max(map(len, shapes))
    result = []
    for sizes in zip(*((1,) * (ndim - len(s)) + tuple(s) for s in shapes)):
        different = set(sizes) - {1}
        if len(different) > 1:
            return None
        result.append(different.pop() if different else 1)
    return tuple(result)


# %% wrong: 0 goes with everything | Raise ValueError


def broadcast_shapes(*shapes):
    ndim = max(map(len, shapes))
    result = []
    for sizes in zip(*((1,) * (ndim - len(s)) + tuple(s) for s in shapes)):
        if 0 in sizes:
            result.append(0)
            continue
        different = set(sizes) - {1}
        if len(different) > 1:
            raise ValueError("sizes differ")
        result.append(different.pop() if different else 1)
    return tuple(result)


# %% wrong: equal shapes only | ValueError was raised. The shapes


def broadcast_shapes(*shapes):
    if len(set(map(tuple, shapes))) > 1:
        raise ValueError("shapes differ")
    return shapes[0]


# %% wrong: turned round and not back | broadcast to|ValueError was raised. The shapes


def broadcast_shapes(*shapes):
    from itertools import zip_longest

    result = []
    for sizes in zip_longest(*(reversed(s) for s in shapes), fillvalue=1):
        different = set(sizes) - {1}
        if len(different) > 1:
            raise ValueError("sizes differ")
        result.append(different.pop() if different else 1)
    return tuple(result)
