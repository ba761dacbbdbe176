"""The collectives, as they are called: every rank of a group calls the same one, with the same shape and dtype.

Each takes ``asynchronous=True``, which starts it and returns a `Work`; ``wait()`` gives the result. A group's
collectives are called from one thread of each rank, and done in the order of the calls.
An array that is not in one run of memory, or not on the host, is copied there and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.distributed.collectives import exchange, reductions, rooted
from internals.distributed.collectives.agreement import Call, communicator
from internals.distributed.collectives.operands import Operand, bounds, checked_rank, copy, operation
from internals.distributed.group import Group


def broadcast(array: Any, source: int = 0, *, group: Group, asynchronous: bool = False) -> Any:
    """Let every rank's array hold what the source's holds.

    Parameters
    ----------
    array : array or Tensor, any shape, the same on every rank
        Written to, except on the source.
    source : int
        A rank.

    Returns
    -------
    `array`, or a `Work`.

    Raises
    ------
    MismatchError
        Ranks called different collectives, or with other arguments; raised on every rank, and names what each called.
        A rank whose part was done may have returned already; its next call raises.
    PeerLost, DeadlineExceeded
        Name the rank that died, or that did not come.
    TypeError, ValueError
        No array, an array that can't be written to, no such rank. Raised before anything is sent.

    Notes
    -----
    A binomial tree. After any `DistributedError` the group's collectives are over, on all ranks, and the arrays
    undefined: the ranks no longer agree on what was sent. A new group can be made of those that live.
    """
    comm = communicator(group)
    source = checked_rank("broadcast", "source", source, group.size)
    operand = Operand("broadcast", array, written=group.rank != source)

    def body(call: Call) -> Any:
        with call.only_sending(group.rank == source):
            rooted.broadcast(call, operand.flat, source)
        return operand.give_back() if group.rank != source else array

    return comm.perform(f"broadcast({operand.spec}, source {source})", body, asynchronous)


def reduce(array: Any, target: int = 0, op: str = "sum", *, group: Group, asynchronous: bool = False) -> Any:
    """Combine all ranks' arrays into the target's.

    Parameters
    ----------
    array : array or Tensor, any shape, the same on every rank
        Written to on the target only.
    target : int
        A rank.
    op : str
        "sum", "mean", "max", "min" or "prod".

    Returns
    -------
    `array`, or a `Work`.

    Raises
    ------
    MismatchError, PeerLost, DeadlineExceeded, TypeError, ValueError
        See `broadcast`.
    """
    comm = communicator(group)
    target = checked_rank("reduce", "target", target, group.size)
    operand = Operand("reduce", array, written=group.rank == target)
    how = operation("reduce", op, operand.dtype, group.size)

    def body(call: Call) -> Any:
        flat = operand.flat if group.rank == target else operand.flat.copy()
        with call.only_sending(bool((group.rank - target) % group.size % 2)):  # the leaves of the tree
            rooted.reduce(call, flat, how, target)
        return operand.give_back() if group.rank == target else array

    return comm.perform(f"reduce({op}, {operand.spec}, target {target})", body, asynchronous)


def all_reduce(
    array: Any, op: str = "sum", *, group: Group, algorithm: str | None = None, asynchronous: bool = False
) -> Any:
    """Combine all ranks' arrays, and let each hold the result: the same bits on every rank.

    Parameters
    ----------
    array : array or Tensor, any shape, the same on every rank
        Written to.
    op : str
        "sum", "mean", "max", "min" or "prod".
    algorithm : str, optional
        "flat", "tree", "halving_doubling", "ring" or "pairwise"; by the size of the array where none is given.
        They add in different orders, so two of them may differ in the last bits.

    Returns
    -------
    `array`, or a `Work`.

    Raises
    ------
    MismatchError, PeerLost, DeadlineExceeded, TypeError, ValueError
        See `broadcast`.
    """
    comm = communicator(group)
    operand = Operand("all_reduce", array, written=True)
    how = operation("all_reduce", op, operand.dtype, group.size)
    name = algorithm or reductions.chosen(operand.flat.nbytes, group.size)
    if name not in reductions.ALGORITHMS:
        raise ValueError(
            f"all_reduce: there is no algorithm {name!r}; one of {', '.join(reductions.ALGORITHMS)}, or None to choose"
        )

    def body(call: Call) -> Any:
        if group.size > 1:
            reductions.ALGORITHMS[name](call, operand.flat, how)
        return operand.give_back()

    return comm.perform(f"all_reduce({op}, {operand.spec}, {name})", body, asynchronous)


def all_gather(array: Any, *, group: Group, into: Any = None, asynchronous: bool = False) -> Any:
    """Every rank's array on every rank.

    Parameters
    ----------
    array : array or Tensor, any shape, the same on every rank
        With `into`: the shape of this rank's part of it.
    into : array, optional
        Where the arrays go, one behind the other along its first axis: the way back from `reduce_scatter`.

    Returns
    -------
    array or Tensor, shape (size, *shape of array); `into`, where it is given; or a `Work`.

    Raises
    ------
    MismatchError, PeerLost, DeadlineExceeded, TypeError, ValueError
        See `broadcast`; ValueError also where `array` is not of the shape of its place in `into`.
    """
    comm = communicator(group)
    operand = Operand("all_gather", array)
    if into is None:
        whole = np.empty((group.size, operand.flat.size), operand.flat.dtype)
        chunks, target = list(whole), None
    else:
        target = Operand("all_gather", into, written=True)
        chunks = _rows("all_gather", target, group.size)
        _same_part(operand, target, group)
    spec = operand.spec if target is None else f"into {target.spec}"

    def body(call: Call) -> Any:
        if chunks[group.rank].ctypes.data != operand.flat.ctypes.data:  # else it is in its place
            copy(chunks[group.rank], operand.flat)
        reductions.pairwise_all_gather(call, chunks)
        return target.give_back() if target else operand.fresh(whole, (group.size, *operand.shape))

    return comm.perform(f"all_gather({spec})", body, asynchronous)


def reduce_scatter(array: Any, op: str = "sum", *, group: Group, asynchronous: bool = False) -> Any:
    """Combine all ranks' arrays, and leave each rank with its part of the result.

    Parameters
    ----------
    array : array or Tensor, shape (n, ...), the same on every rank
        Cut along the first axis, as even as can be: the first ``n % size`` ranks get one row more. Not written to.
    op : str
        "sum", "mean", "max", "min" or "prod".

    Returns
    -------
    array or Tensor, shape (n // size or one more, ...); or a `Work`.

    Raises
    ------
    MismatchError, PeerLost, DeadlineExceeded, TypeError, ValueError
        See `broadcast`.
    """
    comm = communicator(group)
    operand = Operand("reduce_scatter", array)
    how = operation("reduce_scatter", op, operand.dtype, group.size)
    chunks = _rows("reduce_scatter", operand, group.size)
    begin, end = bounds(operand.shape[0], group.size)[group.rank]

    def body(call: Call) -> Any:
        mine = chunks[group.rank].copy()
        chunks[group.rank] = mine
        reductions.pairwise_reduce_scatter(call, chunks, how)
        return operand.fresh(mine, (end - begin, *operand.shape[1:]))

    return comm.perform(f"reduce_scatter({op}, {operand.spec})", body, asynchronous)


def all_to_all(arrays: Sequence[Any], *, group: Group, asynchronous: bool = False) -> Any:
    """Send the i-th array to rank i, and receive what each rank has for this one.

    Parameters
    ----------
    arrays : sequence of arrays or Tensors, one for each rank
        Of one dtype, which is the same on every rank; shapes are each array's own.

    Returns
    -------
    list of arrays or Tensors, by the rank they came from; or a `Work`.

    Raises
    ------
    MismatchError, PeerLost, DeadlineExceeded, TypeError, ValueError
        See `broadcast`; ValueError also for another number of arrays than ranks, and for several dtypes.
    """
    comm = communicator(group)
    operands = _one_each("all_to_all", arrays, group.size)
    parts = [operand.flat.reshape(operand.shape) for operand in operands]

    def body(call: Call) -> Any:
        got = exchange.all_to_all(call, parts)
        return [operand.fresh(part, part.shape) for operand, part in zip(operands, got, strict=True)]

    return comm.perform(f"all_to_all({operands[0].dtype.name})", body, asynchronous)


def gather(array: Any, target: int = 0, *, group: Group, asynchronous: bool = False) -> Any:
    """Every rank's array on the target.

    Parameters
    ----------
    array : array or Tensor, any shape, the same on every rank
    target : int
        A rank.

    Returns
    -------
    list of arrays or Tensors by rank on the target, None elsewhere; or a `Work`.

    Raises
    ------
    MismatchError, PeerLost, DeadlineExceeded, TypeError, ValueError
        See `broadcast`.
    """
    comm = communicator(group)
    target = checked_rank("gather", "target", target, group.size)
    operand = Operand("gather", array)

    def body(call: Call) -> Any:
        with call.only_sending(group.rank != target):
            got = rooted.gather(call, operand.flat, target)
        return None if got is None else [operand.fresh(part, operand.shape) for part in got]

    return comm.perform(f"gather({operand.spec}, target {target})", body, asynchronous)


def scatter(
    array: Any, parts: Sequence[Any] | None = None, source: int = 0, *, group: Group, asynchronous: bool = False
) -> Any:
    """Let every rank's array hold its part of what the source has.

    Parameters
    ----------
    array : array or Tensor, any shape, the same on every rank
        Written to.
    parts : sequence of arrays or Tensors, one for each rank
        On the source; None elsewhere. Each of the shape and dtype of `array`.
    source : int
        A rank.

    Returns
    -------
    `array`, or a `Work`.

    Raises
    ------
    MismatchError, PeerLost, DeadlineExceeded, TypeError, ValueError
        See `broadcast`.
    """
    comm = communicator(group)
    source = checked_rank("scatter", "source", source, group.size)
    operand = Operand("scatter", array, written=True)
    flats: list[np.ndarray] | None = None
    if group.rank == source:
        operands = _one_each("scatter", parts, group.size)
        for rank, part in enumerate(operands):
            if part.spec != operand.spec:
                raise ValueError(f"scatter: the part for rank {rank} is {part.spec}; the array is {operand.spec}")
        flats = [part.flat for part in operands]
    elif parts is not None:
        raise ValueError(f"scatter: rank {group.rank} gives parts, and the source is rank {source}; pass None")

    def body(call: Call) -> Any:
        with call.only_sending(group.rank == source):
            rooted.scatter(call, flats, source, operand.flat)
        return operand.give_back()

    return comm.perform(f"scatter({operand.spec}, source {source})", body, asynchronous)


def barrier(*, group: Group, asynchronous: bool = False) -> Any:
    """Return when every rank of the group has called it.

    Raises
    ------
    MismatchError, PeerLost, DeadlineExceeded
        See `broadcast`.
    """
    return communicator(group).perform("barrier()", rooted.barrier, asynchronous)


def _rows(caller: str, operand: Operand, size: int) -> list[np.ndarray]:
    """An array cut along its first axis, each part flat."""
    if not operand.shape:
        raise ValueError(f"{caller}: a 0-d array can't be cut along its first axis; reshape(1)")
    row = operand.flat.size // operand.shape[0] if operand.shape[0] else 0
    return [operand.flat[begin * row : end * row] for begin, end in bounds(operand.shape[0], size)]


def _same_part(operand: Operand, target: Operand, group: Group) -> None:
    begin, end = bounds(target.shape[0], group.size)[group.rank]
    expected = (end - begin, *target.shape[1:])
    if operand.shape != expected or operand.dtype != target.dtype:
        raise ValueError(
            f"all_gather: rank {group.rank}'s part of {target.spec} is {target.dtype.name} {expected}, and the array "
            f"is {operand.spec}"
        )


def _one_each(caller: str, arrays: Any, size: int) -> list[Operand]:
    if isinstance(arrays, np.ndarray) or not isinstance(arrays, Sequence):
        raise TypeError(f"{caller}: expected a list of arrays, one for each rank, got {type(arrays).__name__}")
    if len(arrays) != size:
        raise ValueError(f"{caller}: {len(arrays)} arrays for {size} ranks; expected one for each")
    operands = [Operand(caller, array) for array in arrays]
    dtypes = {operand.dtype.name for operand in operands}
    if len(dtypes) > 1:
        raise ValueError(f"{caller}: arrays of {', '.join(sorted(dtypes))}; expected one dtype")
    return operands
