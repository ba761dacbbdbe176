"""Answers to the task `dead_steps`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: by asking, from the result


def prune(program):
    n = program.inputs
    order = []

    def visit(slot):
        if isinstance(slot, float) or slot < n or slot in order:
            return
        for one in program.steps[slot - n].operands:
            visit(one)
        order.append(slot)

    visit(program.result)
    order.sort()
    where = {slot: n + i for i, slot in enumerate(order)} | {i: i for i in range(n)}
    steps = [
        Step(
            program.steps[s - n].op,
            tuple(o if isinstance(o, float) else where[o] for o in program.steps[s - n].operands),
        )
        for s in order
    ]
    return Program(n, steps, where[program.result])


# %% right: one dead step at a time


def prune(program):
    n, steps, result = program.inputs, list(program.steps), program.result
    while True:
        read = {result} | {o for step in steps for o in step.operands if isinstance(o, int)}
        dead = [i for i in range(len(steps)) if n + i not in read]
        if not dead:
            return Program(n, steps, result)
        gone = n + dead[-1]
        del steps[dead[-1]]

        def down(slot, gone=gone):
            return slot - 1 if isinstance(slot, int) and slot > gone else slot

        steps = [Step(op, tuple(down(o) for o in operands)) for op, operands in steps]
        result = down(result)


# %% wrong: nothing is left out | dead


def prune(program):
    return program


# %% wrong: only steps that nobody reads | dead


def prune(program):
    n = program.inputs
    read = {program.result} | {o for s in program.steps for o in s.operands if isinstance(o, int)}
    where, kept = {i: i for i in range(n)}, []
    for i, (op, operands) in enumerate(program.steps):
        if n + i in read:
            where[n + i] = n + len(kept)
            kept.append(Step(op, tuple(where[o] if isinstance(o, int) else o for o in operands)))
    return Program(n, kept, where[program.result])


# %% wrong: not renumbered | renumbered


def prune(program):
    n, wanted, kept = program.inputs, {program.result}, []
    for i in reversed(range(len(program.steps))):
        if n + i in wanted:
            wanted |= {o for o in program.steps[i].operands if isinstance(o, int)}
            kept.insert(0, program.steps[i])
    return Program(n, kept, program.result)


# %% wrong: the result keeps its old number | slot


def prune(program):
    n, wanted = program.inputs, {program.result}
    for i in reversed(range(len(program.steps))):
        if n + i in wanted:
            wanted |= {o for o in program.steps[i].operands if isinstance(o, int)}
    where, kept = {i: i for i in range(n)}, []
    for i, (op, operands) in enumerate(program.steps):
        if n + i in wanted:
            where[n + i] = n + len(kept)
            kept.append(Step(op, tuple(where[o] if isinstance(o, int) else o for o in operands)))
    return Program(n, kept, program.result)


# %% wrong: walked forwards | .


def prune(program):
    n, wanted = program.inputs, {program.result}
    for i in range(len(program.steps)):
        if n + i in wanted:
            wanted |= {o for o in program.steps[i].operands if isinstance(o, int)}
    where, kept = {i: i for i in range(n)}, []
    for i, (op, operands) in enumerate(program.steps):
        if n + i in wanted:
            where[n + i] = n + len(kept)
            kept.append(Step(op, tuple(where.get(o, 0) if isinstance(o, int) else o for o in operands)))
    return Program(n, kept, where[program.result])


# %% wrong: all before the result is kept | dead


def prune(program):
    last = program.result - program.inputs + 1
    return Program(program.inputs, list(program.steps[: max(last, 0)]), program.result)


# %% wrong: the result is the last step that is kept | .


def prune(program):
    n, wanted = program.inputs, {program.result}
    for i in reversed(range(len(program.steps))):
        if n + i in wanted:
            wanted |= {o for o in program.steps[i].operands if isinstance(o, int)}
    where, kept = {i: i for i in range(n)}, []
    for i, (op, operands) in enumerate(program.steps):
        if n + i in wanted:
            where[n + i] = n + len(kept)
            kept.append(Step(op, tuple(where[o] if isinstance(o, int) else o for o in operands)))
    return Program(n, kept, n + len(kept) - 1)


# %% wrong: the list it was given is emptied | changed the program


def prune(program):
    n, wanted = program.inputs, {program.result}
    for i in reversed(range(len(program.steps))):
        if n + i in wanted:
            wanted |= {o for o in program.steps[i].operands if isinstance(o, int)}
    where, kept = {i: i for i in range(n)}, []
    for i, (op, operands) in enumerate(program.steps):
        if n + i in wanted:
            where[n + i] = n + len(kept)
            kept.append(Step(op, tuple(where[o] if isinstance(o, int) else o for o in operands)))
    program.steps[:] = kept
    return Program(n, program.steps, where[program.result])


# %% wrong: unused inputs go too | inputs


def prune(program):
    n, wanted = program.inputs, {program.result}
    for i in reversed(range(len(program.steps))):
        if n + i in wanted:
            wanted |= {o for o in program.steps[i].operands if isinstance(o, int)}
    inputs = [i for i in range(n) if i in wanted]
    where, kept = {slot: i for i, slot in enumerate(inputs)}, []
    for i, (op, operands) in enumerate(program.steps):
        if n + i in wanted:
            where[n + i] = len(inputs) + len(kept)
            kept.append(Step(op, tuple(where[o] if isinstance(o, int) else o for o in operands)))
    return Program(len(inputs), kept, where[program.result])
