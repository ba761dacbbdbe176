"""Asking the grading service of a class for checks and grades, from a learner's server on a hub.

There no spec, no oracle and no gradebook can be reached: the service has them, and the learner's token says who asks.
Imports little, because a learner's notebook waits for it.
"""

from __future__ import annotations

import base64
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from autograder.feedback.catalogue import language, say

SERVICE, TOKEN = "AUTOGRADER_SERVICE", "JUPYTERHUB_API_TOKEN"
PATIENCE = 300.0
"""Seconds that a notebook waits for its grade; it is graded all the same."""
EACH_WAIT = 20.0


class RemoteError(RuntimeError):
    """What the service answered instead of doing what it was asked for, in one line."""


def address() -> str:
    """Where the class's grading service is; "" where a learner works on a machine of their own."""
    found = os.environ.get(SERVICE, "")
    return (found.rstrip("/") + "/") if found and os.environ.get(TOKEN) else ""


def ask(path: str, request: dict[str, Any] | None = None, *, timeout: float = 60.0) -> bytes:
    """What the service answers: to a GET, or to a POST of `request`.

    Raises
    ------
    RemoteError
        It can't be reached, or refuses; in its own words where it has any.
    """
    headers = {"Authorization": f"token {os.environ.get(TOKEN, '')}", "Accept-Language": language()}
    data = None
    if request is not None:
        data = json.dumps(request).encode()
        headers["Content-Type"] = "application/json"
    asked = urllib.request.Request(address() + path, data=data, headers=headers)
    # Straight to it: a proxy for the outside does not know the hub, and must not see the token.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
    try:
        with opener.open(asked, timeout=timeout) as reply:
            return reply.read()
    except urllib.error.HTTPError as error:
        raise RemoteError(_reason(error)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise RemoteError(say("hub.not_reached", reason=reason)) from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The service never sends a program elsewhere; a token must not follow who does."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        words = json.loads(error.read())["reason"]
    except (OSError, ValueError, KeyError, TypeError):
        words = ""
    if error.code == 403 and not words:
        words = say("hub.not_known")
    return str(words or say("hub.answered", status=error.code))


def skeleton(file: str) -> str:
    """Of a notebook's file what a check looks at: the lab and its code cells' tags; "" where it can't be read."""
    try:
        with open(file, encoding="utf-8") as opened:
            document = json.load(opened)
        metadata = document.get("metadata", {})
        cells = [
            {name: cell[name] for name in ("cell_type", "id", "metadata", "source") if name in cell}
            | {"outputs": [], "execution_count": None}
            for cell in document.get("cells", [])
            if cell.get("cell_type") == "code"
        ]
        kept = {name: metadata[name] for name in ("kernelspec", "autograder") if name in metadata}
        return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": kept, "cells": cells})
    except (OSError, ValueError, AttributeError, TypeError):
        return ""


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Send what ``check()`` sends the warm process of a machine of one's own; the same answer comes back."""
    sent = {name: request[name] for name in ("tasks", "lab", "cells", "defined")}
    sent |= {"skeleton": skeleton(request["file"]), "filename": os.path.basename(request["file"])}
    return json.loads(ask("api/checks", sent, timeout=PATIENCE))


def hand_in(file: str, lab: str, cells: list[list[Any]]) -> dict[str, Any]:
    """Hand in a file as it is on the disk. When this returns, it is stored: ``submission``, ``line``, ``page``.

    Raises
    ------
    RemoteError
        It was not stored, or whether it was is not known.
    """
    from pathlib import Path

    from autograder.notebook import NotebookError, read_bytes

    try:
        data = read_bytes(Path(file))
    except NotebookError as error:
        raise RemoteError(f"{error} Nothing was handed in.") from None
    sent = {"filename": os.path.basename(file), "lab": lab, "cells": cells}
    return json.loads(ask("api/submissions", sent | {"notebook": base64.b64encode(data).decode()}, timeout=120.0))


def graded(number: int, tell: Callable[[str], None], patience: float = PATIENCE) -> dict[str, Any]:
    """The state of a submission once it is graded, set aside, or the patience is over; `tell` hears of the wait."""
    deadline = time.monotonic() + patience
    faults = 0
    while True:
        try:
            state = json.loads(ask(f"api/submissions/{number}?wait={EACH_WAIT:g}", timeout=EACH_WAIT + 40))
        except RemoteError as error:
            faults += 1
            if faults > 5 or time.monotonic() > deadline:  # a hub that restarts is back within a minute
                return {"state": "unknown", "words": str(error)}
            time.sleep(min(10.0, 2.0**faults))
            continue
        if state["state"] not in ("waiting", "leased") or time.monotonic() > deadline:
            return state
        faults = 0
        tell(state["words"])
