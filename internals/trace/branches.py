"""What rewritten control flow calls when a function is traced; see `internals.trace.convert`.

Each call looks at its condition. A Python value is decided here and now, as Python would; a node, whose value is known
only at run time, becomes `cond` or `while_loop` in the graph, with the variables that the statement assigns as results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from internals.autodiff import tree
from internals.graph import Function, GraphError, Node, while_loop
from internals.graph.control import check_condition, cond_op
from internals.graph.function import FunctionGraph, as_node
from internals.graph.node import spec_text
from internals.ops import logical_and, logical_not, logical_or
from internals.ops.table import is_array
from internals.tensor import Tensor
from internals.trace.errors import TraceError
from internals.trace.sharing import may_be, refuse_shared_in, refuse_shared_rounds
from internals.trace.state import PLAIN, same

Thunk = Callable[[], Any]


class Missing:
    """A variable that has no value, because not every way through a branch or loop gives it one."""

    def __init__(self, name: str, why: str) -> None:
        object.__setattr__(self, "_told", f"{why}: {name!r} has no value on every way through it. Assign it before.")

    def __getattr__(self, name: str) -> Any:
        raise TraceError(self._told)

    def refuse(self, *_: Any, **__: Any) -> Any:
        raise TraceError(self._told)

    __bool__ = __call__ = __iter__ = __len__ = __getitem__ = __add__ = __radd__ = __sub__ = __rsub__ = refuse
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = __neg__ = __pow__ = __rpow__ = refuse
    __lt__ = __le__ = __gt__ = __ge__ = __float__ = __int__ = __index__ = refuse


def both(one: Thunk, two: Thunk) -> Any:
    """``one and two``."""
    first = one()
    return logical_and(first, two()) if isinstance(first, Node) else first and two()


def either(one: Thunk, two: Thunk) -> Any:
    """``one or two``."""
    first = one()
    return logical_or(first, two()) if isinstance(first, Node) else first or two()


def opposite(value: Any) -> Any:
    """``not value``."""
    return logical_not(value) if isinstance(value, Node) else not value


def chosen(test: Any, then: Thunk, otherwise: Thunk, where: str) -> Any:
    """``then if test else otherwise``."""
    if not isinstance(test, Node):
        return then() if test else otherwise()
    return _chosen(test, [then, otherwise], ("the value",), where, lambda value: (value,))[0]


def plain(test: Any, why: str, where: str) -> bool:
    """The condition of a statement that can't be part of a graph."""
    if isinstance(test, Node):
        raise TraceError(
            f"{where}: the condition is known only at run time, and the statement can't be part of a graph: {why}. "
            "Assign to a variable instead, or use cond or while_loop."
        )
    return bool(test)


def choose(
    test: Any,
    then: Callable[..., Any],
    otherwise: Callable[..., Any],
    values: Sequence[Thunk],
    names: Sequence[str],
    returns: bool,
    effects: str,
    moved: Sequence[str],
    where: str,
) -> Any:
    """``if test: ... else: ...``; the variables it assigns, or what it returns."""
    state = _now(values, names, f"{where}: the if")
    if not isinstance(test, Node):
        return then(*state) if test else otherwise(*state)
    _refuse_effects("if", effects, where)
    refuse_shared_in(state, names, moved, where)
    branches = [lambda: then(*state), lambda: otherwise(*state)]
    if returns:
        return _chosen(test, branches, ("what it returns",), where, lambda value: (value,))[0]
    return _chosen(test, branches, names, where, tuple)


def repeat(
    test: Callable[..., Any],
    body: Callable[..., Any],
    values: Sequence[Thunk],
    names: Sequence[str],
    effects: str,
    moved: Sequence[str],
    where: str,
) -> Sequence[Any]:
    """``while test: ...``; a loop whose condition becomes a node on the way is part of the graph from there."""
    state = _now(values, names, f"{where}: the while")
    while True:
        asked = test(*state)
        if isinstance(asked, Node):
            _refuse_effects("while", effects, where)
            refuse_shared_in(state, names, moved, where)
            return _looped(test, body, state, names, moved, where)
        if not asked:
            return state
        state = body(*state)


def count(
    bounds: Sequence[Any],
    test: Callable[..., Any],
    body: Callable[..., Any],
    values: Sequence[Thunk],
    names: Sequence[str],
    effects: str,
    moved: Sequence[str],
    where: str,
) -> Sequence[Any]:
    """``for i in range(*bounds): ...``."""
    state = _now(values, names, f"{where}: the for")
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if isinstance(step, Node):
        raise TraceError(f"{where}: the step of range must be a Python number, not {step!r}.")
    captured = isinstance(start, Node) or isinstance(stop, Node)
    index = start
    if not captured:
        for index in range(start, stop, step):
            asked = test(*state)
            if isinstance(asked, Node):
                captured = True
                break
            if not asked:
                return state
            state = body(index, *state[1:])
    if not captured:
        return state
    _refuse_effects("for", effects, where)
    refuse_shared_in(state, names, moved, where)

    def goes_on(following: Any, *state: Any) -> Any:
        inside = following < stop if step > 0 else following > stop
        return both(lambda: inside, lambda: test(*state))

    def once(following: Any, *state: Any) -> Any:
        return (following + step, *body(following, *state[1:]))

    first = state if not isinstance(state[0], Missing) else (index, *state[1:])
    return _looped(goes_on, once, (index, *first), ("the count", *names), moved, where)[1:]


def _now(values: Sequence[Thunk], names: Sequence[str], why: str) -> tuple[Any, ...]:
    found = []
    for value, name in zip(values, names, strict=True):
        try:
            found.append(value())
        except NameError:
            found.append(Missing(name, why))
    return tuple(found)


def _refuse_effects(what: str, effects: str, where: str) -> None:
    if effects:
        raise TraceError(
            f"{where}: the condition of this {what} is known only at run time, and {effects}, which tracing would do "
            "now, whichever way the run goes. Assign to a variable there, and do the rest afterwards."
        )


def _is_value(leaf: Any) -> bool:
    return isinstance(leaf, Node | Tensor) or is_array(leaf) or type(leaf) in (bool, int, float)


def _chosen(
    test: Node, branches: Sequence[Thunk], names: Sequence[str], where: str, parts: Callable[[Any], Sequence[Any]]
) -> tuple[Any, ...]:
    """A `cond` whose branches give a value, or a structure of them, for each name."""
    try:
        check_condition("if", test)
    except GraphError as error:
        raise TraceError(f"{where}: {error} Use any(), all() or a comparison of one entry.") from None
    graphs, given = [], []
    for branch in branches:
        graph = FunctionGraph()
        with graph:
            given.append(parts(branch()))
        graphs.append(graph)
    results: list[Any] = []
    outputs: list[list[Node]] = [[], []]
    came: list[Sequence[Any]] = []
    for name, one, two in zip(names, *given, strict=True):
        if isinstance(one, Missing) or isinstance(two, Missing):
            results.append(Missing(name, f"{where}: the if"))
            continue
        leaves = tree.leaves(one), tree.leaves(two)
        if tree.shape_of_tree(one) != tree.shape_of_tree(two):
            raise TraceError(
                f"{where}: {name!r} is {_kind(one)} on one way through the if and {_kind(two)} on the other. Give it "
                "the same structure on both."
            )
        places = [_agreed(pair, graphs, outputs, name, where) for pair in zip(*leaves, strict=True)]
        came += [pair for pair, place in zip(zip(*leaves, strict=True), places, strict=True) if type(place) is int]
        results.append((one, places))
    functions = [
        Function(graph, [], nodes, name)
        for graph, nodes, name in zip(graphs, outputs, ("then", "otherwise"), strict=True)
    ]
    then, otherwise = functions
    found = cond_op(then, otherwise)([test, *then.captures, *otherwise.captures]) if outputs[0] else []
    for side in (0, 1):
        _note_sharing(found, [pair[side] for pair in came])
    return tuple(
        one if isinstance(one, Missing) else tree.rebuilt(
            one[0], [found[place] if type(place) is int else place.value for place in one[1]]
        )
        for one in results
    )  # fmt: skip


class _Kept:
    """A Python value that is the same on both ways."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _agreed(pair: Sequence[Any], graphs: Any, outputs: list[list[Node]], name: str, where: str) -> int | _Kept:
    """Where in the outputs a leaf comes, made one kind on both ways; or the leaf, if it is no matter of the graph."""
    one, two = pair
    if (type(one) in PLAIN and same(one, two)) or (one is two and not _is_value(one)):
        return _Kept(one)
    if one is two and isinstance(one, Node | Tensor):
        return _Kept(one)
    if not (_is_value(one) and _is_value(two)):
        raise TraceError(
            f"{where}: {name!r} is {_kind(one)} on one way through the if and {_kind(two)} on the other; a graph can "
            "choose between values only."
        )
    dtypes = [leaf.dtype if hasattr(leaf, "dtype") else None for leaf in pair]
    made = []
    for graph, leaf, other in zip(graphs, pair, reversed(dtypes), strict=True):
        with graph:
            if not hasattr(leaf, "dtype"):
                other = other if other is not None else np.result_type(*[np.asarray(part).dtype for part in pair])
                other = np.dtype(np.float32) if other == np.float64 and dtypes == [None, None] else other
                if isinstance(leaf, float) and other.kind in "biu":
                    other = None
                made.append(graph.constant(leaf, dtype=other))
            else:
                made.append(as_node(graph, leaf))
    kinds = [spec_text(node.shape, node.dtype) for node in made]
    if kinds[0] != kinds[1]:
        raise TraceError(
            f"{where}: {name!r} is {kinds[0]} on one way through the if (made at {made[0].where}) and {kinds[1]} on "
            f"the other (made at {made[1].where}). Bring both to one shape and dtype."
        )
    for nodes, node in zip(outputs, made, strict=True):
        nodes.append(node)
    return len(outputs[0]) - 1


def _looped(
    test: Callable[..., Any],
    body: Callable[..., Any],
    state: Sequence[Any],
    names: Sequence[str],
    moved: Sequence[str],
    where: str,
) -> tuple[Any, ...]:
    """A `while_loop` whose state is the values, and structures of them, that the variables have before it."""
    there = [i for i, value in enumerate(state) if not isinstance(value, Missing)]
    leaves = [leaf for i in there for leaf in tree.leaves(state[i])]
    moving = [i for i, leaf in enumerate(leaves) if _is_value(leaf)]
    rounds: list[tuple[Sequence[Any], list[Any]]] = []

    def whole(values: Sequence[Any]) -> list[Any]:
        filled = list(leaves)
        for i, value in zip(moving, values, strict=True):
            filled[i] = value
        waiting, found = iter(filled), list(state)
        for i in there:
            found[i] = tree.mapped(lambda _: next(waiting), state[i])
        return found

    def asked(*values: Any) -> Any:
        answer = test(*whole(values))
        try:
            check_condition("while", answer)
        except GraphError as error:
            raise TraceError(f"{where}: {error}") from None
        return answer

    def once(*values: Any) -> list[Any]:
        for i, value in zip(moving, values, strict=True):
            if isinstance(leaves[i], Node) and leaves[i] in getattr(leaves[i].graph, "arguments", ()):
                value.graph.arguments.add(value)  # still the caller's, in the first round
        after = body(*whole(values))
        found: list[Any] = []
        given: list[Any] = []
        rounds.append((values, given))
        position = 0
        for i in there:
            if tree.shape_of_tree(after[i]) != tree.shape_of_tree(state[i]) or isinstance(after[i], Missing):
                raise TraceError(
                    f"{where}: {names[i]!r} is {_kind(state[i])} before the loop and {_kind(after[i])} after one "
                    "round. Give it the same structure."
                )
            for leaf in tree.leaves(after[i]):
                if position not in moving:
                    if not same(leaf, leaves[position]):
                        raise TraceError(
                            f"{where}: {names[i]!r} is {_kind(leaves[position])} and the loop makes it {_kind(leaf)}; "
                            "only values can change in a graph's loop."
                        )
                else:
                    given.append(leaf)
                    found.append(_like(leaf, values[moving.index(position)], names[i], where))
                position += 1
        called = [names[i] for i in there for _ in tree.leaves(state[i])]
        refuse_shared_rounds([called[i] for i in moving], given, moved, where)
        return found

    start = [_float32(leaves[i]) for i in moving]
    ended = while_loop(asked, once, start)
    first = [leaves[i] for i in moving]
    _note_sharing(ended, first)
    inputs, outputs = rounds[-1]
    _note_sharing(ended, [_same_in(leaf, inputs, first) for leaf in outputs])
    return tuple(whole(ended))


def _same_in(leaf: Any, inputs: Sequence[Any], first: Sequence[Any]) -> Any:
    """What a round gave on, if it was given it, as it was before the loop."""
    return next((before for value, before in zip(inputs, first, strict=True) if value is leaf), leaf)


def _note_sharing(results: Sequence[Any], came: Sequence[Any]) -> None:
    """Each result is, perhaps, what came in its place, which another result may be as well."""
    for result, leaf in zip(results, came, strict=True):
        twins = [other for other, one in zip(results, came, strict=True) if one is leaf and isinstance(leaf, Node)]
        may_be(result, [leaf, *twins])


def _float32(value: Any) -> Any:
    return value if hasattr(value, "dtype") else Tensor(value)


def _like(leaf: Any, before: Any, name: str, where: str) -> Any:
    if not _is_value(leaf):
        raise TraceError(f"{where}: {name!r} is a value before the loop and {_kind(leaf)} after one round.")
    if not hasattr(leaf, "dtype"):
        whole = before.dtype.kind in "biu" and isinstance(leaf, float)
        leaf = Tensor(leaf) if whole else Tensor(leaf, dtype=before.dtype)
    if leaf.shape != before.shape or leaf.dtype != before.dtype:
        raise TraceError(
            f"{where}: {name!r} is {spec_text(before.shape, before.dtype)} before the loop and "
            f"{spec_text(leaf.shape, leaf.dtype)} after one round. Start it with that shape and dtype; 0.0 for floats."
        )
    return leaf


def _kind(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return spec_text(value.shape, value.dtype)
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return repr(value) if type(value) in PLAIN else f"a {type(value).__name__}"
