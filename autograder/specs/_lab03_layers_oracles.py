"""Who knows the answers of ``lab03_layers``: torch and TensorFlow compute the same thing their own way; so do we.

Each oracle takes its framework module first.
"""

from __future__ import annotations

from collections import Counter
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from autograder.specs import _lab03_layers_rules as rules


def to_torch(torch: Any, array: np.ndarray, grad: bool = False) -> Any:
    return torch.tensor(np.array(array, order="C"), requires_grad=grad)


# --- fc -------------------------------------------------------------------------------------------


def _fc(outputs: list[Any], by_inputs: list[Any], by_weight: Any, by_bias: Any) -> dict[str, Any]:
    return {
        "outputs": [np.asarray(one) for one in outputs],
        "input_gradients": [np.asarray(one) for one in by_inputs],
        "weight_gradient": np.asarray(by_weight),
        "bias_gradient": np.asarray(by_bias),
        "changed": "",
    }


def fc_torch(torch: Any, weight: np.ndarray, bias: np.ndarray, steps: list[Any], layers: int) -> dict[str, Any]:
    """torch adds to ``.grad`` itself."""
    w, b = to_torch(torch, weight, grad=True), to_torch(torch, bias, grad=True)
    outputs, by_inputs = [], []
    for x, g in steps:
        below = to_torch(torch, x, grad=True)
        out = below
        for _ in range(layers):
            out = torch.nn.functional.linear(out, w.T, b)
        out.backward(to_torch(torch, g))
        outputs.append(out.detach().numpy())
        by_inputs.append(below.grad.numpy())
    return _fc(outputs, by_inputs, w.grad.numpy(), b.grad.numpy())


def fc_tensorflow(
    tensorflow: Any, weight: np.ndarray, bias: np.ndarray, steps: list[Any], layers: int
) -> dict[str, Any]:
    """TensorFlow sums over all steps within one tape."""
    tf = tensorflow
    w, b, below = tf.constant(weight), tf.constant(bias), [tf.constant(x) for x, _ in steps]
    with tf.GradientTape() as tape:
        tape.watch([w, b, *below])
        outputs = below
        for _ in range(layers):
            outputs = [tf.nn.bias_add(tf.linalg.matmul(x, w), b) for x in outputs]
    by_w, by_b, *by_inputs = tape.gradient(outputs, [w, b, *below], [tf.constant(g) for _, g in steps])
    return _fc([one.numpy() for one in outputs], [one.numpy() for one in by_inputs], by_w.numpy(), by_b.numpy())


def fc_steps(numpy: Any, weight: np.ndarray, bias: np.ndarray, steps: list[Any], layers: int) -> dict[str, Any]:
    """Differences without cancellation: steps along the imaginary axis."""

    def through(x: Any, w: Any, b: Any) -> Any:
        for _ in range(layers):
            x = x @ w + b
        return x

    def slope(array: np.ndarray, moved_loss: Any) -> np.ndarray:
        found = np.zeros(array.shape)
        for place in np.ndindex(array.shape):
            moved = np.array(array, np.complex128)
            moved[place] += 1e-30j
            found[place] = np.imag(moved_loss(moved)) / 1e-30
        return np.asarray(found, array.dtype)

    return _fc(
        [through(x, weight, bias) for x, _ in steps],
        [slope(x, lambda moved, g=g: np.sum(g * through(moved, weight, bias))) for x, g in steps],
        slope(weight, lambda moved: sum(np.sum(g * through(x, moved, bias)) for x, g in steps)),
        slope(bias, lambda moved: sum(np.sum(g * through(x, weight, moved)) for x, g in steps)),
    )


# --- pool -----------------------------------------------------------------------------------------


def pool_torch(torch: Any, x: np.ndarray, g: np.ndarray, window: int, stride: int) -> dict[str, Any]:
    below = to_torch(torch, x, grad=True)
    if not x.size:
        return rules.pool(x=x, g=g, window=window, stride=stride)  # torch takes no empty batch here
    out = torch.nn.functional.max_pool2d(below, window, stride)
    out.backward(to_torch(torch, g))
    return {"output": out.detach().numpy(), "input_gradient": below.grad.numpy()}


def pool_tensorflow(tensorflow: Any, x: np.ndarray, g: np.ndarray, window: int, stride: int) -> dict[str, Any]:
    """TensorFlow has channels last, and on the CPU gives the gradient to the first of the pixels that tie."""
    tf = tensorflow
    if not x.size:
        return rules.pool(x=x, g=g, window=window, stride=stride)
    below = tf.constant(np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
    out, places = tf.nn.max_pool_with_argmax(below, window, stride, "VALID", include_batch_in_index=True)
    flat = tf.reshape(tf.constant(np.ascontiguousarray(g.transpose(0, 2, 3, 1))), (-1,))
    back = tf.reshape(
        tf.math.unsorted_segment_sum(flat, tf.reshape(places, (-1,)), int(np.prod(below.shape))), below.shape
    )
    return {name: value.numpy().transpose(0, 3, 1, 2) for name, value in (("output", out), ("input_gradient", back))}


def pool_windows(numpy: Any, x: np.ndarray, g: np.ndarray, window: int, stride: int) -> dict[str, Any]:
    return rules.pool(x=x, g=g, window=window, stride=stride)


# --- order ----------------------------------------------------------------------------------------
# Many orders are right; the oracles say whether there is one, and whom a refusal has to name.


def _spelled(layers: list[list[Any]]) -> dict[str, Any] | None:
    """What is wrong before any graph is looked at."""
    counts = Counter(name for name, _ in layers)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        return {"verdict": "twice", "names": twice}
    missing = sorted({bottom for _, bottoms in layers for bottom in bottoms} - set(counts))
    return {"verdict": "missing", "names": missing} if missing else None


def _verdict(circle: list[str]) -> dict[str, Any]:
    return {"verdict": "circle", "names": circle} if circle else {"verdict": "order", "names": []}


def _adjacency(layers: list[list[Any]]) -> tuple[list[str], np.ndarray]:
    names = [name for name, _ in layers]
    reads = np.zeros((len(names), len(names)))
    for i, (_, bottoms) in enumerate(layers):
        for bottom in bottoms:
            reads[i, names.index(bottom)] = 1
    return names, reads


def order_torch(torch: Any, layers: list[list[Any]], repeat: int) -> dict[str, Any]:
    """A layer lies on a circle if it reaches itself: the closure of "reads", by squaring the matrix."""
    wrong = _spelled(layers)
    if wrong:
        return wrong
    names, reads = _adjacency(layers)
    reach = torch.tensor(reads)
    for _ in names:
        reach = torch.clamp(reach + reach @ reach, max=1.0)
    return _verdict(sorted(name for name, back in zip(names, torch.diagonal(reach).tolist(), strict=True) if back))


def order_tensorflow(tensorflow: Any, layers: list[list[Any]], repeat: int) -> dict[str, Any]:
    """Layers on a circle keep a path of any length: what a vector of ones leaves after as many products as layers."""
    tf = tensorflow
    wrong = _spelled(layers)
    if wrong:
        return wrong
    names, reads = _adjacency(layers)
    found = []
    for i, name in enumerate(names):
        walk = tf.one_hot([i], len(names), dtype=tf.float64)
        for _ in names:
            walk = tf.cast(tf.linalg.matmul(walk, tf.constant(reads)) > 0, tf.float64)
            if float(walk[0, i]):
                found.append(name)
                break
    return _verdict(sorted(found))


def order_sorter(numpy: Any, layers: list[list[Any]], repeat: int) -> dict[str, Any]:
    """The standard library's sorter finds a circle; cut at its first arrow, the next; all of them are on one."""
    wrong = _spelled(layers)
    if wrong:
        return wrong
    reads = {name: set(bottoms) for name, bottoms in layers}
    try:
        list(TopologicalSorter(reads).static_order())
        return _verdict([])
    except CycleError:
        pass

    def reaches(start: str) -> bool:
        seen: set[str] = set()
        waiting = list(reads[start])
        while waiting:
            name = waiting.pop()
            if name == start:
                return True
            if name not in seen:
                seen.add(name)
                waiting.extend(reads[name])
        return False

    return _verdict(sorted(name for name in reads if reaches(name)))


# --- machine --------------------------------------------------------------------------------------
# The whole batch at once, in float64, whatever the shares.


def _machine(loss: Any, by_weight: Any, by_bias: Any, dtype: np.dtype, fault: int) -> dict[str, Any]:
    if fault >= 0:
        return {"raised": "FloatingPointError"}
    gradients = {"weight": np.asarray(by_weight, dtype), "bias": np.asarray(by_bias, dtype)}
    return {"loss": float(loss), "gradients": gradients}


def machine_torch(
    torch: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray, threads: int, fault: int
) -> dict[str, Any]:
    w, b = (to_torch(torch, one.astype(np.float64), grad=True) for one in (weight, bias))
    loss = torch.nn.functional.mse_loss(torch.tensor(x.astype(np.float64)) @ w + b, torch.tensor(y.astype(np.float64)))
    loss.backward()
    return _machine(loss.item(), w.grad.numpy(), b.grad.numpy(), weight.dtype, fault)


def machine_tensorflow(
    tensorflow: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray, threads: int, fault: int
) -> dict[str, Any]:
    tf = tensorflow
    w, b = tf.constant(weight.astype(np.float64)), tf.constant(bias.astype(np.float64))
    with tf.GradientTape() as tape:
        tape.watch([w, b])
        loss = tf.reduce_mean(tf.square(tf.constant(x.astype(np.float64)) @ w + b - tf.constant(y.astype(np.float64))))
    by_w, by_b = tape.gradient(loss, [w, b])
    return _machine(loss.numpy(), by_w.numpy(), by_b.numpy(), weight.dtype, fault)


def machine_sum(
    numpy: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray, threads: int, fault: int
) -> dict[str, Any]:
    wide = x.astype(np.float64)
    error = wide @ weight.astype(np.float64) + bias - y
    return _machine(np.mean(error**2), 2 * wide.T @ error / len(x), 2 * error.sum(axis=0) / len(x), weight.dtype, fault)


# --- update ---------------------------------------------------------------------------------------


def _updated(values: list[np.ndarray], velocities: list[np.ndarray]) -> dict[str, Any]:
    return {
        "values": values,
        "velocities": velocities,
        "gradients": [np.zeros_like(value) for value in values],
        "held": values,
    }


def update_torch(
    torch: Any, values: list[Any], multipliers: list[Any], steps: list[Any], momentum: float, decay: float
) -> dict[str, Any]:
    """torch keeps the step size out of the velocity; with a step size of 1 and gradients multiplied by it, it is in."""
    leaves = [to_torch(torch, value, grad=True) for value in values]
    optimizers = [torch.optim.SGD([leaf], lr=1.0, momentum=momentum) for leaf in leaves]
    for step in steps:
        for leaf, optimizer, (lr_mult, decay_mult), g in zip(
            leaves, optimizers, multipliers, step["gradients"], strict=True
        ):
            leaf.grad = step["lr"] * lr_mult * (to_torch(torch, g) + decay * decay_mult * leaf.detach())
            optimizer.step()
    velocities = []
    for leaf, optimizer in zip(leaves, optimizers, strict=True):
        buffer = optimizer.state[leaf].get("momentum_buffer") if leaf in optimizer.state else None
        if buffer is None:  # without momentum torch keeps none: the velocity is the last step
            buffer = leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)
        velocities.append(buffer.detach().numpy())
    return _updated([leaf.detach().numpy() for leaf in leaves], velocities)


def update_tensorflow(
    tensorflow: Any, values: list[Any], multipliers: list[Any], steps: list[Any], momentum: float, decay: float
) -> dict[str, Any]:
    """Keras's form has the step size in the velocity, and the sign: v = momentum * v - lr * g, w += v."""
    tf = tensorflow
    variables = [tf.Variable(value) for value in values]
    velocities = [tf.Variable(np.zeros_like(value)) for value in values]
    for step in steps:
        for w, v, (lr_mult, decay_mult), g in zip(variables, velocities, multipliers, step["gradients"], strict=True):
            whole = tf.constant(g) + tf.constant(decay * decay_mult, w.dtype) * w
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=w.handle,
                accum=v.handle,
                lr=tf.constant(step["lr"] * lr_mult, w.dtype),
                grad=whole,
                momentum=tf.constant(momentum, w.dtype),
            )
    return _updated([w.numpy() for w in variables], [0 - v.numpy() for v in velocities])


def update_numpy(
    numpy: Any, values: list[Any], multipliers: list[Any], steps: list[Any], momentum: float, decay: float
) -> dict[str, Any]:
    found = rules.update(values=values, multipliers=multipliers, steps=steps, momentum=momentum, decay=decay)
    return _updated(found["values"], found["velocities"])
