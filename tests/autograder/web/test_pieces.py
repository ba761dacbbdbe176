"""The parts that pages are made of: forms, plots, notebooks as plain text, names of downloads."""

from __future__ import annotations

import json
import re
import time
import xml.etree.ElementTree as tree_of
from datetime import UTC, datetime
from typing import Any

import pytest

from autograder.web import plots
from autograder.web.classes import facts
from autograder.web.forms import Form, FormError
from autograder.web.page import attachment
from autograder.web.plain import MOST_CELLS, MOST_OUTPUT, MOST_TEXT, plain


def form(**typed: str) -> Form:
    return Form(lambda name: typed.get(name, ""))


@pytest.mark.parametrize(
    ("typed", "value"),
    [("7", 7.0), (" 2,5 ", 2.5), ("-1e3", -1000.0), ("nan", None), ("inf", None), ("1e99", None), ("", None)],
)
def test_numbers(typed, value):
    if value is not None:
        assert form(points=typed).number("points", "Points") == value
        return
    with pytest.raises(FormError, match="Points"):
        form(points=typed).number("points", "Points")


@pytest.mark.parametrize("typed", ["1.5", "-1", "x", "", "1e300"])
def test_whole_numbers(typed):
    with pytest.raises(FormError, match="The job"):
        form(job=typed).whole("job", "The job")


def test_moments_are_of_a_zone():
    assert form(due="2026-07-01T12:00").moment("due", "Due", "Asia/Shanghai") == datetime(2026, 7, 1, 4, tzinfo=UTC)
    assert form().moment("due", "Due", "UTC") is None
    with pytest.raises(FormError, match="Due.*no time of day"):
        form(due="2026-07-01").moment("due", "Due", "UTC")
    with pytest.raises(FormError, match="Europe/Nowhere"):
        form(zone="Europe/Nowhere").zone()


def test_a_plot_draws_and_says_every_count():
    counts, labels = [3, 0, 12], ["a", "<b>", 'c"d']
    drawn = str(plots.bars(counts, labels, "Learners"))
    tree = tree_of.fromstring(drawn)
    assert tree.get("aria-label") == 'Learners. a: 3; <b>: 0; c"d: 12.'
    heights = [float(bar.get("height")) for bar in tree.findall("rect")]
    assert heights == [pytest.approx(heights[1] / 4, abs=0.1), heights[1]]
    assert "style=" not in drawn  # the content policy would refuse it
    with pytest.raises(ValueError, match="3 counts and 1 labels"):
        plots.bars(counts, ["a"], "x")


def test_nothing_to_plot_is_a_plot_of_nothing():
    assert tree_of.fromstring(str(plots.bars([0, 0], ["a", "b"], "None"))).findall("rect") == []


def test_times_are_sorted_into_spans():
    counts, names = plots.spread([0.0, 59.0, 3600.0, 3601.0, 1e9])
    assert dict(zip(names, counts, strict=True)) == {
        "1 min": 2, "10 min": 0, "1 h": 1, "6 h": 1, "1 d": 0, "3 d": 0, "7 d": 0, "more": 1,
    }  # fmt: skip


def cells(*found: Any) -> bytes:
    return json.dumps({"cells": list(found)}).encode()


def code(source: Any, *outputs: Any) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": list(outputs)}


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ({"output_type": "stream", "text": ["a", "b"]}, "ab"),
        ({"data": {"text/plain": "3", "text/html": "<script>"}}, "3"),
        ({"data": {"text/html": "<script>", "image/svg+xml": "<svg onload=x>"}}, "[image/svg+xml, text/html]"),
        ({"output_type": "error", "ename": "KeyError", "evalue": "'w'", "traceback": ["\x1b[2J"]}, "KeyError: 'w'"),
        ({"data": "x"}, ""),
        ({"data": {"text/plain": {"a": 1}}}, "[text/plain]"),
    ],
)
def test_outputs_are_text_or_named(output, shown):
    assert plain(cells(code("x", output))).cells[0].outputs == [shown]


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xfe", b"{", b"[]", b'{"cells": 3}', b"[" * 100_000, b'{"cells": [' + b"[" * 50_000, b"\0" * 50],
    ids=["empty", "binary", "cut", "list", "number", "deep", "deep cells", "zeros"],
)
def test_what_is_no_notebook_is_shown_as_it_is(data):
    found = plain(data)
    assert "not a notebook" in found.note
    assert "".join(cell.source for cell in found.cells) == data.decode(errors="replace")


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(cells(code("x" * 5 * MOST_TEXT), code("after")), id="one long cell"),
        pytest.param(cells(*[code("x")] * 20 * MOST_CELLS), id="many cells"),
        pytest.param(cells(code("x", *[{"text": "y" * 100_000}] * 2000)), id="long outputs"),
        pytest.param(b"x" * 40 * MOST_TEXT, id="no notebook"),
        pytest.param(cells(*[code("x", *[{"text": "y"}] * 1000)] * 500), id="many outputs"),
    ],
)
def test_a_notebook_bomb_is_cut(data):
    began = time.process_time()
    found = plain(data)
    assert sum(len(cell.source) + sum(map(len, cell.outputs)) for cell in found.cells) <= 2 * MOST_TEXT
    assert len(found.cells) <= MOST_CELLS
    assert time.process_time() - began < 20  # a bomb takes minutes
    assert found.note or max(len(output) for cell in found.cells for output in cell.outputs) <= MOST_OUTPUT + 20


def test_odd_cells_are_passed_over():
    found = plain(cells(3, None, {"cell_type": ["x"]}, code(["a", 5, "b"]), code({"x": 1}), {"source": "text"}))
    assert [cell.source for cell in found.cells] == ["", "ab", "", "text"]


@pytest.mark.parametrize(
    "name",
    [
        "plain.csv",
        'a"; filename="evil.html',
        "a\r\nSet-Cookie: x=1",
        "../../etc/passwd",
        "作业.ipynb",
        ".hidden",
        "",
        "\ud800",
        "a" * 300,
    ],
)
def test_the_name_of_a_download_is_only_a_name(name):
    header = attachment(name)
    assert re.fullmatch(
        r"attachment; filename=\"[A-Za-z0-9_-][A-Za-z0-9._-]*\"; filename\*=UTF-8''[A-Za-z0-9._~%-]*", header
    )
    header.encode("latin-1")


def test_an_entry_of_the_audit_in_words():
    assert facts({"due": None, "zone": "UTC"}, None) == "due: none; zone: UTC"
    assert facts({"due": "x", "zone": "UTC"}, {"due": None, "zone": "UTC"}) == "due: x"
    assert facts(None, {"a": 1}) == ""
    assert facts("2026-10-05", None) == "2026-10-05"
