"""Answers to the task `conv2d`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: window by window


def conv2d_rule(g, x, weight, stride, padding):
    (down, across), (up, left) = stride, padding
    rows, columns = weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    dpadded, dweight = np.zeros_like(padded), np.zeros_like(weight)
    for i in range(g.shape[2]):
        for j in range(g.shape[3]):
            window = np.s_[:, :, i * down : i * down + rows, j * across : j * across + columns]
            dpadded[window] += np.tensordot(g[:, :, i, j], weight, axes=1)
            dweight += np.tensordot(g[:, :, i, j], padded[window], axes=([0], [0]))
    return dpadded[:, :, up : up + x.shape[2], left : left + x.shape[3]], dweight


# %% right: as correlations with a spread-out g


def conv2d_rule(g, x, weight, stride, padding):
    (down, across), (up, left) = stride, padding
    rows, columns = weight.shape[2:]
    high, wide = x.shape[2] + 2 * up, x.shape[3] + 2 * left
    spread = np.zeros((*g.shape[:2], high - rows + 1, wide - columns + 1), g.dtype)
    spread[:, :, : g.shape[2] * down : down, : g.shape[3] * across : across] = g
    border = np.pad(spread, ((0, 0), (0, 0), (rows - 1, rows - 1), (columns - 1, columns - 1)))
    view = np.lib.stride_tricks.sliding_window_view
    turned = weight[:, :, ::-1, ::-1]
    dpadded = np.einsum("nohwkl,oikl->nihw", view(border, (rows, columns), axis=(2, 3)), turned)
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    dweight = np.einsum("niklhw,nohw->oikl", view(padded, spread.shape[2:], axis=(2, 3)), spread)
    return dpadded[:, :, up : up + x.shape[2], left : left + x.shape[3]], dweight


# %% right: im2col and its transpose


def conv2d_rule(g, x, weight, stride, padding):
    (down, across), (up, left) = stride, padding
    outputs, inputs, rows, columns = weight.shape
    n, _, high, wide = g.shape
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    number = np.arange(np.prod(padded.shape[1:])).reshape(padded.shape[1:])
    where = np.lib.stride_tricks.sliding_window_view(number, (rows, columns), axis=(1, 2))[:, ::down, ::across]
    where = where[:, :high, :wide].transpose(0, 3, 4, 1, 2).reshape(inputs * rows * columns, high * wide)
    flat = padded.reshape(n, number.size)
    dflat, dweight = np.zeros_like(flat), np.zeros((outputs, inputs * rows * columns), weight.dtype)
    for image in range(n):
        rows_of_g = g[image].reshape(outputs, high * wide)
        np.add.at(dflat[image], where, weight.reshape(outputs, -1).T @ rows_of_g)
        dweight += rows_of_g @ flat[image][where].T
    dpadded = dflat.reshape(padded.shape)
    return dpadded[:, :, up : up + x.shape[2], left : left + x.shape[3]], dweight.reshape(weight.shape)


# %% wrong: the kernel is flipped where it should not be | turned by 180 degrees


def conv2d_rule(g, x, weight, stride, padding):
    return pulled(g, x, weight[:, :, ::-1, ::-1], stride, padding)


def pulled(g, x, weight, stride, padding):
    (down, across), (up, left) = stride, padding
    rows, columns = weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    dpadded, dweight = np.zeros_like(padded), np.zeros_like(weight)
    for i in range(g.shape[2]):
        for j in range(g.shape[3]):
            window = np.s_[:, :, i * down : i * down + rows, j * across : j * across + columns]
            dpadded[window] += np.einsum("no,oikl->nikl", g[:, :, i, j], weight)
            dweight += np.einsum("no,nikl->oikl", g[:, :, i, j], padded[window])
    return dpadded[:, :, up : up + x.shape[2], left : left + x.shape[3]], dweight


# %% wrong: correlated without turning the kernel | turned by 180 degrees


def conv2d_rule(g, x, weight, stride, padding):
    (down, across), (up, left) = stride, padding
    rows, columns = weight.shape[2:]
    high, wide = x.shape[2] + 2 * up, x.shape[3] + 2 * left
    spread = np.zeros((*g.shape[:2], high - rows + 1, wide - columns + 1), g.dtype)
    spread[:, :, : g.shape[2] * down : down, : g.shape[3] * across : across] = g
    border = np.pad(spread, ((0, 0), (0, 0), (rows - 1, rows - 1), (columns - 1, columns - 1)))
    view = np.lib.stride_tricks.sliding_window_view
    dpadded = np.einsum("nohwkl,oikl->nihw", view(border, (rows, columns), axis=(2, 3)), weight)
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    dweight = np.einsum("niklhw,nohw->oikl", view(padded, spread.shape[2:], axis=(2, 3)), spread)
    return dpadded[:, :, up : up + x.shape[2], left : left + x.shape[3]], dweight


# %% wrong: the stride left out | stride is left out


def conv2d_rule(g, x, weight, stride, padding):
    up, left = padding
    rows, columns = weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    dpadded, dweight = np.zeros_like(padded), np.zeros_like(weight)
    for i in range(g.shape[2]):
        for j in range(g.shape[3]):
            window = np.s_[:, :, i : i + rows, j : j + columns]
            dpadded[window] += np.einsum("no,oikl->nikl", g[:, :, i, j], weight)
            dweight += np.einsum("no,nikl->oikl", g[:, :, i, j], padded[window])
    return dpadded[:, :, up : up + x.shape[2], left : left + x.shape[3]], dweight


# %% wrong: the padding not cut off in front | padding is not cut off


def conv2d_rule(g, x, weight, stride, padding):
    (down, across), (up, left) = stride, padding
    rows, columns = weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    dpadded, dweight = np.zeros_like(padded), np.zeros_like(weight)
    for i in range(g.shape[2]):
        for j in range(g.shape[3]):
            window = np.s_[:, :, i * down : i * down + rows, j * across : j * across + columns]
            dpadded[window] += np.einsum("no,oikl->nikl", g[:, :, i, j], weight)
            dweight += np.einsum("no,nikl->oikl", g[:, :, i, j], padded[window])
    return dpadded[:, :, : x.shape[2], : x.shape[3]], dweight


# %% wrong: padding cut off with a negative slice | empty where the padding is 0


def conv2d_rule(g, x, weight, stride, padding):
    (down, across), (up, left) = stride, padding
    rows, columns = weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    dpadded, dweight = np.zeros_like(padded), np.zeros_like(weight)
    for i in range(g.shape[2]):
        for j in range(g.shape[3]):
            window = np.s_[:, :, i * down : i * down + rows, j * across : j * across + columns]
            dpadded[window] += np.einsum("no,oikl->nikl", g[:, :, i, j], weight)
            dweight += np.einsum("no,nikl->oikl", g[:, :, i, j], padded[window])
    return dpadded[:, :, up:-up, left:-left], dweight


# %% wrong: the padding left out of dweight | windows lie on the padded image


def conv2d_rule(g, x, weight, stride, padding):
    (down, across), (up, left) = stride, padding
    rows, columns = weight.shape[2:]
    dpadded = np.pad(np.zeros_like(x), ((0, 0), (0, 0), (up, up), (left, left)))
    room = np.pad(x, ((0, 0), (0, 0), (0, 2 * up), (0, 2 * left)))
    dweight = np.zeros_like(weight)
    for i in range(g.shape[2]):
        for j in range(g.shape[3]):
            window = np.s_[:, :, i * down : i * down + rows, j * across : j * across + columns]
            dpadded[window] += np.einsum("no,oikl->nikl", g[:, :, i, j], weight)
            dweight += np.einsum("no,nikl->oikl", g[:, :, i, j], room[window])
    return dpadded[:, :, up : up + x.shape[2], left : left + x.shape[3]], dweight


# %% wrong: windows overwrite each other | overwrite each other


def conv2d_rule(g, x, weight, stride, padding):
    (down, across), (up, left) = stride, padding
    rows, columns = weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    dpadded, dweight = np.zeros_like(padded), np.zeros_like(weight)
    for i in range(g.shape[2]):
        for j in range(g.shape[3]):
            window = np.s_[:, :, i * down : i * down + rows, j * across : j * across + columns]
            dpadded[window] = np.einsum("no,oikl->nikl", g[:, :, i, j], weight)
            dweight += np.einsum("no,nikl->oikl", g[:, :, i, j], padded[window])
    return dpadded[:, :, up : up + x.shape[2], left : left + x.shape[3]], dweight


# %% wrong: dweight averaged over the batch | averaged


def conv2d_rule(g, x, weight, stride, padding):
    dx, dweight = pulled(g, x, weight, stride, padding)
    return dx, dweight / max(len(x), 1)


def pulled(g, x, weight, stride, padding):
    (down, across), (up, left) = stride, padding
    rows, columns = weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    dpadded, dweight = np.zeros_like(padded), np.zeros_like(weight)
    for i in range(g.shape[2]):
        for j in range(g.shape[3]):
            window = np.s_[:, :, i * down : i * down + rows, j * across : j * across + columns]
            dpadded[window] += np.einsum("no,oikl->nikl", g[:, :, i, j], weight)
            dweight += np.einsum("no,nikl->oikl", g[:, :, i, j], padded[window])
    return dpadded[:, :, up : up + x.shape[2], left : left + x.shape[3]], dweight


# %% wrong: dweight flipped | turned by 180 degrees


def conv2d_rule(g, x, weight, stride, padding):
    dx, dweight = pulled(g, x, weight, stride, padding)
    return dx, dweight[:, :, ::-1, ::-1]


def pulled(g, x, weight, stride, padding):
    (down, across), (up, left) = stride, padding
    rows, columns = weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    dpadded, dweight = np.zeros_like(padded), np.zeros_like(weight)
    for i in range(g.shape[2]):
        for j in range(g.shape[3]):
            window = np.s_[:, :, i * down : i * down + rows, j * across : j * across + columns]
            dpadded[window] += np.einsum("no,oikl->nikl", g[:, :, i, j], weight)
            dweight += np.einsum("no,nikl->oikl", g[:, :, i, j], padded[window])
    return dpadded[:, :, up : up + x.shape[2], left : left + x.shape[3]], dweight


# %% wrong: dx as large as the windows reach | shape|under no window


def conv2d_rule(g, x, weight, stride, padding):
    (down, across), (up, left) = stride, padding
    rows, columns = weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    high, wide = (g.shape[2] - 1) * down + rows, (g.shape[3] - 1) * across + columns
    dpadded, dweight = np.zeros((*x.shape[:2], high, wide), x.dtype), np.zeros_like(weight)
    for i in range(g.shape[2]):
        for j in range(g.shape[3]):
            window = np.s_[:, :, i * down : i * down + rows, j * across : j * across + columns]
            dpadded[window] += np.einsum("no,oikl->nikl", g[:, :, i, j], weight)
            dweight += np.einsum("no,nikl->oikl", g[:, :, i, j], padded[window])
    return dpadded[:, :, up : high - up, left : wide - left], dweight


# %% wrong: the two strides swapped | stride are swapped|runs out of the image


def conv2d_rule(g, x, weight, stride, padding):
    (across, down), (up, left) = stride, padding
    rows, columns = weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    dpadded, dweight = np.zeros_like(padded), np.zeros_like(weight)
    for i in range(g.shape[2]):
        for j in range(g.shape[3]):
            window = np.s_[:, :, i * down : i * down + rows, j * across : j * across + columns]
            dpadded[window] += np.einsum("no,oikl->nikl", g[:, :, i, j], weight)
            dweight += np.einsum("no,nikl->oikl", g[:, :, i, j], padded[window])
    return dpadded[:, :, up : up + x.shape[2], left : left + x.shape[3]], dweight


# %% wrong: float64 whatever came | dtype grew


def conv2d_rule(g, x, weight, stride, padding):
    (down, across), (up, left) = stride, padding
    rows, columns = weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (up, up), (left, left)))
    dpadded, dweight = np.zeros(padded.shape), np.zeros(weight.shape)
    for i in range(g.shape[2]):
        for j in range(g.shape[3]):
            window = np.s_[:, :, i * down : i * down + rows, j * across : j * across + columns]
            dpadded[window] += np.einsum("no,oikl->nikl", g[:, :, i, j], weight)
            dweight += np.einsum("no,nikl->oikl", g[:, :, i, j], padded[window])
    return dpadded[:, :, up : up + x.shape[2], left : left + x.shape[3]], dweight


# %% wrong: the hole left open | not been filled


def conv2d_rule(g, x, weight, stride, padding):
    raise NotImplementedError
