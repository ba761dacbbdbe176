"""Answers to the task `record`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: a closure in place of attributes


def record(function, n):
    steps = []

    class Stand(Operators):
        def __init__(self, slot):
            self.slot = slot

        def apply(self, op, *operands):
            steps.append(Step(op, tuple(o.slot if isinstance(o, Stand) else float(o) for o in operands)))
            return Stand(n + len(steps) - 1)

    out = function(*map(Stand, range(n)))
    return Program(n, steps, out.slot)


# %% right: a counter, and slots looked up by identity


class Symbol(Operators):
    def __init__(self, book):
        self.book = book
        book["symbols"].append(self)

    def apply(self, op, *operands):
        slots = []
        for one in operands:
            if isinstance(one, Symbol):
                slots.append([s is one for s in self.book["symbols"]].index(True))
            else:
                slots.append(1.0 * one)
        self.book["steps"].append(Step(op, tuple(slots)))
        return Symbol(self.book)


def record(function, n):
    book = {"symbols": [], "steps": []}
    result = function(*[Symbol(book) for _ in range(n)])
    return Program(n, book["steps"], [s is result for s in book["symbols"]].index(True))


# %% wrong: one list for all recordings | made after another|begin with an empty list

ALL = []


def record(function, n):
    class Stand(Operators):
        def __init__(self, slot):
            self.slot = slot

        def apply(self, op, *operands):
            ALL.append(Step(op, tuple(o.slot if isinstance(o, Stand) else float(o) for o in operands)))
            return Stand(n + len(ALL) - 1)

    out = function(*map(Stand, range(n)))
    return Program(n, list(ALL), out.slot)


# %% wrong: the symbol always comes first | wrong way round


class Symbol(Operators):
    def __init__(self, slot, inputs, steps):
        self.slot, self.inputs, self.steps = slot, inputs, steps

    def apply(self, op, *operands):
        others = [one for one in operands if one is not self]
        slots = (self.slot, *[one.slot if isinstance(one, Symbol) else float(one) for one in others])
        if len(slots) < len(operands):
            slots = (self.slot,) * len(operands)
        self.steps.append(Step(op, slots))
        return Symbol(self.inputs + len(self.steps) - 1, self.inputs, self.steps)


# %% wrong: inputs take no slots | not filled then|operands|slot


class Symbol(Operators):
    def __init__(self, slot, inputs, steps):
        self.slot, self.inputs, self.steps = slot, inputs, steps

    def apply(self, op, *operands):
        slots = tuple(one.slot if isinstance(one, Symbol) else float(one) for one in operands)
        self.steps.append(Step(op, slots))
        return Symbol(len(self.steps) - 1, self.inputs, self.steps)


# %% wrong: one slot too far | slot


class Symbol(Operators):
    def __init__(self, slot, inputs, steps):
        self.slot, self.inputs, self.steps = slot, inputs, steps

    def apply(self, op, *operands):
        slots = tuple(one.slot if isinstance(one, Symbol) else float(one) for one in operands)
        self.steps.append(Step(op, slots))
        return Symbol(self.inputs + len(self.steps), self.inputs, self.steps)


# %% wrong: the result is the last step | said to be in slot


def record(function, n):
    written = []
    function(*[Symbol(place, n, written) for place in range(n)])
    return Program(n, written, max(n + len(written) - 1, 0))


# %% wrong: steps that nobody uses are not written | slot|operations


def record(function, n):
    written = []
    result = function(*[Symbol(place, n, written) for place in range(n)])
    keep = []
    wanted = {result.slot}
    for i in reversed(range(len(written))):
        if n + i in wanted:
            wanted |= {o for o in written[i].operands if isinstance(o, int)}
            keep.insert(0, written[i])
    return Program(n, keep, result.slot)


# %% wrong: the newest first | another order|operands|slot


def record(function, n):
    written = []
    result = function(*[Symbol(place, n, written) for place in range(n)])
    return Program(n, written[::-1], result.slot)


# %% wrong: constants rounded to whole numbers | operands|computes something else|constant


class Symbol(Operators):
    def __init__(self, slot, inputs, steps):
        self.slot, self.inputs, self.steps = slot, inputs, steps

    def apply(self, op, *operands):
        slots = tuple(one.slot if isinstance(one, Symbol) else float(int(one)) for one in operands)
        self.steps.append(Step(op, slots))
        return Symbol(self.inputs + len(self.steps) - 1, self.inputs, self.steps)


# %% wrong: the function runs twice | operations are


def record(function, n):
    written = []
    symbols = [Symbol(place, n, written) for place in range(n)]
    function(*symbols)
    result = function(*symbols)
    return Program(n, written, result.slot)


# %% wrong: symbols of the inputs share the first slot | operands|slot|computes


def record(function, n):
    written = []
    result = function(*[Symbol(0, n, written) for place in range(n)])
    return Program(n, written, result.slot)
