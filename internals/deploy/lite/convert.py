"""Models as lite files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from internals.deploy.lite.integers import quantised
from internals.deploy.lite.lowering import Lowering
from internals.deploy.lite.rules import RULES
from internals.deploy.saved.signature import Signature
from internals.deploy.saved.sources import content_of
from internals.nn.weights import replace_file


def to_lite(
    source: Any,
    signatures: Mapping[str, Signature] | None = None,
    *,
    signature: str | None = None,
    calibration: Iterable[Mapping[str, Any]] | None = None,
) -> bytes:
    """A model as the bytes of a lite file.

    Parameters
    ----------
    source, signatures
        What `internals.deploy.save` takes.
    signature : str, optional
        Which one, where there are several; a lite file has one.
    calibration : iterable of mapping of str to array, optional
        Inputs like those to come. With them, all arithmetic is of int8: inputs and outputs too, weights with a scale
        for each channel, biases of int32. Without, it is of float32.

    Raises
    ------
    LiteError
        An operation has no counterpart; names the node, the operation and the line that made it.
    TypeError, ValueError
        As `save`; or no such signature.
    """
    content = content_of(source, signatures)
    if signature is None and len(content.signatures) == 1:
        signature = next(iter(content.signatures))
    if signature not in content.signatures:
        raise ValueError(f"to_lite: which signature? There are {', '.join(content.signatures)}; got {signature!r}.")
    builder = Lowering(content, signature, RULES).builder
    return (builder if calibration is None else quantised(builder, calibration)).to_bytes()


def write_lite(path: str | os.PathLike[str], source: Any, signatures: Any = None, **settings: Any) -> None:
    """Write a model as a lite file, in place of the one that may be there; see `to_lite`."""
    replace_file(path, to_lite(source, signatures, **settings))
