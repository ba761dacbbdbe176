"""Answers to the task `tangents`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: terms in a list


def together(shape, *terms):
    found = [term for term in terms if term is not None]
    moved = found[0] if len(found) == 1 else found[0] + found[1]
    return moved if moved.shape == shape else spread(moved, shape)


def shape_of(x, y):
    return np.broadcast_shapes(np.shape(x), np.shape(y))


def add_jvp(dx, dy, x, y):
    return together(shape_of(x, y), dx, dy)


def mul_jvp(dx, dy, x, y):
    return together(shape_of(x, y), None if dx is None else y * dx, None if dy is None else dy * x)


def div_jvp(dx, dy, x, y):
    z = x / y
    return together(shape_of(x, y), None if dx is None else dx / y, None if dy is None else -(dy / y) * z)


def matmul_jvp(dx, dy, x, y):
    terms = [] if dx is None else [dx @ y]
    terms += [] if dy is None else [x @ dy]
    return terms[0] if len(terms) == 1 else terms[0] + terms[1]


def tanh_jvp(dx, x):
    return dx - dx * tanh(x) * tanh(x)


def softmax_jvp(dx, x):
    p = softmax(x)
    moved = p * dx
    return moved - p * total(moved, axis=-1, keepdims=True)


# %% right: case by case, with apply


def add_jvp(dx, dy, x, y):
    match dx is None, dy is None:
        case False, False:
            return apply("add", dx, dy)
        case True, False:
            return apply("spread", dy, shape=np.broadcast_shapes(np.shape(x), np.shape(dy)))
    return apply("spread", dx, shape=np.broadcast_shapes(np.shape(dx), np.shape(y)))


def mul_jvp(dx, dy, x, y):
    if dx is None:
        return apply("mul", x, dy)
    if dy is None:
        return apply("mul", dx, y)
    return apply("add", apply("mul", dx, y), apply("mul", x, dy))


def div_jvp(dx, dy, x, y):
    if dx is None:
        return -(x / y) * (dy / y)
    if dy is None:
        return dx / y
    return (dx - (x / y) * dy) / y


def tanh_jvp(dx, x):
    y = tanh(x)
    return dx * (1 - y) * (1 + y)


# %% right: cosh by exponentials, where they are small


def tanh_jvp(dx, x):
    e = exp(x)
    half = (e + 1 / e) / 2
    return dx / (half * half)


# %% wrong: a sum that is not stretched | shape


def add_jvp(dx, dy, x, y):
    if dx is None or dy is None:
        return dy if dx is None else dx
    return dx + dy


# %% wrong: zeros made of None | None


def mul_jvp(dx, dy, x, y):
    return dx * y + x * dy


# %% wrong: one term of the product rule | wrong|differ|expected|equal|lost


def mul_jvp(dx, dy, x, y):
    if dx is None:
        return x * dy
    return dx * y


# %% wrong: the sign of the quotient | sign|expected


def div_jvp(dx, dy, x, y):
    if dy is None:
        return dx / y
    by_y = x / y * dy / y
    return by_y if dx is None else dx / y + by_y


# %% wrong: divided by y once | expected


def div_jvp(dx, dy, x, y):
    if dy is None:
        return dx / y
    by_y = -(x * dy) / y
    return by_y if dx is None else dx / y + by_y


# %% wrong: a quotient by squares that vanish | NaN|nan|inf|expected


def div_jvp(dx, dy, x, y):
    if dy is None:
        return dx * y / (y * y)
    by_y = -(x / y) * dy / y
    return by_y if dx is None else dx / y + by_y


# %% wrong: matrices the wrong way round | shape|size|dimension|expected


def matmul_jvp(dx, dy, x, y):
    if dx is None:
        return dy @ x
    return dx @ y if dy is None else dx @ y + x @ dy


# %% wrong: both tangents multiplied | expected


def matmul_jvp(dx, dy, x, y):
    if dx is None or dy is None:
        return x @ dy if dx is None else dx @ y
    return dx @ dy


# %% wrong: a reverse rule for softmax's, by NumPy | ufunc|Lifted|operand|NumPy


def softmax_jvp(dx, x):
    p = softmax(x)
    return p * (dx - np.sum(p * dx, axis=-1, keepdims=True))


# %% wrong: NumPy's tanh | ufunc|operand


def tanh_jvp(dx, x):
    y = np.tanh(x)
    return dx * (1 - y * y)


# %% wrong: softmax taken element by element | expected|entries


def softmax_jvp(dx, x):
    p = softmax(x)
    return dx * p * (1 - p)


# %% wrong: a sum over all rows of a softmax | expected|entries|axis


def softmax_jvp(dx, x):
    p = softmax(x)
    return p * (dx - total(p * dx))


# %% wrong: the transpose of log-softmax | expected|entries


def softmax_jvp(dx, x):
    p = softmax(x)
    return dx - total(p * dx, axis=-1, keepdims=True)


# %% wrong: tanh without its tangent | expected|entries|constant


def tanh_jvp(dx, x):
    y = tanh(x)
    return 1 - y * y


# %% wrong: everything in float64 | dtype|float64


def tanh_jvp(dx, x):
    y = tanh(x)
    return dx * (np.ones(np.shape(x)) - y * y)


# %% wrong: a tangent of another is given back | unchanged|expected|alias|same


def add_jvp(dx, dy, x, y):
    return x + y


# %% wrong: the hole left open | not been filled


def add_jvp(dx, dy, x, y):
    raise NotImplementedError
