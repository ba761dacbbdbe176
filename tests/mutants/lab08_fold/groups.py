"""Answers to the task `groups`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811

# %% right: each against the first of every group


def groups(calls):
    found = []
    for number, call in enumerate(calls):
        for group in found:
            if calls[group[0]] == call:
                group.append(number)
                break
        else:
            found.append([number])
    return found


# %% right: a frozen set of attributes


def groups(calls):
    from collections import defaultdict

    table = defaultdict(list)
    for number in range(len(calls)):
        call = calls[number]
        table[call["op"], frozenset(call["attrs"].items()), tuple(call["inputs"])].append(number)
    return sorted(table.values())


# %% wrong: not written | has not been filled


def groups(calls):
    raise NotImplementedError("your code here")


# %% wrong: by the operation alone | but


def groups(calls):
    alike = {}
    for number, call in enumerate(calls):
        alike.setdefault(call["op"], []).append(number)
    return list(alike.values())


# %% wrong: attributes forgotten | attributes differ


def groups(calls):
    alike = {}
    for number, call in enumerate(calls):
        alike.setdefault((call["op"], tuple(call["inputs"])), []).append(number)
    return list(alike.values())


# %% wrong: attributes in the order written | the order in which attributes are written


def groups(calls):
    alike = {}
    for number, call in enumerate(calls):
        key = call["op"], tuple(call["attrs"].items()), tuple(call["inputs"])
        alike.setdefault(key, []).append(number)
    return list(alike.values())


# %% wrong: dtypes forgotten | float64


def groups(calls):
    alike = {}
    for number, call in enumerate(calls):
        inputs = tuple(one[:2] for one in call["inputs"])
        alike.setdefault((call["op"], tuple(sorted(call["attrs"].items())), inputs), []).append(number)
    return list(alike.values())


# %% wrong: sizes instead of shapes | can't be stacked


def groups(calls):
    import math

    alike = {}
    for number, call in enumerate(calls):
        inputs = tuple(
            (one[0], math.prod(one[1]), len(one[1]) > 0, one[2]) if one[0] == "value" else one for one in call["inputs"]
        )
        alike.setdefault((call["op"], tuple(sorted(call["attrs"].items())), inputs), []).append(number)
    return list(alike.values())


# %% wrong: any weight will do | what is shared is not stacked


def groups(calls):
    alike = {}
    for number, call in enumerate(calls):
        inputs = tuple(one if one[0] == "value" else "shared" for one in call["inputs"])
        alike.setdefault((call["op"], tuple(sorted(call["attrs"].items())), inputs), []).append(number)
    return list(alike.values())


# %% wrong: inputs in any order | but input


def groups(calls):
    alike = {}
    for number, call in enumerate(calls):
        key = call["op"], tuple(sorted(call["attrs"].items())), tuple(sorted(map(repr, call["inputs"])))
        alike.setdefault(key, []).append(number)
    return list(alike.values())


# %% wrong: names of attributes only | attributes differ


def groups(calls):
    alike = {}
    for number, call in enumerate(calls):
        alike.setdefault((call["op"], tuple(sorted(call["attrs"])), tuple(call["inputs"])), []).append(number)
    return list(alike.values())


# %% wrong: neighbours only | alike, but in different groups


def groups(calls):
    import itertools

    def key(number):
        return calls[number]["op"], tuple(sorted(calls[number]["attrs"].items())), tuple(calls[number]["inputs"])

    return [list(group) for _, group in itertools.groupby(range(len(calls)), key)]


# %% wrong: sorted by signature | their order is not


def groups(calls):
    alike = {}
    for number, call in enumerate(calls):
        alike.setdefault(repr((call["op"], sorted(call["attrs"].items()), call["inputs"])), []).append(number)
    return [alike[key] for key in sorted(alike)]


# %% wrong: calls instead of their numbers | dict in it


def groups(calls):
    alike = {}
    for call in calls:
        key = call["op"], tuple(sorted(call["attrs"].items())), tuple(call["inputs"])
        alike.setdefault(key, []).append(call)
    return list(alike.values())


# %% wrong: a list in the key | A dict or a list is no key of a dict; a tuple is


def groups(calls):
    found = {}
    for i, call in enumerate(calls):
        key = call["op"], tuple(sorted(call["attrs"].items())), call["inputs"]
        found.setdefault(key, []).append(i)
    return list(found.values())


# %% wrong: the dict itself | list\(groups\.values\(\)\)


def groups(calls):
    found = {}
    for i, call in enumerate(calls):
        key = call["op"], tuple(sorted(call["attrs"].items())), tuple(call["inputs"])
        found.setdefault(key, []).append(i)
    return found
