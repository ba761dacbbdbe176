"""A message between two processes, as ZeroMQ's frames; and the hello that comes before the first of them.

The first frame is a head of 13 bytes (magic, version, way, flags, number) and the message's header; the arrays follow,
each in a frame. Those of a small message are in the first frame too: a frame costs more than a copy of a few bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from internals.distributed.errors import ProtocolError
from internals.distributed.transport.message import MAX_ARRAYS, VERSION, Message, decode, encode

if TYPE_CHECKING:
    import zmq

HEAD = struct.Struct(">2sBBBQ")
MAGIC = b"fi"

HELLO, WELCOME, NO, BYE, ATTACHED = "hello", "welcome", "no", "bye", "attached"
WAYS = ("", "call", "answer", "refusal", "credit", HELLO, WELCOME, NO, BYE, ATTACHED)
NUMBERS = {way: number for number, way in enumerate(WAYS)}

SHARED = 1
"""Flag: the arrays lie in shared memory; the second frame says where."""
JOINED = 2
"""Flag: there is one frame. After the head come the sizes of the header and of the arrays, then all of these."""
SMALL = 1 << 14
"""Bytes of arrays up to which they are joined."""
FEW = 16
"""Arrays up to which they are joined."""
ALIGN = 16
LEAST = 1 << 13
"""Bytes up to which a frame that came is copied."""
SIZES = [struct.Struct(f"<{2 + count}I") for count in range(FEW + 1)]


class Arrival(NamedTuple):
    """What was read of a message before it is known whether it is to be trusted."""

    way: str
    flags: int
    number: int
    frames: list[Any]


def head(way: str, number: int, flags: int = 0) -> bytes:
    return HEAD.pack(MAGIC, VERSION, NUMBERS[way], flags, number)


def pack(message: Message, way: str, number: int) -> list[Any]:
    """The frames of a message with its arrays."""
    frames = encode(message)
    if 1 < len(frames) <= FEW + 1 and sum(len(frame) for frame in frames[1:]) <= SMALL:
        return [_joined(frames, way, number)]
    frames[0] = head(way, number) + frames[0]
    return frames


def _joined(frames: Sequence[Any], way: str, number: int) -> bytes:
    count = len(frames) - 1
    parts = [head(way, number, JOINED), SIZES[count].pack(count, *(len(frame) for frame in frames)), frames[0]]
    at = sum(map(len, parts))
    for frame in frames[1:]:
        gap = -at % ALIGN
        parts += (bytes(gap), frame)
        at += gap + len(frame)
    return b"".join(parts)


def _parted(frame: bytes, source: str) -> list[Any]:
    """The frames that were joined into one."""
    view = memoryview(frame)
    try:
        (count,) = struct.unpack_from("<I", frame, HEAD.size)
        _, *sizes = SIZES[count].unpack_from(frame, HEAD.size)
    except (IndexError, struct.error):
        raise ProtocolError(f"{source} sent a message that is cut off") from None
    at = HEAD.size + SIZES[count].size
    parts = [view[at : at + sizes[0]]]
    at += sizes[0]
    for size in sizes[1:]:
        at += -at % ALIGN
        parts.append(view[at : at + size])
        at += size
    if at != len(frame):
        raise ProtocolError(f"{source} sent {len(frame)} bytes for a message of {at}")
    return parts


def unpack(frames: Sequence[Any], source: str) -> Arrival:
    """The head of a message, and what is to be decoded.

    Raises
    ------
    ProtocolError
        Not a message of this version.
    """
    first = frames[0] if frames else b""
    if len(first) < HEAD.size or first[:2] != MAGIC:
        raise ProtocolError(f"{source} sent bytes that are no message")
    _, version, way, flags, number = HEAD.unpack_from(first)
    if version != VERSION:
        raise ProtocolError(
            f"{source} speaks version {version} of the protocol, this process version {VERSION}: "
            "run the same release on all"
        )
    if way >= len(WAYS) or flags > JOINED or len(frames) > MAX_ARRAYS + 1:
        raise ProtocolError(f"{source} sent a message of way {way}, flags {flags} and {len(frames)} frames")
    if flags == JOINED:
        if len(frames) != 1:
            raise ProtocolError(f"{source} sent {len(frames)} frames that are said to be one")
        return Arrival(WAYS[way], 0, number, _parted(first, source))
    return Arrival(WAYS[way], flags, number, [memoryview(first)[HEAD.size :], *frames[1:]])


def read(socket: zmq.Socket[Any], flags: int) -> list[Any] | None:
    """The frames of one message; None where none has come. Small ones are copied, since they lie unaligned.

    Of more frames than a message can have, the first are given.

    Raises
    ------
    zmq.ZMQError
        The socket is closed.
    """
    import zmq

    try:
        frames: list[Any] = [socket.recv(flags)]
    except zmq.Again:
        return None
    if socket.getsockopt(zmq.RCVMORE):
        frames.append(socket.recv())
        more = socket.getsockopt(zmq.RCVMORE)
        while more:
            frame = socket.recv(copy=False)
            more = frame.more
            if len(frames) < MAX_ARRAYS + 4:
                frames.append(frame.buffer if len(frame) > LEAST else frame.bytes)
    return frames


@dataclass(frozen=True)
class Hello:
    """Who connects. It is the first message of each connection, and the answer to it.

    Attributes
    ----------
    name, job : str
        Who it is, and of which job.
    incarnation : str
        Random, made when the endpoint was opened: a process that came back under its name is another.
    address : str
        Where it listens.
    host : str
        The same for all that can see each other's processes.
    pid : int
    probe : list of int
        A file descriptor and a number that is written in it, to find out whether its memory can be attached; or empty.
    proof : str
        That it knows the secret of the job.
    """

    name: str
    job: str
    incarnation: str
    address: str
    host: str
    pid: int
    probe: list[int]
    proof: str

    def message(self) -> Message:
        return Message(HELLO, asdict(self))


def read_hello(frames: Sequence[Any], source: str) -> Hello:
    """The hello in `frames`, checked.

    Raises
    ------
    ProtocolError
    """
    fields = decode(frames, source).fields
    types = {key: int if key == "pid" else list if key == "probe" else str for key in Hello.__dataclass_fields__}
    if {key: type(value) for key, value in fields.items()} != types:
        raise ProtocolError(f"{source} sent a hello with {sorted(fields)!r:.200}; expected {sorted(types)}")
    if not all(type(entry) is int for entry in fields["probe"]) or len(fields["probe"]) not in (0, 2):
        raise ProtocolError(f"{source} sent a hello with a probe {fields['probe']!r:.60}")
    if not 0 < len(fields["name"]) <= 200 or max(len(fields[key]) for key in ("job", "incarnation", "address")) > 500:
        raise ProtocolError(f"{source} sent a hello from a name {fields['name']!r:.60}")
    return Hello(**fields)
