"""Answers to the task `exchange`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, RET503

# %% right: odd ranks send first


def pass_right(array, peers):
    if peers.size == 1:
        return array
    left, right = (peers.rank - 1) % peers.size, (peers.rank + 1) % peers.size
    if peers.rank % 2:
        peers.send(right, array)
        return peers.receive(left)
    received = peers.receive(left)
    peers.send(right, array)
    return received


# %% right: one rank receives first, and the others follow round the ring


def pass_right(array, peers):
    left, right = (peers.rank - 1) % peers.size, (peers.rank + 1) % peers.size
    if left == peers.rank:
        return array.copy()
    received = peers.receive(left) if peers.rank == 0 else None
    peers.send(right, array)
    return received if peers.rank == 0 else peers.receive(left)


# %% right: the last rank receives first


def pass_right(array, peers):
    if peers.size == 1:
        return array
    if peers.rank == peers.size - 1:
        received = peers.receive(peers.rank - 1)
        peers.send(0, array)
        return received
    peers.send(peers.rank + 1, array)
    return peers.receive((peers.rank - 1) % peers.size)


# %% wrong: everybody sends first | All ranks send first


def pass_right(array, peers):
    if peers.size == 1:
        return array
    peers.send((peers.rank + 1) % peers.size, array)
    return peers.receive((peers.rank - 1) % peers.size)


# %% wrong: everybody receives first | All ranks receive first


def pass_right(array, peers):
    if peers.size == 1:
        return array
    received = peers.receive((peers.rank - 1) % peers.size)
    peers.send((peers.rank + 1) % peers.size, array)
    return received


# %% wrong: only an odd number of ranks is told apart | deadlock


def pass_right(array, peers):
    left, right = (peers.rank - 1) % peers.size, (peers.rank + 1) % peers.size
    if peers.size == 1:
        return array
    if peers.size % 2 == 0 or peers.rank == 0:
        peers.send(right, array)
        return peers.receive(left)
    received = peers.receive(left)
    peers.send(right, array)
    return received


# %% wrong: to the left | left neighbour


def pass_right(array, peers):
    if peers.size == 1:
        return array
    left, right = (peers.rank - 1) % peers.size, (peers.rank + 1) % peers.size
    if peers.rank % 2:
        peers.send(left, array)
        return peers.receive(right)
    received = peers.receive(right)
    peers.send(left, array)
    return received


# %% wrong: the ring is not closed | rank 0|there is no|rank -1


def pass_right(array, peers):
    if peers.rank % 2 == 0:
        if peers.rank < peers.size - 1:
            peers.send(peers.rank + 1, array)
        return peers.receive(peers.rank - 1) if peers.rank else array
    received = peers.receive(peers.rank - 1)
    if peers.rank < peers.size - 1:
        peers.send(peers.rank + 1, array)
    return received


# %% wrong: alone it sends to itself | this rank itself


def pass_right(array, peers):
    left, right = (peers.rank - 1) % peers.size, (peers.rank + 1) % peers.size
    if peers.rank % 2 == 0:
        peers.send(right, array)
        return peers.receive(left)
    received = peers.receive(left)
    peers.send(right, array)
    return received


# %% wrong: its own array comes back | the array of rank


def pass_right(array, peers):
    if peers.size == 1:
        return array
    left, right = (peers.rank - 1) % peers.size, (peers.rank + 1) % peers.size
    if peers.rank % 2 == 0:
        peers.send(right, array)
        peers.receive(left)
    else:
        peers.receive(left)
        peers.send(right, array)
    return array


# %% wrong: nothing comes back on odd ranks | returned nothing


def pass_right(array, peers):
    if peers.size == 1:
        return array
    left, right = (peers.rank - 1) % peers.size, (peers.rank + 1) % peers.size
    if peers.rank % 2 == 0:
        peers.send(right, array)
        return peers.receive(left)
    peers.receive(left)
    peers.send(right, array)


# %% wrong: through rank 0 | is needed, to its right neighbour


def pass_right(array, peers):
    if peers.rank:
        peers.send(0, array)
        return peers.receive(0)
    arrays = [array] + [peers.receive(source) for source in range(1, peers.size)]
    for to in range(1, peers.size):
        peers.send(to, arrays[to - 1])
    return arrays[-1]


# %% wrong: gives up when it waits | is gone|deadlock|Waiting


def pass_right(array, peers):
    if peers.size == 1:
        return array
    left, right = (peers.rank - 1) % peers.size, (peers.rank + 1) % peers.size
    if peers.rank == 0:
        peers.send(right, array)
    received = peers.receive(left)
    if peers.rank > 0 and peers.rank < peers.size - 1:
        peers.send(right, array)
    return received


# %% wrong: in two threads | one after the other


def pass_right(array, peers):
    import threading

    if peers.size == 1:
        return array.copy()
    sending = threading.Thread(target=peers.send, args=((peers.rank + 1) % peers.size, array))
    sending.start()
    got = peers.receive((peers.rank - 1) % peers.size)
    sending.join()
    return got
