"""Arrays in the bytes of a safetensors file, as they lie there: nothing is copied.

The format is a length, a header in JSON, and the arrays' bytes. Every place that the header names is checked before an
array is made of it, so that none reads past the end or into another.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from internals.deploy.errors import FormatError
from internals.deploy.saved.bounded import read_json
from internals.nn.weights import dtype_named

LARGEST_HEADER = 100 * 2**20


def arrays_in(name: str, data: memoryview) -> dict[str, np.ndarray]:
    """Read-only arrays by name.

    Parameters
    ----------
    name : str
        Of the file, for errors.
    data : memoryview of bytes

    Raises
    ------
    FormatError
        It is no safetensors file, or only a part of one; or its arrays overlap, leave gaps or don't fit their places.
    """
    try:
        size = int.from_bytes(data[:8], "little")
        if len(data) < 8 or size > min(len(data) - 8, LARGEST_HEADER):
            raise FormatError(f"its header has {size:,} bytes, and the file {len(data):,}")
        header = read_json(bytes(data[8 : 8 + size]))
        header.pop("__metadata__", None)
        return _arrays(header, data[8 + size :].toreadonly())
    except FormatError as error:
        raise FormatError(f"load: {name}: {error}.") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise FormatError(f"load: {name} is no safetensors file, or was changed: {error!r}.") from None


def _arrays(header: dict[str, Any], body: memoryview) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    dtypes: dict[str, np.dtype] = {}
    end, length = 0, len(body)
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        (start, stop), shape, code = entry["data_offsets"], entry["shape"], entry["dtype"]
        if code not in dtypes:
            dtypes[code] = dtype_named(code)
        dtype = dtypes[code]
        for number in (start, stop, *shape):
            if type(number) is not int or number < 0 or len(shape) > 32:
                raise FormatError(f"{name!r} has the place {[start, stop]} and the shape {shape}")
        count = math.prod(shape)
        if start != end or stop - start != count * dtype.itemsize or stop > length:
            raise FormatError(
                f"{name!r}, {dtype.name}{shape}, is said to be at bytes {start} to {stop}; expected {end} to "
                f"{end + count * dtype.itemsize} of {length}"
            )
        found[name], end = np.ndarray(shape, dtype, body, start) if count else np.ndarray(shape, dtype, b""), stop
    if end != length:
        raise FormatError(f"{length - end} bytes at its end belong to no array")
    return found
