"""Answers to the task `signature`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: text all the way down


def signature(args, state):
    def text(value):
        if isinstance(value, np.ndarray):
            return f"array {value.shape} {value.dtype}"
        if isinstance(value, list):
            return "[" + ", ".join(text(part) for part in value) + "]"
        return f"{type(value).__name__}: {value!r}"

    return tuple(text(value) for value in args), frozenset((name, text(value)) for name, value in state.items())


# %% right: numbers by their bits


def signature(args, state):
    import struct

    def key(value):
        if isinstance(value, np.ndarray):
            return np.ndarray, value.shape, value.dtype
        if isinstance(value, list):
            return (list, *map(key, value))
        if isinstance(value, float):
            return float, "nan" if value != value else struct.pack("d", value)
        return type(value), value

    names = sorted(state)
    return tuple(map(key, args)), tuple(names), tuple(key(state[name]) for name in names)


# %% wrong: values without types | NaN|True


def signature(args, state):
    def kind(v):
        if isinstance(v, np.ndarray):
            return v.shape, v.dtype
        return tuple(map(kind, v)) if isinstance(v, list) else v

    return tuple(map(kind, args)), tuple((n, kind(state[n])) for n in sorted(state))


# %% wrong: types without values | part of the program


def signature(args, state):
    def kind(v):
        return (v.shape, v.dtype) if isinstance(v, np.ndarray) else type(v)

    return tuple(map(kind, args)), tuple((n, kind(state[n])) for n in sorted(state))


# %% wrong: state forgotten | state


def signature(args, state):
    def kind(v):
        if isinstance(v, np.ndarray):
            return v.shape, v.dtype
        return ("list", *map(kind, v)) if isinstance(v, list) else (type(v), repr(v))

    return tuple(map(kind, args))


# %% wrong: the entries of arrays | only shape and dtype count


def signature(args, state):
    return repr(args), repr(sorted(state.items(), key=lambda item: item[0]))


# %% wrong: no dtype | dtypes


def signature(args, state):
    def kind(v):
        if isinstance(v, np.ndarray):
            return v.shape
        return ("list", *map(kind, v)) if isinstance(v, list) else (type(v), repr(v))

    return tuple(map(kind, args)), tuple((n, kind(state[n])) for n in sorted(state))


# %% wrong: the number of axes, not their sizes | shapes


def signature(args, state):
    def kind(v):
        if isinstance(v, np.ndarray):
            return v.ndim, v.dtype
        return ("list", *map(kind, v)) if isinstance(v, list) else (type(v), repr(v))

    return tuple(map(kind, args)), tuple((n, kind(state[n])) for n in sorted(state))


# %% wrong: the number of entries, not the shape | shapes


def signature(args, state):
    def kind(v):
        if isinstance(v, np.ndarray):
            return v.size, v.dtype
        return ("list", *map(kind, v)) if isinstance(v, list) else (type(v), repr(v))

    return tuple(map(kind, args)), tuple((n, kind(state[n])) for n in sorted(state))


# %% wrong: state in the order in which it is listed | order in which state


def signature(args, state):
    def kind(v):
        if isinstance(v, np.ndarray):
            return v.shape, v.dtype
        return ("list", *map(kind, v)) if isinstance(v, list) else (type(v), repr(v))

    return tuple(map(kind, args)), tuple((n, kind(v)) for n, v in state.items())


# %% wrong: state without names | .


def signature(args, state):
    def kind(v):
        if isinstance(v, np.ndarray):
            return v.shape, v.dtype
        return ("list", *map(kind, v)) if isinstance(v, list) else (type(v), repr(v))

    return tuple(map(kind, args)), tuple(kind(state[n]) for n in sorted(state))


# %% wrong: NaN is never itself | NaN


def signature(args, state):
    def kind(v):
        if isinstance(v, np.ndarray):
            return v.shape, v.dtype
        if isinstance(v, list):
            return ("list", *map(kind, v))
        return (type(v), v + 0.0, str(v)) if isinstance(v, float) else (type(v), v)

    return tuple(map(kind, args)), tuple((n, kind(state[n])) for n in sorted(state))


# %% wrong: lists as they are | NaN|unhashable


def signature(args, state):
    def kind(v):
        return (v.shape, v.dtype) if isinstance(v, np.ndarray) else (type(v), v)

    return tuple(map(kind, args)), tuple((n, kind(state[n])) for n in sorted(state))


# %% wrong: the two zeros are one | -0.0|0.0


def signature(args, state):
    def kind(v):
        if isinstance(v, np.ndarray):
            return v.shape, v.dtype
        if isinstance(v, list):
            return ("list", *map(kind, v))
        return type(v), "nan" if v != v else v

    return tuple(map(kind, args)), tuple((n, kind(state[n])) for n in sorted(state))
