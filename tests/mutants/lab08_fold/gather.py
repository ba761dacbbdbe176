"""Answers to the task `gather`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: calls laid end to end, and searched


def gather(batches, inputs, k):
    pairs = []
    for read in zip(*(inputs[call] for call in batches[k]), strict=True):
        blocks = [b for b in range(k) if set(read) & set(batches[b])]
        calls = [call for b in blocks for call in batches[b]]
        if len(blocks) == 1 and list(read) == calls:
            pairs.append((blocks, None))
        else:
            pairs.append((blocks, [calls.index(call) for call in read]))
    return pairs


# %% right: with NumPy


def gather(batches, inputs, k):
    sizes = [len(batch) for batch in batches]
    count = sum(sizes)
    block, row = np.zeros(count, int), np.zeros(count, int)
    for b, batch in enumerate(batches):
        block[batch], row[batch] = b, np.arange(len(batch))
    pairs = []
    reads = np.array([inputs[call] for call in batches[k]], dtype=int)
    for read in reads.T:
        blocks = np.unique(block[read])
        starts = np.zeros(len(batches), int)
        starts[blocks] = np.cumsum([0, *(sizes[b] for b in blocks[:-1])])
        rows = starts[block[read]] + row[read]
        whole = len(blocks) == 1 and np.array_equal(rows, np.arange(sizes[blocks[0]]))
        pairs.append([blocks, None if whole else rows])
    return pairs


# %% wrong: not written | has not been filled


def gather(batches, inputs, k):
    raise NotImplementedError("your code here")


# %% wrong: numbers of calls for rows | numbers of the calls|nothing has to be moved


def gather(batches, inputs, k):
    place = {call: b for b, batch in enumerate(batches) for call in batch}
    pairs = []
    for slot in range(len(inputs[batches[k][0]])):
        read = [inputs[call][slot] for call in batches[k]]
        pairs.append((sorted({place[call] for call in read}), read))
    return pairs


# %% wrong: rows of each block alone | begin where the first ends


def gather(batches, inputs, k):
    place = {call: (b, row) for b, batch in enumerate(batches) for row, call in enumerate(batch)}
    pairs = []
    for slot in range(len(inputs[batches[k][0]])):
        read = [place[inputs[call][slot]] for call in batches[k]]
        blocks, rows = sorted({b for b, _ in read}), [row for _, row in read]
        whole = len(blocks) == 1 and rows == list(range(len(batches[blocks[0]])))
        pairs.append((blocks, None if whole else rows))
    return pairs


# %% wrong: always moved | nothing has to be moved


def gather(batches, inputs, k):
    pairs = []
    for slot in range(len(inputs[batches[k][0]])):
        read = [inputs[call][slot] for call in batches[k]]
        blocks = [b for b in range(k) if set(read) & set(batches[b])]
        calls = [call for b in blocks for call in batches[b]]
        pairs.append((blocks, [calls.index(call) for call in read]))
    return pairs


# %% wrong: never moved within a block | not None


def gather(batches, inputs, k):
    pairs = []
    for slot in range(len(inputs[batches[k][0]])):
        read = [inputs[call][slot] for call in batches[k]]
        blocks = [b for b in range(k) if set(read) & set(batches[b])]
        calls = [call for b in blocks for call in batches[b]]
        pairs.append((blocks, None if sorted(read) == sorted(calls) else [calls.index(call) for call in read]))
    return pairs


# %% wrong: None for the beginning of a block | not None


def gather(batches, inputs, k):
    pairs = []
    for slot in range(len(inputs[batches[k][0]])):
        read = [inputs[call][slot] for call in batches[k]]
        blocks = [b for b in range(k) if set(read) & set(batches[b])]
        calls = [call for b in blocks for call in batches[b]]
        whole = len(blocks) == 1 and calls[: len(read)] == read
        pairs.append((blocks, None if whole else [calls.index(call) for call in read]))
    return pairs


# %% wrong: None for several blocks | not None


def gather(batches, inputs, k):
    pairs = []
    for slot in range(len(inputs[batches[k][0]])):
        read = [inputs[call][slot] for call in batches[k]]
        blocks = [b for b in range(k) if set(read) & set(batches[b])]
        calls = [call for b in blocks for call in batches[b]]
        pairs.append((blocks, None if read == calls else [calls.index(call) for call in read]))
    return pairs


# %% wrong: all blocks so far | and no others


def gather(batches, inputs, k):
    calls = [call for batch in batches[:k] for call in batch]
    pairs = []
    for slot in range(len(inputs[batches[k][0]])):
        read = [inputs[call][slot] for call in batches[k]]
        pairs.append((list(range(k)), None if k == 1 and read == calls else [calls.index(call) for call in read]))
    return pairs


# %% wrong: blocks in the order in which they are met | ascending


def gather(batches, inputs, k):
    place = {call: b for b, batch in enumerate(batches) for call in batch}
    pairs = []
    for slot in range(len(inputs[batches[k][0]])):
        read = [inputs[call][slot] for call in batches[k]]
        blocks = list(dict.fromkeys(place[call] for call in read))
        calls = [call for b in blocks for call in batches[b]]
        whole = len(blocks) == 1 and read == calls
        pairs.append((blocks, None if whole else [calls.index(call) for call in read]))
    return pairs


# %% wrong: both inputs in one pair | has its pair


def gather(batches, inputs, k):
    read = [source for call in batches[k] for source in inputs[call]]
    if not read:
        return []
    blocks = [b for b in range(k) if set(read) & set(batches[b])]
    calls = [call for b in blocks for call in batches[b]]
    whole = len(blocks) == 1 and read == calls
    return [(blocks, None if whole else [calls.index(call) for call in read])]


# %% wrong: rows in ascending order | gather gave|not None|nothing has to be moved


def gather(batches, inputs, k):
    pairs = []
    for slot in range(len(inputs[batches[k][0]])):
        read = [inputs[call][slot] for call in batches[k]]
        blocks = [b for b in range(k) if set(read) & set(batches[b])]
        calls = [call for b in blocks for call in batches[b]]
        rows = sorted(calls.index(call) for call in read)
        whole = len(blocks) == 1 and rows == list(range(len(calls)))
        pairs.append((blocks, None if whole else rows))
    return pairs


# %% wrong: each row once | gather gave|rows are None|not None


def gather(batches, inputs, k):
    pairs = []
    for slot in range(len(inputs[batches[k][0]])):
        read = [inputs[call][slot] for call in batches[k]]
        blocks = [b for b in range(k) if set(read) & set(batches[b])]
        calls = [call for b in blocks for call in batches[b]]
        rows = list(dict.fromkeys(calls.index(call) for call in read))
        whole = len(blocks) == 1 and rows == list(range(len(calls)))
        pairs.append((blocks, None if whole else rows))
    return pairs
