"""What a worker process runs: a saved model, an ONNX file, or what a loader of one's own gives.

A servable has ``signatures`` (by name, with ``inputs`` and ``results``), ``labels`` (of the classes, or none) and is
called with a signature's name and arrays by name. To serve a model of another framework, write a function that takes
a directory and returns such an object, and name it: ``--loader module:function``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from internals.deploy.errors import FormatError, SignatureError
from internals.deploy.saved.model import SavedModel, load
from internals.deploy.saved.signature import Signature, TensorSpec
from internals.deploy.serve.registry import ONNX

LABELS = "labels.txt"
"""The asset with a name for each class, one a line."""
TRIED = (1, 8, 32)
"""What open sizes other than the rows are tried at in a warm-up."""
_ONNX_TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}


class Servable(Protocol):
    """What can be served."""

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """By name."""

    @property
    def labels(self) -> list[str]:
        """Of the classes."""

    def __call__(self, signature: str, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]: ...


class Saved:
    """A saved model as a servable."""

    def __init__(self, model: SavedModel) -> None:
        self.model, self.signatures = model, model.signatures
        asset = model.assets.get(LABELS)
        self.labels = asset.read_text(encoding="utf-8").splitlines() if asset else []

    def __call__(self, signature: str, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        return self.model.signature(signature)(**arrays)


class Onnx:
    """An ONNX file as a servable, run by onnxruntime with one thread; its signature is called ``serve``.

    Raises
    ------
    FormatError
        onnxruntime does not take the file.
    ImportError
        It is not installed.
    """

    def __init__(self, path: Path) -> None:
        try:
            import onnxruntime  # type: ignore[import-untyped]
        except ImportError:
            raise ImportError(f"{path} is run by onnxruntime: pip install onnxruntime") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001 - it has kinds of its own
            raise FormatError(f"load: {path} is no ONNX file that onnxruntime runs: {error}") from None
        inputs, results = (
            {end.name: _onnx_spec(end) for end in ends}
            for ends in (self._session.get_inputs(), self._session.get_outputs())
        )
        self.signatures = {"serve": Signature(inputs, tuple(results), None, results)}
        self.labels: list[str] = []

    def __call__(self, signature: str, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        names = tuple(self.signatures[signature].results)
        return dict(zip(names, self._session.run(names, dict(arrays)), strict=True))


def _onnx_spec(end: Any) -> TensorSpec:
    sizes = [
        size if isinstance(size, int) or (isinstance(size, str) and size.isidentifier()) else None for size in end.shape
    ]
    return TensorSpec(sizes, _ONNX_TYPES.get(end.type, end.type.removeprefix("tensor(").removesuffix(")")))


def servable_at(path: Path, loader: str | None = None) -> Servable:
    """Load what is in a version's directory; every checksum is compared.

    Parameters
    ----------
    path : Path
    loader : str, optional
        ``module:function`` that takes the path, in place of the ways that are known here.

    Raises
    ------
    FormatError, OSError, ImportError
        It can't be loaded.
    """
    if loader is not None:
        module, _, function = loader.partition(":")
        make: Callable[[Path], Servable] = getattr(importlib.import_module(module), function)
        return make(path)
    if (path / ONNX).is_file():
        return Onnx(path / ONNX)
    return Saved(load(path))


def run(servable: Servable, name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Call a servable, and hold it to what its signature says of the results.

    Raises
    ------
    ValueError
        Results are missing, unknown, or of another dtype or shape: others' answers would be wrong.
    """
    signature, given = servable.signatures[name], servable(name, arrays)
    if not isinstance(given, Mapping) or given.keys() != signature.results.keys():
        came = ", ".join(map(str, given)) if isinstance(given, Mapping) else type(given).__name__
        raise ValueError(f"{name}: the model gave {came or 'nothing'}; expected {', '.join(signature.results)}.")
    sizes = {
        size: came
        for key, spec in signature.inputs.items()
        for size, came in zip(spec.shape, arrays[key].shape, strict=True)
        if isinstance(size, str)
    }
    results = {}
    for key, spec in signature.results.items():
        array = results[key] = np.asarray(given[key])
        expected = [sizes.get(size) if isinstance(size, str) else size for size in spec.shape]
        fits = len(array.shape) == len(expected) and all(
            size is None or size == came for size, came in zip(expected, array.shape, strict=True)
        )
        if array.dtype != spec.dtype or not fits:
            now = ", ".join(f"{size} is {came}" for size, came in sizes.items())
            told = f"{spec}" + (f", where {now}" if now else "")
            raise ValueError(f"{name}: {key} came as {array.dtype}{list(array.shape)}; expected {told}.")
    return results


def warm_up(servable: Servable, rows: int) -> None:
    """Run each signature once with one row and once with as many as a batch has, so that the first request is fast.

    Raises
    ------
    FormatError
        A signature fails at every size that was tried; says how.
    """
    for name, signature in servable.signatures.items():
        for first in dict.fromkeys((1, rows)):
            error: Exception | None = None
            for size in TRIED:
                try:
                    run(servable, name, {key: _zeros(spec, first, size) for key, spec in signature.inputs.items()})
                    break
                except Exception as found:  # noqa: BLE001 - whatever the model raises
                    error = found
            else:
                raise FormatError(f"warm-up: signature {name} fails: {error}")


def _zeros(spec: TensorSpec, rows: int, size: int) -> np.ndarray:
    first = spec.shape[0] if spec.shape else None
    shape = [
        n if isinstance(n, int) else rows if axis == 0 or n == first else size for axis, n in enumerate(spec.shape)
    ]
    return np.zeros(shape, spec.dtype)


def described(servable: Servable) -> dict[str, Any]:
    """Signatures and labels as plain data."""
    return {"labels": list(servable.labels), "signatures": plain_signatures(servable.signatures)}


def plain_signatures(signatures: Mapping[str, Signature]) -> dict[str, Any]:
    """Signatures as plain data, which `signatures_of` reads."""
    return {
        name: {
            side: {key: [list(spec.shape), spec.dtype.name] for key, spec in ends.items()}
            for side, ends in (("inputs", one.inputs), ("outputs", one.results))
        }
        for name, one in signatures.items()
    }


def signatures_of(plain: Mapping[str, Any]) -> dict[str, Signature]:
    """The signatures that `plain_signatures` wrote."""
    found = {}
    for name, sides in plain.items():
        inputs, results = (
            {key: TensorSpec(shape, dtype) for key, (shape, dtype) in sides[side].items()}
            for side in ("inputs", "outputs")
        )
        found[name] = Signature(inputs, tuple(results), None, results)
    return found


def named(name: str, signatures: Mapping[str, Signature], asked: str | None) -> str:
    """The name of the signature that a request means: the one it names, ``serving_default``, or the only one.

    Raises
    ------
    SignatureError
        There is no such one, or several and it is not said which.
    """
    if asked is None:
        if len(signatures) == 1:
            return next(iter(signatures))
        asked = "serving_default"
    if asked not in signatures:
        raise SignatureError(f"{name}: there is no signature {asked!r}; it has {', '.join(signatures) or 'none'}.")
    return asked
