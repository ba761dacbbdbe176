"""What tracing costs, beside torch and TensorFlow: ``python -m benchmarks.tracing``.

- tracing a function of 1,000 operations, plan included; goal: 50 ms;
- a call of a traced function of one operation, arguments checked, state checked; goal: 20 us;
- the same chain of 1,000 operations, eagerly and traced, for each operation.

The best of several runs in processor time, as whatever else the machine does only adds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from internals import Tensor
from internals.trace import function


def chain(x: Any) -> Any:
    for _ in range(500):
        x = x * 1.0001 + 0.5
    return x


def best(run: Callable[[], Any], calls: int, rounds: int = 7) -> float:
    """Seconds for one call."""
    found = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(calls):
            run()
        found = min(found, (time.process_time() - began) / calls)
    return found


def main() -> None:
    import tensorflow as tf
    import torch

    x, theirs, tensor = Tensor(np.ones(4, np.float32)), torch.ones(4), tf.ones(4)

    def add(x: Any) -> Any:
        return x + 1.0

    print("tracing 1,000 operations, ms")
    print(f"  internals        {best(lambda: function(chain)(x), 1) * 1e3:8.1f}   (goal 50)")
    print(f"  torch.jit.trace  {best(lambda: torch.jit.trace(chain, (theirs,), check_trace=False), 1, 3) * 1e3:8.1f}")
    print(f"  tf.function      {best(lambda: tf.function(chain, autograph=False)(tensor), 1, 3) * 1e3:8.1f}")

    ours, compiled = function(add), torch.compile(add, backend="eager")
    scripted, graph = torch.jit.trace(add, (theirs,)), tf.function(add)
    print("one call of a traced x + 1, us")
    for name, run in (
        ("internals", lambda: ours(x)),
        ("torch.compile, backend eager", lambda: compiled(theirs)),
        ("torch.jit.trace", lambda: scripted(theirs)),
        ("tf.function", lambda: graph(tensor)),
    ):
        run()
        goal = "   (goal 20)" if name == "internals" else ""
        print(f"  {name:30}{best(run, 500) * 1e6:8.1f}{goal}")

    traced = function(chain)
    traced(x)
    print("one operation of the chain, us")
    for name, run in (("eager", lambda: chain(x)), ("traced", lambda: traced(x)), ("torch", lambda: chain(theirs))):
        print(f"  {name:30}{best(run, 5) * 1e3:8.2f}")


if __name__ == "__main__":
    main()
