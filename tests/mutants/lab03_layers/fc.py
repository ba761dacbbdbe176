"""Answers to the task `fc`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, and are
# bound again in the next section.
# ruff: noqa: B905, F811, F821

# %% right: einsum, and a new gradient array each time


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.seen = x
        return np.einsum("ni,io->no", x, self.weight.value) + self.bias.value[None, :]

    def backward(self, g):
        self.weight.gradient = self.weight.gradient + np.einsum("ni,no->io", self.seen, g)
        self.bias.gradient = self.bias.gradient + g.sum(0)
        return np.einsum("no,io->ni", g, self.weight.value)


# %% right: row by row, with a stack of inputs


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias, self.inputs = weight, bias, []

    def forward(self, x):
        self.inputs.append(x)
        y = np.empty((len(x), len(self.bias.value)), x.dtype)
        for i, row in enumerate(x):
            y[i] = row @ self.weight.value + self.bias.value
        return y

    def backward(self, g):
        x = self.inputs.pop()
        dx = np.zeros_like(x)
        for i, (row, cotangent) in enumerate(zip(x, g)):
            self.weight.gradient += np.outer(row, cotangent)
            self.bias.gradient += cotangent
            dx[i] = self.weight.value @ cotangent
        return dx


# %% wrong: assigns | wipes out what was there


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.x = x
        return x @ self.weight.value + self.bias.value

    def backward(self, g):
        self.weight.gradient = self.x.T @ g
        self.bias.gradient = g.sum(axis=0)
        return g @ self.weight.value.T


# %% wrong: averages over the batch | Averaging belongs to the loss


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.x = x
        return x @ self.weight.value + self.bias.value

    def backward(self, g):
        n = max(len(g), 1)
        self.weight.gradient += self.x.T @ g / n
        self.bias.gradient += g.sum(axis=0) / n
        return g @ self.weight.value.T


# %% wrong: mean for the bias | bias is averaged over the rows


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.x = x
        return x @ self.weight.value + self.bias.value

    def backward(self, g):
        self.weight.gradient += self.x.T @ g
        self.bias.gradient += g.mean(axis=0) if len(g) else 0
        return g @ self.weight.value.T


# %% wrong: the weight's gradient transposed | x.T @ g


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.x = x
        return x @ self.weight.value + self.bias.value

    def backward(self, g):
        gradient = g.T @ self.x
        self.weight.gradient += gradient if gradient.shape == self.weight.value.shape else gradient.T
        self.bias.gradient += g.sum(axis=0)
        return g @ self.weight.value.T


# %% wrong: through the weight the wrong way | (g @ weight.T|Shapes decide)


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.x = x
        return x @ self.weight.value + self.bias.value

    def backward(self, g):
        self.weight.gradient += self.x.T @ g
        self.bias.gradient += g.sum(axis=0)
        return g @ self.weight.value


# %% wrong: no bias in the output | lacks the bias


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.x = x
        return x @ self.weight.value

    def backward(self, g):
        self.weight.gradient += self.x.T @ g
        self.bias.gradient += g.sum(axis=0)
        return g @ self.weight.value.T


# %% wrong: no gradient for the bias | bias gets no gradient


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.x = x
        return x @ self.weight.value + self.bias.value

    def backward(self, g):
        self.weight.gradient += self.x.T @ g
        return g @ self.weight.value.T


# %% wrong: one x for all layers | keep it on self


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        FullyConnected.x = x
        return x @ self.weight.value + self.bias.value

    def backward(self, g):
        self.weight.gradient += FullyConnected.x.T @ g
        self.bias.gradient += g.sum(axis=0)
        return g @ self.weight.value.T


# %% wrong: zeroes the gradients on the way forward | set to zero in every forward pass


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.x = x
        self.weight.gradient[...] = 0
        self.bias.gradient[...] = 0
        return x @ self.weight.value + self.bias.value

    def backward(self, g):
        self.weight.gradient += self.x.T @ g
        self.bias.gradient += g.sum(axis=0)
        return g @ self.weight.value.T


# %% wrong: ignores g | for a g of ones


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.x = x
        return x @ self.weight.value + self.bias.value

    def backward(self, g):
        self.weight.gradient += np.outer(self.x.sum(axis=0), np.ones(g.shape[1])).astype(g.dtype)
        self.bias.gradient += len(g)
        return g @ self.weight.value.T


# %% wrong: learns on the spot | optimizer's business


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.x = x
        return x @ self.weight.value + self.bias.value

    def backward(self, g):
        dx = g @ self.weight.value.T
        self.weight.gradient += self.x.T @ g
        self.bias.gradient += g.sum(axis=0)
        self.weight.value -= 0.1 * self.weight.gradient
        return dx


# %% wrong: adds the bias into what it was given | (read-only|given to read)


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.x = x
        return x @ self.weight.value + self.bias.value

    def backward(self, g):
        self.weight.gradient += self.x.T @ g
        self.bias.gradient += g.sum(axis=0)
        g *= 1.0
        return g @ self.weight.value.T


# %% wrong: grows to float64 | dtype


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.x = x
        return x @ self.weight.value + self.bias.value

    def backward(self, g):
        self.weight.gradient = self.weight.gradient + self.x.T.astype(float) @ g
        self.bias.gradient = self.bias.gradient + g.sum(axis=0)
        return g @ self.weight.value.T


# %% wrong: returns nothing | (None|return)


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        self.x = x
        return x @ self.weight.value + self.bias.value

    def backward(self, g):
        self.weight.gradient += self.x.T @ g
        self.bias.gradient += g.sum(axis=0)


# %% wrong: the hole left open | not been filled


class FullyConnected:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        raise NotImplementedError

    def backward(self, g):
        raise NotImplementedError
