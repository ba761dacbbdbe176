"""What the ways to train a module on several ranks ask of it before they begin, and when they go on."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from internals.distributed import collectives
from internals.distributed.errors import MismatchError
from internals.distributed.group import Group
from internals.distributed.parallel.buckets import Named
from internals.nn import Module


def checked(caller: str, module: Any, group: Any, bucket_bytes: Any) -> list[Named]:
    """The parameters of a module that are trained, if it can be trained on several ranks.

    Raises
    ------
    TypeError, ValueError
        No module or group, no parameters, several devices, a size that is none.
    """
    if not isinstance(module, Module):
        raise TypeError(f"{caller}: expected a Module, got {type(module).__name__}")
    if not isinstance(group, Group):
        raise TypeError(f"{caller}: expected a Group, got {type(group).__name__}; make one with join or run_threads")
    if isinstance(bucket_bytes, bool) or not isinstance(bucket_bytes, int) or bucket_bytes < 1:
        raise ValueError(f"{caller}: bucket_bytes must be a positive number of bytes, got {bucket_bytes!r}")
    named = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    if not named:
        raise ValueError(f"{caller}: the module has no parameter that requires a gradient, so there is nothing to send")
    devices: dict[str, str] = {}
    for name, value in [*module.named_parameters(), *module.named_buffers()]:
        devices.setdefault(value.device.name, name)
    if len(devices) > 1:
        told = ", ".join(f"{name} on {where}" for where, name in devices.items())
        raise ValueError(f"{caller}: the module is on several devices ({told}); move it to one: module.to(...)")
    return named


def check_same(caller: str, named: list[Named], group: Group) -> None:
    """Let all ranks find out, before anything else is sent, whether their modules have the same parameters.

    Raises
    ------
    MismatchError
        On every rank; names a parameter that differs.
    """
    lines = [f"{name}: {parameter.dtype.name} {parameter.shape}" for name, parameter in named]
    text = "\n".join(lines).encode()
    sums = collectives.all_gather(np.array([zlib.crc32(text), len(lines)], np.int64), group=group)
    if (sums == sums[0]).all():
        return
    mine = np.frombuffer(text, np.uint8)
    texts = collectives.all_to_all([mine] * group.size, group=group)
    listed = [bytes(one).decode().split("\n") for one in texts]
    for rank, theirs in enumerate(listed):
        if theirs == listed[0]:
            continue
        place = next(i for i in range(len(theirs) + 1) if theirs[i : i + 1] != listed[0][i : i + 1])
        here, there = (lines[place] if place < len(lines) else "none" for lines in (listed[0], theirs))
        raise MismatchError(
            f"{caller}: the ranks' modules differ; parameter {place} is {here} on rank 0, and {there} on rank {rank}. "
            "Build the same module on every rank."
        )


def check_unchanged(caller: str, known: list[Named], leaves: list[Any], module: Module) -> None:
    """Refuse a module whose parameters are not those that were wrapped.

    Raises
    ------
    RuntimeError
        Names what was added, taken away, frozen or moved.
    """
    now = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    if len(now) == len(known) and all(
        one is other[1] and one.node is leaf for (_, one), other, leaf in zip(now, known, leaves, strict=True)
    ):
        return
    before, after = {name for name, _ in known}, {name for name, _ in now}
    if before != after:
        what = [f"no longer trained: {', '.join(sorted(before - after))}"] if before - after else []
        what += [f"new: {', '.join(sorted(after - before))}"] if after - before else []
    else:
        moved = [
            name for (name, one), other, leaf in zip(now, known, leaves, strict=True)
            if one is not other[1] or one.node is not leaf
        ]  # fmt: skip
        what = [f"replaced, cast or moved: {', '.join(moved) or 'the order'}"]
    raise RuntimeError(
        f"{caller}: the module's parameters are not those that were wrapped ({'; '.join(what)}). Change the module "
        "first, then wrap it."
    )


def on_the_cpu(caller: str, named: list[Named]) -> None:
    """Refuse parameters that can't lie in one flat array of the host."""
    for name, parameter in named:
        if parameter.device.name != "cpu":
            raise ValueError(f"{caller}: {name} is on {parameter.device}; shards are kept on the cpu: module.to('cpu')")
