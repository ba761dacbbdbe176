"""The rules of ``lab10_training`` in NumPy, each with the mistakes that are often made in it.

Without a mistake they are the third oracle. With one they say what an answer looks like that makes it, so that the
feedback can name the mistake rather than a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray


def sgd(
    parameter: Array,
    gradients: Sequence[Array],
    lrs: Sequence[float],
    momentum: float,
    nesterov: bool,
    layout: str = "rows",
    mistake: str = "",
) -> dict[str, Any]:
    x, velocity, trace = parameter.copy(), np.zeros_like(parameter), []
    if mistake == "nesterov always":
        nesterov = True
    for g, lr in zip(gradients, lrs, strict=True):
        before = velocity
        share = 1 - momentum if mistake == "averaged" else lr if mistake == "rate inside" else 1
        velocity = np.asarray(momentum * velocity + share * g, x.dtype)
        if mistake == "no momentum":
            velocity = g
        step = velocity if mistake != "old velocity" else before
        if nesterov and mistake != "nesterov never":
            step = (lr if mistake == "rate inside" else 1) * g + momentum * velocity
            if mistake == "nesterov adds":
                step = g + velocity
        rate = 1 if mistake == "rate inside" else lrs[0] if mistake == "first rate" else lr
        x = np.asarray(x + rate * step if mistake == "upwards" else x - rate * step, x.dtype)
        trace.append(x.copy())
    if mistake in ("not in place", "nothing in place"):
        trace = [parameter for _ in gradients]
    if mistake in ("velocity lost", "nothing in place"):
        velocity = np.zeros_like(parameter)
    return {"parameters": trace, "velocity": velocity}


SGD_MISTAKES = {
    "nothing in place": "Neither array has changed. `p = p - ...` makes a new array and leaves the given one as it is; "
    "write into it: `p -= ...`.",
    "not in place": "The parameter never moves. `p = p - ...` makes a new array and leaves the one that was "
    "given as it "
    "is; write into it: `p -= ...`.",
    "velocity lost": "The velocity that was given stays at zero, so the next call knows nothing of this one. "
    "Write into "
    "it: `velocity *= momentum`, then `velocity += gradient`.",
    "upwards": "The parameter moves along the gradient; down is against it.",
    "averaged": "The gradient enters the velocity times 1 - momentum. That is an average; here it is added whole.",
    "rate inside": "The step size is inside the velocity. While lr stays the same that moves the parameter the "
    "same way, "
    "but the velocity is another, and once lr changes so are the steps.",
    "no momentum": "The velocity is only the last gradient: what it was before must stay in it, times momentum.",
    "old velocity": "The parameter moves by the velocity from before this gradient. Update the velocity first.",
    "nesterov never": "With nesterov=True the step is the same as without: it must be gradient + momentum * velocity, "
    "with the new velocity. (With the old one, that sum is the new velocity itself.)",
    "nesterov always": "Nesterov's step is taken also where nesterov is False.",
    "nesterov adds": "Nesterov's step is gradient + momentum * velocity; the momentum is missing.",
    "first rate": "The step size of the first call is used in all of them.",
}


def adam(
    parameters: Sequence[Array],
    gradients: Sequence[Sequence[Array | None]],
    lrs: Sequence[float],
    betas: Sequence[float],
    eps: float,
    layout: str = "rows",
    weight_decay: float | None = None,
    mistake: str = "",
) -> list[list[Array]]:
    beta1, beta2 = betas if mistake != "betas swapped" else (betas[1], betas[0])
    moved = [array.copy() for array in parameters]
    first, second = ([np.zeros_like(array) for array in parameters] for _ in range(2))
    counts, calls, trace = [0] * len(parameters), 0, []
    decay = weight_decay or 0.0
    alike = len({array.shape for array in parameters}) == 1
    for given, lr in zip(gradients, lrs, strict=True):
        calls += 1
        for i, gradient in enumerate(given):
            x, g = moved[i], gradient
            decays = decay > 0 and (x.ndim > 1 or mistake in ("decays all", "coupled, all"))
            if g is None and mistake == "decays without gradient" and decays:
                moved[i] = np.asarray(x * (1 - lr * decay), x.dtype)
            if g is None and mistake != "none is zero":
                continue
            g = np.zeros_like(x) if g is None else g
            counts[i] += 1
            t = {
                "one count": calls,
                "count starts at 0": counts[i] - 1,
                "count starts at 2": counts[i] + 1,
                "count of parameters": sum(counts),
            }.get(mistake, counts[i])
            k = 0 if mistake == "one state" and alike else i
            rate = lrs[0] if mistake == "first rate" else lr
            if decays and mistake in ("coupled", "coupled, all"):
                g = g + decay * x
            elif decays and mistake not in ("never", "after"):
                factors = {"decay without rate": 1.0, "decay at first rate": lrs[0], "adds": -rate}
                x = x * (1 - factors.get(mistake, rate) * decay)
            whole = mistake == "no averages"
            first[k] = np.asarray(beta1 * first[k] + (1 if whole else 1 - beta1) * g, x.dtype)
            of = first[k] if mistake == "square of the mean" else g
            second[k] = np.asarray(beta2 * second[k] + (1 if whole else 1 - beta2) * of * of, x.dtype)
            one = 1.0 if mistake in ("uncorrected", "mean uncorrected") else 1 - beta1**t
            two = 1.0 if mistake in ("uncorrected", "square uncorrected") else 1 - beta2**t
            m, v = first[k] / one, second[k] / two
            if mistake == "inside the root":
                bottom = np.sqrt(v + eps)
            elif mistake == "before correction":
                bottom = (np.sqrt(second[k]) + eps) / math.sqrt(two)
            elif mistake == "no root":
                bottom = v + eps
            elif mistake == "no epsilon":
                bottom = np.sqrt(v)
            else:
                bottom = np.sqrt(v) + eps
            step = rate * m / bottom
            x = x + step if mistake == "upwards" else x - step
            if decays and mistake == "after":
                x = x * (1 - rate * decay)
            moved[i] = np.asarray(x, parameters[i].dtype)
        trace.append([array.copy() for array in moved])
    if mistake == "not in place":
        return [list(parameters) for _ in gradients]
    return trace


ADAM_MISTAKES = {
    "not in place": "The parameters never move: write into the arrays that were given (`p -= ...`), since the "
    "model holds "
    "those.",
    "upwards": "The parameters move along the gradient; down is against it.",
    "uncorrected": "The bias correction is missing: m and v start at 0 and are too small at first, by 1 - β₁ᵗ and "
    "1 - β₂ᵗ.",
    "mean uncorrected": "m is not divided by 1 - β₁ᵗ.",
    "square uncorrected": "v is not divided by 1 - β₂ᵗ.",
    "count starts at 0": "t counts from 0: in the first step 1 - β⁰ is 0, and everything is divided by it. The first t "
    "is 1.",
    "one state": "The parameters share one m and one v; each needs its own. `[array] * n` is n times the same array.",
    "count starts at 2": "The first step is counted as the second. In the first one, t is 1.",
    "one count": "The count of steps goes on for a parameter without a gradient. Each parameter has its own t, which "
    "counts its own steps.",
    "count of parameters": "One count serves all parameters and goes up with each of them; each needs its own.",
    "none is zero": "A gradient of None is taken for zeros, so that the parameter moves on along its old m. None "
    "means: "
    "leave the parameter and what is remembered of it alone.",
    "inside the root": "eps is inside the root; it is added to the root.",
    "before correction": "eps is added before v is corrected, as Keras does it (the paper's eps hat). Here it is "
    "added to "
    "the root of the corrected v.",
    "no root": "The step is divided by v itself; it is divided by its square root.",
    "no epsilon": "eps is missing: where every gradient was 0, the step would be 0 / 0.",
    "square of the mean": "v averages the square of m; it averages the square of the gradient.",
    "betas swapped": "β₁ and β₂ are swapped: the first is for m, the second for v.",
    "no averages": "The gradient is added whole; it enters m times 1 - β₁, and v times 1 - β₂.",
    "first rate": "The step size at the start is used in every step. A schedule changes `optimizer.lr` between "
    "them: read "
    "it in step.",
}

ADAMW_MISTAKES = {
    "never": "The weights do not decay at all: these are the numbers of plain Adam.",
    "coupled": "The decay is added to the gradient, so that Adam rescales it: that is L2 regularisation, as in "
    "Adam's own "
    "weight_decay. Here the parameter itself is multiplied.",
    "coupled, all": "The decay is added to the gradient, so that Adam rescales it; and parameters of 0 or 1 axes decay "
    "too. Multiply the parameter itself, and leave biases and gains alone.",
    "decays all": "A parameter of 0 or 1 axes decays too; biases and gains are left alone.",
    "decay without rate": "The decay is not scaled by the step size: the factor is 1 - lr * weight_decay.",
    "decay at first rate": "The decay is scaled by the step size at the start; read lr in step.",
    "decays without gradient": "A parameter without a gradient decays; it is not to be touched at all.",
    "after": "The decay comes after Adam's step, and shrinks that too. It comes first.",
    "adds": "The weights grow where they should shrink.",
} | ADAM_MISTAKES


def clip(gradients: Sequence[Array | None], max_norm: float, layout: str = "rows", mistake: str = "") -> dict[str, Any]:
    present = [gradient for gradient in gradients if gradient is not None]
    squares = [float(np.sum(np.square(gradient, dtype=np.float64))) for gradient in present]
    norm = math.sqrt(sum(squares))
    if mistake == "sum of norms":
        norm = sum(map(math.sqrt, squares))
    elif mistake == "no root":
        norm = sum(squares)
    elif mistake == "largest":
        norm = max((float(np.abs(g).max(initial=0)) for g in present), default=0.0)
    factor = min(1.0, max_norm / norm) if norm else 1.0
    if mistake == "always":
        factor = max_norm / norm if norm else 1.0
    said = norm * factor if mistake == "says the norm after" else norm
    scaled: list[Array | None] = []
    for gradient in gradients:
        own = factor
        if gradient is not None and mistake == "one by one":
            length = float(np.linalg.norm(gradient))
            own = min(1.0, max_norm / length) if length else 1.0
        if mistake == "entries":
            scaled.append(None if gradient is None else np.clip(gradient, -max_norm, max_norm))
        else:
            scaled.append(None if gradient is None else np.asarray(gradient * own, gradient.dtype))
    if mistake == "not in place":
        scaled = list(gradients)
    return {"norm": said, "gradients": scaled, "same": True}


CLIP_MISTAKES = {
    "not in place": "The norm is right, but the gradients are as they were: scale the arrays themselves (`g *= "
    "factor`).",
    "one by one": "Each gradient is clipped by its own norm, which changes the direction of the whole step. "
    "There is one "
    "norm, of all gradients together, and one factor.",
    "entries": "Each entry is clipped. Clipping by norm scales all entries by one factor.",
    "sum of norms": "The norms are added up. The norm of all gradients together is the root of the sum of their "
    "squares.",
    "no root": "That is the square of the norm: the root is missing.",
    "largest": "That is the largest entry; the norm is the root of the sum of all squares.",
    "always": "Gradients shorter than max_norm are stretched; those are to be left alone.",
    "says the norm after": "The norm after clipping came back; the one before says how the training is doing.",
}


def schedule(
    steps: Sequence[int], peak: float, warmup: int, total: int, floor: float, mistake: str = ""
) -> dict[str, Any]:
    return {"lrs": [_rate(step, peak, warmup, total, floor, mistake) for step in steps]}


def _rate(step: int, peak: float, warmup: int, total: int, floor: float, mistake: str) -> float:
    if step < warmup and mistake != "no warm-up":
        if mistake == "starts at zero":
            return peak * step / warmup
        if mistake == "early":
            return peak * (step + 1) / warmup
        if mistake == "warms to floor":
            return floor + (peak - floor) * (step + 1) / (warmup + 1)
        return peak * (step + 1) / (warmup + 1)
    length = total if mistake == "whole length" else max(1, total - warmup)
    along = (step - (0 if mistake == "no restart" else warmup)) / length
    if mistake != "bounces":
        along = min(1.0, along)
    if mistake == "line":
        return floor + (peak - floor) * (1 - along)
    bottom = 0.0 if mistake == "no floor" else floor
    height = math.cos(math.pi * along / 2) if mistake == "quarter" else (1 + math.cos(math.pi * along)) / 2
    if mistake == "floor added":
        return floor + peak * height
    return bottom + (peak - bottom) * height


SCHEDULE_MISTAKES = {
    "starts at zero": "The step size of step 0 is 0, so that the first step does nothing. In step s of the "
    "warm-up it is "
    "peak * (s + 1) / (warmup + 1).",
    "early": "The warm-up is at its peak one step too early: it is divided by warmup where it is warmup + 1.",
    "warms to floor": "The warm-up starts from floor; it starts from 0, and floor is only for the end.",
    "no warm-up": "There is no warm-up: the first steps have the step size of the cosine.",
    "no restart": "The cosine counts from step 0; it starts where the warm-up ends.",
    "whole length": "The cosine is stretched over all steps; it has total - warmup of them.",
    "bounces": "After step total the cosine goes up again; it stays at floor.",
    "line": "It goes down along a line; it should be half a cosine.",
    "quarter": "That is a quarter of a cosine, cos(π/2 · s); half of one is (1 + cos(π · s)) / 2.",
    "no floor": "It goes down to 0 and not to floor.",
    "floor added": "floor is added to the whole cosine, so that it starts above peak; the cosine goes from peak "
    "to floor.",
}


def scaler(
    scale: float, interval: int, gradients: Sequence[Sequence[Array | None]], mistake: str = ""
) -> list[dict[str, Any]]:
    good, trace = 0, []
    for given in gradients:
        present = [gradient for gradient in given if gradient is not None]
        if mistake == "looks at the first":
            present = present[:1]
        if mistake == "looks at the last":
            present = present[-1:]
        if mistake == "only NaN":
            finite = not any(np.isnan(gradient).any() for gradient in present)
        elif mistake == "only infinity":
            finite = not any(np.isinf(gradient).any() for gradient in present)
        elif mistake == "looks at the sum":
            with np.errstate(over="ignore"):
                finite = bool(np.isfinite(sum(np.sum(gradient) for gradient in present)))
        else:
            finite = all(bool(np.isfinite(gradient).all()) for gradient in present)
        factor = scale if mistake == "multiplies" else 1 / scale
        unscaled = [
            gradient
            if gradient is None or mistake == "not in place" or (mistake == "only good ones" and not finite)
            else np.asarray(gradient * np.dtype(gradient.dtype).type(factor), gradient.dtype)
            for gradient in given
        ]
        if not finite:
            scale /= 2 if mistake != "never smaller" else 1
            good = good if mistake == "good steps kept" else 0
        else:
            good += 1
            due = {"late": interval + 1, "grows at once": 1}.get(mistake, interval)
            if good == due:
                scale, good = scale * (2 if mistake != "never larger" else 1), 0 if mistake != "grows on" else due - 1
        trace.append({"finite": finite, "gradients": unscaled, "scale": scale})
    return trace


SCALER_MISTAKES = {
    "multiplies": "The gradients are multiplied by the scale once more; the loss was, so they are divided.",
    "not in place": "The gradients are as they were: write into the arrays (`g *= 1 / scale`).",
    "only NaN": "Infinity is let through: a gradient that is too large for float16 is infinite.",
    "only infinity": "NaN is let through: infinity minus infinity is NaN.",
    "looks at the first": "Only the first gradient is looked at.",
    "looks at the last": "Only the last gradient is looked at: what the others said is lost.",
    "looks at the sum": "Finite gradients are refused: their sum is infinite, though no entry is. Look at the entries.",
    "good steps kept": "After a bad step the good ones are counted on; it takes `interval` good steps in a row.",
    "late": "The scale grows one step too late: after `interval` good steps.",
    "grows on": "Having grown, it grows again in every good step; the count starts anew.",
    "never larger": "The scale never grows.",
    "never smaller": "The scale does not shrink after gradients that are not finite.",
    "grows at once": "The scale grows after every good step; it takes `interval` of them.",
    "only good ones": "The gradients are divided only where all are finite; they are divided in any case.",
}
