"""Answers to the task `jvp`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B905, F811, F821

# %% right: taken apart by a function of its own


def apart(x, level):
    return (x.value, x.tangent) if type(x) is Dual and x.level == level else (x, None)


class Dual(Lifted):
    def __init__(self, value, tangent, level):
        Lifted.__init__(self, value, level)
        self.tangent = tangent

    @staticmethod
    def run(name, inputs, attrs, level):
        values, tangents = zip(*[apart(x, level) for x in inputs])
        out = apply(name, *values, **attrs)
        if all(t is None for t in tangents):
            return Dual(out, None, level)
        return Dual(out, JVP[name](*tangents, *values, **attrs), level)


def jvp(f, primals, tangents):
    level = new_level()
    duals = [x if dx is None else Dual(x, dx, level) for x, dx in zip(primals, tangents)]
    value, tangent = apart(f(*duals), level)
    return value, zeros_like(value) if tangent is None else tangent


# %% right: levels by depth, a list of those in use

DEPTH = []


def jvp(f, primals, tangents):
    DEPTH.append(1)
    level = len(DEPTH)
    try:
        out = f(*[Dual(x, dx, level) for x, dx in zip(primals, tangents)])
    finally:
        DEPTH.pop()
    if isinstance(out, Dual) and out.level == level:
        return out.value, zeros_like(out.value) if out.tangent is None else out.tangent
    return out, zeros_like(out)


# %% right: a constant is no dual number at all


class Dual(Lifted):
    def __init__(self, value, tangent, level):
        super().__init__(value, level)
        self.tangent = tangent

    @staticmethod
    def run(name, inputs, attrs, level):
        def moves(x):
            return isinstance(x, Dual) and x.level == level and x.tangent is not None

        values = [x.value if isinstance(x, Dual) and x.level == level else x for x in inputs]
        out = apply(name, *values, **attrs)
        if not any(moves(x) for x in inputs):
            return out
        return Dual(out, JVP[name](*[x.tangent if moves(x) else None for x in inputs], *values, **attrs), level)


# %% wrong: every dual number is taken for one's own | Perturbation confusion|another level


class Dual(Lifted):
    def __init__(self, value, tangent, level):
        super().__init__(value, level)
        self.tangent = tangent

    @staticmethod
    def run(name, inputs, attrs, level):
        mine = [isinstance(x, Dual) for x in inputs]
        values = [x.value if own else x for x, own in zip(inputs, mine)]
        tangents = [x.tangent if own else None for x, own in zip(inputs, mine)]
        out = apply(name, *values, **attrs)
        if all(t is None for t in tangents):
            return Dual(out, None, level)
        return Dual(out, JVP[name](*tangents, *values, **attrs), level)


# %% wrong: one level for all | Perturbation confusion|of another level|level


def jvp(f, primals, tangents):
    level = 1
    out = f(*[Dual(x, dx, level) for x, dx in zip(primals, tangents)])
    if not (isinstance(out, Dual) and out.level == level):
        return out, zeros_like(out)
    return out.value, zeros_like(out.value) if out.tangent is None else out.tangent


# %% wrong: the result is taken apart whatever its level | level|Perturbation


def jvp(f, primals, tangents):
    level = new_level()
    out = f(*[Dual(x, dx, level) for x, dx in zip(primals, tangents)])
    if not isinstance(out, Dual):
        return out, zeros_like(out)
    return out.value, zeros_like(out.value) if out.tangent is None else out.tangent


# %% wrong: a result that does not depend on x | Dual|attribute|no attribute


def jvp(f, primals, tangents):
    level = new_level()
    out = f(*[Dual(x, dx, level) for x, dx in zip(primals, tangents)])
    return out.value, zeros_like(out.value) if out.tangent is None else out.tangent


# %% wrong: None for no tangent | None


def jvp(f, primals, tangents):
    level = new_level()
    out = f(*[Dual(x, dx, level) for x, dx in zip(primals, tangents)])
    if not (isinstance(out, Dual) and out.level == level):
        return out, None
    return out.value, out.tangent


# %% wrong: a pair the wrong way round | wrong way round


def jvp(f, primals, tangents):
    level = new_level()
    out = f(*[Dual(x, dx, level) for x, dx in zip(primals, tangents)])
    if not (isinstance(out, Dual) and out.level == level):
        return zeros_like(out), out
    return zeros_like(out.value) if out.tangent is None else out.tangent, out.value


# %% wrong: the kernel is called on the values | lifted|Dual|operand|ufunc|not


class Dual(Lifted):
    def __init__(self, value, tangent, level):
        super().__init__(value, level)
        self.tangent = tangent

    @staticmethod
    def run(name, inputs, attrs, level):
        mine = [isinstance(x, Dual) and x.level == level for x in inputs]
        values = [x.value if own else x for x, own in zip(inputs, mine)]
        tangents = [x.tangent if own else None for x, own in zip(inputs, mine)]
        out = KERNELS[name](*values, **attrs)
        if all(t is None for t in tangents):
            return Dual(out, None, level)
        return Dual(out, JVP[name](*tangents, *values, **attrs), level)


# %% wrong: attributes are forgotten | axis|missing|argument


class Dual(Lifted):
    def __init__(self, value, tangent, level):
        super().__init__(value, level)
        self.tangent = tangent

    @staticmethod
    def run(name, inputs, attrs, level):
        mine = [isinstance(x, Dual) and x.level == level for x in inputs]
        values = [x.value if own else x for x, own in zip(inputs, mine)]
        tangents = [x.tangent if own else None for x, own in zip(inputs, mine)]
        out = apply(name, *values, **attrs)
        if all(t is None for t in tangents):
            return Dual(out, None, level)
        return Dual(out, JVP[name](*tangents, *values), level)


# %% wrong: rules are called with nothing that moves | None|dx|attribute


class Dual(Lifted):
    def __init__(self, value, tangent, level):
        super().__init__(value, level)
        self.tangent = tangent

    @staticmethod
    def run(name, inputs, attrs, level):
        mine = [isinstance(x, Dual) and x.level == level for x in inputs]
        values = [x.value if own else x for x, own in zip(inputs, mine)]
        tangents = [x.tangent if own else None for x, own in zip(inputs, mine)]
        return Dual(apply(name, *values, **attrs), JVP[name](*tangents, *values, **attrs), level)


# %% wrong: the rule sees the dual numbers, not their values | wrong|expected|level


class Dual(Lifted):
    def __init__(self, value, tangent, level):
        super().__init__(value, level)
        self.tangent = tangent

    @staticmethod
    def run(name, inputs, attrs, level):
        mine = [isinstance(x, Dual) and x.level == level for x in inputs]
        values = [x.value if own else x for x, own in zip(inputs, mine)]
        tangents = [x.tangent if own else None for x, own in zip(inputs, mine)]
        out = apply(name, *values, **attrs)
        if all(t is None for t in tangents):
            return Dual(out, None, level)
        return Dual(out, JVP[name](*tangents, *inputs, **attrs), level)


# %% wrong: one argument only | wrong|argument|expected


def jvp(f, primals, tangents):
    level = new_level()
    out = f(Dual(primals[0], tangents[0], level), *primals[1:])
    if not (isinstance(out, Dual) and out.level == level):
        return out, zeros_like(out)
    return out.value, zeros_like(out.value) if out.tangent is None else out.tangent


# %% wrong: differences | wrong|expected


def jvp(f, primals, tangents):
    h = 1e-6
    moved = [x if dx is None else x + h * dx for x, dx in zip(primals, tangents)]
    value = f(*primals)
    return value, (f(*moved) - value) / h


# %% wrong: the hole left open | not been filled


def jvp(f, primals, tangents):
    raise NotImplementedError
