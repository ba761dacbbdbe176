"""``lab03_layers``: a layer with its backward, a net's order, and the gradient machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.literal import literal
from autograder.spec import Lab, Task
from autograder.specs import _lab03_layers_cases as cases
from autograder.specs import _lab03_layers_judges as judges
from autograder.specs import _lab03_layers_oracles as oracles
from autograder.specs._source import source

# --- replays: source that shows a case in the learner's own notebook ---------------------------------


def replay_fc(weight: np.ndarray, bias: np.ndarray, steps: list[list[np.ndarray]], layers: int) -> str:
    lines = [f"weight, bias = Parameter({source(weight)}), Parameter({source(bias)})"]
    lines += [f"layers = [FullyConnected(weight, bias) for _ in range({layers})]", "outputs, input_gradients = [], []"]
    for x, g in steps:
        lines += [
            f"x, g = {source(x)}, {source(g)}",
            "for layer in layers: x = layer.forward(x)",
            "for layer in reversed(layers): g = layer.backward(g)",
            "outputs.append(x); input_gradients.append(g)",
        ]
    return "\n".join([*lines, "outputs, input_gradients, weight.gradient, bias.gradient"])


def replay_pool(x: np.ndarray, g: np.ndarray, window: int, stride: int) -> str:
    return f"x = {source(x)}\ng = {source(g)}\nlayer = MaxPool({window}, {stride})\nlayer.forward(x), layer.backward(g)"


def replay_order(layers: list[list[Any]], repeat: int) -> str:
    if repeat == 1:
        given = ", ".join(f'{{"name": {name!r}, "bottom": {list(bottoms)!r}}}' for name, bottoms in layers)
        return f"order([{given}])"
    return "\n".join(
        [
            f"motif, copies = {layers!r}, {repeat}  # copies of a motif, each on top of the one before",
            "layers = [{'name': f'{name}/{n}', 'bottom': [f'{b}/{n}' for b in bottoms]}",
            "          for n in range(copies) for name, bottoms in motif]",
            "for n in range(1, copies):",
            f"    layers[n * {len(layers)}]['bottom'].append(f'{layers[-1][0]}/{{n - 1}}')",
            "order(layers[::-1])",
        ]
    )


def replay_machine(x: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray, threads: int, fault: int) -> str:
    lines = [f"{name} = {source(array)}" for name, array in (("x", x), ("y", y), ("weight", weight), ("bias", bias))]
    lines += [
        "def step(batch):",
        *([f"    if {fault} in batch['row']: raise FloatingPointError('this share fails')"] if fault >= 0 else []),
        "    error = batch['x'] @ weight + bias - batch['y']",
        "    by_error = error * x.dtype.type(2 / len(error))",
        "    gradients = {'weight': batch['x'].T @ by_error, 'bias': by_error.sum(axis=0)}",
        "    return float(np.mean(error * error)), gradients",
        f"forward_backward(step, {{'x': x, 'y': y, 'row': np.arange(len(x))}}, {threads})",
    ]
    return "\n".join(lines)


def replay_update(
    values: list[np.ndarray],
    multipliers: list[list[float]],
    steps: list[dict[str, Any]],
    momentum: float,
    decay: float,
) -> str:
    lines = ["parameters = []"]
    for value, (lr_mult, decay_mult) in zip(values, multipliers, strict=True):
        lines += [
            f"p = Parameter({source(value)}); p.velocity = np.zeros_like(p.value)",
            f"p.lr_mult, p.decay_mult = {lr_mult}, {decay_mult}; parameters.append(p)",
        ]
    for step in steps:
        lines += [f"parameters[{i}].gradient = {source(g)}" for i, g in enumerate(step["gradients"])]
        lines.append(f"update(parameters, {step['lr']}, {momentum}, {decay})")
    return "\n".join([*lines, "[p.value for p in parameters], [p.velocity for p in parameters]"])


# --- answers in the words of the lab ------------------------------------------------------------------


def show_fc(answer: Any) -> str:
    lines = []
    for i, (out, back) in enumerate(zip(answer["outputs"], answer["input_gradients"], strict=True)):
        lines.append(f"step {i}: y = {literal(out)}, gradient by x = {literal(back)}")
    return "\n".join(
        [
            *lines,
            f"weight.gradient = {literal(answer['weight_gradient'])}",
            f"bias.gradient = {literal(answer['bias_gradient'])}",
        ]
    )


def show_pool(answer: Any) -> str:
    return f"forward: {literal(answer['output'])}\nbackward: {literal(answer['input_gradient'])}"


def show_order(answer: Any) -> str:
    if "refused" in answer:
        return f"ValueError: {answer['refused']}"
    if "order" in answer:
        names = answer["order"]
        return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:10])}, ... ({len(names)} in all)"
    if answer["verdict"] == "order":
        return "every layer once, each after its bottoms"
    return f"a ValueError whose message names {' or '.join(map(repr, answer['names']))}"


def show_machine(answer: Any) -> str:
    runs = answer.get("runs", [answer])
    shown = []
    for run in runs[: 1 if len(runs) == 2 and _shown(runs[0]) == _shown(runs[1]) else 2]:
        shown.append(_shown(run))
    return "\n".join(shown)


def _shown(run: Any) -> str:
    if "raised" in run:
        return f"{run['raised']} comes out"
    gradients = ", ".join(f"{name} {literal(one)}" for name, one in run["gradients"].items())
    return f"loss {run['loss']!r}; gradients: {gradients}"


def show_update(answer: Any) -> str:
    return f"values = {literal(answer['values'])}\nvelocities = {literal(answer['velocities'])}"


# --- the tasks ------------------------------------------------------------------------------------

DTYPE = "What comes back has the dtype of what came in."
READ_ONLY = "What comes into a layer belongs to the layers around it: work on new arrays."

FC_HINTS = {
    "dtype": DTYPE,
    "read_only": READ_ONLY,
    "none_used": "forward returns y, and backward returns the gradient by x.",
    "attribute": "backward finds x where forward left it: self.x = x.",
    "inner_sizes": "Shapes decide: x is (n, in), g is (n, out), the weight (in, out).",
    "broadcast": "The bias has shape (out,): its gradient is g summed over the rows.",
}

FC = Task(
    name="fc",
    title="A layer with its backward",
    points=20,
    names=("FullyConnected",),
    driver="fc",
    call=replay_fc,
    show=show_fc,
    strategy=cases.fc_strategy,
    edges=cases.fc_edges,
    oracles={"torch": oracles.fc_torch, "tensorflow": oracles.fc_tensorflow, "numpy": oracles.fc_steps},
    judge=judges.fc_judge(FC_HINTS),
    hints=FC_HINTS,
)

POOL_HINTS = {
    "dtype": DTYPE,
    "read_only": READ_ONLY,
    "shape": "With n pixels there are (n - window) // stride + 1 windows; the gradient by x has the shape of x, also "
    "where no window looks.",
    "broadcast": "Window (i, j) begins at row i * stride, column j * stride.",
    "reshape": "Windows may overlap or leave gaps, so a reshape into blocks does not do.",
    "off_by_one": "Windows may overlap or leave gaps, so a reshape into blocks does not do: with n pixels there are "
    "(n - window) // stride + 1 windows.",
    "empty": "The batch may be empty.",
    "index": "With n pixels there are (n - window) // stride + 1 windows.",
}

POOL = Task(
    name="pooling",
    title="A pooling layer, whose windows may overlap",
    points=20,
    names=("MaxPool",),
    driver="pool",
    call=replay_pool,
    show=show_pool,
    strategy=cases.pool_strategy,
    edges=cases.pool_edges,
    oracles={"torch": oracles.pool_torch, "tensorflow": oracles.pool_tensorflow, "numpy": oracles.pool_windows},
    judge=judges.pool_judge(POOL_HINTS),
    hints=POOL_HINTS,
)

ORDER = Task(
    name="layer_order",
    title="From a configuration to an order, or a refusal",
    points=20,
    names=("order",),
    driver="order",
    call=replay_order,
    show=show_order,
    strategy=cases.order_strategy,
    edges=cases.order_edges,
    oracles={"torch": oracles.order_torch, "tensorflow": oracles.order_tensorflow, "numpy": oracles.order_sorter},
    judge=judges.order,
    limit=3.0,
    hints={
        "recursion": f"The longest configuration has {cases.CHAIN:,} layers: keep a list of what is ready. And round a "
        "circle of layers recursion goes for ever.",
        "time": f"If the input shown is short, something is waited for that never comes: a layer on a circle, or one "
        f"that is not there. If it is long: the longest configuration has {cases.CHAIN:,} layers, so touch each layer "
        "and each bottom once. `in` on a list looks through all of it, and so does list.pop(0); a dict, a set and "
        "collections.deque don't.",
        "key": "A bottom that is no layer is an error of the configuration: raise a ValueError that names it.",
        "none_used": "order has to return the list.",
    },
)

MACHINE = Task(
    name="machine",
    title="The gradient machine: shares, threads, one mean",
    points=25,
    names=("forward_backward",),
    driver="machine",
    call=replay_machine,
    show=show_machine,
    strategy=cases.machine_strategy,
    edges=cases.machine_edges,
    oracles={"torch": oracles.machine_torch, "tensorflow": oracles.machine_tensorflow, "numpy": oracles.machine_sum},
    judge=judges.machine,
    limit=4.0,
    hints={
        "read_only": "The gradients that step returns belong to its thread: make new arrays of the sums.",
        "time": "Wait for threads that were started, and for no others.",
        "signature": "step takes one argument, a dict like the batch with fewer rows.",
    },
)

UPDATE_HINTS = {
    "dtype": DTYPE,
    "read_only": READ_ONLY,
}

UPDATE = Task(
    name="update",
    title="Momentum, with settings for each parameter",
    points=15,
    names=("update",),
    driver="update",
    call=replay_update,
    show=show_update,
    strategy=cases.update_strategy,
    edges=cases.update_edges,
    oracles={"torch": oracles.update_torch, "tensorflow": oracles.update_tensorflow, "numpy": oracles.update_numpy},
    judge=judges.update_judge(UPDATE_HINTS),
    hints=UPDATE_HINTS,
)

lab = Lab(
    name="lab03_layers",
    title="Layer by layer: layers with their backward, and the machine that runs them",
    tasks=(FC, POOL, ORDER, MACHINE, UPDATE),
)
