"""What ``lab03_layers`` asks for, in plain NumPy, and the mistakes people make in it: each gives other numbers.

A mistake is a word for `mistake`; the tables say it in words that help.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# --- fc -------------------------------------------------------------------------------------------

FC_MISTAKES = {
    "replaces": "A gradient is assigned where it has to be added: a second step, or a second layer that shares the "
    "parameter, wipes out what was there. Write parameter.gradient += ...",
    "mean": "The gradients of the parameters are averaged over the rows. Averaging belongs to the loss: a layer sums.",
    "weight_mean": "The gradient of the weight is averaged over the rows; it is their sum.",
    "bias_mean": "The gradient of the bias is averaged over the rows; it was added to every row, so it is their sum.",
    "no_bias": "The output lacks the bias.",
    "bias_zero": "The bias gets no gradient.",
    "bias_first": "The gradient of the bias is that of one row only; it was added to every row.",
    "bias_along": "The gradient of the bias is summed along the wrong axis: rows are axis 0.",
    "untransposed": "The gradient by x goes through the weight the wrong way round: g @ weight.T.",
    "weight_turned": "The gradient of the weight is transposed: x.T @ g has the weight's shape.",
    "ones": "g is ignored: these are the gradients for a g of ones.",
    "last_input": "backward works with an x that is not this layer's: keep it on self, where each layer has its own.",
    "first_input": "backward works with the x of the first forward pass; each forward has to keep its own.",
    "sign": "The sign of the parameters' gradients is wrong: a gradient says how the loss grows.",
    "twice": "The parameters' gradients come out twice as large.",
    "zeroed": "The gradients are set to zero in every forward pass. Only the optimizer may do that: gradients of "
    "several steps, or of several layers, add up.",
}


def fc(
    *, weight: np.ndarray, bias: np.ndarray, steps: list[list[np.ndarray]], layers: int, mistake: str = ""
) -> dict[str, Any]:
    outputs, by_inputs = [], []
    by_weight, by_bias = np.zeros_like(weight), np.zeros_like(bias)
    first = None
    for x, g in steps:
        kept = []
        for _ in range(layers):
            kept.append(x)
            x = x @ weight + (0 if mistake == "no_bias" else bias)
            if mistake == "zeroed":
                by_weight, by_bias = np.zeros_like(weight), np.zeros_like(bias)
        first = first or kept
        outputs.append(x)
        for i in reversed(range(layers)):
            row = kept[-1] if mistake == "last_input" else first[i] if mistake == "first_input" else kept[i]
            used = np.ones_like(g) if mistake == "ones" else g
            n = max(len(g), 1)
            dw = used.T @ row if mistake == "weight_turned" else row.T @ used
            db = used.sum(axis=0)
            if mistake in ("mean", "weight_mean"):
                dw = dw / n
            if mistake in ("mean", "bias_mean"):
                db = db / n
            if mistake == "bias_first":
                db = used[0]
            if mistake == "bias_along":
                db = used.sum(axis=1)
            scale = {"sign": -1, "twice": 2}.get(mistake, 1)
            dw, db = scale * dw, scale * db * (mistake != "bias_zero")
            by_weight, by_bias = (dw, db) if mistake == "replaces" else (by_weight + dw, by_bias + db)
            g = g @ (weight if mistake == "untransposed" else weight.T)
        by_inputs.append(g)
    return {
        "outputs": outputs,
        "input_gradients": by_inputs,
        "weight_gradient": by_weight,
        "bias_gradient": by_bias,
        "changed": "",
    }


# --- pool -----------------------------------------------------------------------------------------

POOL_MISTAKES = {
    "assigned": "Where windows overlap, one pixel may be the largest of several. Its gradients have to be added; here "
    "the last one replaces the others.",
    "all_ties": "Each of the pixels that tie for the largest gets the whole gradient. The first of them, row by row, "
    "gets it, and the others nothing.",
    "shared": "The gradient is shared among the pixels that tie. Here the first of them, row by row, gets it all.",
    "last_tie": "At a tie the last pixel gets the gradient; it should be the first, row by row.",
    "columns": "At a tie the first pixel column by column gets the gradient; count row by row.",
    "average": "Every pixel of the window gets an equal part of the gradient: that is the backward pass of an average. "
    "Only the largest pixel decided the result.",
    "everywhere": "Every pixel of the window gets the whole gradient; only the largest decided the result.",
    "corner": "The gradient goes to the window's corner; it belongs to its largest pixel.",
    "swapped_place": "Row and column of the largest pixel are swapped: divmod(argmax, window) is its row, then its "
    "column.",
    "back_stride": "backward ignores the stride: window (i, j) begins at row i * stride, column j * stride, as in "
    "forward.",
    "ones": "g is ignored: this is the gradient for a g of ones.",
    "mean": "The output is the mean of each window; asked for is its largest pixel.",
    "smallest": "The output is the smallest pixel of each window; asked for is the largest.",
    "stride_is_window": "The stride is ignored: windows are `stride` pixels apart, not `window`.",
    "stride_one": "The stride is ignored: windows are `stride` pixels apart, not 1.",
}


def pool(*, x: np.ndarray, g: np.ndarray, window: int, stride: int, mistake: str = "") -> dict[str, Any]:
    step = {"stride_is_window": window, "stride_one": 1}.get(mistake, stride)
    counts = [(size - window) // step + 1 for size in x.shape[2:]]
    out, back = np.zeros((*x.shape[:2], *counts), x.dtype), np.zeros_like(x)
    used = np.ones_like(g) if mistake == "ones" else g
    for n, c, i, j in np.ndindex(*out.shape):
        rows, columns = slice(i * step, i * step + window), slice(j * step, j * step + window)
        seen, into = x[n, c, rows, columns], back[n, c, rows, columns]
        out[n, c, i, j] = {"mean": seen.mean(), "smallest": seen.min()}.get(mistake, seen.max())
        if i >= g.shape[2] or j >= g.shape[3]:
            continue
        one = used[n, c, i, j]
        largest = seen == seen.max()
        places = np.argwhere(largest)
        if mistake in ("all_ties", "shared"):
            into += one * largest / (largest.sum() if mistake == "shared" else 1)
        elif mistake in ("average", "everywhere"):
            into += one / (seen.size if mistake == "average" else 1)
        elif mistake == "corner":
            into[0, 0] += one
        else:
            k, m = {"last_tie": places[-1], "columns": np.argwhere(largest.T)[0][::-1]}.get(mistake, places[0])
            if mistake == "swapped_place":
                k, m = m, k
            if mistake == "back_stride":
                into = back[n, c, i : i + window, j : j + window]
            into[k, m] = one if mistake == "assigned" else into[k, m] + one
    return {"output": out, "input_gradient": back}


# --- update ---------------------------------------------------------------------------------------

UPDATE_MISTAKES = {
    "lr_outside": "The step size is multiplied in when the velocity is used, not when the gradient joins it "
    "(PyTorch's form). Here the velocity is in units of steps: what is under way keeps the step size that it began "
    "with.",
    "lr_alone_outside": "lr is multiplied in when the velocity is used, not when the gradient joins it. Both lr and "
    "lr_mult belong inside, so that what is under way keeps the step size that it began with.",
    "carried_on": "The settings of one parameter reach the next one: lr and decay are overwritten in the loop. Give "
    "the product a name of its own.",
    "no_lr_mult": "lr_mult is ignored: each parameter has its own.",
    "no_decay_mult": "decay_mult is ignored: each parameter has its own.",
    "no_decay": "The weight decay is left out: decay * decay_mult * value is added to the gradient.",
    "decoupled": "The decay shrinks the value by itself, past the velocity (as AdamW does). Here it is added to the "
    "gradient, and goes through the velocity.",
    "decay_sign": "The decay has the wrong sign: it is added to the gradient, and so pulls values towards zero.",
    "decay_unscaled": "The decay is not multiplied by the step size.",
    "ema": "The gradient joins the velocity with a factor 1 - momentum; here it joins whole.",
    "nesterov": "This looks ahead along the velocity, as Nesterov's form does. Here the value moves by the velocity.",
    "no_momentum": "The velocity is forgotten between the steps, or not used.",
    "sign": "The step goes up: the velocity has to be subtracted.",
    "old_velocity": "The value moves by the velocity of the step before; renew the velocity first, then use it.",
    "lr_mult_on_all": "lr_mult multiplies the whole velocity in every step, also what it holds from before.",
    "lr_mult_squared": "lr_mult is multiplied in twice.",
    "decay_after": "The decay is taken of the value after the step; it belongs to the value before.",
}


def update(
    *,
    values: list[np.ndarray],
    multipliers: list[list[float]],
    steps: list[dict[str, Any]],
    momentum: float,
    decay: float,
    mistake: str = "",
) -> dict[str, Any]:
    values = [np.array(value) for value in values]
    velocities = [np.zeros_like(value) for value in values]
    for step in steps:
        all_lr, all_wd = 1.0, 1.0
        for i, ((lr_mult, decay_mult), g) in enumerate(zip(multipliers, step["gradients"], strict=True)):
            w, v, lr = values[i], velocities[i], step["lr"]
            lr_mult = 1.0 if mistake == "no_lr_mult" else lr_mult
            wd = decay * (1.0 if mistake == "no_decay_mult" else decay_mult)
            all_lr, all_wd = all_lr * lr_mult, all_wd * decay_mult
            if mistake == "carried_on":
                lr_mult, wd = all_lr, decay * all_wd
            wd = {"no_decay": 0.0, "decay_sign": -wd}.get(mistake, wd)
            apart = mistake in ("decoupled", "decay_unscaled", "decay_after")
            pushed = g if apart else g + wd * w
            rate = lr * lr_mult * (lr_mult if mistake == "lr_mult_squared" else 1)
            before = v
            if mistake == "lr_outside":
                v = momentum * v + pushed
                moved = rate * v
            elif mistake == "lr_alone_outside":
                v = momentum * v + lr_mult * pushed
                moved = lr * v
            elif mistake == "lr_mult_on_all":
                v = lr_mult * (momentum * v + lr * pushed)
                moved = v
            else:
                kept = 0.0 if mistake == "no_momentum" else momentum
                v = kept * v + (1 - momentum if mistake == "ema" else 1) * rate * pushed
                moved = v
            if mistake == "decay_unscaled":
                v = moved = v + wd * w
            if mistake == "nesterov":
                moved = momentum * v + rate * pushed
            if mistake == "old_velocity":
                moved = before
            w = w + moved if mistake == "sign" else w - moved
            if mistake == "decoupled":
                w = w - rate * wd * values[i]
            if mistake == "decay_after":
                w = w - rate * wd * w
            values[i], velocities[i] = w.astype(values[i].dtype), np.asarray(v, values[i].dtype)
    return {"values": values, "velocities": velocities}
