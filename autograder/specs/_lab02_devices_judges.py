"""What is wrong with an answer of ``lab02_devices``, in words.

What came is not trusted: it may be any plain data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.spec import Inputs
from autograder.specs._lab02_devices_show import came_as_text, event_as_text

# --- where ----------------------------------------------------------------------------------------


def where(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The right device, or a refusal that says what met where."""
    arrays = [entry for entry in inputs["inputs"] if len(entry) == 2]
    if "raised" in want:
        if "device" in got:
            ranks = [rank for device, rank in arrays if device == "cpu"]
            why = (
                "Only an array of the cpu with 0 axes may meet arrays of another device."
                if 0 not in ranks or any(ranks)
                else "An array with 0 axes on a GPU is no number: its value is not on the host."
            )
            return [f"common_device gave {got['device']!r}, but these inputs can't be used together. {why}"]
        wrong = []
        if got["raised"] != "DeviceError":
            wrong.append(f"A {str(got['raised'])[:40]} was raised where a DeviceError was expected.")
        if got["names_op"] is not True:
            wrong.append("The message does not name the operation.")
        if got["names_two"] is not True:
            wrong.append("The message does not name both devices: say which two met.")
        return wrong
    if "raised" in got:
        if not arrays:
            return ["Only numbers are given, which live on every device: the answer is 'cpu', and no refusal."]
        if len({device for device, _ in arrays}) == 1:
            return ["This was refused, although all arrays are on one device."]
        return ["This was refused, although an array of the cpu with 0 axes is as good as a number: it may go along."]
    if got["device"] != want["device"]:
        words = f"common_device gave {str(got['device'])[:40]!r}; expected {want['device']!r}."
        deciding = [rank for device, rank in arrays if device == want["device"]]
        if got["device"] == "cpu" and not any(deciding):
            words += " An array with 0 axes decides, unless it is on the cpu: the host does not know its value."
        elif got["device"] == "cpu":
            words += " An array with 0 axes on the cpu decides nothing where it meets another device."
        return [words]
    return []


# --- fit ------------------------------------------------------------------------------------------


def fit(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The right block, and a chain in which the rest has its place."""
    size = inputs["size"]
    chosen, right = got["chosen"], want["chosen"]
    if chosen is None and right is None:
        return []
    if right is None:
        return [f"best_fit chose the block at {chosen}, but no free block holds {size} bytes. Return None then."]
    if chosen is None:
        return [f"best_fit found nothing, but the free block at {right} holds {size} bytes."]
    if chosen != right:
        sizes = _free_sizes(inputs)
        if sizes[chosen] < size:
            return [f"best_fit chose the block at {chosen}, which has {sizes[chosen]} bytes; {size} were asked for."]
        if sizes[chosen] > sizes[right]:
            return [
                f"best_fit chose the block at {chosen} with {sizes[chosen]} bytes; the one at {right} has "
                f"{sizes[right]} and leaves less over. Take the smallest that is large enough."
            ]
        return [f"The blocks at {right} and {chosen} are of one size; of equals, take the one with the lower address."]
    wrong = []
    if "rest" in want and got["rest"] != want["rest"]:
        wrong.append(
            f"split returned a block of {got['rest'][1]} bytes at {got['rest'][0]}; expected the rest: "
            f"{want['rest'][1]} bytes at {want['rest'][0]}."
        )
    if "segment" in want and got["segment"] is not True:
        wrong.append("The segment of the rest is not that of the block it was cut from.")
    return wrong + _chain(got, want)


def _free_sizes(inputs: Inputs) -> dict[int, int]:
    from autograder.drivers.lab02_devices import SPACING

    sizes = {}
    for number, blocks in enumerate(inputs["segments"]):
        address = SPACING * number
        for size, free in blocks:
            if free:
                sizes[address] = size
            address += size
    return sizes


# --- merge ----------------------------------------------------------------------------------------


def merge(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """One block where free ones touched, in a chain that holds together in both directions."""
    chain = _chain(got, want)
    if got["merged"] == want["merged"]:
        return chain
    address, size = want["merged"]
    return [
        f"merge returned a block of {got['merged'][1]} bytes at {got['merged'][0]}; expected the one that covers the "
        f"free memory now: {size} bytes at {address}.",
        *chain,
    ]


def _chain(got: Any, want: Any) -> list[str]:
    """Faults of the links, forwards and backwards."""
    if got["chain"] != want["chain"]:
        if len(got["chain"]) >= 50:
            return ["The chain does not end: following `next` leads around in a circle."]
        sizes = [sum(block[1] for block in chain) for chain in (got["chain"], want["chain"])]
        flags = [[block[:2] for block in chain] for chain in (got["chain"], want["chain"])]
        if flags[0] == flags[1]:
            return ["A block's `free` has changed that was to stay as it is; free memory stays free here."]
        if sizes[0] < sizes[1]:
            return [
                f"From the first block on, following `next`, {sizes[0]} of {sizes[1]} bytes are found: a block is "
                "lost, or a size was not added."
            ]
        if sizes[0] > sizes[1]:
            return [
                f"The blocks of the chain add up to {sizes[0]} bytes, but the segment has {sizes[1]}: they overlap. A "
                "block has kept its old size, or one that was swallowed is still found."
            ]
        shown = ", ".join(f"{size} at {address}" for address, size, _ in got["chain"])
        expected = ", ".join(f"{size} at {address}" for address, size, _ in want["chain"])
        return [f"The chain is {shown}; expected {expected}."]
    if got["back"] != want["back"]:
        return [
            "Forwards the chain is right, backwards it is not: following `prev` from the last block does not lead over "
            "every block to the first. The block behind needs its `prev` set as well."
        ]
    return []


# --- pool -----------------------------------------------------------------------------------------

_MEANINGS = {
    "current": "what the blocks in use hold, rounded up to the granule",
    "peak": "the most that `current` has been",
    "reserved": "what the source gave and has not got back",
    "cached": "reserved - current",
    "hits": "requests that a cached block served, without asking the source",
    "fragmentation": "1 - largest free block / cached, and 0 where nothing is cached",
}


def pool(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The first event that goes otherwise than it should, and what is wrong there."""
    if not isinstance(got, list) or len(got) != len(want):
        return ["The trace did not run to its end."]
    for number, (one, right) in enumerate(zip(got, want, strict=True)):
        if wrong := _event(inputs, number, one, right):
            return [f"Event {number} ({event_as_text(inputs['events'], number)}): {wrong}"]
    return []


def _event(inputs: Inputs, number: int, got: Any, want: Any) -> str:
    came, right = got["came"], want["came"]
    if isinstance(came, str) != isinstance(right, str) or came != right:
        return _came(inputs, number, came, right)
    if got["asked"] != want["asked"]:
        asked, right = _asked(got["asked"]), _asked(want["asked"])
        return f"the source was asked {asked}; expected {right}. {_why_asked(inputs['events'][number], got, want)}"
    for name, meaning in _MEANINGS.items():
        if name not in got["figures"]:
            return f"figures() has no {name!r}."
        value, wanted = got["figures"][name], want["figures"][name]
        if not np.isclose(float(value), wanted, rtol=1e-9, atol=1e-9):
            return f"{name} is {value:.4g} afterwards; expected {wanted:.4g}: {meaning}."
    return ""


def _came(inputs: Inputs, number: int, came: Any, right: Any) -> str:
    if right == "OutOfMemory":
        if came == "MemoryError":
            return "a plain MemoryError was raised where OutOfMemory was expected."
        return (
            f"it came to {came_as_text(came)}, but the segments would then have more than the capacity of "
            f"{inputs['capacity']} bytes. Raise OutOfMemory."
        )
    if came == "OutOfMemory":
        return (
            f"OutOfMemory was raised, but there is room: expected {came_as_text(right)}. Before a request is refused, "
            "the cache is emptied and the source asked again."
        )
    if right == "ValueError":
        return "a block that is free already was freed again without a word. Raise ValueError."
    if came == "ValueError":
        return "a ValueError was raised, but this block is in use: it may be freed."
    what = "gave back" if inputs["events"][number][0] == "empty" else "came to"
    return f"it {what} {came_as_text(came)}; expected {came_as_text(right)}. " + (
        "Only segments that are one free block go back to the source."
        if what == "gave back"
        else "Sizes are rounded up to the granule, the best fit among the cached blocks is taken, and what is left "
        "over is cut off; only then is the source asked."
    )


def _why_asked(event: list[Any], got: Any, want: Any) -> str:
    freed, right = ([call for call in calls["asked"] if call[0] == "free"] for calls in (got, want))
    if event[0] == "empty":
        return "Every segment that is one free block goes back, and no other, in the order in which they came."
    if len(freed) < len(right):
        return "Before a request is refused, the cache is emptied, and the source asked again if that made room."
    if freed != right:
        return "The cache is for the next request: it is emptied only where there is no room otherwise."
    if not want["asked"]:
        return "A block that is large enough is cached already."
    return "A segment has the size that the pool was made with, or the rounded size of the request if that is more."


def _asked(calls: Any) -> str:
    return " and ".join(f"to {kind} {number}" for kind, number in calls) or "nothing"


# --- queue ----------------------------------------------------------------------------------------


def queue(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The first event whose times are off, and what it waits for."""
    events = inputs["events"]
    if not isinstance(got, list) or len(got) != len(want):
        return [f"timeline gave {len(got)} entries for {len(want)} events; expected one for each."]
    for number, (one, right) in enumerate(zip(got, want, strict=True)):
        if not np.allclose(one, right, rtol=1e-9, atol=1e-9):
            return [f"Event {number} ({event_as_text(events, number)}): {_times(inputs, number, one, want)}"]
    return []


def _times(inputs: Inputs, number: int, got: list[float], want: list[list[float]]) -> str:
    kind, *rest = inputs["events"][number]
    start, end, host = want[number]
    host_before = want[number - 1][2] if number else 0.0
    if not np.isclose(got[0], start):
        return f"it starts at {got[0]:g}; expected {start:g}: {_cause(inputs, number, got[0], want, host_before)}"
    if not np.isclose(got[1], end):
        if kind == "wait":
            return f"the wait is over at {got[1]:g}; expected {end:g}, when queue and copies are all done."
        return f"it ends at {got[1]:g}; expected {end:g}: {rest[0]:g} s after its start."
    if kind in ("launch", "prefetch"):
        return (
            f"the host goes on at {got[2]:g}; expected {host:g}: handing over takes it {inputs['launch']:g} s, and it "
            "does not wait for the end."
        )
    return f"the host goes on at {got[2]:g}; expected {host:g}: it waits until this is done."


def _cause(inputs: Inputs, number: int, got: float, want: list[list[float]], host_before: float) -> str:
    events = inputs["events"]
    kind, *rest = events[number]
    start = want[number][0]
    if got > start:
        if kind == "prefetch":
            return "a prefetch runs beside the queue; it waits only for the host and for the copies before it."
        if kind == "launch":
            return "a kernel waits for the host, for the kernel before it, and for the one copy it reads; nothing else."
        return "it waits longer than it has to."
    handed = host_before + inputs["launch"] * (kind in ("launch", "prefetch"))
    if np.isclose(start, handed):
        return "the host has to have come so far" + (", and to have handed it over." if handed > host_before else ".")
    if kind == "launch" and rest[1] is not None and np.isclose(start, want[rest[1]][1]):
        return f"it reads what event {rest[1]} brings, which is there only then."
    if kind == "prefetch":
        return "there is one link: a copy starts when the copy before it has ended."
    earlier = [want[i][1] for i, (other, *_) in enumerate(events[:number]) if other in ("copy", "prefetch")]
    if kind == "copy" and np.isclose(start, max(earlier, default=0.0)):
        return "there is one link: a copy starts when the copy before it has ended, a prefetch too."
    return "the device works in order: it starts when what was handed over before has ended."
