"""The process that reads and writes large JSON: ``python -m internals.deploy.serve.reader SOCKET``; see `bodies`.

Python runs one thread at a time, and reading JSON is one long step of it: a body of some megabytes would hold up every
other request of the server, and its lists take up to forty times its bytes. So that is done here, within a bound on
memory.
"""

from __future__ import annotations

import resource
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from internals.deploy.serve import rest
from internals.deploy.serve.errors import BadRequest, ServeError
from internals.deploy.serve.servable import signatures_of
from internals.deploy.serve.worker import frame, next_frame

BODY = "body"


def _done(fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    if fields["do"] == "write":
        body = rest.answer_in_json(arrays, fields["what"], fields["form"], fields["labels"])
        return frame({}, {BODY: np.frombuffer(body, np.uint8)})
    signatures = signatures_of(fields["signatures"])
    data = arrays[BODY].tobytes()
    name, found, form = rest.request_of_json(data, fields["what"], fields["model"], signatures, finite=fields["finite"])
    return frame({"signature": name, "form": form}, found)


def answer(fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The frame that answers a frame; whatever is wrong with a body is an answer too."""
    try:
        return _done(fields, arrays)
    except ServeError as error:
        return frame({"error": str(error), "status": error.status})
    except MemoryError:
        few = "its JSON takes more memory than the server gives one body; send safetensors, or less at once."
        return frame({"error": few, "status": BadRequest.status})


def main() -> None:
    """Serve the socket whose number is the first argument, within as many bytes of memory as the second one says."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ValueError, OSError):  # a system that knows no such bound
        resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
    connection = socket.socket(fileno=int(sys.argv[1]))
    try:
        while True:
            connection.sendall(answer(*next_frame(connection)))
    except (EOFError, ConnectionError):
        return


if __name__ == "__main__":
    main()
