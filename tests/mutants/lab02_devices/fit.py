"""Answers to the task `fit`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: sorted, and links set from the far end


def best_fit(free, size):
    for block in sorted(free, key=lambda b: b.size * 10**9 + b.address):
        if block.size >= size:
            return block
    return None


def split(block, size):
    behind = block.next
    rest = Block(block.segment, block.address + size, block.size - size)
    if behind:
        behind.prev = rest
    rest.next = behind
    rest.prev = block
    block.next = rest
    block.size -= rest.size
    return rest


# %% right: one loop with the best so far, and a copy of the block


def best_fit(free, size):
    best = None
    for block in free:
        if block.size < size:
            continue
        if best is None or (block.size, block.address) < (best.size, best.address):
            best = block
    return best


def split(block, size):
    import copy

    rest = copy.copy(block)
    rest.address, rest.size, rest.prev = block.address + size, block.size - size, block
    block.size = size
    block.next = rest
    if rest.next is not None:
        rest.next.prev = rest
    return rest


# %% wrong: not written | has not been filled


def best_fit(free, size):
    raise NotImplementedError()


# %% wrong: first fit | leaves less over|lower address


def best_fit(free, size):
    return next((block for block in free if block.size >= size), None)


# %% wrong: worst fit | leaves less over|lower address


def best_fit(free, size):
    return max((block for block in free if block.size >= size), key=lambda b: b.size, default=None)


# %% wrong: larger, not equal | holds \d+ bytes|leaves less over


def best_fit(free, size):
    return min((block for block in free if block.size > size), key=lambda b: (b.size, b.address), default=None)


# %% wrong: of equals, whichever comes first | lower address


def best_fit(free, size):
    return min((block for block in free if block.size >= size), key=lambda b: b.size, default=None)


# %% wrong: the nearest size, also where too small | which has \d+ bytes; \d+ were asked|no free block holds


def best_fit(free, size):
    return min(free, key=lambda b: (abs(b.size - size), b.address), default=None)


# %% wrong: an error where nothing fits | empty


def best_fit(free, size):
    return min((block for block in free if block.size >= size), key=lambda b: (b.size, b.address))


# %% wrong: the size of the block, not the block | expected one of the free blocks


def best_fit(free, size):
    return min((block.size for block in free if block.size >= size), default=None)


# %% wrong: the block behind does not learn of the rest | backwards it is not


def split(block, size):
    rest = Block(block.segment, block.address + size, block.size - size)
    rest.prev, rest.next = block, block.next
    block.next, block.size = rest, size
    return rest


# %% wrong: what is behind is lost | a block is lost


def split(block, size):
    rest = Block(block.segment, block.address + size, block.size - size)
    rest.prev = block
    block.next, block.size = rest, size
    return rest


# %% wrong: the block keeps its size | overlap


def split(block, size):
    rest = Block(block.segment, block.address + size, block.size - size)
    rest.prev, rest.next = block, block.next
    if rest.next is not None:
        rest.next.prev = rest
    block.next = rest
    return rest


# %% wrong: size taken off before the rest is made | expected the rest


def split(block, size):
    block.size = size
    rest = Block(block.segment, block.address + size, block.size - size)
    rest.prev, rest.next = block, block.next
    if rest.next is not None:
        rest.next.prev = rest
    block.next = rest
    return rest


# %% wrong: the rest is cut from the front | expected the rest


def split(block, size):
    rest = Block(block.segment, block.address, block.size - size)
    block.address += rest.size
    block.size = size
    rest.prev, rest.next = block, block.next
    if rest.next is not None:
        rest.next.prev = rest
    block.next = rest
    return rest


# %% wrong: returns the block that was cut | expected the rest


def split(block, size):
    rest = Block(block.segment, block.address + size, block.size - size)
    rest.prev, rest.next = block, block.next
    if rest.next is not None:
        rest.next.prev = rest
    block.next, block.size = rest, size
    return block


# %% wrong: fails at the end of a chain | NoneType|None behind


def split(block, size):
    rest = Block(block.segment, block.address + size, block.size - size)
    rest.prev, rest.next = block, block.next
    rest.next.prev = rest
    block.next, block.size = rest, size
    return rest


# %% wrong: a segment of its own | The segment of the rest


def split(block, size):
    rest = Block(None, block.address + size, block.size - size)
    rest.prev, rest.next = block, block.next
    if rest.next is not None:
        rest.next.prev = rest
    block.next, block.size = rest, size
    return rest


# %% wrong: the block is marked as in use already | stays free


def split(block, size):
    rest = Block(block.segment, block.address + size, block.size - size)
    rest.prev, rest.next = block, block.next
    if rest.next is not None:
        rest.next.prev = rest
    block.next, block.size, block.free = rest, size, False
    return rest
