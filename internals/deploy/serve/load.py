"""A load generator: ``python -m internals.deploy.serve.load URL [--clients N | --rate R] [--seconds S]``.

A *closed* loop has some clients, each of which sends its next request when it has the answer to the last: it never
asks for more than the server gives, so it measures throughput. An *open* loop sends at times of its own, with
exponential pauses, whatever the server does, as users do: it measures latency under load. There a request's time
counts from when it was due, not from when a connection was free for it; else a slow server would hide its own delay.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

Body = Callable[[int], bytes]
Check = Callable[[int, bytes], bool]
LOST = 0
"""The status of a request without an answer."""
FLOATS = ("DT_HALF", "DT_BFLOAT16", "DT_FLOAT", "DT_DOUBLE")


def nearest_rank(values: Sequence[float], share: float) -> float:
    """The value that a share of the others does not exceed; NaN if there is none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


@dataclass
class Report:
    """What came of a run.

    Attributes
    ----------
    statuses : Counter of int
        Answers by status; `LOST` is none at all.
    seconds : list of float
        Of the answers with status 200.
    wrong : int
        Answers with status 200 that the check did not pass.
    took : float
        Seconds of the run.
    errors : list of str
        Of requests that were lost, the first few.
    late : list of float
        Of each request, the seconds between when it was due and when it was sent: the generator's own delay. Where it
        shares its processors with the server, a part of what it reports is its own.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    wrong: int = 0
    took: float = 0.0
    errors: list[str] = field(default_factory=list)
    late: list[float] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Seconds within which a share of the answers came, by nearest rank; NaN if none did."""
        return nearest_rank(self.seconds, share)

    @property
    def throughput(self) -> float:
        """Answers a second."""
        return len(self.seconds) / self.took if self.took else float("nan")

    def __str__(self) -> str:
        told = ", ".join(f"{'lost' if k == LOST else k}: {v}" for k, v in sorted(self.statuses.items()))
        times = ", ".join(f"p{name} {1000 * self.percentile(float(name) / 100):.2f} ms" for name in ("50", "90", "99"))
        return f"{self.throughput:.0f} answers/s; {times}; {told or 'no requests'}; {self.wrong} wrong"


class Connection:
    """A connection that is kept open, and opened again when the server closed it."""

    def __init__(self, url: str, headers: dict[str, str] | None = None, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"load: {url!r} is no address; expected http://HOST:PORT/v1/models/NAME:predict.")
        self._host, self._port = parts.hostname, parts.port or 80
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._headers = "".join(f"{key}: {value}\r\n" for key, value in (headers or {}).items())
        self._timeout = timeout
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open it, unless it is.

        Raises
        ------
        OSError, TimeoutError
        """
        if self._streams is None:
            self._streams = await asyncio.wait_for(asyncio.open_connection(self._host, self._port), self._timeout)
        return self._streams

    async def send(self, body: bytes | None, kind: str = "application/json") -> tuple[int, bytes]:
        """Send a request, POST with a body and else GET; the status and the body of the answer.

        Raises
        ------
        OSError, EOFError, TimeoutError
            There was none.
        """
        reader, writer = await self.open()
        head = f"{'GET' if body is None else 'POST'} {self._target} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
        length = "" if body is None else f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        try:
            async with asyncio.timeout(self._timeout):
                writer.write((head + self._headers + length + "\r\n").encode() + (body or b""))
                lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
                content = await reader.readexactly(int(headers.get("content-length", 0)))
        except BaseException:
            self.close()
            raise
        if headers.get("connection") == "close":
            self.close()
        return int(lines[0].split(" ", 2)[1]), content

    def close(self) -> None:
        """Close it."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _one(
    connection: Connection, number: int, due: float, body: Body, kind: str, check: Check | None, to: Report
) -> None:
    data = body(number)
    to.late.append(time.perf_counter() - due)
    try:
        status, content = await connection.send(data, kind)
    except (OSError, EOFError, TimeoutError) as error:
        to.statuses[LOST] += 1
        if len(to.errors) < 10:
            to.errors.append(f"request {number}: {type(error).__name__}: {error}")
        return
    to.statuses[status] += 1
    if status == 200:
        to.seconds.append(time.perf_counter() - due)
        to.wrong += check is not None and not check(number, content)
    elif len(to.errors) < 10:
        to.errors.append(f"request {number}: {status} {content[:200]!r}")


async def closed_loop(
    url: str,
    body: Body,
    *,
    clients: int,
    seconds: float,
    check: Check | None = None,
    headers: Any = None,
    kind: str = "application/json",
) -> Report:
    """Some clients that each wait for their answers.

    Parameters
    ----------
    url : str
    body : callable of int
        The body of request number n; numbers begin at 0 and none is given twice.
    clients : int
    seconds : float
    check : callable of (int, bytes), optional
        Whether the answer to request number n is right.
    headers : dict of str to str, optional
    kind : str
        Of the bodies' content.
    """
    report, numbers = Report(), iter(range(2**62))
    began = time.perf_counter()

    async def client() -> None:
        connection = Connection(url, headers)
        while time.perf_counter() - began < seconds:
            await _one(connection, next(numbers), time.perf_counter(), body, kind, check, report)
        connection.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    report.took = time.perf_counter() - began
    return report


async def open_loop(
    url: str,
    body: Body,
    *,
    rate: float,
    seconds: float,
    check: Check | None = None,
    seed: int = 0,
    even: bool = False,
    connections: int = 0,
    headers: Any = None,
    kind: str = "application/json",
) -> Report:
    """Requests at random times, `rate` a second, whatever the server does; see `closed_loop`.

    Parameters
    ----------
    even : bool
        Equal pauses in place of random ones: what is late then is not late because requests came at once.
    connections : int
        How many are open when it begins, as between servers that know each other; where none is free, one more is
        opened, and the time for it is the request's.
    """
    report, free = Report(), [Connection(url, headers) for _ in range(connections)]
    for connection in free:
        await connection.open()
    began = time.perf_counter()

    async def request(number: int, due: float) -> None:
        connection = free.pop() if free else Connection(url, headers)
        await _one(connection, number, due, body, kind, check, report)
        free.append(connection)

    async with asyncio.TaskGroup() as group:
        for number, at in enumerate(_times(rate, seconds, seed, even)):
            await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
            group.create_task(request(number, began + at))
    report.took = time.perf_counter() - began
    for connection in free:
        connection.close()
    return report


def _times(rate: float, seconds: float, seed: int, even: bool) -> Iterator[float]:
    draw = random.Random(seed)
    at = 0.0
    while (at := at + (1 / rate if even else draw.expovariate(rate))) < seconds:
        yield at


async def random_body(url: str, rows: int = 1, seed: int = 0) -> bytes:
    """A body of random numbers that fits the model of an address, as its metadata describe it.

    Raises
    ------
    OSError, ValueError
    """
    status, content = await Connection(url.rpartition(":")[0] + "/metadata").send(None)
    if status != 200:
        raise ValueError(f"load: {url}: {content.decode(errors='replace')}")
    signatures = json.loads(content)["metadata"]["signature_def"]["signature_def"]
    name, signature = next(iter(signatures.items()))
    draw = random.Random(seed)

    def value(spec: Any, sizes: list[int]) -> Any:
        if sizes:
            return [value(spec, sizes[1:]) for _ in range(sizes[0])]
        return draw.gauss(0, 1) if spec["dtype"] in FLOATS else draw.randrange(2)

    given = {}
    for key, spec in signature["inputs"].items():
        sizes = [int(dim["size"]) for dim in spec["tensor_shape"]["dim"]]
        sizes = [rows if axis == 0 and n < 0 else max(n, 1) for axis, n in enumerate(sizes)]
        given[key] = value(spec, sizes)
    return json.dumps({"signature_name": name, "inputs": given}).encode()


async def _main(options: argparse.Namespace) -> Report:
    with_file = options.body is not None
    body = options.body.read() if with_file else await random_body(options.url, options.rows)
    if options.rate:
        return await open_loop(options.url, lambda n: body, rate=options.rate, seconds=options.seconds)
    return await closed_loop(options.url, lambda n: body, clients=options.clients, seconds=options.seconds)


def main() -> int:
    """Run it; the exit code is 1 if a request had no result."""
    parser = argparse.ArgumentParser("python -m internals.deploy.serve.load", description="A load generator.")
    parser.add_argument("url", help="http://HOST:PORT/v1/models/NAME:predict")
    parser.add_argument("--clients", type=int, default=8, help="of a closed loop (%(default)s)")
    parser.add_argument("--rate", type=float, help="requests a second of an open loop, in place of clients")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rows", type=int, default=1, help="of a random request (%(default)s)")
    parser.add_argument("--body", type=argparse.FileType("rb"), help="a file to send, in place of random numbers")
    options = parser.parse_args()
    try:
        report = asyncio.run(_main(options))
    except (OSError, ValueError) as error:
        print(f"load: {error}")
        return 2
    print(report)
    if options.rate:
        print(f"  of which the generator's own delay: p99 {1000 * nearest_rank(report.late, 0.99):.2f} ms")
    for line in report.errors:
        print(f"  {line}")
    return 0 if set(report.statuses) == {200} else 1


if __name__ == "__main__":
    raise SystemExit(main())
