"""The parameter server beside bare ZeroMQ: ``python -m benchmarks.parameter_server [--quick]``.

Four figures:

- push and pull of 100 MB over 2 servers, in one message each way to each, with SGD on the servers; against the time
  that bare ZeroMQ takes to move the same bytes between the same number of processes (a DEALER in the trainer, an
  echoing ROUTER in each other process, nothing copied that need not be). All run in turns, round by round; medians;
- rows a second: pulls of 100,000 rows out of 10,000,000, 16 numbers each, inside one server, and through sockets;
- updates a second of 4 trainers whose steps take 20 ms, one of them 60 ms, in step, within 4 steps, and as it comes;
- the same model and batch, with gradients of top 1 % and of 8 bits: bytes of a push.
"""

# ruff: noqa: E402 - BLAS reads its number of threads when it is loaded

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np

from internals.distributed.errors import DistributedError
from internals.distributed.server import Client, EightBit, Gradients, Server, SparseTable, TableSpec, TopK, Trainer
from internals.distributed.transport import Network, open_endpoint
from internals.optim import SGD

RESULTS = Path(__file__).parent / "results"
MEGABYTES, SERVERS = 100, 2


def sgd(tensors: Any) -> SGD:
    return SGD(tensors, lr=0.01)


def _serve(index: int, servers: int, transport: str, pipe: Any) -> None:
    endpoint = open_endpoint(f"server:{index}", transport=transport, secret="benchmark")
    server = Server(endpoint, optimizer=sgd, shards=1, index=index, servers=servers)
    pipe.send(endpoint.address)
    server.serve()


def _echo(pipe: Any) -> None:
    """Bare ZeroMQ: what comes goes back."""
    import zmq

    socket = zmq.Context().socket(zmq.ROUTER)
    for option in (zmq.SNDHWM, zmq.RCVHWM):
        socket.set(option, 0)
    pipe.send(f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}")
    while True:
        frames = socket.recv_multipart(copy=False)
        if len(frames[1]) == 0:
            return
        socket.send_multipart(frames, copy=False)


@contextmanager
def processes(target: Callable[..., None], arguments: list[tuple[Any, ...]]) -> Iterator[list[str]]:
    """Processes that tell an address each; they end when what is inside has told them to."""
    context = multiprocessing.get_context("spawn")
    started, pipes = [], []
    try:
        for one in arguments:
            mine, theirs = context.Pipe()
            process = context.Process(target=target, args=(*one, theirs), daemon=True)
            process.start()
            started.append(process)
            pipes.append(mine)
        yield [pipe.recv() for pipe in pipes]
        for process in started:
            process.join(20)
    finally:
        for process in started:
            process.kill()


def push_and_pull(rounds: int) -> dict[str, list[float]]:
    """Seconds of each round: ours over shared memory and over sockets, bare ZeroMQ."""
    import zmq

    value = np.random.default_rng(0).standard_normal(MEGABYTES * 250_000).astype(np.float32)
    found: dict[str, list[float]] = {"shm": [], "tcp": [], "zeromq": []}
    told = {way: [(index, SERVERS, way) for index in range(SERVERS)] for way in ("shm", "tcp")}
    with (
        processes(_serve, told["shm"]) as shm,
        processes(_serve, told["tcp"]) as tcp,
        processes(_echo, [()] * SERVERS) as bare,
    ):
        clients = {}
        for way, addresses in (("shm", shm), ("tcp", tcp)):
            clients[way] = Client(open_endpoint(f"trainer:{way}", transport=way, secret="benchmark"), addresses)
            clients[way].init({"w": value})
        sockets: list[Any] = []
        for address in bare:
            sockets.append(zmq.Context.instance().socket(zmq.DEALER))
            for option in (zmq.SNDHWM, zmq.RCVHWM):
                sockets[-1].set(option, 0)
            sockets[-1].connect(address)
        halves = np.split(value, SERVERS)
        for number in range(rounds + 2):
            for way, client in clients.items():
                began = time.perf_counter()
                client.pushpull({"w": value})
                _note(found[way], began, number)
            began = time.perf_counter()
            for socket, half in zip(sockets, halves, strict=True):
                socket.send(half.data, copy=False)
            for socket in sockets:
                np.frombuffer(socket.recv(copy=False).buffer, np.float32)
            _note(found["zeromq"], began, number)
        for client in clients.values():
            client.close()
        for socket in sockets:
            socket.send(b"")
            socket.close(1000)
    return found


def _note(times: list[float], began: float, number: int) -> None:
    if number >= 2:  # the first rounds make buffers
        times.append(time.perf_counter() - began)


def sparse_pull(rounds: int, rows: int = 10_000_000, asked: int = 100_000, dim: int = 16) -> dict[str, float]:
    """Rows a second: of a table alone, and through a client and two servers of another process each."""
    rng = np.random.default_rng(1)
    table = SparseTable(TableSpec(dim))
    for begin in range(0, rows, 500_000):
        table.pull(np.arange(begin, min(begin + 500_000, rows)))
    alone = []
    for _ in range(rounds):
        ids = rng.integers(0, rows, asked)
        began = time.perf_counter()
        table.pull(ids)
        alone.append(asked / (time.perf_counter() - began))
    held = table.nbytes / len(table)
    del table
    over = []
    with processes(_serve, [(index, SERVERS, "shm") for index in range(SERVERS)]) as addresses:
        client = Client(open_endpoint("trainer:0", transport="shm", secret="benchmark"), addresses)
        client.create_table("rows", TableSpec(dim))
        for begin in range(0, rows, 500_000):
            client.pull_rows({"rows": np.arange(begin, min(begin + 500_000, rows))})
        for _ in range(rounds):
            ids = rng.integers(0, rows, asked)
            began = time.perf_counter()
            client.pull_rows({"rows": ids})
            over.append(asked / (time.perf_counter() - began))
        client.close()
    return {"table": statistics.median(alone), "servers": statistics.median(over), "bytes a row": held}


def updates_a_second(seconds: float) -> dict[str, float]:
    """Gradients applied a second, by 4 trainers of which one is three times as slow, after a start of a second."""
    found = {}
    ways: dict[str, dict[str, Any]] = {
        "in step": {"mode": "sync"},
        "in step, 1 backup": {"mode": "sync", "backup": 1},
        "within 4 steps": {"mode": "ssp", "staleness": 4},
        "as it comes": {"mode": "async"},
    }
    for name, chosen in ways.items():
        network = Network()
        server = Server(network.endpoint("server:0"), optimizer=sgd, shards=4, **chosen)
        threads = [threading.Thread(target=_train_on, args=(network, rank)) for rank in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(1.0)
        began, before = time.perf_counter(), server.version
        time.sleep(seconds)
        steps, taken = server.version - before, time.perf_counter() - began
        found[name] = steps * (4 - chosen.get("backup", 0) if server.mode == "sync" else 1) / taken
        network.kill("server:0")
        for thread in threads:
            thread.join()
    return found


def _train_on(network: Network, rank: int) -> None:
    """A trainer that goes on until its server is gone."""

    def work(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        time.sleep(0.06 if shard == 3 else 0.02)
        return Gradients(0.0, {"w": np.zeros(4096, np.float32)})

    client = Client(network.endpoint(f"trainer:{rank}"), ["inproc://server:0"], rank=rank, patience=0.2)
    client.init({"w": np.zeros(4096, np.float32)})
    with suppress(DistributedError):
        Trainer(client, work).run(1_000_000)
    client.endpoint.close()


def bytes_of_a_push() -> dict[str, int]:
    """Bytes of a gradient of a million entries."""
    gradient = np.random.default_rng(2).standard_normal(1_000_000).astype(np.float32)
    ways: dict[str, Any] = {"top 1 %": TopK(0.01), "8 bits": EightBit()}
    return {"plain": gradient.nbytes} | {
        name: sum(part.nbytes for part in how.encode(gradient)) for name, how in ways.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, fewer rows; nothing is written")
    quick = parser.parse_args().quick
    times = push_and_pull(5 if quick else 21)
    median = {way: statistics.median(one) for way, one in times.items()}
    bare = times["zeromq"]
    ratios = {way: statistics.median(a / b for a, b in zip(times[way], bare, strict=True)) for way in ("shm", "tcp")}
    rows = sparse_pull(5, 1_000_000) if quick else sparse_pull(15)
    updates = updates_a_second(1.0 if quick else 4.0)
    sizes = bytes_of_a_push()
    lines = [
        f"Push and pull of {MEGABYTES} MB over {SERVERS} servers, each a process, SGD on them; medians of "
        f"{len(times['shm'])} rounds, in turns.",
        "",
        "| way | time | / bare ZeroMQ |",
        "|---|--:|--:|",
        *(f"| ours, {way} | {1e3 * median[way]:.0f} ms | **{ratios[way]:.2f}** |" for way in ("shm", "tcp")),
        f"| bare ZeroMQ, the same bytes | {1e3 * median['zeromq']:.0f} ms | |",
        "",
        f"Pulls of 100,000 rows of 16 numbers out of {'1,000,000' if quick else '10,000,000'}: "
        f"{rows['table'] / 1e6:.1f} million rows/s in a table, {rows['servers'] / 1e6:.2f} million rows/s through 2 "
        f"servers; {rows['bytes a row']:.0f} bytes held for a row, AdaGrad's among them.",
        "",
        "Gradients applied a second by 4 trainers, three of 20 ms a step and one of 60 ms:",
        "",
        "| mode | gradients/s |",
        "|---|--:|",
        *(f"| {name} | {value:.0f} |" for name, value in updates.items()),
        "",
        "A gradient of a million float32: " + ", ".join(f"{name} {size:,} bytes" for name, size in sizes.items()) + ".",
    ]
    print("\n".join(lines))
    if not quick:
        (RESULTS / "parameter_server.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        data = {"seconds": median, "ratios": ratios, "rows": rows, "updates": updates, "bytes": sizes}
        found = {"python": sys.version.split()[0], **data}
        (RESULTS / "parameter_server.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
