"""Everyone has something for everyone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from internals.distributed.collectives.agreement import Call
from internals.distributed.collectives.operands import copy


def all_to_all(call: Call, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Part `i` goes to rank `i`; what the ranks had for this one comes back. Shapes may all differ: they go first."""
    got: list[np.ndarray] = [parts[call.rank].copy() for _ in range(call.size)]
    for step in range(1, call.size):
        to, source = (call.rank + step) % call.size, (call.rank - step) % call.size
        call.send(to, np.array(parts[to].shape, np.int64))
        got[source] = np.empty(tuple(call.receive(source).tolist()), parts[to].dtype)
        call.swap(to, np.ascontiguousarray(parts[to]).reshape(-1), source, got[source].reshape(-1), copy)
    return got
