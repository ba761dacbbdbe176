"""Who knows the answers of ``lab02_devices``.

Where a framework has the rule, it is asked: PyTorch decides where an operation runs, on fake tensors of GPUs that need
not be there. No framework can be asked where its allocator would put a block of 3 bytes, or how long a kernel of
3 seconds waits. There the second answer is computed in another way altogether: memory as one number per byte instead
of a list of blocks, times as the longest path through what waits for what instead of two clocks that go on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SPACING = 100

# --- where ----------------------------------------------------------------------------------------


def where_torch(torch: Any, op: str, inputs: list[list[Any]]) -> dict[str, Any]:
    """PyTorch adds up tensors that have a device and no memory."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        tensors = [torch.empty((2,) * entry[1], device=entry[0]) for entry in inputs if len(entry) == 2]
        if not tensors:
            return {"device": str((torch.ones(()) + 1).device)}
        total = -tensors[0]
        try:
            for tensor in tensors[1:]:
                total = total + tensor
        except RuntimeError as error:
            if "same device" not in str(error):
                raise
            return {"raised": "DeviceError", "names_op": True, "names_two": True}
        return {"device": str(total.device)}


def where_sets(numpy: Any, op: str, inputs: list[list[Any]]) -> dict[str, Any]:
    devices = {entry[0] for entry in inputs if len(entry) == 2 and entry != ["cpu", 0]}
    if len(devices) > 1:
        return {"raised": "DeviceError", "names_op": True, "names_two": True}
    return {"device": devices.pop() if devices else "cpu"}


# --- fit ------------------------------------------------------------------------------------------


def fit_search(numpy: Any, segments: list[list[list[Any]]], order: list[int], size: int) -> dict[str, Any]:
    placed = [_placed(blocks, SPACING * number) for number, blocks in enumerate(segments)]
    fits = [(n, address) for chain in placed for address, n, free in chain if free and n >= size]
    if not fits:
        return {"chosen": None}
    n, chosen = min(fits)
    answer: dict[str, Any] = {"chosen": chosen}
    chain = placed[chosen // SPACING]
    if n > size:
        place = chain.index([chosen, n, True])
        chain[place : place + 1] = [[chosen, size, True], [chosen + size, n - size, True]]
        answer |= {"rest": [chosen + size, n - size], "segment": True}
    return answer | _chain_and_back(chain)


def fit_torch(torch: Any, segments: list[list[list[Any]]], order: list[int], size: int) -> dict[str, Any]:
    """The same by tensors: bytes carry the number of their block, and the search is a sort."""
    sizes = torch.tensor([n for blocks in segments for n, _ in blocks])
    free = torch.tensor([free for blocks in segments for _, free in blocks])
    counts = torch.tensor([len(blocks) for blocks in segments])
    segment = torch.repeat_interleave(torch.arange(len(segments)), counts)
    starts = torch.cumsum(sizes, 0) - sizes
    firsts = starts[torch.cumsum(counts, 0) - counts]
    address = starts - firsts[segment] + SPACING * segment
    fits = torch.nonzero(free & (sizes >= size)).flatten()
    if not len(fits):
        return {"chosen": None}
    chosen = fits[torch.argsort(sizes[fits] * SPACING * (len(segments) + 1) + address[fits])[0]]
    here = torch.nonzero(segment == segment[chosen]).flatten()
    owners = torch.repeat_interleave(here, sizes[here])
    start = int(address[chosen]) - SPACING * int(segment[chosen])
    cut = int(sizes[chosen]) > size
    if cut:
        owners[start + size : start + int(sizes[chosen])] = len(sizes)
    found, lengths = torch.unique_consecutive(owners, return_counts=True)
    places = torch.cumsum(lengths, 0) - lengths + SPACING * segment[chosen]
    flags = torch.cat([free, torch.tensor([True])])[found]
    chain = [list(row) for row in zip(places.tolist(), lengths.tolist(), flags.tolist(), strict=True)]
    answer: dict[str, Any] = {"chosen": int(address[chosen])}
    if cut:
        answer |= {"rest": [int(address[chosen]) + size, int(sizes[chosen]) - size], "segment": True}
    return answer | {"chain": chain, "back": torch.flip(places, (0,)).tolist()}


# --- merge ----------------------------------------------------------------------------------------


def merge_walk(numpy: Any, blocks: list[list[Any]], index: int) -> dict[str, Any]:
    chain = _placed(blocks, 0)
    first, last = index, index
    while first > 0 and chain[first - 1][2]:
        first -= 1
    while last + 1 < len(chain) and chain[last + 1][2]:
        last += 1
    whole = [chain[first][0], sum(n for _, n, _ in chain[first : last + 1]), True]
    return {"merged": whole[:2], **_chain_and_back([*chain[:first], whole, *chain[last + 1 :]])}


def merge_torch(torch: Any, blocks: list[list[Any]], index: int) -> dict[str, Any]:
    """One number per byte: 0 where it is free, else that of its block; runs of equal numbers are the new blocks.

    No two free blocks touch but for the one that has just been freed, so every run of 0 is one block.
    """
    owners = torch.tensor([0 if free else number + 1 for number, (_, free) in enumerate(blocks)])
    sizes = torch.tensor([n for n, _ in blocks])
    found, lengths = torch.unique_consecutive(torch.repeat_interleave(owners, sizes), return_counts=True)
    starts = torch.cumsum(lengths, 0) - lengths
    inside = int(torch.cumsum(sizes, 0)[index]) - 1
    merged = int(torch.searchsorted(starts, inside, right=True)) - 1
    chain = [list(row) for row in zip(starts.tolist(), lengths.tolist(), (found == 0).tolist(), strict=True)]
    return {"merged": chain[merged][:2], "chain": chain, "back": torch.flip(starts, (0,)).tolist()}


# --- pool -----------------------------------------------------------------------------------------


def pool_lists(
    numpy: Any, granule: int, segment: int, capacity: int | None, events: list[list[Any]]
) -> list[dict[str, Any]]:
    return run_trace(granule, segment, capacity, events)


def run_trace(granule: int, segment: int, capacity: int | None, events: list[list[Any]]) -> list[dict[str, Any]]:
    """A pool as lists of ``[address, size, free]``, searched from end to end."""
    segments: list[list[list[Any]]] = []
    end = peak = hits = 0
    addresses: dict[int, int] = {}
    outcomes: list[dict[str, Any]] = []

    def empty(asked: list[list[Any]]) -> int:
        whole = [blocks for blocks in segments if len(blocks) == 1 and blocks[0][2]]
        for blocks in whole:
            segments.remove(blocks)
            asked.append(["free", blocks[0][0]])
        return sum(blocks[0][1] for blocks in whole)

    for number, event in enumerate(events):
        asked: list[list[Any]] = []
        came: Any = "freed"
        if event[0] == "empty":
            came = empty(asked)
        elif event[0] == "free":
            block = [b for blocks in segments for b in blocks if b[0] == addresses[event[1]] and not b[2]]
            if block:
                block[0][2] = True
                for blocks in segments:
                    blocks[:] = _joined(blocks)
            else:
                came = "ValueError"
        else:
            size = -(-event[1] // granule) * granule
            fits = [(b[1], b[0], blocks) for blocks in segments for b in blocks if b[2] and b[1] >= size]
            wanted = max(size, segment)
            if fits:
                hits += 1
            else:
                for again in (False, True):
                    if again:
                        empty(asked)
                    if capacity is None or _held(segments) + wanted <= capacity:
                        asked.append(["allocate", wanted])
                        segments.append([[end, wanted, True]])
                        fits = [(wanted, end, segments[-1])]
                        end += wanted
                        break
            if fits:
                n, came, blocks = min(fits, key=lambda fit: fit[:2])
                place = blocks.index([came, n, True])
                blocks[place : place + 1] = [[came, size, False]] + [[came + size, n - size, True]] * (n > size)
                addresses[number] = came
            else:
                came = "OutOfMemory"
        free = [b[1] for blocks in segments for b in blocks if b[2]]
        current = _held(segments) - sum(free)
        peak = max(peak, current)
        figures = _figures(current, peak, _held(segments), hits, max(free, default=0))
        outcomes.append({"came": came, "figures": figures, "asked": asked})
    return outcomes


def pool_torch(
    torch: Any, granule: int, segment: int, capacity: int | None, events: list[list[Any]]
) -> list[dict[str, Any]]:
    """A pool as one tensor with a number per granule: who has it (event + 1), 0 free, -1 not the pool's.

    A second tensor holds the number of the segment, so that free memory of two segments is never taken for one piece.
    """
    owner = torch.zeros(0, dtype=torch.long)
    home = torch.zeros(0, dtype=torch.long)
    began: list[int] = []
    peak = hits = 0
    addresses: dict[int, int] = {}
    outcomes: list[dict[str, Any]] = []

    def runs() -> tuple[Any, Any, Any]:
        """Start, length and owner of every piece."""
        tags, lengths = torch.unique_consecutive(torch.stack([owner, home]), dim=1, return_counts=True)
        return torch.cumsum(lengths, 0) - lengths, lengths, tags[0]

    def empty(asked: list[list[Any]]) -> int:
        given_back = 0
        for number, first in enumerate(began):
            mine = home == number
            if len(mine) and bool(mine.any()) and bool((owner[mine] == 0).all()):
                owner[mine] = -1
                asked.append(["free", first * granule])
                given_back += int(mine.sum())
        return given_back * granule

    for number, event in enumerate(events):
        asked: list[list[Any]] = []
        came: Any = "freed"
        if event[0] == "empty":
            came = empty(asked)
        elif event[0] == "free":
            first = addresses[event[1]] // granule
            tag = int(owner[first])
            if tag > 0 and (first == 0 or int(owner[first - 1]) != tag):
                owner[owner == tag] = 0
            else:
                came = "ValueError"
        else:
            need = (event[1] + granule - 1) // granule
            more = max(need, segment // granule)
            place = None
            if len(owner):
                starts, lengths, tags = runs()
                fits = torch.nonzero((tags == 0) & (lengths >= need)).flatten()
                if len(fits):
                    place = int(starts[fits[torch.argsort(lengths[fits], stable=True)[0]]])
                    hits += 1
            if place is None:
                for again in (False, True):
                    if again:
                        empty(asked)
                    reserved = int((owner >= 0).sum())
                    if capacity is None or (reserved + more) * granule <= capacity:
                        asked.append(["allocate", more * granule])
                        place = len(owner)
                        began.append(place)
                        owner = torch.cat([owner, torch.zeros(more, dtype=torch.long)])
                        home = torch.cat([home, torch.full((more,), len(began) - 1)])
                        break
            if place is None:
                came = "OutOfMemory"
            else:
                owner[place : place + need] = number + 1
                came = addresses[number] = place * granule
        current, reserved = (int(flags.sum()) * granule for flags in (owner > 0, owner >= 0))
        peak = max(peak, current)
        largest = 0
        if len(owner) and bool((owner == 0).any()):
            _, lengths, tags = runs()
            largest = int(lengths[tags == 0].max()) * granule
        outcomes.append({"came": came, "figures": _figures(current, peak, reserved, hits, largest), "asked": asked})
    return outcomes


def _figures(current: int, peak: int, reserved: int, hits: int, largest: int) -> dict[str, Any]:
    cached = reserved - current
    return {
        "current": current,
        "peak": peak,
        "reserved": reserved,
        "cached": cached,
        "hits": hits,
        "fragmentation": 1 - largest / cached if cached else 0.0,
    }


def _held(segments: list[list[list[Any]]]) -> int:
    return sum(block[1] for blocks in segments for block in blocks)


def _joined(blocks: list[list[Any]]) -> list[list[Any]]:
    joined: list[list[Any]] = []
    for block in blocks:
        if joined and joined[-1][2] and block[2]:
            joined[-1] = [joined[-1][0], joined[-1][1] + block[1], True]
        else:
            joined.append(block)
    return joined


# --- queue ----------------------------------------------------------------------------------------


def queue_clocks(numpy: Any, events: list[list[Any]], launch: float) -> list[list[float]]:
    """Three clocks that go on: the host's, the queue's and the link's."""
    host = queue = link = 0.0
    times: list[list[float]] = []
    for kind, *rest in events:
        if kind == "work":
            start, host = host, host + rest[0]
            times.append([start, host, host])
        elif kind == "wait":
            start, host = host, max(host, queue, link)
            times.append([start, host, host])
        elif kind == "launch":
            host += launch
            arrived = 0.0 if rest[1] is None else times[rest[1]][1]
            start = max(host, queue, arrived)
            queue = start + rest[0]
            times.append([start, queue, host])
        elif kind == "prefetch":
            host += launch
            start = max(host, link)
            link = start + rest[0]
            times.append([start, link, host])
        else:
            start = max(host, queue, link)
            host = link = start + rest[0]
            times.append([start, link, host])
    return times


def queue_torch(torch: Any, events: list[list[Any]], launch: float) -> list[list[float]]:
    """Times as longest paths: each event has a start, an end and a moment when the host goes on, and waits for others.

    Constraints "b not before a + d" are a matrix; the earliest times are found by relaxing them until nothing moves.
    """
    count = len(events)
    size = 3 * count + 1  # the last is time 0
    gap = torch.full((size, size), -torch.inf, dtype=torch.float64)

    def after(later: int, earlier: int, seconds: float = 0.0) -> None:
        gap[later, earlier] = max(float(gap[later, earlier]), seconds)

    def start(n: int) -> int:
        return 3 * n

    def end(n: int) -> int:
        return 3 * n + 1

    def host(n: int) -> int:
        return 3 * n + 2 if n >= 0 else size - 1

    for number, (kind, *rest) in enumerate(events):
        handed = launch if kind in ("launch", "prefetch") else 0.0
        after(start(number), host(number - 1), handed)
        after(host(number), host(number - 1), handed)
        lanes = {"launch": ("launch",), "prefetch": ("prefetch", "copy"), "copy": ("launch", "prefetch", "copy")}
        for other in range(number):
            if events[other][0] in lanes.get(kind, ()):
                after(start(number), end(other))
            if kind == "wait" and events[other][0] in lanes["copy"]:
                after(end(number), end(other))
        if kind == "launch" and rest[1] is not None:
            after(start(number), end(rest[1]))
        after(end(number), start(number), 0.0 if kind == "wait" else rest[0])
        if kind not in ("launch", "prefetch"):
            after(host(number), end(number))
    times = torch.full((size,), 0.0, dtype=torch.float64)
    for _ in range(size):
        times = torch.maximum(times, (gap + times).max(1).values)
    return times[:-1].reshape(count, 3).tolist()


# --- shared ---------------------------------------------------------------------------------------


def _placed(blocks: list[list[Any]], address: int) -> list[list[Any]]:
    chain = []
    for size, free in blocks:
        chain.append([address, size, free])
        address += size
    return chain


def _chain_and_back(chain: list[list[Any]]) -> dict[str, Any]:
    return {"chain": chain, "back": [address for address, _, _ in reversed(chain)]}


def differ(one: Any, other: Any) -> bool:
    """Whether two lists of times are apart by more than rounding."""
    return np.shape(one) != np.shape(other) or not np.allclose(one, other, rtol=1e-9, atol=1e-9)
