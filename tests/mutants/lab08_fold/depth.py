"""Answers to the task `depth`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811

# %% right: a stack of calls that wait


def depths(inputs):
    found = {}
    for root in range(len(inputs)):
        stack = [root]
        while stack:
            call = stack[-1]
            waiting = [k for k in inputs[call] if k not in found]
            if waiting:
                stack.extend(waiting)
            else:
                found[call] = max((found[k] + 1 for k in inputs[call]), default=0)
                stack.pop()
    return [found[call] for call in range(len(inputs))]


# %% right: level by level with sets


def depths(inputs):
    users = {}
    for call, read in enumerate(inputs):
        for k in set(read):
            users.setdefault(k, []).append(call)
    left = [len(set(read)) for read in inputs]
    level, result = {call for call, count in enumerate(left) if count == 0}, [0] * len(inputs)
    depth = 0
    while level:
        following = set()
        for call in level:
            result[call] = depth
            for user in users.get(call, []):
                left[user] -= 1
                if left[user] == 0:
                    following.add(user)
        level, depth = following, depth + 1
    return result


# %% wrong: not written | has not been filled


def depths(inputs):
    raise NotImplementedError("your code here")


# %% wrong: recursion | [Rr]ecursion


def depths(inputs):
    import functools

    @functools.cache
    def depth(call):
        return max((1 + depth(k) for k in inputs[call]), default=0)

    return [depth(call) for call in range(len(inputs))]


# %% wrong: the shortest way | the longest way down


def depths(inputs):
    found = {}
    while len(found) < len(inputs):
        for call, read in enumerate(inputs):
            if all(k in found for k in read):
                found[call] = min((1 + found[k] for k in read), default=0)
    return [found[call] for call in range(len(inputs))]


# %% wrong: counts from one | one too much|has depth


def depths(inputs):
    found = {}
    while len(found) < len(inputs):
        for call, read in enumerate(inputs):
            if all(k in found for k in read):
                found[call] = max((found[k] for k in read), default=0) + 1
    return [found[call] for call in range(len(inputs))]


# %% wrong: in the order of the numbers | may read one with a higher number|IndexError|list index


def depths(inputs):
    found = []
    for read in inputs:
        found.append(1 + max(found[k] for k in read) if read else 0)
    return found


# %% wrong: one sweep | higher number|largest depth


def depths(inputs):
    found = [0] * len(inputs)
    for call, read in enumerate(inputs):
        found[call] = max((found[k] + 1 for k in read), default=0)
    return found


# %% wrong: how many calls lie below | has depth


def depths(inputs):
    result = []
    for call in range(len(inputs)):
        seen, waiting = set(), [call]
        while waiting:
            for k in inputs[waiting.pop()]:
                if k not in seen:
                    seen.add(k)
                    waiting.append(k)
        result.append(len(seen))
    return result


# %% wrong: how many calls it reads | has depth


def depths(inputs):
    return [len(read) for read in inputs]


# %% wrong: a dict | dict where a list of integers


def depths(inputs):
    users, left = {}, {}
    for call, read in enumerate(inputs):
        left[call] = len(read)
        for k in read:
            users.setdefault(k, []).append(call)
    known = [call for call in left if left[call] == 0]
    found = dict.fromkeys(left, 0)
    for call in known:
        for user in users.get(call, []):
            found[user] = max(found[user], found[call] + 1)
            left[user] -= 1
            if left[user] == 0:
                known.append(user)
    return found


# %% wrong: counted from the top | has depth


def depths(inputs):
    above = [0] * len(inputs)
    for _ in range(min(len(inputs), 70)):
        for call, read in enumerate(inputs):
            for k in read:
                above[k] = max(above[k], above[call] + 1)
    return above
