"""Answers to the task `places`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811

# %% right: groups that grow together


def place(graph, default):
    group = {name: {name} for name in graph}
    for name, node in graph.items():
        if node.beside is not None:
            joined = group[name] | group[node.beside]
            for one in joined:
                group[one] = joined
    places = {}
    for name in graph:
        (first,) = [one for one in group[name] if graph[one].beside is None]
        places[name] = graph[first].device or default
    return places


# %% right: recursion, since these ways are short


def place(graph, default):
    def device_of(name):
        node = graph[name]
        if node.beside is not None:
            return device_of(node.beside)
        return node.device or default

    return {name: device_of(name) for name in graph}


# %% wrong: its own wish comes first | whatever device it asks for itself


def place(graph, default):
    def device_of(name):
        node = graph[name]
        if node.device is not None:
            return node.device
        return device_of(node.beside) if node.beside is not None else default

    return {name: device_of(name) for name in graph}


# %% wrong: beside is forgotten | beside|whatever device


def place(graph, default):
    return {name: node.device or default for name, node in graph.items()}


# %% wrong: what the node beside asks for, not where it is | follow them|that is what


def place(graph, default):
    places = {}
    for name, node in graph.items():
        device = graph[node.beside].device if node.beside is not None else node.device
        places[name] = device or default
    return places


# %% wrong: where the first input is | the default


def place(graph, default):
    places = {}
    for name, node in graph.items():
        if node.beside is not None:
            first = node
            while first.beside is not None:
                first = graph[first.beside]
            places[name] = first.device or default
        elif node.device is not None:
            places[name] = node.device
        else:
            places[name] = places[node.inputs[0]] if node.inputs else default
    return places


# %% wrong: no default | expected|returned|gave


def place(graph, default):
    places = {}
    for name, node in graph.items():
        first = node
        while first.beside is not None:
            first = graph[first.beside]
        places[name] = first.device or ""
    return places


# %% wrong: only those that ask | has no device


def place(graph, default):
    places = {}
    for name in graph:
        first = graph[name]
        while first.beside is not None:
            first = graph[first.beside]
        if first.device is not None:
            places[name] = first.device
    return places


# %% wrong: everything on the default | the device that it asks for


def place(graph, default):
    return dict.fromkeys(graph, default)


# %% wrong: beside a node that was not placed yet | that is what `beside` says|a later|follow|KeyError|come later


def place(graph, default):
    places = {}
    for name, node in graph.items():
        if node.beside is not None:
            places[name] = places.get(node.beside, default)
        else:
            places[name] = node.device or default
    return places


# %% wrong: all that belongs together goes where the last of them asks to be | expected


def place(graph, default):
    wish = {}
    roots = {}
    for name, node in graph.items():
        first = name
        while graph[first].beside is not None:
            first = graph[first].beside
        roots[name] = first
        if node.device is not None:
            wish[first] = node.device
    return {name: wish.get(roots[name], default) for name in graph}


# %% wrong: the inputs of an assignment move too | expected


def place(graph, default):
    places = {}
    for name in graph:
        first = graph[name]
        while first.beside is not None:
            first = graph[first.beside]
        places[name] = first.device or default
    for name, node in graph.items():
        if node.beside is not None:
            for one in node.inputs:
                places[one] = places[name]
    return places
