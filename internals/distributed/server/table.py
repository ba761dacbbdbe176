"""A sparse table: rows that exist once they are touched, and of which only the touched ones move.

An embedding of every user and every word has more rows than any machine has memory, but a batch uses a few thousand of
them. So a row is made when it is first asked for, from the seed and its id alone: in which order rows come, and on
which server, changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from internals.distributed.server.placement import mixed
from internals.distributed.server.row_index import RowIndex

RULES = ("sgd", "adagrad", "row_adagrad")


@dataclass(frozen=True)
class TableSpec:
    """What a sparse table is; the same on every process.

    Attributes
    ----------
    dim : int
        Numbers in a row, float32.
    lr : float
    rule : {"adagrad", "row_adagrad", "sgd"}
        ``adagrad``: ``s += g²; x -= lr * g / (√s + eps)``, entry by entry. ``row_adagrad``: s is one number for a
        row, to which the mean of g² is added, so that a row costs half the memory.
    seed : int
    scale : float
        New rows are uniform in [-scale, scale).
    eps : float
    capacity : int, optional
        Rows on each server at most; those touched longest ago make place.
    max_age : int, optional
        A row that was not touched in so many steps is given up.
    rows : int, optional
        How many ids there are: 0 to ``rows - 1``. Checked where given, and needed to place by range.
    how : {"hash", "range"}
        How rows are placed.

    Raises
    ------
    ValueError
        A number out of its range, or an unknown rule.

    References
    ----------
    Duchi, Hazan, Singer (2011), Adaptive subgradient methods for online learning and stochastic optimization.
    """

    dim: int
    lr: float = 0.05
    rule: str = "adagrad"
    seed: int = 0
    scale: float = 0.05
    eps: float = 1e-10
    capacity: int | None = None
    max_age: int | None = None
    rows: int | None = None
    how: str = "hash"

    def __post_init__(self) -> None:
        for name in ("dim", "capacity", "max_age", "rows"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if not whole and (value is not None or name == "dim"):
                raise ValueError(f"table: {name} must be 1 or more, got {name}={value!r}")
        for name in ("lr", "scale", "eps"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"table: {name} must be finite and not negative, got {name}={value!r}")
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise ValueError(f"table: seed must be a whole number, 0 or more, got {self.seed!r}")
        if self.rule not in RULES:
            raise ValueError(f"table: rule={self.rule!r}; expected one of {', '.join(RULES)}")
        if self.how not in ("hash", "range") or (self.how == "range" and self.rows is None):
            raise ValueError(f"table: how={self.how!r}, rows={self.rows!r}; expected hash, or range and the rows")

    def initial(self, ids: np.ndarray) -> np.ndarray:
        """What rows start with: a function of seed, id and column.

        Returns
        -------
        array of float32, shape (n, dim)
        """
        if not self.scale:
            return np.zeros((ids.size, self.dim), np.float32)
        stream = mixed(ids.astype(np.uint64) ^ mixed(np.array([self.seed], np.uint64)))
        with np.errstate(over="ignore"):
            bits = mixed(stream[:, None] + np.arange(self.dim, dtype=np.uint64))
        unit = (bits >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)  # 24 bits: what float32 has
        return (2 * unit - 1) * np.float32(self.scale)

    def check_ids(self, ids: Any, who: str) -> np.ndarray:
        """Ids as int64, or TypeError or ValueError that names `who`."""
        ids = np.asarray(ids)
        if ids.dtype.kind not in "iu" and ids.size:
            raise TypeError(f"{who}: row ids must be integers, got {ids.dtype}")
        ids = ids.astype(np.int64, copy=False)
        if ids.size and (ids.min() < 0 or (self.rows is not None and ids.max() >= self.rows)):
            wrong = ids[(ids < 0) | (ids >= (self.rows or 2**63 - 1))]
            last = f"{self.rows - 1}" if self.rows else "2**63 - 1"
            raise ValueError(f"{who}: there is no row {wrong.reshape(-1)[0]}; ids are 0 to {last}")
        return ids

    def plain(self) -> dict[str, Any]:
        """As fields of a message."""
        return asdict(self)


class SparseTable:
    """One server's rows of a table. Not for several threads.

    Parameters
    ----------
    spec : TableSpec
    name : str
        For errors.

    Attributes
    ----------
    created, evicted : int
        Rows made and given up since the start.
    """

    def __init__(self, spec: TableSpec, name: str = "table") -> None:
        self.spec = spec
        self.name = name
        self.created = self.evicted = 0
        self._index = RowIndex()
        self._used = 0
        """Slots from here on were never in use."""
        self._free = np.empty(0, np.int64)
        width = {"sgd": 0, "adagrad": spec.dim, "row_adagrad": 1}[spec.rule]
        self._values = np.empty((0, spec.dim), np.float32)
        self._sums = np.empty((0, width), np.float32)
        self._ids = np.empty(0, np.int64)
        self._touched = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        """Bytes of rows, accumulators, ids, ages and index, with what is kept free for growth."""
        arrays = (self._values, self._sums, self._ids, self._touched)
        return self._index.nbytes + sum(array.nbytes for array in arrays)

    def pull(self, ids: np.ndarray, step: int = 0, *, create: bool = True) -> np.ndarray:
        """The rows of `ids`; those that are not there are made.

        Parameters
        ----------
        ids : array of int64, shape (n,)
        step : int
            The time, for eviction.
        create : bool
            False, for serving: rows that are not there are shown as they would start, and not kept.

        Returns
        -------
        array of float32, shape (n, dim); a copy

        Raises
        ------
        ValueError
            More different rows at once than the table's capacity.
        """
        if not create:
            slots = self._index.find(ids)
            rows = self._values[np.maximum(slots, 0)] if len(self) else np.empty((ids.size, self.spec.dim), np.float32)
            absent = slots < 0
            rows[absent] = self.spec.initial(ids[absent])
            return rows
        slots = self._slots_of(ids, step)
        self._touched[slots] = step
        return self._values[slots]

    def push(self, ids: np.ndarray, gradients: np.ndarray, step: int = 0) -> None:
        """Move rows along their gradients. What an id gets more than once is summed first.

        Parameters
        ----------
        ids : array of int64, shape (n,)
        gradients : array of float32, shape (n, dim)
        step : int
        """
        ids, gradients = summed(ids, gradients)
        slots = self._slots_of(ids, step)
        self._touched[slots] = step
        spec = self.spec
        if spec.rule == "sgd":
            self._values[slots] -= np.float32(spec.lr) * gradients
            return
        square = gradients * gradients
        total = self._sums[slots] + (square if spec.rule == "adagrad" else square.mean(axis=1, keepdims=True))
        self._sums[slots] = total
        self._values[slots] -= np.float32(spec.lr) * gradients / (np.sqrt(total) + np.float32(spec.eps))

    def drop_old(self, step: int) -> int:
        """Give up the rows that were last touched more than ``max_age`` steps ago; how many those were."""
        if self.spec.max_age is None or not len(self):
            return 0
        live = self._live()
        old = live[self._touched[live] < step - self.spec.max_age]
        self._evict(old)
        return old.size

    def ids(self) -> np.ndarray:
        """The ids of the rows that are there, in no order."""
        return self._ids[self._live()]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Copies of what there is, as plain data and arrays."""
        live = self._live()
        arrays: dict[str, np.ndarray] = {
            "ids": self._ids,
            "values": self._values,
            "sums": self._sums,
            "touched": self._touched,
        }
        counts = {"created": self.created, "evicted": self.evicted}
        return {"spec": self.spec.plain(), **counts}, {name: array[live] for name, array in arrays.items()}

    @classmethod
    def load(cls, plain: Mapping[str, Any], arrays: Mapping[str, np.ndarray], name: str = "table") -> SparseTable:
        """The table that gave this `state`."""
        table = cls(TableSpec(**plain["spec"]), name)
        count = arrays["ids"].size
        table._room(count)
        table._values[:count], table._sums[:count] = arrays["values"], arrays["sums"]
        table._ids[:count], table._touched[:count] = arrays["ids"], arrays["touched"]
        table._index.add(arrays["ids"], np.arange(count))
        table._used = count
        table.created, table.evicted = plain["created"], plain["evicted"]
        return table

    def _live(self) -> np.ndarray:
        kept = np.ones(self._used, bool)
        kept[self._free] = False
        return np.flatnonzero(kept)

    def _slots_of(self, ids: np.ndarray, step: int) -> np.ndarray:
        slots = self._index.find(ids)
        absent = slots < 0
        if absent.any():
            self._create(np.unique(ids[absent]), step, in_use=np.unique(slots[~absent]))
            slots = self._index.find(ids)
        return slots

    def _create(self, ids: np.ndarray, step: int, in_use: np.ndarray) -> None:
        self._make_place(ids.size, in_use)
        taken = self._free[: ids.size]
        self._free = self._free[ids.size :]
        fresh = ids.size - taken.size
        self._room(self._used + fresh)
        slots = np.concatenate([taken, np.arange(self._used, self._used + fresh)])
        self._used += fresh
        self._values[slots], self._sums[slots] = self.spec.initial(ids), 0
        self._ids[slots], self._touched[slots] = ids, step
        self._index.add(ids, slots)
        self.created += ids.size

    def _make_place(self, count: int, in_use: np.ndarray) -> None:
        capacity = self.spec.capacity
        if capacity is None or len(self) + count <= capacity:
            return
        if count + in_use.size > capacity:
            raise ValueError(
                f"table {self.name!r}: {count + in_use.size} rows are used at once, but the capacity is {capacity} "
                "on each server; raise it, or use smaller batches"
            )
        idle = np.setdiff1d(self._live(), in_use, assume_unique=True)
        # A little more than needed, so that not every batch has to look for old rows.
        go = max(len(self) + count - capacity, min(capacity // 16, idle.size))
        self._evict(idle[np.argpartition(self._touched[idle], go - 1)[:go]])

    def _evict(self, slots: np.ndarray) -> None:
        if not slots.size:
            return
        self._free = np.concatenate([self._free, slots])
        live = self._live()
        self._index.rebuild(self._ids[live], live)
        self.evicted += slots.size

    def _room(self, rows: int) -> None:
        have = self._ids.size
        if rows <= have:
            return
        size = max(rows, min(max(2 * have, 64), self.spec.capacity or 2**62))
        for name in ("_values", "_sums", "_ids", "_touched"):
            old = getattr(self, name)
            new = np.empty((size, *old.shape[1:]), old.dtype)
            new[:have] = old
            setattr(self, name, new)


def summed(ids: np.ndarray, gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted ids, each once, and the sum of what each was given, in the order given.

    Parameters
    ----------
    ids : array of int64, shape (n,)
    gradients : array, shape (n, dim)
    """
    if ids.size < 2 or (np.diff(ids) > 0).all():
        return ids, gradients
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return ordered[starts], np.add.reduceat(gradients[order], starts, axis=0)
