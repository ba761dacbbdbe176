"""Places where other pieces can be put into sessions for a while: those that a learner writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class _Pieces:
    """What sessions use in place of their own; None where they use their own."""

    needed: Callable[..., Any] | None = None
    run_order: Callable[..., Any] | None = None
    free_after: Callable[..., Any] | None = None
    check_feed: Callable[..., Any] | None = None


pieces = _Pieces()


@contextmanager
def swap(**mine: Callable[..., Any]) -> Iterator[None]:
    """Put other pieces into sessions: ``with swap(needed=needed, free_after=free_after): train()``.

    Nodes are known to a piece by their names.

    Parameters
    ----------
    needed : callable ``(fetches, inputs, fed)`` -> names
        What must be there for the fetches, where `inputs` lists what each node is made from.
    run_order : callable ``(nodes, inputs)`` -> list of names
        An order in which nodes can run.
    free_after : callable ``(order, inputs, fetches)`` -> list of collections
        For each place of the order, the values that nobody reads afterwards.
    check_feed : callable ``(name, shape, dtype, value)`` -> array

    Raises
    ------
    ValueError
        Sessions have no such piece.
    """
    unknown = mine.keys() - _Pieces.__annotations__.keys()
    if unknown:
        raise ValueError(f"swap: a session has no piece called {', '.join(sorted(unknown))}.")
    kept = {name: getattr(pieces, name) for name in mine}
    for name, piece in mine.items():
        setattr(pieces, name, piece)
    try:
        yield
    finally:
        for name, piece in kept.items():
            setattr(pieces, name, piece)
