"""Reverse mode: walk the tape from a result back to its leaves, pulling a cotangent through one rule per node.

Nodes are visited from the highest `order` down. A node's order is above that of everything it was made from, so when a
node is reached all its consumers have been, and its cotangent is complete: the order of recording is a topological
order already, and no recursion and no counting of consumers is needed, however deep the graph.

The rules only state the mathematics. What every rule would otherwise have to do is done here, once: summing over axes
that were broadcast, checking the shape and dtype of what a rule returns, refusing values that changed since they were
saved, freeing a node as soon as it was used, and naming the operation in every error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any

import numpy as np

from internals.autodiff.checkpoint import recompute
from internals.autodiff.hooks import last_readers, passed, whole_pass
from internals.device import Array, device_of, is_writable, shares_memory
from internals.ops import clone
from internals.ops.rules import pull
from internals.ops.spec import Spec
from internals.tensor import Leaf, Node, Tensor, enable_grad, install_reverse_pass, no_grad, wrap
from internals.tensor.hooks import accumulated, hooks
from internals.tensor.node import recorded_pass
from internals.tensor.results import Parts, is_floating, picked


class StaleTape(RuntimeError):
    """A value that a rule needs was changed in place since it was saved, or the tape was used already."""


def backward(
    tensor: Tensor, gradient: Tensor | None = None, *, retain_graph: bool = False, create_graph: bool = False
) -> None:
    """Add the gradient of `tensor` by every leaf to the leaf's ``grad``; see `Tensor.backward`."""
    with whole_pass:
        _accumulate(_current.walk({tensor.node: _start(tensor, gradient)}, retain_graph, create_graph))


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    gradients: Tensor | Sequence[Tensor | None] | None = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> Any:
    """Gradients of outputs by inputs, handed back rather than added to ``grad``.

    Parameters
    ----------
    outputs, inputs : Tensor or sequence of Tensors
        `inputs` may be any tensors that require a gradient, leaves or not.
    gradients : Tensor or sequence, optional
        The cotangent of each output, of its shape and dtype; 1 for an output of one entry.
    retain_graph : bool, optional
        Keep the tape; as `create_graph` unless given.
    create_graph : bool
        Record the computation of the gradients, so that they can be differentiated again.
    allow_unused : bool
        Give None for an input that the outputs do not depend on, instead of raising.

    Returns
    -------
    Tensor, or a tuple of them where `inputs` is a sequence.

    Raises
    ------
    RuntimeError
        An input does not require a gradient, or is not used.
    StaleTape
        See `Tensor.backward`.
    """
    for given in (outputs, inputs):
        if not isinstance(given, Tensor | list | tuple):
            raise TypeError(
                f"grad: takes tensors that were computed, got {type(given).__name__}. To differentiate a function, and "
                "inside jvp, vjp and vmap, use autodiff.gradient(function) or autodiff.vjp(function, ...)."
            )
    results = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    sources = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    starts = [gradients] if isinstance(gradients, Tensor) or gradients is None else list(gradients)
    if len(starts) == 1 and starts[0] is None:
        starts = [None] * len(results)
    if len(starts) != len(results):
        raise ValueError(f"grad: {len(results)} outputs need as many gradients, got {len(starts)}.")
    for position, source in enumerate(sources):
        if source.node is None:
            raise RuntimeError(f"grad: input {position} does not require a gradient, so nothing was recorded for it.")
    pending: dict[Node | Leaf, Any] = {}
    for result, start in zip(results, starts, strict=True):
        seed = _start(result, start)
        assert result.node is not None
        pending[result.node] = seed if result.node not in pending else pending[result.node] + seed
    wanted = {source.node for source in sources if source.node is not None}
    keep = create_graph if retain_graph is None else retain_graph or create_graph
    found = _reverse(pending, keep, create_graph, wanted)
    answers: list[Tensor | None] = []
    for position, source in enumerate(sources):
        cotangent = found.get(source.node) if source.node is not None else None
        if cotangent is None and not allow_unused:
            raise RuntimeError(
                f"grad: the outputs do not depend on input {position}. Pass allow_unused=True to get None for it."
            )
        answers.append(cotangent if cotangent is None or isinstance(cotangent, Tensor) else wrap(_copied(cotangent)))
    return answers[0] if isinstance(inputs, Tensor) else tuple(answers)


def _start(tensor: Tensor, gradient: Tensor | None) -> Tensor:
    if tensor.node is None:
        raise RuntimeError(
            "backward: this tensor does not require a gradient: none of its inputs does, it was made under no_grad, "
            "or by an operation that has no derivative. Set requires_grad=True on what you differentiate by, before "
            "computing."
        )
    if gradient is None:
        if tensor.size != 1:
            raise RuntimeError(
                f"backward: a tensor of shape {tensor.shape} has {tensor.size} entries; reduce it to one, or pass the "
                "gradient to start from."
            )
        xp = device_of(tensor.data).xp
        return wrap(xp.ones_like(tensor.data))
    if not isinstance(gradient, Tensor):
        gradient = Tensor(gradient, dtype=tensor.dtype, device=tensor.device)
    if gradient.shape != tensor.shape or gradient.dtype != tensor.dtype:
        raise ValueError(
            f"backward: the gradient is {Spec(gradient.shape, gradient.dtype)}, but the tensor "
            f"{Spec(tensor.shape, tensor.dtype)}; they must agree."
        )
    if gradient.device is not tensor.device:
        raise ValueError(
            f"backward: the gradient is on {gradient.device}, the tensor on {tensor.device}. Move it: "
            f"gradient.to('{tensor.device}')."
        )
    return gradient


def _reverse(
    start: dict[Any, Tensor], retain_graph: bool, create_graph: bool, wanted: set[Any] | None = None
) -> dict[Any, Any]:
    """Pull cotangents from the start nodes to the leaves, or to the `wanted` nodes.

    Cotangents are bare arrays, and Tensors where the pass itself is to be recorded.
    """
    pending: dict[Any, Any] = {}
    heap: list[tuple[int, Node]] = []
    found: dict[Any, Any] = {}
    useful = None if wanted is None else _leading_to(wanted, start)
    watched, pull_node = hooks if len(hooks) else None, _current.rule
    completes = last_readers(start) if len(accumulated) and wanted is None else None
    for node, gradient in start.items():
        pending[node] = gradient if create_graph else gradient.data
        if type(node) is Node:
            heappush(heap, (-node.order, node))
    with recorded_pass() if create_graph else no_grad():
        while heap:
            node = heappop(heap)[1]
            cotangent = pending.pop(node)
            if watched is not None and node in watched:
                cotangent = passed(node, cotangent)
            if wanted is not None and node in wanted:
                found[node] = cotangent
            if node.retained is not None:
                found[node.retained] = cotangent
            edges = node.inputs
            if useful is not None:
                edges = tuple([edge if edge in useful else None for edge in edges])
            pieces: Any = pull_node(node, cotangent, retain_graph, edges)
            for edge, piece in zip(edges, pieces):  # noqa: B905 - of one length, and this loop is hot
                if piece is None:
                    continue
                if edge in pending:
                    pending[edge] = pending[edge] + piece
                else:
                    pending[edge] = piece
                    if type(edge) is Node:
                        heappush(heap, (-edge.order, edge))
            if completes:
                for leaf in completes.pop(node, ()):
                    if leaf in pending:
                        if watched is not None and leaf in watched:
                            pending[leaf] = passed(leaf, pending[leaf])
                        pieces = piece = cotangent = None  # a cotangent that no one else holds need not be copied
                        _accumulate({leaf: pending.pop(leaf)})
    for edge, cotangent in pending.items():
        if wanted is None or edge in wanted:
            found[edge] = cotangent
    if watched is not None:
        for edge in [edge for edge in found if type(edge) is Leaf and edge in watched]:
            with enable_grad() if create_graph else no_grad():
                found[edge] = passed(edge, found[edge])
    return found


def _leading_to(wanted: set[Any], start: Iterable[Any]) -> set[Any]:
    """The nodes between `start` and `wanted`: those whose cotangent is asked for, or needed on the way there."""
    reached: set[Any] = set()
    stack = list(start)
    while stack:
        node = stack.pop()
        if node is not None and node not in reached:
            reached.add(node)
            stack.extend(node.inputs)
    useful = {node for node in reached if node in wanted}
    for node in sorted((node for node in reached if type(node) is Node), key=lambda node: node.order):
        if not useful.isdisjoint(node.inputs):
            useful.add(node)
    return useful


def pullback(
    node: Node, cotangent: Any, retain_graph: bool = False, wanted: Sequence[Any] | None = None
) -> Sequence[Any]:
    """One node's share of the reverse pass: the cotangent of its result in, one for each of its inputs out.

    Parameters
    ----------
    node : Node
    cotangent : array or Tensor
        Of the shape and dtype of the node's result. A Tensor has the pass recorded.
    retain_graph : bool
        Keep what the node saved; otherwise it can be used this once.
    wanted : sequence, optional
        The node's inputs, with None for those whose cotangent nobody asks for; all of them unless given.

    Returns
    -------
    sequence of (array, Tensor or None)
        None for an input that needs no gradient.

    Raises
    ------
    StaleTape
        A saved value changed since, or the node was used.
    """
    op, out = node.op, node.out
    saved: Sequence[Any] | None = node.saved
    if saved is None:
        if not recompute(node) or node.saved is None:
            raise StaleTape(
                f"backward: the tape was used already: what {op.name} had saved was freed in the first pass. Pass "
                "retain_graph=True to the first backward to go over it twice."
            )
        saved, out = node.saved, node.out
    for storage, version, name in node.guards:
        if storage.version != version:
            raise StaleTape(
                f"backward: {op.name} saved its {name}, which was changed in place {storage.version - version} "
                "time(s) since. Use an operation that makes a new tensor, or clone() before the change."
            )
    if type(cotangent) is Tensor:
        if out is not None:
            out = wrap(out)
            out.node = node
    elif type(cotangent) is Parts:
        cotangent, recorded = cotangent.filled(op.fills)
        if not recorded:
            saved = [value.data if type(value) is Tensor else value for value in saved]
        elif out is not None:
            out = op.bundle([array if array is None else _as_result(array, node, i) for i, array in enumerate(out)])
    elif op.saves:
        saved = [value.data if type(value) is Tensor else value for value in saved]
    pieces = pull(op, cotangent, out, saved, node.attrs or _NO_ATTRS, node.inputs if wanted is None else wanted)
    if not retain_graph:
        node.saved, node.out, node.guards, node.inputs = None, None, (), ()
    return pieces


_NO_ATTRS: dict[str, Any] = {}


def _as_result(array: Array, node: Node, index: int) -> Tensor:
    """A saved result of a row with several, on the tape again."""
    result = wrap(array)
    if is_floating(array):
        result.node = picked(node, index)
    return result


def _accumulate(found: dict[Leaf, Any]) -> None:
    """Add what a pass found to the leaves' gradients."""
    while found:
        leaf, cotangent = found.popitem()
        if isinstance(cotangent, Tensor):
            # A clone: one Tensor may have come to several leaves, and be the caller's own.
            with enable_grad():
                leaf.grad = clone(cotangent) if leaf.grad is None else leaf.grad + cotangent
        elif leaf.grad is None:
            leaf.grad = wrap(_owned(cotangent))
        elif leaf.grad.node is not None:
            leaf.grad = wrap(_owned(leaf.grad.data + cotangent))
        else:
            leaf.grad.data[...] += cotangent
            leaf.grad.storage.version += 1
        if leaf in accumulated:
            for function in list(accumulated[leaf].values()):
                function()


def _owned(cotangent: Array) -> Array:
    """The cotangent as an array nothing else will write to: itself if no one else holds it, else a copy.

    A rule may hand the same array to several inputs, or a view of it; two gradients on one memory would
    change together.
    """
    if isinstance(cotangent, np.generic):
        return np.asarray(cotangent)
    alone = sys.getrefcount(cotangent) <= _ALONE and cotangent.base is None and is_writable(cotangent)
    return cotangent if alone else cotangent.copy()


def _copied(cotangent: Array) -> Array:
    return np.array(cotangent) if isinstance(cotangent, np.generic) else cotangent.copy()


def _references_when_alone() -> int:
    """What `_owned` counts for an array that only its caller holds; how many that is depends on the interpreter."""
    found = {0: np.empty(1)}
    _, cotangent = found.popitem()
    return _references(cotangent)


def _references(cotangent: Array) -> int:
    return sys.getrefcount(cotangent)


_ALONE = _references_when_alone()


class _Current:
    """The reverse pass in use, and what it does at each node; others can be put in their place for a while."""

    walk: Callable[[dict[Any, Tensor], bool, bool], dict[Any, Any]] = staticmethod(_reverse)
    rule: Callable[..., Sequence[Any]] = staticmethod(pullback)


_current = _Current()

install_reverse_pass(backward)


@contextmanager
def rule_in_use(rule: Callable[..., Sequence[Any]]) -> Iterator[None]:
    """Let another function than `pullback`, which takes the same, do each node's share for a while."""
    before, _current.rule = _current.rule, rule
    try:
        yield
    finally:
        _current.rule = before


@contextmanager
def swap(*, backward: Callable[[Any, Any], dict[Any, Any]]) -> Iterator[None]:
    """Let another function walk the tape for a while: ``with swap(backward=mine): train()``.

    Parameters
    ----------
    backward : callable, ``backward(root, cotangent) -> {leaf: cotangent}``
        `root` and what is reached from it offer ``inputs`` (a tuple of such nodes, empty for a leaf) and ``rule(g)``,
        which gives one cotangent per input. Cotangents are bare arrays. Hooks and `retain_grad` are the built-in
        pass's; they do nothing here.
    """

    def walk(start: dict[Any, Tensor], retain_graph: bool, create_graph: bool) -> dict[Any, Any]:
        if create_graph:
            raise RuntimeError(
                "swap: a swapped backward pass works on bare arrays and can't be recorded; create_graph needs the one "
                "built in."
            )
        found: dict[Any, Any] = {}
        views: dict[Any, _NodeView] = {}
        with no_grad():
            for node, gradient in start.items():
                answer = backward(_view(node, retain_graph, views), gradient.data)
                for leaf, cotangent in _checked_answer(answer).items():
                    found[leaf.of] = cotangent if leaf.of not in found else found[leaf.of] + cotangent
        return found

    before, _current.walk = _current.walk, walk
    try:
        yield
    finally:
        _current.walk = before


def _checked_answer(answer: Any) -> dict[Any, Any]:
    """What a swapped backward pass returned, if it may be added to the gradients of leaves."""
    if not isinstance(answer, dict):
        raise TypeError(f"swap: backward returned {type(answer).__name__}; expected a dict from leaf to cotangent.")
    for node, cotangent in answer.items():
        if not isinstance(node, _NodeView) or type(node.of) is not Leaf:
            raise TypeError(f"swap: backward returned a cotangent for {node!r}, which is no leaf of the tape.")
        has_dtype, want = hasattr(cotangent, "dtype"), Spec(node.of.shape, node.of.dtype)
        got = Spec(cotangent.shape, cotangent.dtype) if has_dtype else type(cotangent).__name__
        if got != want:
            raise ValueError(f"swap: backward returned a cotangent of {got} for a leaf of {want}; they must agree.")
    return answer


class _NodeView:
    """A node as a swapped backward pass sees it."""

    __slots__ = ("_inputs", "_retain", "_views", "of")

    def __init__(self, of: Any, retain: bool, views: dict[Any, _NodeView]) -> None:
        self.of, self._retain, self._views = of, retain, views
        self._inputs: tuple[_NodeView, ...] | None = None

    @property
    def name(self) -> str:
        return self.of.op.name if type(self.of) is Node else "leaf"

    @property
    def inputs(self) -> tuple[_NodeView, ...]:
        if self._inputs is None:
            edges = [edge for edge in self.of.inputs if edge is not None]
            self._inputs = tuple(_view(edge, self._retain, self._views) for edge in edges)
        return self._inputs

    def rule(self, cotangent: Any) -> tuple[Any, ...]:
        edges = self.of.inputs
        _ = self.inputs  # the node forgets them once it is used
        pieces = _current.rule(self.of, cotangent, self._retain)
        return tuple(piece for edge, piece in zip(edges, pieces, strict=True) if edge is not None)

    def __repr__(self) -> str:
        return repr(self.of)


def _view(node: Any, retain: bool, views: dict[Any, _NodeView]) -> _NodeView:
    if node not in views:
        views[node] = _NodeView(node, retain, views)
    return views[node]


__all__ = ["StaleTape", "backward", "grad", "pullback", "shares_memory", "swap"]
