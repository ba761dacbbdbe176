"""Three decisions about a graph on many devices: what has to run, where, and where it is cut.

They are made on plain data, so that other rules can be put in their place: `swap`. A graph is a dict from each node's
name to a `Record`, in an order in which nodes can run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple


class Record(NamedTuple):
    """What is known of a node when it is placed.

    Attributes
    ----------
    op : str
    inputs, controls : tuple of str
        What it is made from, and what only has to run before it.
    device : str or None
        Where it was asked to run.
    beside : str or None
        The node on whose device it has to be: of an assignment, its variable.
    """

    op: str
    inputs: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    device: str | None = None
    beside: str | None = None


Records = Mapping[str, Record]
Step = tuple[str, ...]
"""``("run", name)``, ``("send", name, to device)`` or ``("recv", name, from device)``."""


def prune(graph: Records, fetches: Sequence[str]) -> set[str]:
    """All that has to run for the fetches: what they are made from, and what has to run before."""
    found: set[str] = set()
    stack = list(fetches)
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack += graph[name].inputs
            stack += graph[name].controls
    return found


def place(graph: Records, default: str) -> dict[str, str]:
    """The device of each node: beside the node that it belongs to; else where it was asked to be; else the default.

    What belongs together forms a group with one device, that of the first member which was asked to be somewhere.
    """
    leader: dict[str, str] = {}

    def of(name: str) -> str:
        while leader.get(name, name) != name:
            name = leader[name]
        return name

    asked: dict[str, str] = {}
    for name, record in graph.items():
        leader.setdefault(name, name)
        if record.beside is not None:
            leader[of(name)] = of(record.beside)
        elif record.device is not None:
            asked.setdefault(name, record.device)
    chosen: dict[str, str] = {}
    for name, device in asked.items():
        chosen.setdefault(of(name), device)
    return {name: chosen.get(of(name), default) for name in graph}


def cut(graph: Records, places: Mapping[str, str]) -> dict[str, list[Step]]:
    """What each device has to do, in an order in which it can.

    Where an edge goes from one device to another, the one sends and the other receives: once for each tensor and each
    device that reads it, however many nodes there do.
    """
    parts: dict[str, list[Step]] = {device: [] for device in dict.fromkeys(places.values())}
    sent: set[tuple[str, str]] = set()
    for name, record in graph.items():
        here = places[name]
        for source in (*record.inputs, *record.controls):
            there = places[source]
            if there != here and (source, here) not in sent:
                sent.add((source, here))
                parts[there].append(("send", source, here))
                parts[here].append(("recv", source, there))
        parts[here].append(("run", name))
    return parts


class _Pieces:
    """What the runtime decides by; `swap` puts others there."""

    prune: Callable[..., Any] = staticmethod(prune)
    place: Callable[..., Any] = staticmethod(place)
    cut: Callable[..., Any] = staticmethod(cut)


pieces = _Pieces()


@contextmanager
def swap(**mine: Callable[..., Any]) -> Iterator[None]:
    """Put other pieces into the masters of this process: ``with swap(cut=cut): train()``.

    Parameters
    ----------
    prune : callable ``(graph, fetches)`` -> collection of names
    place : callable ``(graph, default)`` -> dict of name to device
    cut : callable ``(graph, places)`` -> dict of device to steps

    Raises
    ------
    ValueError
        The runtime has no such piece.
    """
    unknown = mine.keys() - _Pieces.__annotations__.keys()
    if unknown:
        raise ValueError(
            f"swap: the runtime has no piece called {', '.join(sorted(unknown))}; it has prune, place, cut."
        )
    kept = {name: getattr(pieces, name) for name in mine}
    for name, piece in mine.items():
        setattr(pieces, name, piece)
    try:
        yield
    finally:
        for name, piece in kept.items():
            setattr(pieces, name, piece)
