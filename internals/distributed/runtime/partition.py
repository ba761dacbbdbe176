"""From fetches to parts: what each task is given, as data, to run its share of a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals.device import DeviceError
from internals.distributed.runtime.cluster import Asked, ClusterSpec, Place, parse
from internals.distributed.runtime.cut import Record, Step, pieces
from internals.graph.graph import APPLY, CONSTANT, PLACEHOLDER, STATEFUL, VARIABLE, Graph
from internals.graph.node import GraphError, Node, spec_text
from internals.graph.passes import rewrite
from internals.graph.specialise import specialise
from internals.tensor.results import RESULT


@dataclass
class Part:
    """What one device does in a step.

    Attributes
    ----------
    place : Place
    graph : Graph
        Its nodes; what it receives are placeholders in it, under the name of the node that is sent.
    steps : list of tuple
        As `internals.distributed.runtime.cut` gives them.
    feeds : dict of str to int
        Its placeholders that are fed, and which of the run's feeds each takes.
    fetches : list of (int, str)
        Which of the run's fetches it gives, and by which node.
    whole : set of (str, str)
        The sends whose value is read; of the others, only that they ran.
    """

    place: Place
    graph: Graph = field(default_factory=Graph)
    steps: list[Step] = field(default_factory=list)
    feeds: dict[str, int] = field(default_factory=dict)
    fetches: list[tuple[int, str]] = field(default_factory=list)
    whole: set[tuple[str, str]] = field(default_factory=set)

    @property
    def sends(self) -> list[tuple[str, str]]:
        """(node, to which device)"""
        return [(step[1], step[2]) for step in self.steps if step[0] == "send"]

    @property
    def receives(self) -> list[tuple[str, str]]:
        """(node, from which device)"""
        return [(step[1], step[2]) for step in self.steps if step[0] == "recv"]


def key(name: str, source: str, target: str) -> str:
    """What a send and its receive know each other by, within a step."""
    return f"{name} from {source} to {target}"


def variable_places(graph: Graph, cluster: ClusterSpec, default: Place) -> dict[str, str]:
    """Where each variable of a graph is kept. It depends on the whole graph, and so not on what is fetched."""
    beside: dict[str, str] = {}
    for node in graph.nodes:
        if node.op is APPLY:  # what a rule remembers of a variable is kept beside it
            first, *slots = [node.inputs[i] for i in sorted(STATEFUL[APPLY](node))]
            beside.update({slot.name: first.name for slot in slots})
    records = {
        node.name: Record(node.op.name, device=_asked(node, cluster, default), beside=beside.get(node.name))
        for node in graph.variables
    }
    return dict(pieces.place(records, str(default))) if records else {}


def divide(
    graph: Graph,
    fetches: Sequence[str],
    feeds: Mapping[str, tuple[int, ...]],
    *,
    cluster: ClusterSpec,
    default: Place,
    variables: Mapping[str, str],
    passes: Sequence[str] = (),
) -> list[Part]:
    """The parts of a run.

    Parameters
    ----------
    graph : Graph
    fetches : sequence of str
    feeds : mapping of str to shape
    cluster : ClusterSpec
    default : Place
        Where nodes run that were not asked to run elsewhere.
    variables : mapping of str to str
        Where the variables are.
    passes : sequence of str
        Those of `internals.graph.passes`, run over the whole before it is cut.

    Raises
    ------
    GraphError
        A fetch or feed is not in the graph, a placeholder is not fed, a device does not exist, or the cut can't run.
    """
    nodes = _pruned(graph, fetches, feeds)
    shapes = {graph.by_name[name]: tuple(shape) for name, shape in feeds.items() if graph.by_name[name] in set(nodes)}
    fresh, there = specialise(nodes, shapes)
    wanted = [graph.by_name[name] for name in fetches]
    changed = rewrite(fresh.nodes, [there[node] for node in wanted], passes).there
    final = [changed[there[node]] for node in wanted]
    fed = {}
    for number, name in enumerate(feeds):
        made = changed.get(there[graph.by_name[name]]) if graph.by_name[name] in there else None
        if made is not None:
            fed[made.name] = number
    kept = _needed_in_order(final)
    spread = {node.name for node in kept if _is_spread(node)}
    records = {
        node.name: _record(node, spread, variables, cluster, default) for node in kept if node.name not in spread
    }
    places = dict(pieces.place(records, str(default)))
    _check_places(records, places, cluster)
    steps = pieces.cut(records, places)
    return _Builder({node.name: node for node in kept}, places, spread, fed, default, cluster).parts(
        steps, [node.name for node in final]
    )


def _pruned(graph: Graph, fetches: Sequence[str], feeds: Mapping[str, Any]) -> list[Node]:
    for name in (*fetches, *feeds):
        if name not in graph.by_name:
            raise GraphError(f"session: the graph that the master has holds no node called {name!r}.")
    records = {
        node.name: Record(
            node.op.name,
            () if node.name in feeds else tuple(one.name for one in node.inputs if isinstance(one, Node)),
            () if node.name in feeds else tuple(one.name for one in node.controls),
        )
        for node in graph.nodes
    }
    names = set(pieces.prune(records, list(fetches)))
    for name in sorted(names):
        if name not in records:
            raise GraphError(f"prune: there is no node called {name!r} to keep.")
        for source in (*records[name].inputs, *records[name].controls):
            if source not in names:
                raise GraphError(f"prune: {source} was left out, and {name} needs it.")
    for name in fetches:
        if name not in names:
            raise GraphError(f"prune: {name} was left out, and it is fetched.")
    nodes = [node for node in graph.nodes if node.name in names]
    for node in nodes:
        if node.op is PLACEHOLDER and node.name not in feeds:
            raise GraphError(
                f"session: {node.name} (made at {node.where}), a placeholder of "
                f"{spec_text(node.shape, node.dtype)}, is needed and was not fed. Give it a value: "
                f"session.run(..., {{{node.name}: value}})."
            )
    return nodes


def _needed_in_order(fetches: Sequence[Node]) -> list[Node]:
    """What the fetches need, after passes; each after what it is made from."""
    seen: set[Node] = set()
    stack = list(fetches)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += [one for one in (*node.inputs, *node.controls) if isinstance(one, Node)]
    return sorted(seen, key=lambda node: node.order)


def _is_spread(node: Node) -> bool:
    """Whether a node is a value that each part which reads it is given, once or with every step."""
    return node.op in (CONSTANT, PLACEHOLDER) and not _parsed(node).names_a_task


def _asked(node: Node, cluster: ClusterSpec, default: Place) -> str | None:
    _parsed(node)
    try:
        return None if node.device is None else str(cluster.place(node.device, default))
    except DeviceError as error:
        raise GraphError(f"{node.name} (made at {node.where}): {error}") from None


def _parsed(node: Node) -> Asked:
    """What the device that a node asks for says."""
    try:
        return Asked() if node.device is None else parse(node.device)
    except DeviceError as error:
        raise GraphError(f"{node.name} (made at {node.where}): {error}") from None


def _record(node: Node, spread: set[str], variables: Mapping[str, str], cluster: ClusterSpec, default: Place) -> Record:
    _check_bodies(node)
    together = node.op in STATEFUL or node.op is RESULT
    return Record(
        node.op.name,
        tuple(one.name for one in node.inputs if isinstance(one, Node) and one.name not in spread),
        tuple(one.name for one in node.controls if one.name not in spread),
        variables[node.name] if node.op is VARIABLE else _asked(node, cluster, default),
        node.inputs[0].name if together else None,
    )


def _check_bodies(node: Node) -> None:
    """Refuse a branch or a loop part of which is asked to run on another task than the rest."""
    made = getattr(node.op, "made", None)
    for function in made[1].values() if made is not None else ():
        for inner in function.graph.nodes:
            if _parsed(inner).names_a_task:
                raise GraphError(
                    f"{inner.name} (made at {inner.where}) is asked to run on {inner.device}, inside the "
                    f"{node.op.name} {node.name} (made at {node.where}). A {node.op.name} runs whole, on one "
                    "device: put the scope around all of it."
                )
            _check_bodies(inner)


def _check_places(records: Mapping[str, Record], places: Mapping[str, str], cluster: ClusterSpec) -> None:
    for name, record in records.items():
        if name not in places:
            raise GraphError(f"place: {name} was given no device.")
        if record.beside is not None and places[name] != places[record.beside]:
            raise GraphError(
                f"place: {name} is on {places[name]} and {record.beside}, beside which it has to be, on "
                f"{places[record.beside]}."
            )
        asked = parse(places[name])
        cluster.address(asked.job or "", asked.task or 0)


class _Builder:
    """Makes a graph for each device of a cut."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        places: Mapping[str, str],
        spread: set[str],
        fed: Mapping[str, int],
        default: Place,
        cluster: ClusterSpec,
    ) -> None:
        self.nodes, self.places, self.spread, self.fed = nodes, places, spread, fed
        self.default, self.cluster = default, cluster
        # Whose value a device reads; of what else it receives, it only has to know that it ran.
        self.read = {
            (one.name, places.get(node.name)) for node in nodes.values() for one in node.inputs if isinstance(one, Node)
        }

    def parts(self, cut: Mapping[str, Sequence[Step]], fetches: Sequence[str]) -> list[Part]:
        self._check_pairs(cut)
        made: dict[str, Part] = {}
        for device, steps in cut.items():
            part = made[device] = Part(self.cluster.place(device, self.default), steps=[tuple(one) for one in steps])
            part.graph.reserve(self.nodes)
            for step in steps:
                self._add(part, device, *step)
        for number, name in enumerate(fetches):
            device = self.places.get(name, str(self.default))
            part = made.setdefault(device, Part(self.cluster.place(device, self.default)))
            if name in self.spread:
                self._source(part, self.nodes[name])
            if name not in part.graph.by_name:
                raise GraphError(f"cut: {name} is fetched, and does not run on {device}.")
            part.fetches.append((number, name))
        return [part for part in made.values() if part.steps or part.fetches]

    def _check_pairs(self, cut: Mapping[str, Sequence[Step]]) -> None:
        """Refuse a cut in which something would be waited for for ever, or done twice."""
        ran = Counter((step[1], device) for device, steps in cut.items() for step in steps if step[0] == "run")
        sends = Counter((s[1], device, s[2]) for device, steps in cut.items() for s in steps if s[0] == "send")
        receives = Counter((s[1], s[2], device) for device, steps in cut.items() for s in steps if s[0] == "recv")
        for (name, device), times in ran.items():
            if self.places.get(name) != device or times > 1:
                raise GraphError(
                    f"cut: {name} runs on {device}, {times} times; it was placed on {self.places.get(name)}, once."
                )
        for (name, source, target), times in sends.items():
            if times > 1:
                raise GraphError(
                    f"cut: {name} is sent from {source} to {target} {times} times; once is enough for all readers."
                )
            if (name, source) not in ran:
                raise GraphError(f"cut: {source} sends {name}, which does not run there.")
            if (name, source, target) not in receives:
                raise GraphError(f"cut: {name} is sent from {source} to {target}, where nobody receives it.")
        for (name, source, target), times in receives.items():
            if (name, source, target) not in sends or times > 1:
                raise GraphError(
                    f"cut: {target} would wait for ever for {name}: {source} does not send it there"
                    f"{' a second time' if times > 1 else ''}."
                )

    def _add(self, part: Part, device: str, kind: str, name: str, other: str = "") -> None:
        node = self.nodes.get(name)
        if node is None or kind not in ("run", "send", "recv"):
            raise GraphError(f"cut: {kind!r} of {name!r} is no step of this graph.")
        if kind == "recv":
            shape, dtype = (node.shape, node.dtype) if (name, device) in self.read else ((0,), np.float32)
            part.graph.placeholder(shape, dtype, name=name).where = node.where
        elif kind == "run":
            self._run(part, node)
        elif (name, other) in self.read:
            part.whole.add((name, other))

    def _run(self, part: Part, node: Node) -> None:
        graph = part.graph
        attrs = node.attrs
        if node.op is PLACEHOLDER:
            self._source(part, node)
            return
        if node.op is VARIABLE:  # of its value, only the kind: that is where the variable is kept
            attrs = {"initial": graph.placeholder(node.shape, node.dtype, name=f"{node.name}/initial")}
        inputs = [self._read(part, one, node) if isinstance(one, Node) else one for one in node.inputs]
        made = graph.add(node.op, inputs, attrs, name=node.name)
        made.where = node.where
        if node.op is VARIABLE and node.device is not None and not parse(node.device).names_a_task:
            made.device = parse(node.device).device  # a count that the host reads, beside a variable on an accelerator
        made.controls = tuple(self._read(part, one, node) for one in node.controls if one.name not in self.spread)

    def _read(self, part: Part, source: Node, reader: Node) -> Node:
        if source.name in self.spread:
            return self._source(part, source)
        if source.name not in part.graph.by_name:
            raise GraphError(
                f"cut: {reader.name} runs on {part.place} before {source.name}, which it needs, has run or been "
                "received there."
            )
        return part.graph.by_name[source.name]

    def _source(self, part: Part, node: Node) -> Node:
        """A constant or a feed, in this part."""
        if node.name in part.graph.by_name:
            return part.graph.by_name[node.name]
        if node.op is CONSTANT:
            made = part.graph.constant(node.attrs["value"], name=node.name)
        else:
            made = part.graph.placeholder(node.shape, node.dtype, name=node.name)
            part.feeds[node.name] = self.fed[node.name]
        made.where = node.where
        return made
