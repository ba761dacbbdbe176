"""The op table as a table: what a row must have, and what it says of itself."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from internals import ops
from internals.ops import TABLE, Op, Spec

ROOMS = {
    *("elementwise", "functions", "activations", "reduce", "statistics", "scan", "shape", "arrange", "index", "lookup"),
    *("linalg", "linear", "contract", "solve", "decompose", "conv", "pool", "normalise", "dropout", "order"),
    *("loss", "classification", "ctc", "attention", "recurrent", "quantise", "eager"),
}


def test_there_are_at_least_160_rows() -> None:
    assert len(TABLE) >= 160


@pytest.mark.parametrize("op", TABLE.values(), ids=TABLE)
def test_a_row_is_complete(op: Op) -> None:
    assert TABLE[op.name] is op
    assert op.name == "transfer" or getattr(ops, op.name) is op
    assert op.doc.endswith(".")
    assert op.__doc__ == op.doc
    assert op.room in ROOMS
    if op.differentiable and not op.joint:
        assert len(op.vjp) == op.arity
        assert any(op.has_rule(i) for i in range(op.arity))


@pytest.mark.parametrize("op", TABLE.values(), ids=TABLE)
def test_a_row_is_in_the_room_it_names(op: Op) -> None:
    """Also a row that a function of another room has made, such as `unary`."""
    place = "internals.tensor" if op.name == "transfer" else "internals.ops"
    assert getattr(importlib.import_module(f"{place}.{op.room}"), op.name) is op


def test_a_row_as_a_reader_types_it() -> None:
    assert TABLE["sum"].signature() == "sum(x, axis=None, keepdims=False)"
    assert TABLE["concat"].signature() == "concat([tensors, ...], axis=0)"
    assert TABLE["gather"].signature() == "gather(x, index, axis)"
    assert repr(TABLE["exp"]) == "<op exp(x)>"


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="a row called exp already"):
        ops.row("exp", "exp", vjp=None, infer=lambda x: x)


def test_a_row_can_only_save_what_it_has() -> None:
    with pytest.raises(ValueError, match=r"halve saves \['y'\], but its inputs are \('x',\)"):
        Op("halve", "negative", vjp=lambda g, out, x: g, jvp="linear", saves="y", infer=lambda x: x)


def test_what_is_kept_depends_on_whose_gradient_is_wanted() -> None:
    mul = TABLE["mul"]
    assert mul.keeps([1, None]) == (("", "y"), False)
    assert mul.keeps([None, 1]) == (("x", ""), False)
    assert mul.keeps([1, 1]) == (("x", "y"), False)
    assert TABLE["exp"].keeps([1]) == (("",), True)


def test_rows_run_on_bare_arrays_and_numbers() -> None:
    x = np.random.default_rng(0).standard_normal(3)
    np.testing.assert_array_equal(ops.add(x, 1.5), x + 1.5)
    assert ops.mul(2, 3) == 6
    assert type(ops.exp(0)) is float


def test_attributes_by_position_and_by_name() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3))
    for got in (ops.sum(x, 1, True), ops.sum(x, axis=1, keepdims=True), ops.sum(x=x, axis=1, keepdims=True)):
        np.testing.assert_array_equal(got, x.sum(1, keepdims=True))


def test_a_swap_is_undone_by_an_exception() -> None:
    before = TABLE["mul"].vjp
    during = []

    def fail() -> None:
        with ops.swap(mul=lambda g, x, y: (g, g)):
            during.append(TABLE["mul"].vjp)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert during[0] is not before
    assert TABLE["mul"].vjp is before


class Marked:
    """A value of another style."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_the_highest_style_runs_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    from internals import Tensor
    from internals.ops import table

    monkeypatch.setattr(table, "_STYLES", dict(table._STYLES))
    seen: list[Any] = []
    ops.style(Marked, lambda op, inputs, attrs: seen.append((op.name, inputs, attrs)) or "ran", rank=30)
    marked = Marked("x")
    assert ops.add(Tensor(1.0), marked) == "ran"
    assert ops.sum(marked, axis=0) == "ran"
    assert seen[1] == ("sum", (marked,), {"axis": 0, "keepdims": False})


def test_spec() -> None:
    spec = Spec((2, 3), "float32")
    assert (spec.ndim, spec.size, repr(spec)) == (2, 6, "float32[2, 3]")
    assert spec == Spec([2, 3], np.float32)
    assert spec != Spec((2, 3), "float64")
    assert len({spec, Spec((2, 3), np.float32)}) == 1
