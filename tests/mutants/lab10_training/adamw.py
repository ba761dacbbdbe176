"""Answers to the task `adamw`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B007, B905, F811, F821

# %% right: decay as a subtraction


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.weight_decay = list(parameters), weight_decay

    def step(self, gradients):
        for p, g in zip(self.decayed, gradients):
            if g is not None and p.ndim > 1:
                p -= self.lr * self.weight_decay * p
        super().step(gradients)


# %% right: the whole of Adam again, and one subtraction


class AdamW:
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.slots = [{"p": p, "m": 0.0, "v": 0.0, "t": 0} for p in parameters]

    def step(self, gradients):
        for slot, g in zip(self.slots, gradients):
            if g is None:
                continue
            p, (b1, b2) = slot["p"], self.betas
            slot["t"] += 1
            slot["m"] = b1 * slot["m"] + (1 - b1) * g
            slot["v"] = b2 * slot["v"] + (1 - b2) * g * g
            move = slot["m"] / (1 - b1 ** slot["t"]) / (np.sqrt(slot["v"] / (1 - b2 ** slot["t"])) + self.eps)
            decay = self.weight_decay if p.ndim >= 2 else 0.0
            p -= self.lr * (move + decay * p)


# %% wrong: no decay at all | do not decay at all


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.weight_decay = list(parameters), weight_decay

    def step(self, gradients):
        for p, g in zip(self.decayed, gradients):
            if g is not None and p.ndim > 1:
                pass
        super().step(gradients)


# %% wrong: the decay in the gradient | L2 regularisation


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.weight_decay = list(parameters), weight_decay

    def step(self, gradients):
        super().step(
            [g + self.weight_decay * p if g is not None and p.ndim > 1 else g for p, g in zip(self.decayed, gradients)]
        )


# %% wrong: the decay in the gradient, and of biases too | Adam rescales it; and parameters of 0 or 1 axes


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.weight_decay = list(parameters), weight_decay

    def step(self, gradients):
        pairs = zip(gradients, self.decayed)
        super().step([None if g is None else (g + self.weight_decay * p).astype(p.dtype) for g, p in pairs])


# %% wrong: biases decay too | 0 or 1 axes


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.weight_decay = list(parameters), weight_decay

    def step(self, gradients):
        for p, g in zip(self.decayed, gradients):
            if g is not None:
                p *= 1 - self.lr * self.weight_decay
        super().step(gradients)


# %% wrong: one-dimensional ones decay too | result|axes


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.weight_decay = list(parameters), weight_decay

    def step(self, gradients):
        for p, g in zip(self.decayed, gradients):
            if g is not None and p.ndim > 0:
                p *= 1 - self.lr * self.weight_decay
        super().step(gradients)


# %% wrong: decays where there is no gradient | without a gradient decays


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.weight_decay = list(parameters), weight_decay

    def step(self, gradients):
        for p, g in zip(self.decayed, gradients):
            if p.ndim > 1:
                p *= 1 - self.lr * self.weight_decay
        super().step(gradients)


# %% wrong: not scaled by the step size | not scaled by the step size


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.weight_decay = list(parameters), weight_decay

    def step(self, gradients):
        for p, g in zip(self.decayed, gradients):
            if g is not None and p.ndim > 1:
                p *= 1 - self.weight_decay
        super().step(gradients)


# %% wrong: after Adam's step | comes after Adam


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.weight_decay = list(parameters), weight_decay

    def step(self, gradients):
        super().step(gradients)
        for p, g in zip(self.decayed, gradients):
            if g is not None and p.ndim > 1:
                p *= 1 - self.lr * self.weight_decay


# %% wrong: weights grow | grow where they should shrink


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.weight_decay = list(parameters), weight_decay

    def step(self, gradients):
        for p, g in zip(self.decayed, gradients):
            if g is not None and p.ndim > 1:
                p *= 1 + self.lr * self.weight_decay
        super().step(gradients)


# %% wrong: the step size of the start | step size at the start


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.factor = list(parameters), 1 - lr * weight_decay

    def step(self, gradients):
        for p, g in zip(self.decayed, gradients):
            if g is not None and p.ndim > 1:
                p *= self.factor
        super().step(gradients)


# %% wrong: new arrays | do not decay at all|result


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.weight_decay = list(parameters), weight_decay

    def step(self, gradients):
        for p, g in zip(self.decayed, gradients):
            if g is not None and p.ndim > 1:
                p = p * (1 - self.lr * self.weight_decay)
        super().step(gradients)


# %% wrong: adds to the gradient in place | only given to read


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.weight_decay = list(parameters), weight_decay

    def step(self, gradients):
        for p, g in zip(self.decayed, gradients):
            if g is not None and p.ndim > 1:
                g += self.weight_decay * p
        super().step(gradients)


# %% wrong: decays by the sign | After step \d+ parameters\[


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, lr, betas, eps)
        self.decayed, self.weight_decay = list(parameters), weight_decay

    def step(self, gradients):
        for p, g in zip(self.decayed, gradients):
            if g is not None and p.ndim > 1:
                p -= self.lr * self.weight_decay * np.sign(p)
        super().step(gradients)


# %% wrong: not filled in | Not written yet


class AdamW(Adam):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        raise NotImplementedError("your code here")

    def step(self, gradients):
        for p, g in zip(self.decayed, gradients):
            if g is not None and p.ndim > 1:
                p *= 1 - self.lr * self.weight_decay
        super().step(gradients)
