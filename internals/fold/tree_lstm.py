"""A network that has the shape of each example: a Tree-LSTM, written as ordinary recursion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from internals import nn, ops
from internals.fold.batch import defer
from internals.fold.operation import operation
from internals.nn.module import parameter

State = tuple[Any, Any]
"""Hidden and cell state, each of shape (hidden,)."""


class Node(Protocol):
    """A node of a tree: what kind it is of, and its children."""

    @property
    def kind(self) -> int: ...

    @property
    def children(self) -> Sequence[Node]: ...


class TreeLSTM(nn.Module):
    """Reads a tree of labelled nodes from its leaves up.

    A node starts from the row of a table for its kind, and takes in its children one after the other; each time a
    binary Tree-LSTM cell makes one state of two (Tai, Socher & Manning 2015, section 3.2):
    ``c = i * u + f * c_node + g * c_child``, ``h = o * tanh(c)``, with all gates from ``[h_node, h_child]``.

    Parameters
    ----------
    kinds : int
        How many kinds of node there are.
    hidden : int
    classes : int
        How many scores `forward` gives for a tree.
    whole_cells : bool
        Note a cell as one call, not as its rows.
    rng : numpy.random.Generator, optional
    """

    def __init__(
        self,
        kinds: int,
        hidden: int,
        classes: int,
        *,
        whole_cells: bool = True,
        rng: np.random.Generator | None = None,
    ) -> None:
        rng = rng or np.random.default_rng()
        self.hidden = hidden
        self.table = parameter(rng.normal(0, 0.5, (kinds, 2 * hidden)))
        self.gates = nn.Linear(2 * hidden, 5 * hidden, rng=rng)
        self.scores = nn.Linear(hidden, classes, rng=rng)
        self.cell: Callable[..., State] = operation(self.compose) if whole_cells else self.compose

    def compose(self, node: Any, c_node: Any, child: Any, c_child: Any) -> State:
        """One state of two: that of a node so far, and that of its next child."""
        gates, n = self.gates(ops.concat([node, child], axis=-1)), self.hidden
        opened = gates[: 4 * n].sigmoid()
        i, f, g, o = opened[:n], opened[n : 2 * n], opened[2 * n : 3 * n], opened[3 * n :]
        c = i * gates[4 * n :].tanh() + f * c_node + g * c_child
        return o * c.tanh(), c

    def encode(self, tree: Node, start: Callable[[Any], Any] = defer) -> State:
        """The state of a tree's root; `start` makes a value of a kind: `defer`, or `Tensor` to compute at once."""
        row = ops.take(self.table, start(tree.kind), axis=0)
        h, c = row[: self.hidden], row[self.hidden :]
        for child in tree.children:
            h, c = self.cell(h, c, *self.encode(child, start))
        return h, c

    def forward(self, tree: Node, start: Callable[[Any], Any] = defer) -> Any:
        """Scores of the classes for one tree, of shape (classes,)."""
        return self.scores(self.encode(tree, start)[0])
