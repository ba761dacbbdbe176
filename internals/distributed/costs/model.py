"""The cost of a message: a fixed time, and a time for each byte (Hockney 1994).

Three things are added to it. What is sent is written where the other can read it, and what comes is copied to its place
or added to what is there: each has its time for a byte, as overhead and gap have in LogGP (Alexandrov et al. 1995). A
byte that no cache holds costs more than one that is still there from the last time. And processes that share cores slow
each other down: a round in which all send costs more than one message does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields


def _check(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value!r}; expected a number from 0 up")


@dataclass(frozen=True)
class PerByte:
    """Seconds for a byte, by the working set it is in: between two sizes, a line over the size's logarithm.

    Not by the message: a collective goes through the whole of its array, in messages of a part, and begins anew. So do
    the other processes, and the last cache is one for all of them. See `working_set`.

    Attributes
    ----------
    sizes : tuple of float
        Bytes that all processes go through, rising; below the first and above the last, those two count.
    seconds : tuple of float
        For a byte, in a working set of each size.
    """

    sizes: tuple[float, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(0 < a < b for a, b in zip(self.sizes, self.sizes[1:], strict=False))
        if not self.sizes or len(self.sizes) != len(self.seconds) or not rising or not self.sizes[0] > 0:
            raise ValueError(
                f"PerByte: sizes {self.sizes} and seconds {self.seconds}; expected as many, and sizes above 0 that rise"
            )
        for value in self.seconds:
            _check("PerByte: a byte", value)

    @classmethod
    def constant(cls, seconds: float) -> PerByte:
        """The same for every size."""
        return cls((1.0,), (seconds,))

    @classmethod
    def of(cls, measured: Mapping[float, float]) -> PerByte:
        """From seconds for a byte by bytes."""
        sizes = sorted(measured)
        return cls(tuple(sizes), tuple(max(0.0, measured[size]) for size in sizes))

    def __call__(self, nbytes: float) -> float:
        if nbytes <= self.sizes[0]:
            return self.seconds[0]
        for low, high, before, after in zip(
            self.sizes, self.sizes[1:], self.seconds, self.seconds[1:], strict=False
        ):  # fmt: skip
            if nbytes <= high:
                share = math.log(nbytes / low) / math.log(high / low)
                return before + share * (after - before)
        return self.seconds[-1]


NOTHING = PerByte.constant(0.0)


def working_set(array: float, message: float, processes: int) -> float:
    """Bytes that come again and again where each process has an array, and memory in which its messages are read."""
    return processes * (array + message)


@dataclass(frozen=True)
class Way:
    """What a message costs from before it is sent until it is where it belongs.

    Attributes
    ----------
    start : float
        α: seconds, however short it is.
    write, copy, add : PerByte
        β: to put it where the other side can read it, or on the network; there, to copy it to its place; or to add it
        to what is at its place.
    """

    start: float
    write: PerByte
    copy: PerByte = NOTHING
    add: PerByte = NOTHING

    def __post_init__(self) -> None:
        _check("Way: start", self.start)

    def rate(self, of: float) -> str:
        """``"4.2 GB/s"``: bytes of such a working set in a second, but for the start."""
        seconds = self.write(of) + self.copy(of)
        return f"{1e-9 / seconds:.3g} GB/s" if seconds else "no cost"


@dataclass(frozen=True)
class Costs:
    """Seconds, and seconds per byte.

    Attributes
    ----------
    alone : Way
        Of a message that is alone on its way, between two processes that do nothing else.
    together : Way
        Of a round in which every process sends one message and takes one.
    burst : float
        α of each further message, where a process sends several before it takes any.
    again : PerByte
        β of sending the same to each further process, or of taking from each further process, at once: what a link
        takes that each has one of; nothing, where they read one memory.
    own : PerByte
        β of copying what a process has to another place of its own, while all do.
    fresh : PerByte
        β of copying it to memory that was not there before: the system has to find the pages, and to clear them.
    call : float
        Of each collective, before its first message and after its last: what the program does besides sending, while
        all processes do it.
    turn : float
        The same of a collective in which one process works at a time, each after the one before it.
    processes : int
        How many were at work when it was measured; 0: each has a machine of its own, however many there are.
    """

    alone: Way
    together: Way
    burst: float = 0.0
    again: PerByte = NOTHING
    own: PerByte = NOTHING
    fresh: PerByte = NOTHING
    call: float = 0.0
    turn: float = 0.0
    processes: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, Way | PerByte):
                _check(f"Costs: {field.name}", value)

    @classmethod
    def of_network(cls, latency: float, bandwidth: float, *, addition: float = 0.0) -> Costs:
        """Of processes that each have a machine, and a link of their own into a network without bottlenecks.

        Parameters
        ----------
        latency : float
            Seconds.
        bandwidth : float
            Bytes per second.
        addition : float
            Seconds per byte that is added up.
        """
        if not bandwidth > 0:
            raise ValueError(f"Costs: a bandwidth of {bandwidth!r} bytes/s; expected more than 0")
        byte = PerByte.constant(1 / bandwidth)
        way = Way(latency, byte, add=PerByte.constant(addition))
        return cls(way, way, again=byte)

    def start(self, active: int, size: int) -> float:
        """α where `active` of `size` processes send at once: between one message alone and a round of all."""
        return _between(self.alone.start, self.together.start, active, size)

    def write(self, nbytes: float, active: int, size: int, *, of: float) -> float:
        """Seconds in which `active` of `size` processes, at once, write so much, of a working set of `of` bytes."""
        return nbytes * _between(self.alone.write(of), self.together.write(of), active, size)

    def take(self, nbytes: float, active: int, size: int, *, of: float, added: bool = False) -> float:
        """Seconds in which `active` of `size` processes, at once, copy what came to its place, or add it there."""
        one, all_ = (self.alone.add, self.together.add) if added else (self.alone.copy, self.together.copy)
        return nbytes * _between(one(of), all_(of), active, size)

    def __repr__(self) -> str:
        short, long = 1 << 18, 8 << 20
        ways = ", ".join(
            f"{name} {way.start * 1e6:.3g} µs + bytes at {way.rate(working_set(short, short, count))}, "
            f"at {way.rate(working_set(long, long, count))} in 8 MB"
            for name, way, count in (
                ("a message alone", self.alone, 2),
                ("in a round of all", self.together, self.processes or 1),
            )
        )
        return f"Costs({ways}; {self.processes or 'any number of'} processes)"


def _between(alone: float, together: float, active: int, size: int) -> float:
    if size <= 1:
        return 0.0
    return alone + (together - alone) * (min(active, size) - 1) / (size - 1)
