"""Every row of the op table as ONNX: checked by onnx, run in onnxruntime, beside our own graph."""

from __future__ import annotations

import importlib
import zlib
from typing import Any

import numpy as np
import pytest
from in_onnxruntime import run_onnx
from op_cases import CASES, Case

from internals.deploy import FormatError, Signature
from internals.deploy.onnx import to_onnx
from internals.deploy.onnx.rules import RULES, WITHOUT
from internals.graph import Graph, Session, assign
from internals.ops import TABLE

OPSETS = (17, 20, 23, 28)
SINCE = {"cumprod": 26}
"""Rows that ONNX has from a later operator set on."""
UNTIL = {"quantise": 27, "dequantise": 27}
"""Rows whose newest operators onnxruntime does not run yet."""
WRITTEN = [case for case in CASES if case.op not in WITHOUT]
NOT_DEFINED = {("remainder", "int64", ((2, 3), (2, 3)))}
"""Of whole numbers the sample divides by 0."""
INF = float("inf")
NUMBERS = (
    0.0,
    -0.0,
    INF,
    -INF,
    float("nan"),
    1e-40,
    -1e-40,
    3e38,
    -3e38,
    1.0,
    -1.0,
    0.5,
    -2.5,
    1e-8,
    88.8,
    -104.0,
    2.0,
)
ENTRYWISE = {case.op: case for case in WRITTEN if TABLE[case.op].expr and case.op != "where"}
ENTRYWISE |= {
    case.op: case for case in CASES if case.op in ("hypot", "atan2", "lerp", "clamp", "logaddexp", "remainder")
}


def inputs_of(case: Case, shapes: Any, dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(zlib.crc32(repr((case.op, shapes)).encode()))
    sources = case.values if isinstance(case.values, tuple) else (case.values,) * len(shapes)
    arrays = [np.asarray(source(rng, shape)) for source, shape in zip(sources, shapes, strict=True)]
    return [array.astype(dtype) if array.dtype.kind == "f" else array for array in arrays]


def in_graph(op: str, arrays: list[np.ndarray], attrs: dict[str, Any]) -> tuple[Graph, list[Any], list[Any]]:
    graph, row = Graph(), TABLE[op]
    with graph:
        given = [graph.placeholder(one.shape, one.dtype, name=f"x{i}") for i, one in enumerate(arrays)]
        found = row(list(given), **attrs) if row.variadic else row(*given, **attrs)
    return graph, given, list(found) if isinstance(found, tuple) else [found]


def test_every_row_is_written_or_has_a_reason() -> None:
    rows = {name for name in TABLE if name != "stop_gradient"}
    assert rows <= RULES.keys() | WITHOUT.keys()
    assert not RULES.keys() & WITHOUT.keys()
    assert {case.op for case in WRITTEN} >= rows - WITHOUT.keys()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case.op)
def test_a_row_in_onnxruntime(case: Case, dtype: str) -> None:
    onnx = importlib.import_module("onnx")
    if dtype == "int64" and "int64" not in case.also:
        pytest.skip("floating numbers only")
    for number, (shapes, attrs) in enumerate(case.samples):
        if (case.op, dtype, shapes) in NOT_DEFINED:
            continue
        arrays = inputs_of(case, shapes, dtype)
        graph, given, found = in_graph(case.op, arrays, attrs)
        with Session(graph, passes=()) as session:
            wanted = session.run(found, dict(zip(given, arrays, strict=True)))
        ends = [{f"x{i}": one for i, one in enumerate(given)}, {f"y{i}": one for i, one in enumerate(found)}]
        oldest, newest = SINCE.get(case.op, OPSETS[0]), UNTIL.get(case.op, OPSETS[-1])
        known = sorted({min(max(opset, oldest), newest) for opset in OPSETS})
        for opset in known if number == len(case.samples) - 1 else known[number % len(known) :][:1]:
            model = to_onnx(graph, {"f": Signature(*ends)}, opset=opset)
            onnx.checker.check_model(model, full_check=True)
            for want, came in zip(wanted, run_onnx(model, dict(zip(ends[0], arrays, strict=True))), strict=True):
                assert (came.shape, came.dtype) == (want.shape, want.dtype), (shapes, attrs, opset)
                np.testing.assert_allclose(came, want, rtol=1e-5, atol=1e-5, err_msg=f"{shapes} {attrs} {opset}")


def every_one_with_every_other(count: int) -> list[np.ndarray]:
    numbers = NUMBERS if count < 3 else NUMBERS[:12]
    return [one.ravel().astype(np.float32) for one in np.meshgrid(*[numbers] * count)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", ENTRYWISE)
def test_special_numbers(op: str) -> None:
    """Infinities, NaN, zeros of both signs and the edges of float32: ONNX gives what eager gives."""
    shapes, attrs = ENTRYWISE[op].samples[-1]
    arrays = every_one_with_every_other(len(shapes))
    graph, given, found = in_graph(op, arrays, attrs)
    with Session(graph, passes=()) as session:
        (wanted,) = session.run(found, dict(zip(given, arrays, strict=True)))
    model = to_onnx(graph, {"f": Signature({f"x{i}": one for i, one in enumerate(given)}, {"y": found[0]})})
    (came,) = run_onnx(model, {f"x{i}": one for i, one in enumerate(arrays)})
    np.testing.assert_allclose(came, wanted, rtol=1e-5, atol=1e-6, err_msg=str(np.stack(arrays, -1)))
    if op == "atan2":  # on the way from one side to the other, the sign of a zero says on which
        np.testing.assert_array_equal(np.signbit(came), np.signbit(wanted))


IN_HALF = ("isinf", "isfinite", "quantise", "scaled_dot_product", "softmax", "fake_quantise")
"""Rows that are written otherwise for other floating dtypes, or once gave something else in them."""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_floating_dtypes(dtype: str) -> None:
    """Each row is valid ONNX in them too, in the oldest operator set; onnxruntime has kernels for some only."""
    checker = importlib.import_module("onnx").checker
    for case in WRITTEN:
        if (case.op, dtype) == ("det", "float16"):  # refused by the row
            continue
        shapes, attrs = case.samples[-1]
        arrays = inputs_of(case, shapes, dtype)
        graph, given, found = in_graph(case.op, arrays, attrs)
        ends = {f"x{i}": one for i, one in enumerate(given)}, {f"y{i}": one for i, one in enumerate(found)}
        model = to_onnx(graph, {"f": Signature(*ends)}, opset=max(17, SINCE.get(case.op, 17)))
        checker.check_model(model, full_check=True)
        if case.op in IN_HALF:
            with Session(graph, passes=()) as session:
                wanted = session.run(found, dict(zip(given, arrays, strict=True)))
            came = run_onnx(model, dict(zip(ends[0], arrays, strict=True)))
            for one, two in zip(came, wanted, strict=True):
                np.testing.assert_allclose(one, two, rtol=2e-2 if dtype == "float16" else 1e-6, atol=1e-2)


@pytest.mark.parametrize("op", sorted(WITHOUT))
def test_a_row_without_counterpart_is_named(op: str) -> None:
    case = next(case for case in CASES if case.op == op)
    shapes, attrs = case.samples[-1]
    attrs = attrs | ({"source": "cpu"} if op == "transfer" else {})
    graph, given, found = in_graph(op, inputs_of(case, shapes, "float32"), attrs)
    signature = Signature({f"x{i}": x for i, x in enumerate(given)}, {"y": found[0]})
    with pytest.raises(FormatError, match=f"(?s)made at test_every_row.*is {op}, which has no counterpart"):
        to_onnx(graph, {"f": signature})


@pytest.mark.parametrize(("settings", "message"), [
    ({"opset": 16}, "opset must be 17 to 28"), ({"opset": "17"}, "opset must be"),
    ({"signature": "other"}, "which signature"), ({"opset": 29}, "opset must be"), ({"opset": True}, "opset must be"),
])  # fmt: skip
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    graph, given, found = in_graph("relu", [np.zeros((2, 3), np.float32)], {})
    with pytest.raises(ValueError, match=message):
        to_onnx(graph, {"f": Signature({"x": given[0]}, {"y": found[0]})}, **settings)


def test_a_row_of_a_newer_operator_set_is_named() -> None:
    graph, given, found = in_graph("cumprod", [np.ones((2, 3), np.float32)], {"axis": 1})
    with pytest.raises(FormatError, match="(?s)made at test_every_row.*from operator set 26 on.*opset=26"):
        to_onnx(graph, {"f": Signature({"x": given[0]}, {"y": found[0]})}, opset=25)


def test_what_changes_a_variable_is_named() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((3,), name="x")
        held = assign(graph.variable(np.zeros(3, np.float32)), x)
    with pytest.raises(FormatError, match="is assign.*changes a variable"):
        to_onnx(graph, {"f": Signature({"x": x}, {"y": held})})
