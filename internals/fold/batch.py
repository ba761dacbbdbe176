"""Noting the calls of many examples, and running what is alike together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from internals.autodiff import tree
from internals.autodiff.lifted import Lifted
from internals.fold.deferred import Deferred, Note, Notes, leaf, opened
from internals.fold.execute import run_batch
from internals.fold.gather import UNSTACK, gathered
from internals.fold.places import assign_places, place_of_results, take_up_leaves
from internals.fold.schedule import SCHEDULES, check_schedule, scheduler
from internals.ops.table import is_array
from internals.tensor import Tensor


@dataclass(frozen=True)
class Launch:
    """One batch that ran.

    Attributes
    ----------
    op : str
    size : int
        How many calls ran together.
    examples : int
        Of how many examples they were.
    """

    op: str
    size: int
    examples: int


class Batch(Notes):
    """The calls of many examples, noted until their values are asked for; then run together where they are alike.

    Parameters
    ----------
    schedule : {"depth", "agenda"} or callable
        `by_depth` or `by_agenda`, or a function of that form.

    Attributes
    ----------
    example : int or None
        Whose calls are being noted; set it where examples are built by hand. Errors name it.
    launches : list of Launch
        What has run.
    scheduling : float
        Seconds of processor time spent on finding schedules.

    Raises
    ------
    ValueError, TypeError
        There is no such schedule.

    Examples
    --------
    >>> with Batch() as batch:
    ...     states = [encode(tree) for tree in trees]      # starts from defer(...), and calls rows and modules
    >>> stacked(states)

    References
    ----------
    Neubig, Goldberg & Dyer 2017, On-the-fly operation batching in dynamic computation graphs.
    """

    def __init__(self, schedule: Any = "depth") -> None:
        self.schedule = schedule
        self._scheduler = scheduler(schedule)
        super().__init__()
        self.launches: list[Launch] = []
        self.scheduling = 0.0

    def __enter__(self) -> Batch:
        opened.stack.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        opened.stack.remove(self)
        if kind is None:
            self.run()

    # Noting

    def defer(self, value: Any) -> Deferred:
        """A value of one example that calls can be noted on; see the function `defer`."""
        if isinstance(value, Deferred):
            return value
        if not isinstance(value, Tensor | Lifted):
            if not (is_array(value) or isinstance(value, bool | int | float | np.generic | list | tuple)):
                raise TypeError(f"defer: expected a Tensor, an array or a number, got {type(value).__name__}.")
            value = Tensor(value)
        return leaf(self, value)

    # Running

    def plan(self, values: Sequence[Deferred] | None = None) -> list[list[Note]]:
        """The batches that would run for the given values, or for all that is noted.

        Raises
        ------
        ValueError, TypeError
            The scheduler made no schedule; see `check_schedule`.
        """
        notes = self.pending if values is None else _needed(values)
        notes = [note for note in notes if note.blocks is None]
        for at, note in enumerate(notes):
            note.at = at
        inputs = [[one.note.at for one in note.inputs if type(one) is Deferred and not one.ready] for note in notes]
        signatures = [note.signature.number for note in notes]  # type: ignore[union-attr]  # only leaves have none
        began = time.thread_time()
        batches = self._scheduler(inputs, signatures)
        self.scheduling += time.thread_time() - began
        if self._scheduler not in SCHEDULES.values():
            batches = check_schedule(batches, inputs, signatures, [repr(note) for note in notes])
        return [[notes[i] for i in batch] for batch in batches]

    def run(self, values: Sequence[Deferred] | None = None) -> None:
        """Run what the given values need, or all that is noted.

        Raises
        ------
        Exception
            What an operation raised, with its name, its example and the line that noted it. What has run by then stays
            computed.
        """
        batches = self.plan(values)
        assign_places(batches, values or ())
        try:
            for batch in batches:
                signature = run_batch(batch)
                examples = len({note.example for note in batch})
                self.launches.append(Launch(signature.op.name, len(batch), examples))
        finally:
            self.pending = [note for note in self.pending if note.blocks is None]
            if not self.pending:
                self._constants.clear()

    def __repr__(self) -> str:
        ran = sum(launch.size for launch in self.launches)
        return f"<batch: {len(self.pending)} calls noted, {ran} run in {len(self.launches)} launches>"


def _needed(values: Sequence[Deferred]) -> list[Note]:
    """The calls that have yet to run for the given values, in the order in which they were noted."""
    waiting = [value.note for value in values]
    found: dict[Note, None] = {}
    while waiting:
        note = waiting.pop()
        if note.signature is not None and note.blocks is None and note not in found:
            found[note] = None
            waiting += [one.note for one in note.inputs if type(one) is Deferred]
    return sorted(found, key=lambda note: note.order)


def defer(value: Any) -> Deferred:
    """A value that an example starts from, inside `each` or ``with Batch():``.

    Parameters
    ----------
    value : Tensor, array or number
        One that requires a gradient gets it.

    Raises
    ------
    ValueError
        No batch is open.
    TypeError
        It is something else.
    """
    if not opened.stack:
        raise ValueError("defer: no batch is open here; write `with fold.Batch():` around it, or use fold.each.")
    return opened.stack[-1].defer(value)


def _checked(name: str, values: Any) -> list[Deferred]:
    if isinstance(values, Deferred):
        raise TypeError(f"{name}: expected a list of deferred values, got one; write [x].")
    values = list(values)
    for i, value in enumerate(values):
        if not isinstance(value, Deferred):
            raise TypeError(
                f"{name}: value {i} is a {type(value).__name__}, not a deferred one: it was computed at once. Start "
                "from fold.defer(...)."
            )
    return values


def _run_all(values: Sequence[Deferred]) -> None:
    """Run what is needed, batch by batch object."""
    waiting: dict[Notes, list[Deferred]] = {}
    for value in values:
        if not value.ready:
            waiting.setdefault(value.note.batch, []).append(value)
    for batch, mine in waiting.items():
        batch.run(mine)


def run(values: Iterable[Deferred]) -> list[Any]:
    """The Tensors of deferred values; what they need runs first, all together.

    Parameters
    ----------
    values : iterable of Deferred

    Returns
    -------
    list of Tensor
        Rows of what the batches gave; gradients flow back through them.

    Raises
    ------
    TypeError
        One of them is not deferred.
    """
    values = _checked("run", values)
    _run_all(values)
    asked: dict[Any, int] = {}
    for value in values:
        if value.note.blocks is not None:
            block = value.note.blocks[value.index]
            asked[block] = asked.get(block, 0) + 1
    rows = {block: UNSTACK(block.tensor) for block, count in asked.items() if 2 * count > block.size > 1}
    return [
        value.value
        if value.note.blocks is None or (block := value.note.blocks[value.index]) not in rows
        else rows[block][value.note.row]
        for value in values
    ]


def stacked(values: Iterable[Deferred]) -> Any:
    """Deferred values of one shape and dtype as one Tensor, along a new first axis; without a copy where they lie so.

    Parameters
    ----------
    values : iterable of Deferred

    Returns
    -------
    Tensor, shape (n, ...)

    Raises
    ------
    ValueError
        There are none, or their shapes, dtypes or devices differ.
    TypeError
        One of them is not deferred.
    """
    values = _checked("stacked", values)
    if not values:
        raise ValueError("stacked: there are no values, so there is no shape; expected one or more.")
    for i, value in enumerate(values):
        if value.kind is not values[0].kind:
            raise ValueError(
                f"stacked: value {i} is {value.kind!r} on {value.device}, value 0 {values[0].kind!r} on "
                f"{values[0].device}; they must agree."
            )
    _run_all(values)
    take_up_leaves(values)
    return gathered(place_of_results(values))


def each(
    function: Callable[[Any], Any], examples: Iterable[Any], *, schedule: Any = "depth", batch: Batch | None = None
) -> list[Any]:
    """What a function gives for each example, computed for all examples together.

    Parameters
    ----------
    function : callable
        Of one example, in ordinary Python: it may recurse, loop and branch as the example asks. It starts from
        ``defer(...)`` and returns deferred values, or a nested structure of them.
    examples : iterable
    schedule : {"depth", "agenda"} or callable
        As for `Batch`.
    batch : Batch, optional
        One to note in, which then tells what ran; its schedule counts.

    Returns
    -------
    list
        For each example what the function returned, with Tensors for deferred values.

    Raises
    ------
    TypeError
        An example's result was not deferred.
    Exception
        What an operation raised, with its name, its example and the line that called it.
    """
    batch = Batch(schedule) if batch is None else batch
    before = len(batch.pending)
    results: list[Any] = []
    opened.stack.append(batch)
    try:
        for i, example in enumerate(examples):
            batch.example = i
            result = function(example)
            for one in tree.leaves(result):
                if not isinstance(one, Deferred):
                    raise TypeError(
                        f"each: example {i} gave a {type(one).__name__}, not a deferred value: it was computed at "
                        "once, alone. Start from fold.defer(...)."
                    )
            results.append(result)
        tensors = run(tree.leaves(results))
    finally:
        opened.stack.remove(batch)
        batch.example = None
        del batch.pending[before:]  # what no result needed
    return list(tree.rebuilt(results, tensors))
