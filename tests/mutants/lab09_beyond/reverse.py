"""Answers to the task `reverse`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: E402, F811, F821

# %% right: by the binomial formula

from math import comb


def reverse_chain(forward, backward, x, g, steps, slots):
    def count(n, s):
        c, r = s + 1, 0
        while comb(c + r, c) < n:
            r += 1
        return r * n - comb(c + r, r - 1) if r else 0

    def part(first, last, state, g, free):
        if last - first == 1:
            return backward(first, state, g)
        if not free:
            for target in range(last - 1, first - 1, -1):
                ahead = state
                for i in range(first, target):
                    ahead = forward(i, ahead)
                g = backward(target, ahead, g)
                del ahead
            return g
        n = last - first
        k = min(range(1, n), key=lambda k: k + count(k, free) + count(n - k, free - 1))
        ahead = state
        for i in range(first, first + k):
            ahead = forward(i, ahead)
        g = part(first + k, last, ahead, g, free - 1)
        del ahead
        return part(first, first + k, state, g, free)

    return part(0, steps, x, g, slots)


# %% right: a stack of kept states, no recursion

import functools


@functools.cache
def table_of(steps, slots):
    t = [[n * (n - 1) // 2 for n in range(steps + 1)]]
    best = [[max(1, n - 1) for n in range(steps + 1)]]
    for s in range(1, slots + 1):
        row, cut = [0, 0], [1, 1]
        for n in range(2, steps + 1):
            runs = [k + row[k] + t[s - 1][n - k] for k in range(1, n)]
            row.append(min(runs))
            cut.append(1 + runs.index(min(runs)))
        t.append(row)
        best.append(cut)
    return best


def reverse_chain(forward, backward, x, g, steps, slots):
    slots = min(slots, steps)
    best = table_of(steps, slots)
    kept, last = [(0, x)], steps
    while last:
        first, state = kept[-1]
        free = slots - len(kept) + 1
        while last - first > 1:
            stop = first + best[free][last - first] if free else last - 1
            for i in range(first, stop):
                state = forward(i, state)
            first = stop
            if not free:
                break
            kept.append((first, state))
            free -= 1
        g = backward(first, state, g)
        del state
        last = first
        if kept[-1][0] == last:
            kept.pop()
    return g


# %% wrong: everything is kept | states? w(as|ere) held


def reverse_chain(forward, backward, x, g, steps, slots):
    states = [x]
    for i in range(steps - 1):
        states.append(forward(i, states[-1]))
    for i in range(steps - 1, -1, -1):
        g = backward(i, states[i], g)
    return g


# %% wrong: nothing is kept | from x anew


def reverse_chain(forward, backward, x, g, steps, slots):
    for i in range(steps - 1, -1, -1):
        state = x
        for j in range(i):
            state = forward(j, state)
        g = backward(i, state, g)
    return g


# %% wrong: kept at equal distances, slots never used again | its slots are free|minimise


def reverse_chain(forward, backward, x, g, steps, slots):
    cuts = sorted({steps * i // (slots + 1) for i in range(slots + 1)})
    kept = {0: x}
    state = x
    for i in range(cuts[-1]):
        state = forward(i, state)
        if i + 1 in cuts:
            kept[i + 1] = state
    del state
    for i in range(steps - 1, -1, -1):
        near = max(one for one in kept if one <= i)
        state = kept[near]
        for j in range(near, i):
            state = forward(j, state)
        g = backward(i, state, g)
        del state
        if i in kept and i:
            del kept[i]
    return g


# %% wrong: halves | minimise


def reverse_chain(forward, backward, x, g, steps, slots):
    def part(first, last, state, g, free):
        while last - first > 1:
            middle = (first + last) // 2 if free else last - 1
            ahead = state
            for i in range(first, middle):
                ahead = forward(i, ahead)
            g = part(middle, last, ahead, g, free - 1) if free else backward(middle, ahead, g)
            del ahead
            last = middle
        return backward(first, state, g)

    return part(0, steps, x, g, slots)


# %% wrong: the last state too | never needed|minimise


def reverse_chain(forward, backward, x, g, steps, slots):
    state = x
    for i in range(steps):
        state = forward(i, state)
    del state
    for i in range(steps - 1, -1, -1):
        state = x
        for j in range(i):
            state = forward(j, state)
        g = backward(i, state, g)
    return g


# %% wrong: one slot too many | states? w(as|ere) held


def reverse_chain(forward, backward, x, g, steps, slots):
    cost, cut = np.zeros((steps + 1, slots + 2), int), np.ones((steps + 1, slots + 2), int)
    for n in range(2, steps + 1):
        cost[n, 0] = n * (n - 1) // 2
        for s in range(1, slots + 2):
            k = np.arange(1, n)
            runs = k + cost[k, s] + cost[n - k, s - 1]
            cut[n, s] = k[runs.argmin()]
            cost[n, s] = runs.min()

    def part(first, last, state, g, free):
        while last - first > 1:
            middle = first + cut[last - first, free] if free else last - 1
            ahead = state
            for i in range(first, middle):
                ahead = forward(i, ahead)
            g = part(middle, last, ahead, g, free - 1) if free else backward(middle, ahead, g)
            del ahead
            last = middle
        return backward(first, state, g)

    return part(0, steps, x, g, slots + 1)


# %% wrong: a state is still held by its name | states? w(as|ere) held


def reverse_chain(forward, backward, x, g, steps, slots):
    cost, cut = np.zeros((steps + 1, slots + 1), int), np.ones((steps + 1, slots + 1), int)
    for n in range(2, steps + 1):
        cost[n, 0] = n * (n - 1) // 2
        for s in range(1, slots + 1):
            k = np.arange(1, n)
            runs = k + cost[k, s] + cost[n - k, s - 1]
            cut[n, s] = k[runs.argmin()]
            cost[n, s] = runs.min()

    def part(first, last, state, g, free):
        if last - first == 1:
            return backward(first, state, g)
        middle = first + cut[last - first, free] if free else last - 1
        ahead = state
        for i in range(first, middle):
            ahead = forward(i, ahead)
        g = part(middle, last, ahead, g, free - 1) if free else backward(middle, ahead, g)
        return part(first, middle, state, g, free)

    return part(0, steps, x, g, slots)


# %% wrong: one slot unused | minimise|from x anew


def reverse_chain(forward, backward, x, g, steps, slots):
    free_at_first = max(slots - 1, 0)
    cost, cut = np.zeros((steps + 1, slots + 1), int), np.ones((steps + 1, slots + 1), int)
    for n in range(2, steps + 1):
        cost[n, 0] = n * (n - 1) // 2
        for s in range(1, slots + 1):
            k = np.arange(1, n)
            runs = k + cost[k, s] + cost[n - k, s - 1]
            cut[n, s] = k[runs.argmin()]
            cost[n, s] = runs.min()

    def part(first, last, state, g, free):
        while last - first > 1:
            middle = first + cut[last - first, free] if free else last - 1
            ahead = state
            for i in range(first, middle):
                ahead = forward(i, ahead)
            g = part(middle, last, ahead, g, free - 1) if free else backward(middle, ahead, g)
            del ahead
            last = middle
        return backward(first, state, g)

    return part(0, steps, x, g, free_at_first)


# %% wrong: the state after the step | takes state


def reverse_chain(forward, backward, x, g, steps, slots):
    for i in range(steps - 1, -1, -1):
        state = x
        for j in range(i + 1):
            state = forward(j, state)
        g = backward(i, state, g)
    return g


# %% wrong: step 0 is left out | Step 0


def reverse_chain(forward, backward, x, g, steps, slots):
    for i in range(steps - 1, 0, -1):
        state = x
        for j in range(i):
            state = forward(j, state)
        g = backward(i, state, g)
    return g


# %% wrong: starts from ones | ones


def reverse_chain(forward, backward, x, g, steps, slots):
    g = np.ones_like(g)
    for i in range(steps - 1, -1, -1):
        state = x
        for j in range(i):
            state = forward(j, state)
        g = backward(i, state, g)
    return g


# %% wrong: asked again and again, without a table | longer than|ran|seconds


def reverse_chain(forward, backward, x, g, steps, slots):
    def best(n, s):
        if n == 1 or not s:
            return n * (n - 1) // 2, n - 1
        return min((k + best(n - k, s - 1)[0] + best(k, s)[0], k) for k in range(1, n))

    def part(first, last, state, g, free):
        while last - first > 1:
            middle = first + best(last - first, free)[1]
            ahead = state
            for i in range(first, middle):
                ahead = forward(i, ahead)
            g = part(middle, last, ahead, g, free - 1) if free else backward(middle, ahead, g)
            del ahead
            last = middle
        return backward(first, state, g)

    return part(0, steps, x, g, slots)


# %% wrong: the hole left open | not been filled


def reverse_chain(forward, backward, x, g, steps, slots):
    raise NotImplementedError
