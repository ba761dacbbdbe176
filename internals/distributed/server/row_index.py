"""From a row's id to its slot, for many ids at once: a hash table with open addressing, in NumPy arrays.

A dict would do the same, one id at a time and a hundred bytes an entry. Here a lookup of n ids is a few passes over
arrays of n: hash all, compare all, and go on with the few whose place was taken by another.
"""

from __future__ import annotations

import numpy as np

from internals.distributed.server.placement import mixed

EMPTY = -1
LEAST = 64
LOAD = 0.5
"""Part of the places that may be taken. Linear probing then needs 1.5 looks for an id that is there, and 2.5 for one
that is not (Knuth, The art of computer programming, vol. 3, §6.4)."""


class RowIndex:
    """Ids (0 or more) and the slot of each.

    Parameters
    ----------
    room : int
        For so many ids there is place before anything has to grow.
    """

    def __init__(self, room: int = 0) -> None:
        self._make(room)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self._keys.nbytes + self._slots.nbytes

    def find(self, ids: np.ndarray) -> np.ndarray:
        """The slot of each id, -1 where it is not there.

        Parameters
        ----------
        ids : array of int64, shape (n,)

        Returns
        -------
        array of int64, shape (n,)
        """
        found = np.full(ids.size, EMPTY, np.int64)
        if not self._count:
            return found
        places = self._first(ids)
        keys = self._keys[places]
        hit = keys == ids
        found[hit] = self._slots[places[hit]]
        asked = np.flatnonzero(~hit & (keys != EMPTY))
        places = places[asked]
        while asked.size:
            places = (places + 1) & self._mask
            keys = self._keys[places]
            hit = keys == ids[asked]
            found[asked[hit]] = self._slots[places[hit]]
            on = ~hit & (keys != EMPTY)
            asked, places = asked[on], places[on]
        return found

    def add(self, ids: np.ndarray, slots: np.ndarray) -> None:
        """Take in ids that are not there, each once, with their slots."""
        if self._count + ids.size > LOAD * self._keys.size:
            kept = self._keys != EMPTY
            old_ids, old_slots = self._keys[kept], self._slots[kept]
            self._make(2 * (self._count + ids.size))
            self._put(old_ids, old_slots)
        self._put(ids, slots)

    def rebuild(self, ids: np.ndarray, slots: np.ndarray) -> None:
        """Hold these and nothing else. Leaving single ids out would need marks in their places; a rebuild is one."""
        self._make(max(ids.size, int(LOAD * self._keys.size) - 1))
        self._put(ids, slots)

    def _make(self, room: int) -> None:
        size = LEAST
        while size * LOAD < room:
            size *= 2
        self._keys = np.full(size, EMPTY, np.int64)
        self._slots = np.empty(size, np.int64)
        self._mask = np.int64(size - 1)
        self._count = 0

    def _first(self, ids: np.ndarray) -> np.ndarray:
        return (mixed(ids) >> np.uint64(1)).astype(np.int64) & self._mask

    def _put(self, ids: np.ndarray, slots: np.ndarray) -> None:
        self._count += ids.size
        places = self._first(ids)
        while ids.size:
            free = self._keys[places] == EMPTY
            # Where several ask for one place the last of them gets it, and reading back says which that was.
            self._keys[places[free]] = ids[free]
            won = self._keys[places] == ids
            self._slots[places[won]] = slots[won]
            lost = ~won
            ids, slots, places = ids[lost], slots[lost], (places[lost] + 1) & self._mask
