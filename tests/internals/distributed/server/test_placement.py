"""Every entry of every parameter has one place, and all processes agree on it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from internals.distributed.server import Layout, place, server_of_rows
from internals.distributed.server.placement import held_by, mixed

LAYOUTS = {
    "embedding": Layout((501, 33), "float32"),
    "bias": Layout((7,), "float64"),
    "scalar": Layout((), "float32"),
    "nothing": Layout((0, 3), "float32"),
    "half": Layout((9, 11), "float16"),
}


@pytest.mark.parametrize("how", ["hash", "range"])
@pytest.mark.parametrize("servers", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("split", [1, 50, 1 << 30])
def test_pieces_are_the_parameters(how: str, servers: int, split: int) -> None:
    pieces = place(LAYOUTS, servers, how, split=split)
    assert pieces.keys() == LAYOUTS.keys()
    for name, layout in LAYOUTS.items():
        ends = [0, *[piece.end for piece in pieces[name]]]
        assert [piece.begin for piece in pieces[name]] == ends[:-1]
        assert ends[-1] == layout.size
        assert all(0 <= piece.server < servers for piece in pieces[name])
    held = [piece for server in range(servers) for piece in held_by(pieces, server)]
    assert sorted(held, key=lambda p: (p.name, p.begin, p.end)) == [p for name in sorted(pieces) for p in pieces[name]]


@pytest.mark.parametrize("servers", [2, 3, 5])
def test_ranges_are_even(servers: int) -> None:
    pieces = place(LAYOUTS, servers, "range")
    total = sum(layout.nbytes for layout in LAYOUTS.values())
    for server in range(servers):
        held = sum(p.size * np.dtype(LAYOUTS[p.name].dtype).itemsize for p in held_by(pieces, server))
        assert abs(held - total / servers) <= 8 * servers


def test_a_large_tensor_is_on_all_servers_and_a_small_one_on_one() -> None:
    pieces = place(LAYOUTS, 4, "hash", split=1000)
    assert sorted(piece.server for piece in pieces["embedding"]) == [0, 1, 2, 3]
    assert max(p.size for p in pieces["embedding"]) - min(p.size for p in pieces["embedding"]) <= 1
    assert [len(pieces[name]) for name in ("bias", "half", "scalar")] == [1, 1, 1]


@pytest.mark.slow
def test_another_process_places_alike() -> None:
    code = (
        "from internals.distributed.server import Layout, place;"
        "print({n: [p.server for p in ps] for n, ps in place("
        "{f'p{i}': Layout((3, i), 'float32') for i in range(20)}, 5).items()})"
    )
    done = [
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert done[0] == done[1]
    assert len(set(done[0])) > 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((LAYOUTS, 0), "over 0 servers"),
        ((LAYOUTS, -1), "over -1 servers"),
        ((LAYOUTS, 2.0), "over 2.0 servers"),
        ((LAYOUTS, True), "over True servers"),
        (({}, 2), "no parameters"),
        ((LAYOUTS, 2, "random"), "how='random'"),
    ],
)
def test_what_cannot_be_placed(arguments: tuple, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        place(*arguments)


@pytest.mark.parametrize("how", ["hash", "range"])
def test_rows_spread_evenly(how: str) -> None:
    ids = np.random.default_rng(0).permutation(10_000)
    owner = server_of_rows(ids, 7, how, rows=10_000)
    counts = np.bincount(owner, minlength=7)
    assert counts.min() > 0.85 * 10_000 / 7
    assert counts.max() < 1.15 * 10_000 / 7
    if how == "range":
        assert (np.diff(owner[np.argsort(ids)]) >= 0).all()


@pytest.mark.parametrize(
    ("arguments", "said"), [(("range",), "needs the number of rows"), (("zigzag",), "how='zigzag'")]
)
def test_rows_that_cannot_be_placed(arguments: tuple, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        server_of_rows(np.arange(3), 2, *arguments)


def test_mixing_is_splitmix64() -> None:
    """The first numbers that splitmix64 gives from state 0, as published with Java's SplittableRandom."""
    states = np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert [hex(x) for x in mixed(states)] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f"]
