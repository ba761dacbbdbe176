"""What data parallel training is tried on, on ours and on torch: the same weights and the same batches."""

from __future__ import annotations

import numpy as np

RANKS = 2
STEPS = 6
FEATURES, HIDDEN, CLASSES, SHARE = 5, 9, 3, 4
SETTINGS = ("plain", "adam", "accumulated", "unused", "normalised", "twice")
"""plain SGD with momentum; Adam; two backward passes a step, the first under no_sync; a branch that depends on the
rank and the step, and one that nobody takes; batch normalisation, whose buffers are sent; two losses from one
forward each, one backward."""


def weights() -> dict[str, np.ndarray]:
    """In torch's layout: (out, in)."""
    rng = np.random.default_rng(42)
    shapes = {"first": (HIDDEN, FEATURES), "left": (HIDDEN, HIDDEN), "right": (HIDDEN, HIDDEN), "never": (2, 2),
              "last": (CLASSES, HIDDEN)}  # fmt: skip
    drawn = {}
    for name, shape in shapes.items():
        drawn[f"{name}.weight"] = rng.uniform(-0.6, 0.6, shape).astype(np.float32)
        drawn[f"{name}.bias"] = rng.uniform(-0.6, 0.6, shape[0]).astype(np.float32)
    return drawn


def batch(step: int, rank: int, part: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A rank's share of a batch."""
    rng = np.random.default_rng([step, rank, part])
    x = rng.standard_normal((SHARE, FEATURES)).astype(np.float32)
    return x, rng.integers(0, CLASSES, SHARE)


def branch(setting: str, step: int, rank: int) -> str:
    """Which way a forward takes."""
    if setting != "unused":
        return "both"
    return ("left", "right", "both")[(step + rank) % 3]
