"""Who knows the answers of ``lab08_fold``: torch and TensorFlow, one example at a time, and a second way by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

# --- depth ----------------------------------------------------------------------------------------


def depth_sweeps(numpy: Any, inputs: list[list[int]]) -> list[int]:
    """Calls whose inputs are done take their turn, sweep after sweep."""
    users: list[list[int]] = [[] for _ in inputs]
    for i, read in enumerate(inputs):
        for k in set(read):
            users[k].append(i)
    left = [len(set(read)) for read in inputs]
    found = [0] * len(inputs)
    now, level = [i for i, count in enumerate(left) if not count], 0
    while now:
        later: list[int] = []
        for i in now:
            found[i] = level
            for user in users[i]:
                left[user] -= 1
                if not left[user]:
                    later.append(user)
        now, level = later, level + 1
    return found


def depth_torch(torch: Any, inputs: list[list[int]]) -> list[int]:
    """Longest ways, by relaxing all edges at once until nothing moves."""
    depth = torch.zeros(len(inputs), dtype=torch.long)
    edges = [(k, i) for i, read in enumerate(inputs) for k in read]
    if not edges:
        return depth.tolist()
    source, target = torch.tensor(edges).T
    while True:
        moved = depth.scatter_reduce(0, target, depth[source] + 1, "amax")
        if torch.equal(moved, depth):
            return depth.tolist()
        depth = moved


# --- groups ---------------------------------------------------------------------------------------


def groups_pairs(numpy: Any, calls: list[dict[str, Any]]) -> list[list[int]]:
    """Each call against the first of every group."""
    found: list[list[int]] = []
    for i, call in enumerate(calls):
        for group in found:
            if alike(calls[group[0]], call):
                group.append(i)
                break
        else:
            found.append([i])
    return found


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two calls can run together."""
    return bool(
        one["op"] == other["op"]
        and sorted(map(repr, one["attrs"])) == sorted(map(repr, other["attrs"]))
        and len(one["inputs"]) == len(other["inputs"])
        and all(x == y for x, y in zip(one["inputs"], other["inputs"], strict=True))
    )


def groups_torch(torch: Any, calls: list[dict[str, Any]]) -> list[list[int]]:
    """What torch can stack into one tensor is alike: inputs are made, and tried."""
    shared: dict[str, Any] = {}

    def made(one: list[Any]) -> Any:
        if one[0] == "shared":
            return shared.setdefault(one[1], object())
        return torch.zeros(one[1], dtype=getattr(torch, one[2]))

    def fits(x: Any, y: Any) -> bool:
        if not (torch.is_tensor(x) and torch.is_tensor(y)):
            return x is y
        try:
            return torch.stack([x, y]).dtype == x.dtype == y.dtype
        except RuntimeError:
            return False

    found: list[tuple[Any, list[Any], list[int]]] = []
    for i, call in enumerate(calls):
        inputs, key = [made(one) for one in call["inputs"]], (call["op"], dict(map(tuple, call["attrs"])))
        for other, values, group in found:
            if other == key and len(values) == len(inputs) and all(map(fits, values, inputs)):
                group.append(i)
                break
        else:
            found.append((key, inputs, [i]))
    return [group for _, _, group in found]


# --- schedule -------------------------------------------------------------------------------------
# Many schedules are right. What is asked for is how many batches the two well-known ways make of it; the larger number
# is allowed.


def schedule_rounds(numpy: Any, inputs: list[list[int]], signatures: list[str]) -> dict[str, int]:
    depths = depth_sweeps(numpy, inputs)
    return {"most": max(len(set(zip(depths, signatures, strict=True))), _agenda(inputs, signatures, depths))}


def _agenda(inputs: list[list[int]], signatures: list[str], depths: list[int]) -> int:
    """Neubig et al. 2017, section 3.2: of what is ready, the signature with the lowest average depth."""
    average = {
        kind: np.mean([depth for depth, other in zip(depths, signatures, strict=True) if other == kind])
        for kind in dict.fromkeys(signatures)
    }
    left = [len(set(read)) for read in inputs]
    users: list[list[int]] = [[] for _ in inputs]
    for i, read in enumerate(inputs):
        for k in set(read):
            users[k].append(i)
    ready = {i for i, count in enumerate(left) if not count}
    count = 0
    while ready:
        kind = min({signatures[i] for i in ready}, key=lambda one: (average[one], one))
        now = {i for i in ready if signatures[i] == kind}
        ready -= now
        count += 1
        for i in now:
            for user in users[i]:
                left[user] -= 1
                if not left[user]:
                    ready.add(user)
    return count


def schedule_torch(torch: Any, inputs: list[list[int]], signatures: list[str]) -> dict[str, int]:
    """The same two numbers with tensors: unique pairs, and rounds over a vector of what is left."""
    if not inputs:
        return {"most": 0}
    depth = torch.tensor(depth_torch(torch, inputs))
    names = sorted(set(signatures))
    kind = torch.tensor([names.index(one) for one in signatures])
    by_depth = len(torch.unique(torch.stack([depth, kind]), dim=1).T)
    pairs = sorted({(k, i) for i, read in enumerate(inputs) for k in read})
    edges = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2)
    left = torch.zeros(len(inputs), dtype=torch.long).index_add(
        0, edges[:, 1], torch.ones(len(edges), dtype=torch.long)
    )
    sums = torch.zeros(len(names), dtype=torch.float64).index_add(0, kind, depth.double())
    average = sums / torch.bincount(kind, minlength=len(names))
    users: dict[int, list[int]] = {}
    for k, i in edges.tolist():
        users.setdefault(k, []).append(i)
    ready: list[list[int]] = [[] for _ in names]
    for i in torch.nonzero(left == 0).flatten().tolist():
        ready[int(kind[i])].append(i)
    remaining, kinds = left.tolist(), kind.tolist()
    rank = sorted(range(len(names)), key=lambda one: (float(average[one]), one))
    count = 0
    while any(ready):
        now = next(one for one in rank if ready[one])
        batch, ready[now] = ready[now], []
        count += 1
        for i in batch:
            for user in users.get(i, ()):
                remaining[user] -= 1
                if not remaining[user]:
                    ready[kinds[user]].append(user)
    return {"most": max(by_depth, count)}


# --- gather ---------------------------------------------------------------------------------------


def gather_search(numpy: Any, batches: list[list[int]], inputs: list[list[int]], k: int) -> list[list[Any]]:
    answer = []
    for slot in range(len(inputs[batches[k][0]])):
        read = [inputs[call][slot] for call in batches[k]]
        blocks = [b for b, batch in enumerate(batches[:k]) if set(batch) & set(read)]
        rows = [[call for b in blocks for call in batches[b]].index(one) for one in read]
        whole = len(blocks) == 1 and rows == list(range(len(batches[blocks[0]])))
        answer.append([blocks, None if whole else rows])
    return answer


def gather_torch(torch: Any, batches: list[list[int]], inputs: list[list[int]], k: int) -> list[list[Any]]:
    """Every result is its call's number; rows are where those numbers stand in what torch concatenates."""
    results = [torch.tensor(batch) for batch in batches]
    answer = []
    for slot in range(len(inputs[batches[k][0]])):
        wanted = torch.tensor([inputs[call][slot] for call in batches[k]])
        blocks = [b for b in range(k) if bool(torch.isin(results[b], wanted).any())]
        found = torch.cat([results[b] for b in blocks])
        rows = (found[None, :] == wanted[:, None]).int().argmax(1)
        whole = len(blocks) == 1 and torch.equal(found[rows], found)
        answer.append([blocks, None if whole else rows.tolist()])
    return answer


# --- run: one call at a time ----------------------------------------------------------------------


def _launches(batches: list[list[int]], ops: list[str]) -> list[list[Any]]:
    return [[ops[batch[0]], len(batch)] for batch in batches if ops[batch[0]] != "value"]


def _one_by_one(
    inputs: list[list[int]], ops: list[str], values: list[Any], rows: dict[str, Any], dense: Any
) -> list[Any]:
    waiting = iter(values)
    found: list[Any] = []
    for op, read in zip(ops, inputs, strict=True):
        given: list[Any] = [found[k] for k in read]
        if op == "value":
            found.append(next(waiting))
        elif op.startswith("dense "):
            found.append(dense(*given, op.split()[1]))
        else:
            found.append(rows[op](*given))
    return found


def run_numpy(
    numpy: Any,
    batches: list[list[int]],
    inputs: list[list[int]],
    ops: list[str],
    values: list[np.ndarray],
    weights: dict[str, np.ndarray],
) -> dict[str, Any]:
    rows = {"sub": np.subtract, "mul": np.multiply, "tanh": np.tanh}
    found = _one_by_one(inputs, ops, values, rows, lambda x, y, name: np.tanh(np.concatenate([x, y]) @ weights[name]))
    return {"results": found, "launches": _launches(batches, ops)}


def run_torch(
    torch: Any,
    batches: list[list[int]],
    inputs: list[list[int]],
    ops: list[str],
    values: list[np.ndarray],
    weights: dict[str, np.ndarray],
) -> dict[str, Any]:
    held = {name: torch.tensor(np.array(array)) for name, array in weights.items()}
    rows = {"sub": torch.sub, "mul": torch.mul, "tanh": torch.tanh}
    found = _one_by_one(
        inputs,
        ops,
        [torch.tensor(np.array(value)) for value in values],
        rows,
        lambda x, y, name: torch.tanh(torch.cat([x, y]) @ held[name]),
    )
    return {"results": [one.numpy() for one in found], "launches": _launches(batches, ops)}


def run_tensorflow(
    tensorflow: Any,
    batches: list[list[int]],
    inputs: list[list[int]],
    ops: list[str],
    values: list[np.ndarray],
    weights: dict[str, np.ndarray],
) -> dict[str, Any]:
    tf = tensorflow
    rows = {"sub": tf.subtract, "mul": tf.multiply, "tanh": tf.tanh}
    found = _one_by_one(
        inputs,
        ops,
        [tf.constant(value) for value in values],
        rows,
        lambda x, y, name: tf.tanh(
            tf.linalg.matvec(tf.constant(weights[name]), tf.concat([x, y], 0), transpose_a=True)
        ),
    )
    return {"results": [one.numpy() for one in found], "launches": _launches(batches, ops)}
