"""Import rules for branches and loops.

A branch that is decided when the model is read is taken then. A loop of a known number of rounds is a `scan` over their
numbers, which can be differentiated; any other is a `while_loop`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals import ops
from internals.deploy.errors import FormatError
from internals.deploy.onnx.readers.table import Call, NotKnown, known, reads
from internals.graph import GraphError, cond, current, scan, while_loop

MOST_ROWS = 2**20
"""Rounds of a loop that are numbered beforehand."""
MOST_WRITTEN_OUT = 256
"""Rounds that are written out one by one, where what is done in them needs their numbers while the model is read."""
ENDLESS = 2**31
"""A number of rounds from which on it is no bound, as exporters write it."""


class _Open(FormatError):
    """Whether a loop goes on is computed in it."""


def _settled(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _nodes(values: Sequence[Any]) -> list[Any]:
    """Values as nodes of the graph that is being built, so that nothing runs while a model is read."""
    return [current().own(value) for value in values]


@reads("If")
def _if(call: Call, condition: Any) -> Any:
    then, otherwise = call.body("then_branch"), call.body("else_branch")
    around = call.around
    if _settled(condition):
        return (then if np.asarray(condition).reshape(()) else otherwise).run(around, [])
    return cond(condition, lambda: then.run(around, []), lambda: otherwise.run(around, []))


@reads("Loop")
def _loop(call: Call, most: Any, going: Any, *state: Any) -> Any:
    body, around = call.body("body"), call.around
    extra = len(body.outputs) - 1 - len(state)
    if len(body.inputs) != 2 + len(state) or extra < 0:
        raise call.refuse(f"its body takes {len(body.inputs)} and gives {len(body.outputs)} values for {len(state)}")
    if _settled(most):
        most = known(np.asarray(most).reshape(()), np.int64)
        most = None if most >= ENDLESS else most
    if _settled(going):
        if not np.asarray(going).reshape(()):
            most, going = known(0), None
        going = None
    if going is None and _settled(most) and most <= MOST_ROWS:
        try:
            return _counted(call, body, int(most), state)
        except _Open:
            pass
        except (NotKnown, GraphError):
            if most > MOST_WRITTEN_OUT:
                raise
            return _written_out(call, body, int(most), state)
    if extra:
        raise call.refuse("it stacks what its rounds give, and how many there are is known only when the model runs")
    if most is None and not body.reads(0):
        first = [known(True) if going is None else going, *state]
        found = while_loop(lambda on, *_: on, lambda on, *held: body.run(around, [known(0), on, *held]), _nodes(first))
        return found[1:]

    def goes_on(number: Any, on: Any, *_: Any) -> Any:
        on = ops.reshape(on, shape=())
        return on if most is None else ops.logical_and(on, ops.less(number, ops.reshape(most, shape=())))

    def step(number: Any, on: Any, *held: Any) -> list[Any]:
        return [ops.add(number, known(1)), *body.run(around, [number, on, *held])]

    found = while_loop(goes_on, step, _nodes([known(0), known(True) if going is None else going, *state]))
    return found[2:]


def _counted(call: Call, body: Any, rounds: int, state: Sequence[Any]) -> list[Any]:
    """All rounds, where none of them ends the loop."""
    around, n = call.around, len(state)

    def step(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
        on, *found = body.run(around, [row[0], known(True), *carry])
        if not _settled(on):
            raise _Open("whether it goes on is computed in it")
        if not np.asarray(on).reshape(()):
            raise NotKnown("it ends after its first round")
        return found[:n], found[n:]

    last, stacked = scan(step, _nodes(state), _nodes([known(np.arange(*call.bounded([rounds])))]))
    return [*last, *stacked]


def _written_out(call: Call, body: Any, rounds: int, state: Sequence[Any]) -> list[Any]:
    held, n = list(state), len(state)
    stacks: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - n)]
    for number in range(call.counted(rounds, "rounds")):
        on, *found = body.run(call.around, [known(number), known(True), *held])
        held = found[:n]
        for stack, one in zip(stacks, found[n:], strict=True):
            stack.append(one)
        call.known(on, "condition")
        if not np.asarray(on).reshape(()):
            break
    if stacks and not stacks[0]:
        raise call.refuse("it has no round, and the shape of what its rounds give is not known")
    return [*held, *[ops.stack(one, axis=0) for one in stacks]]


@reads("Scan")
def _scan(call: Call, *values: Any) -> Any:
    body, around, m = call.body("body"), call.around, int(call.get("num_scan_inputs"))
    n = len(values) - m
    if call.opset < 9:
        raise call.refuse("before operator set 9 it scans each entry of a batch by itself")
    if n < 0 or m < 1 or len(body.inputs) != n + m or len(body.outputs) < n:
        raise call.refuse(f"its body takes {len(body.inputs)} and gives {len(body.outputs)} values for {n} and {m}")
    outputs = len(body.outputs) - n
    rows = [_laid(x, axis, 0, turned) for x, axis, turned in zip(
        values[n:], call.get("scan_input_axes", [0] * m), call.get("scan_input_directions", [0] * m), strict=True
    )]  # fmt: skip

    def step(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
        found = body.run(around, [*carry, *row])
        return found[:n], found[n:]

    last, stacked = scan(step, _nodes(values[:n]), _nodes(rows))
    axes, turns = (call.get(f"scan_output_{one}", [0] * outputs) for one in ("axes", "directions"))
    return [*last, *[_laid(x, 0, axis, turn) for x, axis, turn in zip(stacked, axes, turns, strict=True)]]


def _laid(x: Any, source: int, target: int, turned: int) -> Any:
    """An array with the axis of the rounds moved, and their order turned round."""
    x = ops.moveaxis(x, source, target) if source != target else x
    return ops.flip(x, axis=target if source == 0 else 0) if turned else x
