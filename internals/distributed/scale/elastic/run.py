"""The loop around an elastic training loop: form a group, train, and when the group ends, form another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from internals.distributed.collectives import all_reduce
from internals.distributed.errors import DistributedError
from internals.distributed.group import Group
from internals.distributed.scale.elastic.member import Finished, Member
from internals.distributed.scale.elastic.state import State
from internals.nn import Module
from internals.tensor import Tensor

Result = TypeVar("Result")

FRUITLESS = 5
"""Generations in a row that may end before a step is done; then the error is not a rank's death, but the program's."""


class Regroup(Exception):
    """This generation ends: somebody waits to be let in. Raised on all its ranks, after the same step."""


class Run:
    """What a training function is given: the state, and the group of this generation.

    Attributes
    ----------
    state : State
    group : Group
    generation : int
    """

    def __init__(self, member: Member, state: State, group: Group) -> None:
        self.state, self.group, self.generation = state, group, member.generation
        self._member = member

    def commit(self) -> None:
        """The step is done: keep the state, and let others in if somebody waits.

        Raises
        ------
        Regroup
            On all ranks; `run` catches it.
        DistributedError
            A rank has died; `run` catches it too.
        """
        self.state.step += 1
        self.state.keep()
        wait = np.array([self._member.others_wait], np.int32)
        if all_reduce(wait, "max", group=self.group)[0]:
            raise Regroup


def run(train: Callable[[Run], Result], state: State, member: Member | None = None) -> Result | None:
    """Train to the end, through the deaths and arrivals of ranks.

    Parameters
    ----------
    train : callable
        ``train(run)``: goes on from ``run.state.step`` with ``run.group``, and calls ``run.commit()`` after each step.
        It is called anew for each generation.
    state : State
        At its start, the same or not on all ranks: all begin with rank 0's.
    member : Member, optional
        None: one by the environment, as the launcher sets it.

    Returns
    -------
    What `train` returned; None for a member that came when the job was done already.

    Raises
    ------
    DistributedError
        Several generations in a row ended before they had done a step; or there are too few members.
    """
    member = member or Member()
    fruitless, before = 0, -1
    while True:
        try:
            group = member.regroup()
        except Finished:
            return _alone(train, state, member)
        try:
            state.share(group)
            result = train(Run(member, state, group))
        except Regroup:
            continue
        except DistributedError:
            fruitless = fruitless + 1 if state.kept == before else 0
            before = state.kept
            if fruitless >= FRUITLESS:
                raise
            continue
        member.finish()
        return result


def _alone(train: Callable[[Run], Result], state: State, member: Member) -> Result | None:
    """All steps are done here too, but the others have left before this one had heard of it; or it came too late."""
    if state.kept < 0:
        member.endpoint.close()
        return None
    state.take_back()
    group = Group(0, [member.endpoint.name], member.endpoint, member.deadline, tag="alone/")
    result = train(Run(member, state, group))
    member.endpoint.close()
    return result


def average_gradients(module: Module, group: Group, share: float) -> None:
    """Sum the gradients of all ranks, each weighed by its share of the batch, in one all-reduce.

    Parameters
    ----------
    share : float
        Of the batch: examples of this rank / examples of all. Then the sum is the gradient of the mean over the batch,
        however it was cut. A rank without examples has no gradients, and takes part with zeros.
    """
    parameters = [one for one in module.parameters() if one.requires_grad]
    if not parameters:
        return
    flat = np.concatenate(
        [
            np.zeros(one.size, one.dtype)
            if one.grad is None
            else one.grad.detach().numpy().reshape(-1) * one.dtype.type(share)
            for one in parameters
        ]
    )
    all_reduce(flat, group=group)
    place = 0
    for one in parameters:
        one.grad = Tensor(flat[place : place + one.size].reshape(one.shape))
        place += one.size
