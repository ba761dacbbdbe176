"""The cost of a message: a fixed time, and a time for each byte (Hockney 1994).

Two things are added to it. What is received is written somewhere or added to something, and both cost time for each
byte. And processes that share cores slow each other down: a round in which all send costs more than one message does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Costs:
    """Seconds, and seconds per byte.

    Attributes
    ----------
    message : float
        α of a message that is alone on its way: from before it is sent until it is there.
    byte : float
        β of such a message: sent, received, and copied to where it belongs.
    round : float
        α of a round in which every process sends one message and takes one.
    burst : float
        α of each further message, where a process sends several before it takes any.
    copy : float
        β of a round: every process sends, takes and copies.
    add : float
        β of a round in which what comes is added to what is there; it holds γ, the cost of the addition.
    call : float
        Of each collective, before its first message and after its last: what the program does besides sending.
    processes : int
        How many were at work when it was measured; 0: each has a machine of its own, however many there are.
    """

    message: float
    byte: float
    round: float
    burst: float
    copy: float
    add: float
    call: float = 0.0
    processes: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"Costs: {field.name} is {value!r}; expected a number from 0 up")

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
        byte = 1 / bandwidth
        return cls(latency, byte, latency, 0.0, byte, byte + addition)

    def alpha(self, active: int, size: int) -> float:
        """α where `active` of `size` processes send at once: between one message alone and a round of all."""
        if size <= 1:
            return 0.0
        return self.message + (self.round - self.message) * (active - 1) / (size - 1)

    def beta(self, active: int, size: int, *, added: bool = False) -> float:
        """β where `active` of `size` processes send at once, and what comes is copied, or added."""
        if size <= 1:
            return 0.0
        copy = self.byte + (self.copy - self.byte) * (active - 1) / (size - 1)
        return max(0.0, copy + self.add - self.copy) if added else copy

    def __repr__(self) -> str:
        alone = f"one message {self.message * 1e6:.3g} µs + bytes at {_rate(self.byte)}"
        together = f"a round {self.round * 1e6:.3g} µs, copied at {_rate(self.copy)}, added at {_rate(self.add)}"
        return f"Costs({alone}; {together}; {self.processes or 'any number of'} processes)"


def _rate(seconds: float) -> str:
    return f"{1e-9 / seconds:.3g} GB/s" if seconds else "at no cost"
