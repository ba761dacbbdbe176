"""What can go wrong between processes, each with the name of the peer it went wrong with."""

from __future__ import annotations


class DistributedError(RuntimeError):
    """Something failed between processes; the message names the peer and what was being done."""


class PeerLost(DistributedError):
    """A peer died, or was not heard of for longer than the heartbeats allow.

    Attributes
    ----------
    peer : str
    """

    def __init__(self, peer: str, reason: str) -> None:
        super().__init__(f"lost {peer}: {reason}")
        self.peer = peer
        self.reason = reason

    def __reduce__(self) -> tuple[type[PeerLost], tuple[str, str]]:
        return type(self), (self.peer, self.reason)


class DeadlineExceeded(DistributedError):
    """What was waited for did not come in time. The peer may be alive, and slow."""


class RemoteError(DistributedError):
    """A peer's handler raised; the message is the peer's.

    Attributes
    ----------
    peer, kind : str
        Who answered, and the class of the error there.
    """

    def __init__(self, peer: str, kind: str, text: str) -> None:
        super().__init__(f"{peer} answered with {kind}: {text}")
        self.peer = peer
        self.kind = kind
        self.text = text

    def __reduce__(self) -> tuple[type[RemoteError], tuple[str, str, str]]:
        return type(self), (self.peer, self.kind, self.text)


class ProtocolError(DistributedError):
    """Bytes that are no message of this version: garbage, another version, a size over the limit."""


class AuthenticationError(DistributedError):
    """A peer does not hold the key of this job."""


class AddressInUse(DistributedError):
    """Another process listens where this one was to listen."""


class DuplicateName(DistributedError):
    """Two living processes of a job go by one name: two that were both told to be rank 1, for example.

    Attributes
    ----------
    final : bool
        Whether the other is known to live; else it may have just died, and the name will be free in a moment.
    """

    def __init__(self, text: str, final: bool = True) -> None:
        super().__init__(text)
        self.final = final


class MismatchError(DistributedError):
    """Ranks called different collectives, or the same with other shapes or dtypes."""
