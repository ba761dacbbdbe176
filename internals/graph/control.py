"""Conditions and loops as operations: what Python's ``if`` and ``while`` can't be while a graph is built.

A branch or a body is a `Function`, run once on placeholders when the graph is built. The operation decides at run time
which function to run, and how often. Derivatives of `cond` and `scan` are a `cond` and a `scan` again, so they have
derivatives in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from internals.device import Array, device_of
from internals.graph.function import Function, as_op, graph_op, is_floating
from internals.graph.node import GraphError, Node, spec_text
from internals.ops import flip, zeros_like
from internals.ops.spec import Spec
from internals.ops.table import Op
from internals.tensor import Tensor


def cond(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """One of two branches, decided when it runs.

    Parameters
    ----------
    condition : boolean Node or Tensor of one entry
    then, otherwise : callable
        Without arguments; what they use from outside is captured. Both give as many values, of the same shapes and
        dtypes.

    Returns
    -------
    Node or Tensor, or a list of them, as the branches give.

    Raises
    ------
    GraphError
        The branches differ in what they give, or the condition is not one boolean.
    """
    check_condition("cond", condition)
    first, answer = Function.build(then, [], name="then")
    second, _ = Function.build(otherwise, [], name="otherwise")
    _same_outputs("cond: the branches", first.outputs, second.outputs)
    found = cond_op(first, second)([condition, *first.captures, *second.captures])
    return list(found) if isinstance(answer, list | tuple) else found[0]


def cond_op(then: Function, otherwise: Function) -> Op:
    """Inputs: the condition, those of the one function, those of the other."""
    split = len(then.inputs)

    def kernel(xp: Any, condition: Array, *values: Array) -> list[Array]:
        return then(*values[:split]) if _truth(condition) else otherwise(*values[split:])

    def vjp(g: Sequence[Any], out: Any, condition: Any, *values: Any) -> list[Any]:
        starts = [one for one in g if one is not None]
        nodes = [*then.inputs, *otherwise.inputs]

        def through(function: Function, own: slice) -> Function:
            def body(*given: Any) -> list[Any]:
                inputs, cotangents = given[: len(nodes)], given[len(nodes) :]
                found = iter(as_op(function.gradient())([*inputs[own], *cotangents]))
                mine = range(*own.indices(len(nodes)))
                return [
                    next(found) if i in mine else zeros_like(inputs[i])
                    for i, node in enumerate(nodes)
                    if is_floating(node)
                ]

            return Function.build(body, [*values, *starts], name=f"gradient of {function.name}")[0]

        one, two = through(then, slice(0, split)), through(otherwise, slice(split, None))
        both = [*values, *starts]
        found = iter(
            cond_op(one, two)([condition, *both, *one.captures, *both, *two.captures])
            if any(is_floating(node) for node in nodes)
            else ()
        )
        return [None, *[next(found) if is_floating(node) else None for node in nodes]]

    made: Any = "cond", {"then": then, "otherwise": otherwise}, {}
    return graph_op("cond", kernel, vjp=vjp, infer=lambda *values: then.infer(values[1 : 1 + split]), made=made)


def while_loop(
    condition: Callable[..., Any], body: Callable[..., Any], state: Sequence[Any], *, most: int = 1_000_000
) -> list[Any]:
    """Run a body on a state for as long as a condition holds.

    Parameters
    ----------
    condition : callable, ``condition(*state)`` -> boolean
    body : callable, ``body(*state)`` -> the next state
        Of the same shapes and dtypes.
    state : sequence of Node or Tensor
    most : int
        Iterations after which the loop is given up.

    Returns
    -------
    list, the last state. Its gradient runs the loop once more, keeping each state; it has no gradient itself.

    Raises
    ------
    GraphError
        The body changes a shape or dtype; or, when it runs, the loop does not end.
    """
    n = len(state)
    test, _ = Function.build(condition, state, name="condition", loops=True)
    check_condition("while_loop", test.outputs[0])
    step, _ = Function.build(lambda *values: _several("while_loop", body(*values)), state, name="body", loops=True)
    _same_outputs("while_loop: the state before and after the body", step.inputs[:n], step.outputs)
    if _turn(test) is not None or _turn(step) is not None:  # something is drawn: rounds are counted
        test, step = _counting(test, n), _counting(step, n, goes_on=True)
        state = [*state, Tensor(np.zeros((), np.int64), device=_place_of(state))]
    loop, _ = while_op(test, step, len(state), most)
    return list(loop([*state, *test.captures, *step.captures])[:n])


def _several(name: str, given: Any) -> list[Any]:
    if not isinstance(given, tuple | list):
        raise GraphError(f"{name}: the body gives lists of values, got {type(given).__name__}.")
    return list(given)


def _turn(function: Function) -> Node | None:
    return getattr(function.graph, "turn", None)


def _counting(function: Function, n: int, goes_on: bool = False) -> Function:
    """The same, with the number of the round after the `n` parts of the state; and the next one after its results."""
    graph, turn = function.graph, _turn(function)
    with graph:
        turn = graph.placeholder((), np.int64, name="turn") if turn is None else turn
        outputs = [*function.outputs, turn + 1] if goes_on else function.outputs
    return Function(graph, [*function.inputs[:n], turn], outputs, function.name)


def _place_of(values: Sequence[Any]) -> Any:
    return next((value.device for value in values if isinstance(value, Tensor)), "cpu")


def while_op(test: Function, step: Function, n: int, most: int) -> tuple[Op, Callable[[Sequence[bool]], Op]]:
    """The loop; and its gradient, for inputs of which some are floating."""
    tested = len(test.captures)

    def states(values: Sequence[Array]) -> tuple[list[list[Array]], list[Array]]:
        state = list(values[:n])
        before: list[list[Array]] = []
        asked, used = values[n : n + tested], values[n + tested :]
        while _truth(test(*state, *asked)[0]):
            if len(before) >= most:
                raise GraphError(
                    f"while_loop: still running after {most} iterations. Check its condition, or raise `most`."
                )
            before.append(state)
            state = step(*state, *used)
        return before, state

    def kernel(xp: Any, *values: Array) -> list[Array]:
        return states(values)[1]

    def pulled(xp: Any, *values: Array) -> list[Array]:
        count = n + tested + len(step.captures)
        inputs, starts = values[:count], iter(values[count:])
        before, _ = states(inputs)
        used = inputs[n + tested :]
        cotangents = [next(starts) if is_floating(node) else None for node in step.outputs]
        extra = [xp.zeros_like(array) for array, node in zip(used, step.inputs[n:], strict=True) if is_floating(node)]
        for state in reversed(before):
            found = iter(step.gradient()(*state, *used, *[one for one in cotangents if one is not None]))
            cotangents = [next(found) if is_floating(node) else None for node in step.inputs[:n]]
            extra = [total + next(found) for total in extra]
        asked = [xp.zeros_like(array) for array in inputs[n : n + tested] if array.dtype.kind not in "biu"]
        return [*[one for one in cotangents if one is not None], *asked, *extra]

    functions, numbers = {"condition": test, "body": step}, {"n": n, "most": most}

    def again(*_: Any) -> Any:
        raise GraphError("while_loop: its gradient has no gradient. Use scan, where the number of steps is known.")

    def gradient(floating: Sequence[bool]) -> Op:
        return graph_op(
            "while_loop_gradient",
            pulled,
            vjp=again,
            infer=lambda *values: tuple(spec for spec, one in zip(values, floating, strict=False) if one),
            made=("while_loop_gradient", functions, {**numbers, "floating": list(floating)}),
        )

    def vjp(g: Sequence[Any], out: Any, *values: Any) -> list[Any]:
        floating = [value.dtype.kind not in "biu" for value in values]
        found = iter(gradient(floating)([*values, *[one for one in g if one is not None]]))
        return [next(found) if one else None for one in floating]

    loop = graph_op(
        "while_loop", kernel, vjp=vjp, infer=lambda *values: tuple(values[:n]), made=("while_loop", functions, numbers)
    )
    return loop, gradient


def scan(body: Callable[..., Any], carry: Sequence[Any], rows: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Run a body on each row of arrays in turn, handing a carry on.

    Parameters
    ----------
    body : callable, ``body(carry, row)`` -> ``(carry, outputs)``
        Each a list; shapes and dtypes of the carry stay.
    carry : sequence of Node or Tensor
    rows : sequence of Node or Tensor
        Of one length along axis 0.

    Returns
    -------
    list
        The last carry.
    list
        The outputs of all steps, stacked along axis 0.
    """
    lengths = {value.shape[0] if value.shape else None for value in rows}
    if len(lengths) != 1 or None in lengths:
        raise GraphError(
            f"scan: rows of shapes {', '.join(str(tuple(value.shape)) for value in rows)} need one known length along "
            "axis 0."
        )
    n = len(carry)

    def flat(*values: Any) -> list[Any]:
        found = body(list(values[:n]), list(values[n:]))
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise GraphError(f"scan: the body gives a pair, the carry and the outputs, got {type(found).__name__}.")
        return [*_several("scan", found[0]), *_several("scan", found[1])]

    single = [Spec(value.shape[1:], value.dtype) for value in rows]
    step, _ = Function.build(flat, [*carry, *single], name="body", loops=True)
    _same_outputs("scan: the carry before and after the body", step.inputs[:n], step.outputs[:n])
    if _turn(step) is not None:
        step = _counting(step, n + len(rows))
        rows = [*rows, Tensor(np.arange(rows[0].shape[0]), device=_place_of(rows))]
    found = scan_op(step, n, len(rows))([*carry, *rows, *step.captures])
    outputs = len(step.outputs)
    return list(found[:n]), list(found[n:outputs])


def scan_op(step: Function, n: int, m: int) -> Op:
    """Inputs: the carry, the rows, captures. Results: the carry, the outputs, and the carry before each step."""
    outputs = len(step.outputs) - n

    def kernel(xp: Any, *values: Array) -> list[Array]:
        carry, rows, used = list(values[:n]), values[n : n + m], values[n + m :]
        before: list[list[Array]] = [[] for _ in range(n)]
        came: list[list[Array]] = [[] for _ in range(outputs)]
        for i in range(rows[0].shape[0]):
            for kept, one in zip(before, carry, strict=True):
                kept.append(one)
            found = step(*carry, *[row[i, ...] for row in rows], *used)
            carry = found[:n]
            for kept, one in zip(came, found[n:], strict=True):
                kept.append(one)
        empty = rows[0].shape[0] == 0
        stacks = [*came, *before]
        nodes = [*step.outputs[n:], *step.inputs[:n]]
        stacked = [
            xp.zeros((0, *node.shape), node.dtype) if empty else xp.stack(one)
            for one, node in zip(stacks, nodes, strict=True)
        ]
        return [*carry, *stacked]

    def infer(*values: Spec) -> tuple[Spec, ...]:
        length = values[n].shape[0]
        rows = [Spec(value.shape[1:], value.dtype) for value in values[n : n + m]]
        given = step.infer([*values[:n], *rows, *values[n + m :]])[n:]
        return (*values[:n], *[Spec((length, *one.shape), one.dtype) for one in (*given, *values[:n])])

    def vjp(g: Sequence[Any], out: Any, *values: Any) -> list[Any]:
        # Backwards through the steps: the cotangents of the carry and of captures are the carry of this scan, and what
        # each step read and gave is its rows.
        is_carry = [is_floating(node) for node in step.inputs[:n]]
        is_row = [is_floating(node) for node in step.inputs[n : n + m]]
        is_used = [is_floating(node) for node in step.inputs[n + m :]]
        used = values[n + m :]
        d_carry = [one for one in g[:n] if one is not None]
        d_used = [zeros_like(value) for value, one in zip(used, is_used, strict=True) if one]
        d_out = [one for one in g[n : n + outputs] if one is not None]
        d_before = [one for one in g[n + outputs :] if one is not None]
        before = list(out[n + outputs :])
        rows = [flip(one, axis=0) for one in (*before, *values[n : n + m], *d_out, *d_before)]

        def body(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
            read, given = row[: n + m], row[n + m :]
            starts = [*carry[: len(d_carry)], *given[: len(d_out)]]
            found = list(as_op(step.gradient())([*read, *used, *starts]))
            by_carry, by_row = found[: sum(is_carry)], found[sum(is_carry) : sum(is_carry) + sum(is_row)]
            by_used = found[sum(is_carry) + sum(is_row) :]
            after = [one + more for one, more in zip(by_carry, given[len(d_out) :], strict=True)]
            totals = [total + more for total, more in zip(carry[len(d_carry) :], by_used, strict=True)]
            return [*after, *totals], by_row

        last, by_rows = scan(body, [*d_carry, *d_used], rows)
        carries, totals = iter(last[: len(d_carry)]), iter(last[len(d_carry) :])
        flipped = iter([flip(one, axis=0) for one in by_rows])
        return [
            *[next(carries) if one else None for one in is_carry],
            *[next(flipped) if one else None for one in is_row],
            *[next(totals) if one else None for one in is_used],
        ]

    made = "scan", {"body": step}, {"n": n, "m": m}
    return graph_op("scan", kernel, vjp=vjp, infer=infer, saves="values out", made=made)


def _truth(value: Array) -> bool:
    return bool(device_of(value).to_host(value))


def check_condition(name: str, value: Any) -> None:
    if not isinstance(value, Node | Tensor | np.ndarray) or value.dtype != bool or value.shape not in ((), (1,)):
        what = spec_text(value.shape, value.dtype) if hasattr(value, "dtype") else type(value).__name__
        raise GraphError(f"{name}: the condition must be one boolean, got {what}.")


def _same_outputs(what: str, one: Sequence[Node], two: Sequence[Node]) -> None:
    kinds = [[spec_text(node.shape, node.dtype) for node in nodes] for nodes in (one, two)]
    if kinds[0] != kinds[1]:
        places = " and ".join(dict.fromkeys(node.where for node in (*one, *two)))
        raise GraphError(
            f"{what} differ: {', '.join(kinds[0]) or 'nothing'} and {', '.join(kinds[1]) or 'nothing'} (made at "
            f"{places})."
        )
