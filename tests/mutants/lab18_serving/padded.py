"""Answers to the task `padded`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: a mask and sums


def answers(model, sequences):
    lengths = np.array([len(sequence) for sequence in sequences], int)
    if not len(lengths):
        return []
    filled = [np.pad(one, [(0, lengths.max() - len(one)), (0, 0)], mode="edge") for one in sequences]
    results = model(np.stack(filled))
    mask = np.arange(lengths.max()) < lengths[:, None]
    kept = np.where(mask[:, :, None], results, 0)
    means = kept.sum(axis=1) / lengths[:, None].astype(results.dtype)
    return [[results[i][mask[i]], means[i]] for i in range(len(lengths))]


# %% right: sorted by length, and put back


def answers(model, sequences):
    order = sorted(range(len(sequences)), key=lambda i: -len(sequences[i]))
    if not order:
        return ()
    longest = len(sequences[order[0]])
    batch = np.full((len(order), longest, sequences[0].shape[1]), 7, sequences[0].dtype)
    for row, i in enumerate(order):
        batch[row, : len(sequences[i])] = sequences[i]
    found = dict(zip(order, model(batch), strict=True))
    cut = [found[i][: len(sequences[i])] for i in range(len(sequences))]
    return tuple((places, np.mean(places, axis=0)) for places in cut)


# %% wrong: not written | has not been filled


def answers(model, sequences):
    raise NotImplementedError("your code here")


# %% wrong: the mean counts the fill | the fill count in it


def answers(model, sequences):
    if not sequences:
        return []
    longest = max(len(sequence) for sequence in sequences)
    batch = np.zeros((len(sequences), longest, sequences[0].shape[1]), sequences[0].dtype)
    for row, sequence in enumerate(sequences):
        batch[row, : len(sequence)] = sequence
    results = model(batch)
    own = [results[row, : len(sequence)] for row, sequence in enumerate(sequences)]
    return [(places, results[row].mean(axis=0)) for row, places in enumerate(own)]


# %% wrong: the sum over all places, divided by the own | the fill count in it


def answers(model, sequences):
    if not sequences:
        return []
    longest = max(len(sequence) for sequence in sequences)
    batch = np.zeros((len(sequences), longest, sequences[0].shape[1]), sequences[0].dtype)
    for row, sequence in enumerate(sequences):
        batch[row, : len(sequence)] = sequence
    results = model(batch)
    own = [results[row, : len(sequence)] for row, sequence in enumerate(sequences)]
    return [(places, results[row].sum(axis=0) / len(places)) for row, places in enumerate(own)]


# %% wrong: not cut back | cut off again


def answers(model, sequences):
    if not sequences:
        return []
    longest = max(len(sequence) for sequence in sequences)
    batch = np.zeros((len(sequences), longest, sequences[0].shape[1]), sequences[0].dtype)
    for row, sequence in enumerate(sequences):
        batch[row, : len(sequence)] = sequence
    results = model(batch)
    own = [results[row] for row, sequence in enumerate(sequences)]
    return [(places, places.mean(axis=0)) for places in own]


# %% wrong: filled up in front, cut behind | places of sequence


def answers(model, sequences):
    if not sequences:
        return []
    longest = max(len(sequence) for sequence in sequences)
    batch = np.zeros((len(sequences), longest, sequences[0].shape[1]), sequences[0].dtype)
    for row, sequence in enumerate(sequences):
        batch[row, longest - len(sequence) :] = sequence
    results = model(batch)
    own = [results[row, : len(sequence)] for row, sequence in enumerate(sequences)]
    return [(places, places.mean(axis=0)) for places in own]


# %% wrong: rows to the wrong requests | wrong requests|places? of sequence


def answers(model, sequences):
    if not sequences:
        return []
    longest = max(len(sequence) for sequence in sequences)
    batch = np.zeros((len(sequences), longest, sequences[0].shape[1]), sequences[0].dtype)
    for row, sequence in enumerate(sequences):
        batch[row, : len(sequence)] = sequence
    results = model(batch)[::-1]
    own = [results[row, : len(sequence)] for row, sequence in enumerate(sequences)]
    return [(places, places.mean(axis=0)) for places in own]


# %% wrong: sorted and not put back | called|wrong requests|cut off again|sequence


def answers(model, sequences):
    if not sequences:
        return []
    sequences = sorted(sequences, key=len)
    longest = max(len(sequence) for sequence in sequences)
    batch = np.zeros((len(sequences), longest, sequences[0].shape[1]), sequences[0].dtype)
    for row, sequence in enumerate(sequences):
        batch[row, : len(sequence)] = sequence
    results = model(batch)
    own = [results[row, : len(sequence)] for row, sequence in enumerate(sequences)]
    return [(places, places.mean(axis=0)) for places in own]


# %% wrong: one call for each | The model was called


def answers(model, sequences):
    places = [model(sequence[None])[0] for sequence in sequences]
    return [(one, one.mean(axis=0)) for one in places]


# %% wrong: cut to the shortest | called with shape|cut off|shape|could not broadcast


def answers(model, sequences):
    if not sequences:
        return []
    longest = min(len(sequence) for sequence in sequences)
    batch = np.zeros((len(sequences), longest, sequences[0].shape[1]), sequences[0].dtype)
    for row, sequence in enumerate(sequences):
        batch[row] = sequence[:longest]
    results = model(batch)
    own = [results[row, : len(sequence)] for row, sequence in enumerate(sequences)]
    return [(places, places.mean(axis=0)) for places in own]


# %% wrong: filled up to a power of two | up to the longest


def answers(model, sequences):
    if not sequences:
        return []
    longest = max(len(sequence) for sequence in sequences)
    longest = 1 << (longest - 1).bit_length()
    batch = np.zeros((len(sequences), longest, sequences[0].shape[1]), sequences[0].dtype)
    for row, sequence in enumerate(sequences):
        batch[row, : len(sequence)] = sequence
    results = model(batch)
    own = [results[row, : len(sequence)] for row, sequence in enumerate(sequences)]
    return [(places, places.mean(axis=0)) for places in own]


# %% wrong: float64 all the way | float64; the sequences are float32


def answers(model, sequences):
    if not sequences:
        return []
    longest = max(len(sequence) for sequence in sequences)
    batch = np.zeros((len(sequences), longest, sequences[0].shape[1]))
    for row, sequence in enumerate(sequences):
        batch[row, : len(sequence)] = sequence
    results = model(batch)
    own = [results[row, : len(sequence)] for row, sequence in enumerate(sequences)]
    return [(places, places.mean(axis=0)) for places in own]


# %% wrong: without sequences it fails | IndexError|max|empty


def answers(model, sequences):
    longest = max(len(sequence) for sequence in sequences)
    batch = np.zeros((len(sequences), longest, sequences[0].shape[1]), sequences[0].dtype)
    for row, sequence in enumerate(sequences):
        batch[row, : len(sequence)] = sequence
    results = model(batch)
    own = [results[row, : len(sequence)] for row, sequence in enumerate(sequences)]
    return [(places, places.mean(axis=0)) for places in own]


# %% wrong: the model sees float64 | The model was called with float64; the sequences are float32


def answers(model, sequences):
    if not sequences:
        return []
    longest = max(map(len, sequences))
    batch = np.zeros((len(sequences), longest, sequences[0].shape[1]))
    for row, one in enumerate(sequences):
        batch[row, : len(one)] = one
    results = model(batch).astype(sequences[0].dtype)
    own = [results[row, : len(one)] for row, one in enumerate(sequences)]
    return [(places, places.mean(0)) for places in own]


# %% wrong: places that are zero are taken for fill | some of its own are missing|have shape


def answers(model, sequences):
    if not sequences:
        return []
    longest = max(map(len, sequences))
    batch = np.zeros((len(sequences), longest, sequences[0].shape[1]), sequences[0].dtype)
    for row, one in enumerate(sequences):
        batch[row, : len(one)] = one
    results = model(batch)
    own = [results[row][(batch[row] != 0).any(axis=-1)] for row in range(len(sequences))]
    return [(places, places.mean(0)) for places in own]


# %% wrong: without sequences the model is called | though there are no sequences


def answers(model, sequences):
    longest = max(map(len, sequences), default=0)
    features = sequences[0].shape[1] if sequences else 0
    batch = np.zeros((len(sequences), longest, features), sequences[0].dtype if sequences else float)
    for row, one in enumerate(sequences):
        batch[row, : len(one)] = one
    results = model(batch)
    own = [results[row, : len(one)] for row, one in enumerate(sequences)]
    return [(places, places.mean(0)) for places in own]


# %% right: filled with the last place


def answers(model, sequences):
    if len(sequences) == 0:
        return []
    longest = max(map(len, sequences))
    filled = [np.pad(one, ((0, longest - len(one)), (0, 0)), mode="edge") for one in sequences]
    results = model(np.stack(filled))
    own = [results[row][: len(one)].copy() for row, one in enumerate(sequences)]
    return [[places, np.add.reduce(places) / places.dtype.type(len(places))] for places in own]


# %% wrong: the mean in float64 | float64; expected float32


def answers(model, sequences):
    if not sequences:
        return []
    longest = max(map(len, sequences))
    batch = np.zeros((len(sequences), longest, sequences[0].shape[1]), sequences[0].dtype)
    for row, one in enumerate(sequences):
        batch[row, : len(one)] = one
    results = model(batch)
    own = [results[row, : len(one)] for row, one in enumerate(sequences)]
    return [(places, places.sum(0) / np.float64(len(places))) for places in own]
