"""Answers to the task `adam`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B905, F811, F821, F841

# %% right: a dict for each parameter, made at its first gradient


class Adam:
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.parameters, self.lr, self.betas, self.eps = parameters, lr, betas, eps
        self.state = {}

    def step(self, gradients):
        beta1, beta2 = self.betas
        for key, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            s = self.state.setdefault(key, {"t": 0, "m": np.zeros_like(p), "v": np.zeros_like(p)})
            s["t"] += 1
            s["m"] = beta1 * s["m"] + (1 - beta1) * g
            s["v"] = beta2 * s["v"] + (1 - beta2) * np.square(g)
            self.move(p, s)

    def move(self, p, s):
        m = s["m"] / (1 - self.betas[0] ** s["t"])
        v = s["v"] / (1 - self.betas[1] ** s["t"])
        p -= self.lr * m / (np.sqrt(v) + self.eps)


# %% right: powers of beta carried along, and one division


class Adam:
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.lr, self.betas, self.eps = lr, betas, eps
        self.slots = [[p, np.zeros_like(p), np.zeros_like(p), 1.0, 1.0] for p in parameters]

    def step(self, gradients):
        b1, b2 = self.betas
        for slot, g in zip(self.slots, gradients):
            if g is not None:
                p, m, v, _, _ = slot
                slot[3] *= b1
                slot[4] *= b2
                np.add(m, (1 - b1) * (g - m), out=m)
                np.add(v, (1 - b2) * (g * g - v), out=v)
                root = (1 - slot[4]) ** 0.5
                p[...] = p - (self.lr * root / (1 - slot[3])) * m / (np.sqrt(v) + self.eps * root)


# %% right: state in float64, whatever the parameter


class Adam:
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.parameters = list(parameters)
        self.m = [np.zeros(np.shape(p)) for p in self.parameters]
        self.v = [np.zeros(np.shape(p)) for p in self.parameters]
        self.t = [0 for _ in self.parameters]
        self.lr, self.beta1, self.beta2, self.eps = lr, *betas, eps

    def step(self, gradients):
        for i, g in enumerate(gradients):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] = self.beta1 * self.m[i] + (1 - self.beta1) * g
            self.v[i] = self.beta2 * self.v[i] + (1 - self.beta2) * g**2
            mhat = self.m[i] / (1 - self.beta1 ** self.t[i])
            vhat = self.v[i] / (1 - self.beta2 ** self.t[i])
            p = self.parameters[i]
            p[...] = p - self.lr * mhat / (vhat**0.5 + self.eps)


# %% wrong: no bias correction | bias correction is missing


class Adam(Adam):
    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i]
            v = self.v[i]
            p -= self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: only the mean is corrected | v is not divided|bias|correct


class Adam(Adam):
    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i]
            p -= self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: the step counter one too far | counted as the second


class Adam:
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.parameters, self.lr, self.betas, self.eps = list(parameters), lr, betas, eps
        self.m = [np.zeros_like(p) for p in self.parameters]
        self.v = [np.zeros_like(p) for p in self.parameters]
        self.t = [1] * len(self.parameters)

    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: the step counter one behind | counts from 0


class Adam(Adam):
    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.lr * m / (np.sqrt(v) + self.eps)
            self.t[i] += 1


# %% wrong: epsilon inside the root | inside the root


class Adam(Adam):
    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.lr * m / (np.sqrt(v + self.eps))


# %% wrong: epsilon before the correction | as Keras


class Adam(Adam):
    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.lr * m / ((np.sqrt(self.v[i]) + self.eps) / np.sqrt(1 - beta2 ** self.t[i]))


# %% wrong: no root | square root


class Adam(Adam):
    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.lr * m / (v + self.eps)


# %% wrong: up the hill | down is against it


class Adam(Adam):
    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p += self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: one counter for all, counted up by each | own t|each needs its own


class Adam:
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.parameters, self.lr, self.betas, self.eps = list(parameters), lr, betas, eps
        self.m = [np.zeros_like(p) for p in self.parameters]
        self.v = [np.zeros_like(p) for p in self.parameters]
        self.t = 0

    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1**self.t)
            v = self.v[i] / (1 - beta2**self.t)
            p -= self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: one counter, counted up by each call | own t


class Adam:
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.parameters, self.lr, self.betas, self.eps = list(parameters), lr, betas, eps
        self.m = [np.zeros_like(p) for p in self.parameters]
        self.v = [np.zeros_like(p) for p in self.parameters]
        self.t = 0

    def step(self, gradients):
        beta1, beta2 = self.betas
        self.t += 1
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1**self.t)
            v = self.v[i] / (1 - beta2**self.t)
            p -= self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: None taken for zeros | taken for zeros


class Adam(Adam):
    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                g = np.zeros_like(p)
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: None not thought of | None


class Adam(Adam):
    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: new arrays in the list | never move


class Adam(Adam):
    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            self.parameters[i] = p - self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: the square of the mean | averages the square of the gradient|square of m


class Adam(Adam):
    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * self.m[i] ** 2
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: betas swapped | swapped


class Adam(Adam):
    def step(self, gradients):
        beta2, beta1 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: the step size of the start | used in every step


class Adam:
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.parameters, self.lr, self.betas, self.eps = list(parameters), lr, betas, eps
        self.rate = lr
        self.m = [np.zeros_like(p) for p in self.parameters]
        self.v = [np.zeros_like(p) for p in self.parameters]
        self.t = [0] * len(self.parameters)

    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.rate * m / (np.sqrt(v) + self.eps)


# %% wrong: one state for all parameters | share one m|result|shape|broadcast|fit


class Adam:
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.parameters, self.lr, self.betas, self.eps = list(parameters), lr, betas, eps
        self.m = [np.zeros_like(self.parameters[0])] * len(self.parameters)
        self.v = [np.zeros_like(self.parameters[0])] * len(self.parameters)
        self.t = [0] * len(self.parameters)

    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] *= beta1
            self.m[i] += (1 - beta1) * g
            self.v[i] *= beta2
            self.v[i] += (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: squares the gradient in place | only given to read


class Adam(Adam):
    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            g *= g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: the mean in half precision | After step \d+ parameters\[


class Adam:
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.parameters, self.lr, self.betas, self.eps = list(parameters), lr, betas, eps
        self.m = [np.zeros(p.shape, np.float16) for p in self.parameters]
        self.v = [np.zeros_like(p) for p in self.parameters]
        self.t = [0] * len(self.parameters)

    def step(self, gradients):
        beta1, beta2 = self.betas
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            if g is None:
                continue
            self.t[i] += 1
            self.m[i][...] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g * g
            m = self.m[i] / (1 - beta1 ** self.t[i])
            v = self.v[i] / (1 - beta2 ** self.t[i])
            p -= self.lr * m / (np.sqrt(v) + self.eps)


# %% wrong: not filled in | Not written yet


class Adam:
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        raise NotImplementedError("your code here")
