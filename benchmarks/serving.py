"""The model server beside onnxruntime, and what batching gains: ``python -m benchmarks.serving [--quick]``.

A perceptron (784-256-10) as a saved model and as an ONNX file, served by one server with the same HTTP layer and the
same worker processes, and a wide one (784-4096-4096-10), whose batches are worth waiting for: for one row, nearly all
of its time goes into reading weights. Requests are safetensors bodies, so that JSON is no part of it. Rounds in turns,
medians.

- one client, one request after the other: the time of a request, ours / onnxruntime's;
- half load: p99 / p50, for requests at random times and at equal pauses, on 64 connections that are open. Random ones
  come in clusters, so even a server without any jitter has a tail: what queueing theory gives for one is computed
  beside. So is the load generator's own delay, since it shares the processors with the server. Half load is half of the
  most that 64 clients get; and, beside it, the rate at which the server's process is busy half of the time, as in that
  theory. At half of the most it would nearly always be busy, if each request went to the model as soon as it can:
  those that come one by one cost it two or three times what those cost that it finds waiting together. So where many
  come it lingers: a request waits for others, at most a millisecond. That rate is measured twice, as the server is by
  itself and with ``--linger-ms 0``;
- 1, 4 and 16 clients, each of which waits for its answer: answers a second by itself / with ``--linger-ms 0``, since
  lingering must not hold up those for whom it does nothing;
- 64 clients: answers a second with dynamic batching, and with a batch of 1, of the wide one and of the small one, for
  which HTTP takes longer than the model does.
"""

# ruff: noqa: E402 - BLAS reads its number of threads when it is loaded

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import asyncio
import gc
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from internals import ops
from internals.deploy import Signature, TensorSpec, save
from internals.deploy.onnx import export_onnx
from internals.deploy.serve.load import Connection, Report, closed_loop, nearest_rank, open_loop
from internals.nn.weights import array_bytes

RESULTS = Path(__file__).parent / "results"
KIND = "application/x-safetensors"
FEW = (1, 4, 16)
"""Clients of which each waits for its answer."""


def write_models(base: Path) -> None:
    """The same numbers twice: ``ours/1`` and ``onnx/1``; and ``wide/1``."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(784, 256)).astype("f"), rng.normal(size=(256, 10)).astype("f")

    def model(x: Any) -> Any:
        return ops.matmul(ops.relu(ops.matmul(x, first)), second)

    signatures = {"serve": Signature({"x": TensorSpec(("batch", 784))}, ("scores",), model)}
    save(base / "ours" / "1", model, signatures)
    sizes = [(784, 4096), (4096, 4096), (4096, 10)]
    wide = [(rng.normal(size=shape) / shape[0] ** 0.5).astype("f") for shape in sizes]

    def wider(x: Any) -> Any:
        return ops.matmul(ops.relu(ops.matmul(ops.relu(ops.matmul(x, wide[0])), wide[1])), wide[2])

    save(base / "wide" / "1", wider, {"serve": Signature({"x": TensorSpec(("batch", 784))}, ("scores",), wider)})
    (base / "onnx" / "1").mkdir(parents=True)
    export_onnx(base / "onnx" / "1" / "model.onnx", model, signatures)


@contextmanager
def serving(base: Path, *arguments: str) -> Iterator[tuple[str, psutil.Process]]:
    """A server in a process of its own; its address, and the process."""
    command = [sys.executable, "-m", "internals.deploy.serve", str(base), "--port", "0", "--quiet", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        port, loaded = 0, 0
        while not port or loaded < 3:
            about = json.loads(process.stderr.readline())
            port = about.get("port", port)
            loaded += about["event"] == "loaded"
        yield f"http://127.0.0.1:{port}/v1/models", psutil.Process(process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=60)


async def one_by_one(url: str, body: bytes, count: int) -> list[float]:
    """Seconds of each request of one client."""
    loop = asyncio.get_running_loop()
    connection, took = Connection(url), []
    for _ in range(count):
        began = loop.time()
        status, content = await connection.send(body, KIND)
        took.append(loop.time() - began)
        if status != 200:
            raise RuntimeError(f"{url}: {status} {content!r}")
    connection.close()
    return took


def checked(report: Report) -> Report:
    """A report in which every request has its answer."""
    if set(report.statuses) != {200}:
        raise RuntimeError(f"{report}: {report.errors}")
    return report


def without_jitter(load: float, count: int = 200_000) -> float:
    """p99 / p50 of one server whose requests take equally long and come at random times, by Lindley's recursion."""
    wait, times = 0.0, []
    for pause in np.random.default_rng(0).exponential(1 / load, count):
        wait = max(0.0, wait + 1.0 - float(pause))
        times.append(wait + 1.0)
    return nearest_rank(times, 0.99) / nearest_rank(times, 0.5)


@contextmanager
def busy(process: psutil.Process) -> Iterator[list[float]]:
    """The part of the time that a process, without its workers, is busy; it is there at the end."""
    share: list[float] = []
    began, before = time.perf_counter(), sum(process.cpu_times()[:2])
    yield share
    share.append((sum(process.cpu_times()[:2]) - before) / (time.perf_counter() - began))


def measured(base: Path, rounds: int, seconds: float) -> dict[str, Any]:
    """All figures."""
    body = array_bytes({"x": np.random.default_rng(1).normal(size=(1, 784)).astype("f")})
    found: dict[str, Any] = {}
    settings: dict[str, Any] = {"kind": KIND}
    with (
        serving(base, "--batch-size", "64") as (address, process),
        serving(base, "--batch-size", "64", "--linger-ms", "0") as (eager, hasty),
        serving(base, "--batch-size", "1") as (single, _),
    ):
        urls = {name: f"{address}/{name}:predict" for name in ("ours", "onnx")}
        for url in urls.values():
            asyncio.run(one_by_one(url, body, 50))
        times: dict[str, list[float]] = {name: [] for name in urls}
        for number in range(rounds):
            for name in list(urls)[:: 1 if number % 2 else -1]:
                times[name].append(statistics.median(asyncio.run(one_by_one(urls[name], body, 100))))
        found["one request, ms"] = {name: 1000 * statistics.median(one) for name, one in times.items()}
        pairs = zip(times["ours"], times["onnx"], strict=True)
        found["one request, ours / onnxruntime"] = statistics.median(a / b for a, b in pairs)
        for model in ("wide", "ours"):
            rates: dict[str, list[float]] = {"batches": [], "one at a time": []}
            for number in range(rounds):
                for name, at in [("batches", address), ("one at a time", single)][:: 1 if number % 2 else -1]:
                    loop = closed_loop(f"{at}/{model}:predict", lambda n: body, clients=64, seconds=seconds, **settings)
                    rates[name].append(checked(asyncio.run(loop)).throughput)
            found[f"{model}, answers/s, 64 clients"] = {name: statistics.median(one) for name, one in rates.items()}
            pairs = zip(rates["batches"], rates["one at a time"], strict=True)
            found[f"{model}, 64 clients, batches / one at a time"] = statistics.median(a / b for a, b in pairs)
        asyncio.run(one_by_one(f"{eager}/ours:predict", body, 50))
        for clients in FEW:
            shares = []
            for number in range(2 * rounds):
                got = {}
                for at in (address, eager)[:: 1 if number % 2 else -1]:
                    few = closed_loop(f"{at}/ours:predict", lambda n: body, clients=clients, seconds=0.5, **settings)
                    got[at] = checked(asyncio.run(few)).throughput
                shares.append(got[address] / got[eager])
            found[f"{clients} clients, by itself / at once"] = statistics.median(shares)
        half: dict[str, list[dict[str, float]]] = {}
        found["half load, refused"] = 0
        servers = {"by itself": (urls["ours"], process), "at once": (f"{eager}/ours:predict", hasty)}
        for seed in range(2 * rounds - 1):  # of all, the slowest percent is what is disturbed most
            loop = closed_loop(urls["ours"], lambda n: body, clients=64, seconds=seconds, **settings)
            most = checked(asyncio.run(loop)).throughput

            def loaded(name: str, rate: float, seconds: float, *, even: bool, seed: int = seed) -> dict[str, float]:
                url, running = servers[name]
                with busy(running) as share:
                    loop = open_loop(
                        url,
                        lambda n: body,
                        rate=rate,
                        seconds=seconds,
                        seed=seed,
                        even=even,
                        connections=64,
                        **settings,
                    )
                    report = asyncio.run(loop)
                found["half load, refused"] += report.statuses.total() - report.statuses[200]
                return {
                    "rate": rate,
                    "busy": share[0],
                    "p50": 1000 * report.percentile(0.5),
                    "p99": 1000 * report.percentile(0.99),
                    "late": 1000 * nearest_rank(report.late, 0.99),
                }

            busy_half = most / 5 * 0.5 / loaded("by itself", most / 5, seconds, even=True)["busy"]
            cases = [("half busy", "by itself", busy_half), *[("half", name, most / 2) for name in servers]]
            for (load, name, rate), even in itertools.product(cases, (True, False)):
                half.setdefault(f"{load}, {name}, {'even' if even else 'random'}", []).append(
                    loaded(name, rate, 2 * seconds, even=even)
                )
        for name, reports in half.items():
            # The round whose ratio is the middle one, so that all figures are of one and the same.
            middle = sorted(reports, key=lambda one: one["p99"] / one["p50"])[len(reports) // 2]
            found[f"{name}, ms"] = middle
            found[f"{name}, p99 / p50"] = middle["p99"] / middle["p50"]
        found["half load, p99 / p50 of a server without jitter"] = without_jitter(0.5)
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds; nothing is written")
    quick = parser.parse_args().quick
    gc.freeze()
    gc.disable()  # the generator's own pauses would count as the server's
    with tempfile.TemporaryDirectory() as base:
        write_models(Path(base))
        found = measured(Path(base), 3 if quick else 5, 0.5 if quick else 1.0)
    load = os.getloadavg()[0]
    ideal = found["half load, p99 / p50 of a server without jitter"]
    rows = [
        (
            "one request, ours / onnxruntime behind the same HTTP",
            found["one request, ours / onnxruntime"],
            "at most 1.2",
        ),
        ("p99 / p50 at half load, equal pauses", found["half, by itself, even, p99 / p50"], "at most 3"),
        (
            f"p99 / p50 at half load, random times (without jitter: {ideal:.1f})",
            found["half, by itself, random, p99 / p50"],
            "",
        ),
        (
            "p99 / p50, server busy half the time, equal pauses",
            found["half busy, by itself, even, p99 / p50"],
            "at most 3",
        ),
        ("p99 / p50, server busy half the time, random times", found["half busy, by itself, random, p99 / p50"], ""),
        ("p99 / p50 at half load, equal pauses, --linger-ms 0", found["half, at once, even, p99 / p50"], ""),
        ("p99 / p50 at half load, random times, --linger-ms 0", found["half, at once, random, p99 / p50"], ""),
        *(
            (
                f"{clients} client{'s' * (clients > 1)}: answers/s, by itself / --linger-ms 0",
                found[f"{clients} clients, by itself / at once"],
                "",
            )
            for clients in FEW
        ),
        ("64 clients, wide: batches / one at a time", found["wide, 64 clients, batches / one at a time"], "at least 3"),
        ("64 clients, small: batches / one at a time", found["ours, 64 clients, batches / one at a time"], ""),
    ]
    single = found["one request, ms"]
    lines = [
        f"Perceptrons behind HTTP, one worker process each, {os.cpu_count()} processors that the load generator shares;"
        f" load average at the end {load:.1f}; medians of rounds, in turns. `python -m benchmarks.serving`",
        "",
        "| what | ratio | aim |",
        "|---|--:|---|",
        *(f"| {name} | **{ratio:.2f}** | {aim} |" for name, ratio, aim in rows),
        "",
        f"One request: {single['ours']:.2f} ms, onnxruntime {single['onnx']:.2f} ms.",
    ]
    for case, name in itertools.product(
        ("half, by itself", "half, at once", "half busy, by itself"), ("even", "random")
    ):
        half = found[f"{case}, {name}, ms"]
        lines[-1] += (
            f" {case.capitalize()}, {name}: {half['rate']:.0f} requests/s, the server busy {half['busy']:.0%} of the "
            f"time; p50 {half['p50']:.2f} ms, p99 {half['p99']:.2f} ms, of which the generator's own delay "
            f"{half['late']:.2f} ms."
        )
    lines[-1] += f" {found['half load, refused']} refused."
    for name, called in (("wide", "784-4096-4096-10"), ("ours", "784-256-10")):
        rates = found[f"{name}, answers/s, 64 clients"]
        lines[-1] += (
            f" 64 clients of {called}: {rates['batches']:.0f} answers/s in batches, {rates['one at a time']:.0f} one "
            "by one."
        )
    lines += [
        "",
        "Batches pay most where the model takes longer than HTTP. For the small one the server's own process, which "
        "reads and writes HTTP, is what is full, and what batches save it are messages to its worker.",
    ]
    print("\n".join(lines))
    if not quick:
        (RESULTS / "serving.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (RESULTS / "serving.json").write_text(json.dumps({"load": load, **found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
