"""Joining requests to a batch and splitting its results: every request gets its own rows, at its own lengths."""

from __future__ import annotations

import numpy as np
import pytest

from internals.deploy import Signature, SignatureError, TensorSpec
from internals.deploy.serve.joining import SHORT, Joiner, is_batched

RNG = np.random.default_rng(5)


def signature(given, made):
    return Signature(
        {name: TensorSpec(shape) for name, shape in given.items()},
        tuple(made),
        None,
        {name: TensorSpec(shape) for name, shape in made.items()},
    )


ROWS = signature({"x": ("batch", 3), "y": ("batch",)}, {"sum": ("batch", 3)})
SEQUENCES = signature({"x": ("batch", "time", 2)}, {"each": ("batch", "time"), "flat": ("batch", 2)})


@pytest.mark.parametrize(
    ("given", "made", "batched"),
    [
        ({"x": ("batch", 3)}, {"y": ("batch",)}, True),
        ({"x": (None, 3)}, {"y": (None,)}, True),
        ({"x": (4, 3)}, {"y": (4,)}, False),
        ({"x": ("batch", 3)}, {"y": ()}, False),
        ({"x": ("batch", 3), "t": (2,)}, {"y": ("batch",)}, False),
        ({"x": ("batch", 3)}, {"y": ("other",)}, False),
    ],
)
def test_what_can_be_batched(given, made, batched):
    assert is_batched(signature(given, made)) is batched


def test_rows_come_back_to_who_sent_them():
    joiner = Joiner(ROWS)
    requests = [{"x": RNG.normal(size=(n, 3)).astype("f"), "y": RNG.normal(size=n).astype("f")} for n in (1, 3, 2)]
    joined = joiner.join(requests)
    assert joined["x"].shape == (6, 3)
    results = {"sum": joined["x"] + joined["y"][:, None]}
    for one, came in zip(requests, joiner.split(requests, results), strict=True):
        np.testing.assert_array_equal(came["sum"], one["x"] + one["y"][:, None])


def test_sequences_are_filled_up_and_cut_back():
    joiner = Joiner(SEQUENCES, {"time": -7.0})
    requests = [{"x": RNG.normal(size=(n, t, 2)).astype("f")} for n, t in ((1, 4), (2, 1), (1, 6))]
    assert len({joiner.key(one) for one in requests}) == 1
    joined = joiner.join(requests)["x"]
    assert joined.shape == (4, 6, 2)
    assert (joined[0, 4:] == -7).all()
    assert (joined[1:3, 1:] == -7).all()
    results = {"each": joined.sum(2), "flat": joined[:, 0]}
    for one, came in zip(requests, joiner.split(requests, results), strict=True):
        np.testing.assert_array_equal(came["each"], one["x"].sum(2))
        np.testing.assert_array_equal(came["flat"], one["x"][:, 0])


def test_one_long_sequence_does_not_make_all_others_as_long():
    """What a batch of any requests takes is at most twice what they take."""
    joiner = Joiner(SEQUENCES, {"time": 0.0})
    requests = [{"x": np.zeros((1, length, 2), "f")} for length in RNG.integers(1, 3 * SHORT, 200)]
    requests.append({"x": np.zeros((1, 1000 * SHORT, 2), "f")})
    lanes = {joiner.key(one): [] for one in requests}
    for one in requests:
        lanes[joiner.key(one)].append(one)
    assert len({joiner.key(one) for one in requests if one["x"].shape[1] <= SHORT}) == 1
    for lane in lanes.values():
        lengths = [one["x"].shape[1] for one in lane]
        assert max(lengths) <= max(SHORT, 2 * min(lengths))


def test_without_padding_other_lengths_are_other_batches():
    joiner = Joiner(SEQUENCES)
    one, two = ({"x": np.zeros((1, t, 2), "f")} for t in (3, 4))
    assert joiner.key(one) != joiner.key(two)


def test_a_model_that_loses_rows_is_caught():
    joiner = Joiner(ROWS)
    requests = [{"x": RNG.normal(size=(2, 3)).astype("f"), "y": RNG.normal(size=2).astype("f")}] * 2
    with pytest.raises(ValueError, match="sum has 3 rows for a batch of 4"):
        joiner.split(requests, {"sum": RNG.normal(size=(3, 3))})


@pytest.mark.parametrize(
    ("rows", "said"), [((2, 3), "different numbers of rows"), ((0, 0), "no rows")], ids=["differ", "none"]
)
def test_rows_that_make_no_batch_are_refused(rows, said):
    with pytest.raises(SignatureError, match=said):
        Joiner(ROWS).rows({"x": np.zeros((rows[0], 3)), "y": np.zeros(rows[1])})
