"""How many fields a protobuf message has, counted before it is read: two bytes can become a hundred in memory."""

from __future__ import annotations

from typing import Any

from internals.deploy.errors import FormatError

MOST = 2_000_000
"""Fields, those of the messages within it too."""
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def check_fields(data: bytes, descriptor: Any) -> None:
    """Refuse a message of more fields than `MOST`.

    Parameters
    ----------
    data : bytes
    descriptor : google.protobuf.descriptor.Descriptor
        Of the message; says which fields are messages.

    Raises
    ------
    FormatError
    """
    if len(data) <= MOST:  # a field has at least two bytes
        return
    messages: dict[Any, dict[int, Any]] = {}
    at, end, kind, count = 0, len(data), descriptor, 0
    around: list[tuple[int, Any]] = []
    while at < end or around:
        if at >= end:
            end, kind = around.pop()
            continue
        count += 1
        if count > MOST:
            raise FormatError(f"from_onnx: the file has more than {MOST:,} fields; so many are refused.")
        if kind not in messages:
            messages[kind] = {one.number: one.message_type for one in kind.fields if one.message_type is not None}
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == _VARINT:
            _, at = _varint(data, at)
        elif wire == _BYTES:
            size, at = _varint(data, at)
            within = messages[kind].get(tag >> 3)
            if within is None:
                at += size
            else:
                around.append((end, kind))
                end, kind = min(at + size, end), within
        elif wire in (_EIGHT, _FOUR):
            at += 8 if wire == _EIGHT else 4
        else:  # nothing that a file of ONNX has; what reads it says so
            return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128 or shift > 63:
            break
    return value, at
