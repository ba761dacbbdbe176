"""Answers to the task `prune`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: E402, F811

# %% right: rounds that add what was found last


def needed(fetches, inputs, fed):
    found, new = set(), set(fetches)
    while new:
        found |= new
        new = {source for name in new if name not in fed for source in inputs[name]} - found
    return found


# %% right: a queue, seen when put in, a sorted list at the end

from collections import deque


def needed(fetches, inputs, fed):
    seen = dict.fromkeys(fetches)
    queue = deque(seen)
    while queue:
        name = queue.popleft()
        for source in [] if name in fed else inputs[name]:
            if source not in seen:
                seen[source] = None
                queue.append(source)
    return sorted(seen)


# %% wrong: everything | is not needed


def needed(fetches, inputs, fed):
    return set(inputs)


# %% wrong: past fed nodes | Past a fed node nothing runs


def needed(fetches, inputs, fed):
    found, visits = set(), list(fetches)
    while visits:
        name = visits.pop()
        if name not in found:
            found.add(name)
            visits += inputs[name]
    return found


# %% wrong: fed nodes left out | fed


def needed(fetches, inputs, fed):
    found, visits = set(), list(fetches)
    while visits:
        name = visits.pop()
        if name not in found and name not in fed:
            found.add(name)
            visits += inputs[name]
    return found


# %% wrong: all that is fed is in it | is not needed


def needed(fetches, inputs, fed):
    found, visits = set(fed), list(fetches)
    while visits:
        name = visits.pop()
        if name not in found:
            found.add(name)
            visits += inputs[name]
    return found | set(fetches)


# %% wrong: the fetches left out | it is fetched


def needed(fetches, inputs, fed):
    found = set()
    visits = [source for name in fetches if name not in fed for source in inputs[name]]
    while visits:
        name = visits.pop()
        if name not in found:
            found.add(name)
            if name not in fed:
                visits += inputs[name]
    return found


# %% wrong: one level | a node that is needed is made from it


def needed(fetches, inputs, fed):
    return set(fetches) | {source for name in fetches if name not in fed for source in inputs[name]}


# %% wrong: recursion | keep a list


def needed(fetches, inputs, fed):
    found = set()

    def visit(name):
        if name not in found:
            found.add(name)
            if name not in fed:
                for source in inputs[name]:
                    visit(source)

    for name in fetches:
        visit(name)
    return found


# %% wrong: every path | Visit each node once


def needed(fetches, inputs, fed):
    found, visits = set(), list(fetches)
    while visits:
        name = visits.pop()
        found.add(name)
        if name not in fed:
            visits += inputs[name]
    return found


# %% wrong: a list with repeats | once is enough


def needed(fetches, inputs, fed):
    found = list(fetches)
    for name in found:
        if name not in fed:
            found += [source for source in inputs[name] if found.count(source) < 2]
    return found


# %% wrong: only the first fetch | it is fetched


def needed(fetches, inputs, fed):
    found, visits = set(), list(fetches[:1])
    while visits:
        name = visits.pop()
        if name not in found:
            found.add(name)
            if name not in fed:
                visits += inputs[name]
    return found


# %% wrong: prints instead of returning | return


def needed(fetches, inputs, fed):
    found, visits = set(), list(fetches)
    while visits:
        name = visits.pop()
        if name not in found:
            found.add(name)
            if name not in fed:
                visits += inputs[name]
    print(found)
