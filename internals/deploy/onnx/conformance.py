"""onnx's own tests of operators, read here: how many pass, and why others do not.

``python -m internals.deploy.onnx.conformance`` prints it.
"""

from __future__ import annotations

import importlib
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from internals.deploy.onnx.builder import load_onnx
from internals.deploy.onnx.readers import READERS
from internals.deploy.onnx.readers.elementwise import TYPES
from internals.deploy.onnx.reading import from_onnx

_DRAWN = "draws random numbers, and asks for the very ones that NumPy draws in the test"
_MAXIMA = "asks for the places of the maxima in the whole input; max_pool2d_index counts in windows"
_BLOCKS = "a scale for each block; rows have one for all, or one for each slice"
_ROUNDED = (
    "products of 16 bits are added up in float32 here and rounded once, where the reference rounds at each step; some "
    "of 192 entries differ in the last digit"
)
EXPLAINED = {
    "attention_3d_causal_bf16_expanded": _ROUNDED,
    "attention_4d_attn_mask_causal_bf16_expanded": _ROUNDED,
    "attention_4d_causal_bf16_expanded": _ROUNDED,
    "attention_4d_causal_fp16_expanded": _ROUNDED,
    "attention_4d_causal_padded_kv_bf16_expanded": _ROUNDED,
    "attention_4d_padded_kv_bf16_expanded": _ROUNDED,
    "convtranspose_3d": "there are no rows for three spatial axes",
    "dequantizelinear_blocked": _BLOCKS,
    "dynamicquantizelinear_expanded": "the row multiplies by 1 / scale as torch does, where the reference divides; one "
    "of six entries lies next to a tie",
    "maxpool_with_argmax_2d_precomputed_pads": _MAXIMA,
    "maxpool_with_argmax_2d_precomputed_strides": _MAXIMA,
    "quantizelinear_blocked_asymmetric": _BLOCKS,
    "quantizelinear_blocked_symmetric": _BLOCKS,
    "quantizelinear_int16": "the row writes 8 bits only",
    "quantizelinear_uint16": "the row writes 8 bits only",
    "scan_sum": "before operator set 9 Scan went over each entry of a batch by itself, which is not read",
    "training_dropout": _DRAWN,
    "training_dropout_default": _DRAWN,
    "training_dropout_default_mask": _DRAWN,
    "training_dropout_mask": _DRAWN,
}
"""Why a test does not pass, by its name."""
NOT_KNOWN = ("known only when", "at run time")
"""What is said of a model that has to know an input before it runs: an axis, a shape, a number of rounds."""


@dataclass(frozen=True)
class Conformance:
    """What came of the tests.

    Attributes
    ----------
    all : int
        Tests that there are.
    ours : int
        Those whose operators, and whose types of entries, there are here.
    failed : dict of str to str
        What went wrong, by the test's name.
    """

    all: int
    ours: int
    failed: dict[str, str]

    @property
    def rate(self) -> float:
        return 1 - len(self.failed) / self.ours

    def __str__(self) -> str:
        lines = [
            f"onnx node tests: {self.ours:,} of {self.all:,} use operators and types that are here; {self.rate:.2%} "
            "of those pass"
        ]
        lines += [f"{name}: {EXPLAINED.get(name, came)}" for name, came in sorted(self.failed.items())]
        return "\n".join(textwrap.fill(line, 88, subsequent_indent="    ") for line in lines)


def conformance(every: int = 1) -> Conformance:
    """Run the tests of single operators that the onnx package brings along.

    Parameters
    ----------
    every : int
        One test of so many, for a sample.

    Raises
    ------
    ImportError
        The onnx package is not installed.
    """
    load_onnx()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cases = importlib.import_module("onnx.backend.test.loader").load_model_tests(kind="node")[::every]
        ours = [case for case in cases if is_ours(case)]
        failed = {case.name.removeprefix("test_"): why for case in ours if (why := went_wrong(case))}
    return Conformance(len(cases), len(ours), failed)


def is_ours(case: Any) -> bool:
    """Whether all operators, and the types of all that goes in and comes out, are ones that there are here."""
    graph = case.model.graph
    ends = [*graph.input, *graph.output]
    typed = all(
        one.type.HasField("tensor_type") and one.type.tensor_type.elem_type in TYPES for one in ends
    )  # fmt: skip
    return typed and all(one.domain in ("", "ai.onnx") and one.op_type in READERS for one in _nodes(graph))


def _nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph, and of the branches and bodies in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g)


def went_wrong(case: Any) -> str:
    """Empty if a test passes; else what came."""
    names = [one.name for one in case.model.graph.input]
    for inputs, outputs in case.data_sets:
        arrays = [_as_array(one) for one in inputs]
        try:
            signature = _read(case.model, dict(zip(names, arrays, strict=False))).signature()
            found = signature(**dict(zip(signature.inputs, arrays, strict=False)))
            for came, wanted in zip(found.values(), map(_as_array, outputs), strict=True):
                if (came.shape, came.dtype) != (wanted.shape, wanted.dtype):
                    return f"{came.dtype}{came.shape} in place of {wanted.dtype}{wanted.shape}"
                np.testing.assert_allclose(came, wanted, rtol=case.rtol, atol=case.atol)
        except (ValueError, TypeError, AssertionError) as error:
            return f"{type(error).__name__}: {error}"
    return ""


def _read(model: Any, inputs: Mapping[str, Any]) -> Any:
    """With nothing known of the inputs; else with all of them but the first; else with all."""
    for fixed in ({}, dict(list(inputs.items())[1:]), inputs):
        try:
            return from_onnx(model, fixed=fixed)
        except ValueError as error:
            if fixed is inputs or not any(text in str(error) for text in NOT_KNOWN):
                raise
    return None


def _as_array(value: Any) -> np.ndarray:
    if not hasattr(value, "data_type"):
        return np.asarray(value)
    found: np.ndarray = load_onnx().numpy_helper.to_array(value)
    return found


if __name__ == "__main__":
    result = conformance()
    print(result)
    sys.exit(0 if result.failed.keys() <= EXPLAINED.keys() else 1)
