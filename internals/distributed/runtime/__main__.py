"""One task of a cluster, as a process: ``python -m internals.distributed.runtime --job worker --task 0 ...``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time

from internals.distributed.runtime.cluster import ClusterSpec
from internals.distributed.runtime.server import Server


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m internals.distributed.runtime", description=__doc__)
    parser.add_argument("--job", required=True)
    parser.add_argument("--task", type=int, required=True)
    parser.add_argument("--cluster", help="JSON: {job: [addresses]}; else it is a line of the standard input")
    parser.add_argument("--bind", help="host:port to listen at, 0 for any free port; printed once it is open")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--parent", type=int, default=0, help="end when this process is gone")
    chosen = parser.parse_args(arguments)
    if chosen.parent:
        threading.Thread(target=_end_with, args=(chosen.parent,), daemon=True).start()
    endpoint = None
    try:
        if chosen.bind:
            from internals.distributed.transport import open_endpoint

            endpoint = open_endpoint(f"{chosen.job}:{chosen.task}", bind=chosen.bind)
            print(endpoint.address, flush=True)
        cluster = ClusterSpec(json.loads(chosen.cluster or sys.stdin.readline()))
        server = Server(cluster, chosen.job, chosen.task, endpoint=endpoint, threads=chosen.threads)
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        print(f"runtime: {error}", file=sys.stderr)
        return 2
    with server:
        try:
            server.join()
        except KeyboardInterrupt:
            pass
    return 0


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
