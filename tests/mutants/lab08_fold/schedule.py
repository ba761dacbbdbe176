"""Answers to the task `schedule`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: the agenda of DyNet


def schedule(inputs, signatures):
    depth = []
    for read in inputs:
        depth.append(max((depth[k] + 1 for k in read), default=0))
    total, count = {}, {}
    for signature, one in zip(signatures, depth, strict=True):
        total[signature] = total.get(signature, 0) + one
        count[signature] = count.get(signature, 0) + 1
    readers = [[] for _ in inputs]
    missing = [len(set(read)) for read in inputs]
    for call, read in enumerate(inputs):
        for k in set(read):
            readers[k].append(call)
    agenda, batches = {}, []
    for call, left in enumerate(missing):
        if not left:
            agenda.setdefault(signatures[call], []).append(call)
    while agenda:
        batch = agenda.pop(min(agenda, key=lambda signature: (total[signature] / count[signature], signature)))
        batches.append(batch)
        for call in batch:
            for reader in readers[call]:
                missing[reader] -= 1
                if not missing[reader]:
                    agenda.setdefault(signatures[reader], []).append(reader)
    return batches


# %% right: by depth, in a list of levels


def schedule(inputs, signatures):
    depth, levels = [], []
    for call, read in enumerate(inputs):
        depth.append(1 + max([depth[k] for k in read], default=-1))
        if depth[call] == len(levels):
            levels.append({})
        levels[depth[call]].setdefault(signatures[call], []).append(call)
    return [batch for level in levels for batch in level.values()]


# %% wrong: not written | has not been filled


def schedule(inputs, signatures):
    raise NotImplementedError("your code here")


# %% wrong: one call at a time | (is|are) enough


def schedule(inputs, signatures):
    return [[call] for call in range(len(inputs))]


# %% wrong: by signature alone | both are in batch|which runs later


def schedule(inputs, signatures):
    batches = {}
    for call, signature in enumerate(signatures):
        batches.setdefault(signature, []).append(call)
    return list(batches.values())


# %% wrong: by depth alone | mixes calls


def schedule(inputs, signatures):
    batches = {}
    for call, one in enumerate(depths(inputs)):
        batches.setdefault(one, []).append(call)
    return [batches[one] for one in sorted(batches)]


# %% wrong: the deepest first | runs later


def schedule(inputs, signatures):
    depth, batches = depths(inputs), {}
    for call in range(len(inputs)):
        batches.setdefault((depth[call], signatures[call]), []).append(call)
    return [batches[key] for key in sorted(batches, reverse=True)]


# %% wrong: keys in the order in which they came | runs later


def schedule(inputs, signatures):
    depth, batches = depths(inputs), {}
    for call in range(len(inputs)):
        batches.setdefault((signatures[call], depth[call]), []).append(call)
    return [batches[key] for key in sorted(batches)]


# %% wrong: runs of equal neighbours | (is|are) enough|both are in batch


def schedule(inputs, signatures):
    batches = []
    for call, signature in enumerate(signatures):
        if batches and signatures[batches[-1][0]] == signature and not set(inputs[call]) & set(batches[-1]):
            batches[-1].append(call)
        else:
            batches.append([call])
    return batches


# %% wrong: values are left out | missing


def schedule(inputs, signatures):
    depth, batches = depths(inputs), {}
    for call in sorted(range(len(inputs)), key=depth.__getitem__):
        if inputs[call]:
            batches.setdefault((depth[call], signatures[call]), []).append(call)
    return list(batches.values())


# %% wrong: once for every reader | each call runs once


def schedule(inputs, signatures):
    depth, batches = depths(inputs), {}
    for call in range(len(inputs)):
        for _ in range(max(1, len(inputs[call]))):
            batches.setdefault((depth[call], signatures[call]), []).append(call)
    return [batches[key] for key in sorted(batches)]


# %% wrong: a batch for every depth and signature, empty or not | is empty


def schedule(inputs, signatures):
    depth = depths(inputs)
    return [
        [call for call in range(len(inputs)) if (depth[call], signatures[call]) == (level, signature)]
        for level in range(max(depth, default=-1) + 1)
        for signature in dict.fromkeys(signatures)
    ]


# %% wrong: depth by the first input | both are in batch|runs later


def schedule(inputs, signatures):
    depth = []
    for read in inputs:
        depth.append(depth[read[0]] + 1 if read else 0)
    batches = {}
    for call in range(len(inputs)):
        batches.setdefault((depth[call], signatures[call]), []).append(call)
    return [batches[key] for key in sorted(batches)]


# %% wrong: recursion | [Rr]ecursion


def schedule(inputs, signatures):
    import functools

    @functools.cache
    def depth(call):
        return max((depth(k) + 1 for k in inputs[call]), default=0)

    batches = {}
    for call in reversed(range(len(inputs))):
        batches.setdefault((depth(call), signatures[call]), []).append(call)
    return [batches[key] for key in sorted(batches)]
