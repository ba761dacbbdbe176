"""The picture of a storage is where the entries of each tensor are: every index at its own place."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest

from internals import Tensor, ops
from internals.observe import draw_storage, picture
from internals.observe.storage import CELL

SVG = "{http://www.w3.org/2000/svg}"


def labels(tensor: Tensor) -> dict[int, str]:
    """What the picture writes into the places of a tensor's memory, by place."""
    texts = ElementTree.fromstring(draw_storage({"t": tensor}, title="t").svg).findall(f".//{SVG}text")
    return {int(float(t.get("x")) // CELL): t.text for t in texts if t.get("fill") == picture.LEAF}


VIEWS: dict[str, Callable] = {
    "itself": lambda x: x,
    "transposed": lambda x: x.T,
    "columns reversed": lambda x: x[:, ::-1],
    "both reversed": lambda x: x[::-1, ::-1],
    "a part": lambda x: x[1:, ::2],
    "a row": lambda x: x[2],
    "an entry": lambda x: x[1, 2],
    "nothing": lambda x: x[:, :0],
}


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
@pytest.mark.parametrize("view", VIEWS)
def test_every_index_is_at_its_place(view: str, device: str) -> None:
    places = VIEWS[view](np.arange(12).reshape(3, 4))
    expected = {int(place): ",".join(map(str, index)) or "()" for index, place in np.ndenumerate(places)}
    for dtype in ("float32", "int8", "bool"):
        x = Tensor(np.arange(12).reshape(3, 4) % 2, dtype=dtype, device=device)
        assert labels(VIEWS[view](x)) == expected


def test_what_is_stretched_lies_at_one_place() -> None:
    row = Tensor(np.arange(4.0))
    assert labels(ops.broadcast_to(row, shape=(3, 4))) == {0: "*,0", 1: "*,1", 2: "*,2", 3: "*,3"}
    assert labels(ops.broadcast_to(row[1], shape=(2, 5))) == {1: "*,*"}


def test_values_stand_in_memory_and_in_the_grid_of_each_tensor() -> None:
    x = Tensor([[1.5, -2.0], [3.0, 4.0]])
    picture_of_both = draw_storage({"x": x, "x.T": x.T}, title="t")
    for value in ("1.5", "-2", "3", "4"):
        assert picture_of_both.svg.count(f">{value}</text>") >= 3
    assert "x.T: shape (2, 2), strides (4, 8), offset 0; in the order of its entries it reads places [0, 2, 1, 3]." in (
        picture_of_both.description
    )


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "views of one memory, got 0"),
        ({"a": Tensor([1.0]), "b": Tensor([1.0])}, "views of one memory, got 2"),
        ({"a": Tensor(np.zeros((5, 5)))}, "25 places in memory"),
        ({"a": Tensor(np.zeros((2, 2, 2)))}, "at most two axes"),
        ({"a": Tensor(np.zeros(0))}, "0 places in memory"),
    ],
)
def test_what_can_not_be_drawn_is_refused(tensors: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_storage(tensors, title="t")


def test_numbers_never_leave_their_square() -> None:
    values = [-1.2345e-5, 123456.0, float("nan"), -float("inf"), 0.33333, -1.5]
    svg = draw_storage({"x": Tensor(values)}, title="t").svg
    texts = [t.text for t in ElementTree.fromstring(svg).findall(f".//{SVG}text") if t.get("fill") == picture.TEXT]
    assert max(map(len, texts[1:7] + texts[-6:])) <= 4
    assert texts[1:7] == ["…", "…", "nan", "-inf", "0.33", "-1.5"]
