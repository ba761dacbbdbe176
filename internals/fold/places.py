"""In which order calls stand in their batch: in that in which their results are read.

The place of a result is the first that reads it: which batch, as which input, and at which position there. Batches are
ordered from the last to the first, so the order in which a batch reads is fixed before what it reads is ordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from internals.fold.deferred import Deferred, Note
from internals.fold.gather import Block, stacked_leaves

_SLOT = 1 << 32
_BATCH = 1 << 44


def assign_places(batches: list[list[Note]], results: Sequence[Deferred]) -> None:
    """Give every call its place, and sort the calls of each batch by it."""
    last = len(batches) * _BATCH
    for batch in batches:
        for note in batch:
            note.place = last + _BATCH - 1  # nobody reads it
    for position, value in enumerate(results):
        value.note.place = last + position
    for k in range(len(batches) - 1, -1, -1):
        batch = batches[k]
        if len(batch) > 1:
            batch.sort(key=_place)
        slots = [slot for slot, value in enumerate(batch[0].inputs) if type(value) is Deferred]
        for slot in reversed(slots):
            start = k * _BATCH + slot * _SLOT
            for position, note in enumerate(batch):
                note.inputs[slot].note.place = start + position


def _place(note: Note) -> int:
    return note.place


def runs(batch: list[Note]) -> list[int]:
    """How many calls, one after the other, are read by the same input of the same batch."""
    return [len(list(mine)) for _, mine in groupby(batch, key=lambda note: note.place // _SLOT)]


def take_up_leaves(values: Sequence[Deferred]) -> None:
    """Stack the values among these that nothing has computed and that lie in no block yet."""
    fresh = {value.note: None for value in values if value.note.blocks is None}
    if fresh:
        block = Block(stacked_leaves([note.inputs[0] for note in fresh]), len(fresh))
        for row, note in enumerate(fresh):
            note.blocks, note.row = (block,), row


def place_of_results(values: Sequence[Deferred]) -> list[tuple[Block, int]]:
    """Block and row of values that have been computed."""
    return [(value.note.blocks[value.index], value.note.row) for value in values]  # type: ignore[index]  # they ran
