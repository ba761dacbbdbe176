"""Answers to the task `layer_order`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, imports
# stand where they are used, and names are bound again in the next section.
# ruff: noqa: F811

# %% right: the standard library's sorter


def order(layers):
    from graphlib import CycleError, TopologicalSorter

    reads = {}
    for layer in layers:
        if layer["name"] in reads:
            raise ValueError(f"two layers are called {layer['name']}")
        reads[layer["name"]] = layer["bottom"]
    for name, bottoms in reads.items():
        for bottom in bottoms:
            if bottom not in reads:
                raise ValueError(f"{name} reads {bottom}, which there is not")
    try:
        return list(TopologicalSorter(reads).static_order())
    except CycleError as error:
        raise ValueError(f"a circle: {error.args[1]}") from None


# %% right: depth first, with a stack of iterators


def order(layers):
    bottoms, found, state = {}, [], {}
    for layer in layers:
        if layer["name"] in bottoms:
            raise ValueError(f"{layer['name']!r} twice")
        bottoms[layer["name"]] = list(layer["bottom"])
    for name in bottoms:
        if name in state:
            continue
        state[name] = "open"
        stack = [(name, iter(bottoms[name]))]
        while stack:
            top, rest = stack[-1]
            for bottom in rest:
                if bottom not in bottoms:
                    raise ValueError(f"{top!r} needs {bottom!r}")
                if state.get(bottom) == "open":
                    raise ValueError(f"{bottom!r} leads back to itself")
                if bottom not in state:
                    state[bottom] = "open"
                    stack.append((bottom, iter(bottoms[bottom])))
                    break
            else:
                state[top] = "done"
                found.append(top)
                stack.pop()
    return found


# %% wrong: as they were written | (which it reads|in a circle)


def order(layers):
    names = [layer["name"] for layer in layers]
    for name in names:
        if names.count(name) > 1 and len(names) < 100:
            raise ValueError(f"{name} twice")
    known = set(names)
    for layer in layers:
        for bottom in layer["bottom"]:
            if bottom not in known:
                raise ValueError(f"no {bottom}")
    return names


# %% wrong: from the top down | exactly reversed


def order(layers):
    from graphlib import CycleError, TopologicalSorter

    names = [layer["name"] for layer in layers]
    if len(set(names)) < len(names):
        raise ValueError(f"twice: {[name for name in names if names.count(name) > 1]}")
    for layer in layers:
        for bottom in layer["bottom"]:
            if len(names) < 1000 and bottom not in names:
                raise ValueError(f"no {bottom}")
    try:
        return list(TopologicalSorter({layer["name"]: layer["bottom"] for layer in layers}).static_order())[::-1]
    except CycleError as error:
        raise ValueError(f"a circle: {error.args[1]}") from None


# %% wrong: recursion | keep a list of what is ready


def order(layers):
    bottoms = {}
    for layer in layers:
        if layer["name"] in bottoms:
            raise ValueError(f"{layer['name']} twice")
        bottoms[layer["name"]] = layer["bottom"]
    found, done = [], {}

    def visit(name, reader):
        if name not in bottoms:
            raise ValueError(f"{reader} reads {name}")
        if done.get(name) == "open":
            raise ValueError(f"circle at {name}")
        if name in done:
            return
        done[name] = "open"
        for bottom in bottoms[name]:
            visit(bottom, name)
        done[name] = "done"
        found.append(name)

    for name in bottoms:
        visit(name, "nobody")
    return found


# %% wrong: sweeps until nothing changes | touch each layer and each bottom once


def order(layers):
    names = [layer["name"] for layer in layers]
    if len(set(names)) < len(names):
        raise ValueError(f"twice: {sorted(names)}")
    missing = {bottom for layer in layers for bottom in layer["bottom"]} - set(names)
    if missing:
        raise ValueError(f"missing: {missing}")
    found, done = [], set()
    while len(found) < len(layers):
        before = len(found)
        for layer in layers:
            if layer["name"] not in done and all(bottom in done for bottom in layer["bottom"]):
                done.add(layer["name"])
                found.append(layer["name"])
        if len(found) == before:
            raise ValueError(f"circle among {sorted(set(names) - done)}")
    return found


# %% wrong: a circle is left out | in a circle


def order(layers):
    names = [layer["name"] for layer in layers]
    if len(set(names)) < len(names):
        raise ValueError(f"twice: {[name for name in names if names.count(name) > 1]}")
    waits = {layer["name"]: len(layer["bottom"]) for layer in layers}
    readers = {name: [] for name in names}
    for layer in layers:
        for bottom in layer["bottom"]:
            if bottom not in readers:
                raise ValueError(f"{layer['name']} reads {bottom}")
            readers[bottom].append(layer["name"])
    found = [name for name in names if not waits[name]]
    for name in found:
        for reader in readers[name]:
            waits[reader] -= 1
            if not waits[reader]:
                found.append(reader)
    return found


# %% wrong: two of one name are one | is there twice


def order(layers):
    from graphlib import CycleError, TopologicalSorter

    reads = {layer["name"]: layer["bottom"] for layer in layers}
    for bottoms in reads.values():
        for bottom in bottoms:
            if bottom not in reads:
                raise ValueError(f"no {bottom}")
    try:
        return list(TopologicalSorter(reads).static_order())
    except CycleError as error:
        raise ValueError(f"circle: {error.args[1]}") from None


# %% wrong: makes up what is missing | there is no such layer


def order(layers):
    from graphlib import CycleError, TopologicalSorter

    reads = {}
    for layer in layers:
        if layer["name"] in reads:
            raise ValueError(f"{layer['name']} twice")
        reads[layer["name"]] = layer["bottom"]
    try:
        return list(TopologicalSorter(reads).static_order())
    except CycleError as error:
        raise ValueError(f"circle: {error.args[1]}") from None


# %% wrong: says only that it is wrong | does not name


def order(layers):
    from graphlib import CycleError, TopologicalSorter

    reads = {}
    for layer in layers:
        if layer["name"] in reads:
            raise ValueError("there is a duplicate")
        reads[layer["name"]] = layer["bottom"]
    if any(bottom not in reads for bottoms in reads.values() for bottom in bottoms):
        raise ValueError("something is missing")
    try:
        return list(TopologicalSorter(reads).static_order())
    except CycleError:
        raise ValueError("there is a circle") from None


# %% wrong: a bottom that is read twice is a circle | was refused


def order(layers):
    bottoms = {}
    for layer in layers:
        if layer["name"] in bottoms:
            raise ValueError(f"{layer['name']} twice")
        bottoms[layer["name"]] = set(layer["bottom"])
        if len(set(layer["bottom"])) < len(layer["bottom"]):
            raise ValueError(f"{layer['name']} reads one layer twice")
    from graphlib import CycleError, TopologicalSorter

    for name in {bottom for below in bottoms.values() for bottom in below} - set(bottoms):
        raise ValueError(f"no {name}")
    try:
        return list(TopologicalSorter(bottoms).static_order())
    except CycleError as error:
        raise ValueError(f"circle: {error.args[1]}") from None


# %% wrong: counts a bottom that is read twice once too few | missing from the order|circle|refused


def order(layers):
    waits, readers = {}, {}
    for layer in layers:
        if layer["name"] in waits:
            raise ValueError(f"{layer['name']} twice")
        waits[layer["name"]] = len(layer["bottom"])
        readers[layer["name"]] = set()
    for layer in layers:
        for bottom in layer["bottom"]:
            if bottom not in readers:
                raise ValueError(f"no {bottom}")
            readers[bottom].add(layer["name"])
    found = [name for name, count in waits.items() if not count]
    for name in found:
        for reader in readers[name]:
            waits[reader] -= 1
            if not waits[reader]:
                found.append(reader)
    if len(found) < len(layers):
        raise ValueError(f"a circle: {set(waits) - set(found)}")
    return found


# %% wrong: only what the last layer needs | every layer belongs in it


def order(layers):
    bottoms = {}
    for layer in layers:
        if layer["name"] in bottoms:
            raise ValueError(f"{layer['name']} twice")
        bottoms[layer["name"]] = layer["bottom"]
    from graphlib import CycleError, TopologicalSorter

    for name in {bottom for below in bottoms.values() for bottom in below} - set(bottoms):
        raise ValueError(f"no {name}")
    try:
        every = list(TopologicalSorter(bottoms).static_order())
    except CycleError as error:
        raise ValueError(f"circle: {error.args[1]}") from None
    needed, waiting = set(), [layers[-1]["name"]]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(bottoms[name])
    return [name for name in every if name in needed]


# %% wrong: eats the configuration | has changed


def order(layers):
    names = set()
    for layer in layers:
        if layer["name"] in names:
            raise ValueError(f"{layer['name']} twice")
        names.add(layer["name"])
    readers = {name: [] for name in names}
    for layer in layers:
        for bottom in layer["bottom"]:
            if bottom not in names:
                raise ValueError(f"no {bottom}")
            readers[bottom].append(layer)
    found = [layer["name"] for layer in layers if not layer["bottom"]]
    for name in found:
        for layer in readers[name]:
            layer["bottom"].remove(name)
            if not layer["bottom"]:
                found.append(layer["name"])
    if len(found) < len(layers):
        raise ValueError(f"circle: {sorted(names - set(found))}")
    return found


# %% wrong: the hole left open | not been filled


def order(layers):
    raise NotImplementedError
