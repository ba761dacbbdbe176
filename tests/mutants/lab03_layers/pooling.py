"""Answers to the task `pooling`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, and are
# bound again in the next section.
# ruff: noqa: F811, F821

# %% right: place by place of the window


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def places(self, size):
        (rows, columns), s = size, self.stride
        for i in range(self.window):
            for j in range(self.window):
                yield np.s_[:, :, i : i + s * (rows - 1) + 1 : s, j : j + s * (columns - 1) + 1 : s]

    def forward(self, x):
        self.x, self.size = x, [(n - self.window) // self.stride + 1 for n in x.shape[2:]]
        seen = np.stack([x[place] for place in self.places(self.size)])
        self.index = seen.argmax(axis=0)
        return seen.max(axis=0)

    def backward(self, g):
        dx = np.zeros_like(self.x)
        for number, place in enumerate(self.places(self.size)):
            dx[place] += np.where(self.index == number, g, 0)
        return dx


# %% right: flat indices and np.add.at


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        n, c, height, width = x.shape
        k, s = self.window, self.stride
        views = np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::s, ::s]
        flat = views.reshape(*views.shape[:4], k * k)
        best = flat.argmax(axis=4)
        rows = np.arange(flat.shape[2])[:, None] * s + best // k
        columns = np.arange(flat.shape[3]) * s + best % k
        pictures = np.arange(n * c).reshape(n, c, 1, 1)
        self.where, self.shape = (pictures * height + rows) * width + columns, x.shape
        return np.take_along_axis(flat, best[..., None], axis=4)[..., 0]

    def backward(self, g):
        dx = np.zeros(int(np.prod(self.shape)), g.dtype)
        np.add.at(dx, self.where.reshape(-1), g.reshape(-1))
        return dx.reshape(self.shape)


# %% wrong: assigned where windows overlap | the last one replaces the others


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        self.x = x
        k, s = self.window, self.stride
        return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::s, ::s].max(axis=(4, 5))

    def backward(self, g):
        dx, k, s = np.zeros_like(self.x), self.window, self.stride
        for n, c, i, j in np.ndindex(*g.shape):
            seen = self.x[n, c, i * s : i * s + k, j * s : j * s + k]
            a, b = divmod(int(seen.argmax()), k)
            dx[n, c, i * s + a, j * s + b] = g[n, c, i, j]
        return dx


# %% wrong: all that tie get it | tie for the largest gets the whole gradient


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        self.x = x
        k, s = self.window, self.stride
        return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::s, ::s].max(axis=(4, 5))

    def backward(self, g):
        dx, k, s = np.zeros_like(self.x), self.window, self.stride
        for n, c, i, j in np.ndindex(*g.shape):
            seen = self.x[n, c, i * s : i * s + k, j * s : j * s + k]
            dx[n, c, i * s : i * s + k, j * s : j * s + k] += g[n, c, i, j] * (seen == seen.max())
        return dx


# %% wrong: shared at a tie | shared among the pixels that tie


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        self.x = x
        k, s = self.window, self.stride
        return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::s, ::s].max(axis=(4, 5))

    def backward(self, g):
        dx, k, s = np.zeros_like(self.x), self.window, self.stride
        for n, c, i, j in np.ndindex(*g.shape):
            largest = self.x[n, c, i * s : i * s + k, j * s : j * s + k]
            largest = largest == largest.max()
            dx[n, c, i * s : i * s + k, j * s : j * s + k] += g[n, c, i, j] * largest / largest.sum()
        return dx


# %% wrong: the last at a tie | At a tie the last pixel


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        self.x = x
        k, s = self.window, self.stride
        return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::s, ::s].max(axis=(4, 5))

    def backward(self, g):
        dx, k, s = np.zeros_like(self.x), self.window, self.stride
        for n, c, i, j in np.ndindex(*g.shape):
            seen = self.x[n, c, i * s : i * s + k, j * s : j * s + k]
            a, b = divmod(k * k - 1 - int(seen.ravel()[::-1].argmax()), k)
            dx[n, c, i * s + a, j * s + b] += g[n, c, i, j]
        return dx


# %% wrong: the first column by column | count row by row


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        self.x = x
        k, s = self.window, self.stride
        return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::s, ::s].max(axis=(4, 5))

    def backward(self, g):
        dx, k, s = np.zeros_like(self.x), self.window, self.stride
        for n, c, i, j in np.ndindex(*g.shape):
            seen = self.x[n, c, i * s : i * s + k, j * s : j * s + k]
            b, a = divmod(int(seen.T.argmax()), k)
            dx[n, c, i * s + a, j * s + b] += g[n, c, i, j]
        return dx


# %% wrong: the backward pass of an average | backward pass of an average


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        self.x = x
        k, s = self.window, self.stride
        return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::s, ::s].max(axis=(4, 5))

    def backward(self, g):
        dx, k, s = np.zeros_like(self.x), self.window, self.stride
        for n, c, i, j in np.ndindex(*g.shape):
            dx[n, c, i * s : i * s + k, j * s : j * s + k] += g[n, c, i, j] / (k * k)
        return dx


# %% wrong: an average | mean of each window


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        self.x = x
        k, s = self.window, self.stride
        return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::s, ::s].mean(axis=(4, 5))

    def backward(self, g):
        dx, k, s = np.zeros_like(self.x), self.window, self.stride
        for n, c, i, j in np.ndindex(*g.shape):
            seen = self.x[n, c, i * s : i * s + k, j * s : j * s + k]
            a, b = divmod(int(seen.argmax()), k)
            dx[n, c, i * s + a, j * s + b] += g[n, c, i, j]
        return dx


# %% wrong: into the corner | window's corner


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        self.x = x
        k, s = self.window, self.stride
        return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::s, ::s].max(axis=(4, 5))

    def backward(self, g):
        dx, s = np.zeros_like(self.x), self.stride
        for n, c, i, j in np.ndindex(*g.shape):
            dx[n, c, i * s, j * s] += g[n, c, i, j]
        return dx


# %% wrong: ignores g | for a g of ones


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        self.x = x
        k, s = self.window, self.stride
        return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::s, ::s].max(axis=(4, 5))

    def backward(self, g):
        dx, k, s = np.zeros_like(self.x), self.window, self.stride
        for n, c, i, j in np.ndindex(*g.shape):
            seen = self.x[n, c, i * s : i * s + k, j * s : j * s + k]
            a, b = divmod(int(seen.argmax()), k)
            dx[n, c, i * s + a, j * s + b] += 1
        return dx


# %% wrong: blocks by reshape | reshape into blocks does not do


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        n, c, height, width = x.shape
        k = self.window
        self.blocks = x.reshape(n, c, height // k, k, width // k, k)
        self.best = self.blocks.max(axis=(3, 5), keepdims=True)
        return self.best[:, :, :, 0, :, 0]

    def backward(self, g):
        dx = (self.blocks == self.best) * g[:, :, :, None, :, None]
        n, c, h, k, w, _ = self.blocks.shape
        return dx.reshape(n, c, h * k, w * k)


# %% wrong: drops what is left over from the result | (shape|rows)


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        k, s = self.window, self.stride
        rows, columns = ((n - k) // s * s + k for n in x.shape[2:])
        self.x = x[:, :, :rows, :columns]
        return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::s, ::s].max(axis=(4, 5))

    def backward(self, g):
        dx, k, s = np.zeros_like(self.x), self.window, self.stride
        for n, c, i, j in np.ndindex(*g.shape):
            seen = self.x[n, c, i * s : i * s + k, j * s : j * s + k]
            a, b = divmod(int(seen.argmax()), k)
            dx[n, c, i * s + a, j * s + b] += g[n, c, i, j]
        return dx


# %% wrong: the stride ignored | stride is ignored


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, 1

    def forward(self, x):
        self.x = x
        k, s = self.window, self.stride
        return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::s, ::s].max(axis=(4, 5))

    def backward(self, g):
        dx, k, s = np.zeros_like(self.x), self.window, self.stride
        for n, c, i, j in np.ndindex(*g.shape):
            seen = self.x[n, c, i * s : i * s + k, j * s : j * s + k]
            a, b = divmod(int(seen.argmax()), k)
            dx[n, c, i * s + a, j * s + b] += g[n, c, i, j]
        return dx


# %% wrong: the hole left open | not been filled


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        raise NotImplementedError

    def backward(self, g):
        raise NotImplementedError


# %% wrong: row and column swapped | Row and column of the largest pixel are swapped


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        self.x, k, s = x, self.window, self.stride
        down, across = (x.shape[2] - k) // s + 1, (x.shape[3] - k) // s + 1
        y = np.zeros((*x.shape[:2], down, across), x.dtype)
        for n, c, i, j in np.ndindex(*y.shape):
            y[n, c, i, j] = x[n, c, i * s : i * s + k, j * s : j * s + k].max()
        return y

    def backward(self, g):
        k, s = self.window, self.stride
        out = np.zeros_like(self.x)
        for n, c, i, j in np.ndindex(*g.shape):
            row, column = divmod(int(self.x[n, c, i * s : i * s + k, j * s : j * s + k].argmax()), k)
            out[n, c, i * s + column, j * s + row] += g[n, c, i, j]
        return out


# %% wrong: no stride in backward | backward ignores the stride


class MaxPool:
    def __init__(self, window, stride):
        self.window, self.stride = window, stride

    def forward(self, x):
        self.x, k, s = x, self.window, self.stride
        down, across = (x.shape[2] - k) // s + 1, (x.shape[3] - k) // s + 1
        y = np.zeros((*x.shape[:2], down, across), x.dtype)
        for n, c, i, j in np.ndindex(*y.shape):
            y[n, c, i, j] = x[n, c, i * s : i * s + k, j * s : j * s + k].max()
        return y

    def backward(self, g):
        k, s = self.window, self.stride
        out = np.zeros_like(self.x)
        for n, c, i, j in np.ndindex(*g.shape):
            row, column = divmod(int(self.x[n, c, i * s : i * s + k, j * s : j * s + k].argmax()), k)
            out[n, c, i + row, j + column] += g[n, c, i, j]
        return out
