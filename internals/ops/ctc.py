"""Connectionist temporal classification: the loss of a sequence of labels whose places in time are not known.

Every path of labels and blanks that reads as the target counts. Their sum grows from the front (alpha) and the back
(beta), in logarithms; the two together say how likely the path is to be at a label at a time. Both are written with
operations, so the rule that uses them can itself be differentiated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from internals.ops.arrange import pad
from internals.ops.elementwise import cast, exp, maximum, where
from internals.ops.index import gather, scatter_add
from internals.ops.loss import log_softmax, reduced_spec, softmax
from internals.ops.reduce import logsumexp, mean, share, sum
from internals.ops.scan import cumsum
from internals.ops.shape import broadcast_to, concat, expand_dims, reshape, stack
from internals.ops.spec import Spec
from internals.ops.table import row

NEVER = float("-inf")
"""The logarithm of the probability 0."""


class _Lattice:
    """Where a path may be: at each time at one of S = 2 L + 1 states, the labels with a blank around each.

    Attributes
    ----------
    states : (N, S), the class of each state
    first, last : (N, S), whether a path may begin and end there
    skips : (N, S), the logarithm of 1 where the state may follow the one before the last, which two equal labels and a
        blank may not
    frames : (N, 1), how many times there are
    """

    def __init__(self, targets: Any, frames: Any, labels: Any, blank: int, dtype: Any) -> None:
        n, length = targets.shape
        labels, self.frames = expand_dims(labels, axis=1), expand_dims(frames, axis=1)
        targets = where(_counted(targets) < labels, targets, blank)
        blanks = targets * 0 + blank
        pairs = reshape(stack([blanks, targets], axis=2), shape=(n, 2 * length))
        self.states = concat([pairs, expand_dims(frames * 0 + blank, axis=1)], axis=1)
        self.zeros = cast(self.states * 0, dtype=dtype)
        place = _counted(self.states)
        self.first = (place == 0) | ((place == 1) & (labels > 0))
        self.last = (place == 2 * labels) | (place == 2 * labels - 1)
        before = pad(self.states, width=((0, 0), (2, 0)), value=blank)[:, :-2]
        self.skips = where((self.states != blank) & (self.states != before), self.zeros, NEVER)

    def emissions(self, log_p: Any) -> Any:
        """The log-probability of each state at each time, (T, N, S)."""
        return gather(log_p, self.index(log_p), axis=2)

    def index(self, log_p: Any) -> Any:
        return broadcast_to(expand_dims(self.states, axis=0), shape=(log_p.shape[0], *self.states.shape))

    def alphas(self, emissions: Any) -> list[Any]:
        """At each time, the log-probability of all ways there so far; from its last frame on it stays as it is."""
        nowhere = where(_counted(self.states) == 0, self.zeros, NEVER)
        alphas = [where(self.frames > 0, where(self.first, emissions[0], NEVER), nowhere)]
        for t in range(1, emissions.shape[0]):
            here = alphas[-1]
            behind = pad(here, width=((0, 0), (2, 0)), value=NEVER)
            ways = logsumexp(stack([here, behind[:, 1:-1], behind[:, :-2] + self.skips]), axis=0)
            alphas.append(where(self.frames > t, ways + emissions[t], here))
        return alphas

    def betas(self, emissions: Any) -> list[Any]:
        """At each time, the log-probability of all ways from there on, without what is emitted there."""
        ending = where(self.last, self.zeros, NEVER)
        betas = [where(self.frames == emissions.shape[0], ending, NEVER)]
        for t in range(emissions.shape[0] - 2, -1, -1):
            there = betas[-1] + emissions[t + 1]
            one = pad(there, width=((0, 0), (0, 1)), value=NEVER)[:, 1:]
            two = pad(there + self.skips, width=((0, 0), (0, 2)), value=NEVER)[:, 2:]
            ways = logsumexp(stack([there, one, two]), axis=0)
            betas.append(where(self.frames == t + 1, ending, where(self.frames > t + 1, ways, NEVER)))
        return betas[::-1]

    def log_likelihood(self, alphas: list[Any]) -> Any:
        return logsumexp(where(self.last, alphas[-1], NEVER), axis=1)


def _counted(x: Any) -> Any:
    """0, 1, 2, ... along the last axis."""
    return cumsum(x * 0 + 1, axis=1) - 1


def _check_values(logits: Any, targets: Any, frames: Any, labels: Any, blank: int) -> None:
    """Lengths and labels in range; looked at on the cpu only, since elsewhere it would mean waiting for them."""
    if not isinstance(targets, np.ndarray):
        return
    for name, lengths, most in (("input", frames, logits.shape[0]), ("target", labels, targets.shape[1])):
        if lengths.size and (lengths.min() < 0 or lengths.max() > most):
            raise ValueError(f"ctc: {name} lengths go from {lengths.min()} to {lengths.max()}; expected 0 to {most}.")
    used = targets[np.arange(targets.shape[1]) < labels[:, None]]
    if used.size and (used.min() < 0 or used.max() >= logits.shape[2] or (used == blank).any()):
        raise ValueError(
            f"ctc: labels go from {used.min()} to {used.max()}; expected 0 to {logits.shape[2] - 1}, without the "
            f"blank, which is {blank}."
        )


def _ctc(
    xp: Any, logits: Any, targets: Any, frames: Any, labels: Any, blank: int, reduction: str, zero_infinity: bool
) -> Any:
    _check_values(logits, targets, frames, labels, blank)
    lattice = _Lattice(targets, frames, labels, blank, logits.dtype)
    losses = -lattice.log_likelihood(lattice.alphas(lattice.emissions(log_softmax(logits, axis=2))))
    losses = xp.where(xp.isinf(losses), 0, losses).astype(logits.dtype) if zero_infinity else losses
    if reduction == "mean":
        return mean(losses / cast(maximum(labels, 1), dtype=logits.dtype))
    return sum(losses) if reduction == "sum" else losses


def _slope(logits: Any, targets: Any, frames: Any, labels: Any, blank: int, zero_infinity: bool) -> Any:
    """The derivative of each example's loss by its logits, (T, N, C)."""
    lattice = _Lattice(targets, frames, labels, blank, logits.dtype)
    emissions = lattice.emissions(log_softmax(logits, axis=2))
    alphas, betas = lattice.alphas(emissions), lattice.betas(emissions)
    likelihood = lattice.log_likelihood(alphas)
    possible = likelihood != NEVER
    likelihood = expand_dims(where(possible, likelihood, 0), axis=1)
    at = stack([exp(alpha + beta - likelihood) for alpha, beta in zip(alphas, betas, strict=True)])
    counted = expand_dims(stack([frames > t for t in range(logits.shape[0])]), axis=2)
    slope = where(counted, softmax(logits, axis=2), 0)
    slope = slope - scatter_add(at, lattice.index(logits), axis=2, size=logits.shape[2])
    return where(counted & ~expand_dims(possible, axis=1), 0.0 if zero_infinity else float("nan"), slope)


def _share(labels: Any, logits: Any, reduction: str) -> Any:
    if reduction != "mean":
        return 1
    return share(logits.shape[1]) / cast(maximum(labels, 1), dtype=logits.dtype)


def _vjp(g: Any, out: Any, logits: Any, targets: Any, frames: Any, labels: Any, **attrs: Any) -> Any:
    reduction = attrs.pop("reduction")
    weight = g * _share(labels, logits, reduction)
    weight = expand_dims(weight, axis=1) if weight.ndim else weight
    return weight * _slope(logits, targets, frames, labels, **attrs)


def _jvp(t: Any, out: Any, logits: Any, targets: Any, frames: Any, labels: Any, **attrs: Any) -> Any:
    reduction = attrs.pop("reduction")
    tangents = sum(_slope(logits, targets, frames, labels, **attrs) * t, axis=(0, 2))
    tangents = tangents * _share(labels, logits, reduction)
    return tangents if reduction == "none" else sum(tangents)


def _infer(
    logits: Spec,
    targets: Spec,
    input_lengths: Spec,
    target_lengths: Spec,
    *,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Spec:
    if logits.ndim != 3 or not logits.shape[0]:
        raise ValueError(
            f"ctc: logits have shape {logits.shape}; expected (time, batch, classes), with a time or more."
        )
    if logits.dtype.kind != "f" or logits.dtype.itemsize < 4:
        raise TypeError(f"ctc: logits must be float32 or float64, got {logits.dtype}. Cast them: x.to('float32').")
    batch = logits.shape[1]
    if targets.ndim != 2 or targets.shape[0] != batch:
        raise ValueError(f"ctc: targets have shape {targets.shape}; expected (batch, labels), here ({batch}, labels).")
    for name, value in (("targets", targets), ("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if value.dtype.kind not in "iu":
            raise TypeError(f"ctc: {name} must be of an integer dtype, got {value.dtype}.")
        if name != "targets" and value.shape != (batch,):
            raise ValueError(f"ctc: {name} have shape {value.shape}; expected one for each example, ({batch},).")
    if not isinstance(blank, int | np.integer) or not 0 <= blank < logits.shape[2]:
        raise ValueError(f"ctc: blank must be one of the classes 0 to {logits.shape[2] - 1}, got {blank!r}.")
    return reduced_spec("ctc", (batch,), logits.dtype, reduction)


ctc = row(
    "ctc",
    _ctc,
    vjp=(_vjp, None, None, None),
    jvp=(_jvp, None, None, None),
    saves="logits targets input_lengths target_lengths",
    infer=_infer,
    strict=True,
    doc="-log of the probability of the target labels (batch, labels), summed over all ways to place them, with "
    "blanks, in the times of logits (time, batch, classes) (Graves et al. 2006). Lengths say how much of each example "
    "counts. Logits are normalised here, which leaves log-probabilities as they are: PyTorch's ctc_loss of "
    "log_softmax, TensorFlow's ctc_loss, which does not reduce. A mean divides each loss by its number of labels "
    "first, as PyTorch's does. A target that does not fit into its times has infinite loss and the derivative NaN; 0 "
    "both if zero_infinity. PyTorch has no second derivative.",
)
