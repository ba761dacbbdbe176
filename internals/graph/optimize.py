"""Optimizers as nodes: one that moves a variable along its gradient, by the same rules as `internals.optim`.

What a rule remembers is kept in variables of the graph, so that it is saved, restored and placed as they are.
TensorFlow 1 had the same: an `ApplyAdam` node, and slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals import optim
from internals.device import device_of
from internals.graph.gradients import gradients
from internals.graph.graph import APPLY, VARIABLE, check_variable
from internals.graph.node import GraphError, Node
from internals.graph.plan import needed
from internals.graph.state import rule_of


def minimize(
    loss: Node,
    variables: Sequence[Node] | None = None,
    optimizer: type[optim.Optimizer] = optim.SGD,
    *,
    lr: float | Node,
    **settings: Any,
) -> Node:
    """A node that makes one step of an optimizer when it runs.

    Parameters
    ----------
    loss : Node
        One floating value.
    variables : sequence of Node, optional
        What to move; unless given, all floating variables that the loss is computed from.
    optimizer : class of `internals.optim`
    lr : float, or Node of no axes
        The step size; a placeholder, or what a schedule computes, may differ from run to run.
    settings
        The optimizer's own, such as ``momentum``.

    Raises
    ------
    GraphError
        The loss is not one value, or it depends on none of the variables.
    TypeError, ValueError
        A setting that the optimizer does not have, or does not take.

    Examples
    --------
    >>> train = minimize(loss, optimizer=optim.Adam, lr=1e-3)
    >>> session.initialise()
    >>> session.run([loss, train], {x: batch, y: labels})
    """
    if not isinstance(loss, Node) or isinstance(loss.dtype, tuple) or loss.shape != ():
        what = f"{loss!r} (made at {loss.where})" if isinstance(loss, Node) else type(loss).__name__
        raise GraphError(f"minimize: the loss must be a node of one value, got {what}. Take its mean().")
    if variables is None:
        variables = [node for node in needed([loss]) if node.op is VARIABLE and node.dtype.kind not in "biu"]
    variables = list(variables)
    for node in variables:
        check_variable("minimize", node)
    pairs = list(zip(gradients(loss, variables), variables, strict=True))
    if all(gradient is None for gradient, _ in pairs):
        raise GraphError(f"minimize: {loss.name} (made at {loss.where}) is computed from none of the variables.")
    return apply_gradients(pairs, optimizer, lr=lr, **settings)


def apply_gradients(
    pairs: Sequence[tuple[Node | None, Node]],
    optimizer: type[optim.Optimizer] = optim.SGD,
    *,
    lr: float | Node,
    **settings: Any,
) -> Node:
    """A node that moves variables along gradients, which may have been clipped or averaged first; see `minimize`.

    Parameters
    ----------
    pairs : sequence of (gradient, variable)
        A variable without a gradient (None) stays.
    """
    if not isinstance(lr, Node):
        rule = rule_of(optimizer.__name__, {**settings, "lr": lr})
    elif lr.shape != () or lr.dtype.kind != "f":
        raise GraphError(f"minimize: lr must be one floating value, got {lr!r} (made at {lr.where}).")
    else:
        rule = rule_of(optimizer.__name__, settings)
    group = {name: value for name, value in rule.param_groups[0].items() if name not in ("params", "lr")}
    steps = []
    for gradient, variable in pairs:
        check_variable("minimize", variable)
        if gradient is None:
            continue
        if gradient.shape != variable.shape or gradient.dtype != variable.dtype:
            raise GraphError(
                f"minimize: {gradient!r} (made at {gradient.where}) is no gradient of {variable!r} (made at "
                f"{variable.where})."
            )
        graph = variable.graph
        with graph.device(variable.device):
            slots = _slots(rule, variable, optimizer.__name__)
            attrs = {"optimizer": optimizer.__name__, "settings": dict(group)}
            steps.append(graph.add(APPLY, (variable, gradient, lr, *slots), attrs))
    if not steps:
        raise GraphError("minimize: no variable has a gradient.")
    return steps[0].graph.group(steps)


def _slots(rule: optim.Optimizer, variable: Node, optimizer: str) -> list[Node]:
    """Variables for what the rule remembers of another: how often it moved, then its arrays."""
    settings = rule.param_groups[0]
    names = rule.slots(settings)
    if not names:
        return []
    graph, initial = variable.graph, variable.attrs["initial"]
    like = (
        np.zeros(variable.shape, variable.dtype) if isinstance(initial, Node) else device_of(initial).to_host(initial)
    )
    with graph.scope(f"{variable.name}/{optimizer}"):
        with graph.device("cpu"):  # a count, which the host reads
            step = graph.variable(np.zeros((), np.int64), name="step")
        return [step, *(graph.variable(rule.start(name, like, np, settings), name=name) for name in names)]
