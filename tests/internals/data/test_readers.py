"""Readers: every stage gives the items it should, in every epoch, from every place, whoever makes them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from internals.data import ArrayDataset, Reader, pad_batch, read

ROOT = Path(__file__).resolve().parents[3]


def numbers() -> Any:
    return iter(range(23))


def noisy(item: int, rng: np.random.Generator) -> float:
    return item + rng.random()


def examples() -> ArrayDataset:
    rng = np.random.default_rng(3)
    return ArrayDataset(rng.normal(size=(23, 3)), rng.integers(0, 5, 23))


PIPELINES: dict[str, Callable[[], Reader]] = {
    "whole": lambda: read(range(23)),
    "stream": lambda: read(numbers),
    "arrays": lambda: read(examples()).shuffle(1).batch(4),
    "shuffle": lambda: read(range(23)).shuffle(7),
    "buffer": lambda: read(numbers).shuffle(7, buffer=5).map(lambda x: x * x),
    "same order": lambda: read(range(23)).shuffle(7, every_epoch=False),
    "random map": lambda: read(range(23)).shuffle(5).map(noisy, seed=2).batch(4),
    "noise": lambda: read(range(9)).map(noisy, seed=2),
    "filter": lambda: read(range(23)).map(noisy, seed=2).filter(lambda x: int(x) % 3 > 0).batch(2, drop_last=True),
    "cache": lambda: read(range(23)).map(noisy, seed=2).cache().shuffle(1),
    "repeat": lambda: read(range(5)).shuffle(1).repeat(3).batch(4),
    "zip": lambda: read(range(23)).shuffle(1).zip(read(numbers).map(noisy, seed=1)),
    "chain": lambda: read(range(4)).shuffle(1).chain(numbers, ["a", "b"]),
    "keep": lambda: read(range(23)).shuffle(1).shard(1, 4),
    "drop": lambda: read(range(23)).shuffle(1).shard(3, 4, remainder="drop").batch(2),
    "wrap": lambda: read(range(23)).shuffle(1).shard(3, 4, remainder="wrap"),
    "ragged": lambda: read(range(9)).map(np.arange).shuffle(1).batch(4, collate=pad_batch),
}
CREWS: dict[str, dict[str, Any]] = {
    "1 thread": {"workers": 1},
    "3 threads": {"workers": 3, "ahead": 2},
    "2 processes": {"workers": 2, "processes": True},
    "3 processes": {"workers": 3, "processes": True, "ahead": 7},
}


def told(items: Any) -> list[Any]:
    """Items as what can be compared."""
    return [json.dumps(item, default=lambda array: array.tolist()) for item in items]


@pytest.mark.parametrize(
    "crew", ["3 threads", *(pytest.param(crew, marks=pytest.mark.slow) for crew in CREWS if crew != "3 threads")]
)
@pytest.mark.parametrize("name", PIPELINES)
def test_workers_change_nothing(name: str, crew: str) -> None:
    alone, helped = PIPELINES[name](), PIPELINES[name]().prefetch(**CREWS[crew])
    for _ in range(2):
        assert told(helped) == told(alone)


@pytest.mark.parametrize("crew", [None, *(pytest.param(crew, marks=pytest.mark.slow) for crew in CREWS)])
@pytest.mark.parametrize("name", PIPELINES)
def test_the_rest_of_an_epoch_comes_after_resuming(name: str, crew: str | None) -> None:
    def made() -> Reader:
        reader = PIPELINES[name]()
        return reader.prefetch(**CREWS[crew]) if crew else reader

    whole = made()
    epochs = [told(whole) for _ in range(3)]
    for stop in (0, 1, len(epochs[1]) - 1, len(epochs[1])):
        first = made()
        list(first)
        for _, _item in zip(range(stop), first, strict=False):
            pass
        state = json.loads(json.dumps(first.state_dict()))
        if stop == 0:  # nothing of the second epoch was asked for yet
            assert (state["epoch"], state["position"]) == (1, 0)
        resumed = made()
        resumed.load_state_dict(state)
        assert told(resumed) == epochs[1][stop:]
        assert told(resumed) == epochs[2]


@pytest.mark.parametrize(
    "name", [name for name in PIPELINES if name not in ("stream", "buffer", "filter", "zip", "chain")]
)
def test_len_is_the_number_of_items(name: str) -> None:
    reader = PIPELINES[name]()
    assert len(reader) == len(list(reader))


@pytest.mark.parametrize("name", ["shuffle", "buffer", "arrays", "noise", "repeat"])
def test_epochs_are_drawn_anew(name: str) -> None:
    reader = PIPELINES[name]()
    assert told(reader) != told(reader)


def test_repeating_gives_the_epochs_in_turn() -> None:
    reader, twice = read(range(9)).shuffle(1), read(range(9)).shuffle(1).repeat(2)
    epochs = [list(reader) for _ in range(4)]
    assert [list(twice), list(twice)] == [epochs[0] + epochs[1], epochs[2] + epochs[3]]
    endless = iter(read(range(9)).shuffle(1).repeat())
    assert [next(endless) for _ in range(18)] == epochs[0] + epochs[1]


def test_an_epoch_that_is_left_is_over() -> None:
    reader, again = PIPELINES["shuffle"](), PIPELINES["shuffle"]()
    next(iter(reader))
    list(again)
    assert list(reader) == list(again)


@pytest.mark.parametrize("buffer", [None, 1, 4, 23, 50])
def test_shuffling_loses_and_doubles_nothing(buffer: int | None) -> None:
    order = list(read(range(23)).shuffle(0, buffer=buffer))
    assert sorted(order) == list(range(23))
    if buffer is not None:
        assert all(item < place + buffer for place, item in enumerate(order))
    assert (order == list(range(23))) == (buffer == 1)


def test_every_order_is_equally_likely() -> None:
    """6 orders of 3 items over 1,200 seeds: chi-squared with 5 degrees of freedom stays under 20.5 (p = 0.001)."""
    orders = [tuple(read(range(3)).shuffle(seed)) for seed in range(1200)]
    counts = np.array([orders.count(order) for order in sorted(set(orders))])
    assert len(counts) == 6
    assert ((counts - 200) ** 2 / 200).sum() < 20.5


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9])
def test_shards_share_all_items(n: int) -> None:
    def shards(remainder: str) -> list[list[int]]:
        return [list(read(range(n)).shuffle(4).shard(rank, 4, remainder=remainder)) for rank in range(4)]

    keep, drop, wrap = shards("keep"), shards("drop"), shards("wrap")
    assert sorted(chain(*keep)) == list(range(n))
    assert {len(one) for one in drop} == {n // 4}
    assert {len(one) for one in wrap} == {-(-n // 4)}
    assert set(chain(*wrap)) == set(range(n))


def test_items_are_made_once_where_they_are_cached() -> None:
    made: list[int] = []
    reader = read(range(6)).map(lambda i: made.append(i) or np.full(2, i)).cache()  # type: ignore[func-returns-value]
    first = list(reader)
    assert told(reader) == told(first)
    assert made == list(range(6))
    with pytest.raises(ValueError, match="read-only"):
        first[0] += 1


def test_nothing_is_made_to_resume() -> None:
    made: list[int] = []
    reader = read(range(100)).shuffle(1).map(lambda i: made.append(i)).batch(10, collate=len)
    reader.load_state_dict({"reader": repr(reader), "epoch": 0, "position": 9})
    list(reader)
    assert len(made) == 10


def test_examples_of_an_array_can_not_be_changed() -> None:
    reader = read(ArrayDataset(np.zeros((4, 2)))).map(lambda x: x.__iadd__(1))
    with pytest.raises(ValueError, match="read-only"):
        list(reader)


@pytest.mark.slow
def test_as_torch_and_tensorflow_have_them(tf: Any) -> None:
    """The same number of batches of the same sizes, and the same examples in all, as both loaders give."""
    import torch.utils.data as loader

    x = np.random.default_rng(1).normal(size=(23, 2)).astype(np.float32)
    for drop in (False, True):
        ours = list(read(ArrayDataset(x)).shuffle(0).batch(5, drop_last=drop))
        theirs = [
            [batch.numpy() for batch in loader.DataLoader(list(x), batch_size=5, shuffle=True, drop_last=drop)],
            list(tf.data.Dataset.from_tensor_slices(x).shuffle(23).batch(5, drop_remainder=drop).as_numpy_iterator()),
        ]
        for batches in theirs:
            assert [batch.shape for batch in ours] == [batch.shape for batch in batches]
            assert all(batch.dtype == np.float32 for batch in (*ours, *batches))
            if not drop:
                assert sorted(map(tuple, np.concatenate(ours))) == sorted(map(tuple, np.concatenate(batches)))
    for reader, dataset in (
        (read(range(7)).repeat(2).batch(3), tf.data.Dataset.range(7).repeat(2).batch(3)),
        (read(range(7)).zip(range(5)), tf.data.Dataset.zip(tf.data.Dataset.range(7), tf.data.Dataset.range(5))),
        (read(range(7)).chain(range(2)), tf.data.Dataset.range(7).concatenate(tf.data.Dataset.range(2))),
        (read(range(7)).shard(1, 3), tf.data.Dataset.range(7).shard(3, 1)),
        (read(range(7)).filter(lambda i: i % 2), tf.data.Dataset.range(7).filter(lambda i: i % 2 > 0)),
    ):
        assert told(reader) == told(dataset.as_numpy_iterator())


READS_ON = """
import json, os, sys, time
from internals.data import read
folder, crew = sys.argv[1], json.loads(sys.argv[2])
state = os.path.join(folder, "state")
reader = read(range(400)).shuffle(5).map(lambda i, rng: i + rng.random(), seed=1).batch(3).prefetch(**crew)
if os.path.exists(state):
    reader.load_state_dict(json.load(open(state))["reader"])
done = json.load(open(state))["items"] if os.path.exists(state) else []
for batch in reader:
    done.append(batch.tolist())
    with open(state + ".new", "w") as out:
        json.dump({"reader": reader.state_dict(), "items": done}, out)
    os.replace(state + ".new", state)
    time.sleep(0.002)
print(json.dumps(done))
"""


@pytest.mark.slow
@pytest.mark.parametrize("crew", ["3 threads", "2 processes"])
def test_killed_and_resumed_is_never_stopped(tmp_path: Path, crew: str) -> None:
    command = [sys.executable, "-c", READS_ON, str(tmp_path), json.dumps(CREWS[crew])]
    rng = np.random.default_rng(0)
    state, done, kills = tmp_path / "state", 0, 0
    while True:
        # Each life ends some batches after the last one did, so that there is an end, however slow the machine.
        last = done + int(rng.integers(5, 40))
        running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        while running.poll() is None and done < last:
            time.sleep(0.001)
            done = len(json.loads(state.read_text())["items"]) if state.exists() else 0
        if running.poll() is not None:
            break
        running.send_signal(signal.SIGKILL)
        running.communicate()
        kills += 1
    out, _ = running.communicate()
    assert running.returncode == 0
    assert kills >= 1
    reader = read(range(400)).shuffle(5).map(noisy, seed=1).batch(3)
    assert json.loads(out) == [batch.tolist() for batch in reader]
