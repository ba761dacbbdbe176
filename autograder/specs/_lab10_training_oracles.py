"""Who knows the answers of ``lab10_training``: torch.optim and torch.utils, TensorFlow's kernels and Keras, and NumPy.

Where the frameworks have other conventions than the lab, the oracle is asked in its own way for the same thing:
TensorFlow's Adam adds epsilon before the correction, so it is given ``eps * sqrt(1 - beta2 ** t)``; it counts the steps
of all variables together, so each is given its own powers of beta; clipping in PyTorch divides by ``norm + 1e-6``,
which is within the tolerance; and a torch schedule that goes on after its end is asked for its last step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.specs import _lab10_training_rules as rules


def to_torch(torch: Any, array: np.ndarray) -> Any:
    # torch takes no negative strides, and no memory it may not write to.
    return torch.tensor(np.array(array, order="C"))


# --- sgd --------------------------------------------------------------------------------------------


def sgd_torch(
    torch: Any, parameter: Any, gradients: Any, lrs: Any, momentum: float, nesterov: bool, layout: str
) -> dict[str, Any]:
    x = to_torch(torch, parameter).requires_grad_()
    # torch has no Nesterov without momentum: with a momentum of 0 the two are the same step.
    optimizer = torch.optim.SGD([x], lr=lrs[0], momentum=momentum, nesterov=nesterov and momentum > 0)
    trace = []
    for gradient, lr in zip(gradients, lrs, strict=True):
        optimizer.param_groups[0]["lr"] = lr
        x.grad = to_torch(torch, gradient)
        optimizer.step()
        trace.append(x.detach().numpy().copy())
    # Without momentum torch keeps none; the velocity is the last gradient then.
    velocity = optimizer.state[x].get("momentum_buffer") if momentum else None
    return {"parameters": trace, "velocity": gradients[-1].copy() if velocity is None else velocity.numpy().copy()}


def sgd_tensorflow(
    tensorflow: Any, parameter: Any, gradients: Any, lrs: Any, momentum: float, nesterov: bool, layout: str
) -> dict[str, Any]:
    tf = tensorflow
    x, velocity = tf.Variable(np.array(parameter)), tf.Variable(np.zeros_like(parameter))
    trace = []
    for gradient, lr in zip(gradients, lrs, strict=True):
        tf.raw_ops.ResourceApplyMomentum(
            var=x.handle,
            accum=velocity.handle,
            lr=tf.constant(lr, x.dtype),
            grad=tf.constant(np.array(gradient)),
            momentum=tf.constant(momentum, x.dtype),
            use_nesterov=nesterov,
        )
        trace.append(x.numpy().copy())
    return {"parameters": trace, "velocity": velocity.numpy().copy()}


def sgd_numpy(numpy: Any, **inputs: Any) -> dict[str, Any]:
    return rules.sgd(**inputs)


# --- adam, adamw ------------------------------------------------------------------------------------


def adam_torch(
    torch: Any,
    parameters: Any,
    gradients: Any,
    lrs: Any,
    betas: Any,
    eps: float,
    layout: str,
    weight_decay: float | None = None,
) -> list[list[np.ndarray]]:
    moved = [to_torch(torch, array).requires_grad_() for array in parameters]
    if weight_decay is None:
        optimizer = torch.optim.Adam(moved, lr=lrs[0], betas=tuple(betas), eps=eps)
    else:
        groups = [
            {"params": [x for x in moved if x.ndim > 1], "weight_decay": weight_decay},
            {"params": [x for x in moved if x.ndim <= 1], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        optimizer = torch.optim.AdamW(groups, lr=lrs[0], betas=tuple(betas), eps=eps)
    trace = []
    for given, lr in zip(gradients, lrs, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = lr
        for x, gradient in zip(moved, given, strict=True):
            x.grad = None if gradient is None else to_torch(torch, gradient)
        optimizer.step()
        trace.append([x.detach().numpy().copy() for x in moved])
    return trace


def adam_tensorflow(
    tensorflow: Any,
    parameters: Any,
    gradients: Any,
    lrs: Any,
    betas: Any,
    eps: float,
    layout: str,
    weight_decay: float | None = None,
) -> list[list[np.ndarray]]:
    tf = tensorflow
    moved = [tf.Variable(np.array(array)) for array in parameters]
    first, second = ([tf.Variable(np.zeros_like(array)) for array in parameters] for _ in range(2))
    counts, trace = [0] * len(parameters), []
    for given, lr in zip(gradients, lrs, strict=True):
        for i, gradient in enumerate(given):
            if gradient is None:
                continue
            counts[i] += 1
            x, powers = moved[i], [beta ** counts[i] for beta in betas]
            if weight_decay is not None and len(x.shape) > 1:
                x.assign(x * tf.constant(1 - lr * weight_decay, x.dtype))
            one, two, rate, b1, b2, small = (
                tf.constant(value, x.dtype) for value in (*powers, lr, *betas, eps * (1 - powers[1]) ** 0.5)
            )
            tf.raw_ops.ResourceApplyAdam(
                var=x.handle,
                m=first[i].handle,
                v=second[i].handle,
                beta1_power=one,
                beta2_power=two,
                lr=rate,
                beta1=b1,
                beta2=b2,
                epsilon=small,
                grad=tf.constant(np.array(gradient)),
            )
        trace.append([x.numpy().copy() for x in moved])
    return trace


def adam_numpy(numpy: Any, **inputs: Any) -> list[list[np.ndarray]]:
    return rules.adam(**inputs)


# --- limits -----------------------------------------------------------------------------------------


def limits_torch(torch: Any, what: str, given: dict[str, Any]) -> dict[str, Any]:
    if what == "clip":
        held = []
        for gradient in given["gradients"]:
            x = torch.zeros(() if gradient is None else gradient.shape, dtype=torch.float64).requires_grad_()
            x.grad = None if gradient is None else to_torch(torch, np.asarray(gradient, np.float64))
            held.append(x)
        norm = torch.nn.utils.clip_grad_norm_(held, given["max_norm"]) if held else 0.0
        gradients = [
            None if g is None else np.asarray(x.grad.numpy(), g.dtype)
            for x, g in zip(held, given["gradients"], strict=True)
        ]
        return {"norm": float(norm), "gradients": gradients, "same": True}
    scheduler = torch.optim.lr_scheduler
    warmup, total, peak = given["warmup"], given["total"], given["peak"]
    optimizer = torch.optim.SGD([torch.zeros(())], lr=peak)
    cosine = scheduler.CosineAnnealingLR(optimizer, total - warmup, eta_min=given["floor"])
    if warmup:
        line = scheduler.LinearLR(optimizer, start_factor=1 / (warmup + 1), total_iters=warmup)
        both = scheduler.SequentialLR(optimizer, [line, cosine], milestones=[warmup])
    else:
        both = cosine
    rates = [both.get_last_lr()[0]]
    optimizer.step()
    for _ in range(total):
        both.step()
        rates.append(both.get_last_lr()[0])
    return {"lrs": [float(rates[min(step, total)]) for step in given["steps"]]}


def limits_tensorflow(tensorflow: Any, what: str, given: dict[str, Any]) -> dict[str, Any]:
    tf = tensorflow
    if what == "clip":
        present = [tf.constant(np.asarray(g, np.float64)) for g in given["gradients"] if g is not None]
        norm = tf.linalg.global_norm(present) if present else tf.constant(0.0)
        clipped = iter(tf.clip_by_global_norm(present, given["max_norm"])[0] if present else [])
        gradients = [None if g is None else np.asarray(next(clipped).numpy(), g.dtype) for g in given["gradients"]]
        return {"norm": float(norm), "gradients": gradients, "same": True}
    warmup, peak, floor = given["warmup"], given["peak"], given["floor"]
    before = tf.keras.config.floatx()
    tf.keras.config.set_floatx("float64")
    try:
        decay = tf.keras.optimizers.schedules.CosineDecay(
            initial_learning_rate=peak / (warmup + 1) if warmup else peak,
            decay_steps=given["total"] - warmup,
            alpha=floor / peak,
            warmup_target=peak if warmup else None,
            warmup_steps=warmup,
        )
        return {"lrs": [float(decay(step)) for step in given["steps"]]}
    finally:
        tf.keras.config.set_floatx(before)


def limits_numpy(numpy: Any, what: str, given: dict[str, Any]) -> dict[str, Any]:
    return rules.clip(**given) if what == "clip" else rules.schedule(**given)


# --- batches ----------------------------------------------------------------------------------------
# Every order is right. What the frameworks are asked for is what does not depend on it: how large each batch is.


def batches_torch(torch: Any, n: int, batch_size: int, seed: int, steps: int, save_at: int) -> dict[str, Any]:
    loader = torch.utils.data.DataLoader(range(n), batch_size=batch_size, shuffle=True)
    sizes: list[int] = []
    while len(sizes) < steps:
        sizes += [len(batch) for batch in loader]
    return {"sizes": sizes[:steps]}


def batches_tensorflow(tensorflow: Any, n: int, batch_size: int, seed: int, steps: int, save_at: int) -> dict[str, Any]:
    dataset = tensorflow.data.Dataset.range(n).shuffle(n, seed=seed).batch(batch_size).repeat()
    return {"sizes": [int(batch.shape[0]) for batch in dataset.take(steps)]}


def batches_numpy(numpy: Any, n: int, batch_size: int, seed: int, steps: int, save_at: int) -> dict[str, Any]:
    epoch = [min(batch_size, n - begin) for begin in range(0, n, batch_size)]
    return {"sizes": [epoch[step % len(epoch)] for step in range(steps)]}


# --- scaler -----------------------------------------------------------------------------------------


def scaler_torch(torch: Any, scale: float, interval: int, gradients: Any) -> list[dict[str, Any]]:
    made = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=interval)
    made.scale(torch.zeros(()))  # its state is made when a loss is first seen
    held = [torch.zeros(() if g is None else g.shape).to(_torch_dtype(torch, g)).requires_grad_() for g in gradients[0]]
    optimizer, stepped = torch.optim.SGD(held, lr=1.0), []
    optimizer.register_step_post_hook(lambda *_: stepped.append(True))
    trace = []
    for given in gradients:
        for x, gradient in zip(held, given, strict=True):
            x.grad = None if gradient is None else to_torch(torch, gradient)
        stepped.clear()
        made.unscale_(optimizer)
        unscaled = [None if x.grad is None else x.grad.numpy().copy() for x in held]
        made.step(optimizer)
        made.update()
        trace.append({"finite": bool(stepped), "gradients": unscaled, "scale": float(made.get_scale())})
    return trace


def _torch_dtype(torch: Any, gradient: Any) -> Any:
    return torch.float32 if gradient is None else getattr(torch, gradient.dtype.name)


def scaler_tensorflow(tensorflow: Any, scale: float, interval: int, gradients: Any) -> list[dict[str, Any]]:
    tf = tensorflow
    made = tf.keras.optimizers.LossScaleOptimizer(
        tf.keras.optimizers.SGD(1.0), initial_scale=scale, dynamic_growth_steps=interval
    )
    held = [tf.keras.Variable(np.zeros_like(g), dtype=g.dtype.name) for g in gradients[0] if g is not None]
    made.build(held)
    trace = []
    for given in gradients:
        before, now = [x.numpy().copy() for x in held], float(made.dynamic_scale)
        unscaled = [None if g is None else (tf.constant(np.array(g)) / now).numpy() for g in given]
        made.apply([tf.constant(np.array(g)) for g in given if g is not None], held)
        moved = any(not np.array_equal(x.numpy(), was) for x, was in zip(held, before, strict=True))
        trace.append({"finite": moved, "gradients": unscaled, "scale": float(made.dynamic_scale)})
    return trace


def scaler_numpy(numpy: Any, **inputs: Any) -> list[dict[str, Any]]:
    return rules.scaler(**inputs)
