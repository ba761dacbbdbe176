"""A request as it came, and an answer as it goes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from internals.deploy.serve.errors import ServeError
from internals.deploy.serve.rest import JSON


class NotAllowed(ServeError):
    """The address knows no such method."""

    status = 405

    def __init__(self, came: str, method: str) -> None:
        super().__init__(f"{came[:20]} is not for this address; use {method}.")
        self.allow = "GET, HEAD" if method == "GET" else method


@dataclass
class Asked:
    """A request as it came; the names of its headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    model: str = ""
    version: str = ""


@dataclass
class Answer:
    """What goes back."""

    body: bytes
    kind: str = JSON
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def as_json(content: Any, status: int = 200, **headers: str) -> Answer:
    """An answer in JSON."""
    return Answer(json.dumps(content, allow_nan=False).encode(), status=status, headers=headers)


def refusal(error: ServeError) -> Answer:
    """The answer to a request that has no result."""
    answer = as_json({"error": str(error)}, error.status)
    if isinstance(error, NotAllowed):
        answer.headers["Allow"] = error.allow
    if error.retry_after is not None or error.status == 429:
        answer.headers["Retry-After"] = str(math.ceil(error.retry_after or 1))
    return answer
