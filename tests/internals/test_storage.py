"""What a tensor says about its memory: storage, strides, offset, views; and that no row shares memory unsaid."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from op_answers import call, laid_out, to_host
from op_examples import GROUPS, Group

from internals import Tensor, no_grad, shares_memory
from internals.ops import TABLE
from internals.tensor.views import PUT_BACK

on_every_device = pytest.mark.parametrize("where", ["cpu", "sim:0", pytest.param("cuda:0", marks=pytest.mark.gpu)])


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape) + 3).standard_normal(shape)


LOOKS: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: x[...],
    "row": lambda x: x[1],
    "last row": lambda x: x[-1],
    "entry": lambda x: x[2, 3],
    "columns": lambda x: x[:, 1:4:2],
    "transpose": lambda x: x.T,
    "permute": lambda x: x.reshape(3, 2, 2).permute(2, 0, 1),
    "reshape": lambda x: x.reshape(2, 6),
    "reshape of a slice": lambda x: x[1:].reshape(-1),
    "reshape of columns": lambda x: x[:, :2].reshape(6),
    "reshape of a transpose": lambda x: x.T.reshape(12),
    "reshape that splits a transpose": lambda x: x.T.reshape(2, 2, 3),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "broadcast": lambda x: x[:, :1].broadcast_to((3, 4)),
    "view of a view": lambda x: x.T[1:][:, 0],
    "rows by number": lambda x: x[[0, 2]],
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "contiguous": lambda x: x.contiguous(),
    "contiguous of a transpose": lambda x: x.T.contiguous(),
}


@on_every_device
@pytest.mark.parametrize("look", LOOKS)
def test_where_the_entries_are_is_as_in_torch(look: str, where: str) -> None:
    """Strides and offset (ours in bytes, torch's in entries), contiguity, and whether memory is shared."""
    array = random(3, 4)
    x, t = Tensor(array, device=where), torch.tensor(array)
    v, u = LOOKS[look](x), LOOKS[look](t)
    shared = u.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
    assert shares_memory(v, x) is shared
    assert (v.storage is x.storage) is shared
    assert v.is_view is (u._is_view() if u is not t else False)
    assert v.base is (x if v.is_view else None)
    assert v.nbytes == u.numel() * 8
    assert v.offset == u.storage_offset() * 8
    assert v.is_contiguous == u.is_contiguous()
    strides = [(mine, theirs * 8) for mine, theirs, n in zip(v.strides, u.stride(), u.shape, strict=True) if n > 1]
    assert all(mine == theirs for mine, theirs in strides)
    np.testing.assert_array_equal(to_host(v), u.numpy())


@on_every_device
def test_a_flipped_view_starts_at_its_last_entry(where: str) -> None:
    x = Tensor(random(5), device=where)
    v = x[::-1]
    assert v.offset == 4 * 8
    assert v.strides == (-8,)
    assert v.storage.nbytes == 40
    assert v.storage.address == x.storage.address


@pytest.mark.slow
@on_every_device
def test_storage_counts_and_names_who_shares_it(where: str) -> None:
    x = Tensor(random(3, 4), device=where)
    assert x.storage.nbytes == 96
    v, w, alias = x[0], x.T, x.detach()
    assert x.storage.tensors == [x, v, w, alias] or all(
        a is b for a, b in zip(x.storage.tensors, [x, v, w, alias], strict=True)
    )
    assert w.storage.nbytes == 96
    assert x.storage.device is x.device
    v += 1.0
    alias.zero_()
    assert x.version == w.version == x.storage.version == 2
    shown = repr(x.storage)
    assert "96 bytes" in shown
    assert f"on {where}" in shown
    assert "4 tensors, version 2" in shown
    del v, w
    gc.collect()
    assert "2 tensors" in repr(x.storage)


@pytest.mark.slow
def test_the_storage_of_nothing() -> None:
    storage = Tensor(random(2)).storage
    gc.collect()
    assert (storage.nbytes, storage.address, storage.device, storage.tensors) == (0, 0, None, [])
    assert "gone, 0 tensors" in repr(storage)


@on_every_device
def test_an_empty_tensor_has_a_place_too(where: str) -> None:
    x = Tensor(random(0, 3), device=where)
    assert x.nbytes == x.storage.nbytes == 0
    assert x.is_contiguous
    assert not shares_memory(x, x.T)


@pytest.mark.slow
def test_looking_keeps_no_memory_alive() -> None:
    from internals import device

    sim = device("sim:4")
    before = sim.counters.allocated
    x = Tensor(random(16), device=sim)
    storage = x[1:].storage
    assert storage.nbytes == 128
    del x
    gc.collect()
    assert sim.counters.allocated == before


@pytest.mark.slow
def test_a_view_keeps_its_base() -> None:
    x = Tensor(random(3, 4))
    v = x.T[0]
    del x
    gc.collect()
    assert v.base.shape == (3, 4)


def test_tensors_of_two_devices_share_nothing() -> None:
    x = Tensor(random(3))
    assert not shares_memory(x, Tensor(x, device="sim:0"))
    assert not shares_memory(x[:1], x[1:])
    assert shares_memory(x[:2], x[1:])
    with pytest.raises(TypeError, match="shares_memory: expected two Tensors, got ndarray"):
        shares_memory(x, x.numpy())  # type: ignore[arg-type]


def test_contiguous_is_differentiable() -> None:
    x = Tensor(random(3, 4), requires_grad=True)
    g = random(4, 3)
    x.T.contiguous().backward(Tensor(g))
    np.testing.assert_array_equal(x.grad.numpy(), g.T)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_only_view_rows_share_memory(group: Group) -> None:
    """A row that hands its input's memory on says so, or a write to its result would change the input unseen."""
    op = TABLE[group.case.op]
    for example in group.examples:
        inputs = [laid_out(array, example.layout) for array in example.inputs()]
        with no_grad():
            out = call(example, inputs)
        for one in out if isinstance(out, tuple) else (out,):
            for x in inputs:
                if shares_memory(one, x):
                    assert op.view, f"{example}: the result shares memory with an input; view=True is missing"
                    assert one.storage is x.storage, str(example)


def test_every_view_row_can_be_written_through() -> None:
    unwritable = {"broadcast_to"}
    several = {name for name, op in TABLE.items() if op.results}
    assert set(PUT_BACK) == {name for name, op in TABLE.items() if op.view} - unwritable - several
