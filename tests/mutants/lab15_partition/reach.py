"""Answers to the task `reach`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811

# %% right: rounds that add what was found last


def prune(graph, fetches):
    found, new = set(), set(fetches)
    while new:
        found |= new
        new = {one for name in new for one in graph[name].inputs + graph[name].controls} - found
    return found


# %% right: backwards over the order, a sorted list at the end


def prune(graph, fetches):
    found = set(fetches)
    for name in reversed(list(graph)):
        if name in found:
            found.update(graph[name].inputs, graph[name].controls)
    return sorted(found)


# %% wrong: control edges are forgotten | nothing flows from it


def prune(graph, fetches):
    found, visits = set(), list(fetches)
    while visits:
        name = visits.pop()
        if name not in found:
            found.add(name)
            visits.extend(graph[name].inputs)
    return found


# %% wrong: controls of the fetches only | is missing


def prune(graph, fetches):
    found, visits = set(), list(fetches)
    visits += [one for name in fetches for one in graph[name].controls]
    while visits:
        name = visits.pop()
        if name not in found:
            found.add(name)
            visits.extend(graph[name].inputs)
    return found


# %% wrong: what is ordered after it but not what that needs | is missing


def prune(graph, fetches):
    found, visits = set(), list(fetches)
    while visits:
        name = visits.pop()
        if name not in found:
            found.add(name)
            visits.extend(graph[name].inputs)
    for name in list(found):
        found.update(graph[name].controls)
    return found


# %% wrong: everything | is not needed


def prune(graph, fetches):
    return set(graph)


# %% wrong: everything in front of the last fetch | is not needed


def prune(graph, fetches):
    names = list(graph)
    last = max([names.index(name) for name in fetches], default=-1)
    return set(names[: last + 1])


# %% wrong: the fetches left out | it is fetched


def prune(graph, fetches):
    found, visits = set(), [one for name in fetches for one in graph[name].inputs + graph[name].controls]
    while visits:
        name = visits.pop()
        if name not in found:
            found.add(name)
            visits.extend(graph[name].inputs + graph[name].controls)
    return found


# %% wrong: one level | a node that is needed is made from it


def prune(graph, fetches):
    return set(fetches) | {one for name in fetches for one in graph[name].inputs + graph[name].controls}


# %% wrong: recursion | keep a list


def prune(graph, fetches):
    found = set()

    def visit(name):
        if name not in found:
            found.add(name)
            for one in graph[name].inputs + graph[name].controls:
                visit(one)

    for name in fetches:
        visit(name)
    return found


# %% wrong: a list with repetitions | once is enough|is in the result


def prune(graph, fetches):
    found = list(fetches)
    for name in found:
        if len(found) > 5000:
            break
        found.extend(graph[name].inputs + graph[name].controls)
    return found


# %% wrong: every assignment too | is not needed


def prune(graph, fetches):
    found, visits = set(), list(fetches)
    visits += [name for name, node in graph.items() if node.op == "assign"]
    while visits:
        name = visits.pop()
        if name not in found:
            found.add(name)
            visits.extend(graph[name].inputs + graph[name].controls)
    return found


# %% wrong: what it stands beside too | is not needed


def prune(graph, fetches):
    found, left = set(), list(fetches)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [*graph[name].inputs, *graph[name].controls]
            left += [graph[name].beside] if graph[name].beside else []
    return found
