"""The plan: nothing that is alive together shares bytes, and its size is close to the least there is."""

import itertools

import numpy as np
import pytest

from internals.deploy.lite import Builder, Interpreter
from internals.deploy.lite.runtime.arena import Block, aligned, lower_bound, place


@pytest.mark.parametrize("seed", range(30))
def test_blocks_that_are_alive_together_do_not_overlap(seed):
    rng = np.random.default_rng(seed)
    blocks = []
    for i in range(int(rng.integers(1, 40))):
        first = int(rng.integers(-1, 30))
        size = aligned(int(rng.integers(1, 5000)))
        blocks.append(Block(f"b{i}", size, first, first + int(rng.integers(0, 6))))
    size = place(blocks)
    assert size == max(block.offset + block.size for block in blocks)
    for i, one in enumerate(blocks):
        assert one.offset >= 0
        assert one.offset % 64 == 0
        for other in blocks[:i]:
            apart = one.offset + one.size <= other.offset or other.offset + other.size <= one.offset
            assert apart or not one.meets(other)
    assert lower_bound(blocks) <= size <= 1.25 * lower_bound(blocks)


def chain(sizes, kind="Unary", parameters=(0,)):
    b = Builder()
    x = b.input("x", (-1, sizes))
    for _ in range(6):
        x = b.add(kind, [x], (-1, sizes), parameters=parameters)
    b.output(x, "y")
    return b


def test_a_chain_of_activations_takes_the_memory_of_one():
    model = Interpreter(chain(1000).to_bytes())
    assert len(model.arena) == aligned(4000)
    x = np.random.default_rng(0).normal(size=(1, 1000)).astype("f4")
    np.testing.assert_array_equal(model(x=x)["y"], np.maximum(x, 0))


def test_a_value_that_is_read_again_is_not_overwritten():
    b = Builder()
    x = b.input("x", (-1, 50))
    first = b.add("Unary", [x], (-1, 50), parameters=(0,))
    second = b.add("Unary", [x], (-1, 50), parameters=(3,))
    twice = b.add("Add", [second, second], (-1, 50), parameters=(0,))
    b.output(b.add("Add", [first, twice], (-1, 50), parameters=(0,)), "y")
    b.output(second, "tanh")
    x = np.random.default_rng(1).normal(size=(2, 50)).astype("f4")
    got = Interpreter(b.to_bytes())(x=x)
    np.testing.assert_allclose(got["y"], np.maximum(x, 0) + 2 * np.tanh(x), rtol=1e-6)
    np.testing.assert_allclose(got["tanh"], np.tanh(x), rtol=1e-6)


def test_everything_that_is_written_lies_in_the_arena():
    model = Interpreter(chain(64).to_bytes(), batch=3)
    start = model.arena.ctypes.data
    for array in (*model.inputs.values(), *model.outputs.values()):
        assert start <= array.ctypes.data < start + len(model.arena)
        assert array.base is not None


def test_kernels_work_behind_it_and_where_no_value_is():
    """Never over a value that is alive; less room where less is asked for."""
    b = Builder()
    rng = np.random.default_rng(3)
    x = b.input("x", (-1, 64), "int8", scale=0.1)
    for size in (200, 30):
        width = b.tensors[x]["shape"][-1]
        weight = rng.integers(-127, 128, (size, width)).astype(np.int8)
        args = [x, b.constant(f"w{size}", weight, scale=0.01), b.constant(f"b{size}", np.zeros(size, np.int32))]
        x = b.add("FullyConnected", args, (-1, size), parameters=(0,), scale=0.2)
    b.output(x, "y")
    given = rng.integers(-128, 128, (5, 64)).astype(np.int8)
    found = []
    for scratch in (1, 4096, 2**20):
        model = Interpreter(b.to_bytes(), batch=5, scratch=scratch)
        first, last = model.arena.ctypes.data, model.arena.ctypes.data + len(model.arena) + len(model.room)
        assert all(first <= one.ctypes.data <= last - one.nbytes for kernel in model.kernels for one in kernel.working)
        for step, kernel in enumerate(model.kernels):
            alive = [one for one in model.blocks if one.first <= step <= one.last]
            for block, one in itertools.product(alive, kernel.working):
                start = one.ctypes.data - first
                assert start + one.nbytes <= block.offset or block.offset + block.size <= start
        found.append((len(model.room), model(x=given)["y"]))
    sizes = [size for size, _ in found]
    assert sizes == sorted(set(sizes))
    for _, one in found[1:]:
        np.testing.assert_array_equal(one, found[0][1])


def test_another_batch_is_planned_again():
    model = Interpreter(chain(16).to_bytes())
    small = len(model.arena)
    x = np.random.default_rng(2).normal(size=(9, 16)).astype("f4")
    assert model(x=x)["y"].shape == (9, 16)
    assert model.batch == 9
    assert len(model.arena) == 9 * small
