"""Serve the models of a directory: ``python -m internals.deploy.serve DIR``."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from internals.deploy.serve.answers import Answers
from internals.deploy.serve.http import Lines, requests
from internals.deploy.serve.kubernetes import Deployment, manifests, to_yaml
from internals.deploy.serve.listening import Listener, room_for
from internals.deploy.serve.server import LINGER, Server, Settings, log

SERVING = {
    "size": "--batch-size",
    "wait_ms": "--wait-ms",
    "linger_ms": "--linger-ms",
    "queue": "--queue",
    "workers": "--workers",
    "threads": "--threads",
    "keep": "--keep",
    "poll": "--poll",
    "deadline": "--deadline",
    "largest": "--largest",
    "bodies": "--bodies",
    "connections": "--connections",
    "limit": "--limit",
    "loading": "--loading",
    "idle": "--idle",
    "loader": "--loader",
    "marker": "--marker",
}
"""What a command line in a cluster repeats."""
OPERATORS = 32
"""Connections to the operators' port."""
LITTLE, MUCH = 2_000, 200_000
"""Objects, more than there were, that may be garbage: worth a look while nobody waits, and in any case."""


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    known = Settings()
    parser = argparse.ArgumentParser("python -m internals.deploy.serve", description=__doc__)
    parser.add_argument("directory", type=Path, nargs="?", help="holds NAME/1, NAME/2, ...; or is one NAME")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s; 0.0.0.0 is all)")
    parser.add_argument("--port", type=int, default=8501, help="0 takes a free one (%(default)s)")
    parser.add_argument("--admin-port", type=int, help="operators' calls, on 127.0.0.1")
    parser.add_argument("--admin-token-file", type=Path, help="a file with the token of operators' calls")
    parser.add_argument("--batch-size", dest="size", type=int, default=known.size, help="rows (%(default)s)")
    parser.add_argument("--wait-ms", type=float, default=0.0, help="each request waits for others (%(default)s)")
    parser.add_argument(
        "--linger-ms", type=float, help=f"the same, only while many come ({1000 * LINGER:g} with one worker, else 0)"
    )
    parser.add_argument("--queue", type=int, default=known.queue, help="rows that may wait (%(default)s)")
    parser.add_argument("--workers", type=int, default=known.workers, help="processes of a version (%(default)s)")
    parser.add_argument("--threads", type=int, default=known.threads, help="of a process; 0 shares out the processors")
    parser.add_argument("--pad", action="append", default=[], metavar="SIZE=FILL", help="an open size that is padded")
    parser.add_argument("--keep", type=int, default=known.keep, help="newest versions kept loaded (%(default)s)")
    parser.add_argument("--poll", type=float, default=known.poll, help="seconds between looks (%(default)s)")
    parser.add_argument("--deadline", type=float, default=known.deadline, help="seconds of a request (%(default)s)")
    parser.add_argument("--largest", type=int, default=known.largest, help="bytes of a body (%(default)s)")
    parser.add_argument("--bodies", type=int, default=known.bodies, help="bytes of all bodies (%(default)s)")
    parser.add_argument("--connections", type=int, default=known.connections, help="at once (%(default)s)")
    parser.add_argument("--limit", type=float, default=known.limit, help="seconds of a batch (%(default)s)")
    parser.add_argument("--loading", type=float, default=known.loading, help="seconds to load (%(default)s)")
    parser.add_argument("--idle", type=float, default=known.idle, help="seconds of silence (%(default)s)")
    parser.add_argument("--grace", type=float, default=30.0, help="seconds that SIGTERM waits (%(default)s)")
    parser.add_argument("--allow-nan", action="store_true", help="pass on NaN and infinity")
    parser.add_argument("--loader", metavar="MODULE:FUNCTION", help="what loads a version's directory")
    parser.add_argument("--marker", default=known.marker, metavar="FILE", help="with it, a version is complete")
    parser.add_argument("--quiet", action="store_true", help="no line of log for each request")
    parser.add_argument("--kubernetes", action="store_true", help="print manifests, and serve nothing")
    parser.add_argument("--name", default="models", help="of what stands in the cluster (%(default)s)")
    parser.add_argument("--image", default="", help="a container image with internals")
    parser.add_argument("--claim", default="models", help="the PersistentVolumeClaim with the models (%(default)s)")
    parser.add_argument("--replicas", default="2:8", help="pods, LEAST:MOST (%(default)s)")
    parser.add_argument("--cpu", default="1", help="of a pod (%(default)s)")
    parser.add_argument("--memory", default="2Gi", help="of a pod (%(default)s)")
    options = parser.parse_args(arguments)
    if options.directory is None and not options.kubernetes:
        parser.error("give the directory of the models")
    if options.workers < 1:
        parser.error(f"--workers must be at least 1, got {options.workers}")
    if options.threads < 0:
        parser.error(f"--threads must be 0 or more, got {options.threads}")
    for name in ("port", "admin_port"):
        if not 0 <= (getattr(options, name) or 0) < 2**16:
            parser.error(f"--{name.replace('_', '-')} must be 0 to 65535, got {getattr(options, name)}")
    for name in ("deadline", "limit", "loading", "idle", "largest", "bodies", "connections"):
        if not getattr(options, name) > 0:
            parser.error(f"--{name} must be more than 0, got {getattr(options, name)}")
    return options


def in_a_cluster(options: argparse.Namespace) -> str:
    """The manifests, in YAML.

    Raises
    ------
    ValueError
    """
    least, _, most = options.replicas.partition(":")
    if not (least.isdigit() and most.isdigit()):
        raise ValueError(f"--replicas {options.replicas!r}: expected LEAST:MOST, such as 2:8")
    kept = {name: getattr(options, name) for name in ("name", "image", "claim", "cpu", "memory", "grace")}
    settings_of(options)  # what makes no sense is told here, not by a pod
    arguments = [f"--pad={one}" for one in options.pad]
    arguments += [flag for flag, given in (("--allow-nan", options.allow_nan), ("--quiet", options.quiet)) if given]
    for name, flag in SERVING.items():
        value = getattr(options, name)
        if value not in (None, ""):
            arguments += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    return to_yaml(manifests(Deployment(least=int(least), most=int(most), **kept), arguments))


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings of a command line.

    Raises
    ------
    ValueError
    """
    fill = {}
    for one in options.pad:
        name, _, value = one.partition("=")
        try:
            fill[name] = float(value or 0)
        except ValueError:
            name = ""
        if not name.isidentifier():
            raise ValueError(f"--pad {one!r}: expected SIZE=FILL, such as time=0")
    linger = None if options.linger_ms is None else options.linger_ms / 1000
    translated = {"wait": options.wait_ms / 1000, "linger": linger, "fill": fill, "finite": not options.allow_nan}
    kept = {one.name: getattr(options, one.name) for one in fields(Settings) if one.name not in translated}
    return Settings(**translated, **kept)


def token_in(path: Path | None) -> str | None:
    """The token that operators must give.

    Raises
    ------
    OSError, ValueError
    """
    if path is None:
        return None
    token = path.read_text(encoding="utf-8").strip()
    if not (token.isascii() and token.isprintable() and token):
        raise ValueError(f"--admin-token-file {path}: expected one line of ASCII, such as `openssl rand -hex 32` gives")
    return token


async def _start(server: Server, stop: asyncio.Event) -> None:
    try:
        await server.start()
    except BaseException:
        stop.set()
        raise
    await sweep(server)


async def sweep(server: Server, every: float = 1.0) -> None:
    """Look for garbage when nobody waits, and not in the middle of requests; until it is cancelled.

    Answering a request leaves no reference cycles, and what the models and libraries are made of stays. So Python's own
    collector would look through all requests that wait, most often when there are many, and find nothing.
    """
    gc.disable()
    gc.collect()
    gc.freeze()
    while True:
        await asyncio.sleep(every)
        if gc.get_count()[0] > (LITTLE if server.in_flight == 0 else MUCH):
            gc.collect()


async def serve(options: argparse.Namespace) -> int:
    """Serve until a signal; the exit code."""
    settings = settings_of(options)
    server = Server(options.directory, settings)
    most = room_for(settings.connections)
    listeners = [Listener(Answers(server, token=token_in(options.admin_token_file)), most)]
    ports = [listeners[0].listen(options.host, options.port)]
    if options.admin_port is not None:
        listeners.append(Listener(Answers(server, admin=True), OPERATORS))
        ports.append(listeners[1].listen("127.0.0.1", options.admin_port))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    about = {"event": "listening", "host": options.host, "port": ports[0], "admin_port": (*ports, None)[1]}
    log.info("listening", extra={"about": about})
    try:
        starting = asyncio.create_task(_start(server, stop))
        await stop.wait()
        if starting.done():
            starting.result()  # it ends by itself only when it can't start
        starting.cancel()
        log.info("draining", extra={"about": {"event": "draining", "in_flight": server.in_flight}})
        end = time.monotonic() + options.grace
        done = await server.drain(options.grace)
        for one in listeners:
            await one.close(end - time.monotonic())
        log.info("stopped", extra={"about": {"event": "stopped", "whole": done}})
        return 0 if done else 1
    finally:
        server.close()


def main() -> int:
    """Serve; the exit code is 0 when every request had its answer."""
    options = parsed()
    if options.kubernetes:
        try:
            print(in_a_cluster(options), end="")
        except (ValueError, ImportError) as error:
            print(f"serve: {error}", file=sys.stderr)
            return 2
        return 0
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    log.addHandler(handler)
    log.propagate = False
    log.setLevel(logging.INFO)
    if options.quiet:
        requests.setLevel(logging.WARNING)
    try:
        return asyncio.run(serve(options))
    except (OSError, ValueError, ImportError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror and not error.filename else str(error)
        print(f"serve: {why.removeprefix('serve: ')}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
