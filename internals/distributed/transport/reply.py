"""The answer to a call: given once, from any thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from internals.distributed.errors import DistributedError, RemoteError
from internals.distributed.transport.message import Message

if TYPE_CHECKING:
    from internals.distributed.transport.endpoint import Endpoint

LATER: Final[Any] = object()
"""A handler returns it to say that it keeps its `Reply` and will answer later, from any thread."""

CALL, ANSWER, REFUSAL = "call", "answer", "refusal"


class Reply:
    """The way back to who called; good for one answer, from any thread.

    Attributes
    ----------
    peer : str
        Who waits.
    given : bool
        Whether it was answered.
    """

    def __init__(self, endpoint: Endpoint, peer: str, number: int) -> None:
        self.peer = peer
        self.given = False
        self._endpoint = endpoint
        self._number = number
        self._lock = threading.Lock()

    def __call__(self, message: Message | None = None) -> None:
        """Answer. A caller that is gone meanwhile is no error.

        Raises
        ------
        RuntimeError
            An answer was given already.
        TypeError, ValueError
            The message holds what can't be sent. No answer is given yet: `fail` can be called.
        """
        self._once(message or Message(""), ANSWER)

    def fail(self, error: BaseException) -> None:
        """Let the call raise `RemoteError` where it was made."""
        text = str(error).encode(errors="replace").decode()
        self._once(Message("", {"kind": type(error).__name__, "text": text[:100_000]}), REFUSAL)

    def _once(self, message: Message, way: str) -> None:
        with self._lock:
            if self.given:
                raise RuntimeError(f"a reply to {self.peer} was already given; a call has one answer")
            self.given = True
            try:
                self._endpoint._send(self.peer, message, way, self._number)
            except DistributedError:
                pass
            except BaseException:
                self.given = False
                raise


def refusal(message: Message) -> RemoteError:
    """The error that a call raises, from the message that came instead of an answer."""
    kind, text = message.fields.get("kind"), message.fields.get("text")
    return RemoteError(message.source, str(kind), str(text))
