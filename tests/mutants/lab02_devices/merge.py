"""Answers to the task `merge`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811

# %% right: forwards first, then swallowed by the block before


def merge(block):
    def swallow(one):
        other = one.next
        one.size += other.size
        one.next = other.next
        if other.next:
            other.next.prev = one
        return one

    if block.next and block.next.free:
        swallow(block)
    if block.prev and block.prev.free:
        return swallow(block.prev)
    return block


# %% right: both ends are found, then everything between is one


def merge(block):
    first = last = block
    while first.prev is not None and first.prev.free:
        first = first.prev
    while last.next is not None and last.next.free:
        last = last.next
    end = last.address + last.size
    first.size = end - first.address
    first.next = last.next
    if first.next is not None:
        first.next.prev = first
    return first


# %% wrong: not written | has not been filled


def merge(block):
    raise NotImplementedError()


# %% wrong: joins nothing | covers the free memory


def merge(block):
    return block


# %% wrong: only forwards | covers the free memory


def merge(block):
    if block.next is not None and block.next.free:
        gone = block.next
        block.size, block.next = block.size + gone.size, gone.next
        if gone.next is not None:
            gone.next.prev = block
    return block


# %% wrong: only backwards | covers the free memory


def merge(block):
    before = block.prev
    if before is None or not before.free:
        return block
    before.size += block.size
    before.next = block.next
    if block.next is not None:
        block.next.prev = before
    return before


# %% wrong: the block behind is not linked back | backwards it is not


def merge(block):
    if block.prev is not None and block.prev.free:
        block = block.prev
    while block.next is not None and block.next.free:
        block.size += block.next.size
        block.next = block.next.next
    return block


# %% wrong: joined with whatever is next to it | covers the free memory


def merge(block):
    if block.prev is not None:
        block = block.prev
    while block.next is not None:
        gone = block.next
        block.size += gone.size
        block.next = gone.next
        if gone.next is not None:
            gone.next.prev = block
    return block


# %% wrong: sizes are not added | covers the free memory


def merge(block):
    if block.prev is not None and block.prev.free:
        block = block.prev
    while block.next is not None and block.next.free:
        block.next = block.next.next
        if block.next is not None:
            block.next.prev = block
    return block


# %% wrong: sizes are added, but the other block stays | overlap


def merge(block):
    if block.prev is not None and block.prev.free:
        block = block.prev
        block.size += block.next.size
    if block.next is not None and block.next.free:
        block.size += block.next.size
    return block


# %% wrong: the last of them stays | they overlap


def merge(block):
    if block.next is not None and block.next.free:
        block = block.next
    while block.prev is not None and block.prev.free:
        gone = block.prev
        block.size += gone.size
        block.address = gone.address
        block.prev = gone.prev
        if gone.prev is not None:
            gone.prev.next = block
    return block


# %% wrong: returns the block that was given | covers the free memory


def merge(block):
    given = block
    if block.prev is not None and block.prev.free:
        block = block.prev
    while block.next is not None and block.next.free:
        gone = block.next
        block.size += gone.size
        block.next = gone.next
        if gone.next is not None:
            gone.next.prev = block
    return given


# %% wrong: fails at the ends of a chain | NoneType|None behind


def merge(block):
    if block.prev.free:
        block = block.prev
    while block.next.free:
        gone = block.next
        block.size += gone.size
        block.next = gone.next
        gone.next.prev = block
    return block


# %% wrong: returns nothing | returned None


def merge(block):
    if block.prev is not None and block.prev.free:
        block = block.prev
    while block.next is not None and block.next.free:
        gone = block.next
        block.size += gone.size
        block.next = gone.next
        if gone.next is not None:
            gone.next.prev = block


# %% wrong: one neighbour or the other | covers the free memory


def merge(block):
    if block.prev is not None and block.prev.free:
        block = block.prev
    if block.next is not None and block.next.free:
        gone = block.next
        block.size += gone.size
        block.next = gone.next
        if gone.next is not None:
            gone.next.prev = block
    return block
