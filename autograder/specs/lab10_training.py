"""``lab10_training``: what a training loop is made of, each piece asked of torch, TensorFlow, Keras and arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.spec import Lab, Task
from autograder.specs import _lab10_training_cases as cases
from autograder.specs import _lab10_training_judges as judges
from autograder.specs import _lab10_training_oracles as oracles
from autograder.specs import _lab10_training_show as show
from autograder.specs._source import source as source_of

# --- replays: source that shows a case in the learner's own notebook ----------------------------------


def source(array: np.ndarray) -> str:
    """Source of an array that can be written to."""
    dtype = "" if array.dtype == np.float64 else f", dtype=np.{array.dtype.name}"
    return source_of(array) if array.size else f"np.zeros({array.shape}{dtype})"


def laid(array: np.ndarray, layout: str) -> str:
    """Source of an array in one of the layouts of the driver."""
    text = source(np.array(array, order="C"))
    if layout == "reversed" and array.ndim:
        return f"{source(np.array(array[::-1]))}[::-1]"
    if layout == "columns" and array.ndim > 1:
        return f"np.asfortranarray({text})"
    if layout == "strided" and array.ndim:
        return f"np.repeat({text}, 2, axis=-1)[..., ::2]"
    return text


def _list(arrays: list[Any]) -> str:
    return f"[{', '.join('None' if array is None else source(array) for array in arrays)}]"


def replay_sgd(
    parameter: np.ndarray,
    gradients: list[np.ndarray],
    lrs: list[float],
    momentum: float,
    nesterov: bool,
    layout: str,
) -> str:
    calls = [
        f"sgd_step(parameter, {source(gradient)}, velocity, {lr}, {momentum}, {nesterov})"
        for gradient, lr in zip(gradients, lrs, strict=True)
    ]
    lines = [f"parameter = {laid(parameter, layout)}", f"velocity = {laid(np.zeros_like(parameter), layout)}", *calls]
    return "\n".join([*lines, "parameter, velocity"])


def replay_adam(
    parameters: list[np.ndarray],
    gradients: list[list[Any]],
    lrs: list[float],
    betas: list[float],
    eps: float,
    layout: str,
    weight_decay: float | None = None,
) -> str:
    made = ", ".join(laid(array, layout) for array in parameters)
    name, more = ("Adam", "") if weight_decay is None else ("AdamW", f", {weight_decay}")
    lines = [
        f"parameters = [{made}]",
        f"optimizer = {name}(parameters, {lrs[0]}, {tuple(betas)}, {eps}{more})",
    ]
    for given, lr in zip(gradients, lrs, strict=True):
        lines += [f"optimizer.lr = {lr}", f"optimizer.step({_list(given)})"]
    return "\n".join([*lines, "parameters"])


def replay_limits(what: str, given: dict[str, Any]) -> str:
    if what == "clip":
        arrays = ", ".join("None" if g is None else laid(g, given["layout"]) for g in given["gradients"])
        return f"gradients = [{arrays}]\nclip_by_global_norm(gradients, {given['max_norm']}), gradients"
    rest = ", ".join(str(given[name]) for name in ("peak", "warmup", "total", "floor"))
    return f"[warmup_cosine(step, {rest}) for step in {given['steps']}]"


def replay_batches(n: int, batch_size: int, seed: int, steps: int, save_at: int) -> str:
    return "\n".join(
        [
            f"loader = Batches({n}, {batch_size}, seed={seed})",
            f"for step in range({steps}):",
            f"    if step == {save_at}:",
            "        saved = loader.state_dict()",
            "    batch = loader.next_batch()",
            "    print(step, batch.tolist())",
            "    batch[...] = -1",
            f"resumed = Batches({n}, {batch_size}, seed={seed})",
            "resumed.next_batch()",
            "resumed.load_state_dict(saved)",
            f"[resumed.next_batch().tolist() for step in range({save_at}, {steps})]",
        ]
    )


def replay_scaler(scale: float, interval: int, gradients: list[list[Any]]) -> str:
    lines = ["inf, nan = np.inf, np.nan", f"scaler = LossScaler({scale}, {interval})"]
    for given in gradients:
        lines += [
            f"gradients = {_list(given)}",
            "finite = scaler.unscale(gradients)",
            "scaler.update(finite)",
            "print(finite, gradients, scaler.scale)",
        ]
    return "\n".join([*lines, "scaler.scale"])


# --- the tasks ----------------------------------------------------------------------------------------

GIVEN = "The gradients belong to the caller: they can't be written to, and the next ones come in the same memory."

SGD = Task(
    name="sgd",
    title="Gradient descent with momentum, and Nesterov's",
    points=15,
    names=("sgd_step",),
    driver="sgd",
    call=replay_sgd,
    show=show.sgd,
    strategy=cases.sgd_strategy,
    edges=cases.sgd_edges,
    oracles={"torch": oracles.sgd_torch, "tensorflow": oracles.sgd_tensorflow, "numpy": oracles.sgd_numpy},
    judge=judges.sgd,
    hints={"read_only": GIVEN},
)

ADAM = Task(
    name="adam",
    title="Adam",
    points=25,
    names=("Adam",),
    driver="adam",
    call=replay_adam,
    show=show.adam,
    strategy=cases.adam_strategy,
    edges=cases.adam_edges,
    oracles={"torch": oracles.adam_torch, "tensorflow": oracles.adam_tensorflow, "numpy": oracles.adam_numpy},
    judge=judges.adam,
    hints={
        "read_only": GIVEN,
        "none_used": "A gradient can be None: leave that parameter alone.",
        "broadcast": "Each parameter needs an m and a v of its own shape.",
        "signature": "It is called as Adam(parameters, lr, betas, eps), and step(gradients).",
    },
)

ADAMW = Task(
    name="adamw",
    title="AdamW: weight decay beside the gradient",
    points=15,
    names=("AdamW",),
    driver="adamw",
    call=replay_adam,
    show=show.adam,
    strategy=cases.adamw_strategy,
    edges=cases.adamw_edges,
    oracles={"torch": oracles.adam_torch, "tensorflow": oracles.adam_tensorflow, "numpy": oracles.adam_numpy},
    judge=judges.adamw,
    hints={
        "read_only": GIVEN,
        "none_used": "A gradient can be None: that parameter neither moves nor decays.",
        "signature": "It is called as AdamW(parameters, lr, betas, eps, weight_decay), and step(gradients).",
    },
)

LIMITS = Task(
    name="limits",
    title="Clipping by the global norm, and a warm-up with a cosine",
    points=15,
    names=("clip_by_global_norm", "warmup_cosine"),
    driver="limits",
    call=replay_limits,
    show=show.limits,
    strategy=cases.limits_strategy,
    edges=cases.limits_edges,
    oracles={"torch": oracles.limits_torch, "tensorflow": oracles.limits_tensorflow, "numpy": oracles.limits_numpy},
    judge=judges.limits,
    hints={
        "none_used": "A gradient can be None: it has no norm, and nothing to scale.",
        "empty": "There may be no gradients at all, or empty ones; their norm is 0.",
    },
)

BATCHES = Task(
    name="batches",
    title="Batches that can be resumed",
    points=15,
    names=("Batches",),
    driver="batches",
    call=replay_batches,
    show=show.batches,
    strategy=cases.batches_strategy,
    edges=cases.batches_edges,
    oracles={"torch": oracles.batches_torch, "tensorflow": oracles.batches_tensorflow, "numpy": oracles.batches_numpy},
    judge=judges.batches,
    examples=12,
    hints={
        "signature": "It is called as Batches(n, batch_size, seed), next_batch(), state_dict() and "
        "load_state_dict(state).",
        "key": "What state_dict returns is all that load_state_dict gets, and may be used more than once.",
    },
)

SCALER = Task(
    name="scaler",
    title="Loss scaling",
    points=15,
    names=("LossScaler",),
    driver="scaler",
    call=replay_scaler,
    show=show.scaler,
    strategy=cases.scaler_strategy,
    edges=cases.scaler_edges,
    oracles={"torch": oracles.scaler_torch, "tensorflow": oracles.scaler_tensorflow, "numpy": oracles.scaler_numpy},
    judge=judges.scaler,
    examples=12,
    hints={"none_used": "A gradient can be None: it is finite, and there is nothing to divide."},
)

lab = Lab(
    name="lab10_training",
    title="Training: what comes after the gradient",
    tasks=(SGD, ADAM, ADAMW, LIMITS, BATCHES, SCALER),
)
