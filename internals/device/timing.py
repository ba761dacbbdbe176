"""How long a simulated accelerator takes: a clock that is counted, not waited for.

There are two times. The *host* hands kernels to the *queue* and runs ahead; the device works through the queue in
order. They meet when the host needs a value: a copy back waits until the queue is empty, and the host waits for the
copy. A third lane, *copy*, is the link between the two memories.

The model
---------
- Handing a kernel over takes the host `launch` seconds.
- A kernel starts when it was handed over, the one before it has ended and its inputs have arrived. It takes
  ``latency + max(bytes / bandwidth, operations / rate)``: whichever of memory and arithmetic is slower decides
  (the roofline of Williams, Waterman & Patterson 2009). Bytes are those of its inputs and results, each once.
- A copy takes ``transfer_latency + bytes / transfer_bandwidth``. It waits for the queue as a kernel does, and the
  host waits for it. A copy from pinned memory does neither: it runs beside the queue, and only kernels that read
  what it brings wait for it.
- At most `depth` kernels may wait; a host that is so far ahead stands still.

Time that Python spends between kernels is not in the model, so equal programs give equal times; `Clock.work` adds
some where it matters.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, fields
from typing import NamedTuple


@dataclass(frozen=True)
class Model:
    """The speeds of a simulated accelerator, in seconds, bytes/s and operations/s.

    The defaults are round numbers of the size of one data-centre GPU. Bandwidth and rate are those of NVIDIA's data
    sheet for the A100 40 GB: 1555 GB/s of memory, 19.5 TFLOP/s in float32. It is attached by PCIe 4.0 x16, 32 GB/s in
    theory, of which about 25 are reached. A launch costs the host some 5 µs and a copy some 10 µs to set up; both can
    be measured with an empty kernel and a copy of one byte.
    """

    launch: float = 5e-6
    latency: float = 2e-6
    bandwidth: float = 1555e9
    rate: float = 19.5e12
    transfer_latency: float = 10e-6
    transfer_bandwidth: float = 25e9
    depth: int = 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            slow = field.name in ("launch", "latency", "transfer_latency")
            if isinstance(value, bool) or not isinstance(value, int | float) or not (value >= 0 if slow else value > 0):
                raise ValueError(
                    f"Model: {field.name} is {value!r}; expected a number {'not below' if slow else 'above'} 0."
                )
        if not isinstance(self.depth, int):
            raise ValueError(f"Model: depth is {self.depth!r}; expected a whole number of kernels.")

    def kernel_seconds(self, nbytes: int, operations: float) -> float:
        return self.latency + max(nbytes / self.bandwidth, operations / self.rate)

    def copy_seconds(self, nbytes: int) -> float:
        return self.transfer_latency + nbytes / self.transfer_bandwidth


class Event(NamedTuple):
    """Something that took from `start` to `end`, in seconds on the simulated clock.

    `lane` is ``"host"`` (launching, waiting, working), ``"queue"`` (kernels) or ``"copy"`` (transfers).
    """

    what: str
    lane: str
    start: float
    end: float


class Clock:
    """The two times of an accelerator, and what happened when.

    Attributes
    ----------
    now : float
        Where the host is.
    queue_end : float
        When the last kernel that was handed over will have ended.
    copy_end : float
        When the last transfer will have ended.
    events : deque of Event
        The last 65,536.
    """

    def __init__(self, model: Model | None = None) -> None:
        self.model = Model() if model is None else model
        self.now = self.queue_end = self.copy_end = 0.0
        self.events: deque[Event] = deque(maxlen=2**16)
        self._waiting: deque[float] = deque()
        self._lock = threading.RLock()

    def launch(self, what: str, nbytes: int, operations: float, inputs_ready: float = 0.0) -> float:
        """Hand over a kernel; when it will have ended."""
        waiting = self._waiting
        with self._lock:
            while waiting and waiting[0] <= self.now:
                waiting.popleft()
            if len(waiting) >= self.model.depth:
                self._wait("the queue is full", waiting.popleft())
            self.work(f"launch {what}", self.model.launch)
            start = max(self.now, self.queue_end, inputs_ready)
            self.queue_end = start + self.model.kernel_seconds(nbytes, operations)
            waiting.append(self.queue_end)
            self.events.append(Event(what, "queue", start, self.queue_end))
            return self.queue_end

    def copy(self, what: str, nbytes: int, *, pinned: bool = False) -> float:
        """Move bytes between host and device; when they will have arrived."""
        with self._lock:
            if pinned:
                self.work(f"launch {what}", self.model.launch)
                start = max(self.now, self.copy_end)
            else:
                start = max(self.now, self.queue_end, self.copy_end)
            self.copy_end = start + self.model.copy_seconds(nbytes)
            self.events.append(Event(what, "copy", start, self.copy_end))
            if not pinned:
                self._wait(f"wait for {what}", self.copy_end)
            return self.copy_end

    def work(self, what: str, seconds: float) -> None:
        """Let the host do something for a while."""
        if not seconds >= 0:
            raise ValueError(f"work: {what!r} takes {seconds!r} seconds; expected a number not below 0.")
        with self._lock:
            self.events.append(Event(what, "host", self.now, self.now + seconds))
            self.now += seconds

    def synchronise(self) -> float:
        """Let the host wait until nothing is left to do; what time it is then."""
        with self._lock:
            self._wait("synchronise", max(self.queue_end, self.copy_end))
            return self.now

    def _wait(self, what: str, until: float) -> None:
        if until > self.now:
            self.events.append(Event(what, "host", self.now, until))
            self.now = until
