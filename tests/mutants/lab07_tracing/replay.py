"""Answers to the task `replay`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: a dict of slots


def replay(program, arrays, kernels):
    if len(arrays) != program.inputs:
        raise ValueError(f"{program.inputs} arrays, please, not {len(arrays)}")
    slots = dict(enumerate(arrays))
    for place, step in enumerate(program.steps):
        given = (slots[one] if type(one) is int else one for one in step.operands)
        slots[program.inputs + place] = kernels[step.op](*given)
    return slots[program.result]


# %% right: slots made in advance


def replay(program, arrays, kernels):
    n = program.inputs
    if n - len(arrays):
        raise ValueError("another number of arrays than the program has inputs")
    slots = [*arrays] + [None] * len(program.steps)
    for i in range(len(program.steps)):
        op, operands = program.steps[i]
        values = []
        for operand in operands:
            values.append(operand if isinstance(operand, float) else slots[operand])
        slots[n + i] = kernels[op](*values)
    return slots[program.result]


# %% wrong: the last result | slot


def replay(program, arrays, kernels):
    if len(arrays) != program.inputs:
        raise ValueError("arrays")
    slots = list(arrays)
    for op, operands in program.steps:
        slots.append(kernels[op](*[slots[o] if isinstance(o, int) else o for o in operands]))
    return slots[-1]


# %% wrong: too few arrays are an IndexError | IndexError


def replay(program, arrays, kernels):
    if len(arrays) > program.inputs:
        raise ValueError("arrays")
    slots = list(arrays)
    for op, operands in program.steps:
        slots.append(kernels[op](*[slots[o] if isinstance(o, int) else o for o in operands]))
    return slots[program.result]


# %% wrong: too many arrays are taken | raise a ValueError


def replay(program, arrays, kernels):
    if len(arrays) < program.inputs:
        raise ValueError("arrays")
    slots = list(arrays[: program.inputs])
    for op, operands in program.steps:
        slots.append(kernels[op](*[slots[o] if isinstance(o, int) else o for o in operands]))
    return slots[program.result]


# %% wrong: constants become arrays | float64|widen


def replay(program, arrays, kernels):
    if len(arrays) != program.inputs:
        raise ValueError("arrays")
    slots = list(arrays)
    for op, operands in program.steps:
        slots.append(kernels[op](*[slots[o] if isinstance(o, int) else np.array([o]) for o in operands]))
    return slots[program.result]


# %% wrong: constants are taken for slots | list indices


def replay(program, arrays, kernels):
    if len(arrays) != program.inputs:
        raise ValueError("arrays")
    slots = list(arrays)
    for op, operands in program.steps:
        slots.append(kernels[op](*[slots[o] for o in operands]))
    return slots[program.result]


# %% wrong: results overwrite the inputs | .


def replay(program, arrays, kernels):
    if len(arrays) != program.inputs:
        raise ValueError("arrays")
    slots = list(arrays)
    for op, operands in program.steps:
        slots[0] = kernels[op](*[slots[min(o, len(slots) - 1)] if isinstance(o, int) else o for o in operands])
    return slots[min(program.result, len(slots) - 1)]


# %% wrong: everything is float64 | float64|dtype


def replay(program, arrays, kernels):
    if len(arrays) != program.inputs:
        raise ValueError("arrays")
    slots = [np.asarray(array, dtype=float) for array in arrays]
    for op, operands in program.steps:
        slots.append(kernels[op](*[slots[o] if isinstance(o, int) else o for o in operands]))
    return slots[program.result]


# %% wrong: the kernels of the notebook, not those given | kernels that ran


def replay(program, arrays, kernels):
    if len(arrays) != program.inputs:
        raise ValueError("arrays")
    slots = list(arrays)
    for op, operands in program.steps:
        slots.append(KERNELS[op](*[slots[o] if isinstance(o, int) else o for o in operands]))
    return slots[program.result]


# %% wrong: a step runs whenever it is read | kernels that ran


def replay(program, arrays, kernels):
    if len(arrays) != program.inputs:
        raise ValueError("arrays")

    def value(slot):
        if isinstance(slot, float):
            return slot
        if slot < program.inputs:
            return arrays[slot]
        op, operands = program.steps[slot - program.inputs]
        return kernels[op](*[value(one) for one in operands])

    return value(program.result)


# %% wrong: operands sorted, slots first | .


def replay(program, arrays, kernels):
    if len(arrays) != program.inputs:
        raise ValueError("arrays")
    slots = list(arrays)
    for op, operands in program.steps:
        ordered = [o for o in operands if isinstance(o, int)] + [o for o in operands if not isinstance(o, int)]
        slots.append(kernels[op](*[slots[o] if isinstance(o, int) else o for o in ordered]))
    return slots[program.result]
