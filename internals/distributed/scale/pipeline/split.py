"""Cutting a model into stages of about the same size."""

from __future__ import annotations

from collections.abc import Sequence

from internals.nn import Sequential


def split(model: Sequential, stages: int, *, costs: Sequence[float] | None = None) -> list[Sequential]:
    """Cut a Sequential into stages, in order, so that the most costly stage costs as little as can be.

    Parameters
    ----------
    model : Sequential
    stages : int
    costs : sequence of float, optional
        Of each part, in any unit: the seconds that it takes, best. Its number of parameters unless given.

    Raises
    ------
    ValueError
        Fewer parts than stages; costs that are not one for each part.
    """
    if not isinstance(model, Sequential):
        raise TypeError(f"split: expected a Sequential, got {type(model).__name__}; cut another model by hand")
    if not 1 <= stages <= len(model):
        raise ValueError(f"split: {len(model)} parts can't be cut into {stages} stages; expected 1 to {len(model)}")
    weights = [float(part.num_parameters()) for part in model] if costs is None else [float(one) for one in costs]
    if len(weights) != len(model) or min(weights) < 0:
        raise ValueError(f"split: costs {weights}; expected one for each of {len(model)} parts, none below 0")
    ends = [*_ends(weights, stages), len(model)]
    return [model[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def _ends(weights: Sequence[float], stages: int) -> list[int]:
    """Where each stage but the last ends, by dynamic programming over (parts, stages)."""
    count = len(weights)
    total = [0.0]
    for weight in weights:
        total.append(total[-1] + weight)
    best = [total[:]]
    cuts: list[list[int]] = []
    for stage in range(1, stages):
        row, cut = [float("inf")] * (count + 1), [0] * (count + 1)
        for end in range(stage + 1, count + 1):
            row[end], cut[end] = min(
                (max(best[-1][begin], total[end] - total[begin]), begin) for begin in range(stage, end)
            )
        best.append(row)
        cuts.append(cut)
    ends, end = [], count
    for cut in reversed(cuts):
        end = cut[end]
        ends.append(end)
    return ends[::-1]
