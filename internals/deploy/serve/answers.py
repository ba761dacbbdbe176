"""What each address answers; HTTP itself is in `http`.

=========================================================  =============================================================
``GET /v1/models``                                         names
``GET /v1/models/NAME[/versions/N|/labels/L]``             state of its versions
``GET /v1/models/NAME[/...]/metadata``                     signatures
``POST /v1/models/NAME[/...]:predict|classify|regress``    an answer; see `rest` for bodies
``GET /healthz``, ``/readyz``, ``/metrics``                alive; able to answer; counters for Prometheus
``GET /``, ``/live``                                       a page for people, and what it draws
``POST /admin/models/NAME``                                ``{"action": ..., "version": N}``; see `Server.change`
=========================================================  =============================================================

A request may say in ``X-Timeout-Ms`` how long it waits, and in ``X-Request-Id`` which it is: the identity decides
whether the canary answers it, so that a user stays with one version.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from internals.deploy.errors import SignatureError
from internals.deploy.saved.signature import Signature
from internals.deploy.serve import rest
from internals.deploy.serve.errors import BadRequest, NotFound, ServeError
from internals.deploy.serve.registry import AVAILABLE, Model, Version
from internals.deploy.serve.server import Server

TIMEOUT, IDENTITY = "X-Timeout-Ms", "X-Request-Id"
LARGE = 2**20
"""Bytes of a body that is read in a thread of its own, so that others don't wait for it."""
_MODEL = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(/versions/(?P<version>[0-9]{1,10})|/labels/(?P<label>[^/:]+))?"
    r"(?P<what>:predict|:classify|:regress|/metadata)?"
)
_ADMIN = re.compile(r"/admin/models/(?P<name>[^/:]+)")
_PAGE = Path(__file__).with_name("page.html")


class NotAllowed(ServeError):
    """The address knows no such method."""

    status = 405


class Forbidden(ServeError):
    """Only an operator may do this."""

    status = 403


@dataclass
class Asked:
    """A request as it came."""

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
    kind: str = rest.JSON
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def as_json(content: Any, status: int = 200, **headers: str) -> Answer:
    """An answer in JSON."""
    return Answer(json.dumps(content, allow_nan=False).encode(), status=status, headers=headers)


def refusal(error: ServeError) -> Answer:
    """The answer to a request that has no result."""
    answer = as_json({"error": str(error)}, error.status)
    if error.retry_after is not None or error.status == 429:
        answer.headers["Retry-After"] = str(math.ceil(error.retry_after or 1))
    return answer


class Answers:
    """The addresses of a server.

    Parameters
    ----------
    server : Server
    admin : bool
        Whether operators' calls are taken without a token, as on a port of their own.
    token : str, optional
        With which operators' calls are taken: ``Authorization: Bearer TOKEN``.
    """

    def __init__(self, server: Server, *, admin: bool = False, token: str | None = None) -> None:
        self.server, self._admin, self._token = server, admin, token

    async def answer(self, asked: Asked) -> Answer:
        """Answer a request; whatever is wrong with it is an answer too."""
        try:
            return await self._answer(asked)
        except SignatureError as error:
            return refusal(BadRequest(str(error)))
        except ServeError as error:
            return refusal(error)

    async def _answer(self, asked: Asked) -> Answer:
        path = unquote(asked.path.partition("?")[0], errors="replace")
        if found := _MODEL.fullmatch(path):
            return await self._of_model(asked, found)
        if found := _ADMIN.fullmatch(path):
            return await self._change(asked, found["name"])
        known = {
            "/": self._page,
            "/live": self._live,
            "/v1/models": self._models,
            "/healthz": self._health,
            "/readyz": self._ready,
            "/metrics": self._metrics,
        }
        if path not in known:
            raise NotFound(f"there is nothing at {path[:200]!r}; models are at /v1/models/NAME.")
        _only(asked, "GET")
        return known[path]()

    async def _of_model(self, asked: Asked, found: re.Match[str]) -> Answer:
        model = self.server.model(found["name"])
        asked.model = model.name
        what = found["what"] or ""
        _only(asked, "POST" if what.startswith(":") else "GET")
        number = int(found["version"]) if found["version"] else None
        if not what:
            status = model.status()
            if number is not None or found["label"]:
                number = model.route(version=number, label=found["label"]).number
                status = [one for one in status if one["version"] == str(number)]
            return as_json({"model_version_status": status})
        identity = asked.headers.get(IDENTITY)
        version = model.route(version=number, label=found["label"], key=identity)
        asked.version = str(version.number)
        if what == "/metadata":
            return as_json(metadata(model, version))
        return await self._run(asked, model, version, what)

    async def _run(self, asked: Asked, model: Model, version: Version, what: str) -> Answer:
        kind = asked.headers.get("Content-Type", rest.JSON).partition(";")[0].strip().lower()
        seconds = _timeout(asked.headers.get(TIMEOUT))
        if kind in (rest.SAFETENSORS, rest.MSGPACK):
            if what != ":predict":
                raise BadRequest(f"{what[1:]} takes JSON; {kind} is for predict.")
            name, signature = self.server.signature(model, version, asked.headers.get("X-Signature-Name"))
            arrays = self._checked(name, signature, rest.arrays_of_bytes(kind, asked.body))
            results = await self.server.run(model, version, name, arrays, seconds)
            return Answer(rest.bytes_of_arrays(kind, results), kind)
        large = len(asked.body) > LARGE
        body = await asyncio.to_thread(rest.read_json, asked.body) if large else rest.read_json(asked.body)
        if what != ":predict":
            body = rest.examples_as_rows(body)
        name, signature = self.server.signature(model, version, rest.signature_name(body))
        read = partial(rest.arrays_of_json, name, signature, body)
        arrays, form = await asyncio.to_thread(read) if large else read()
        results = await self.server.run(model, version, name, self._checked(name, signature, arrays), seconds)
        if what == ":classify":
            return as_json({"results": rest.classes(results, version.runner.labels)})
        if what == ":regress":
            return as_json({"results": rest.regressions(results)})
        if large:
            return await asyncio.to_thread(lambda: as_json(rest.json_of_arrays(results, form)))
        return as_json(rest.json_of_arrays(results, form))

    def _checked(self, name: str, signature: Signature, arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return rest.checked(name, signature, arrays, finite=self.server.settings.finite)

    async def _change(self, asked: Asked, name: str) -> Answer:
        _only(asked, "POST")
        token = asked.headers.get("Authorization", "").removeprefix("Bearer ")
        if not self._admin and not (self._token and hmac.compare_digest(token.encode(), self._token.encode())):
            raise Forbidden("operators' calls go to the admin port, or need Authorization: Bearer TOKEN.")
        # A page of another site can't send this kind without being asked whether it may.
        if asked.headers.get("Content-Type", "").partition(";")[0].strip().lower() != rest.JSON:
            raise BadRequest(f"operators' calls are {rest.JSON}.")
        body = rest.read_json(asked.body)
        version = body.get("version")
        if version is not None and (type(version) is not int or version < 0):
            raise BadRequest(f"version must be a whole number, got {version!r:.100}.")
        asked.model = name
        return as_json(await self.server.change(name, str(body.get("action")), version, body.get("weight", 0.0)))

    def _page(self) -> Answer:
        guard = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
        guard += "; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        return Answer(_PAGE.read_bytes(), "text/html; charset=utf-8", headers={"Content-Security-Policy": guard})

    def _models(self) -> Answer:
        models = sorted(self.server.models.items())
        return as_json({"models": [{"name": name, "stable": model.stable} for name, model in models]})

    def _live(self) -> Answer:
        now = asyncio.get_running_loop().time()
        models = []
        for name, model in sorted(self.server.models.items()):
            ready = [one for one in model.versions.values() if one.state == AVAILABLE and one.runner is not None]
            queue = sum(one.runner.batcher.rows for one in ready)
            one = model.versions.get(model.stable) if model.stable is not None else None
            signatures = metadata(model, one)["metadata"]["signature_def"] if one and one.runner else {}
            models.append({"name": name, "versions": model.status(), "queue": queue, "signatures": signatures})
        return as_json({"models": models, "seconds": self.server.minute.seconds(now), "ready": self.server.ready})

    def _health(self) -> Answer:
        return as_json({"status": "alive"})

    def _ready(self) -> Answer:
        return as_json({"ready": self.server.ready}, 200 if self.server.ready else 503)

    def _metrics(self) -> Answer:
        return Answer(self.server.metrics.text(), "text/plain; version=0.0.4; charset=utf-8")


def metadata(model: Model, version: Version) -> dict[str, Any]:
    """Signatures as TensorFlow Serving writes them: an open size is -1, with its name beside."""

    def end(spec: Any) -> dict[str, Any]:
        dims = [
            {"size": str(size), "name": ""} if isinstance(size, int) else {"size": "-1", "name": size or ""}
            for size in spec.shape
        ]
        return {"dtype": spec.dtype.name, "tensor_shape": {"dim": dims, "unknown_rank": False}}

    return {
        "model_spec": {"name": model.name, "version": str(version.number)},
        "metadata": {
            "signature_def": {
                name: {
                    "inputs": {key: end(spec) for key, spec in one.inputs.items()},
                    "outputs": {key: end(spec) for key, spec in one.results.items()},
                }
                for name, one in version.runner.signatures.items()
            }
        },
    }


def _only(asked: Asked, method: str) -> None:
    if asked.method != method:
        raise NotAllowed(f"{asked.method} is not for this address; use {method}.")


def _timeout(text: str | None) -> float:
    if text is None:
        return math.inf
    try:
        milliseconds = float(text)
    except ValueError:
        milliseconds = math.nan
    if not 0 < milliseconds < math.inf:
        raise BadRequest(f"{TIMEOUT} must be milliseconds, more than 0, got {text[:50]!r}.")
    return milliseconds / 1000
