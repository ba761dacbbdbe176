"""Prepackaged groups: functions that write several layers of a configuration (PaddlePaddle's ``networks``).

Each returns a list of layers as dicts; the last has the name that was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Layers = list[dict[str, Any]]


def _conv(name: str, bottom: str, channels: int, window: Any, settings: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "type": "conv", "bottom": bottom, "channels": channels, "window": window} | settings


def simple_img_conv_pool(
    name: str,
    bottom: str,
    *,
    channels: int,
    window: Any,
    pool: Any,
    act: str = "relu",
    pool_type: str = "max",
    **conv: Any,
) -> Layers:
    """A convolution with an activation, and pooling."""
    return [
        _conv(f"{name}.conv", bottom, channels, window, conv | {"act": act}),
        {"name": name, "type": "pool", "bottom": f"{name}.conv", "window": pool, "pool": pool_type},
    ]


def img_conv_bn_pool(
    name: str,
    bottom: str,
    *,
    channels: int,
    window: Any,
    pool: Any,
    act: str = "relu",
    pool_type: str = "max",
    **conv: Any,
) -> Layers:
    """A convolution without a bias, batch normalisation with an activation, and pooling."""
    return [
        _conv(f"{name}.conv", bottom, channels, window, conv | {"bias": False}),
        {"name": f"{name}.norm", "type": "batch_norm", "bottom": f"{name}.conv", "act": act},
        {"name": name, "type": "pool", "bottom": f"{name}.norm", "window": pool, "pool": pool_type},
    ]


def img_conv_group(
    name: str,
    bottom: str,
    *,
    channels: Sequence[int],
    window: Any = 3,
    padding: Any = 1,
    norm: bool = False,
    drop: float = 0.0,
    pool: Any = 2,
    act: str = "relu",
) -> Layers:
    """Several convolutions, each with batch normalisation and dropout if wanted, and one pooling: a block of VGG."""
    found: Layers = []
    below = bottom
    for i, count in enumerate(channels):
        one = f"{name}.conv{i}"
        found.append(
            _conv(one, below, count, window, {"padding": padding} | ({"bias": False} if norm else {"act": act}))
        )
        below = one
        if norm:
            found.append({"name": f"{name}.norm{i}", "type": "batch_norm", "bottom": below, "act": act})
            below = f"{name}.norm{i}"
        if drop:
            found.append({"name": f"{name}.drop{i}", "type": "dropout", "bottom": below, "p": drop})
            below = f"{name}.drop{i}"
    return [*found, {"name": name, "type": "pool", "bottom": below, "window": pool}]


def simple_lstm(name: str, bottom: str, *, size: int, reverse: bool = False) -> Layers:
    """A projection to the four gates, for all steps at once, and long short-term memory over them."""
    return [_gates(name, bottom, 4 * size), _over(name, "lstmemory", reverse)]


def _gates(name: str, bottom: str, size: int) -> dict[str, Any]:
    projection = [{"type": "full_matrix", "bottom": bottom}]
    return {"name": f"{name}.gates", "type": "mixed", "size": size, "projection": projection}


def _over(name: str, kind: str, reverse: bool) -> dict[str, Any]:
    return {"name": name, "type": kind, "bottom": f"{name}.gates", "reverse": reverse}


def simple_gru(name: str, bottom: str, *, size: int, reverse: bool = False) -> Layers:
    """A projection to the three gates, for all steps at once, and gated recurrent units over them."""
    return [_gates(name, bottom, 3 * size), _over(name, "grumemory", reverse)]


def simple_rnn(name: str, bottom: str, *, size: int, reverse: bool = False) -> Layers:
    """A projection for all steps at once, and ``h = tanh(x + W h)`` over them."""
    return [_gates(name, bottom, size), _over(name, "recurrent", reverse)]


def bidirectional_lstm(name: str, bottom: str, *, size: int) -> Layers:
    """Two long short-term memories, one from the beginning and one from the end, side by side at each step."""
    ways = [(f"{name}.forward", False), (f"{name}.backward", True)]
    found = [one for way, reverse in ways for one in simple_lstm(way, bottom, size=size, reverse=reverse)]
    return [*found, {"name": name, "type": "concat", "bottom": [way for way, _ in ways]}]


def embedding(name: str, bottom: str, *, size: int) -> Layers:
    """A row of numbers for each id."""
    return [{"name": name, "type": "mixed", "size": size, "projection": [{"type": "table", "bottom": bottom}]}]
