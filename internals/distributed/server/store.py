"""What a server holds: pieces of dense parameters and rows of sparse tables, moved together and saved together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from internals.distributed.errors import DistributedError
from internals.distributed.server.compression import decode
from internals.distributed.server.consistency import Contribution
from internals.distributed.server.dense import DensePieces, MakeOptimizer, weighted_mean
from internals.distributed.server.table import SparseTable, TableSpec, summed
from internals.distributed.transport import Message


class Store:
    """The parameters on one server. Not for several threads.

    Parameters
    ----------
    make_optimizer : callable
        See `DensePieces`.
    shards : int
        Data shards that gradients come from.

    Attributes
    ----------
    dense : DensePieces
    tables : dict of name to SparseTable
    layout : dict or None
        Shapes, dtypes and placement of all parameters of the job, once they are initialised.
    """

    def __init__(self, make_optimizer: MakeOptimizer, shards: int) -> None:
        self.dense = DensePieces(make_optimizer)
        self.tables: dict[str, SparseTable] = {}
        self.layout: dict[str, Any] | None = None
        self._shards = shards

    def init(self, message: Message) -> bool:
        """Take in first values; whether they were the first. Later ones must be the same.

        Raises
        ------
        ValueError
            Names the parameter, and how they differ.
        """
        who, told = message.source, message.fields
        layout = {"layouts": told["layouts"], "how": told["how"], "split": told["split"]}
        if self.layout is None:
            for piece, values in zip(told["pieces"], message.arrays, strict=True):
                name = piece["name"]
                self.dense.add(name, piece["begin"], tuple(told["layouts"][name][0]), values, piece["sum"])
            self.layout = layout
            return True
        if layout != self.layout:
            raise ValueError(_difference(who, layout, self.layout))
        for piece in told["pieces"]:
            if self.dense[piece["name"]].first != piece["sum"]:
                raise ValueError(
                    f"{who} initialises parameter {piece['name']!r} with other values than the trainer before it; use "
                    "the same seed, or pass values on one trainer and None on the others"
                )
        return False

    def make_table(self, name: str, spec: TableSpec, who: str) -> None:
        """Make a table; one that is there must be the same."""
        table = self.tables.setdefault(name, SparseTable(spec, name))
        if table.spec != spec:
            raise ValueError(f"{who} makes table {name!r} as {spec}, but here it is {table.spec}")

    def table(self, name: str, who: str) -> SparseTable:
        """The table of that name, or LookupError that names `who`."""
        if name not in self.tables:
            known = ", ".join(sorted(self.tables)) or "none"
            raise LookupError(f"{who} asks for table {name!r}, which was not made; there are {known}")
        return self.tables[name]

    def read(self, message: Message) -> Contribution:
        """The gradients that are in a message, checked against what they are gradients of.

        Raises
        ------
        LookupError, ValueError, TypeError, DistributedError
            Each names the trainer and the parameter or table.
        """
        told, who = message.fields, message.source
        shard, step, examples = told["shard"], told["step"], told["examples"]
        if not isinstance(shard, int) or not 0 <= shard < self._shards:
            raise ValueError(f"{who} pushed for data shard {shard!r}; there are {self._shards}, counted from 0")
        if not isinstance(step, int) or step < 0:
            raise ValueError(f"{who} pushed for step {step!r}; steps are counted from 0")
        if not isinstance(examples, int | float) or not 0 <= examples < math.inf:
            raise ValueError(f"{who} pushed examples={examples!r}; it is the size of a batch")
        if not isinstance(told["seen"], int):
            raise ValueError(
                f"{who} pushed what it computed with values of version {told['seen']!r}; expected a number"
            )
        counts = [one["arrays"] for one in told["dense"]] + [2] * len(told["rows"])
        if told["first"] != sum(counts) or sum(counts) > len(message.arrays) or min(counts, default=1) < 1:
            raise ValueError(
                f"{who} pushed {len(message.arrays)} arrays, and says that its gradients are {counts} of them"
            )
        if self.layout is None and (told["dense"] or not self.tables):
            raise DistributedError(f"{who} pushed before the parameters were initialised; call init first")
        found = Contribution(shard, step, float(examples), message=message)
        arrays = iter(message.arrays)
        for one in told["dense"]:
            written = [next(arrays) for _ in range(one["arrays"])]
            name = one["name"]
            if name in found.dense:
                raise ValueError(f"{who} pushed two gradients of {name!r} at once")
            if name in self.dense:
                held = self.dense[name].values
                try:
                    gradient = decode(one["codec"], written, held.size, held.dtype)
                except (ValueError, TypeError) as error:
                    raise type(error)(f"{who} pushed {name!r}: {error}") from None
            else:
                gradient = written[0]
            self.dense.check(name, gradient, who)
            found.dense[name] = gradient
        for name in told["rows"]:
            table = self.table(name, who)
            ids = table.spec.check_ids(next(arrays), f"{who} pushed rows of table {name!r}")
            gradients = next(arrays)
            if gradients.shape != (ids.size, table.spec.dim) or gradients.dtype != np.float32:
                raise ValueError(
                    f"{who} pushed {gradients.dtype} {gradients.shape} for {ids.size} rows of table {name!r}; expected "
                    f"float32 {(ids.size, table.spec.dim)}"
                )
            found.rows[name] = (ids, gradients)
        return found

    def _table_of(self, name: str, who: str) -> SparseTable:
        if name not in self.tables:
            known = ", ".join(sorted(self.tables)) or "none"
            raise LookupError(f"{who} asks for table {name!r}, which was not made; there are {known}")
        return self.tables[name]

    def apply(self, together: Sequence[Contribution], version: int) -> None:
        """One step: the mean of what was contributed, weighted by examples, in the order given."""
        total = sum(one.examples for one in together)
        if total:
            names = sorted({name for one in together for name in one.dense})
            parts = {name: [(one.examples, one.dense[name]) for one in together if name in one.dense] for name in names}
            self.dense.apply({name: weighted_mean(part, total) for name, part in parts.items()})
            for table in sorted({name for one in together for name in one.rows}):
                pushed = [(one.examples / total, *one.rows[table]) for one in together if table in one.rows]
                ids = np.concatenate([ids for _, ids, _ in pushed])
                gradients = np.concatenate([np.float32(weight) * gradients for weight, _, gradients in pushed])
                self.tables[table].push(*summed(ids, gradients), version)
        for one in self.tables.values():
            if one.spec.max_age is not None and version % max(1, one.spec.max_age // 4) == 0:
                one.drop_old(version)

    def check_wanted(self, message: Message) -> None:
        """Raise unless what a message asks for can be there."""
        shard, step, who = message.fields["next_shard"], message.fields["next_step"], message.source
        if shard is not None and (not isinstance(shard, int) or not 0 <= shard < self._shards):
            raise ValueError(f"{who} pulls for data shard {shard!r}; there are {self._shards}, counted from 0")
        if not isinstance(step, int) or step < 0:
            raise ValueError(f"{who} pulls for step {step!r}; steps are counted from 0")
        for ids, name in self._wanted(message):
            self.table(name, message.source).spec.check_ids(ids, f"{message.source} pulls table {name!r}")

    def values(self, message: Message, version: int) -> list[np.ndarray]:
        """What a message asks for: all pieces, or rows, or both."""
        arrays = self.dense.values() if message.fields["values"] else []
        create = message.fields["create"]
        return [*arrays, *(self.tables[name].pull(ids, version, create=create) for ids, name in self._wanted(message))]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Copies of everything, as plain data and arrays."""
        dense, arrays = self.dense.state()
        tables = {}
        for number, (name, table) in enumerate(self.tables.items()):
            tables[name], rows = table.state()
            arrays |= {f"table/{number}/{part}": array for part, array in rows.items()}
        return {"layout": self.layout, "dense": dense, "tables": tables}, arrays

    def load(self, plain: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Be what `state` gave."""
        self.dense.load(plain["dense"], arrays)
        self.tables = {}
        for number, (name, told) in enumerate(plain["tables"].items()):
            stem = f"table/{number}/"
            rows = {key.removeprefix(stem): array for key, array in arrays.items() if key.startswith(stem)}
            self.tables[name] = SparseTable.load(told, rows, name)
        self.layout = plain["layout"]

    def _wanted(self, message: Message) -> list[tuple[np.ndarray, str]]:
        ids, tables = message.arrays[message.fields.get("first", 0) :], message.fields["tables"]
        if len(ids) != len(tables):
            raise ValueError(f"{message.source} asks for rows of {len(tables)} tables with the ids of {len(ids)}")
        return list(zip(ids, tables, strict=True))


def _difference(who: str, theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    for name in sorted(theirs["layouts"].keys() | ours["layouts"].keys()):
        one, other = theirs["layouts"].get(name), ours["layouts"].get(name)
        if one != other:
            shown = [f"{kind[1]} {tuple(kind[0])}" if kind else "not there" for kind in (one, other)]
            return f"{who} initialises parameter {name!r} as {shown[0]}; the trainer before it: {shown[1]}"
    placed = [f"how={told['how']!r}, split={told['split']}" for told in (theirs, ours)]
    return f"{who} places parameters with {placed[0]}; the trainer before it: {placed[1]}"
