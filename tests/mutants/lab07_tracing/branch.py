"""Answers to the task `branch`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: a function that appends a program


def merge(test, then, otherwise):
    n, steps = test.inputs, []

    def add(program):
        where = {i: i for i in range(n)}
        for i, (op, operands) in enumerate(program.steps):
            where[n + i] = n + len(steps)
            steps.append(Step(op, tuple(o if isinstance(o, float) else where[o] for o in operands)))
        return where[program.result]

    steps.append(Step("where", (add(test), add(then), add(otherwise))))
    return Program(n, steps, n + len(steps) - 1)


# %% right: the branches first, the test last


def merge(test, then, otherwise):
    n = test.inputs

    def shifted(program, by):
        def move(o):
            return o + by if isinstance(o, int) and o >= n else o

        return [Step(s.op, tuple(map(move, s.operands))) for s in program.steps], move(program.result)

    one, result_one = shifted(then, 0)
    two, result_two = shifted(otherwise, len(one))
    three, result_three = shifted(test, len(one) + len(two))
    steps = [*one, *two, *three, Step("where", (result_three, result_one, result_two))]
    return Program(n, steps, n + len(steps) - 1)


# %% wrong: branches the wrong way round | wrong way round


def merge(test, then, otherwise):
    n, steps, ends = test.inputs, [], []
    for p in (test, otherwise, then):
        shift = len(steps)
        steps += [
            Step(s.op, tuple(o + shift if isinstance(o, int) and o >= n else o for o in s.operands)) for s in p.steps
        ]
        ends.append(p.result + shift if p.result >= n else p.result)
    return Program(n, [*steps, Step("where", tuple(ends))], n + len(steps))


# %% wrong: inputs move too | .


def merge(test, then, otherwise):
    n, steps, ends = test.inputs, [], []
    for p in (test, then, otherwise):
        shift = len(steps)
        steps += [Step(s.op, tuple(o + shift if isinstance(o, int) else o for o in s.operands)) for s in p.steps]
        ends.append(p.result + shift)
    return Program(n, [*steps, Step("where", tuple(ends))], n + len(steps))


# %% wrong: nothing moves | .


def merge(test, then, otherwise):
    n = test.inputs
    steps = [*test.steps, *then.steps, *otherwise.steps]
    ends = test.result, then.result, otherwise.result
    return Program(n, [*steps, Step("where", ends)], n + len(steps))


# %% wrong: the result of a branch moves even if it is an input | .


def merge(test, then, otherwise):
    n, steps, ends = test.inputs, [], []
    for p in (test, then, otherwise):
        shift = len(steps)
        steps += [
            Step(s.op, tuple(o + shift if isinstance(o, int) and o >= n else o for o in s.operands)) for s in p.steps
        ]
        ends.append(p.result + shift)
    return Program(n, [*steps, Step("where", tuple(ends))], n + len(steps))


# %% wrong: no choice | no step `where`


def merge(test, then, otherwise):
    n, steps, end = test.inputs, [], 0
    for p in (test, then, otherwise):
        shift = len(steps)
        steps += [
            Step(s.op, tuple(o + shift if isinstance(o, int) and o >= n else o for o in s.operands)) for s in p.steps
        ]
        end = p.result + shift if p.result >= n else p.result
    return Program(n, steps, end)


# %% wrong: inputs counted three times | inputs


def merge(test, then, otherwise):
    n, steps, ends = test.inputs, [], []
    for p in (test, then, otherwise):
        shift = len(steps)
        steps += [
            Step(s.op, tuple(o + shift if isinstance(o, int) and o >= n else o for o in s.operands)) for s in p.steps
        ]
        ends.append(p.result + shift if p.result >= n else p.result)
    return Program(3 * n, [*steps, Step("where", tuple(ends))], n + len(steps))


# %% wrong: the result is the slot before | what the step `where` gives


def merge(test, then, otherwise):
    n, steps, ends = test.inputs, [], []
    for p in (test, then, otherwise):
        shift = len(steps)
        steps += [
            Step(s.op, tuple(o + shift if isinstance(o, int) and o >= n else o for o in s.operands)) for s in p.steps
        ]
        ends.append(p.result + shift if p.result >= n else p.result)
    return Program(n, [*steps, Step("where", tuple(ends))], n + len(steps) - 1)


# %% wrong: where takes the test last | .


def merge(test, then, otherwise):
    n, steps, ends = test.inputs, [], []
    for p in (then, otherwise, test):
        shift = len(steps)
        steps += [
            Step(s.op, tuple(o + shift if isinstance(o, int) and o >= n else o for o in s.operands)) for s in p.steps
        ]
        ends.append(p.result + shift if p.result >= n else p.result)
    return Program(n, [*steps, Step("where", tuple(ends))], n + len(steps))


# %% wrong: constants move with the slots | .


def merge(test, then, otherwise):
    n, steps, ends = test.inputs, [], []
    for p in (test, then, otherwise):
        shift = len(steps)
        steps += [
            Step(s.op, tuple(o + shift if o >= n or isinstance(o, float) else o for o in s.operands)) for s in p.steps
        ]
        ends.append(p.result + shift if p.result >= n else p.result)
    return Program(n, [*steps, Step("where", tuple(ends))], n + len(steps))
