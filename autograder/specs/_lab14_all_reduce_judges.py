"""What is wrong with an answer of ``lab14_all_reduce``, in words. What came is not trusted: any plain data."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np

from autograder.spec import Inputs
from autograder.specs._ranks import Ended, not_returned, sends

SLACK = {"float64": 1e-9, "float32": 1e-4, "int64": 0.0}
"""How far a sum may be from the right one, measured by the sum of the magnitudes that are added."""


def _bounds(n: int, p: int) -> list[tuple[int, int]]:
    """The chunks as task 1 wants them."""
    return [(i * (n // p) + min(i, n % p), (i + 1) * (n // p) + min(i + 1, n % p)) for i in range(p)]


# --- chunks ---------------------------------------------------------------------------------------


def chunks(inputs: Inputs, got: Any, want: Any) -> list[str]:
    n, p = inputs["n"], inputs["p"]
    if got == want:
        return []
    if len(got) != p:
        return [
            f"chunk_bounds({n}, {p}) gave {len(got)} pairs; expected {p}, one for each rank, also where it is empty."
        ]
    if all(one == [start, stop - 1] for one, (start, stop) in zip(got, want, strict=True)):
        return ["`stop` is the index after the last element, as in a slice; these give the last element itself."]
    if [length for _, length in got] == [stop - start for start, stop in want]:
        return ["A pair holds where a chunk starts and where it stops; these hold a start and a length."]
    if any(stop < start for start, stop in got):
        bad = next(pair for pair in got if pair[1] < pair[0])
        return [f"The chunk {tuple(bad)} ends before it begins; an empty one has start equal to stop."]
    if got[0][0] != 0 or got[-1][1] != n or any(one[1] != other[0] for one, other in pairwise(got)):
        covered = sum(stop - start for start, stop in got)
        return [
            f"The chunks of {n} elements for {p} ranks have to follow each other from 0 to {n}; these are "
            f"{_pairs(got)}, {covered} elements in all. Where {n} is no multiple of {p}, the first "
            f"{n % p} of the chunks take one more."
        ]
    sizes = [stop - start for start, stop in got]
    if max(sizes) - min(sizes) > 1:
        return [
            f"The chunks have {sizes} elements; sizes may differ by one at most, or the ring waits for the largest. "
            "What is left over goes to the first chunks, one each."
        ]
    return [f"The larger chunks come first: expected {_pairs(want)}; chunk_bounds gave {_pairs(got)}."]


def _pairs(bounds: list[list[int]]) -> str:
    return ", ".join(str(tuple(pair)) for pair in bounds[:8])


# --- exchange -------------------------------------------------------------------------------------


def exchange(inputs: Inputs, got: Any, want: Any) -> list[str]:
    values, p = inputs["values"], len(inputs["values"])
    stopped = not_returned(got, p)
    if stopped:
        return stopped + _why_stuck(got)
    for rank, one in enumerate(got):
        result, right = one["value"]["result"], want[rank]
        if not np.array_equal(result, right):
            left = (rank - 1) % p
            whose = [other for other, value in enumerate(values) if np.array_equal(value, result)]
            what = f"the array of rank {whose[0]}" if whose else "an array that no rank has"
            return [f"Rank {rank} returned {what}; expected that of its left neighbour, rank {left} of {p}."]
        if not np.array_equal(one["value"]["own"], values[rank]):
            return [f"Rank {rank} changed the array that it was given."]
        if p > 1 and [to for to, _ in sends(one)] != [(rank + 1) % p]:
            return [
                f"Rank {rank} sent {len(sends(one))} messages, to {sorted({to for to, _ in sends(one)})}; one is "
                f"needed, to its right neighbour, rank {(rank + 1) % p}."
            ]
    return []


def _why_stuck(got: list[Ended]) -> list[str]:
    waits = [one.get("waits") for one in got]
    if all(wait == "send" for wait in waits):
        return [
            "All ranks send first, and a send without a buffer ends when the other side receives: nobody gets there. "
            "Let some ranks receive first."
        ]
    if all(wait == "receive" for wait in waits):
        return ["All ranks receive first, so that nothing is ever sent. Let some ranks send first."]
    return []


# --- reduce_scatter -------------------------------------------------------------------------------


def reduce_scatter(inputs: Inputs, got: Any, want: Any) -> list[str]:
    values, p, n = inputs["values"], len(inputs["values"]), len(inputs["values"][0])
    if stopped := not_returned(got, p):
        return stopped
    bounds = _bounds(n, p)
    for rank, one in enumerate(got):
        result, (start, stop) = one["value"]["result"], bounds[rank]
        if fault := _form(f"Rank {rank}", result, (stop - start,), values[0].dtype):
            held = [r for r in range(p) if _near(values, result, bounds[r])]
            if held and held != [rank]:
                return [f"Rank {rank} returned chunk {held[0]} of the sum; expected chunk {rank}, its own."]
            return [fault]
        if not _near(values, result, (start, stop)):
            held = [r for r in range(p) if r != rank and _near(values, result, bounds[r])]
            if held and stop > start:
                return [
                    f"Rank {rank} returned chunk {held[0]} of the sum; expected chunk {rank}, its own. In step s, "
                    "counted from 0, rank r sends chunk r - s - 1 and adds to chunk r - s - 2, both modulo p."
                ]
            return [f"Rank {rank}, chunk {rank}: {_contributions(values, result, (start, stop))}"]
    return _changed(inputs, got) or _traffic(got, values, rounds=1)


# --- all_reduce -----------------------------------------------------------------------------------


def all_reduce(inputs: Inputs, got: Any, want: Any) -> list[str]:
    values, p, n = inputs["values"], len(inputs["values"]), len(inputs["values"][0])
    if inputs["conditions"].get("kill"):
        return _after_a_death(inputs, got)
    if stopped := not_returned(got, p):
        return stopped
    for rank, one in enumerate(got):
        if fault := _form(f"Rank {rank}", one["value"]["result"], (n,), values[0].dtype):
            return [fault]
    results = [one["value"]["result"] for one in got]
    for rank, result in enumerate(results):
        if _near(values, result, (0, n)):
            continue
        for factor, words in ((p, "p times the sum"), (1 / p, "the sum divided by p: the mean")):
            if p > 1 and _near([value * factor for value in values], result, (0, n)):
                return [f"Rank {rank} returned {words}; expected the sum. Averaging is left to who calls it."]
        bad = next(
            c for c, (start, stop) in enumerate(_bounds(n, p)) if not _near(values, result[start:stop], (start, stop))
        )
        start, stop = _bounds(n, p)[bad]
        return [
            f"Rank {rank}, chunk {bad} (elements {start} to {stop - 1} of {n}): "
            + _contributions(values, result[start:stop], (start, stop))
        ]
    for rank, result in enumerate(results[1:], 1):
        if result.tobytes() != results[0].tobytes():
            where = int(np.flatnonzero(result != results[0])[0])
            return [
                f"Ranks 0 and {rank} differ in element {where}: {results[0][where]!r} and {result[where]!r}. "
                "Each chunk has to be added up once, and copied; added in another order, floating numbers give "
                "another last digit, and the models drift apart."
            ]
    return _changed(inputs, got) or _traffic(got, values, rounds=2)


def _after_a_death(inputs: Inputs, got: list[Ended]) -> list[str]:
    victim, p = inputs["conditions"]["kill"][0], len(inputs["values"])
    stopped = not_returned(got, p)
    if len(got) != p or "killed" not in got[victim]:
        # It returned, or waited, before it came to the step at which it is ended: few messages are what it costs, or
        # leave a sum that other cases find wrong.
        return stopped
    for rank, one in enumerate(got):
        if "value" in one and not _whole(inputs["values"], one["value"]["result"]):
            return [
                f"Rank {victim} died halfway, and rank {rank} returned an array as if nothing had happened: the sum "
                "lacks something. Let the PeerLost that receive and send raise go through."
            ]
        if "waits" in one or "runs" in one or "died" in one:
            return [f"Rank {victim} died. {sentence}" for sentence in stopped if "killed" not in sentence]
    return []


def _whole(values: list[np.ndarray], result: Any) -> bool:
    """Whether a rank has all of the sum after all, as it may where more than the chunks of a ring was sent."""
    return not _form("", result, values[0].shape, values[0].dtype) and _near(values, result, (0, len(values[0])))


# --- what both have in common -----------------------------------------------------------------------


def _form(who: str, result: Any, shape: tuple[int, ...], dtype: Any) -> str:
    if not isinstance(result, np.ndarray):
        return f"{who} returned {type(result).__name__}; expected an array."
    if result.shape != shape:
        return f"{who} returned an array of shape {result.shape}; expected {shape}."
    if result.dtype != dtype:
        return f"{who} returned {result.dtype}; expected {dtype}, as the arrays are."
    return ""


def _near(values: list[np.ndarray], result: np.ndarray, bounds: tuple[int, int], weights: Any = None) -> bool:
    """Whether `result` is a sum of the ranks' elements from start to stop, each rank's taken so many times."""
    part = np.stack(values)[:, bounds[0] : bounds[1]].astype(np.float64)
    if result.shape != part.shape[1:]:
        return False
    times = np.ones(len(values)) if weights is None else np.asarray(weights, float)
    allowed = SLACK[values[0].dtype.name if values[0].dtype.name in SLACK else "float64"]
    return bool((np.abs(result - times @ part) <= allowed * (np.abs(part).sum(0) + 1e-300)).all())


def _contributions(values: list[np.ndarray], result: np.ndarray, bounds: tuple[int, int]) -> str:
    """What was added up instead: which ranks lack, and which were added more than once."""
    p = len(values)
    for times in sorted(product(range(4), repeat=p), key=lambda counts: sum(abs(count - 1) for count in counts)):
        if _near(values, result, bounds, times):
            lacking = [str(rank) for rank, count in enumerate(times) if count == 0]
            more = [str(rank) for rank, count in enumerate(times) if count > 1]
            parts = [f"lacks what {_ranks(lacking)}"] if lacking else []
            parts += [f"has more than once what {_ranks(more)}"] if more else []
            return f"the sum {' and '.join(parts)}."
    came, right = result[:3].tolist(), np.stack(values)[:, bounds[0] : bounds[1]].sum(0)[:3].tolist()
    return f"it begins with {came}; expected {right}."


def _ranks(numbers: list[str]) -> str:
    return f"rank {numbers[0]} has" if len(numbers) == 1 else f"ranks {' and '.join(numbers)} have"


def _changed(inputs: Inputs, got: list[Ended]) -> list[str]:
    for rank, one in enumerate(got):
        if not np.array_equal(one["value"]["own"], inputs["values"][rank]):
            return [f"Rank {rank} changed the array that it was given; work on a copy."]
    return []


def _traffic(got: list[Ended], values: list[np.ndarray], rounds: int) -> list[str]:
    """A ring: each rank sends to its right neighbour only, one chunk in each of (p - 1) steps a round."""
    p, n, item = len(values), len(values[0]), values[0].itemsize
    for rank, one in enumerate(got):
        sent = sends(one)
        right = (rank + 1) % p
        if others := sorted({to for to, _ in sent} - {right}):
            return [
                f"Rank {rank} sent to rank {others[0]}; in a ring everything goes to the right neighbour, rank {right}."
            ]
        if len(sent) > rounds * (p - 1):
            return [f"Rank {rank} sent {len(sent)} messages; one in each of the {rounds * (p - 1)} steps is enough."]
    total = sum(size for one in got for _, size in sends(one))
    if total < rounds * (p - 1) * n * item:  # that there are more is what it costs
        return [
            f"All ranks together sent {total} bytes; a ring sends {rounds * (p - 1) * n * item}. In each step a rank "
            "sends one chunk to its right neighbour."
        ]
    return []


# --- buckets --------------------------------------------------------------------------------------


def buckets(inputs: Inputs, got: Any, want: Any) -> list[str]:
    gradients, p = inputs["gradients"], len(inputs["gradients"])
    if stopped := not_returned(got, p):
        return stopped
    for rank, one in enumerate(got):
        answer = one["value"]
        if fault := _buckets_given(rank, answer["given"], gradients[rank], inputs["capacity"], want["buckets"]):
            return [fault]
        averages = answer["averages"]
        if len(averages) != len(gradients[0]):
            return [f"Rank {rank} returned {len(averages)} arrays for {len(gradients[0])} parameters."]
        for k, (average, right) in enumerate(zip(averages, want["averages"], strict=True)):
            if fault := _average(average, np.asarray(right), gradients, k, p):
                return [f"Rank {rank}, parameter {k}: {fault}"]
        if any(not np.array_equal(own, given) for own, given in zip(answer["own"], gradients[rank], strict=True)):
            return [f"Rank {rank} changed the gradients that it was given; return new arrays."]
    return []


def _average(average: Any, right: np.ndarray, gradients: list[list[np.ndarray]], k: int, p: int) -> str:
    if average.shape != right.shape:
        return f"the average has shape {average.shape}; expected {right.shape}, that of the gradient."
    if average.dtype != gradients[0][k].dtype:
        return f"the average is {average.dtype}; expected {gradients[0][k].dtype}, as the gradient is."
    stacked = np.stack([np.abs(rank[k]) for rank in gradients]).sum(0)
    slack = SLACK[average.dtype.name if average.dtype.name in SLACK else "float64"] * (stacked + 1e-300)

    def near(other: Any) -> bool:
        return bool((np.abs(average - other) <= slack).all())

    if near(right):
        return ""
    if near(right * p):
        return "this is the sum; it has to be divided by the number of ranks."
    if near(right / p):
        return "it was divided by the number of ranks twice; average once, after the sum or before it."
    for other, one in enumerate(gradients[0]):
        mean = np.mean([rank[other] for rank in gradients], axis=0)
        if other != k and one.shape == average.shape and near(mean):
            return f"this is the average of parameter {other}; results go back in the order of registration."
    begins, expected = average.ravel()[:3].tolist(), right.ravel()[:3].tolist()
    return f"it begins with {begins}; expected {expected}. A bucket is cut apart where it was put together."


def _buckets_given(
    rank: int, given: list[np.ndarray], gradients: list[np.ndarray], capacity: int, buckets: list[list[int]]
) -> str:
    """Whether what was given to all_reduce are these buckets; they may have been divided already."""
    sizes = [sum(gradients[k].size for k in bucket) for bucket in buckets]
    came = [array.size for array in given]
    lead = f"Rank {rank} gave all_reduce arrays of {came} numbers; expected buckets of {sizes}"
    item = gradients[0].itemsize if gradients else 8
    if came == sizes:
        for array, bucket in zip(given, buckets, strict=True):
            flat = np.concatenate([gradients[k].ravel() for k in bucket])
            other = np.concatenate([gradients[k].ravel() for k in bucket[::-1]])
            if not _parallel(array, flat):
                if _parallel(array, other):
                    return (
                        f"Rank {rank}: the gradients inside a bucket go in the order in which backward gives them, "
                        f"parameters {bucket}, not the other way round."
                    )
                return (
                    f"Rank {rank}: a bucket of {len(flat)} numbers is to hold the gradients of parameters {bucket}, "
                    "flattened and laid end to end; it holds something else."
                )
        return ""
    if came == _sizes(gradients, capacity, backward=False):
        return (
            f"{lead}. These are buckets in the order of registration; backward reaches the last parameter first, so "
            "that the first bucket to be full is made of the last parameters."
        )
    if came == _sizes(gradients, capacity, backward=True, before=True):
        return (
            f"{lead}. A bucket takes gradients until it holds {capacity} bytes or more, {capacity // item} numbers "
            "here, and is closed then; it is not closed before a gradient that would not fit."
        )
    if came == [one.size for one in gradients[::-1]]:
        return f"{lead}. One call for each gradient pays the latency each time; that is what buckets are for."
    if sum(came) < sum(sizes):
        return f"{lead}. Some gradients are in no bucket: the last one may not be full, and is summed all the same."
    return f"{lead}. From the last parameter to the first, a bucket is closed once it holds {capacity} bytes or more."


def _parallel(array: np.ndarray, flat: np.ndarray) -> bool:
    """Whether they are the same up to a factor: the average may be taken before the sum."""
    if array.shape != flat.shape:
        return False
    norm = float(flat @ flat)
    factor = float(array @ flat) / norm if norm else 1.0
    return bool(
        np.allclose(array, factor * flat, rtol=1e-4, atol=1e-6 * (float(np.abs(flat).max(initial=0.0)) + 1e-300))
    )


def _sizes(gradients: list[np.ndarray], capacity: int, *, backward: bool, before: bool = False) -> list[int]:
    """How many numbers the buckets hold under another rule."""
    found: list[int] = []
    held = 0
    for one in gradients[::-1] if backward else gradients:
        if found and (held + one.nbytes <= capacity if before else held < capacity):
            found[-1] += one.size
            held += one.nbytes
        else:
            found.append(one.size)
            held = one.nbytes
    return found
