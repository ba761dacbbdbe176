"""Bodies in JSON: numbers as text, what is read, and what is refused."""

from __future__ import annotations

import json
import math

import msgpack
import numpy as np
import pytest

from internals.deploy import Signature, TensorSpec
from internals.deploy.serve import rest
from internals.deploy.serve.errors import BadRequest, NotFound
from internals.deploy.serve.plain import plain_list, shortest

SPEC = Signature({"x": TensorSpec(("batch", 2))}, ("y",), None, {"y": TensorSpec(("batch", 2))})


def bits(draw):
    numbers = draw.integers(0, 2**32, 2000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return numbers[np.isfinite(numbers)]


NUMBERS = {
    "of every size": bits,
    "near 1": lambda draw: draw.normal(size=2000).astype("f"),
    "powers of two": lambda draw: np.float32(2.0) ** draw.integers(-149, 127, 300).astype("f"),
    "powers of ten": lambda draw: (10.0 ** draw.integers(-40, 38, 300)).astype("f"),
    "whole": lambda draw: draw.integers(-(2**26), 2**26, 2000).astype("f"),
    "with zeros": lambda draw: draw.choice(np.float32([0, -0.0, 1e-45, 3.4028235e38, 0.1]), 200),
    "few": lambda draw: draw.normal(size=5).astype("f"),
}


@pytest.mark.parametrize("made", NUMBERS.values(), ids=NUMBERS)
def test_many_float32_have_the_same_short_text_as_one_by_one(made):
    numbers = made(np.random.default_rng(5))
    texts = [repr(one) for one in shortest(numbers).tolist()]
    assert texts == [repr(float(str(one))) for one in numbers]
    assert np.array_equal(np.array(texts, np.float64).astype("f"), numbers)


@pytest.mark.parametrize("count", [3, 300])
def test_what_json_has_no_number_for_is_a_text(count):
    numbers = np.random.default_rng(1).normal(size=(count, 3)).astype("f")
    numbers[1] = np.nan, np.inf, -np.inf
    plain = plain_list(numbers)
    assert plain[1] == ["NaN", "Infinity", "-Infinity"]
    assert np.array_equal(np.float32(plain[2]), numbers[2])
    json.dumps(plain, allow_nan=False)


def test_not_finite_numbers_are_read_where_they_are_allowed():
    body = b'{"instances": [[NaN, 1], [Infinity, -Infinity]]}'
    with pytest.raises(BadRequest, match="NaN is no number of JSON"):
        rest.request_of_json(body, rest.PREDICT, "m", {"serve": SPEC})
    name, arrays, form = rest.request_of_json(body, rest.PREDICT, "m", {"serve": SPEC}, finite=False)
    assert (name, form) == ("serve", rest.ROW)
    first, *others = arrays["x"].ravel().tolist()
    assert math.isnan(first)
    assert others == [1, math.inf, -math.inf]


@pytest.mark.parametrize(
    ("dtype", "given", "said"),
    [
        ("uint8", [[0, 255]], None),
        ("uint16", [[65535, 1]], None),
        ("uint64", [[2**40, 1]], None),
        ("int8", [[-128, 127]], None),
        ("bool", [[True, False]], None),
        ("uint8", [[256, 0]], "x has entries that uint8 can't hold"),
        ("uint8", [[-1, 0]], "x has entries that uint8 can't hold"),
        ("uint8", [[1.5, 0]], "x holds float64; expected uint8"),
        ("int32", [[2**31, 0]], "x has entries that int32 can't hold"),
        ("bool", [[1, 0]], "x holds int64; expected bool"),
        ("float32", [["1", 0]], "x holds texts; expected float32"),
        ("float32", [[None, 0]], "x holds nulls or objects; expected float32"),
        ("float32", [[{"b64": "AAAA"}, 0]], "x holds nulls or objects; expected float32"),
    ],
)
def test_numbers_of_each_dtype(dtype, given, said):
    signature = Signature({"x": TensorSpec(("batch", 2), dtype)}, ("y",))
    body = json.dumps({"instances": given}).encode()
    if said is not None:
        with pytest.raises(BadRequest, match=said):
            rest.request_of_json(body, rest.PREDICT, "m", {"serve": signature})
        return
    found = rest.request_of_json(body, rest.PREDICT, "m", {"serve": signature})[1]["x"]
    assert (found.dtype, found.tolist()) == (np.dtype(dtype), given)


def test_the_signature_that_is_meant():
    signatures = {"other": SPEC, "serving_default": SPEC}
    for body, expected in (
        (b'{"inputs": [[1, 2]]}', "serving_default"),
        (b'{"inputs": [[1, 2]], "signature_name": "other"}', "other"),
    ):
        assert rest.request_of_json(body, rest.PREDICT, "m", signatures)[0] == expected
    with pytest.raises(NotFound, match="m: there is no signature 'third'; it has other, serving_default"):
        rest.request_of_json(b'{"inputs": [[1, 2]], "signature_name": "third"}', rest.PREDICT, "m", signatures)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (rest.PREDICT, {"predictions": [[0.5, 2.0], [-1.0, 0.25]]}),
        (rest.CLASSIFY, {"results": [[["a", 0.5], ["b", 2.0]], [["a", -1.0], ["b", 0.25]]]}),
    ],
)
def test_answers(what, expected):
    results = {"y": np.float32([[0.5, 2.0], [-1.0, 0.25]])}
    assert json.loads(rest.answer_in_json(results, what, rest.ROW, ["a", "b"])) == expected


def test_regressions_have_one_number_for_each_row():
    results = {"y": np.float32([[0.5], [2.0]])}
    assert json.loads(rest.answer_in_json(results, rest.REGRESS, rest.ROW, [])) == {"results": [0.5, 2.0]}


def safetensors_of(arrays):
    header = json.dumps(
        {str(i): {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(arrays)}
    ).encode()
    return len(header).to_bytes(8, "little") + header


def msgpack_of(**array):
    return msgpack.packb({"x": {"dtype": "float32", "shape": [2], "data": b"\0" * 8, **array}})


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        (rest.SAFETENSORS, safetensors_of(3000), "its header has 190,890 bytes; that of a request may have"),
        (rest.SAFETENSORS, b"\xff" * 16, "its header has"),
        (rest.MSGPACK, msgpack.packb({str(i): {} for i in range(2000)}), "2000 exceeds max_map_len"),
        (rest.MSGPACK, b"\xdd\x00\x10\x00\x00" + b"\x00" * 2**20, "exceeds max_array_len"),
        (rest.MSGPACK, msgpack_of(dtype=">f4"), "x: dtype is a kind of number, little-endian"),
        (rest.MSGPACK, msgpack_of(dtype="object"), "x: dtype is a kind of number"),
        (rest.MSGPACK, msgpack_of(dtype="nothing"), "no msgpack map of arrays"),
        (rest.MSGPACK, msgpack_of(shape=[-2]), "shape a list of sizes"),
        (rest.MSGPACK, msgpack_of(shape=[2**40, 2**40]), "8 bytes of data are no float32"),
        (rest.MSGPACK, msgpack_of(shape=[3]), r"8 bytes of data are no float32\[3\]"),
        (rest.MSGPACK, msgpack_of(data="12345678"), "and data bytes"),
    ],
)
def test_bytes_that_are_no_arrays(kind, data, said):
    with pytest.raises(BadRequest, match=said):
        rest.arrays_of_bytes(kind, data)


@pytest.mark.parametrize("kind", [rest.SAFETENSORS, rest.MSGPACK])
@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "uint64", "bool"]
)
def test_arrays_of_every_dtype_come_back_as_they_went(kind, dtype):
    array = np.random.default_rng(8).integers(0, 2, (3, 2)).astype(dtype)
    (found,) = rest.arrays_of_bytes(kind, rest.bytes_of_arrays(kind, {"x": array})).values()
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
