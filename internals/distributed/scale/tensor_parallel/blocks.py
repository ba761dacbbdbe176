"""The two halves of a transformer block over ranks: two matrices each, the first in columns, the second in rows.

Between the two nothing is sent: an element-wise function of some columns needs those columns only, and a head of
attention needs that head only. So each half costs one all-reduce forward and one backward (Shoeybi et al. 2019).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from internals import ops
from internals.distributed.group import Group
from internals.distributed.scale.tensor_parallel.conjugate import copied
from internals.distributed.scale.tensor_parallel.linear import ColumnParallelLinear, RowParallelLinear
from internals.distributed.scale.tensor_parallel.parallel import Cut, Parallel, generator
from internals.nn import LayerNorm, MultiheadAttention
from internals.nn.attention import ACTIVATIONS
from internals.nn.module import parameter, positive, tensors
from internals.tensor import Tensor


class ParallelMLP(Parallel):
    """Two linear layers with a function between them.

    Parameters
    ----------
    d_model, d_ff : int
        x is (..., d_model) and whole on every rank, and so is the result; the ranks divide `d_ff`.
    group : Group
    activation : str
        "relu", "gelu", "gelu_tanh", "silu" or "tanh".
    bias : bool
    rng : numpy.random.Generator, optional
        In the same state on every rank.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        group: Group,
        activation: str = "relu",
        bias: bool = True,
        rng: np.random.Generator | None = None,
    ) -> None:
        if activation not in ACTIVATIONS:
            raise ValueError(f"ParallelMLP: activation {activation!r} is not one of {', '.join(ACTIVATIONS)}.")
        rng = generator(group, rng)
        self.group, self.activation = group, activation
        self.linear1 = ColumnParallelLinear(d_model, d_ff, group=group, bias=bias, gather_output=False, rng=rng)
        self.linear2 = RowParallelLinear(d_ff, d_model, group=group, bias=bias, split_input=False, rng=rng)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(ACTIVATIONS[self.activation](self.linear1(x)))


class ParallelAttention(Parallel):
    """Self-attention whose heads are spread over the ranks.

    Parameters
    ----------
    embed_dim, num_heads : int
        x is (batch, time, embed_dim), whole on every rank, and so is the result; the ranks divide `num_heads`.
    group : Group
    bias : bool
    rng : numpy.random.Generator, optional
        In the same state on every rank.
    """

    cuts = {"in_proj_weight": Cut(1, fused=3), "in_proj_bias": Cut(0, fused=3)}

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        group: Group,
        bias: bool = True,
        rng: np.random.Generator | None = None,
    ) -> None:
        positive("ParallelAttention", embed_dim=embed_dim, num_heads=num_heads)
        if num_heads % group.size:
            raise ValueError(f"ParallelAttention: {num_heads} heads do not divide over {group.size} ranks.")
        whole = MultiheadAttention(embed_dim, num_heads, bias=bias, rng=generator(group, rng))
        self.group, self.num_heads = group, num_heads // group.size
        weight, offset = whole.in_proj_weight, whole.in_proj_bias
        self.in_proj_weight = parameter(self.cuts["in_proj_weight"].part(weight.detach().numpy(), group))
        self.in_proj_bias = (
            None if offset is None else parameter(self.cuts["in_proj_bias"].part(offset.detach().numpy(), group))
        )
        self.out_proj = RowParallelLinear(
            embed_dim, embed_dim, group=group, bias=bias, split_input=False, rng=np.random.default_rng(0)
        )
        self.out_proj.load_whole_state_dict(whole.out_proj.state_dict())

    def forward(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """x, (batch, time, embed_dim), attended to by itself; `mask` (time, time) as MultiheadAttention has it."""
        tensors("ParallelAttention", x=x)
        width = self.in_proj_weight.shape[0]
        if x.ndim != 3 or x.shape[-1] != width:
            raise ValueError(f"ParallelAttention: the input has shape {x.shape}; expected (batch, time, {width}).")
        batch, time, _ = x.shape
        bias: Any = 0.0 if self.in_proj_bias is None else self.in_proj_bias
        projected = ops.linear(copied(x, group=self.group), self.in_proj_weight, bias)
        depth = width // (self.num_heads * self.group.size)
        parts = ops.reshape(projected, shape=(batch, time, 3, self.num_heads, depth))
        turned = ops.transpose(parts, axes=(2, 0, 3, 1, 4))
        heads = ops.attention(turned[0], turned[1], turned[2], mask, causal=causal)
        joined = ops.reshape(ops.transpose(heads, axes=(0, 2, 1, 3)), shape=(batch, time, self.num_heads * depth))
        return self.out_proj(joined)

    def extra_repr(self) -> str:
        return f"{self.num_heads} of {self.num_heads * self.group.size} heads, rank {self.group.rank}"


class ParallelTransformerBlock(Parallel):
    """nn.TransformerBlock over ranks: attention by heads, the linear layers by columns and rows.

    The normalisations are whole on every rank: they see the same input and the same cotangents, so they stay the same.

    Parameters
    ----------
    d_model, num_heads, d_ff, activation, norm_first, eps, bias, rng
        Those of nn.TransformerBlock, without dropout, which would have to draw the same masks on all ranks.
    group : Group
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int | None = None,
        *,
        group: Group,
        activation: str = "relu",
        norm_first: bool = False,
        eps: float = 1e-5,
        bias: bool = True,
        rng: np.random.Generator | None = None,
    ) -> None:
        rng = generator(group, rng)
        if activation not in ACTIVATIONS:
            raise ValueError(f"ParallelTransformerBlock: {activation!r} is not one of {', '.join(ACTIVATIONS)}.")
        d_ff = 4 * d_model if d_ff is None else d_ff
        self.group, self.activation, self.norm_first = group, activation, norm_first
        self.self_attn = ParallelAttention(d_model, num_heads, group=group, bias=bias, rng=rng)
        self.linear1 = ColumnParallelLinear(d_model, d_ff, group=group, bias=bias, gather_output=False, rng=rng)
        self.linear2 = RowParallelLinear(d_ff, d_model, group=group, bias=bias, split_input=False, rng=rng)
        self.norm1, self.norm2 = (LayerNorm(d_model, eps=eps, bias=bias) for _ in range(2))

    def forward(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """x, (batch, time, d_model), whole on every rank, changed."""
        if self.norm_first:
            x = x + self.self_attn(self.norm1(x), mask=mask, causal=causal)
            return x + self._linears(self.norm2(x))
        x = self.norm1(x + self.self_attn(x, mask=mask, causal=causal))
        return self.norm2(x + self._linears(x))

    def _linears(self, x: Tensor) -> Tensor:
        return self.linear2(ACTIVATIONS[self.activation](self.linear1(x)))
