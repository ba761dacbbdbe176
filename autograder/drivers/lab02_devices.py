"""Drivers for ``lab02_devices``: plain data in, a call of what the learner wrote, plain data out. No answers here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Names = Mapping[str, Any]

SPACING = 100
"""Segments of a case begin at 0, 100, 200, ..."""


class Block:
    """A stretch of a segment, made as the notebook's own blocks are."""

    def __init__(self, segment: Any, address: int, size: int) -> None:
        self.segment, self.address, self.size = segment, address, size
        self.free = True
        self.prev: Any = None
        self.next: Any = None

    def __repr__(self) -> str:
        return f"<block at {self.address}>"


class Source:
    """Gives out segments, one behind the other, and notes what it was asked."""

    def __init__(self) -> None:
        self.end = 0
        self.asked: list[list[Any]] = []

    def allocate(self, nbytes: int) -> int:
        self.asked.append(["allocate", nbytes])
        address, self.end = self.end, self.end + nbytes
        return address

    def free(self, address: int) -> None:
        self.asked.append(["free", address])


def where(names: Names, op: str, inputs: list[list[Any]]) -> dict[str, Any]:
    """The device that the learner's function names, or its refusal, and whether the message says what met where."""
    given = [entry[0] if len(entry) == 1 else tuple(entry) for entry in inputs]
    try:
        answer = names["common_device"](op, given)
    except ValueError as error:
        if not isinstance(error, names["DeviceError"]) and type(error) is not ValueError:
            raise
        devices = dict.fromkeys(entry[0] for entry in inputs if len(entry) == 2)
        named = sum(device in str(error) for device in devices)
        return {"raised": type(error).__name__, "names_op": op in str(error), "names_two": named >= 2}
    if not isinstance(answer, str):
        raise TypeError(f"common_device returned {_kind(answer)}; expected the name of a device, such as 'cpu'.")
    return {"device": str(answer)}


def fit(names: Names, segments: list[list[list[Any]]], order: list[int], size: int) -> dict[str, Any]:
    """Which block the learner's search chooses, and what its cut leaves behind.

    A segment is a list of ``[size, free]``. `order` is the order in which the free blocks are handed over.
    """
    chains = [_chain(blocks, SPACING * number) for number, blocks in enumerate(segments)]
    free = [block for chain in chains for block in chain if block.free]
    handed_over = [free[place] for place in order]
    chosen = names["best_fit"](list(handed_over), size)
    if chosen is None:
        return {"chosen": None}
    if not any(chosen is block for block in handed_over):
        raise TypeError(f"best_fit returned {_kind(chosen)}; expected one of the free blocks it was given, or None.")
    answer: dict[str, Any] = {"chosen": chosen.address}
    if chosen.size > size:
        rest = names["split"](chosen, size)
        if rest is None or not hasattr(rest, "address"):
            raise TypeError(f"split returned {_kind(rest)}; expected the block that the rest became.")
        answer["rest"] = [rest.address, rest.size]
        answer["segment"] = getattr(rest, "segment", None) is chosen.segment
    (chain,) = [chain for chain in chains if any(block is chosen for block in chain)]
    return answer | _walked(chain[0])


def merge(names: Names, blocks: list[list[Any]], index: int) -> dict[str, Any]:
    """The chain of a segment after the learner joined one block with its neighbours."""
    chain = _chain(blocks, 0)
    merged = names["merge"](chain[index])
    if merged is None or not hasattr(merged, "address"):
        raise TypeError(f"merge returned {_kind(merged)}; expected the block that covers the free memory now.")
    return {"merged": [merged.address, merged.size], **_walked(chain[0])}


def pool(
    names: Names, granule: int, segment: int, capacity: int | None, events: list[list[Any]]
) -> list[dict[str, Any]]:
    """What each event of a trace came to, the figures after it, and what the source was asked meanwhile.

    An event is ``["allocate", nbytes]``, ``["free", k]`` (what the k-th event allocated) or ``["empty"]``.
    """
    source = Source()
    made = names["Pool"](source, granule, segment, capacity)
    OutOfMemory = names["OutOfMemory"]
    addresses: dict[int, Any] = {}
    outcomes: list[dict[str, Any]] = []
    for number, event in enumerate(events):
        before = len(source.asked)
        came: Any
        try:
            if event[0] == "allocate":
                came = addresses[number] = made.allocate(event[1])
                _expect_number(came, "Pool.allocate", "an address")
            elif event[0] == "free":
                made.free(addresses[event[1]])
                came = "freed"
            else:
                came = made.empty_cache()
                _expect_number(came, "Pool.empty_cache", "how many bytes went back")
        except MemoryError as error:
            if not isinstance(error, OutOfMemory) and type(error) is not MemoryError:
                raise
            came = type(error).__name__
        except ValueError as error:
            if event[0] != "free" or type(error) is not ValueError:
                raise
            came = "ValueError"
        figures = made.figures()
        if not isinstance(figures, dict):
            raise TypeError(f"Pool.figures returned {_kind(figures)}; expected a dict.")
        outcomes.append({"came": came, "figures": dict(figures), "asked": source.asked[before:]})
        if number in addresses and isinstance(came, str):
            del addresses[number]
    return outcomes


def queue(names: Names, events: list[list[Any]], launch: float) -> list[list[Any]]:
    """The learner's ``[start, end, host]`` for every event of a trace."""
    answer = names["timeline"]([tuple(event) for event in events], launch)
    if isinstance(answer, np.ndarray):
        answer = answer.tolist()
    if not isinstance(answer, (list, tuple)):
        raise TypeError(f"timeline returned {_kind(answer)}; expected a list with (start, end, host) for each event.")
    times = []
    for entry in answer:
        if not isinstance(entry, (list, tuple)) or len(entry) != 3:
            raise TypeError(f"timeline returned a list with {_kind(entry)} in it; expected (start, end, host).")
        for number in entry:
            _expect_number(number, "timeline", "a time")
        times.append([float(number) for number in entry])
    return times


def _chain(blocks: list[list[Any]], address: int) -> list[Block]:
    """Linked blocks, one behind the other."""
    segment = object()
    chain: list[Block] = []
    for size, free in blocks:
        block = Block(segment, address, size)
        block.free = free
        if chain:
            block.prev, chain[-1].next = chain[-1], block
        chain.append(block)
        address += size
    return chain


def _walked(first: Any) -> dict[str, Any]:
    """The chain as it is found from its first block on, and the addresses as they are found on the way back."""
    chain: list[list[Any]] = []
    block = last = first
    while block is not None and len(chain) < 50:
        chain.append([block.address, block.size, bool(block.free)])
        last, block = block, block.next
    back: list[Any] = []
    block = last
    while block is not None and len(back) < 50:
        back.append(block.address)
        block = block.prev
    return {"chain": chain, "back": back}


def _expect_number(value: Any, who: str, what: str) -> None:
    if isinstance(value, bool) or not hasattr(value, "__int__"):
        raise TypeError(f"{who} returned {_kind(value)}; expected {what}.")


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    size = f" of {len(value)}" if isinstance(value, (tuple, list, dict)) else ""
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return f"{article} {type(value).__name__}{size}"
