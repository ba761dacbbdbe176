"""Answers to the task `pool`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821
# A wrong answer that differs from the solution in one method is written as that method alone.

# %% right: lists of intervals, without blocks


class Pool:
    def __init__(self, source, granule, segment, capacity=None):
        self.source, self.granule, self.least, self.limit = source, granule, segment, capacity or float("inf")
        self.segments = {}
        self.free_at = {}
        self.used = {}
        self.most = self.found = 0

    def allocate(self, nbytes):
        size = (nbytes + self.granule - 1) // self.granule * self.granule
        holes = sorted((n, at) for at, (n, _) in self.free_at.items() if n >= size)
        if holes:
            self.found += 1
        else:
            want = max(size, self.least)
            if sum(self.segments.values()) + want > self.limit:
                self.empty_cache()
            if sum(self.segments.values()) + want > self.limit:
                raise OutOfMemory("no room")
            at = self.source.allocate(want)
            self.segments[at] = want
            self.free_at[at] = (want, at)
            holes = [(want, at)]
        n, at = holes[0]
        _, home = self.free_at.pop(at)
        if n > size:
            self.free_at[at + size] = (n - size, home)
        self.used[at] = (size, home)
        self.most = max(self.most, sum(n for n, _ in self.used.values()))
        return at

    def free(self, address):
        if address not in self.used:
            raise ValueError(address)
        size, home = self.used.pop(address)
        for at, (n, other) in list(self.free_at.items()):
            if other == home and at + n == address:
                del self.free_at[at]
                address, size = at, size + n
        for at, (n, other) in list(self.free_at.items()):
            if other == home and address + size == at:
                del self.free_at[at]
                size += n
        self.free_at[address] = (size, home)

    def empty_cache(self):
        total = 0
        for at, n in list(self.segments.items()):
            if self.free_at.get(at, (0, 0))[0] == n:
                self.source.free(at)
                del self.segments[at], self.free_at[at]
                total += n
        return total

    def figures(self):
        current, reserved = sum(n for n, _ in self.used.values()), sum(self.segments.values())
        cached = reserved - current
        largest = max([n for n, _ in self.free_at.values()], default=0)
        return {
            "current": current,
            "peak": self.most,
            "reserved": reserved,
            "cached": cached,
            "hits": self.found,
            "fragmentation": 1 - largest / cached if cached else 0,
        }


# %% right: a list of all blocks, searched anew each time


class Pool:
    def __init__(self, source, granule, segment, capacity=None):
        self.args = source, granule, segment, capacity
        self.chains = []
        self.peak, self.hits = 0, 0

    def everything(self):
        return [block for chain in self.chains for block in walk(chain)]

    def total(self, free=None):
        return sum(block.size for block in self.everything() if free is None or block.free == free)

    def allocate(self, nbytes):
        source, granule, segment, capacity = self.args
        size = nbytes if nbytes % granule == 0 else nbytes + granule - nbytes % granule
        block = best_fit([block for block in self.everything() if block.free], size)
        if block:
            self.hits += 1
        else:
            more = max(segment, size)
            for attempt in range(2):
                if capacity is None or self.total() + more <= capacity:
                    break
                if attempt == 0:
                    self.empty_cache()
            else:
                raise OutOfMemory()
            block = Block(None, source.allocate(more), more)
            self.chains.append(block)
        if size < block.size:
            split(block, size)
        block.free = False
        self.peak = max(self.peak, self.total(free=False))
        return block.address

    def free(self, address):
        for block in self.everything():
            if block.address == address and not block.free:
                block.free = True
                merge(block)
                return
        raise ValueError(f"nothing in use at {address}")

    def empty_cache(self):
        gone = [chain for chain in self.chains if chain.free and not chain.next]
        for chain in gone:
            self.args[0].free(chain.address)
            self.chains.remove(chain)
        return sum(chain.size for chain in gone)

    def figures(self):
        free = [block.size for block in self.everything() if block.free]
        result = {"current": self.total(free=False), "reserved": self.total(), "cached": sum(free)}
        result.update(peak=self.peak, hits=self.hits)
        return result | {"fragmentation": 1 - max(free) / sum(free) if free else 0.0}


# %% wrong: not written | has not been filled


class Pool:
    def __init__(self, source, granule, segment, capacity=None):
        raise NotImplementedError()


# %% wrong: not rounded up | rounded up to the granule


class Pool(Pool):
    def allocate(self, nbytes):
        granule, self.granule = self.granule, 1
        try:
            return super().allocate(nbytes)
        finally:
            self.granule = granule


# %% wrong: always one granule more | rounded|came to|current is


class Pool(Pool):
    def allocate(self, nbytes):
        return super().allocate((nbytes // self.granule + 1) * self.granule)


# %% wrong: freed blocks are not joined | two pieces|came to|fragmentation is


class Pool(Pool):
    def free(self, address):
        if address not in self.used:
            raise ValueError
        block = self.used.pop(address)
        self.current -= block.size
        block.free = True


# %% wrong: what is left over is not cut off | cut off|current is


class Pool(Pool):
    def allocate(self, nbytes):
        size = -(-nbytes // self.granule) * self.granule
        block = best_fit(self._free_blocks(), size)
        if block is not None:
            self.hits += 1
        else:
            block = self._new_segment(max(size, self.segment))
        block.free = False
        self.used[block.address] = block
        self.current += block.size
        self.peak = max(self.peak, self.current)
        return block.address


# %% wrong: nothing is cached: the source is asked every time | asked|hits is|came to


class Pool(Pool):
    def free(self, address):
        super().free(address)
        self.empty_cache()


# %% wrong: a second free is taken for a first | freed again without a word


class Pool(Pool):
    def free(self, address):
        if address in self.used:
            super().free(address)


# %% wrong: a KeyError for a second free | raise ValueError in free


class Pool(Pool):
    def free(self, address):
        block = self.used.pop(address)
        self.current -= block.size
        block.free = True
        merge(block)


# %% wrong: refused without emptying the cache first | the cache is emptied


class Pool(Pool):
    def _new_segment(self, size):
        if self.capacity is not None and self._reserved() + size > self.capacity:
            raise OutOfMemory("full")
        return super()._new_segment(size)


# %% wrong: no capacity | Raise OutOfMemory


class Pool(Pool):
    def __init__(self, source, granule, segment, capacity=None):
        super().__init__(source, granule, segment)


# %% wrong: the capacity is of what is in use, not of the segments | Raise OutOfMemory|the cache is emptied


class Pool(Pool):
    def _reserved(self):
        return self.current

    def figures(self):
        figures = super().figures()
        reserved = sum(block.size for first in self.firsts for block in walk(first))
        largest = max((block.size for block in self._free_blocks()), default=0)
        cached = reserved - self.current
        fragmentation = 1 - largest / cached if cached else 0.0
        return figures | {"reserved": reserved, "cached": cached, "fragmentation": fragmentation}


# %% wrong: a plain MemoryError | a plain MemoryError was raised


class Pool(Pool):
    def allocate(self, nbytes):
        try:
            return super().allocate(nbytes)
        except OutOfMemory as error:
            raise MemoryError from error


# %% wrong: the cache is emptied although there is room | asked|came to


class Pool(Pool):
    def _new_segment(self, size):
        self.empty_cache()
        return super()._new_segment(size)


# %% wrong: a segment of just the size asked for | asked to allocate|reserved is


class Pool(Pool):
    def _new_segment(self, size):
        return super()._new_segment(self.granule)


# %% wrong: never more than a segment | came to|fragmentation is|asked


class Pool(Pool):
    def _new_segment(self, size):
        return super()._new_segment(min(size, self.segment))


# %% wrong: segments side by side are joined | asked|came to|fragmentation is|gave back


class Pool(Pool):
    def _new_segment(self, size):
        block = super()._new_segment(size)
        for first in self.firsts[:-1]:
            *_, last = walk(first)
            if last.address + last.size == block.address:
                last.next, block.prev = block, last
                self.firsts.pop()
                break
        return block


# %% wrong: segments that are partly in use go back too | gave back|asked


class Pool(Pool):
    def empty_cache(self):
        whole = [first for first in self.firsts if first.free]
        self.firsts = [first for first in self.firsts if first not in whole]
        for first in whole:
            self.source.free(first.address)
        return sum(first.size for first in whole)


# %% wrong: emptied without telling the source | asked nothing|expected to free


class Pool(Pool):
    def empty_cache(self):
        whole = [first for first in self.firsts if first.free and first.next is None]
        self.firsts = [first for first in self.firsts if first not in whole]
        return sum(first.size for first in whole)


# %% wrong: peak goes down again | peak is


class Pool(Pool):
    def figures(self):
        return super().figures() | {"peak": self.current}


# %% wrong: peak counts the segments | peak is


class Pool(Pool):
    def figures(self):
        figures = super().figures()
        self.peak = max(self.peak, figures["reserved"])
        return figures | {"peak": self.peak}


# %% wrong: every request is a hit | hits is


class Pool(Pool):
    def _new_segment(self, size):
        self.hits += 1
        return super()._new_segment(size)


# %% wrong: fragmentation upside down | fragmentation is


class Pool(Pool):
    def figures(self):
        figures = super().figures()
        return figures | {"fragmentation": 1 - figures["fragmentation"]}


# %% wrong: division by zero where nothing is cached | ZeroDivisionError


class Pool(Pool):
    def figures(self):
        cached = self._reserved() - self.current
        return super().figures() | {
            "fragmentation": 1 - max((block.size for block in self._free_blocks()), default=0) / cached
        }


# %% wrong: bytes as they were asked for, not as they are held | current is


class Pool(Pool):
    asked = 0

    def allocate(self, nbytes):
        address = super().allocate(nbytes)
        self.asked += nbytes
        self.sizes = getattr(self, "sizes", {}) | {address: nbytes}
        return address

    def free(self, address):
        super().free(address)
        self.asked -= self.sizes[address]

    def figures(self):
        return super().figures() | {"current": self.asked}
