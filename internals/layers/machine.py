"""The gradient machine: a net's forward and backward pass over a batch, split among threads.

Each thread works on a share of the examples, with layers, Arguments and gradients of its own. Gradients are summed in
the order of the shares, whoever is ready first, so the result depends on the number of threads and not on their timing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import numpy as np

from internals.device import Array
from internals.layers.argument import Argument, Parameter
from internals.layers.layer import PARTS
from internals.layers.net import Net

Callback = Callable[[Parameter], None]


def shares(examples: int, threads: int) -> list[tuple[int, int]]:
    """Where each thread's examples begin and end: sizes differ by one at most, and no share is empty.

    Raises
    ------
    ValueError
        There are no examples, or no threads.
    """
    if examples < 1 or threads < 1:
        raise ValueError(f"shares: {examples} examples for {threads} threads; both must be at least 1.")
    count = min(examples, threads)
    size, longer = divmod(examples, count)
    ends = [size * (i + 1) + min(i + 1, longer) for i in range(count)]
    return list(zip([0, *ends[:-1]], ends, strict=True))


class GradientMachine:
    """Forward and backward passes of a net, over several threads.

    Parameters
    ----------
    net : Net
        Holds the parameters; their ``gradient`` is what a backward pass leaves.
    threads : int
        How many shares a batch is split into. With NumPy, threads gain where kernels let go of the interpreter, as
        matrix products do; set the BLAS library to one thread, or two schedulers will fight for the cores.
    seed : int
        Where dropout's masks come from: each step and each share has its own.

    Raises
    ------
    ValueError
        There is no thread.
    """

    def __init__(self, net: Net, *, threads: int = 1, seed: int = 0) -> None:
        if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
            raise ValueError(f"GradientMachine: threads must be a positive integer, got {threads!r}.")
        self.net, self.threads, self.seed, self.steps = net, threads, seed, 0
        self.replicas = [net.replica() for _ in range(threads)]
        self._idle: SimpleQueue[Net] = SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self.completion = _completion(net)
        """Parameters in the order in which a backward pass completes their gradients: known before any data is."""

    def forward(self, batch: Mapping[str, Any], *, test: bool = False) -> dict[str, Argument]:
        """The forward pass of a whole batch in this thread; what each layer gave."""
        self._seed([self.net])
        return self.net.forward(batch, test=test)

    def backward(self, callback: Callback | None = None) -> None:
        """The backward pass that belongs to the last `forward`."""
        for name in self.net.backward_steps():
            if callback is not None and not self.net.parameters[name].static:
                callback(self.net.parameters[name])
        self._absorb([self.net])

    def forward_backward(self, batch: Mapping[str, Any], callback: Callback | None = None) -> float:
        """Both passes, the batch split among the threads.

        Parameters
        ----------
        batch : mapping
            As for `Net.forward`.
        callback : callable, ``callback(parameter)``, optional
            Called once for each parameter as soon as its gradient is complete, while layers below are still at work;
            in the order of `completion`. It may update the value: no layer needs it any more.

        Returns
        -------
        float
            The loss over the whole batch. The net's arguments are those of `forward`, not of the shares.

        Raises
        ------
        RuntimeError
            The net has no cost.
        """
        if not self.net.costs:
            raise RuntimeError(f"net {self.net.name!r} has no cost layer, so there is nothing to go back from.")
        if callback is not None and not callable(callback):
            raise TypeError(f"forward_backward: callback must be a function of a parameter, got {callback!r}.")
        swapped = PARTS["forward_backward"]
        if swapped is not None:
            return self._by(swapped, batch, callback)
        fed = self.net.checked(batch)
        parts = shares(next(iter(fed.values())).examples, self.threads)
        working = self.replicas[: len(parts)]
        self._seed(working)
        portions = [{name: one.part(*part) for name, one in fed.items()} for part in parts]
        list(self._map(lambda i: working[i].forward(portions[i]), len(parts)))
        counts = [replica.counts() for replica in working]
        totals = {name: sum(count[name] for count in counts) for name in self.net.costs}
        weights = [{name: count[name] / totals[name] for name in totals} for count in counts]
        loss = 0.0
        for replica, weight in zip(working, weights, strict=True):
            for name in self.net.costs:
                value = replica.arguments[name].value
                loss += float(replica.device.to_host(value)[0]) * weight[name]
        self._backward(working, weights, callback)
        self._absorb(working)
        return loss

    def step(self, batch: Mapping[str, Any]) -> tuple[float, dict[str, Array]]:
        """The loss of a batch and the gradients by all parameters, in whichever thread calls: nothing is shared.

        Each call takes a replica that is not at work, and makes one if there is none.
        """
        with self._lock:
            replica = self.net.replica() if self._idle.empty() else self._idle.get()
        try:
            self._seed([replica])
            replica.forward(batch)
            loss = replica.loss()
            replica.backward()
            found = {
                name: parameter.gradient
                for name, parameter in replica.parameters.items()
                if parameter.gradient is not None
            }
        finally:
            self._idle.put(replica)
        return loss, found

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def __enter__(self) -> GradientMachine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _map(self, work: Callable[[int], Any], count: int) -> list[Any]:
        if count == 1:
            return [work(0)]
        waiting = [self._submit(work, i) for i in range(count)]
        return [future.result() for future in waiting]

    def _submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="gradient-machine")
        return self._pool.submit(work, *args)

    def _backward(self, working: list[Net], weights: list[dict[str, float]], callback: Callback | None) -> None:
        if len(working) == 1:
            for name in working[0].backward_steps(weights[0]):
                self._merge(name, working, callback)
            return
        news: SimpleQueue[str | BaseException] = SimpleQueue()

        def work(i: int) -> None:
            try:
                for name in working[i].backward_steps(weights[i]):
                    news.put(name)
            except BaseException as error:  # handed to the thread that waits
                news.put(error)
                raise

        waiting = [self._submit(work, i) for i in range(len(working))]
        done: Counter[str] = Counter()
        try:
            for name in self.completion:
                while done[name] < len(working):
                    item = news.get()
                    if isinstance(item, BaseException):
                        raise item
                    done[item] += 1
                self._merge(name, working, callback)
        finally:
            for future in waiting:
                future.exception()  # wait: a thread at work would meet the next batch

    def _merge(self, name: str, working: list[Net], callback: Callback | None) -> None:
        """Sum a parameter's gradients in the order of the shares."""
        parameter = self.net.parameters[name]
        total = working[0].parameters[name].gradient
        for replica in working[1:]:
            piece = replica.parameters[name].gradient
            total = piece if total is None else total if piece is None else total + piece
        parameter.gradient = total
        if callback is not None and not parameter.static:
            callback(parameter)

    def _by(self, run: Callable[..., Any], batch: Mapping[str, Any], callback: Callback | None) -> float:
        """Let a swapped-in function split, run and combine."""
        loss, gradients = run(self.step, dict(batch), self.threads)
        for name in self.completion:
            parameter = self.net.parameters[name]
            parameter.gradient = gradients.get(name)
            if callback is not None and not parameter.static:
                callback(parameter)
        return float(loss)

    def _seed(self, nets: list[Net]) -> None:
        with self._lock:
            self.steps += 1
            step = self.steps
        for i, net in enumerate(nets):
            for j, one in enumerate(net.layers):
                if one.settings_type in ("dropout", "recurrent_group"):
                    one.rng = np.random.default_rng([self.seed, step, i, j])

    def _absorb(self, working: list[Net]) -> None:
        """What layers have seen besides gradients, such as a batch's statistics, goes into the net's own."""
        for i, one in enumerate(self.net.layers):
            if hasattr(one, "absorb"):
                one.absorb([net.layers[i] for net in working])


def _completion(net: Net) -> list[str]:
    remaining = net.uses()
    found: list[str] = []
    for one in reversed(net.layers):
        for name in dict.fromkeys(parameter.name for parameter in one.parameters.values()):
            remaining[name] -= 1
            if not remaining[name]:
                found.append(name)
    return found


PARTS["forward_backward"] = None  # type: ignore[assignment]  # the machine's own way
