"""Answers to the task `backward`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B905, E402, F811, F821

# %% right: counts consumers itself, needs no other task


def backward(root, cotangent):
    waiting, stack = {root: 0}, [root]
    while stack:
        for source in stack.pop().inputs:
            if source not in waiting:
                waiting[source] = 0
                stack.append(source)
            waiting[source] += 1
    parts, leaves, ready = {root: [cotangent]}, {}, [root]
    while ready:
        node = ready.pop()
        came = [part for part in parts.pop(node, []) if part is not None]
        if came and not node.inputs:
            leaves[node] = sum(came[1:], came[0])
        given = node.rule(sum(came[1:], came[0])) if came and node.inputs else [None] * len(node.inputs)
        for source, part in zip(node.inputs, given):
            parts.setdefault(source, []).append(part)
            waiting[source] -= 1
            if not waiting[source]:
                ready.append(source)
    return leaves


# %% right: deepest node last, by a heap

import heapq


def backward(root, cotangent):
    depth, todo = {}, [(root, False)]
    while todo:
        node, ready = todo.pop()
        if ready:
            depth[node] = 1 + max((depth[source] for source in node.inputs), default=0)
        elif node not in depth:
            depth[node] = 0
            todo.append((node, True))
            todo.extend((source, False) for source in node.inputs if source not in depth)
    total, heap, count, out = {root: cotangent}, [(-depth[root], 0, root)], 1, {}
    while heap:
        _, _, node = heapq.heappop(heap)
        g = total.pop(node)
        if node.inputs:
            for source, part in zip(node.inputs, node.rule(g)):
                if part is not None:
                    if source in total:
                        total[source] = total[source] + part
                    else:
                        total[source] = part
                        heapq.heappush(heap, (-depth[source], count, source))
                        count += 1
        else:
            out[node] = g
    return out


# %% wrong: breadth first | before all of its consumers


def backward(root, cotangent):
    cotangents, order, seen = {root: cotangent}, [root], {root}
    for node in order:
        if node.inputs and node in cotangents:
            for source, value in zip(node.inputs, node.rule(cotangents[node])):
                accumulate(cotangents, source, value)
                if source not in seen:
                    seen.add(source)
                    order.append(source)
    return {node: cotangents[node] for node in order if not node.inputs and node in cotangents}


# %% wrong: contributions replace each other | contributions


def backward(root, cotangent):
    cotangents = {root: cotangent}
    for node in topological_order(root, lambda node: node.inputs):
        if node.inputs and node in cotangents:
            for source, value in zip(node.inputs, node.rule(cotangents[node])):
                if value is not None:
                    cotangents[source] = value
    return {node: g for node, g in cotangents.items() if not node.inputs}


# %% wrong: only the first contribution | contributions


def backward(root, cotangent):
    cotangents = {root: cotangent}
    for node in topological_order(root, lambda node: node.inputs):
        if node.inputs and node in cotangents:
            for source, value in zip(node.inputs, node.rule(cotangents[node])):
                if value is not None:
                    cotangents.setdefault(source, value)
    return {node: g for node, g in cotangents.items() if not node.inputs}


# %% wrong: starts from ones | cotangent of ones


def backward(root, cotangent):
    cotangents = {root: np.ones_like(cotangent)}
    for node in topological_order(root, lambda node: node.inputs):
        if node.inputs and node in cotangents:
            for source, value in zip(node.inputs, node.rule(cotangents[node])):
                accumulate(cotangents, source, value)
    return {node: g for node, g in cotangents.items() if not node.inputs}


# %% wrong: an input used twice counts once | one consumer uses a node twice|same consumer


def backward(root, cotangent):
    cotangents = {root: cotangent}
    for node in topological_order(root, lambda node: node.inputs):
        if node.inputs and node in cotangents:
            for source, value in dict(zip(node.inputs, node.rule(cotangents[node]))).items():
                accumulate(cotangents, source, value)
    return {node: g for node, g in cotangents.items() if not node.inputs}


# %% wrong: += into shared arrays | An array is shared|has been changed|read-only


def backward(root, cotangent):
    cotangents = {root: cotangent}
    for node in topological_order(root, lambda node: node.inputs):
        if node.inputs and node in cotangents:
            for source, value in zip(node.inputs, node.rule(cotangents[node])):
                if value is not None and source in cotangents:
                    cotangents[source] += value
                elif value is not None:
                    cotangents[source] = value
    return {node: g for node, g in cotangents.items() if not node.inputs}


# %% wrong: recursive, one path at a time | Rules run: \d+, where \d+ are allowed|recursion


def backward(root, cotangent):
    gradients = {}

    def visit(node, g):
        if not node.inputs:
            accumulate(gradients, node, g)
            return
        for source, value in zip(node.inputs, node.rule(g)):
            if value is not None:
                visit(source, value)

    visit(root, cotangent)
    return gradients


# %% wrong: one path at a time, with a stack | Rules run: \d+, where \d+ are allowed


def backward(root, cotangent):
    gradients, stack = {}, [(root, cotangent)]
    while stack:
        node, g = stack.pop()
        if node.inputs:
            stack.extend((source, value) for source, value in zip(node.inputs, node.rule(g)) if value is not None)
        else:
            accumulate(gradients, node, g)
    return gradients


# %% wrong: every node is returned | leaves only


def backward(root, cotangent):
    cotangents = {root: cotangent}
    for node in topological_order(root, lambda node: node.inputs):
        if node.inputs and node in cotangents:
            for source, value in zip(node.inputs, node.rule(cotangents[node])):
                accumulate(cotangents, source, value)
    return cotangents


# %% wrong: a node without a cotangent is not skipped | no entry


def backward(root, cotangent):
    cotangents = {root: cotangent}
    for node in topological_order(root, lambda node: node.inputs):
        if node.inputs:
            for source, value in zip(node.inputs, node.rule(cotangents[node])):
                accumulate(cotangents, source, value)
    return {node: g for node, g in cotangents.items() if not node.inputs}


# %% wrong: zeros where nothing flows | no cotangent reaches it


def backward(root, cotangent):
    cotangents = {root: cotangent}
    order = topological_order(root, lambda node: node.inputs)
    for node in order:
        if node.inputs and node in cotangents:
            for source, value in zip(node.inputs, node.rule(cotangents[node])):
                accumulate(cotangents, source, value)
    return {node: cotangents.get(node, np.zeros_like(cotangent)) for node in order if not node.inputs}


# %% wrong: the rule of a leaf is called | leaf has no rule


def backward(root, cotangent):
    cotangents = {root: cotangent}
    for node in topological_order(root, lambda node: node.inputs):
        if node in cotangents:
            for source, value in zip(node.inputs, node.rule(cotangents[node])):
                accumulate(cotangents, source, value)
    return {node: g for node, g in cotangents.items() if not node.inputs}


# %% wrong: the order walked backwards | Start at the root


def backward(root, cotangent):
    cotangents = {root: cotangent}
    for node in reversed(topological_order(root, lambda node: node.inputs)):
        if node.inputs and node in cotangents:
            for source, value in zip(node.inputs, node.rule(cotangents[node])):
                accumulate(cotangents, source, value)
    return {node: g for node, g in cotangents.items() if not node.inputs}


# %% wrong: None is kept as a cotangent | no cotangent


def backward(root, cotangent):
    cotangents = {root: cotangent}
    for node in topological_order(root, lambda node: node.inputs):
        if node.inputs and node in cotangents:
            for source, value in zip(node.inputs, node.rule(cotangents[node])):
                cotangents[source] = cotangents[source] + value if source in cotangents else value
    return {node: g for node, g in cotangents.items() if not node.inputs}


# %% wrong: a list of gradients | expected a dict


def backward(root, cotangent):
    cotangents = {root: cotangent}
    for node in topological_order(root, lambda node: node.inputs):
        if node.inputs and node in cotangents:
            for source, value in zip(node.inputs, node.rule(cotangents[node])):
                accumulate(cotangents, source, value)
    return [g for node, g in cotangents.items() if not node.inputs]


# %% wrong: the hole left open | not been filled


def backward(root, cotangent):
    raise NotImplementedError
