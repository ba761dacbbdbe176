"""Running a graph: which nodes, in which order, on which values.

A run names what it wants (fetches) and what it brings (feeds). The session finds what is needed, turns it once into a
flat list of kernel calls on numbered slots, keeps that list, and from then on a run is one loop over it.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from internals.device import Array, Device, base_array, cpu, device_of, move
from internals.device import device as device_called
from internals.graph.executor import Executor, Timeline
from internals.graph.graph import NO_OP, PLACEHOLDER, Graph
from internals.graph.inside import names_in, open_bodies
from internals.graph.node import GraphError, Node, spec_text
from internals.graph.passes import PASSES, rewrite
from internals.graph.pieces import pieces
from internals.graph.plan import Plan, needed
from internals.graph.specialise import specialise
from internals.graph.state import State
from internals.graph.watch import Asked, Condition, Listing, Seen, Watch, has_inf_or_nan, watcher
from internals.ops.table import is_array
from internals.tensor import Tensor

OF_THE_PLAN = ("reuse", "tile")
"""Passes that change no node, but how a plan runs them; see `internals.graph.buffers`."""
DEFAULT = (*PASSES, *OF_THE_PLAN)


class Session:
    """Runs a graph, and keeps the values of its variables from run to run.

    Parameters
    ----------
    graph : Graph
    passes : sequence of str
        How to rewrite what is to run: ``"fold"``, ``"simplify"``, ``"share"`` of `internals.graph.passes`, and
        ``"reuse"`` and ``"tile"`` of `internals.graph.buffers`. None at all: results are those of eager code to the
        bit.
    threads : int
        How many steps may run at once. Values do not depend on it.
    device : str or Device
        Where nodes run that were not asked to run elsewhere, by `Graph.device`.

    Examples
    --------
    >>> with Session(graph) as session:
    ...     session.initialise()
    ...     loss_value, _ = session.run([loss, train], {x: batch, y: labels})
    """

    def __init__(
        self,
        graph: Graph,
        *,
        passes: Sequence[str] = DEFAULT,
        threads: int = 1,
        device: str | Device = cpu,
    ) -> None:
        if not isinstance(graph, Graph):
            raise GraphError(f"session: expected a Graph, got {type(graph).__name__}.")
        self.graph, self.passes, self.device = graph, tuple(passes), device_called(device)
        self.executor = Executor(threads)
        self.state = State()
        self._plans: dict[Any, Plan] = {}
        self._watches: list[Watch] = []
        self._lock = threading.RLock()
        self._runs = itertools.count()
        self._closed = False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._closed:
            self.close()

    def close(self) -> None:
        """Forget the variables, and let the threads go.

        Raises
        ------
        GraphError
            It is closed already.
        """
        if self._closed:
            raise GraphError("session: it is closed already.")
        self._closed = True
        self.values.clear()
        self._plans.clear()
        self.executor.close()

    # Variables

    @property
    def values(self) -> dict[str, Array]:
        """The values of the variables, by name."""
        return self.state.values

    def initialise(self) -> None:
        """Give every variable its initial value, in the order in which they were made."""
        self._check_open()
        for node in self.graph.variables:
            initial = node.attrs["initial"]
            if isinstance(initial, Node):
                initial = self._run([initial], {}, None)[0]
            value = move(initial, node.device or self.device).copy()
            with self.state.lock:
                self.values[node.name] = value

    def save(self, path: str | os.PathLike[str], variables: Sequence[Node] | None = None) -> None:
        """Write variables to a safetensors file, in place of the one that may be there; all of them unless named.

        Raises
        ------
        GraphError
            One has no value yet.
        OSError
            It could not be written; what was at `path` is unchanged.
        """
        self._check_open()
        self.state.save(path, self.graph.variables if variables is None else variables)

    def restore(self, path: str | os.PathLike[str], variables: Sequence[Node] | None = None) -> None:
        """Give variables the values of a file that `save` wrote. They need not have been initialised.

        Raises
        ------
        GraphError
            The file has not all of them, or has others under their names; no variable is changed then.
        ValueError, FileNotFoundError
            It is no such file.
        """
        self._check_open()
        self.state.restore(path, self.graph.variables if variables is None else variables, self.device)

    # Running

    def run(self, fetches: Any, feeds: Mapping[Node, Any] | None = None, *, timeline: Timeline | None = None) -> Any:
        """Compute nodes.

        Parameters
        ----------
        fetches : Node, or a list or tuple of them
        feeds : mapping of Node to array-like
            A value for each placeholder that is needed; any other node may be fed too, and is not computed then.
        timeline : Timeline, optional
            Is told what ran when.

        Returns
        -------
        numpy.ndarray, or a list of them
            None for an operation that gives no value.

        Raises
        ------
        GraphError
            A needed placeholder is not fed, a value does not fit, a variable has no value yet, a fetch is of another
            graph, or the session is closed.
        """
        self._check_open()
        wanted = list(fetches) if isinstance(fetches, list | tuple) else [fetches]
        if feeds is not None and not isinstance(feeds, Mapping):
            raise GraphError(f"session: feeds are a dict from nodes to values, got {type(feeds).__name__}.")
        given = {node: self._fed(node, value) for node, value in (feeds or {}).items()} if feeds else {}
        answers = [one if one is None else _handed_out(one) for one in self._run(wanted, given, timeline)]
        return answers if isinstance(fetches, list | tuple) else answers[0]

    def _run(self, fetches: list[Node], given: dict[Node, Array], timeline: Timeline | None) -> list[Array | None]:
        plan = self.plan(fetches, given)
        with self.state.lock:
            slots = plan.start(list(given.values()), self.values, next(self._runs))
        return self.executor.run(plan, slots, timeline)

    # Looking inside

    def watch(self, pattern: str | Node, condition: Condition = has_inf_or_nan, *, stop: bool = True) -> Watch:
        """Stop a run, or note, where a value meets a condition.

        Runs are made without passes while there is a watchpoint, so that every node of the program is there.

        Parameters
        ----------
        pattern : str or Node
            A node, its name, or a pattern of names: ``"layer1/*"``; ``"*"`` is every node. Nodes in branches and loops
            are named after them: ``"while_loop/body/*"``.
        condition : callable ``array -> bool``
            See `internals.graph.watch` for `has_nan`, `has_inf_or_nan`, `outside`, `has_shape`, `always`.
        stop : bool
            Raise `Stopped`, with the node, its line and the value, at the first hit; else note hits in ``watch.hits``
            and go on.

        Raises
        ------
        GraphError
            No node has such a name, or the condition can't be called.
        """
        pattern = pattern.name if isinstance(pattern, Node) else pattern
        if not callable(condition):
            raise GraphError(f"watch: the condition must be a function of an array, got {condition!r}.")
        watch = Watch(pattern, condition, stop)
        if not any(map(watch.matches, names_in(self.graph.nodes))):
            raise GraphError(f"watch: no node of the graph is called {pattern!r}.")
        with self._lock:
            self._watches = [*self._watches, watch]
        watch.remove = lambda: self._forget(watch)
        return watch

    def _forget(self, watch: Watch) -> None:
        with self._lock:
            self._watches = [one for one in self._watches if one is not watch]

    def listing(self, fetches: Node | Sequence[Node], feeds: Mapping[Node, Any] | None = None) -> Listing:
        """Run, and give the value of every node that ran, in branches and loops too; see `run`."""
        wanted = [fetches] if isinstance(fetches, Node) else list(fetches)
        given = {node: self._fed(node, value) for node, value in (feeds or {}).items()}
        found = Listing()

        def of(node: Node, name: str) -> Any:
            plain = not isinstance(node.dtype, tuple) and node.op is not NO_OP
            return (lambda value: found.append(Seen(node, name, np.array(_on_host(value))))) if plain else None

        self._check_open()
        plan = self._planned(wanted, given, (), of)
        with self.state.lock:
            slots = plan.start(list(given.values()), self.values, next(self._runs))
        self.executor.run(plan, slots)
        return found

    def plan(self, fetches: Sequence[Node], feeds: Mapping[Node, Array]) -> Plan:
        """The run of these fetches with feeds of these shapes, made ready; kept for the next time."""
        watches = self._watches
        key = (
            tuple(map(id, fetches)),
            tuple([(id(node), value.shape) for node, value in feeds.items()]),
            tuple(map(id, watches)),
        )
        plan = self._plans.get(key)
        if plan is None:
            with self._lock:
                plan = self._plans.get(key)
                if plan is None:
                    passes, asked = ((), watcher(watches)) if watches else (self.passes, None)
                    plan = self._planned(fetches, feeds, passes, asked)
                    plan.holds = [*fetches, *feeds, *watches]  # so that their ids stay theirs
                self._plans[key] = plan
        return plan

    # Making a plan

    def _planned(
        self,
        fetches: Sequence[Node],
        feeds: Mapping[Node, Array],
        passes: Sequence[str],
        asked: Asked | None,
    ) -> Plan:
        for node in fetches:
            if not isinstance(node, Node):
                raise GraphError(f"session: a fetch must be a node, got {type(node).__name__}.")
            if node.graph is not self.graph:
                raise GraphError(f"session: {node.name} (made at {node.where}) is a node of another graph.")
        nodes = needed(fetches, set(feeds))
        for node in nodes:
            if node.op is PLACEHOLDER and node not in feeds:
                raise GraphError(
                    f"session: {node.name} (made at {node.where}), a placeholder of "
                    f"{spec_text(node.shape, node.dtype)}, is needed and was not fed. Give it a value: "
                    f"session.run(..., {{{node.name}: value}})."
                )
        shapes = {node: value.shape for node, value in feeds.items() if node in set(nodes)}
        graph, there = specialise(nodes, shapes)
        if asked is not None:
            open_bodies(graph, asked)
        rules = [name for name in passes if name not in OF_THE_PLAN]
        changed = rewrite(graph.nodes, [there[node] for node in fetches], rules).there
        return Plan(
            [changed.get(there[node]) if node in there else None for node in feeds],
            [changed[there[node]] for node in fetches],
            place=self.device,
            stateful=self.state.kernels,
            reuse="reuse" in passes,
            tile="tile" in passes,
            watch=None if asked is None else lambda node: asked(node, node.name),
        )

    # Values

    def _fed(self, node: Node, value: Any) -> Array:
        if not isinstance(node, Node):
            raise GraphError(f"session: the keys of feeds are nodes, got {type(node).__name__}.")
        if node.graph is not self.graph:
            raise GraphError(f"session: {node.name} (made at {node.where}) is fed, but is a node of another graph.")
        try:
            array = base_array(value.data if isinstance(value, Tensor) else value, "a feed")
        except TypeError as error:
            raise GraphError(f"session: {node.name} (made at {node.where}): {error}") from None
        if pieces.check_feed is not None:
            return pieces.check_feed(node.name, node.shape, node.dtype.name, np.asarray(array))
        try:
            array = array if is_array(array) else np.asarray(array)
        except (ValueError, TypeError) as error:
            raise GraphError(
                f"session: {node.name} (made at {node.where}) takes {spec_text(node.shape, node.dtype)}, and was fed "
                f"what is no array: {error}"
            ) from None
        if array.dtype != node.dtype:
            if is_array(value) or isinstance(value, Tensor) or not np.can_cast(array.dtype, node.dtype, "same_kind"):
                raise GraphError(
                    f"session: {node.name} (made at {node.where}) takes {node.dtype.name}, and was fed "
                    f"{array.dtype.name}. Cast it: value.astype({node.dtype.name!r})."
                )
            array = array.astype(node.dtype)
        fits = len(array.shape) == len(node.shape) and all(
            size in (None, given) for size, given in zip(node.shape, array.shape, strict=True)
        )
        if not fits:
            raise GraphError(
                f"session: {node.name} (made at {node.where}) takes {spec_text(node.shape, node.dtype)}, and was fed "
                f"an array of shape {array.shape}."
            )
        return array

    def _check_open(self) -> None:
        if self._closed:
            raise GraphError("session: it is closed, and its variables are gone. Make another.")


def _handed_out(array: Array) -> Any:
    """A result on the host, which the caller may change: a copy where a variable, a constant or a feed is behind it."""
    host = _on_host(array)
    if host is not array or isinstance(host, np.generic):
        return host
    shared = sys.getrefcount(array) > _ALONE or (host.base is not None and sys.getrefcount(host.base) > _BASE_ALONE)
    return host.copy() if shared else host


def _on_host(array: Array) -> Any:
    return array if isinstance(array, np.ndarray | np.generic) else device_of(array).to_host(array)


def _counts_when_alone() -> tuple[int, int]:
    def counts(array: Any) -> tuple[int, int]:
        host = _on_host(array)
        return sys.getrefcount(array), sys.getrefcount(host.base)

    return next(counts(one) for one in [np.empty((2, 2)).T])


_ALONE, _BASE_ALONE = _counts_when_alone()
