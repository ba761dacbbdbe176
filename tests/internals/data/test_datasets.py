"""Datasets, collation, splits, text, and what all of `internals.data` says to bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from internals import Tensor, data
from internals.data import read

LICENCE = data.text("licence")


class Point(NamedTuple):
    x: Any
    label: int


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "shape", "dtype", "classes"),
    [
        (data.digits, (1797, 8, 8), np.int64, 10),
        (data.iris, (150, 4), np.int64, 3),
        (data.wine, (178, 13), np.int64, 3),
        (data.breast_cancer, (569, 30), np.int64, 2),
        (data.diabetes, (442, 10), np.float32, None),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_data_that_ships_in_packages(made: Any, shape: tuple[int, ...], dtype: Any, classes: int | None) -> None:
    dataset = made()
    x, y = dataset.arrays
    assert (x.shape, x.dtype, y.shape, y.dtype) == (shape, np.float32, shape[:1], dtype)
    assert np.isfinite(x).all()
    if classes:
        assert set(y.tolist()) == set(range(classes))
        assert len(dataset.classes) == classes


@pytest.mark.slow
def test_photographs() -> None:
    images = data.photographs()
    assert sorted(images) == ["china", "flower"]
    assert all(image.dtype == np.uint8 and image.shape == (427, 640, 3) for image in images.values())


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([1.5, 2.0], np.array([1.5, 2], np.float32)),
        ([1, 2], np.array([1, 2])),
        ([np.float64(1), np.float64(2)], np.array([1.0, 2.0])),
        ([True, False], np.array([True, False])),
        ([[1.0, 2.0]], np.array([[1, 2]], np.float32)),
        ([Tensor([1.0]), Tensor([2.0])], np.array([[1], [2]], np.float32)),
        ([np.ones((2, 0))], np.ones((1, 2, 0))),
        (["a", "b"], ["a", "b"]),
        ([(1, 2.0), (3, 4.0)], (np.array([1, 3]), np.array([2, 4], np.float32))),
        ([{"x": 1, "y": (1,)}, {"y": (3,), "x": 2}], {"x": np.array([1, 2]), "y": (np.array([1, 3]),)}),
        ([Point([1.0], 2)], Point(np.array([[1]], np.float32), np.array([2]))),
    ],
    ids=repr,
)
def test_collate(items: Any, expected: Any) -> None:
    def same(one: Any, other: Any) -> None:
        assert type(one) is type(other)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        elif isinstance(one, tuple):
            assert len(one) == len(other)
            for a, b in zip(one, other, strict=True):
                same(a, b)
        elif isinstance(one, dict):
            assert one.keys() == other.keys()
            for key in one:
                same(one[key], other[key])
        else:
            assert one == other

    same(data.collate(items), expected)
    same(data.pad_batch(items), expected)


@pytest.mark.slow
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("length", [None, 1, 3, 9])
def test_pad_as_keras_does(length: int | None, left: bool) -> None:
    keras = pytest.importorskip("keras")
    rng = np.random.default_rng(4)
    sequences = [rng.integers(1, 9, n) for n in (3, 0, 5, 1)]
    side = "pre" if left else "post"
    expected = keras.utils.pad_sequences(
        sequences, maxlen=length, padding=side, truncating=side, value=7, dtype="int64"
    )
    padded, lengths = data.pad(sequences, value=7, length=length, left=left)
    np.testing.assert_array_equal(padded, expected)
    assert lengths.tolist() == [min(n, length or 5) for n in (3, 0, 5, 1)]
    labels = list(zip(sequences, range(4), strict=True))
    padded, targets = data.pad_batch(labels, value=7, left=left)
    assert padded.shape == (4, 5)
    assert targets.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("shares", [(0.6, 0.2, 0.2), (1000, 300), (0.5, 0.5), (0.9, 0.07, 0.03)], ids=repr)
@pytest.mark.parametrize("stratified", [False, True])
def test_split(shares: Any, stratified: bool) -> None:
    dataset = data.digits()
    labels = dataset.arrays[1]
    parts = data.split(dataset, shares, seed=3, stratify=labels if stratified else None)
    again = data.split(dataset, shares, seed=3, stratify=labels if stratified else None)
    chosen = [part.indices.tolist() for part in parts]
    assert chosen == [part.indices.tolist() for part in again]
    assert len(set(sum(chosen, []))) == sum(map(len, chosen))  # noqa: RUF017 - of three
    for share, part in zip(shares, parts, strict=True):
        size = share if isinstance(share, int) else share * 1797
        assert abs(len(part) - size) < 1
        if stratified:
            counts = np.bincount(labels[part.indices], minlength=10)
            assert np.all(np.abs(counts - np.bincount(labels) * len(part) / 1797) < 1.5)
        image, label = part[2]
        assert label == labels[part.indices[2]]
        np.testing.assert_array_equal(part.fetch([2])[0][0], image)


def test_split_as_scikit_learn_does() -> None:
    """Rare classes: as many of each in both parts as scikit-learn's stratified split has, to within one."""
    from sklearn.model_selection import train_test_split

    labels = np.array([0] * 90 + [1] * 6 + [2] * 2 + [3] * 2)
    train, test = data.split(range(100), (0.7, 0.3), seed=0, stratify=labels)
    theirs = train_test_split(labels, test_size=0.3, stratify=labels, random_state=0)
    for part, other in zip((train, test), theirs, strict=True):
        assert len(part) == len(other)
        ours = np.bincount(labels[part.indices], minlength=4)
        assert np.abs(ours - np.bincount(other, minlength=4)).max() <= 1


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "characters": lambda: data.CharTokenizer(LICENCE),
    "words": lambda: data.WordTokenizer(LICENCE),
    "pairs": lambda: data.PairTokenizer(LICENCE[:4000], 200),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokens_are_text_again(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    text = LICENCE[:3000].rsplit(" ", 1)[0]
    tokens = tokenizer.encode(text)
    assert tokens.dtype == np.int64
    assert tokenizer.decode(tokens) == text
    assert tokens.max() < len(tokenizer)
    assert tokenizer.decode(tokenizer.encode("\N{SNOWMAN}")) == "\N{REPLACEMENT CHARACTER}"
    assert tokenizer.encode("").shape == (0,)


def test_pairs_are_merged_by_frequency() -> None:
    """The example of Sennrich et al. (2016), Fig. 1 and its Algorithm 1: low lower newest widest."""
    text = " low" * 5 + " lower" * 2 + " newest" * 6 + " widest" * 3
    tokenizer = data.PairTokenizer(text, len(set(text)) + 1 + 3)
    assert sorted(tokenizer.merges.items(), key=lambda entry: entry[1])[:2] == [(("e", "s"), 0), (("es", "t"), 1)]
    assert list(tokenizer.cut(" west"))[-1] == "est"
    assert len(tokenizer) == len(set(text)) + 4


def test_pairs_shorten_text() -> None:
    assert len(TOKENIZERS["pairs"]().encode(LICENCE)) < 0.7 * len(LICENCE)


def test_windows_are_what_comes_next() -> None:
    windows = data.Windows(np.arange(20), 4, 3)
    assert len(windows) == 6
    batch = next(iter(read(windows).shuffle(0).batch(6)))
    assert sorted(batch[0][:, 0].tolist()) == [0, 3, 6, 9, 12, 15]
    np.testing.assert_array_equal(batch[0] + 1, batch[1])
    np.testing.assert_array_equal(windows[-1][1], [16, 17, 18, 19])


def test_text_that_comes_with_python() -> None:
    import this

    assert data.text("zen") == "".join(this.d.get(letter, letter) for letter in this.s) + "\n"
    assert "Return the sample arithmetic mean" in data.text("docstrings", modules=["statistics"])


X = np.zeros((3, 2))
WRONG: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("read", lambda: read(x for x in X), TypeError, "generator can be read once.*Pass the function"),
    ("read", lambda: read(3), TypeError, "int is no source"),
    ("read", lambda: read({"a": 1}), TypeError, "dict is no source"),
    ("read", lambda: list(read(lambda: 3)), TypeError, "returned int; expected an iterator"),
    ("batch", lambda: read(X).batch(0), ValueError, "size must be a positive whole number, got 0"),
    ("batch", lambda: read(X).batch(2.5), ValueError, "got 2.5"),
    ("batch", lambda: read(X).batch(2, collate=3), TypeError, "expected a function, got int"),
    ("map", lambda: read(X).map(None), TypeError, "map: expected a function, got NoneType"),
    ("shuffle", lambda: read(X).shuffle(None), TypeError, "seed must be a whole number, got None"),
    ("shuffle", lambda: read(X).shuffle(-1), TypeError, "got -1"),
    ("shuffle", lambda: read(X).shuffle(1, buffer=0), ValueError, "buffer must be a positive"),
    ("shard", lambda: read(X).shard(2, 2), ValueError, "rank must be from 0 to 1, got 2"),
    ("shard", lambda: read(X).shard(0, 2, remainder="pad"), ValueError, "'keep', 'drop' or 'wrap', got 'pad'"),
    ("prefetch", lambda: read(X).prefetch(0), ValueError, "workers must be a positive whole number, got 0"),
    ("prefetch", lambda: read(X).prefetch(1, ahead=-1), ValueError, "ahead must be a positive"),
    ("repeat", lambda: read(X).repeat(0), ValueError, "times must be a positive"),
    ("len", lambda: len(read(lambda: iter(X))), TypeError, "known only once they are read"),
    ("len", lambda: len(read(X).repeat()), TypeError, "has no end"),
    ("load_state_dict", lambda: read(X).load_state_dict({"epoch": 1}), ValueError, "expected reader, epoch and pos"),
    ("load_state_dict", lambda: read(X).load_state_dict(read(X).batch(2).state_dict()), ValueError,
        r"that of ndarray\[3\].batch\(2\), but this is ndarray\[3\]\."),
    ("load_state_dict", lambda: read(X).load_state_dict({**read(X).state_dict(), "position": -1}), ValueError, "-1"),
    ("collate", lambda: data.collate([]), ValueError, "nothing to put together"),
    ("collate", lambda: data.collate([X, X[:2]]), ValueError, r"\(2, 2\), \(3, 2\) do not stack.*pad_batch"),
    ("collate", lambda: data.collate([(1, 2), (1,)]), ValueError, r"different numbers of fields: \[1, 2\]"),
    ("collate", lambda: data.collate([{"a": 1}, {"b": 1}]), ValueError, "different fields"),
    ("collate", lambda: data.collate([(1, 2), X]), ValueError, "built differently: ndarray, tuple"),
    ("collate", lambda: data.collate([None, None]), TypeError, "NoneType can't be stacked"),
    ("collate", lambda: data.collate([[[1], [1, 2]]]), ValueError, "no regular array"),
    ("pad", lambda: data.pad([]), ValueError, "no sequences"),
    ("pad", lambda: data.pad([1, 2]), ValueError, "a number has no length"),
    ("pad", lambda: data.pad([X, X[:, :1]]), ValueError, "first axis only"),
    ("pad", lambda: data.pad([X], length=0), ValueError, "length must be a positive integer, got 0"),
    ("ArrayDataset", data.ArrayDataset, ValueError, "expected one array or more"),
    ("ArrayDataset", lambda: data.ArrayDataset(3), ValueError, "0-d"),
    ("ArrayDataset", lambda: data.ArrayDataset(X, X[:2]), ValueError, "arrays of 3, 2 examples"),
    ("Subset", lambda: data.Subset(X, [3]), IndexError, "example 3 of a dataset of 3"),
    ("split", lambda: data.split(X, (0.5, 0.6)), ValueError, "sum to 1.1; expected 1"),
    ("split", lambda: data.split(X, (2, 2)), ValueError, "parts of 2, 2 examples, but there are 3"),
    ("split", lambda: data.split(X, (0.9, 0.1)), ValueError, "3 examples are too few.*one is empty"),
    ("split", lambda: data.split(X, (0.0, 1.0)), ValueError, "shares must be positive"),
    ("split", lambda: data.split(X, (0.5, 0.5), stratify=[1]), ValueError, r"stratify has shape \(1,\)"),
    ("text", lambda: data.text("bible"), ValueError, "no text called 'bible'; expected 'zen'"),
    ("text", lambda: data.text("docstrings", modules=["numpy"]), ValueError, "no top-level module 'numpy'"),
    ("encode", lambda: data.CharTokenizer("ab").encode(b"ab"), TypeError, "expected a string, got bytes"),
    ("decode", lambda: data.CharTokenizer("ab").decode([3]), IndexError, "token 3, but there are tokens 0 to 2"),
    ("size", lambda: data.PairTokenizer("ab", 0), ValueError, "size must be a whole number of at least 2, got 0"),
    ("Windows", lambda: data.Windows([1.0, 2.0], 1), TypeError, "integers along one axis, got float64"),
    ("Windows", lambda: data.Windows([1, 2], 2), ValueError, "2 tokens are too few for a stretch of 2"),
    ("Windows", lambda: data.Windows([1, 2], 1)[1], IndexError, "there are 1 stretches"),
    ("Dataset", lambda: len(data.Dataset()), NotImplementedError, "Dataset has no __len__"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "call", "error", "match"), WRONG, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(WRONG)]
)
def test_bad_input(name: str, call: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        call()
    assert name in str(caught.value)
