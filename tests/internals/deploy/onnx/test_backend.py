"""onnx's own tests of operators, read by us: how many pass, and why the others do not."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from internals.deploy.onnx import from_onnx
from internals.deploy.onnx.readers import READERS
from internals.deploy.onnx.readers.elementwise import TYPES

EXPLAINED = {
    "attention_4d_causal_fp16_expanded": "products of float16 are added up in float32 here and rounded once, where the "
    "reference rounds at each step; two of 192 entries differ in the last digit",
    "convtranspose_3d": "there are no rows for three spatial axes",
    "scan_sum": "before operator set 9 Scan went over each entry of a batch by itself, which is not read",
    "training_dropout_default": "draws random numbers, and asks for the very ones that NumPy draws in the test",
    "training_dropout_default_mask": "draws random numbers, and asks for the very ones that NumPy draws in the test",
    "training_dropout": "draws random numbers, and asks for the very ones that NumPy draws in the test",
    "training_dropout_mask": "draws random numbers, and asks for the very ones that NumPy draws in the test",
    "maxpool_with_argmax_2d_precomputed_pads": "asks for the places of the maxima in the whole input; "
    "max_pool2d_index counts in windows",
    "maxpool_with_argmax_2d_precomputed_strides": "asks for the places of the maxima in the whole input; "
    "max_pool2d_index counts in windows",
    "quantizelinear_uint16": "the row writes 8 bits only",
    "quantizelinear_int16": "the row writes 8 bits only",
    "quantizelinear_blocked_asymmetric": "a scale for each block; rows have one for all, or one for each slice",
    "quantizelinear_blocked_symmetric": "a scale for each block; rows have one for all, or one for each slice",
    "dequantizelinear_blocked": "a scale for each block; rows have one for all, or one for each slice",
    "dynamicquantizelinear_expanded": "the row multiplies by 1 / scale as torch does, where the reference divides; one "
    "of six entries lies next to a tie",
}  # fmt: skip
NOT_KNOWN = ("known only when", "at run time")
"""What is said of a model that has to know an input before it runs: an axis, a shape, a number of rounds."""


def as_array(value: Any) -> np.ndarray:
    return importlib.import_module("onnx").numpy_helper.to_array(value) if hasattr(value, "data_type") else (
        np.asarray(value)
    )  # fmt: skip


def read(model: Any, inputs: dict[str, Any]) -> Any:
    """With nothing known of the inputs; else with all of them but the first; else with all."""
    for fixed in ({}, dict(list(inputs.items())[1:]), inputs):
        try:
            return from_onnx(model, fixed=fixed)
        except ValueError as error:
            if fixed is inputs or not any(text in str(error) for text in NOT_KNOWN):
                raise
    return None


def passes(case: Any) -> str:
    """Empty if a test of onnx's passes; else what went wrong."""
    graph = case.model.graph
    names = [one.name for one in graph.input]
    for inputs, outputs in case.data_sets:
        arrays = [as_array(one) for one in inputs]
        try:
            model = read(case.model, dict(zip(names, arrays, strict=False)))
            signature = model.signature()
            found = signature(**dict(zip(signature.inputs, arrays, strict=False)))
            for came, wanted in zip(found.values(), map(as_array, outputs), strict=True):
                if (came.shape, came.dtype) != (wanted.shape, wanted.dtype):
                    return f"{came.dtype}{came.shape} in place of {wanted.dtype}{wanted.shape}"
                np.testing.assert_allclose(came, wanted, rtol=case.rtol, atol=case.atol)
        except (ValueError, TypeError, AssertionError) as error:
            return f"{type(error).__name__}: {error}"
    return ""


def is_ours(case: Any) -> bool:
    """Whether all operators, and the types of all that goes in and comes out, are ones that there are here."""
    graph = case.model.graph
    ends = [*graph.input, *graph.output]
    typed = all(
        one.type.HasField("tensor_type") and one.type.tensor_type.elem_type in TYPES for one in ends
    )  # fmt: skip
    return typed and all(one.domain in ("", "ai.onnx") and one.op_type in READERS for one in nodes_of(graph))


def nodes_of(graph: Any) -> Iterator[Any]:
    """The nodes of a graph, and of the branches and bodies in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes_of(attribute.g)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_backend_tests_of_onnx(capsys: pytest.CaptureFixture[str]) -> None:
    loader = importlib.import_module("onnx.backend.test.loader")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = loader.load_model_tests(kind="node")
    ours = [case for case in cases if is_ours(case)]
    failed = {case.name.removeprefix("test_"): why for case in ours if (why := passes(case))}
    rate = 1 - len(failed) / len(ours)
    with capsys.disabled():
        print(f"\nonnx node tests: {len(ours)} of {len(cases)} use operators and types that are here; {rate:.2%} pass.")
        for name in sorted(failed):
            print(f"  {name}: {EXPLAINED.get(name, failed[name])}")
    assert len(ours) > 1000
    assert failed.keys() <= EXPLAINED.keys(), {name: failed[name] for name in failed.keys() - EXPLAINED.keys()}
    assert rate >= 0.98
