"""Answers to the task `update`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, and are
# bound again in the next section.
# ruff: noqa: F811, F821

# %% right: all in place


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.gradient += p.value * (decay * p.decay_mult)
        p.gradient *= lr * p.lr_mult
        p.velocity *= momentum
        p.velocity += p.gradient
        p.value -= p.velocity
        p.gradient[...] = 0


# %% right: new arrays, written back


def update(parameters, lr, momentum, decay):
    for p in parameters:
        rate = lr * p.lr_mult
        pushed = rate * p.gradient
        pulled = rate * decay * p.decay_mult * p.value
        p.velocity = momentum * p.velocity + (pushed + pulled)
        p.value[...] = p.value - p.velocity
        p.gradient = np.zeros_like(p.value)


# %% wrong: the step size outside | PyTorch's form


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = momentum * p.velocity + (p.gradient + decay * p.decay_mult * p.value)
        p.value -= lr * p.lr_mult * p.velocity
        p.gradient = np.zeros_like(p.value)


# %% wrong: one step size for all | lr_mult is ignored


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = momentum * p.velocity + lr * (p.gradient + decay * p.decay_mult * p.value)
        p.value -= p.velocity
        p.gradient = np.zeros_like(p.value)


# %% wrong: one decay for all | decay_mult is ignored


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = momentum * p.velocity + lr * p.lr_mult * (p.gradient + decay * p.value)
        p.value -= p.velocity
        p.gradient = np.zeros_like(p.value)


# %% wrong: no decay | weight decay is left out


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = momentum * p.velocity + lr * p.lr_mult * p.gradient
        p.value -= p.velocity
        p.gradient = np.zeros_like(p.value)


# %% wrong: decay past the velocity | as AdamW does


def update(parameters, lr, momentum, decay):
    for p in parameters:
        before = p.value.copy()
        p.velocity = momentum * p.velocity + lr * p.lr_mult * p.gradient
        p.value -= p.velocity
        p.value -= lr * p.lr_mult * decay * p.decay_mult * before
        p.gradient = np.zeros_like(p.value)


# %% wrong: decay subtracted | wrong sign: it is added


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = momentum * p.velocity + lr * p.lr_mult * (p.gradient - decay * p.decay_mult * p.value)
        p.value -= p.velocity
        p.gradient = np.zeros_like(p.value)


# %% wrong: an average of gradients | factor 1 - momentum


def update(parameters, lr, momentum, decay):
    for p in parameters:
        g = p.gradient + decay * p.decay_mult * p.value
        p.velocity = momentum * p.velocity + (1 - momentum) * lr * p.lr_mult * g
        p.value -= p.velocity
        p.gradient = np.zeros_like(p.value)


# %% wrong: looks ahead | looks ahead along the velocity


def update(parameters, lr, momentum, decay):
    for p in parameters:
        step = lr * p.lr_mult * (p.gradient + decay * p.decay_mult * p.value)
        p.velocity = momentum * p.velocity + step
        p.value -= momentum * p.velocity + step
        p.gradient = np.zeros_like(p.value)


# %% wrong: no momentum | velocity is forgotten


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = lr * p.lr_mult * (p.gradient + decay * p.decay_mult * p.value)
        p.value -= p.velocity
        p.gradient = np.zeros_like(p.value)


# %% wrong: uphill | has to be subtracted


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = momentum * p.velocity + lr * p.lr_mult * (p.gradient + decay * p.decay_mult * p.value)
        p.value += p.velocity
        p.gradient = np.zeros_like(p.value)


# %% wrong: the old velocity | velocity of the step before


def update(parameters, lr, momentum, decay):
    for p in parameters:
        before = p.velocity
        p.velocity = momentum * p.velocity + lr * p.lr_mult * (p.gradient + decay * p.decay_mult * p.value)
        p.value -= before
        p.gradient = np.zeros_like(p.value)


# %% wrong: a new value | Threads hold the old one


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = momentum * p.velocity + lr * p.lr_mult * (p.gradient + decay * p.decay_mult * p.value)
        p.value = p.value - p.velocity
        p.gradient = np.zeros_like(p.value)


# %% wrong: gradients left behind | not zero after the step


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = momentum * p.velocity + lr * p.lr_mult * (p.gradient + decay * p.decay_mult * p.value)
        p.value -= p.velocity


# %% wrong: the multiplier on the velocity as a whole | also what it holds from before


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = p.lr_mult * (momentum * p.velocity + lr * (p.gradient + decay * p.decay_mult * p.value))
        p.value -= p.velocity
        p.gradient = np.zeros_like(p.value)


# %% wrong: the hole left open | not been filled


def update(parameters, lr, momentum, decay):
    raise NotImplementedError


# %% wrong: the step size outside, its multiplier inside | Both lr and lr_mult belong inside


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = momentum * p.velocity + p.lr_mult * (p.gradient + decay * p.decay_mult * p.value)
        p.value -= lr * p.velocity
        p.gradient = np.zeros_like(p.value)


# %% wrong: settings overwritten in the loop | settings of one parameter reach the next


def update(parameters, lr, momentum, decay):
    for p in parameters:
        lr = lr * p.lr_mult
        decay = decay * p.decay_mult
        p.velocity = momentum * p.velocity + lr * (p.gradient + decay * p.value)
        p.value -= p.velocity
        p.gradient = np.zeros_like(p.value)


# %% wrong: parameters that are done are taken off the list | The list of parameters has changed


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = momentum * p.velocity + lr * p.lr_mult * (p.gradient + decay * p.decay_mult * p.value)
        p.value -= p.velocity
        p.gradient = np.zeros_like(p.value)
        parameters.remove(p)


# %% wrong: a gradient of plain 0 | gradient is an int; expected an array


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = momentum * p.velocity + lr * p.lr_mult * (p.gradient + decay * p.decay_mult * p.value)
        p.value -= p.velocity
        p.gradient = 0


# %% wrong: a slice of a 0-d gradient | A 0-d array has no axis


def update(parameters, lr, momentum, decay):
    for p in parameters:
        p.velocity = momentum * p.velocity + lr * p.lr_mult * (p.gradient + decay * p.decay_mult * p.value)
        p.value -= p.velocity
        p.gradient[:] = 0
