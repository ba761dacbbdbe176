"""Linear layers over ranks: the weight cut in columns, or in rows."""

from __future__ import annotations

import numpy as np

from internals import ops
from internals.distributed.group import Group
from internals.distributed.scale.tensor_parallel.conjugate import copied, gathered, scattered, summed
from internals.distributed.scale.tensor_parallel.parallel import Cut, Parallel, generator
from internals.nn import Linear
from internals.nn.module import parameter, tensors
from internals.tensor import Tensor


class ColumnParallelLinear(Parallel):
    """``x @ weight + bias`` where each rank has some of the columns of the weight, and computes those of the result.

    Parameters
    ----------
    in_features, out_features : int
        Of the whole; the ranks divide `out_features`.
    group : Group
    bias : bool
    gather_output : bool
        True: every rank gets the whole result, (..., out_features). False: its own columns of it.
    rng : numpy.random.Generator, optional
        In the same state on every rank. None: rank 0's seed is sent to the others.

    Raises
    ------
    ValueError
        `out_features` does not divide into equal parts.
    """

    cuts = {"weight": Cut(1), "bias": Cut(0)}

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        group: Group,
        bias: bool = True,
        gather_output: bool = True,
        rng: np.random.Generator | None = None,
    ) -> None:
        whole = Linear(in_features, out_features, bias=bias, rng=generator(group, rng))
        Cut(1).check("ColumnParallelLinear: out_features", out_features, group)
        self.group, self.gather_output = group, gather_output
        self.weight = parameter(Cut(1).part(whole.weight.detach().numpy(), group))
        self.bias = None if whole.bias is None else parameter(Cut(0).part(whole.bias.detach().numpy(), group))

    def forward(self, x: Tensor) -> Tensor:
        tensors("ColumnParallelLinear", x=x)
        _check_width("ColumnParallelLinear", x, self.weight.shape[0])
        out = ops.linear(copied(x, group=self.group), self.weight, 0.0 if self.bias is None else self.bias)
        return gathered(out, group=self.group) if self.gather_output else out

    def extra_repr(self) -> str:
        rows, columns = self.weight.shape
        return f"{rows}, {columns} of {columns * self.group.size}, rank {self.group.rank} of {self.group.size}"


class RowParallelLinear(Parallel):
    """``x @ weight + bias`` where each rank has some of the rows of the weight, and a term of the sum.

    Parameters
    ----------
    in_features, out_features : int
        Of the whole; the ranks divide `in_features`.
    group : Group
    bias : bool
        Whole on every rank, and added once, after the sum.
    split_input : bool
        True: x is whole on every rank. False: it is cut already, as a column-parallel layer leaves it.
    rng : numpy.random.Generator, optional
        As in ColumnParallelLinear.

    Raises
    ------
    ValueError
        `in_features` does not divide into equal parts.
    """

    cuts = {"weight": Cut(0)}

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        group: Group,
        bias: bool = True,
        split_input: bool = True,
        rng: np.random.Generator | None = None,
    ) -> None:
        whole = Linear(in_features, out_features, bias=bias, rng=generator(group, rng))
        Cut(0).check("RowParallelLinear: in_features", in_features, group)
        self.group, self.split_input = group, split_input
        self.weight = parameter(Cut(0).part(whole.weight.detach().numpy(), group))
        self.bias = None if whole.bias is None else parameter(whole.bias.detach().numpy())

    def forward(self, x: Tensor) -> Tensor:
        tensors("RowParallelLinear", x=x)
        rows = self.weight.shape[0]
        _check_width("RowParallelLinear", x, rows * self.group.size if self.split_input else rows)
        mine = scattered(x, group=self.group) if self.split_input else x
        out = summed(ops.linear(mine, self.weight, 0.0), group=self.group)
        return out if self.bias is None else out + self.bias

    def extra_repr(self) -> str:
        rows, columns = self.weight.shape
        return f"{rows} of {rows * self.group.size}, {columns}, rank {self.group.rank} of {self.group.size}"


def _check_width(module: str, x: Tensor, width: int) -> None:
    if x.ndim == 0 or x.shape[-1] != width:
        raise ValueError(f"{module}: an input of shape {x.shape} does not end in in_features = {width}.")
