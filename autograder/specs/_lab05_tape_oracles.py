"""Who knows the answers of ``lab05_tape``: torch and TensorFlow, asked directly, and a third way by arithmetic.

Each oracle takes its framework module first. The third way differentiates by complex steps, which are finite
differences without cancellation: ``f'(x) = Im f(x + ih) / h``, exact to the last digits for any small h
(Squire & Trapp 1998, SIAM Review 40(1)).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.drivers.lab05_tape import label
from autograder.specs._lab05_tape_programs import Step, evaluate

STEP = 1e-30


def complex_step(f: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """The gradient of the real scalar ``f`` at `x`, one entry at a time."""
    gradient = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        moved = np.array(x, dtype=np.complex128)
        moved[index] += 1j * STEP
        gradient[index] = np.imag(f(moved)) / STEP
    return np.asarray(gradient, dtype=x.dtype)


def to_torch(torch: Any, array: np.ndarray, *, grad: bool = False) -> Any:
    # torch takes no negative strides, and no memory it may not write to.
    return torch.tensor(np.array(array, order="C"), requires_grad=grad)


# --- rules ----------------------------------------------------------------------------------------


def rules_torch(torch: Any, op: str, g: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    a, b = to_torch(torch, x, grad=True), to_torch(torch, y, grad=True)
    result = torch.mul(a, b) if op == "mul" else torch.matmul(a, b)
    return [gradient.numpy() for gradient in torch.autograd.grad(result, (a, b), to_torch(torch, g))]


def rules_tensorflow(tensorflow: Any, op: str, g: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    tf = tensorflow
    a, b = tf.constant(x), tf.constant(y)
    with tf.GradientTape() as tape:
        tape.watch([a, b])
        if op == "mul":
            result = tf.multiply(a, b)
        else:
            # tf.linalg.matmul wants at least matrices: 1-D operands become a row and a column, and leave again.
            result = tf.linalg.matmul(a[tf.newaxis, :] if x.ndim == 1 else a, b[:, tf.newaxis] if y.ndim == 1 else b)
            result = (
                tf.squeeze(result, axis=[-2] * (x.ndim == 1) + [-1] * (y.ndim == 1))
                if 1 in (x.ndim, y.ndim)
                else result
            )
    return [gradient.numpy() for gradient in tape.gradient(result, [a, b], output_gradients=tf.constant(g))]


def rules_differences(numpy: Any, op: str, g: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    forward = np.multiply if op == "mul" else np.matmul
    return [
        complex_step(lambda moved: np.sum(g * forward(moved, y)), x),
        complex_step(lambda moved: np.sum(g * forward(x, moved)), y),
    ]


# --- order ----------------------------------------------------------------------------------------
# Many orders are right. What the frameworks are asked for is the one thing that does not depend on the order: which
# nodes of the motif a backward pass from the root reaches.


def order_torch(torch: Any, inputs: list[list[int]], root: int, repeat: int) -> dict[str, list[str]]:
    values = [torch.ones((), dtype=torch.float64, requires_grad=True) for _ in inputs]
    for index in _forward_order(inputs):
        if inputs[index]:
            values[index] = torch.stack([values[k] for k in inputs[index]]).sum()
    gradients = torch.autograd.grad(values[root], values, torch.tensor(1.5, dtype=torch.float64), allow_unused=True)
    return {"reached": [label(index) for index, gradient in enumerate(gradients) if gradient is not None]}


def order_tensorflow(tensorflow: Any, inputs: list[list[int]], root: int, repeat: int) -> dict[str, list[str]]:
    tf = tensorflow
    values = [tf.ones((), tf.float64) for _ in inputs]
    with tf.GradientTape() as tape:
        tape.watch(values)
        for index in _forward_order(inputs):
            if inputs[index]:
                values[index] = tf.reduce_sum(tf.stack([values[k] for k in inputs[index]]))
    gradients = tape.gradient(values[root], values)
    return {"reached": [label(index) for index, gradient in enumerate(gradients) if gradient is not None]}


def order_reach(numpy: Any, inputs: list[list[int]], root: int, repeat: int) -> dict[str, list[str]]:
    waiting, reached = [root], {root}
    while waiting:
        for index in inputs[waiting.pop()]:
            if index not in reached:
                reached.add(index)
                waiting.append(index)
    return {"reached": [label(index) for index in sorted(reached)]}


def _forward_order(inputs: list[list[int]]) -> list[int]:
    """Indices such that a node's inputs come before it; by repeated sweeps, plain and fast enough for a motif."""
    done: list[int] = []
    ready: set[int] = set()
    while len(done) < len(inputs):
        for index, needed in enumerate(inputs):
            if index not in ready and ready.issuperset(needed):
                ready.add(index)
                done.append(index)
    return done


# --- accumulate -----------------------------------------------------------------------------------


def accumulate_torch(torch: Any, arrays: list[np.ndarray], steps: list[list[Any]], nodes: int) -> dict[str, Any]:
    """Every node is a leaf; a contribution is a backward pass into it; torch adds it to ``.grad``."""
    values = [to_torch(torch, array) for array in arrays]
    leaves = [torch.zeros_like(values[0], requires_grad=True) for _ in range(nodes)]
    for index, kind, which in steps:
        if kind != "none":
            leaves[index].backward(gradient=values[which] if kind == "array" else leaves[which].grad.clone())
    return {
        "sums": {label(index): leaf.grad.numpy() for index, leaf in enumerate(leaves) if leaf.grad is not None},
        "changed": "",
    }


def accumulate_tensorflow(
    tensorflow: Any, arrays: list[np.ndarray], steps: list[list[Any]], nodes: int
) -> dict[str, Any]:
    """Every node is used once per contribution; TensorFlow sums what flows back into it."""
    tf = tensorflow
    contributions: list[list[Any]] = [[] for _ in range(nodes)]

    def total(index: int) -> Any:
        source = tf.zeros(arrays[0].shape, arrays[0].dtype)
        with tf.GradientTape() as tape:
            tape.watch(source)
            target = tf.add_n([tf.reduce_sum(source * value) for value in contributions[index]])
        return tape.gradient(target, source)

    for index, kind, which in steps:
        if kind != "none":
            contributions[index].append(tf.constant(arrays[which]) if kind == "array" else total(which))
    return {
        "sums": {label(index): total(index).numpy() for index in range(nodes) if contributions[index]},
        "changed": "",
    }


def accumulate_sum(numpy: Any, arrays: list[np.ndarray], steps: list[list[Any]], nodes: int) -> dict[str, Any]:
    sums: dict[int, np.ndarray] = {}
    for index, kind, which in steps:
        if kind != "none":
            value = (arrays[which] if kind == "array" else sums[which]).astype(np.float64)
            sums[index] = sums.get(index, np.zeros(value.shape)) + value
    return {
        "sums": {label(index): np.asarray(sums[index], dtype=arrays[0].dtype) for index in sorted(sums)},
        "changed": "",
    }


# --- backward -------------------------------------------------------------------------------------


# A chain of equal linear motifs multiplies by the same derivative every time: one motif is differentiated, with a
# cotangent of ones, and its derivative raised to the length of the chain.


def backward_torch(
    torch: Any, steps: list[Step], partials: list[Any], root: int, cotangent: np.ndarray, repeat: int
) -> dict[str, Any]:
    leaves = [to_torch(torch, step["value"], grad=True) if step["op"] == "leaf" else None for step in steps]
    moved = [step | {"by": to_torch(torch, step["by"])} if "by" in step else step for step in steps]
    value = evaluate(moved, leaves, torch.sin, torch.sum, lambda y: y.detach())[root]
    places = [index for index, leaf in enumerate(leaves) if leaf is not None]
    seed = to_torch(torch, cotangent)
    gradients = torch.autograd.grad(
        value, [leaves[index] for index in places], seed if repeat == 1 else torch.ones_like(seed), allow_unused=True
    )
    if repeat > 1:
        gradients = [seed * gradients[0] ** repeat]
    return _untouched(
        {label(index): found.numpy() for index, found in zip(places, gradients, strict=True) if found is not None}
    )


def backward_tensorflow(
    tensorflow: Any, steps: list[Step], partials: list[Any], root: int, cotangent: np.ndarray, repeat: int
) -> dict[str, Any]:
    tf = tensorflow
    leaves = [tf.constant(step["value"]) if step["op"] == "leaf" else None for step in steps]
    places = [index for index, leaf in enumerate(leaves) if leaf is not None]
    sources = [leaves[index] for index in places]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        value = evaluate(steps, leaves, tf.sin, tf.reduce_sum, tf.stop_gradient)[root]
    seed = tf.constant(cotangent)
    gradients = tape.gradient(value, sources, output_gradients=seed if repeat == 1 else tf.ones_like(seed))
    if repeat > 1:
        gradients = [seed * tf.pow(gradients[0], tf.cast(repeat, seed.dtype))]
    return _untouched(
        {label(index): found.numpy() for index, found in zip(places, gradients, strict=True) if found is not None}
    )


def backward_differences(
    numpy: Any, steps: list[Step], partials: list[Any], root: int, cotangent: np.ndarray, repeat: int
) -> dict[str, Any]:
    leaves: list[Any] = [step.get("value") for step in steps]
    reached, waiting = {root}, [root]
    while waiting:
        step = steps[waiting.pop()]
        carrying = step["inputs"][:1] if step["op"] == "gate" else step["inputs"]
        waiting.extend(set(carrying) - reached)
        reached.update(carrying)

    gradients = {}
    for place in (index for index, leaf in enumerate(leaves) if leaf is not None and index in reached):

        def pulled(moved: np.ndarray, place: int = place) -> Any:
            values = evaluate(steps, [*leaves[:place], moved, *leaves[place + 1 :]], np.sin, np.sum, np.real)
            return np.sum((cotangent if repeat == 1 else 1.0) * values[root])

        gradient = complex_step(pulled, leaves[place])
        gradients[label(place)] = gradient if repeat == 1 else cotangent * gradient**repeat
    return _untouched(gradients)


def _untouched(gradients: dict[str, np.ndarray]) -> dict[str, Any]:
    """As the driver reports a pass that ran no rule twice and left the cotangent alone."""
    return {"gradients": gradients, "again": "", "changed": ""}


# --- stale ----------------------------------------------------------------------------------------
# TensorFlow is not asked: reading a variable copies it, so an in-place change can't reach what its tape holds.


def stale_torch(torch: Any, tensors: list[np.ndarray], events: list[list[Any]]) -> list[dict[str, Any]]:
    """A function that saves what is recorded; a take is a backward pass through it; torch counts the versions."""
    taken: list[list[np.ndarray]] = []

    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, source: Any, *saved: Any) -> Any:
            ctx.save_for_backward(*saved)
            return source.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            taken.append([tensor.detach().clone().numpy() for tensor in ctx.saved_tensors])
            return (g, *(None for _ in ctx.saved_tensors))

    held = [to_torch(torch, array) for array in tensors]
    source = torch.ones((), requires_grad=True)
    records: list[Any] = []
    outcomes: list[dict[str, Any]] = []
    for kind, first, second in events:
        if kind == "record":
            records.append(Keep.apply(source, *(held[k] for k in second)))
        elif kind == "change":
            held[first].add_(to_torch(torch, second))
        else:
            try:
                torch.autograd.grad(records[first], source, torch.tensor(1.5), retain_graph=second)
            except RuntimeError as error:
                if "inplace operation" not in str(error) and "second time" not in str(error):
                    raise
                outcomes.append({"raised": "StaleTape", "names_op": True})
            else:
                outcomes.append({"arrays": taken[-1]})
    return outcomes


def stale_count(numpy: Any, tensors: list[np.ndarray], events: list[list[Any]]) -> list[dict[str, Any]]:
    """The same, by counting: what was recorded when, what changed since, what was given away."""
    now = [array.copy() for array in tensors]
    changes = [0] * len(tensors)
    records: list[dict[str, Any]] = []
    outcomes: list[dict[str, Any]] = []
    for kind, first, second in events:
        if kind == "record":
            records.append(
                {
                    "of": second,
                    "at": [changes[k] for k in second],
                    "arrays": [now[k].copy() for k in second],
                    "gone": False,
                }
            )
        elif kind == "change":
            now[first] = now[first] + second
            changes[first] += 1
        else:
            record = records[first]
            if record["gone"] or record["at"] != [changes[k] for k in record["of"]]:
                outcomes.append({"raised": "StaleTape", "names_op": True})
            else:
                outcomes.append({"arrays": record["arrays"]})
                record["gone"] = not second
    return outcomes
