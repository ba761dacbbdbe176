"""The process that runs a model: ``python -m internals.deploy.serve.worker SOCKET``, started by `workers`.

It reads a frame, runs, writes a frame, one at a time. A frame is the lengths of a header and of arrays, the header in
JSON, and the arrays' bytes, one behind the other. It ends when its socket does, so that it never outlives the server.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from internals.deploy.errors import FormatError, SignatureError
from internals.deploy.serve.servable import Servable, described, run, servable_at, warm_up
from internals.nn.weights import code_of, dtype_named

HEAD = struct.Struct("<QQ")
ARRAYS = "arrays"


def frame(fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> bytes:
    """The bytes of a frame."""
    if not arrays:
        header = json.dumps(fields).encode()
        return HEAD.pack(len(header), 0) + header
    # Of ends that are both ours, and both of one machine: no file's format is needed.
    whole = {
        name: np.array(array, array.dtype.newbyteorder("="), order="C", copy=None) for name, array in arrays.items()
    }
    about = [(name, code_of(array.dtype), array.shape) for name, array in whole.items()]
    header = json.dumps({**fields, ARRAYS: about}).encode()
    parts = [array.tobytes() for array in whole.values()]
    return b"".join((HEAD.pack(len(header), sum(map(len, parts))), header, *parts))


def opened(header: bytes, body: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `frame` packed; arrays are read-only and lie in `body`."""
    fields, arrays, at = json.loads(header), {}, 0
    for name, code, shape in fields.pop(ARRAYS, ()):
        array = arrays[name] = np.ndarray(shape, dtype_named(code), body, at)
        at += array.nbytes
    return fields, arrays


def next_frame(connection: socket.socket) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Wait for a frame.

    Raises
    ------
    EOFError, OSError
        There will be none.
    """
    sizes = HEAD.unpack(_read(connection, HEAD.size))
    return opened(*[_read(connection, size) for size in sizes])


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        count = connection.recv_into(view[got:])
        if count == 0:
            raise EOFError
        got += count
    return bytes(data) if size < 4096 else data  # type: ignore[return-value]


def _load(fields: Mapping[str, Any]) -> tuple[Servable | None, dict[str, Any]]:
    sys.path[:0] = [one for one in fields["path"] if one not in sys.path]
    try:
        servable = servable_at(Path(fields["directory"]), fields["loader"])
        warm_up(servable, fields["rows"])
    except (FormatError, SignatureError, OSError, ImportError) as error:
        return None, {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - a loader of one's own may raise anything
        return None, {"error": f"{type(error).__name__}: {error}"}
    gc.collect()
    gc.freeze()  # what the model is made of stays as long as the process
    return servable, {"pid": os.getpid(), **described(servable)}


def _run(servable: Servable, signature: str, arrays: Mapping[str, np.ndarray]) -> bytes:
    try:
        return frame({}, run(servable, signature, arrays))
    except SignatureError as error:
        return frame({"error": str(error), "bad_request": True})
    except Exception as error:  # noqa: BLE001 - whatever the model raises is this request's answer
        return frame({"error": f"{type(error).__name__}: {error}"})


def main() -> None:
    """Serve the socket whose number is the first argument, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the server too, which drains
    connection = socket.socket(fileno=int(sys.argv[1]))
    servable: Servable | None = None
    try:
        while True:
            fields, arrays = next_frame(connection)
            if "directory" in fields:
                servable, answer = _load(fields)
                connection.sendall(frame(answer))
            elif servable is not None:
                connection.sendall(_run(servable, fields["signature"], arrays))
    except (EOFError, ConnectionError):
        return


if __name__ == "__main__":
    main()
