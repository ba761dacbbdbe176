"""Pictures of matrices: what is zero stays empty, what is not is drawn and told."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from internals.observe import draw_matrices

SVG = "{http://www.w3.org/2000/svg}"


def squares(svg: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(svg).findall(f".//{SVG}rect")


def test_every_entry_has_a_square_and_only_zeros_are_empty() -> None:
    matrix = np.array([[1.0, 0.0, -2.5], [0.0, 3.0, 0.0]])
    drawn = squares(draw_matrices({"J": matrix}, title="a matrix").svg)
    assert [square.get("fill") == "none" for square in drawn] == [value == 0 for value in matrix.ravel()]
    strengths = [float(square.get("fill-opacity", 0)) for square in drawn]
    assert np.argmax(strengths) == 4
    assert drawn[2].get("fill") != drawn[0].get("fill")


def test_numbers_are_written_where_there_is_room() -> None:
    texts = re.findall(r">([^<]+)</text>", draw_matrices({"J": np.array([[1.0, 0.0, -2.5]])}, title="t").svg)
    assert texts == ["J", "1", "-2.5", "1 × 3"]
    wide = draw_matrices({"J": np.eye(40)}, title="t").svg
    assert re.findall(r">([^<]+)</text>", wide) == ["J", "40 × 40"]


def test_two_stand_side_by_side_and_fit_a_page() -> None:
    picture = draw_matrices({"J": np.ones((4, 16)), "its transpose": np.ones((16, 4))}, title="two")
    drawn = squares(picture.svg)
    ends = [float(square.get("x")) + float(square.get("width")) for square in drawn]
    assert max(ends[:64]) < min(float(square.get("x")) for square in drawn[64:])
    assert max(ends) <= float(ElementTree.fromstring(picture.svg).get("width")) <= 680
    assert "J: 4 rows, 16 columns, 64 of 64 entries are not zero." in picture.description


@pytest.mark.parametrize("matrices", [{}, {"v": np.zeros(3)}, {"J": np.zeros((0, 2))}])
def test_what_is_no_matrix_is_refused(matrices: dict) -> None:
    with pytest.raises(ValueError, match="draw_matrices: expected one or more matrices"):
        draw_matrices(matrices, title="t")
