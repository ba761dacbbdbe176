"""Running one batch: inputs are gathered, the row runs once for all, and the result is cut where its readers change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from internals.autodiff.batching import batching_rule, each, front
from internals.autodiff.lifted import apply
from internals.fold.deferred import DETACH, Deferred, Note, Signature
from internals.fold.gather import cut, gathered
from internals.fold.operation import Operation
from internals.fold.places import place_of_results, runs, take_up_leaves
from internals.tensor.node import enable_grad, no_grad


class Members:
    """What batching rules are told of a batch: how many calls there are.

    They share a seed, which is an attribute, and so the random numbers: what each would draw alone.
    """

    level = 0
    randomness = "same"

    def __init__(self, size: int) -> None:
        self.size = size


def run_batch(batch: list[Note]) -> Signature:
    """Run calls of one signature together.

    Raises
    ------
    Exception
        What the operation raised, told of the call that it fails for.
    """
    signature = batch[0].signature
    assert signature is not None
    try:
        with enable_grad() if signature.recording else no_grad():
            values, batched = _inputs(batch)
            results = _computed(signature, values, batched, len(batch))
            sizes = runs(batch)
            pieces = [cut(result, sizes) for result in results]
    except Exception as error:
        _explain(batch, signature, error)
        raise
    position = 0
    for k, size in enumerate(sizes):
        blocks = tuple([several[k] for several in pieces])
        for row in range(size):
            note = batch[position + row]
            note.blocks, note.row, note.inputs = blocks, row, ()
        position += size
    return signature


def _inputs(batch: list[Note]) -> tuple[list[Any], list[bool]]:
    """The inputs of all calls, and which of them have an axis of calls in front."""
    values: list[Any] = []
    batched: list[bool] = []
    whole: Any = None
    for slot, value in enumerate(batch[0].inputs):
        if type(value) is not Deferred:
            values.append(value)
            batched.append(False)
            continue
        mine = [note.inputs[slot] for note in batch]
        if len(mine) > 1 and all(one is value for one in mine):
            whole = slot, value
            values.append(value.value)
            batched.append(False)
        else:
            take_up_leaves(mine)
            values.append(gathered(place_of_results(mine)))
            batched.append(True)
    if not any(batched):  # every call reads the same
        slot, _ = whole
        values[slot], batched[slot] = front(values[slot], len(batch)), True
    return values, batched


def _computed(signature: Signature, values: list[Any], batched: list[bool], size: int) -> list[Any]:
    """The results, each with the axis of calls in front."""
    op, attrs = signature.op, signature.attrs
    if isinstance(op, Operation):
        return op.run(values, batched)
    if op is DETACH:
        return [op(values[0])]
    members = Members(size)
    rule = batching_rule(op)
    out = None if rule is None else rule(op, values, batched, attrs, signature.spec, members)
    if out is None:
        out = each(op, values, batched, attrs, signature.spec, members)
    return list(out) if op.results else [out]


def _explain(batch: Sequence[Note], signature: Signature, error: Exception) -> None:
    """Run the calls one by one to find the first that fails, and raise its error with what it is."""
    for note in batch:
        try:
            with no_grad():
                values = [one.value if type(one) is Deferred else one for one in note.inputs]
                if isinstance(signature.op, Operation):
                    signature.op.function(*values)
                elif signature.op is not DETACH:
                    apply(signature.op, values, signature.attrs)
        except Exception as alone:  # noqa: BLE001 - whatever it is, it is told again
            error, guilty = alone, note
            break
    else:
        guilty = batch[0]
    whose = "" if guilty.example is None else f" of example {guilty.example}"
    said = f"fold: {signature.op.name}{whose}, called at {guilty.where}: {error}"
    try:
        told = type(error)(said)
    except Exception:  # noqa: BLE001 - an exception that is not made from a sentence
        told = RuntimeError(said)
    raise told from error
