"""How many values a description from elsewhere may hold: a byte or three of text can become a list of 60 bytes."""

from __future__ import annotations

import json
from typing import Any

from internals.deploy.errors import FormatError

MOST = 4_000_000
"""Values; of JSON and msgpack, those that are read take less than a gigabyte."""
_SMALL = 2**20
_SCALARS = bytes(one for one in range(256) if not (0x80 <= one <= 0xBF or 0xC4 <= one <= 0xDF))
"""What in msgpack begins no list, map, text or number of more than a byte."""


_JSON = json.JSONDecoder()


def read_json(data: bytes) -> Any:
    """What is in JSON in UTF-8. More values than `MOST` are refused before they are read; commas in text count too.

    Raises
    ------
    FormatError
        It holds too many values, or is no UTF-8.
    ValueError, RecursionError
        It is no JSON, or nested too deep.
    """
    if len(data) > _SMALL:
        _check(sum(data.count(one) for one in (b",", b"[", b"{")))
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"it is no text in UTF-8 ({error})") from None
    return _JSON.decode(text)


def check_msgpack(data: bytes) -> None:
    """Refuse msgpack of more values than that, before it is read; bytes within text and arrays that look like the
    beginning of a value count too.

    Raises
    ------
    FormatError
    """
    if len(data) > MOST:
        _check(len(data.translate(None, _SCALARS)))


def _check(count: int) -> None:
    if count > MOST:
        raise FormatError(f"it holds up to {count:,} values; more than {MOST:,} are refused")
