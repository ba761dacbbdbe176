"""Answers to the task `bind`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: written out


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.name != dtype:
            raise SignatureError(f"{name} has another dtype")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=True):
            if isinstance(size, str):
                if size not in sizes:
                    sizes[size] = came
                if sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    return sizes


# %% right: all pairs first


def bind(signature, given):
    wrong = sorted(set(signature) ^ set(given))
    if wrong:
        raise SignatureError(f"not on both sides: {', '.join(wrong)}")
    pairs = {}
    for name in signature:
        shape, dtype = signature[name]
        if np.dtype(dtype) != given[name].dtype or np.ndim(given[name]) != len(shape):
            raise SignatureError(f"{name} does not fit")
        for axis, size in enumerate(shape):
            pairs.setdefault(size, []).append((int(given[name].shape[axis]), name))
    for size, found in pairs.items():
        wanted = found[0][0] if isinstance(size, str) else size
        for came, name in found:
            if came != wanted:
                raise SignatureError(f"{name} has {came} in place of {wanted}")
    return {size: found[0][0] for size, found in pairs.items() if isinstance(size, str)}


# %% wrong: not written | has not been filled


def bind(signature, given):
    raise NotImplementedError("your code here")


# %% wrong: a missing input is not looked for | KeyError


def bind(signature, given):
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.name != dtype:
            raise SignatureError(f"{name} has another dtype")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=True):
            if isinstance(size, str):
                if size not in sizes:
                    sizes[size] = came
                if sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    return sizes


# %% wrong: one more input goes through | did not raise SignatureError


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.name != dtype:
            raise SignatureError(f"{name} has another dtype")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=True):
            if isinstance(size, str):
                if size not in sizes:
                    sizes[size] = came
                if sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    return sizes


# %% wrong: a smaller dtype will do | did not raise SignatureError


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if not np.can_cast(array.dtype, dtype):
            raise SignatureError(f"{name} has another dtype")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=True):
            if isinstance(size, str):
                if size not in sizes:
                    sizes[size] = came
                if sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    return sizes


# %% wrong: any number of axes | did not raise SignatureError


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.name != dtype:
            raise SignatureError(f"{name} has another dtype")
        if False:
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=False):
            if isinstance(size, str):
                if size not in sizes:
                    sizes[size] = came
                if sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    return sizes


# %% wrong: named sizes are not compared | did not raise SignatureError


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.name != dtype:
            raise SignatureError(f"{name} has another dtype")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=True):
            if isinstance(size, str):
                if True:
                    sizes[size] = came
                if sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    return sizes


# %% wrong: a number is the most | did not raise SignatureError


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.name != dtype:
            raise SignatureError(f"{name} has another dtype")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=True):
            if isinstance(size, str):
                if size not in sizes:
                    sizes[size] = came
                if sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif came > size:
                raise SignatureError(f"{name} has another size")
    return sizes


# %% wrong: an empty batch is refused | raised SignatureError


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.name != dtype:
            raise SignatureError(f"{name} has another dtype")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=True):
            if came == 0:
                raise SignatureError(f"{name} is empty")
            if isinstance(size, str):
                if size not in sizes:
                    sizes[size] = came
                if sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    return sizes


# %% wrong: an array of one row goes with any | did not raise SignatureError


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.name != dtype:
            raise SignatureError(f"{name} has another dtype")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=True):
            if isinstance(size, str):
                if size not in sizes:
                    sizes[size] = came
                if came != 1 and sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    return sizes


# %% wrong: the message names nobody | does not name the input


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.name != dtype:
            raise SignatureError("wrong call")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=True):
            if isinstance(size, str):
                if size not in sizes:
                    sizes[size] = came
                if sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    return sizes


# %% wrong: sizes by axis | expected


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.name != dtype:
            raise SignatureError(f"{name} has another dtype")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=True):
            if isinstance(size, str):
                if size not in sizes:
                    sizes[size] = came
                if sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    return {f"{k}_0": v for k, v in sizes.items()}


# %% wrong: nothing comes back | none|nothing|None


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.name != dtype:
            raise SignatureError(f"{name} has another dtype")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=True):
            if isinstance(size, str):
                if size not in sizes:
                    sizes[size] = came
                if sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    del sizes


# %% wrong: a size of 0 is forgotten | did not raise SignatureError


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.name != dtype:
            raise SignatureError(f"{name} has another dtype")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=True):
            if isinstance(size, str):
                if not sizes.get(size):
                    sizes[size] = came
                if sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    return sizes


# %% wrong: an array is not compared with itself | did not raise SignatureError


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.name != dtype:
            raise SignatureError(f"{name} has another dtype")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        there = dict(sizes)
        for size, came in zip(shape, array.shape, strict=True):
            if isinstance(size, str):
                sizes[size] = came
                if there.get(size, came) != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    return sizes


# %% wrong: the kind of number is enough | did not raise SignatureError


def bind(signature, given):
    for name in list(signature):
        if name not in given:
            raise SignatureError(f"{name} is missing")
    for name in given:
        if name not in signature:
            raise SignatureError(f"{name} is unknown")
    sizes = {}
    for name, (shape, dtype) in signature.items():
        array = given[name]
        if array.dtype.kind != np.dtype(dtype).kind:
            raise SignatureError(f"{name} has another dtype")
        if len(array.shape) != len(shape):
            raise SignatureError(f"{name} has another number of axes")
        for size, came in zip(shape, array.shape, strict=True):
            if isinstance(size, str):
                if size not in sizes:
                    sizes[size] = came
                if sizes[size] != came:
                    raise SignatureError(f"{name}: {size} is {sizes[size]} already")
            elif size != came:
                raise SignatureError(f"{name} has another size")
    return sizes
