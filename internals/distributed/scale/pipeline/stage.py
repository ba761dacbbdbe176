"""One rank's stage of a pipeline: it does what its row of the schedule says, and notes when."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from internals.distributed.collectives import all_gather
from internals.distributed.errors import MismatchError
from internals.distributed.group import Group
from internals.distributed.scale.pipeline.schedule import SCHEDULES, Action, Span
from internals.nn import Module
from internals.tensor import Leaf, Node, Tensor, no_grad

FORWARD, BACKWARD = "pipeline/forward", "pipeline/backward"


class Pipeline:
    """A model cut into stages, of which each rank of a group holds one.

    Parameters
    ----------
    stages : sequence of Module
        One for each rank; this rank keeps its own. What comes out of one goes into the next: one Tensor.
    group : Group
    loss : callable
        ``loss(output, target)``: the mean over a micro-batch; called on the last rank.
    schedule : str
        "gpipe" or "1f1b".
    recompute : bool
        Keep only what goes into the stage, and run it once more before the backward pass (Huang et al. 2019; Chen et
        al. 2016). Random masks and running statistics would then be drawn and counted twice.

    Attributes
    ----------
    stage : Module
        This rank's.
    spans : list of Span
        When each action of the last step ran on this rank, by ``time.perf_counter``, without waiting for messages.
    most_bytes : int
        Bytes of activations that this rank kept at most in the last step.

    Raises
    ------
    ValueError
        Not as many stages as ranks; an unknown schedule.
    """

    def __init__(
        self,
        stages: Sequence[Module],
        group: Group,
        *,
        loss: Callable[[Tensor, Tensor], Tensor],
        schedule: str = "1f1b",
        recompute: bool = False,
    ) -> None:
        if len(stages) != group.size:
            raise ValueError(f"Pipeline: {len(stages)} stages for {group.size} ranks; expected one stage for each rank")
        if schedule not in SCHEDULES:
            raise ValueError(f"Pipeline: there is no schedule {schedule!r}; expected {' or '.join(SCHEDULES)}")
        self.stage = stages[group.rank]
        self.group, self.loss, self.schedule, self.recompute = group, loss, schedule, recompute
        self.spans: list[Span] = []
        self.most_bytes = 0
        self._first, self._last = group.rank == 0, group.rank == group.size - 1
        self._kept: dict[int, tuple[Tensor, Tensor | None]] = {}
        self._bytes: dict[int, int] = {}
        self._losses: list[float] = []

    def step(self, inputs: Any = None, targets: Any = None, *, micro_batches: int) -> float | None:
        """One batch through all stages and back: adds to the ``grad`` of this rank's parameters.

        The gradients are those of the mean of `loss` over the whole batch.

        Parameters
        ----------
        inputs : array or Tensor, (batch, ...)
            Read on the first rank.
        targets : array or Tensor, (batch, ...)
            Read on the last rank.
        micro_batches : int
            Divides the batch; the same on every rank.

        Returns
        -------
        float or None
            The loss on the last rank, None on the others.

        Raises
        ------
        ValueError
            The batch does not divide into micro-batches, or is missing where it is needed.
        MismatchError
            Another stage runs another schedule, or another number of micro-batches; or an output did not suit the
            next stage, which is named.
        PeerLost, DeadlineExceeded
            Name the stage's rank that died, or that sent nothing.
        """
        row = SCHEDULES[self.schedule](self.group.size, micro_batches)[self.group.rank]
        given = self._cut("inputs", inputs, micro_batches) if self._first else []
        wanted = self._cut("targets", targets, micro_batches) if self._last else []
        if self._first and self._last and given[0].shape[0] != wanted[0].shape[0]:
            raise ValueError(f"Pipeline: {given[0].shape[0]} inputs and {wanted[0].shape[0]} targets in a micro-batch")
        self.spans, self.most_bytes, self._losses = [], 0, []
        self._kept.clear()
        self._bytes.clear()
        for action in row:
            if action.kind == "F":
                self._forward(action, given, wanted, micro_batches)
            else:
                self._backward(action, wanted, micro_batches)
        return sum(self._losses) if self._last else None

    def _forward(self, action: Action, given: list[Tensor], wanted: list[Tensor], micro_batches: int) -> None:
        micro = action.micro_batch
        x = given[micro] if self._first else self._receive(self.group.rank - 1, FORWARD, micro, micro_batches)
        start = time.perf_counter()
        if self.recompute:
            with no_grad():
                out = self._run(x, wanted, micro, micro_batches)
            kept = None
        else:
            out = kept = self._run(x, wanted, micro, micro_batches)
        self._note(action, start)
        self._kept[micro] = (x, kept)
        self._bytes[micro] = x.data.nbytes if kept is None else saved_bytes(kept, self.stage)
        self.most_bytes = max(self.most_bytes, sum(self._bytes.values()))
        if self._last:
            self._losses.append(out.item())
        else:
            self._send(self.group.rank + 1, FORWARD, micro, micro_batches, out)

    def _backward(self, action: Action, wanted: list[Tensor], micro_batches: int) -> None:
        micro = action.micro_batch
        cotangent = None if self._last else self._receive(self.group.rank + 1, BACKWARD, micro, micro_batches)
        start = time.perf_counter()
        x, out = self._kept.pop(micro)
        if out is None:
            out = self._run(x, wanted, micro, micro_batches)
        out.backward(cotangent)
        self._note(action, start)
        del self._bytes[micro]
        if not self._first:
            by_input = x.grad if x.requires_grad else None
            if by_input is None:  # whole numbers, or a stage that ignores them
                by_input = Tensor(np.zeros(x.shape, np.float32))
            self._send(self.group.rank - 1, BACKWARD, micro, micro_batches, by_input)

    def _run(self, x: Tensor, wanted: list[Tensor], micro: int, micro_batches: int) -> Tensor:
        try:
            out = self.stage(x)
            return self.loss(out, wanted[micro]) * (1.0 / micro_batches) if self._last else out
        except (ValueError, TypeError, IndexError) as error:
            source = "the inputs" if self._first else f"what stage {self.group.rank - 1} sent"
            what = f"{source}, {x.dtype} {tuple(x.shape)} (micro-batch {micro})"
            raise MismatchError(f"stage {self.group.rank} can't take {what}: {error}") from error

    def _note(self, action: Action, start: float) -> None:
        self.spans.append(Span(action, start, time.perf_counter()))

    # Messages

    def _send(self, to: int, kind: str, micro: int, micro_batches: int, value: Tensor) -> None:
        array = value.detach().to("cpu").numpy()
        self.group.send(to, kind, array, micro=micro, micro_batches=micro_batches, schedule=self.schedule)

    def _receive(self, source: int, kind: str, micro: int, micro_batches: int) -> Tensor:
        message = self.group.receive(source, kind)
        theirs = (message.fields.get("micro"), message.fields.get("micro_batches"), message.fields.get("schedule"))
        if theirs != (micro, micro_batches, self.schedule) or len(message.arrays) != 1:
            raise MismatchError(
                f"pipeline: stage {source} sends micro-batch {theirs[0]} of {theirs[1]} by {theirs[2]}, stage "
                f"{self.group.rank} expects {micro} of {micro_batches} by {self.schedule}: give all ranks the same"
            )
        array = message.arrays[0].copy()
        return Tensor(array, requires_grad=kind == FORWARD and array.dtype.kind == "f")

    def _cut(self, what: str, batch: Any, micro_batches: int) -> list[Tensor]:
        if batch is None:
            end = "first" if what == "inputs" else "last"
            raise ValueError(f"Pipeline: the {end} rank needs the {what}; they are None")
        batch = batch if isinstance(batch, Tensor) else Tensor(batch)
        if batch.ndim == 0 or batch.shape[0] == 0 or batch.shape[0] % micro_batches:
            raise ValueError(
                f"Pipeline: {what} of shape {tuple(batch.shape)} do not divide into {micro_batches} micro-batches of "
                "the same size"
            )
        size = batch.shape[0] // micro_batches
        return [batch[i * size : (i + 1) * size] for i in range(micro_batches)]

    def timeline(self) -> list[Span]:
        """The last step's spans of all ranks, in order, on every rank; seconds from the first start. All ranks call it.

        One machine has one clock; ranks on several machines would have to agree on the time first.
        """
        numbers = [(span.action.micro_batch, span.action.kind == "F", span.start, span.end) for span in self.spans]
        spans = [
            Span(Action(stage, int(micro), "F" if forward else "B"), start, end)
            for stage, rows in enumerate(all_gather(np.array(numbers, np.float64), group=self.group))
            for micro, forward, start, end in rows.tolist()
        ]
        begin = min(span.start for span in spans)
        return sorted(
            (Span(span.action, span.start - begin, span.end - begin) for span in spans),
            key=lambda span: (span.start, span.action.stage),
        )


def saved_bytes(result: Tensor, model: Module) -> int:
    """Bytes that the tape of `result` keeps for the backward pass; each array once, the parameters of `model` not."""
    if result.node is None:
        return 0
    known = {id(_memory(parameter.data)) for parameter in model.parameters()}
    found: dict[int, int] = {}
    seen: set[Node | Leaf] = {result.node}
    due: list[Node | Leaf] = [result.node]
    while due:
        node = due.pop()
        if isinstance(node, Node):
            kept = [one.data for one in node.saved or () if isinstance(one, Tensor)]
            if getattr(node, "out", None) is not None:
                kept += list(node.out) if isinstance(node.out, tuple) else [node.out]
            for array in kept:
                memory = _memory(array)
                if id(memory) not in known:
                    found[id(memory)] = max(found.get(id(memory), 0), min(array.nbytes, memory.nbytes))
        for edge in node.inputs:
            if edge is not None and edge not in seen:
                seen.add(edge)
                due.append(edge)
    return sum(found.values())


def _memory(array: Any) -> Any:
    """The array that owns the memory of a view."""
    while getattr(array, "base", None) is not None and hasattr(array.base, "nbytes"):
        array = array.base
    return array
