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

States and metadata are written as TensorFlow Serving writes them. HEAD is answered as GET, without the body.

A request may say in ``X-Timeout-Ms`` how long it waits, and in ``X-Request-Id`` which it is: the identity decides
whether the canary answers it, so that a user stays with one version.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from internals.deploy.saved.signature import TensorSpec
from internals.deploy.serve import rest
from internals.deploy.serve.asking import Asking, refused
from internals.deploy.serve.errors import BadRequest, NotFound, ServeError
from internals.deploy.serve.exchanged import Answer, Asked, NotAllowed, as_json
from internals.deploy.serve.registry import AVAILABLE, Model, Version
from internals.deploy.serve.server import Server

IDENTITY = "x-request-id"
_MODEL = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(/versions/(?P<version>[0-9]{1,10})|/labels/(?P<label>[^/:]+))?"
    r"(?P<what>:predict|:classify|:regress|/metadata)?"
)
_ABSOLUTE = re.compile(r"\Ahttps?://[^/]*", re.IGNORECASE)
"""Of an address that has the server's own name in it, as requests to a proxy have."""
_ADMIN = re.compile(r"/admin/models/(?P<name>[^/:]+)")
_DTYPES = {"float16": "DT_HALF", "bfloat16": "DT_BFLOAT16", "float32": "DT_FLOAT", "float64": "DT_DOUBLE"}
_DTYPES |= {
    "bool": "DT_BOOL",
    **{f"{sign}int{bits}": f"DT_{sign}int{bits}".upper() for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_PAGE = Path(__file__).with_name("page.html")


class Forbidden(ServeError):
    """Only an operator may do this."""

    status = 403


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
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        stop = self.begin(asked, lambda one: None if answer.done() else answer.set_result(one))
        try:
            return await answer
        finally:
            stop()

    def begin(self, asked: Asked, done: Callable[[Answer], None]) -> Callable[[], object]:
        """Begin to answer a request.

        Parameters
        ----------
        asked : Asked
        done : callable of Answer
            Called once, now or later.

        Returns
        -------
        callable
            To call when the client left; then `done` is not called any more.
        """
        try:
            path, found = _place(asked.path)
            if found is not None:
                return self._of_model(asked, found, done)
            if found := _ADMIN.fullmatch(path):
                return self._operate(asked, found["name"], done)
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
            done(known[path]())
        except Exception as error:  # noqa: BLE001 - a fault of the server's own must not leave the client waiting
            done(refused(error, asked))
        return _nothing

    def _of_model(self, asked: Asked, found: re.Match[str], done: Callable[[Answer], None]) -> Callable[[], object]:
        model = self.server.model(found["name"])
        asked.model = model.name
        what = found["what"] or ""
        _only(asked, "POST" if what.startswith(":") else "GET")
        number = int(found["version"]) if found["version"] else None
        if not what:
            done(as_json({"model_version_status": model.status(number, found["label"])}))
            return _nothing
        version = model.route(version=number, label=found["label"], key=asked.headers.get(IDENTITY))
        asked.version = str(version.number)
        if what == "/metadata":
            done(as_json(metadata(model, version)))
            return _nothing
        asking = Asking(self.server, model.name, version, asked, what[1:], done)
        asking.begin()
        return asking.stop

    def _operate(self, asked: Asked, name: str, done: Callable[[Answer], None]) -> Callable[[], object]:
        def changed(task: asyncio.Task[Answer]) -> None:
            if not task.cancelled():
                error = task.exception()
                done(task.result() if error is None else refused(error, asked))

        task = asyncio.ensure_future(self._change(asked, name))
        task.add_done_callback(changed)
        return task.cancel

    async def _change(self, asked: Asked, name: str) -> Answer:
        _only(asked, "POST")
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if not self._admin and not (self._token and hmac.compare_digest(token.encode(), self._token.encode())):
            raise Forbidden("operators' calls go to the admin port, or need Authorization: Bearer TOKEN.")
        # A page of another site can't send this kind without being asked whether it may.
        if asked.headers.get("content-type", "").partition(";")[0].strip().lower() != rest.JSON:
            raise BadRequest(f"operators' calls need the header Content-Type: {rest.JSON}.")
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
            signatures = signature_defs(one) if one and one.runner else {}
            models.append({"name": name, "versions": model.status(), "queue": queue, "signatures": signatures})
        return as_json({"models": models, "seconds": self.server.minute.seconds(now), "ready": self.server.ready})

    def _health(self) -> Answer:
        return as_json({"status": "alive"})

    def _ready(self) -> Answer:
        return as_json({"ready": self.server.ready}, 200 if self.server.ready else 503)

    def _metrics(self) -> Answer:
        return Answer(self.server.metrics.text(), "text/plain; version=0.0.4; charset=utf-8")


def metadata(model: Model, version: Version) -> dict[str, Any]:
    """What TensorFlow Serving says of a version."""
    return {
        "model_spec": {"name": model.name, "signature_name": "", "version": str(version.number)},
        "metadata": {"signature_def": {"signature_def": signature_defs(version)}},
    }


def signature_defs(version: Version) -> dict[str, Any]:
    """Signatures as TensorFlow Serving writes them: an open size is -1, with its name beside."""

    def end(key: str, spec: TensorSpec) -> dict[str, Any]:
        dims = [
            {"size": str(size), "name": ""} if isinstance(size, int) else {"size": "-1", "name": size or ""}
            for size in spec.shape
        ]
        shape = {"dim": dims, "unknown_rank": False}
        return {"dtype": _DTYPES.get(spec.dtype.name, "DT_INVALID"), "tensor_shape": shape, "name": key}

    return {
        name: {
            "inputs": {key: end(key, spec) for key, spec in one.inputs.items()},
            "outputs": {key: end(key, spec) for key, spec in one.results.items()},
            "method_name": "tensorflow/serving/predict",
        }
        for name, one in version.runner.signatures.items()
    }


@lru_cache(256)
def _place(address: str) -> tuple[str, re.Match[str] | None]:
    """The path of an address, and what it says of a model."""
    path = unquote(_ABSOLUTE.sub("", address.partition("?")[0]), errors="replace")
    return path, _MODEL.fullmatch(path)


def _nothing() -> None:
    """There is nothing to stop."""


def _only(asked: Asked, method: str) -> None:
    if ("GET" if asked.method == "HEAD" else asked.method) != method:
        raise NotAllowed(asked.method, method)
