"""Answers to the task `accumulate`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: a copy of its own first, then in place


def accumulate(cotangents, node, value):
    if value is None:
        return
    if node in cotangents:
        own = cotangents[node]
        cotangents[node] = np.add(own, value, out=np.empty_like(own)) if np.ndim(own) else own + value
    else:
        cotangents[node] = np.array(value)


# %% right: own buffers, written in place


def accumulate(cotangents, node, value):
    if value is not None:
        try:
            cotangents[node] += value
        except KeyError:
            cotangents[node] = np.array(value, copy=True)


# %% right: get and a sum


def accumulate(cotangents, node, value):
    old = cotangents.get(node)
    new = old if value is None else value if old is None else np.sum([old, value], axis=0)
    cotangents.update({} if new is None else {node: new})


# %% wrong: += into whatever array is there | has changed


def accumulate(cotangents, node, value):
    if value is None:
        return
    if node in cotangents:
        cotangents[node] += value
    else:
        cotangents[node] = value


# %% wrong: += into the value | has changed


def accumulate(cotangents, node, value):
    if value is None:
        return
    if node in cotangents:
        value += cotangents[node]
    cotangents[node] = value


# %% wrong: replaces | it replaces|only one of them


def accumulate(cotangents, node, value):
    if value is not None:
        cotangents[node] = value


# %% wrong: keeps the first | later ones are lost|only one of them


def accumulate(cotangents, node, value):
    if value is not None:
        cotangents.setdefault(node, value)


# %% wrong: counts the first twice | counted twice


def accumulate(cotangents, node, value):
    if value is not None:
        cotangents[node] = cotangents.get(node, value) + value


# %% wrong: adds None | None


def accumulate(cotangents, node, value):
    cotangents[node] = cotangents[node] + value if node in cotangents else value


# %% wrong: None becomes zero | only ever given None


def accumulate(cotangents, node, value):
    cotangents[node] = cotangents.get(node, 0.0) + (0.0 if value is None else value)


# %% wrong: sums to one number | float|shape


def accumulate(cotangents, node, value):
    if value is not None:
        cotangents[node] = cotangents.get(node, 0.0) + np.sum(value)


# %% wrong: float64 whatever came | dtype float64


def accumulate(cotangents, node, value):
    if value is not None:
        cotangents[node] = cotangents.get(node, np.zeros(np.shape(value))) + value


# %% wrong: a new dict that nobody sees | no array at the end


def accumulate(cotangents, node, value):
    if value is not None:
        cotangents = {**cotangents, node: cotangents.get(node, 0) + value}


# %% wrong: the average of what came | averaged|only one of them


def accumulate(cotangents, node, value):
    if value is not None:
        cotangents[node] = (cotangents[node] + value) / 2 if node in cotangents else value


# %% wrong: an equal value is taken for the same one


def accumulate(cotangents, node, value):
    if value is None or (node in cotangents and np.array_equal(cotangents[node], value)):
        return
    cotangents[node] = cotangents[node] + value if node in cotangents else value


# %% wrong: the hole left open | not been filled


def accumulate(cotangents, node, value):
    raise NotImplementedError
