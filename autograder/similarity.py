"""Which submissions to one lab share code that the lab did not give them.

Fingerprints by winnowing (Schleimer, Wilkerson & Aiken 2003): every run of `RUN` + `WINDOW` - 1 tokens that two
submissions share is found. Names that are the learner's own count as one, comments and layout not at all, and no run
crosses a cell; so renaming, reformatting and reordering hide nothing.
What the released notebook holds, and what many submissions hold, is left out. A person reads what remains.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import keyword
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache

import numpy as np

from autograder.cells import Cell

RUN, WINDOW = 10, 5
"""Tokens in a fingerprint; fingerprints of which one is kept."""

LEAST = 6
"""Fingerprints of its own that a submission needs to be compared: below, two honest answers may well be one."""

COMMON = 0.2
"""A fingerprint that more than this share of the class has, and more than `FEW` have, is how one does it."""
FEW = 4

TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<string>[rbfuRBFU]{0,2}(?:'''(?:\\.|[^\\])*?(?:'''|\Z)|\"\"\"(?:\\.|[^\\])*?(?:\"\"\"|\Z)
          |'(?:\\.|[^'\\\n])*'?|"(?:\\.|[^"\\\n])*"?))
      | (?P<name>[^\W\d]\w*)
      | (?P<number>\d[\w.]*|\.\d\w*)
      | (?P<op>\*\*=?|//=?|<<=?|>>=?|[-+*/%@&|^=<>!:]=|->|[^\s\w])""",
    re.VERBOSE | re.DOTALL,
)
KNOWN = frozenset(keyword.kwlist) | frozenset(dir(builtins)) | frozenset(dir(np)) | frozenset(dir(np.ndarray))
"""Names that mean the same to everybody; a learner can't rename them."""


@dataclass(frozen=True)
class Passage:
    """Lines of a cell, counted from 1, that stand in another submission as well."""

    cell: int
    first: int
    last: int
    text: str = field(compare=False, default="")


@dataclass(frozen=True)
class Pair:
    """Two submissions, and the share of the smaller one's own code that the other has too."""

    one: str
    other: str
    share: float
    shared: int
    passages: tuple[tuple[Passage, Passage], ...] = ()


@dataclass
class Similarity:
    """What a comparison of submissions found; the most alike first.

    `too_short` names those with too little code of their own to be compared; `unread` says of files why they could
    not be read.
    """

    lab: str
    threshold: float
    compared: list[str] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    too_short: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=2)


@dataclass(frozen=True)
class Print:
    """One fingerprint: its hash, and where it stands."""

    hash: int
    cell: int
    first: int
    last: int


def similarity(
    submissions: Iterable[tuple[str, Sequence[Cell]]],
    template: Sequence[Cell] = (),
    *,
    lab: str = "",
    threshold: float = 0.5,
) -> Similarity:
    """Compare submissions, each with each.

    Parameters
    ----------
    submissions : iterable of (name, cells)
    template : sequence of Cell
        The notebook they all began from.
    threshold : float
        Pairs that share at least this are kept; from 0 to 1.

    Raises
    ------
    ValueError
        A threshold that is no share.

    Cost: with n submissions of m fingerprints each, n m to find them, and n^2 m multiplications to compare.
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"similarity: the threshold {threshold} is no share; give a number from 0 to 1.")
    found = Similarity(lab, threshold)
    given = {int(one) for cell in template for one in runs(cell.code)[0]}
    prints: dict[str, list[Print]] = {}
    cells: dict[str, Sequence[Cell]] = {}
    for name, these in submissions:
        own = [one for cell in these for one in prints_of(cell) if one.hash not in given]
        if len({one.hash for one in own}) < LEAST:
            found.too_short.append(name)
        else:
            prints[name], cells[name] = own, these
    names = found.compared = list(prints)
    sets = common_removed([{one.hash for one in prints[name]} for name in names])
    counts = overlaps(sets)
    sizes = np.array([len(one) for one in sets], dtype=np.float64)
    smaller = np.maximum(np.minimum.outer(sizes, sizes), LEAST)
    for i, j in zip(*np.nonzero(np.triu((counts > 0) & (counts / smaller >= threshold), 1)), strict=True):
        shared = sets[i] & sets[j]
        one, other = names[i], names[j]
        places = passages(shared, prints[one], prints[other], cells[one], cells[other])
        found.pairs.append(Pair(one, other, round(len(shared) / float(smaller[i, j]), 3), len(shared), places))
    found.pairs.sort(key=lambda pair: (-pair.share, -pair.shared, pair.one, pair.other))
    return found


def common_removed(sets: list[set[int]]) -> list[set[int]]:
    """The fingerprints of each submission without those that many have."""
    most = max(FEW, COMMON * len(sets))
    counts: dict[int, int] = {}
    for one in sets:
        for value in one:
            counts[value] = counts.get(value, 0) + 1
    return [{value for value in one if counts[value] <= most} for one in sets]


def overlaps(sets: list[set[int]]) -> np.ndarray:
    """How many fingerprints each two submissions share; shape (n, n)."""
    where: dict[int, list[int]] = {}
    for place, one in enumerate(sets):
        for value in one:
            where.setdefault(value, []).append(place)
    shared = [places for places in where.values() if len(places) > 1]
    counts = np.zeros((len(sets), len(sets)))
    for start in range(0, len(shared), 4096):
        block = np.zeros((len(sets), 4096), dtype=np.float32)
        for column, places in enumerate(shared[start : start + 4096]):
            block[places, column] = 1
        counts += block @ block.T
    return counts


def passages(
    shared: set[int], one: list[Print], other: list[Print], cells: Sequence[Cell], others: Sequence[Cell]
) -> tuple[tuple[Passage, Passage], ...]:
    """Where the shared fingerprints stand, as pairs of passages; those that overlap are one."""
    by_hash: dict[int, Print] = {}
    for there in other:
        by_hash.setdefault(there.hash, there)
    spans: list[list[int]] = []
    for here in one:
        if here.hash not in shared:
            continue
        there = by_hash[here.hash]
        last = spans[-1] if spans else None
        if (
            last is not None
            and (last[0], last[3]) == (here.cell, there.cell)
            and here.first <= last[2] + 1
            and last[4] <= there.first <= last[5] + 1
        ):
            last[2], last[5] = max(last[2], here.last), max(last[5], there.last)
        else:
            spans.append([here.cell, here.first, here.last, there.cell, there.first, there.last])
    mine, theirs = ({cell.number: cell.code.split("\n") for cell in some} for some in (cells, others))
    return tuple(
        (
            Passage(a, first, last, "\n".join(mine[a][first - 1 : last])),
            Passage(b, begin, end, "\n".join(theirs[b][begin - 1 : end])),
        )
        for a, first, last, b, begin, end in spans
    )


def prints_of(cell: Cell) -> Iterator[Print]:
    """The fingerprints of a cell: of each window of runs, the one with the least hash."""
    hashes, lines = runs(cell.code)
    if not len(hashes):
        return
    if len(hashes) <= WINDOW:
        kept = [int(np.argmin(hashes))]
    else:
        windows = np.lib.stride_tricks.sliding_window_view(hashes, WINDOW)
        kept = np.unique(np.argmin(windows, axis=1) + np.arange(len(windows))).tolist()
    for place in kept:
        yield Print(int(hashes[place]), cell.number, lines[place], lines[place + RUN - 1])


@lru_cache(maxsize=20_000)
def runs(code: str) -> tuple[np.ndarray, list[int]]:
    """A hash of every `RUN` tokens in a row, and the line of every token."""
    texts, lines = tokens(code)
    if len(texts) < RUN:
        return np.empty(0, np.uint64), lines
    identities = np.array([identity(text) for text in texts], dtype=np.uint64)
    hashes = np.zeros(len(texts) - RUN + 1, dtype=np.uint64)
    factor = np.uint64(0x9E3779B97F4A7C15)
    for place in range(RUN):
        hashes = hashes * factor + identities[place : place + len(hashes)]
    # The low bits of a polynomial are poor; which hash is least must not depend on the last token alone.
    hashes = (hashes ^ (hashes >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return hashes ^ (hashes >> np.uint64(32)), lines


@lru_cache(maxsize=20_000)
def identity(token: str) -> int:
    return int.from_bytes(hashlib.blake2b(token.encode(errors="replace"), digest_size=8).digest(), "big")


def tokens(code: str) -> tuple[list[str], list[int]]:
    """What a cell says, word by word, and the line of each: own names as ``name``, no comments, no docstrings."""
    starts = [0, *(match.end() for match in re.finditer("\n", code))]
    texts, lines = [], []
    for match in TOKEN.finditer(code):
        kind, text = match.lastgroup, match.group()
        line = bisect_right(starts, match.start())
        if kind == "comment" or (kind == "string" and stands_alone(code, match, starts[line - 1])):
            continue
        if kind == "name":
            text = text if text in KNOWN else "name"
        elif kind == "string":
            text = "string"
        texts.append(text)
        lines.append(line)
    return texts, lines


def stands_alone(code: str, match: re.Match[str], line: int) -> bool:
    """Whether a string is a statement of its own, as a docstring is."""
    end = code.find("\n", match.end())
    rest = code[match.end() : end if end >= 0 else len(code)].strip()
    return not code[line : match.start()].strip() and (not rest or rest.startswith("#"))
