"""From gradients to messages: checked, cut as the parameters are, compressed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals.distributed.server.compression import Compression, Memory
from internals.distributed.server.placement import Layout, Piece, held_by, server_of_rows
from internals.distributed.server.table import TableSpec, summed
from internals.distributed.transport import Message

NONFINITE = ("refuse", "drop", "accept")


@dataclass
class Outgoing:
    """The messages of one push, one a server.

    Attributes
    ----------
    shard, step : int
    examples : float
    """

    shard: int
    step: int
    examples: float
    _parts: list[tuple[dict[str, Any], list[np.ndarray]]] = field(default_factory=list)

    def fill(
        self,
        gradients: Mapping[str, np.ndarray],
        rows: Mapping[str, tuple[np.ndarray, np.ndarray]],
        pieces: Mapping[str, tuple[Piece, ...]],
        tables: Mapping[str, TableSpec],
        servers: int,
        compression: Compression | None,
        memory: Memory,
    ) -> None:
        """Cut everything by server."""
        whole = {name: summed(ids, values) for name, (ids, values) in rows.items()}
        split = {name: split_rows(ids, tables[name], servers) for name, (ids, _) in whole.items()}
        for server in range(servers):
            dense, arrays = [], []
            for piece in held_by(pieces, server):
                if piece.name not in gradients:
                    continue
                part = gradients[piece.name].reshape(-1)[piece.begin : piece.end]
                if compression is None or not piece.size:
                    written, codec = [part], "plain"
                else:
                    written, codec = memory.encode((piece.name, piece.begin), part, compression), compression.name
                dense.append({"name": piece.name, "codec": codec, "arrays": len(written)})
                arrays += written
            for name, (ids, values) in whole.items():
                mine = split[name][server]
                arrays += [ids[mine], values[mine]]
            fields = {"shard": self.shard, "step": self.step, "examples": self.examples}
            self._parts.append((fields | {"dense": dense, "rows": list(whole), "first": len(arrays)}, arrays))

    def message(self, server: int) -> Message:
        """For one server; the same each time it is asked, so that a push can be repeated."""
        fields, arrays = self._parts[server]
        return Message("push", dict(fields), list(arrays))


def checked_gradients(
    gradients: Mapping[str, Any], layouts: Mapping[str, Layout], who: str, nonfinite: str
) -> tuple[dict[str, np.ndarray], bool]:
    """Gradients as contiguous arrays, and whether they are finite.

    Raises
    ------
    LookupError, TypeError, ValueError
        Each names who pushed, the parameter, what came and what was expected.
    """
    found, all_finite = {}, True
    for name, value in gradients.items():
        layout = layouts.get(name)
        if layout is None:
            known = ", ".join(sorted(layouts)) or "none"
            raise LookupError(f"{who}: there is no parameter {name!r}; there are {known}")
        array = np.asarray(value)
        if array.shape != layout.shape:
            raise ValueError(f"{who}: parameter {name!r} is {layout}, its gradient has shape {array.shape}")
        if array.dtype != layout.dtype:
            raise TypeError(f"{who}: parameter {name!r} is {layout}, its gradient {array.dtype}; convert it")
        if nonfinite != "accept" and not is_finite(array):
            if nonfinite == "refuse":
                bad = int(np.count_nonzero(~np.isfinite(array)))
                raise ValueError(
                    f"{who}: the gradient of parameter {name!r} has {bad} entries of {array.size} that are not finite; "
                    "lower the step size, or have such gradients left out with nonfinite='drop'"
                )
            all_finite = False
        found[name] = np.ascontiguousarray(array).reshape(array.shape)
    return found, all_finite


def is_finite(array: np.ndarray) -> bool:
    """Whether there is no NaN and no infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.add.reduce(array, axis=None)):  # NaN and infinity survive a sum, and a sum reads only once
            return True
    return bool(np.isfinite(array).all())


def split_rows(ids: np.ndarray, spec: TableSpec, servers: int) -> list[np.ndarray]:
    """For each server, the places in `ids` of the rows it holds."""
    if servers == 1:
        return [np.arange(ids.size)]
    owner = server_of_rows(ids, servers, spec.how, rows=spec.rows)
    return [np.flatnonzero(owner == server) for server in range(servers)]
