"""What a server answers when it can't answer with a result; each class is a status of HTTP."""

from __future__ import annotations


class ServeError(Exception):
    """A request that has no result.

    Attributes
    ----------
    status : int
        Of HTTP.
    retry_after : float or None
        Seconds after which it is worth trying again.
    """

    status = 500

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BadRequest(ServeError):
    """The request itself is wrong: it would be as wrong the next time."""

    status = 400


class NotFound(ServeError):
    """There is no such model, version, label or signature."""

    status = 404


class QueueFull(ServeError):
    """More is waiting than the queue holds; worth trying again soon."""

    status = 429


class ModelFailed(ServeError):
    """The model was given what its signature says and failed all the same."""

    status = 500


class Unavailable(ServeError):
    """Loading, draining, or the worker processes die: not the request's fault."""

    status = 503


class TooLate(ServeError):
    """The request's deadline came first."""

    status = 504
