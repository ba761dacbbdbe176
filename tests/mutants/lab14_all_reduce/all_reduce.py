"""Answers to the task `all_reduce`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: without reduce_scatter, with other chunk numbers


def all_reduce(array, peers):
    p, r = peers.size, peers.rank
    bounds, total = chunk_bounds(len(array), p), array.copy()
    for half in (0, 1):
        for step in range(p - 1):
            here, there = slice(*bounds[(r + half - step) % p]), slice(*bounds[(r + half - step - 1) % p])
            peers.send((r + 1) % p, total[here])
            received = peers.receive((r - 1) % p)
            total[there] = received if half else total[there] + received
    return total


# %% right: a dictionary of chunks


def all_reduce(array, peers):
    p, r = peers.size, peers.rank
    done = {r: reduce_scatter(array, peers)}
    for step in range(p - 1):
        peers.send((r + 1) % p, done[(r - step) % p])
        done[(r - step - 1) % p] = peers.receive((r - 1) % p)
    return np.concatenate([done[k] for k in range(p)])


# %% right: says who was lost and lets it through


def all_reduce(array, peers):
    p, r = peers.size, peers.rank
    bounds, total = chunk_bounds(len(array), p), array.copy()
    try:
        total[slice(*bounds[r])] = reduce_scatter(array, peers)
        for step in range(p - 1):
            peers.send((r + 1) % p, total[slice(*bounds[(r - step) % p])])
            total[slice(*bounds[(r - step - 1) % p])] = peers.receive((r - 1) % p)
    except ConnectionError as error:
        raise RuntimeError(f"no sum on rank {r}: {error}") from error
    return total


# %% wrong: the mean | the mean


def all_reduce(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    bounds, total = chunk_bounds(len(array), size), np.empty_like(array)
    start, stop = bounds[rank]
    total[start:stop] = reduce_scatter(array, peers)
    for step in range(size - 1):
        start, stop = bounds[(rank - step) % size]
        peers.send(right, total[start:stop])
        start, stop = bounds[(rank - step - 1) % size]
        total[start:stop] = peers.receive(left)
    return (total / size).astype(array.dtype)


# %% wrong: adds in the second half too | more than once|times the sum


def all_reduce(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    bounds, total = chunk_bounds(len(array), size), array.copy()
    start, stop = bounds[rank]
    total[start:stop] = reduce_scatter(array, peers)
    for step in range(size - 1):
        start, stop = bounds[(rank - step) % size]
        peers.send(right, total[start:stop])
        start, stop = bounds[(rank - step - 1) % size]
        total[start:stop] += peers.receive(left)
    return total


# %% wrong: the second half is off by one chunk | chunk|broadcast


def all_reduce(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    bounds, total = chunk_bounds(len(array), size), np.zeros_like(array)
    start, stop = bounds[rank]
    total[start:stop] = reduce_scatter(array, peers)
    for step in range(size - 1):
        start, stop = bounds[(rank - step - 1) % size]
        peers.send(right, total[start:stop])
        start, stop = bounds[(rank - step - 2) % size]
        total[start:stop] = peers.receive(left)
    return total


# %% wrong: one step too few in the second half | lacks what rank


def all_reduce(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    bounds, total = chunk_bounds(len(array), size), array.copy()
    start, stop = bounds[rank]
    total[start:stop] = reduce_scatter(array, peers)
    for step in range(size - 2):
        start, stop = bounds[(rank - step) % size]
        peers.send(right, total[start:stop])
        start, stop = bounds[(rank - step - 1) % size]
        total[start:stop] = peers.receive(left)
    return total


# %% wrong: every rank adds all arrays, its own first | differ in element|not the array


def all_reduce(array, peers):
    rank, size = peers.rank, peers.size
    total = moving = array.copy()
    for _ in range(size - 1):
        peers.send((rank + 1) % size, moving)
        moving = peers.receive((rank - 1) % size)
        total = total + moving
    return total


# %% wrong: the whole array travels, added in the order of ranks | one chunk.*, not the array


def all_reduce(array, peers):
    rank, size = peers.rank, peers.size
    arrays, moving = {rank: array.copy()}, array
    for step in range(size - 1):
        peers.send((rank + 1) % size, moving)
        moving = peers.receive((rank - 1) % size)
        arrays[(rank - step - 1) % size] = moving
    total = arrays[0]
    for other in range(1, size):
        total = total + arrays[other]
    return total


# %% wrong: through rank 0 | right neighbour


def all_reduce(array, peers):
    return plain_sum(array, peers)


# %% wrong: a lost rank is passed over | as if nothing had happened


def all_reduce(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    bounds, total = chunk_bounds(len(array), size), array.copy()
    try:
        start, stop = bounds[rank]
        total[start:stop] = reduce_scatter(array, peers)
        for step in range(size - 1):
            start, stop = bounds[(rank - step) % size]
            peers.send(right, total[start:stop])
            start, stop = bounds[(rank - step - 1) % size]
            total[start:stop] = peers.receive(left)
    except ConnectionError:
        pass
    return total


# %% wrong: tries again for ever when a rank is lost | still at work


def all_reduce(array, peers):
    while True:
        try:
            rank, size = peers.rank, peers.size
            left, right = (rank - 1) % size, (rank + 1) % size
            bounds, total = chunk_bounds(len(array), size), array.copy()
            start, stop = bounds[rank]
            total[start:stop] = reduce_scatter(array, peers)
            for step in range(size - 1):
                start, stop = bounds[(rank - step) % size]
                peers.send(right, total[start:stop])
                start, stop = bounds[(rank - step - 1) % size]
                total[start:stop] = peers.receive(left)
            return total
        except ConnectionError:
            continue


# %% wrong: chunks of equal size, the rest not summed | lacks what rank


def all_reduce(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    each, total = len(array) // size, array.copy()
    for half in (0, 1):
        for step in range(size - 1):
            k = (rank + half - step) % size
            peers.send(right, total[k * each : (k + 1) * each])
            k = (k - 1) % size
            received = peers.receive(left)
            total[k * each : (k + 1) * each] = received + (0 if half else total[k * each : (k + 1) * each])
    return total


# %% wrong: in place | changed the array


def all_reduce(array, peers):
    rank, size = peers.rank, peers.size
    left, right = (rank - 1) % size, (rank + 1) % size
    bounds = chunk_bounds(len(array), size)
    start, stop = bounds[rank]
    array[start:stop] = reduce_scatter(array, peers)
    for step in range(size - 1):
        start, stop = bounds[(rank - step) % size]
        peers.send(right, array[start:stop])
        start, stop = bounds[(rank - step - 1) % size]
        array[start:stop] = peers.receive(left)
    return array


# %% wrong: its own chunk only | shape


def all_reduce(array, peers):
    return reduce_scatter(array, peers)
