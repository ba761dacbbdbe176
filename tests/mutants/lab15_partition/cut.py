"""Answers to the task `cut`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811

# %% right: the pairs first, then the lists


def cut(graph, places):
    order = {name: i for i, name in enumerate(graph)}
    needed = {}
    for name, node in graph.items():
        for source in set(node.inputs) | set(node.controls):
            if places[source] != places[name]:
                needed.setdefault((source, places[name]), name)
    steps = []
    for (source, target), reader in needed.items():
        steps.append((order[source] + 0.5, places[source], ("send", source, target)))
        steps.append((order[reader] - 0.25, target, ("recv", source, places[source])))
    for name in graph:
        steps.append((order[name], places[name], ("run", name)))
    parts = {}
    for _, device, step in sorted(steps, key=lambda entry: entry[0]):
        parts.setdefault(device, []).append(step)
    return parts


# %% right: a send right behind each run


def cut(graph, places):
    targets = {name: [] for name in graph}
    for name, node in graph.items():
        for source in (*node.inputs, *node.controls):
            if places[name] != places[source] and places[name] not in targets[source]:
                targets[source].append(places[name])
    parts = {device: [] for device in set(places.values())}
    have = {device: set() for device in parts}
    for name, node in graph.items():
        here = places[name]
        for source in (*node.controls, *node.inputs):
            if source not in have[here]:
                have[here].add(source)
                parts[here].append(["recv", source, places[source]])
        have[here].add(name)
        parts[here].append(["run", name])
        parts[here].extend(["send", name, target] for target in targets[name])
    return parts


# %% wrong: a send for each reader | times. Once is enough


def cut(graph, places):
    parts = {device: [] for device in places.values()}
    for name, node in graph.items():
        here = places[name]
        for source in dict.fromkeys([*node.inputs, *node.controls]):
            if places[source] != here:
                parts[places[source]].append(("send", source, here))
                parts[here].append(("recv", source, places[source]))
        parts[here].append(("run", name))
    return parts


# %% wrong: once for all devices | does not send it there


def cut(graph, places):
    parts = {device: [] for device in places.values()}
    sent = set()
    for name, node in graph.items():
        here = places[name]
        for source in [*node.inputs, *node.controls]:
            if places[source] != here and source not in sent:
                sent.add(source)
                parts[places[source]].append(("send", source, here))
                parts[here].append(("recv", source, places[source]))
        parts[here].append(("run", name))
    return parts


# %% wrong: control edges are forgotten | a control edge that crosses|A control edge that crosses


def cut(graph, places):
    parts = {device: [] for device in places.values()}
    sent = set()
    for name, node in graph.items():
        here = places[name]
        for source in node.inputs:
            if places[source] != here and (source, here) not in sent:
                sent.add((source, here))
                parts[places[source]].append(("send", source, here))
                parts[here].append(("recv", source, places[source]))
        parts[here].append(("run", name))
    return parts


# %% wrong: a pair for the value and another for the order | times. Once is enough


def cut(graph, places):
    parts = {device: [] for device in places.values()}
    for kind in ("inputs", "controls"):
        sent = set()
        for name, node in graph.items():
            here = places[name]
            for source in getattr(node, kind):
                if places[source] != here and (source, here) not in sent:
                    sent.add((source, here))
                    parts[places[source]].append(("send", source, here))
                    parts[here].append(("recv", source, places[source]))
    runs = {device: [] for device in parts}
    for name in graph:
        runs[places[name]].append(("run", name))
    return {device: [*(s for s in parts[device] if s[0] == "recv"), *runs[device],
                     *(s for s in parts[device] if s[0] == "send")] for device in parts}  # fmt: skip


# %% wrong: all receives first | A deadlock


def cut(graph, places):
    parts = {device: [] for device in places.values()}
    sent = set()
    for name, node in graph.items():
        here = places[name]
        for source in [*node.inputs, *node.controls]:
            if places[source] != here and (source, here) not in sent:
                sent.add((source, here))
                parts[places[source]].append(("send", source, here))
                parts[here].append(("recv", source, places[source]))
        parts[here].append(("run", name))
    return {device: sorted(steps, key=lambda step: step[0] != "recv") for device, steps in parts.items()}


# %% wrong: all sends last | A deadlock


def cut(graph, places):
    parts = {device: [] for device in places.values()}
    sent = set()
    for name, node in graph.items():
        here = places[name]
        for source in [*node.inputs, *node.controls]:
            if places[source] != here and (source, here) not in sent:
                sent.add((source, here))
                parts[places[source]].append(("send", source, here))
                parts[here].append(("recv", source, places[source]))
        parts[here].append(("run", name))
    return {device: sorted(steps, key=lambda step: step[0] == "send") for device, steps in parts.items()}


# %% wrong: sends in front of their node | before it has run there


def cut(graph, places):
    parts = {device: [] for device in places.values()}
    sent = set()
    for name, node in graph.items():
        here = places[name]
        for source in [*node.inputs, *node.controls]:
            if places[source] != here and (source, here) not in sent:
                sent.add((source, here))
                parts[places[source]].insert(0, ("send", source, here))
                parts[here].append(("recv", source, places[source]))
        parts[here].append(("run", name))
    return parts


# %% wrong: pairs inside a device too | to itself


def cut(graph, places):
    parts = {device: [] for device in places.values()}
    sent = set()
    for name, node in graph.items():
        here = places[name]
        for source in [*node.inputs, *node.controls]:
            if (source, here) not in sent:
                sent.add((source, here))
                parts[places[source]].append(("send", source, here))
                parts[here].append(("recv", source, places[source]))
        parts[here].append(("run", name))
    return parts


# %% wrong: no receive | has no step that receives it


def cut(graph, places):
    parts = {device: [] for device in places.values()}
    sent = set()
    for name, node in graph.items():
        here = places[name]
        for source in [*node.inputs, *node.controls]:
            if places[source] != here and (source, here) not in sent:
                sent.add((source, here))
                parts[places[source]].append(("send", source, here))
        parts[here].append(("run", name))
    return parts


# %% wrong: to everybody | where nothing needs it


def cut(graph, places):
    parts = {device: [] for device in sorted(set(places.values()))}
    for name in graph:
        parts[places[name]].append(("run", name))
        for device in parts:
            if device != places[name]:
                parts[places[name]].append(("send", name, device))
                parts[device].append(("recv", name, places[name]))
    return parts


# %% wrong: received behind the node that reads it | before it (has|knows)


def cut(graph, places):
    parts = {device: [] for device in places.values()}
    sent = set()
    for name, node in graph.items():
        here = places[name]
        parts[here].append(("run", name))
        for source in [*node.inputs, *node.controls]:
            if places[source] != here and (source, here) not in sent:
                sent.add((source, here))
                parts[places[source]].append(("send", source, here))
                parts[here].append(("recv", source, places[source]))
    return parts


# %% wrong: runs what it receives | it has to run once


def cut(graph, places):
    parts = {device: [] for device in places.values()}
    have = set()
    for name, node in graph.items():
        here = places[name]
        for source in [*node.inputs, *node.controls]:
            if places[source] != here and (source, here) not in have:
                have.add((source, here))
                parts[here].append(("run", source))
        parts[here].append(("run", name))
    return parts
