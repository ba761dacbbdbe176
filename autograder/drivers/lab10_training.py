"""Drivers for ``lab10_training``: plain data in, a call of what the learner wrote, plain data out. No answers here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

Names = Mapping[str, Any]


def laid(array: np.ndarray, layout: str) -> np.ndarray:
    """A copy of `array`, laid out otherwise: backwards, columns first, or every second entry of a larger array."""
    if layout == "reversed" and array.ndim:
        return np.array(array[::-1])[::-1]
    if layout == "columns" and array.ndim > 1:
        return np.array(array.T).T
    if layout == "strided" and array.ndim:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    return np.array(array)


def locked(array: np.ndarray) -> np.ndarray:
    """The same memory, which can't be written to through it."""
    view = array.view()
    view.flags.writeable = False
    return view


def sgd(
    names: Names,
    parameter: np.ndarray,
    gradients: list[np.ndarray],
    lrs: list[float],
    momentum: float,
    nesterov: bool,
    layout: str,
) -> dict[str, Any]:
    """The parameter after each step, and the velocity after the last."""
    parameter, velocity = laid(parameter, layout), laid(np.zeros_like(parameter), layout)
    trace = []
    for gradient, lr in zip(gradients, lrs, strict=True):
        names["sgd_step"](parameter, locked(gradient), velocity, lr, momentum, nesterov)
        trace.append(parameter.copy())
    return {"parameters": trace, "velocity": velocity.copy()}


def adam(
    names: Names,
    parameters: list[np.ndarray],
    gradients: list[list[Any]],
    lrs: list[float],
    betas: list[float],
    eps: float,
    layout: str,
    weight_decay: Any = None,
) -> list[list[np.ndarray]]:
    """All parameters after each step. The gradients of every step come in the same memory, as a framework's do."""
    moved = [laid(array, layout) for array in parameters]
    buffers = [np.zeros_like(array) for array in parameters]
    if weight_decay is None:
        optimizer = names["Adam"](list(moved), lrs[0], (betas[0], betas[1]), eps)
    else:
        optimizer = names["AdamW"](list(moved), lrs[0], (betas[0], betas[1]), eps, weight_decay)
    trace = []
    for given, lr in zip(gradients, lrs, strict=True):
        for buffer, gradient in zip(buffers, given, strict=True):
            if gradient is not None:
                buffer[...] = gradient
        optimizer.lr = lr
        optimizer.step([None if g is None else locked(b) for b, g in zip(buffers, given, strict=True)])
        trace.append([array.copy() for array in moved])
    return trace


adamw = adam


def limits(names: Names, what: str, given: dict[str, Any]) -> dict[str, Any]:
    """What clipping makes of some gradients and says of their norm, or the step sizes of some steps."""
    if what == "clip":
        gradients = [None if g is None else laid(g, given["layout"]) for g in given["gradients"]]
        before = list(gradients)
        norm = names["clip_by_global_norm"](gradients, given["max_norm"])
        if norm is None:
            raise TypeError("clip_by_global_norm returned None; expected the norm before clipping.")
        same = all(one is other for one, other in zip(before, gradients, strict=True))
        return {"norm": _number(norm, "clip_by_global_norm"), "gradients": before, "same": same}
    lrs = [
        names["warmup_cosine"](step, given["peak"], given["warmup"], given["total"], given["floor"])
        for step in given["steps"]
    ]
    return {"lrs": [_number(lr, "warmup_cosine") for lr in lrs]}


def batches(names: Names, n: int, batch_size: int, seed: int, steps: int, save_at: int) -> dict[str, Any]:
    """Batches of several loaders: one, its twin, one of another seed, and one resumed where the first was saved."""
    Batches = names["Batches"]
    np.random.seed(seed)  # noqa: NPY002  the global generator, which is not the loader's to draw from
    one, twin, other = (Batches(n, batch_size, one_seed) for one_seed in (seed, seed, seed + 1))
    saved: Any = None
    first, again, different, resumed = [], [], [], []
    for step in range(steps):
        if step == save_at:
            saved = one.state_dict()
            text = _json(saved)
        if step % 3 == 1:
            twin.state_dict()  # asking for the state changes nothing
        first.append(_taken(one))
        again.append(_taken(twin))
        different.append(_taken(other))
    later = _json(saved)
    fresh = Batches(n, batch_size, seed)
    fresh.next_batch()
    fresh.load_state_dict(json.loads(text))
    for _ in range(save_at, steps):
        resumed.append(_taken(fresh))
    after = np.random.random()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    return {
        "first": first,
        "again": again,
        "different": different,
        "resumed": resumed,
        "state changed": later != text,
        "global drawn": after != np.random.random(),  # noqa: NPY002
    }


def scaler(names: Names, scale: float, interval: int, gradients: list[list[Any]]) -> list[dict[str, Any]]:
    """What a loss scaler says and does in each step."""
    made = names["LossScaler"](scale, interval)
    trace = []
    for given in gradients:
        arrays = [None if gradient is None else np.array(gradient) for gradient in given]
        finite = made.unscale(list(arrays))
        if finite is None:
            raise TypeError("LossScaler.unscale returned None; expected whether all gradients are finite.")
        made.update(bool(finite))
        trace.append({"finite": bool(finite), "gradients": arrays, "scale": _number(made.scale, "LossScaler.scale")})
    return trace


def _taken(loader: Any) -> list[int]:
    """The next batch as plain numbers; then the array is spoiled, as a caller may do with what it was given."""
    batch = loader.next_batch()
    if not isinstance(batch, np.ndarray) or batch.dtype.kind not in "iu" or batch.ndim != 1:
        raise TypeError(f"next_batch returned {_kind(batch)}; expected a 1-D array of whole numbers.")
    rows = [int(row) for row in batch]
    if batch.flags.writeable:
        batch[...] = -1
    return rows


def _json(state: Any) -> str:
    try:
        return json.dumps(state, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"state_dict returned what json cannot write ({error}); expected numbers, strings, lists and dicts of "
            "Python's own."
        ) from None


def _number(value: Any, name: str) -> float:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} gave {_kind(value)}; expected a number.")
    return float(value)


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"a {value.dtype} array of shape {value.shape}"
    size = f" of {len(value)}" if isinstance(value, (tuple, list, dict)) else ""
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return f"{article} {type(value).__name__}{size}"
