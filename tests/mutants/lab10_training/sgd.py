"""Answers to the task `sgd`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: ufuncs with an output, and nothing of the shape asked


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    np.multiply(velocity, momentum, out=velocity)
    np.add(velocity, gradient, out=velocity)
    move = velocity
    if nesterov:
        move = np.add(gradient, np.multiply(velocity, momentum))
    np.subtract(parameter, np.multiply(move, lr), out=parameter)


# %% right: written back through an ellipsis


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    velocity[...] = momentum * velocity + gradient
    if nesterov:
        parameter[...] = parameter - lr * gradient - lr * momentum * velocity
    else:
        parameter[...] = parameter - lr * velocity


# %% right: entry by entry


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    for index in np.ndindex(parameter.shape):
        v = momentum * velocity[index] + gradient[index]
        velocity[index] = v
        parameter[index] -= lr * (gradient[index] + momentum * v if nesterov else v)


# %% right: no velocity where there is no momentum


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    move = gradient
    if momentum > 0:
        velocity[...] = velocity * momentum + gradient
        move = gradient + momentum * velocity if nesterov else velocity
    parameter -= lr * move


# %% wrong: new arrays in place of the given | Neither array has changed|write into it


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    velocity = momentum * velocity + gradient
    parameter = parameter - lr * (gradient + momentum * velocity if nesterov else velocity)


# %% wrong: up the hill | down is against it


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    velocity *= momentum
    velocity += gradient
    parameter += lr * (gradient + momentum * velocity if nesterov else velocity)


# %% wrong: the velocity is an average | times 1 - momentum


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    velocity *= momentum
    velocity += (1 - momentum) * gradient
    parameter -= lr * (gradient + momentum * velocity if nesterov else velocity)


# %% wrong: the step size in the velocity | inside the velocity|velocity


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    velocity *= momentum
    velocity += lr * gradient
    parameter -= lr * gradient + momentum * velocity if nesterov else velocity


# %% wrong: nesterov forgotten | nesterov=True the step is the same|gradient \+ momentum


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    velocity *= momentum
    velocity += gradient
    parameter -= lr * velocity


# %% wrong: always nesterov | also where nesterov is False


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=True):
    velocity *= momentum
    velocity += gradient
    parameter -= lr * (gradient + momentum * velocity)


# %% wrong: nesterov with the old velocity | the same as without


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    old = velocity.copy()
    velocity *= momentum
    velocity += gradient
    parameter -= lr * (gradient + momentum * old if nesterov else velocity)


# %% wrong: moves before the velocity is updated | Update the velocity first


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    parameter -= lr * (gradient + momentum * velocity if nesterov else velocity)
    velocity *= momentum
    velocity += gradient


# %% wrong: the velocity is a copy | velocity .* stays at zero|Write into


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    velocity = velocity * momentum + gradient
    parameter -= lr * (gradient + momentum * velocity if nesterov else velocity)


# %% wrong: scales the gradient in place | only given to read


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    velocity *= momentum
    velocity += gradient
    gradient *= lr
    parameter -= gradient + lr * momentum * velocity if nesterov else lr * velocity


# %% wrong: through a flat copy of the parameter | After step \d+ parameter


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    velocity *= momentum
    velocity += gradient
    flat = parameter.reshape(-1)
    flat -= lr * (gradient + momentum * velocity if nesterov else velocity).reshape(-1)


# %% wrong: not filled in | Not written yet


def sgd_step(parameter, gradient, velocity, lr, momentum, nesterov=False):
    raise NotImplementedError("your code here")
