"""Where a computation enters the ranks and leaves them: operations in pairs, each the other's derivative.

``copied`` does nothing going forward and sums cotangents going back; ``summed`` sums going forward and does nothing
going back. They are f and g of Megatron-LM (Shoeybi et al. 2019, section 3). ``scattered`` and ``gathered`` are the
same for the last axis. What is outside such a pair is the same on every rank, its cotangents too.
"""

from __future__ import annotations

from typing import Any

from internals.autodiff import custom_vjp
from internals.distributed.collectives import all_gather, all_reduce
from internals.distributed.group import Group


@custom_vjp
def copied(x: Any, *, group: Group) -> tuple[Any, None]:
    """Give `x`, the same on all ranks, to computations that differ: the cotangents that come back are summed.

    Cost: nothing forward, one all-reduce of x's bytes backward.
    """
    return x, None


@custom_vjp
def summed(x: Any, *, group: Group) -> tuple[Any, None]:
    """The sum of all ranks' `x`, on all ranks.

    Cost: one all-reduce of x's bytes forward, nothing backward.
    """
    return all_reduce(_own(x), group=group), None


@copied.backward
def _copied_back(saved: None, cotangent: Any, *, group: Group) -> Any:
    return summed(cotangent, group=group)


@summed.backward
def _summed_back(saved: None, cotangent: Any, *, group: Group) -> Any:
    return copied(cotangent, group=group)


@custom_vjp
def scattered(x: Any, *, group: Group) -> tuple[Any, None]:
    """This rank's part of the last axis of `x`, which is the same on all ranks; an equal share for each."""
    return _own(x[..., _part(x.shape[-1], group)]), None


@custom_vjp
def gathered(x: Any, *, group: Group) -> tuple[Any, None]:
    """All ranks' `x`, one behind the other along the last axis, on all ranks."""
    parts = all_gather(x.detach(), group=group)  # (ranks, ..., n)
    whole = parts.transpose(*range(1, x.ndim), 0, x.ndim).reshape(*x.shape[:-1], group.size * x.shape[-1])
    return whole, None


@scattered.backward
def _scattered_back(saved: None, cotangent: Any, *, group: Group) -> Any:
    return gathered(cotangent, group=group)


@gathered.backward
def _gathered_back(saved: None, cotangent: Any, *, group: Group) -> Any:
    return scattered(cotangent, group=group)


for _linear in (copied, summed, scattered, gathered):  # linear, so that their tangents go the way they go

    @_linear.jvp
    def _pushed(saved: None, tangent: Any, *, group: Group, _of: Any = _linear) -> Any:
        return _of(tangent, group=group)


def _own(x: Any) -> Any:
    """A Tensor that may be written to."""
    return x.detach().clone()


def _part(size: int, group: Group) -> slice:
    if size % group.size:
        raise ValueError(
            f"scattered: a last axis of {size} can't be cut into {group.size} equal parts, one for each rank"
        )
    share = size // group.size
    return slice(group.rank * share, (group.rank + 1) * share)
