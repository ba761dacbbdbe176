"""Attention with several heads, and the block that transformers repeat."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals import ops
from internals.nn.linear import Linear
from internals.nn.module import Module, parameter, positive, tensors
from internals.nn.normalise import Dropout, LayerNorm
from internals.tensor import Tensor


class MultiheadAttention(Module):
    """Several attentions side by side, each in a part of the features (Vaswani et al. 2017, 3.2.2).

    Parameters
    ----------
    embed_dim, num_heads : int
        Queries, keys and values are (batch, time, embed_dim); `num_heads` divides `embed_dim`.
    dropout : float
        Of the probabilities, in training.
    bias : bool
    rng : numpy.random.Generator, optional
        The weight of the three projections, (embed_dim, 3 * embed_dim), starts uniform as glorot_uniform has it, the
        biases zero, as in PyTorch. Weights are stored (in, out), as Linear's are.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        rng: np.random.Generator | None = None,
    ) -> None:
        positive("MultiheadAttention", embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise ValueError(f"MultiheadAttention: embed_dim {embed_dim} does not divide into {num_heads} heads.")
        self.num_heads = num_heads
        rng = rng or np.random.default_rng()
        bound = (6 / (4 * embed_dim)) ** 0.5
        self.in_proj_weight = parameter(rng.uniform(-bound, bound, (embed_dim, 3 * embed_dim)))
        self.in_proj_bias = parameter(np.zeros(3 * embed_dim)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, rng=rng)
        if self.out_proj.bias is not None:
            self.out_proj.bias.data[...] = 0
        self.dropout = Dropout(dropout, rng=rng)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        causal: bool = False,
        need_weights: bool = False,
    ) -> Any:
        """Attend to `key` and `value`, or to `query` itself.

        Parameters
        ----------
        query : Tensor, (batch, queries, embed_dim)
        key, value : Tensor, (batch, keys, embed_dim), optional
            `value` is `key` unless given.
        mask : Tensor, (queries, keys), (batch, queries, keys) or (batch, heads, queries, keys), optional
            Boolean, True where a query may see a key, as in Keras (torch.nn.MultiheadAttention means the opposite);
            or floating, added to the scores.
        key_padding_mask : Tensor of booleans, (batch, keys), optional
            True where there is a key.
        causal : bool
            A query sees the keys up to its own position.
        need_weights : bool
            Also give the probabilities, their mean over heads, (batch, queries, keys).

        Returns
        -------
        Tensor, (batch, queries, embed_dim); with `need_weights` a pair.
        """
        key = query if key is None else key
        value = key if value is None else value
        masks = {"mask": mask, "key_padding_mask": key_padding_mask}
        given = {name: one for name, one in masks.items() if one is not None}
        tensors("MultiheadAttention", query=query, key=key, value=value, **given)
        for name, one in (("query", query), ("key", key), ("value", value)):
            if one.ndim != 3 or one.shape[-1] != self.in_proj_weight.shape[0]:
                raise ValueError(
                    f"MultiheadAttention: the {name} has shape {one.shape}; expected (batch, time, "
                    f"{self.in_proj_weight.shape[0]})."
                )
        if not query.shape[0] == key.shape[0] == value.shape[0]:
            raise ValueError(
                f"MultiheadAttention: query {query.shape}, key {key.shape} and value {value.shape} differ in batch."
            )
        q, k, v = self._projected(query, key, value)
        mask = _together(mask, key_padding_mask, query, key)
        if need_weights or (self.training and self.dropout.p):
            p = _probabilities(q, k, mask, causal)
            heads = self.dropout(p) @ v
        else:
            p, heads = None, ops.attention(q, k, v, mask, causal=causal)
        joined = ops.reshape(ops.transpose(heads, axes=(0, 2, 1, 3)), shape=query.shape)
        out = self.out_proj(joined)
        return (out, ops.mean(p, axis=1)) if need_weights else out

    def _projected(self, *sources: Tensor) -> list[Tensor]:
        """Query, key and value of every head, (batch, heads, time, depth); one product does it for a single source."""
        weight, bias, width = self.in_proj_weight, self.in_proj_bias, self.in_proj_weight.shape[0]
        if sources[0] is sources[1] is sources[2]:
            batch, time, _ = sources[0].shape
            whole = ops.linear(sources[0], weight, 0.0 if bias is None else bias)
            parts = ops.reshape(whole, shape=(batch, time, 3, self.num_heads, width // self.num_heads))
            turned = ops.transpose(parts, axes=(2, 0, 3, 1, 4))
            return [turned[i] for i in range(3)]
        parts = []
        for i, source in enumerate(sources):
            columns = slice(i * width, (i + 1) * width)
            one = ops.linear(source, weight[:, columns], 0.0 if bias is None else bias[columns])
            shape = (*source.shape[:2], self.num_heads, width // self.num_heads)
            parts.append(ops.transpose(ops.reshape(one, shape=shape), axes=(0, 2, 1, 3)))
        return parts

    def extra_repr(self) -> str:
        return f"{self.in_proj_weight.shape[0]}, {self.num_heads}"

    def _shown_parts(self, parts: list[tuple[str, str]]) -> list[str]:
        return [f"dropout={self.dropout.p}"] if self.dropout.p else []


def _together(mask: Tensor | None, padding: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """Both masks as one that broadcasts to (batch, heads, queries, keys)."""
    batch, queries, keys = query.shape[0], query.shape[1], key.shape[1]
    if mask is not None:
        if mask.ndim not in (2, 3, 4) or mask.shape[-2:] != (queries, keys):
            raise ValueError(
                f"MultiheadAttention: the mask has shape {mask.shape}; expected ({queries}, {keys}), with the batch, "
                "or the batch and the heads, in front of it."
            )
        mask = ops.expand_dims(mask, axis=1) if mask.ndim == 3 else mask
    if padding is None:
        return mask
    if padding.shape != (batch, keys) or padding.dtype.kind != "b":
        raise ValueError(
            f"MultiheadAttention: the key padding mask is {padding.dtype} {padding.shape}; expected booleans, "
            f"{(batch, keys)}, True where there is a key."
        )
    padding = ops.reshape(padding, shape=(batch, 1, 1, keys))
    if mask is None:
        return padding
    if mask.dtype.kind == "b":
        return ops.logical_and(mask, padding)
    return ops.where(padding, mask, float("-inf"))


def _probabilities(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """What the fused row does not keep: attention to the identity matrix gives the probabilities themselves."""
    keys = k.shape[-2]
    return ops.attention(q, k, Tensor(np.eye(keys, dtype=k.dtype), device=k.device), mask, causal=causal)


ACTIVATIONS = {"relu": ops.relu, "gelu": ops.gelu, "gelu_tanh": ops.gelu_tanh, "silu": ops.silu, "tanh": ops.tanh}


class TransformerBlock(Module):
    """Self-attention, then two linear layers, each with a residual around it and a normalisation.

    torch.nn.TransformerEncoderLayer with batch_first=True, and its names.

    Parameters
    ----------
    d_model, num_heads : int
        x is (batch, time, d_model).
    d_ff : int, optional
        Width between the two linear layers; 4 * d_model unless given.
    dropout : float
        In training, of the probabilities, between the linear layers, and of what is added to the residuals.
    activation : str
        "relu", "gelu", "gelu_tanh", "silu" or "tanh".
    norm_first : bool
        Normalise what goes into each half (Xiong et al. 2020); with False, what comes out of each sum (Vaswani et al.
        2017).
    eps : float
    bias : bool
    rng : numpy.random.Generator, optional
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int | None = None,
        *,
        dropout: float = 0.0,
        activation: str = "relu",
        norm_first: bool = False,
        eps: float = 1e-5,
        bias: bool = True,
        rng: np.random.Generator | None = None,
    ) -> None:
        positive("TransformerBlock", d_model=d_model, num_heads=num_heads)
        d_ff = 4 * d_model if d_ff is None else d_ff
        positive("TransformerBlock", d_ff=d_ff)
        if activation not in ACTIVATIONS:
            raise ValueError(f"TransformerBlock: activation {activation!r} is not one of {', '.join(ACTIVATIONS)}.")
        rng = rng or np.random.default_rng()
        self.activation, self.norm_first = activation, norm_first
        self.self_attn = MultiheadAttention(d_model, num_heads, dropout=dropout, bias=bias, rng=rng)
        self.linear1 = Linear(d_model, d_ff, bias=bias, rng=rng)
        self.linear2 = Linear(d_ff, d_model, bias=bias, rng=rng)
        self.norm1, self.norm2 = (LayerNorm(d_model, eps=eps, bias=bias) for _ in range(2))
        self.dropout = Dropout(dropout, rng=rng)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        """x, (batch, time, d_model), changed; the masks are those of MultiheadAttention."""
        settings = {"mask": mask, "key_padding_mask": key_padding_mask, "causal": causal}
        if self.norm_first:
            x = x + self.dropout(self.self_attn(self.norm1(x), **settings))
            return x + self._linears(self.norm2(x))
        x = self.norm1(x + self.dropout(self.self_attn(x, **settings)))
        return self.norm2(x + self._linears(x))

    def _linears(self, x: Tensor) -> Tensor:
        inner = ACTIVATIONS[self.activation](self.linear1(x))
        return self.dropout(self.linear2(self.dropout(inner)))

    def extra_repr(self) -> str:
        order = ", norm_first=True" if self.norm_first else ""
        return f"{self.linear1.weight.shape[0]}, {self.self_attn.num_heads}, {self.activation}{order}"
