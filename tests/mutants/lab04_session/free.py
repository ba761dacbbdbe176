"""Answers to the task `free`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811

# %% right: backwards, the first reader that is met is the last


def free_after(order, inputs, fetches):
    seen, freed = set(fetches), []
    for name in reversed(order):
        dead = {one for one in [name, *inputs[name]] if one not in seen}
        seen |= dead
        freed.append(dead)
    return freed[::-1]


# %% right: counting readers


def free_after(order, inputs, fetches):
    left = {name: sum(name in inputs[other] for other in order) for name in order}
    freed = []
    for name in order:
        now = [name] if left[name] == 0 else []
        for source in set(inputs[name]):
            left[source] -= 1
            if left[source] == 0:
                now.append(source)
        freed.append(tuple(one for one in now if one not in fetches))
    return freed


# %% wrong: fetches too | the caller still wants it


def free_after(order, inputs, fetches):
    last = {}
    for place, name in enumerate(order):
        for one in [name, *inputs[name]]:
            last[one] = place
    freed = [[] for _ in order]
    for name, place in last.items():
        freed[place].append(name)
    return freed


# %% wrong: after the first reader | which runs later, reads it|nobody reads it at all


def free_after(order, inputs, fetches):
    gone, freed = set(fetches), []
    for name in order:
        now = {one for one in inputs[name] if one not in gone}
        gone |= now
        freed.append(now)
    return freed


# %% wrong: what nobody reads is kept | nobody reads it at all


def free_after(order, inputs, fetches):
    last = {}
    for place, name in enumerate(order):
        for one in inputs[name]:
            last[one] = place
    freed = [[] for _ in order]
    for name, place in last.items():
        if name not in fetches:
            freed[place].append(name)
    return freed


# %% wrong: all at the end | can be freed after|dead before


def free_after(order, inputs, fetches):
    return [[] for _ in order[1:]] + [[name for name in order if name not in fetches]] * bool(order)


# %% wrong: one step too late | can be freed after


def free_after(order, inputs, fetches):
    last = {}
    for place, name in enumerate(order):
        for one in [name, *inputs[name]]:
            last[one] = min(place + 1, len(order) - 1)
    freed = [[] for _ in order]
    for name, place in last.items():
        if name not in fetches:
            freed[place].append(name)
    return freed


# %% wrong: one step too early | reads it|before it has been computed


def free_after(order, inputs, fetches):
    last = {}
    for place, name in enumerate(order):
        for one in [name, *inputs[name]]:
            last[one] = max(place - 1, 0)
    freed = [[] for _ in order]
    for name, place in last.items():
        if name not in fetches:
            freed[place].append(name)
    return freed


# %% wrong: a name for each time it is read | freed twice


def free_after(order, inputs, fetches):
    last = {}
    for place, name in enumerate(order):
        for one in [name, *inputs[name]]:
            last[one] = place
    return [
        [one for one in dict.fromkeys([name]) | {} if last[one] == place and one not in fetches]
        + [one for one in inputs[name] if last[one] == place and one not in fetches]
        for place, name in enumerate(order)
    ]


# %% wrong: nothing is freed | can be freed after


def free_after(order, inputs, fetches):
    return [[] for _ in order]


# %% wrong: a dict from name to place | expected a list


def free_after(order, inputs, fetches):
    last = {}
    for place, name in enumerate(order):
        for one in [name, *inputs[name]]:
            last[one] = place
    return {name: place for name, place in last.items() if name not in fetches}


# %% wrong: entries for steps with something to free only | steps, and


def free_after(order, inputs, fetches):
    seen, freed = set(fetches), []
    for name in reversed(order):
        dead = {one for one in [name, *inputs[name]] if one not in seen}
        seen |= dead
        if dead:
            freed.append(dead)
    return freed[::-1]
