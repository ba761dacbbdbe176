"""Answers to the task `meet`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811

# %% right: a dict for each step


class Rendezvous:
    def __init__(self):
        self.steps, self.over = {}, []

    def put(self, step, name, value):
        if step in self.over:
            return
        self.steps.setdefault(step, {})[name] = value

    def take(self, step, name):
        return self.steps[step].pop(name) if name in self.steps.get(step, {}) else None

    def abort(self, step):
        self.over.append(step)
        self.steps.pop(step, None)

    def __len__(self):
        return sum(len(values) for values in self.steps.values())


# %% right: a list of what came


class Rendezvous:
    def __init__(self):
        self.came, self.dead = [], frozenset()

    def put(self, step, name, value):
        self.came += [(step, name, value)] * (step not in self.dead)

    def take(self, step, name):
        for place, entry in enumerate(self.came):
            if entry[:2] == (step, name):
                return self.came.pop(place)[2]
        return None

    def abort(self, step):
        self.dead |= {step}
        self.came = [entry for entry in self.came if entry[0] != step]

    def __len__(self):
        return len(self.came)


# %% wrong: the step is not in the key | the step is a part of the key|must not be kept


class Rendezvous:
    def __init__(self):
        self.values, self.ended = {}, set()

    def put(self, step, name, value):
        if step not in self.ended:
            self.values[name] = value

    def take(self, step, name):
        return self.values.pop(name, None)

    def abort(self, step):
        self.ended.add(step)

    def __len__(self):
        return len(self.values)


# %% wrong: the name is not in the key | expected


class Rendezvous:
    def __init__(self):
        self.values, self.ended = {}, set()

    def put(self, step, name, value):
        if step not in self.ended:
            self.values[step] = value

    def take(self, step, name):
        return self.values.pop(step, None)

    def abort(self, step):
        self.ended.add(step)
        self.values.pop(step, None)

    def __len__(self):
        return len(self.values)


# %% wrong: a value stays after it was taken | A value is taken once|must not be kept


class Rendezvous:
    def __init__(self):
        self.values, self.ended = {}, set()

    def put(self, step, name, value):
        if step not in self.ended:
            self.values[step, name] = value

    def take(self, step, name):
        return self.values.get((step, name))

    def abort(self, step):
        self.ended.add(step)
        self.values = {key: value for key, value in self.values.items() if key[0] != step}

    def __len__(self):
        return len(self.values)


# %% wrong: what comes late is kept | what comes late|must not be kept


class Rendezvous:
    def __init__(self):
        self.values = {}

    def put(self, step, name, value):
        self.values[step, name] = value

    def take(self, step, name):
        return self.values.pop((step, name), None)

    def abort(self, step):
        self.values = {key: value for key, value in self.values.items() if key[0] != step}

    def __len__(self):
        return len(self.values)


# %% wrong: what had come is kept | what had come is dropped|must not be kept


class Rendezvous:
    def __init__(self):
        self.values, self.ended = {}, set()

    def put(self, step, name, value):
        if step not in self.ended:
            self.values[step, name] = value

    def take(self, step, name):
        return self.values.pop((step, name), None)

    def abort(self, step):
        self.ended.add(step)

    def __len__(self):
        return len(self.values)


# %% wrong: refused, but not let go | must not be kept


class Rendezvous:
    def __init__(self):
        self.values, self.ended = {}, set()

    def put(self, step, name, value):
        self.values[step, name] = value

    def take(self, step, name):
        return None if step in self.ended else self.values.pop((step, name), None)

    def abort(self, step):
        self.ended.add(step)

    def __len__(self):
        return len(self.values)


# %% wrong: 0 is nothing | A value may be 0


class Rendezvous:
    def __init__(self):
        self.values, self.ended = {}, set()

    def put(self, step, name, value):
        if step not in self.ended:
            self.values[step, name] = value

    def take(self, step, name):
        return self.values.pop((step, name), None) or None

    def abort(self, step):
        self.ended.add(step)
        self.values = {key: value for key, value in self.values.items() if key[0] != step}

    def __len__(self):
        return len(self.values)


# %% wrong: abort ends every step | expected


class Rendezvous:
    def __init__(self):
        self.values, self.ended = {}, set()

    def put(self, step, name, value):
        if step not in self.ended:
            self.values[step, name] = value

    def take(self, step, name):
        return self.values.pop((step, name), None)

    def abort(self, step):
        self.ended.add(step)
        self.values.clear()

    def __len__(self):
        return len(self.values)


# %% wrong: earlier steps are given up too | expected


class Rendezvous:
    def __init__(self):
        self.values, self.first = {}, 0

    def put(self, step, name, value):
        if step >= self.first:
            self.values[step, name] = value

    def take(self, step, name):
        return self.values.pop((step, name), None)

    def abort(self, step):
        self.first = max(self.first, step + 1)
        self.values = {key: value for key, value in self.values.items() if key[0] >= self.first}

    def __len__(self):
        return len(self.values)


# %% wrong: an error for what has not come | KeyError


class Rendezvous:
    def __init__(self):
        self.values, self.ended = {}, set()

    def put(self, step, name, value):
        if step not in self.ended:
            self.values[step, name] = value

    def take(self, step, name):
        return self.values.pop((step, name))

    def abort(self, step):
        self.ended.add(step)
        self.values = {key: value for key, value in self.values.items() if key[0] != step}

    def __len__(self):
        return len(self.values)


# %% wrong: all instances share one dict | held|expected|must not be kept


class Rendezvous:
    values, ended = {}, set()

    def put(self, step, name, value):
        if step not in self.ended:
            self.values[step, name] = value

    def take(self, step, name):
        return self.values.pop((step, name), None)

    def abort(self, step):
        self.ended.add(step)
        for key in [key for key in self.values if key[0] == step]:
            del self.values[key]

    def __len__(self):
        return len(self.values)
