"""Which server holds which parameter, or which part of it; and which row of a sparse table.

Every process computes the same answer from names, shapes and the number of servers, so nobody has to be asked.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

SPLIT = 1 << 18
"""Entries above which hashing cuts a tensor over all servers, unless told otherwise: a megabyte of float32."""

HOW = ("hash", "range")


@dataclass(frozen=True)
class Layout:
    """Shape and dtype of a parameter.

    Attributes
    ----------
    shape : tuple of int
    dtype : str
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Entries."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


@dataclass(frozen=True)
class Piece:
    """A run of entries of one parameter, flattened, which one server holds.

    Attributes
    ----------
    name : str
        The parameter's.
    server : int
    begin, end : int
        ``parameter.reshape(-1)[begin:end]``.
    """

    name: str
    server: int
    begin: int
    end: int

    @property
    def size(self) -> int:
        """Entries."""
        return self.end - self.begin


def place(
    layouts: Mapping[str, Layout], servers: int, how: str = "hash", *, split: int = SPLIT
) -> dict[str, tuple[Piece, ...]]:
    """Cut parameters into pieces and give each to a server.

    Parameters
    ----------
    layouts : mapping of name to Layout
    servers : int
    how : {"hash", "range"}
        ``"hash"``: a small parameter goes whole to the server that a hash of its name says; one of more than `split`
        entries is cut into equal pieces, one a server. ``"range"``: all parameters, sorted by name,
        make one line of bytes, which is cut into equal ranges, one a server.
    split : int

    Returns
    -------
    dict of name to pieces, in the order of their entries; together they are the parameter, each entry once. A
    parameter without entries has one empty piece.

    Raises
    ------
    ValueError
        No server, no parameter, or another `how`.
    """
    check_servers("place", servers)
    if not layouts:
        raise ValueError("place: there are no parameters; pass at least one")
    if how == "hash":
        return {name: tuple(_hashed(name, layouts[name], servers, split)) for name in sorted(layouts)}
    if how == "range":
        return _ranges(layouts, servers)
    raise ValueError(f"place: how={how!r}; expected one of {', '.join(HOW)}")


def check_servers(who: str, servers: int) -> None:
    """Raise ValueError unless there is a server."""
    if not isinstance(servers, int) or isinstance(servers, bool) or servers < 1:
        raise ValueError(f"{who}: parameters are placed over {servers!r} servers; there must be 1 or more")


def held_by(pieces: Mapping[str, tuple[Piece, ...]], server: int) -> list[Piece]:
    """The pieces of one server, in the order in which messages carry them."""
    return [piece for name in sorted(pieces) for piece in pieces[name] if piece.server == server]


def server_of_rows(ids: np.ndarray, servers: int, how: str = "hash", *, rows: int | None = None) -> np.ndarray:
    """The server of each row of a sparse table.

    Parameters
    ----------
    ids : array of int64, shape (n,)
    servers : int
    how : {"hash", "range"}
        ``"range"`` gives each server `rows` / `servers` neighbouring ids; neighbours in use together then travel
        together, and a popular region is one server's burden. ``"hash"`` scatters both.
    rows : int, optional
        How many ids there are; needed for ``"range"``.

    Returns
    -------
    array of int64, shape (n,)
    """
    check_servers("server_of_rows", servers)
    if how == "hash":
        return (mixed(ids) % np.uint64(servers)).astype(np.int64)
    if how == "range":
        if not rows or rows < 1:
            raise ValueError(f"server_of_rows: how='range' needs the number of rows, got rows={rows!r}")
        return np.minimum(ids // -(-rows // servers), servers - 1).astype(np.int64)
    raise ValueError(f"server_of_rows: how={how!r}; expected one of {', '.join(HOW)}")


def mixed(values: np.ndarray) -> np.ndarray:
    """Each number stirred into 64 bits that look random: the finaliser of splitmix64 (Steele, Lea & Flood 2014)."""
    x = values.astype(np.uint64)  # a copy, which the steps below may write to
    with np.errstate(over="ignore"):
        x += np.uint64(0x9E3779B97F4A7C15)
        x ^= x >> np.uint64(30)
        x *= np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(27)
        x *= np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return x


def _hashed(name: str, layout: Layout, servers: int, split: int) -> list[Piece]:
    # Not hash(): Python's differs from process to process.
    first = zlib.crc32(name.encode()) % servers
    if layout.size <= split or servers == 1:
        return [Piece(name, first, 0, layout.size)]
    cuts = [layout.size * part // servers for part in range(servers + 1)]
    parts = [Piece(name, (first + part) % servers, cuts[part], cuts[part + 1]) for part in range(servers)]
    return [piece for piece in parts if piece.size]


def _ranges(layouts: Mapping[str, Layout], servers: int) -> dict[str, tuple[Piece, ...]]:
    total = sum(layout.nbytes for layout in layouts.values())
    borders = [total * part // servers for part in range(1, servers)]
    placed, start = {}, 0
    for name in sorted(layouts):
        layout = layouts[name]
        width = np.dtype(layout.dtype).itemsize
        # A border inside an entry moves to its end: entries are not cut.
        cuts = [min(max(-(-(border - start) // width), 0), layout.size) for border in borders]
        edges = [0, *cuts, layout.size]
        found = [Piece(name, server, begin, end) for server, (begin, end) in enumerate(pairwise(edges)) if end > begin]
        placed[name] = tuple(found) or (Piece(name, 0, 0, 0),)
        start += layout.nbytes
    return placed
