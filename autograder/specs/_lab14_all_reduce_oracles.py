"""Who knows the answers of ``lab14_all_reduce``: torch and TensorFlow, on all ranks' arrays at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

Arrays = list[np.ndarray]
Conditions = dict[str, Any]

# --- chunks ---------------------------------------------------------------------------------------


def chunks_torch(torch: Any, n: int, p: int) -> list[list[int]]:
    parts = torch.arange(n).tensor_split(p)
    return _bounds([len(part) for part in parts])


def chunks_numpy(numpy: Any, n: int, p: int) -> list[list[int]]:
    return _bounds([n // p + (i < n % p) for i in range(p)])


def _bounds(sizes: list[int]) -> list[list[int]]:
    ends = np.cumsum([0, *sizes]).tolist()
    return [list(pair) for pair in pairwise(ends)]


# --- exchange -------------------------------------------------------------------------------------


def exchange_torch(torch: Any, values: Arrays, conditions: Conditions) -> Arrays:
    order = torch.arange(len(values)).roll(1).tolist()
    return [values[rank] for rank in order]


def exchange_tensorflow(tf: Any, values: Arrays, conditions: Conditions) -> Arrays:
    whole = tf.ragged.constant([value.tolist() for value in values], dtype=tf.float64, ragged_rank=1)
    rolled = tf.gather(whole, tf.roll(tf.range(len(values)), 1, 0))
    return [row.numpy() for row in rolled]


# --- reduce_scatter and all_reduce ------------------------------------------------------------------


def reduce_scatter_torch(torch: Any, values: Arrays, conditions: Conditions) -> Arrays:
    total = _sum_torch(torch, values)
    return [part.numpy() for part in total.tensor_split(len(values))]


def reduce_scatter_tensorflow(tf: Any, values: Arrays, conditions: Conditions) -> Arrays:
    n, p = len(values[0]), len(values)
    parts = tf.split(_sum_tensorflow(tf, values), [n // p + (i < n % p) for i in range(p)])
    return [part.numpy() for part in parts]


def all_reduce_torch(torch: Any, values: Arrays, conditions: Conditions) -> np.ndarray | dict[str, int]:
    if conditions.get("kill"):
        return {"lost": conditions["kill"][0]}  # without one rank there is no sum
    found: np.ndarray = _sum_torch(torch, values).numpy()
    return found


def all_reduce_tensorflow(tf: Any, values: Arrays, conditions: Conditions) -> np.ndarray | dict[str, int]:
    if conditions.get("kill"):
        return {"lost": conditions["kill"][0]}
    found: np.ndarray = _sum_tensorflow(tf, values).numpy()
    return found


def _sum_torch(torch: Any, values: Arrays) -> Any:
    """In double precision, whatever the ranks hold: an order of adding is not part of the answer."""
    return torch.from_numpy(np.stack(values).astype(np.float64)).sum(0)


def _sum_tensorflow(tf: Any, values: Arrays) -> Any:
    return tf.add_n([tf.constant(value.astype(np.float64)) for value in values])


# --- buckets --------------------------------------------------------------------------------------


def buckets_torch(torch: Any, gradients: list[Arrays], capacity: int, conditions: Conditions) -> dict[str, Any]:
    """DistributedDataParallel's own rule for buckets, on the parameters from last to first."""
    own = [torch.from_numpy(np.array(one)) for one in gradients[0]]
    last_first = own[::-1]
    groups: list[list[int]] = []
    if last_first:
        assign = torch._C._distributed_c10d._compute_bucket_assignment_by_size
        groups, _ = assign(last_first, [capacity])
    buckets = [[len(own) - 1 - k for k in group] for group in groups]
    means = [
        torch.stack([torch.from_numpy(np.array(rank[k])).double() for rank in gradients]).mean(0)
        for k in range(len(own))
    ]
    return {"averages": [mean.numpy() for mean in means], "buckets": buckets}


def buckets_tensorflow(tf: Any, gradients: list[Arrays], capacity: int, conditions: Conditions) -> dict[str, Any]:
    """The packs of TensorFlow's all-reduce, which are closed once they hold more than they are given."""
    from tensorflow.python.distribute import cross_device_utils

    own = gradients[0]
    last_first = [tf.constant(one) for one in own[::-1]]
    packs = cross_device_utils.group_by_size(last_first, capacity - 1) if last_first else []
    buckets, place = [], len(own)
    for pack in packs:
        buckets.append([place - 1 - k for k in range(len(pack))])
        place -= len(pack)
    means = [tf.reduce_mean(tf.stack([tf.cast(rank[k], tf.float64) for rank in gradients]), 0) for k in range(len(own))]
    return {"averages": [mean.numpy() for mean in means], "buckets": buckets}
