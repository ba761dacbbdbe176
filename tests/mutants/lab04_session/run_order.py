"""Answers to the task `run_order`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: E402, F811, F821

# %% right: depth first with an explicit stack


def run_order(nodes, inputs):
    order, state = [], {}
    for first in nodes:
        stack = [(first, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                state[name] = "done"
                order.append(name)
            elif name not in state:
                state[name] = "open"
                stack.append((name, True))
                for source in inputs[name]:
                    if state.get(source) == "open":
                        raise CycleError(f"{source} waits for itself")
                    stack.append((source, False))
    return order


# %% right: the standard library

import graphlib


def run_order(nodes, inputs):
    try:
        return list(graphlib.TopologicalSorter({name: inputs[name] for name in nodes}).static_order())
    except graphlib.CycleError as error:
        raise CycleError("a cycle: " + ", ".join(error.args[1])) from None


# %% wrong: as they came | which it is made from|exactly reversed|no CycleError


def run_order(nodes, inputs):
    return list(nodes)


# %% wrong: reversed | exactly reversed

import graphlib


def run_order(nodes, inputs):
    try:
        return list(graphlib.TopologicalSorter(inputs).static_order())[::-1]
    except graphlib.CycleError as error:
        raise CycleError(str(error)) from None


# %% wrong: no word of a cycle | no CycleError was raised


def run_order(nodes, inputs):
    waits = {name: len(inputs[name]) for name in nodes}
    order = [name for name in nodes if not waits[name]]
    for done in order:
        for name in nodes:
            if done in inputs[name]:
                waits[name] -= inputs[name].count(done)
                if not waits[name]:
                    order.append(name)
    return order


# %% wrong: a cycle without a name | names no node of the cycle

import graphlib


def run_order(nodes, inputs):
    try:
        return list(graphlib.TopologicalSorter(inputs).static_order())
    except graphlib.CycleError:
        raise CycleError("THERE IS ONE") from None


# %% wrong: names a reader of the cycle | names no node of the cycle


def run_order(nodes, inputs):
    left, order = list(nodes), []
    done = set()
    while left:
        ready = [name for name in left if done.issuperset(inputs[name])]
        if not ready:
            raise CycleError(max(left))
        order += ready
        done.update(ready)
        left = [name for name in left if name not in done]
    return order


# %% wrong: an input that is read twice counts once | CycleError was raised, but|missing|cycle


def run_order(nodes, inputs):
    waits = {name: len(inputs[name]) for name in nodes}
    order = [name for name in nodes if not waits[name]]
    for done in order:
        for name in nodes:
            if done in inputs[name]:
                waits[name] -= 1
                if not waits[name]:
                    order.append(name)
    if len(order) < len(nodes):
        raise CycleError(next(name for name in nodes if name not in order))
    return order


# %% wrong: too early, by breadth | which it is made from|exactly reversed|no CycleError


def run_order(nodes, inputs):
    level = dict.fromkeys(nodes, 0)
    for name in nodes:
        if name in inputs[name]:
            raise CycleError(name)
        level[name] = len(inputs[name])
    return sorted(nodes, key=level.get)


# %% wrong: recursion | keep a list|3,000


def run_order(nodes, inputs):
    order, open_ = [], set()

    def visit(name):
        if name in open_:
            raise CycleError(name)
        if name not in order:
            open_.add(name)
            for source in inputs[name]:
                visit(source)
            open_.discard(name)
            order.append(name)

    for name in nodes:
        visit(name)
    return order


# %% wrong: a cycle for every second visit | there is no cycle


def run_order(nodes, inputs):
    order, seen = [], set()
    for first in nodes:
        stack = [(first, False)] if first not in seen else []
        while stack:
            name, leaving = stack.pop()
            if leaving:
                order.append(name)
                continue
            if name in seen:
                raise CycleError(name)
            seen.add(name)
            stack.append((name, True))
            stack += [(source, False) for source in inputs[name]]
    return order


# %% wrong: once for each reader | times; it has to run once


def run_order(nodes, inputs):
    if any(name in inputs[name] for name in nodes):
        raise CycleError(next(name for name in nodes if name in inputs[name]))
    order = []
    for _ in range(3):
        for name in nodes:
            if set(inputs[name]) <= set(order):
                order.append(name)
    return order


# %% wrong: sources only | missing from the order|no CycleError


def run_order(nodes, inputs):
    return [name for name in nodes if not inputs[name]]


# %% wrong: names the first node that is left, which may only read from the cycle | names no node of the cycle


def run_order(nodes, inputs):
    waits = {name: len(inputs[name]) for name in nodes}
    readers = {name: [] for name in nodes}
    for name in nodes:
        for one in inputs[name]:
            readers[one].append(name)
    ready, done = [name for name in nodes if not waits[name]], []
    while ready:
        name = ready.pop()
        done.append(name)
        for reader in readers[name]:
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)
    left = [name for name in nodes if waits[name]]
    if left:
        raise CycleError(f"there is a cycle: {left[0]}")
    return done
