"""Answers to the task `run`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: stacking results, without gather


def run(batches, inputs, ops, values, kernels):
    found = {}
    for batch in batches:
        op = ops[batch[0]]
        if op == "value":
            found.update((call, values[call]) for call in batch)
            continue
        arity = len(inputs[batch[0]])
        given = [np.stack([found[inputs[call][slot]] for call in batch]) for slot in range(arity)]
        found.update(zip(batch, kernels[op](*given), strict=True))
    return [found[call] for call in range(len(ops))]


# %% right: one array with a row for each call


def run(batches, inputs, ops, values, kernels):
    first = next(value for value in values if value is not None)
    table = np.empty((len(ops), *first.shape), first.dtype)
    for batch in batches:
        op = ops[batch[0]]
        if op == "value":
            for call in batch:
                table[call] = values[call]
        else:
            sources = np.array([inputs[call] for call in batch])
            table[batch] = kernels[op](*(table[column] for column in sources.T))
    return list(table)


# %% wrong: not written | has not been filled


def run(batches, inputs, ops, values, kernels):
    raise NotImplementedError("your code here")


# %% wrong: one launch for each call | launched


def run(batches, inputs, ops, values, kernels):
    found = [None] * len(ops)
    for batch in batches:
        for call in batch:
            if ops[call] == "value":
                found[call] = values[call]
            else:
                found[call] = kernels[ops[call]](*(found[k][None] for k in inputs[call]))[0]
    return found


# %% wrong: without the axis of calls | axes


def run(batches, inputs, ops, values, kernels):
    found = [None] * len(ops)
    for batch in batches:
        for call in batch:
            found[call] = (
                values[call] if ops[call] == "value" else kernels[ops[call]](*(found[k] for k in inputs[call]))
            )
    return found


# %% wrong: results in the order of the batches | result of call|results? for


def run(batches, inputs, ops, values, kernels):
    found = {}
    for batch in batches:
        op = ops[batch[0]]
        if op == "value":
            found.update((call, values[call]) for call in batch)
        else:
            given = [np.stack([found[k] for k in read]) for read in zip(*(inputs[call] for call in batch), strict=True)]
            found.update(zip(batch, kernels[op](*given), strict=True))
    return list(found.values())


# %% wrong: inputs swapped | result of call


def run(batches, inputs, ops, values, kernels):
    found = {}
    for batch in batches:
        op = ops[batch[0]]
        if op == "value":
            found.update((call, values[call]) for call in batch)
        else:
            given = [np.stack([found[k] for k in read]) for read in zip(*(inputs[call] for call in batch), strict=True)]
            found.update(zip(batch, kernels[op](*given[::-1]), strict=True))
    return [found[call] for call in range(len(ops))]


# %% wrong: rows as they lie in the block | result of call|operands|not aligned


def run(batches, inputs, ops, values, kernels):
    blocks, results = [], [None] * len(ops)
    for k, batch in enumerate(batches):
        op = ops[batch[0]]
        if op == "value":
            block = np.stack([values[call] for call in batch])
        else:
            given = [
                np.concatenate([blocks[b] for b in sources])[: len(batch)] for sources, _ in gather(batches, inputs, k)
            ]
            block = kernels[op](*given)
        blocks.append(block)
        for row, call in enumerate(batch):
            results[call] = block[row]
    return results


# %% wrong: rows by the call's number | result of call|out of bounds


def run(batches, inputs, ops, values, kernels):
    blocks, results = [], [None] * len(ops)
    for k, batch in enumerate(batches):
        op = ops[batch[0]]
        if op == "value":
            block = np.stack([values[call] for call in batch])
        else:
            given = []
            for sources, rows in gather(batches, inputs, k):
                whole = np.concatenate([blocks[b] for b in sources])
                given.append(whole if rows is None else whole[rows])
            block = kernels[op](*given)
        blocks.append(block)
        for row, call in enumerate(sorted(batch)):
            results[call] = block[row]
    return results


# %% wrong: blocks instead of rows | has shape


def run(batches, inputs, ops, values, kernels):
    found, whole = {}, {}
    for batch in batches:
        op = ops[batch[0]]
        if op == "value":
            rows = np.stack([values[call] for call in batch])
        else:
            given = [np.stack([found[k] for k in read]) for read in zip(*(inputs[call] for call in batch), strict=True)]
            rows = kernels[op](*given)
        found.update(zip(batch, rows, strict=True))
        whole.update(dict.fromkeys(batch, rows))
    return [whole[call] for call in range(len(ops))]


# %% wrong: the last result only | results? for


def run(batches, inputs, ops, values, kernels):
    found = {}
    for batch in batches:
        op = ops[batch[0]]
        if op == "value":
            found.update((call, values[call]) for call in batch)
        else:
            given = [np.stack([found[k] for k in read]) for read in zip(*(inputs[call] for call in batch), strict=True)]
            found.update(zip(batch, kernels[op](*given), strict=True))
    return [found[len(ops) - 1]]


# %% wrong: a second launch to be sure | launched


def run(batches, inputs, ops, values, kernels):
    found = {}
    for batch in batches:
        op = ops[batch[0]]
        if op == "value":
            found.update((call, values[call]) for call in batch)
        else:
            given = [np.stack([found[k] for k in read]) for read in zip(*(inputs[call] for call in batch), strict=True)]
            kernels[op](*given)
            found.update(zip(batch, kernels[op](*given), strict=True))
    return [found[call] for call in range(len(ops))]


# %% wrong: float32 throughout | result of call


def run(batches, inputs, ops, values, kernels):
    found = {}
    for batch in batches:
        op = ops[batch[0]]
        if op == "value":
            found.update((call, values[call].astype(np.float32)) for call in batch)
        else:
            given = [np.stack([found[k] for k in read]) for read in zip(*(inputs[call] for call in batch), strict=True)]
            found.update(zip(batch, kernels[op](*given).astype(np.float32), strict=True))
    return [found[call] for call in range(len(ops))]


# %% wrong: the operation of call 0 for all | result of call|KeyError|'value'


def run(batches, inputs, ops, values, kernels):
    found = {}
    for batch in batches:
        if ops[batch[0]] == "value":
            found.update((call, values[call]) for call in batch)
        else:
            op = next(one for one in ops if one != "value")
            given = [np.stack([found[k] for k in read]) for read in zip(*(inputs[call] for call in batch), strict=True)]
            found.update(zip(batch, kernels[op](*given), strict=True))
    return [found[call] for call in range(len(ops))]
