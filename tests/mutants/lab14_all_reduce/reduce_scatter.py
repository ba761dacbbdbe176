"""Answers to the task `reduce_scatter`: ``# %% right: title``, or ``# %% wrong: title | what the feedback says``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: a list of chunks


def reduce_scatter(array, peers):
    p, r = peers.size, peers.rank
    parts = [array[start:stop] for start, stop in chunk_bounds(len(array), p)]
    moving = parts[(r - 1) % p]
    for step in range(p - 1):
        peers.send((r + 1) % p, moving)
        moving = parts[(r - step - 2) % p] + peers.receive((r - 1) % p)
    return np.array(moving)


# %% right: empty chunks are not sent at all


def reduce_scatter(array, peers):
    p, r = peers.size, peers.rank
    own, bounds = np.array(array), chunk_bounds(len(array), p)
    for step in range(p - 1):
        here, there = slice(*bounds[(r - step - 1) % p]), slice(*bounds[(r - step - 2) % p])
        if here.stop > here.start:
            peers.send((r + 1) % p, own[here])
        if there.stop > there.start:
            own[there] = own[there] + peers.receive((r - 1) % p)
    return own[slice(*bounds[r])]


# %% wrong: one step too few | lacks what rank|is not|chunk


def reduce_scatter(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    own, bounds = array.copy(), chunk_bounds(len(array), size)
    for step in range(size - 2):
        start, stop = bounds[(rank - step - 1) % size]
        peers.send(right, own[start:stop])
        start, stop = bounds[(rank - step - 2) % size]
        own[start:stop] += peers.receive(left)
    start, stop = bounds[rank]
    return own[start:stop].copy()


# %% wrong: one step too many | more than once|steps? is enough|broadcast|bytes


def reduce_scatter(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    own, bounds = array.copy(), chunk_bounds(len(array), size)
    for step in range(size if size > 1 else 0):
        start, stop = bounds[(rank - step - 1) % size]
        peers.send(right, own[start:stop])
        start, stop = bounds[(rank - step - 2) % size]
        own[start:stop] += peers.receive(left)
    start, stop = bounds[rank]
    return own[start:stop].copy()


# %% wrong: the chunks are counted from the rank itself | chunk \d of the sum; expected chunk


def reduce_scatter(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    own, bounds = array.copy(), chunk_bounds(len(array), size)
    for step in range(size - 1):
        start, stop = bounds[(rank - step) % size]
        peers.send(right, own[start:stop])
        start, stop = bounds[(rank - step - 1) % size]
        own[start:stop] += peers.receive(left)
    start, stop = bounds[(rank + 1) % size]
    return own[start:stop].copy()


# %% wrong: chunks of equal size, the rest forgotten | shape|chunk


def reduce_scatter(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    each = len(array) // size
    own = array.copy()
    for step in range(size - 1):
        k = (rank - step - 1) % size
        peers.send(right, own[k * each : (k + 1) * each])
        k = (rank - step - 2) % size
        own[k * each : (k + 1) * each] += peers.receive(left)
    return own[rank * each : (rank + 1) * each].copy()


# %% wrong: sends what it had, not what was added up | lacks what rank


def reduce_scatter(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    own, bounds = array.copy(), chunk_bounds(len(array), size)
    for step in range(size - 1):
        start, stop = bounds[(rank - step - 1) % size]
        peers.send(right, array[start:stop])
        start, stop = bounds[(rank - step - 2) % size]
        own[start:stop] += peers.receive(left)
    start, stop = bounds[rank]
    return own[start:stop].copy()


# %% wrong: overwrites in place of adding | lacks what rank


def reduce_scatter(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    own, bounds = array.copy(), chunk_bounds(len(array), size)
    for step in range(size - 1):
        start, stop = bounds[(rank - step - 1) % size]
        peers.send(right, own[start:stop])
        start, stop = bounds[(rank - step - 2) % size]
        own[start:stop] = peers.receive(left)
    start, stop = bounds[rank]
    return own[start:stop].copy()


# %% wrong: adds into what it was given | changed the array


def reduce_scatter(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    bounds = chunk_bounds(len(array), size)
    for step in range(size - 1):
        start, stop = bounds[(rank - step - 1) % size]
        peers.send(right, array[start:stop])
        start, stop = bounds[(rank - step - 2) % size]
        array[start:stop] += peers.receive(left)
    start, stop = bounds[rank]
    return array[start:stop].copy()


# %% wrong: everybody sends everything | to its right neighbour|to the right neighbour


def reduce_scatter(array, peers):
    rank, size = peers.rank, peers.size
    others = [other for other in range(size) if other != rank]
    for other in others:
        peers.send(other, array)
    total = array + sum(peers.receive(other) for other in others)
    start, stop = chunk_bounds(len(array), size)[rank]
    return total[start:stop]


# %% wrong: the whole array travels | one chunk.*, not the array


def reduce_scatter(array, peers):
    rank, size = peers.rank, peers.size
    total = moving = array.copy()
    for _ in range(size - 1):
        peers.send((rank + 1) % size, moving)
        moving = peers.receive((rank - 1) % size)
        total = total + moving
    start, stop = chunk_bounds(len(array), size)[rank]
    return total[start:stop]


# %% wrong: an empty chunk is not sent, but waited for | Waiting in vain|deadlock


def reduce_scatter(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    own, bounds = array.copy(), chunk_bounds(len(array), size)
    for step in range(size - 1):
        start, stop = bounds[(rank - step - 1) % size]
        if stop > start:
            peers.send(right, own[start:stop])
        start, stop = bounds[(rank - step - 2) % size]
        own[start:stop] += peers.receive(left)
    start, stop = bounds[rank]
    return own[start:stop].copy()


# %% wrong: receives before it sends | A deadlock


def reduce_scatter(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    own, bounds = array.copy(), chunk_bounds(len(array), size)
    for step in range(size - 1):
        start, stop = bounds[(rank - step - 2) % size]
        received = peers.receive(left)
        begin, end = bounds[(rank - step - 1) % size]
        peers.send(right, own[begin:end])
        own[start:stop] += received
    start, stop = bounds[rank]
    return own[start:stop].copy()


# %% wrong: adds in float64 | returned float64


def reduce_scatter(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    own, bounds = array.astype(float), chunk_bounds(len(array), size)
    for step in range(size - 1):
        start, stop = bounds[(rank - step - 1) % size]
        peers.send(right, own[start:stop].astype(array.dtype))
        start, stop = bounds[(rank - step - 2) % size]
        own[start:stop] += peers.receive(left)
    start, stop = bounds[rank]
    return own[start:stop]
