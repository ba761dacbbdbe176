"""Gradients in fewer bytes: what is kept, how far off it can be, and that nothing is lost for ever."""

from __future__ import annotations

import numpy as np
import pytest

from internals.distributed.server import EightBit, TopK
from internals.distributed.server.compression import BLOCK, Memory, decode


@pytest.mark.parametrize("size", [1, 2, 7, 1000, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_top_k_keeps_the_largest(size: int, dtype: type) -> None:
    gradient = np.random.default_rng(size).standard_normal(size).astype(dtype)
    written = TopK(0.1).encode(gradient)
    read = decode("topk", written, size, gradient.dtype)
    kept = read != 0
    assert kept.sum() == -(-size // 10)
    assert (read[kept] == gradient[kept]).all()
    if not kept.all():
        assert np.abs(gradient[kept]).min() >= np.abs(gradient[~kept]).max()
    assert sum(part.nbytes for part in written) <= kept.sum() * (4 + gradient.itemsize)


@pytest.mark.parametrize("size", [1, 5, BLOCK, BLOCK + 1, 5 * BLOCK - 3])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_eight_bits_are_off_by_half_a_scale_at_most(size: int, scale: float) -> None:
    rng = np.random.default_rng(size)
    gradient = (scale * rng.standard_normal(size) * rng.choice([1e-3, 1.0], size)).astype(np.float32)
    written = EightBit().encode(gradient)
    read = decode("8bit", written, size, gradient.dtype)
    for begin in range(0, size, BLOCK):
        block = slice(begin, begin + BLOCK)
        bound = np.abs(gradient[block]).max() / 254
        assert np.abs(read[block] - gradient[block]).max() <= bound * (1 + 1e-5)
    assert np.abs(read - gradient).max() > 0 or size == 1
    assert sum(part.nbytes for part in written) <= size + 4 * (size // BLOCK + 1)


@pytest.mark.parametrize("how", [EightBit(), TopK(0.3)])
def test_zeros_stay_zeros(how: EightBit | TopK) -> None:
    gradient = np.zeros(10, np.float32)
    assert (decode(how.name, how.encode(gradient), 10, gradient.dtype) == 0).all()


@pytest.mark.parametrize("how", [TopK(0.05), EightBit()], ids=["topk", "8bit"])
def test_with_feedback_all_arrives_in_the_end(how: EightBit | TopK) -> None:
    """What has been sent differs from what was computed by what is remembered, at all times: nothing is lost."""
    rng = np.random.default_rng(1)
    memory, sent, computed = Memory(), np.zeros(200), np.zeros(200)
    steady = rng.standard_normal(200)
    for step in range(1, 300):
        gradient = steady + 0.1 * rng.standard_normal(200)
        computed += gradient
        sent += decode(how.name, memory.encode("w", gradient, how), 200, gradient.dtype)
        if step == 100:
            early = np.abs(computed - sent).max()
    assert np.abs(computed - sent).max() < 2 * early  # it does not grow with the number of steps
    assert np.abs(sent / step - steady).max() < 0.3


def test_without_feedback_small_entries_never_arrive() -> None:
    gradient = np.array([1.0, -3.0, 0.5, 0.1])
    memory, sent = Memory(), np.zeros(4)
    for _ in range(50):
        sent += decode("topk", memory.encode("w", gradient, TopK(0.25, feedback=False)), 4, gradient.dtype)
    assert sent.tolist() == [0, -150, 0, 0]


def test_pieces_have_memories_of_their_own() -> None:
    memory, how = Memory(), TopK(0.5)
    memory.encode("a", np.array([1.0, 2.0]), how)
    assert memory.encode("b", np.array([0.1, 0.0]), how)[1].tolist() == [0.1]
    memory.clear()
    assert memory.encode("a", np.array([0.5, 0.1]), how)[1].tolist() == [0.5]


@pytest.mark.parametrize("ratio", [0, -0.1, 1.1, float("nan"), "all"])
def test_a_ratio_that_is_none(ratio: object) -> None:
    with pytest.raises(ValueError, match="ratio is the part"):
        TopK(ratio)  # type: ignore[arg-type]


u4, f4, i1 = np.uint32, np.float32, np.int8


@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        ("plain", []),
        ("topk", [np.zeros(2, u4)]),
        ("topk", [np.zeros(2, u4), np.zeros(3, f4)]),
        ("topk", [np.array([0, 10], u4), np.zeros(2, f4)]),
        ("topk", [np.zeros(2, np.int32), np.zeros(2, f4)]),
        ("topk", [np.zeros((2, 1), u4), np.zeros((2, 1), f4)]),
        ("topk", [np.zeros(2, u4), np.zeros(2, np.float64)]),
        ("8bit", [np.zeros(9, i1), np.zeros(1, f4)]),
        ("8bit", [np.zeros(10, f4), np.zeros(1, f4)]),
        ("8bit", [np.zeros(10, i1), np.zeros(2, f4)]),
        ("zip", [np.zeros(10, f4)]),
    ],
)
def test_what_is_not_what_was_written(name: str, arrays: list) -> None:
    with pytest.raises((ValueError, TypeError)):
        decode(name, arrays, 10, np.dtype(f4))
