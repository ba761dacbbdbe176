"""Bodies of requests and answers: TensorFlow Serving's rows and columns in JSON, and arrays as bytes.

- ``application/json``: ``{"instances": [...]}`` has a value for each row, ``{"inputs": {...}}`` whole arrays by name;
  the answer is ``{"predictions": [...]}`` or ``{"outputs": {...}}``. Where there is one input, or one output, its name
  may be left out. What JSON has no number for comes out as the texts "NaN", "Infinity" and "-Infinity".
- ``application/x-safetensors``: a safetensors file with an array for each input; so is the answer.
- ``application/x-msgpack``: a map of names to ``{"dtype": "float32", "shape": [2, 3], "data": bytes}``; so is the
  answer. Bytes are little-endian, in C order.

A number that is not finite is refused, unless the server is told to pass it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from internals.deploy.errors import FormatError, SignatureError
from internals.deploy.saved.arrays import arrays_in
from internals.deploy.saved.signature import Signature, fitted
from internals.deploy.serve.errors import BadRequest, NotFound
from internals.deploy.serve.plain import plain_list
from internals.deploy.serve.servable import named
from internals.nn.weights import array_bytes

JSON, SAFETENSORS, MSGPACK = "application/json", "application/x-safetensors", "application/x-msgpack"
ROW, COLUMN = "row", "column"
PREDICT, CLASSIFY, REGRESS = "predict", "classify", "regress"
HEADER, ARRAYS = 2**17, 1024
"""Bytes of the header of a safetensors body, and arrays of a msgpack body: more take seconds to look at."""
KNOWN = {"instances", "inputs", "signature_name"}


def read_json(data: bytes, *, finite: bool = True) -> dict[str, Any]:
    """A JSON object of a body.

    Parameters
    ----------
    data : bytes
    finite : bool
        Refuse NaN, Infinity and -Infinity, which JSON does not know and TensorFlow Serving takes.

    Raises
    ------
    BadRequest
        It is none; says where it goes wrong.
    """
    try:
        found = (_STRICT if finite else _WITH_NAN).decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not UTF-8: byte {error.start} is {data[error.start]:#04x}.") from None
    except RecursionError:
        raise BadRequest("the body's JSON is nested too deeply.") from None
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise BadRequest(f"the body must be a JSON object, got {type(found).__name__}.")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:100]!r} comes twice in one object")
    return found


_STRICT = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)
_WITH_NAN = json.JSONDecoder(object_pairs_hook=_once)


def signature_name(body: Mapping[str, Any]) -> str | None:
    """What the body says which signature is meant."""
    name = body.get("signature_name")
    if name is not None and not isinstance(name, str):
        raise BadRequest(f"signature_name must be a text, got {type(name).__name__}.")
    return name or None


def request_of_json(
    data: bytes, what: str, model: str, signatures: Mapping[str, Signature], *, finite: bool = True
) -> tuple[str, dict[str, np.ndarray], str]:
    """The signature that a JSON body means, its arrays, and whether it has rows or columns.

    Parameters
    ----------
    data : bytes
    what : str
        One of `PREDICT`, `CLASSIFY` and `REGRESS`.
    model : str
        Of which the signatures are.
    signatures : mapping of str to Signature
    finite : bool
        Refuse what is not.

    Raises
    ------
    BadRequest, NotFound
    """
    body = read_json(data, finite=finite)
    if what != PREDICT:
        body = examples_as_rows(body)
    name = signature_of(model, signatures, signature_name(body))
    arrays, form = arrays_of_json(name, signatures[name], body, finite=finite)
    return name, arrays, form


def signature_of(model: str, signatures: Mapping[str, Signature], asked: str | None) -> str:
    """The name of the signature that a request means.

    Raises
    ------
    NotFound
    """
    try:
        return named(model, signatures, asked)
    except SignatureError as error:
        raise NotFound(str(error)) from None


def answer_in_json(results: Mapping[str, np.ndarray], what: str, form: str, labels: list[str]) -> bytes:
    """The body of the answer to a JSON request; see `request_of_json`.

    Raises
    ------
    BadRequest
        The results are not of the kind that was asked for.
    """
    if what == CLASSIFY:
        content: dict[str, Any] = {"results": classes(results, labels)}
    elif what == REGRESS:
        content = {"results": regressions(results)}
    else:
        content = json_of_arrays(results, form)
    return json.dumps(content, allow_nan=False).encode()


def arrays_of_json(
    name: str, signature: Signature, body: Mapping[str, Any], *, finite: bool = True
) -> tuple[dict[str, np.ndarray], str]:
    """The arrays of a body with instances or inputs, and which of the two it was.

    Raises
    ------
    BadRequest
        They are missing, unknown, ragged, of another shape or dtype.
    """
    unknown = body.keys() - KNOWN
    if unknown:
        raise BadRequest(f"unknown key {', '.join(sorted(unknown))!r}; a body has instances or inputs.")
    if ("instances" in body) == ("inputs" in body):
        raise BadRequest("a body must have either instances (rows) or inputs (columns).")
    given = _columns(signature, body["instances"]) if "instances" in body else body["inputs"]
    if not isinstance(given, dict):
        if len(signature.inputs) != 1:
            raise BadRequest(f"inputs must be an object with {', '.join(signature.inputs)}.")
        given = {next(iter(signature.inputs)): given}
    return checked(name, signature, given, finite=finite), ROW if "instances" in body else COLUMN


def _columns(signature: Signature, rows: Any) -> dict[str, list[Any]]:
    if not isinstance(rows, list) or not rows:
        raise BadRequest("instances must be a list with at least one row.")
    names = list(signature.inputs)
    if not any(isinstance(row, dict) for row in rows):
        if len(names) != 1:
            raise BadRequest(f"each instance must be an object with {', '.join(names)}.")
        return {names[0]: rows}
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or row.keys() != rows[0].keys():
            raise BadRequest(f"instance {number} has not the same inputs as instance 0; give all the same.")
    return {key: [row[key] for row in rows] for key in rows[0]}


def checked(name: str, signature: Signature, given: Mapping[str, Any], *, finite: bool = True) -> dict[str, np.ndarray]:
    """The arrays of a request, as its signature says.

    Raises
    ------
    BadRequest
    """
    try:
        with np.errstate(over="ignore"):
            arrays = fitted(name, signature.inputs, given)
    except (SignatureError, RecursionError, OverflowError) as error:
        raise BadRequest(str(error)[:1000]) from None
    if finite:
        for key, array in arrays.items():
            if array.dtype.kind not in "biu" and not np.isfinite(array).all():
                raise BadRequest(f"{name}: {key} has entries that are NaN, infinite, or too large for {array.dtype}.")
    return arrays


def arrays_of_bytes(kind: str, data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a binary body.

    Parameters
    ----------
    kind : str
        Of the content, one of `SAFETENSORS` and `MSGPACK`.

    Raises
    ------
    BadRequest
    """
    if kind == SAFETENSORS:
        header = int.from_bytes(data[:8], "little")
        if HEADER < header <= len(data):
            raise BadRequest(f"the body: its header has {header:,} bytes; that of a request may have {HEADER:,}.")
        try:
            return arrays_in("the body", memoryview(data))
        except FormatError as error:
            raise BadRequest(str(error).removeprefix("load: ")) from None
    import msgpack

    try:
        most = {"max_map_len": ARRAYS, "max_array_len": 32, "max_str_len": 4096, "max_ext_len": 0}
        found = msgpack.unpackb(data, raw=False, strict_map_key=True, **most)
        return {key: _array(key, value) for key, value in found.items()}
    except BadRequest:
        raise
    except Exception as error:  # noqa: BLE001 - msgpack has several kinds of its own
        raise BadRequest(f"the body is no msgpack map of arrays: {type(error).__name__}: {error}") from None


def _array(name: str, value: Any) -> np.ndarray:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data"}:
        raise BadRequest(f"{name}: an array is a map with dtype, shape and data.")
    dtype, shape, data = np.dtype(str(value["dtype"])), value["shape"], value["data"]
    sizes = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape) and len(shape) <= 32
    if dtype.kind not in "biuf" or dtype.byteorder == ">" or not sizes or not isinstance(data, bytes):
        raise BadRequest(f"{name}: dtype is a kind of number, little-endian; shape a list of sizes, and data bytes.")
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise BadRequest(f"{name}: {len(data)} bytes of data are no {dtype.name}{shape}.")
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)


def json_of_arrays(results: Mapping[str, np.ndarray], form: str) -> dict[str, Any]:
    """What a JSON answer has, in rows or columns.

    Raises
    ------
    BadRequest
        The results are no rows.
    """
    if form == COLUMN:
        plain = {key: plain_list(value) for key, value in results.items()}
        return {"outputs": next(iter(plain.values())) if len(plain) == 1 else plain}
    counts = {value.shape[0] if value.ndim else None for value in results.values()}
    if len(counts) != 1 or None in counts:
        raise BadRequest("this signature's results are no rows; ask with inputs, not instances.")
    columns = [plain_list(value) for value in results.values()]
    if len(columns) == 1:
        return {"predictions": columns[0]}
    return {"predictions": [dict(zip(results, row, strict=True)) for row in zip(*columns, strict=True)]}


def bytes_of_arrays(kind: str, results: Mapping[str, np.ndarray]) -> bytes:
    """A binary answer of the kind that the request had."""
    if kind == SAFETENSORS:
        return array_bytes(results)
    import msgpack

    plain = {
        key: {
            "dtype": value.dtype.name,
            "shape": list(value.shape),
            "data": value.astype(value.dtype.newbyteorder("<")).tobytes(),
        }
        for key, value in results.items()
    }
    packed: bytes = msgpack.packb(plain)
    return packed


def classes(results: Mapping[str, np.ndarray], labels: list[str]) -> list[list[list[Any]]]:
    """For each row, a pair of label and score for each class, in the model's order.

    Raises
    ------
    BadRequest
        The signature has no scores: one result of numbers, with rows and classes.
    """
    scores = [one for one in results.values() if one.ndim == 2 and one.dtype.kind == "f"]
    if len(scores) != 1:
        raise BadRequest("this signature does not classify: it must have one result of scores, (rows, classes).")
    names = labels if len(labels) == scores[0].shape[1] else [str(n) for n in range(scores[0].shape[1])]
    return [[list(pair) for pair in zip(names, row, strict=True)] for row in plain_list(scores[0])]


def regressions(results: Mapping[str, np.ndarray]) -> list[Any]:
    """A number for each row.

    Raises
    ------
    BadRequest
        The signature has none: one result with a number for each row.
    """
    numbers = [one for one in results.values() if one.dtype.kind == "f" and one.ndim and one.size == one.shape[0]]
    if len(numbers) != 1:
        raise BadRequest("this signature does not regress: it must have one result of a number for each row.")
    found: list[Any] = plain_list(numbers[0].reshape(-1))
    return found


def examples_as_rows(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body of ``:classify`` or ``:regress`` as one of ``:predict``: its context is part of every example.

    Raises
    ------
    BadRequest
    """
    examples, context = body.get("examples"), body.get("context", {})
    if not isinstance(examples, list) or not examples or not all(isinstance(one, dict) for one in examples):
        raise BadRequest("a body must have examples: a list of objects, with a value for each input.")
    if not isinstance(context, dict):
        raise BadRequest("context must be an object.")
    for number, one in enumerate(examples):
        if both := context.keys() & one.keys():
            raise BadRequest(f"example {number} and the context both have {', '.join(sorted(both))}; give it once.")
    rest = {key: value for key, value in body.items() if key not in ("examples", "context")}
    return {**rest, "instances": [{**context, **one} for one in examples]}
