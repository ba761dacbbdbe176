"""Answers to the task `order`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: E402, F811, F841

# %% right: depth first on an explicit stack, reversed


def topological_order(root, inputs_of):
    done, seen = [], {root}
    stack = [(root, iter(inputs_of(root)))]
    while stack:
        node, rest = stack[-1]
        for source in rest:
            if source not in seen:
                seen.add(source)
                stack.append((source, iter(inputs_of(source))))
                break
        else:
            done.append(node)
            stack.pop()
    done.reverse()
    return done


# %% right: two visits of each node, the second one marked


def topological_order(root, inputs_of):
    stack, placed, order = [(root, False)], set(), []
    while stack:
        node, leaving = stack.pop()
        if leaving:
            order.append(node)
        elif node not in placed:
            placed.add(node)
            stack.append((node, True))
            stack += [(source, False) for source in inputs_of(node)]
    return tuple(order[::-1])


# %% right: a queue of nodes whose consumers are all done

from collections import Counter, deque


def topological_order(root, inputs_of):
    left, queue, seen = Counter(), [root], {root}
    while queue:
        for source in inputs_of(queue.pop()):
            left[source] += 1
            if source not in seen:
                seen.add(source)
                queue.append(source)

    def walk():
        ready = deque([root])
        while ready:
            node = ready.popleft()
            yield node
            for source in inputs_of(node):
                left[source] -= 1
                if not left[source]:
                    ready.append(source)

    return list(walk())


# %% wrong: breadth first | comes before


def topological_order(root, inputs_of):
    order, seen = [root], {root}
    for node in order:
        for source in inputs_of(node):
            if source not in seen:
                seen.add(source)
                order.append(source)
    return order


# %% wrong: depth first, noted on the way down | comes before


def topological_order(root, inputs_of):
    order, seen, stack = [], set(), [root]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
            stack.extend(reversed(inputs_of(node)))
    return order


# %% wrong: not reversed | exactly reversed


def topological_order(root, inputs_of):
    stack, placed, order = [(root, False)], set(), []
    while stack:
        node, leaving = stack.pop()
        if leaving:
            order.append(node)
        elif node not in placed:
            placed.add(node)
            stack.append((node, True))
            stack += [(source, False) for source in inputs_of(node)]
    return order


# %% wrong: recursive | recursion


def topological_order(root, inputs_of):
    order, seen = [], set()

    def visit(node):
        if node not in seen:
            seen.add(node)
            for source in inputs_of(node):
                visit(source)
            order.append(node)

    visit(root)
    return order[::-1]


# %% wrong: recursive, with a higher limit | calls within calls


def topological_order(root, inputs_of):
    import sys

    sys.setrecursionlimit(1_000_000)
    order, seen = [], set()

    def visit(node):
        seen.add(node)
        for source in inputs_of(node):
            if source not in seen:
                visit(source)
        order.append(node)

    visit(root)
    return order[::-1]


# %% wrong: every path walked | comes 2 times|times


def topological_order(root, inputs_of):
    order = [root]
    for node in order:
        order.extend(inputs_of(node))
        if len(order) > 200_000:
            break
    return order


# %% wrong: every path walked, without end | longer than|memory


def topological_order(root, inputs_of):
    paths, last = [root], {}
    for place, node in enumerate(paths):
        last[node] = place
        paths.extend(inputs_of(node))
    return sorted(last, key=last.get)


# %% wrong: seen nodes kept in a list | longer than


def topological_order(root, inputs_of):
    order, seen, stack = [], [], [(root, False)]
    while stack:
        node, leaving = stack.pop()
        if leaving:
            order.append(node)
        elif node not in seen:
            seen.append(node)
            stack.append((node, True))
            stack += [(source, False) for source in inputs_of(node)]
    return order[::-1]


# %% wrong: marked as seen when put on the stack | comes before


def topological_order(root, inputs_of):
    order, seen, stack = [], {root}, [(root, False)]
    while stack:
        node, leaving = stack.pop()
        if leaving:
            order.append(node)
            continue
        stack.append((node, True))
        for source in inputs_of(node):
            if source not in seen:
                seen.add(source)
                stack.append((source, False))
    return order[::-1]


# %% wrong: consumers counted once, inputs taken off twice | missing|comes before


def topological_order(root, inputs_of):
    left, queue, seen = {}, [root], {root}
    while queue:
        node = queue.pop()
        for source in set(inputs_of(node)):
            left[source] = left.get(source, 0) + 1
            if source not in seen:
                seen.add(source)
                queue.append(source)
    order, ready = [], [root]
    while ready:
        node = ready.pop()
        order.append(node)
        for source in inputs_of(node):
            left[source] -= 1
            if left[source] == 0:
                ready.append(source)
    return order


# %% wrong: leaves left out | missing


def topological_order(root, inputs_of):
    stack, placed, order = [(root, False)], set(), []
    while stack:
        node, leaving = stack.pop()
        if leaving:
            order.append(node)
        elif node not in placed and inputs_of(node):
            placed.add(node)
            stack.append((node, True))
            stack += [(source, False) for source in inputs_of(node)]
    return order[::-1]


# %% wrong: the root left out | missing


def topological_order(root, inputs_of):
    stack, placed, order = [(root, False)], set(), []
    while stack:
        node, leaving = stack.pop()
        if leaving:
            order.append(node)
        elif node not in placed:
            placed.add(node)
            stack.append((node, True))
            stack += [(source, False) for source in inputs_of(node)]
    return order[-2::-1]


# %% wrong: nothing returned | return


def topological_order(root, inputs_of):
    order = [root]


# %% wrong: the hole left open | not been filled


def topological_order(root, inputs_of):
    raise NotImplementedError
