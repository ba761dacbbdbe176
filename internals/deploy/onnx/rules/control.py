"""Export rules for branches and loops: If, Loop and Scan, whose bodies are graphs within the operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from internals.deploy.onnx.builder import Builder, Name, Value
from internals.deploy.onnx.rules.recurrent import is_used
from internals.deploy.onnx.rules.table import rule
from internals.graph import Function, Node


def _parts(node: Node) -> tuple[dict[str, Function], dict[str, int]]:
    _, functions, numbers = node.op.made  # type: ignore[attr-defined]
    return functions, numbers


def _values(b: Builder, nodes: Sequence[Node]) -> list[Value]:
    """What is known of nodes, under new names."""
    return [Value(b.name(f"{b.scope}/{node.name}"), node.shape, node.dtype) for node in nodes]


def _single(b: Builder, name: Name, node: Node) -> Name:
    """A condition without axes, as Loop wants it."""
    return b.reshape(name, []) if node.shape else name


@rule("call")
def _call(b: Builder, node: Node, *values: Value) -> list[Name]:
    functions, _ = _parts(node)
    return b.inline(functions["function"], values, node.inputs)


@rule("cond")
def _cond(b: Builder, node: Node, condition: Value, *values: Value) -> list[Name]:
    functions, _ = _parts(node)
    then, otherwise = functions["then"], functions["otherwise"]
    split = len(then.inputs)
    branches = {}
    for what, function, own in (("then", then, slice(0, split)), ("else", otherwise, slice(split, None))):

        def write(function: Function = function, own: slice = own) -> list[Name]:
            return b.inline(function, values[own], node.inputs[1:][own])

        ends = [Value("", one.shape, one.dtype) for one in function.outputs]
        branches[f"{what}_branch"] = b.graph(what, [], write, ends)
    return b.ops("If", len(then.outputs), condition, **branches)


@rule("while_loop")
def _while_loop(b: Builder, node: Node, *values: Value) -> list[Name]:
    """Loop without a number of rounds, and the condition asked before the first round and after each.

    A state that is the condition becomes Loop's own, as it is where the loop was read from such a file.
    """
    functions, numbers = _parts(node)
    test, step, n = functions["condition"], functions["body"], numbers["n"]
    asked, used = slice(n, n + len(test.captures)), slice(n + len(test.captures), None)
    place = next((i for i in range(n) if test.inputs[i] is test.outputs[0]), None)
    state = [i for i in range(n) if i != place]
    inner = _values(b, step.inputs[:n])
    count = Value(b.name(f"{b.scope}/round"), (), np.dtype(np.int64))
    going = Value(b.name(f"{b.scope}/going"), (), np.dtype(bool))

    def condition(names: Sequence[Value | Name]) -> Name:
        if place is not None:
            name = names[place]
            return _single(b, name.name if isinstance(name, Value) else name, test.outputs[0])
        bound = [*[None] * n, *node.inputs[asked]]
        return _single(b, b.inline(test, [*names, *values[asked]], bound)[0], test.outputs[0])

    def write() -> list[Name]:
        given: list[Value | Name] = list(inner)
        if place is not None:
            given[place] = b.reshape(going, [1]) if test.outputs[0].shape else going
        after = b.inline(step, [*given, *values[used]], [*[None] * n, *node.inputs[used]])
        return [condition(after), *[after[i] for i in state]]

    first = condition(values[:n])
    ends = [going, *[Value("", step.outputs[i].shape, step.outputs[i].dtype) for i in state]]
    body = b.graph("body", [count, going, *[inner[i] for i in state]], write, ends)
    found = b.ops("Loop", len(state), "", first, *[values[i] for i in state], body=body)
    if place is not None:  # the loop has ended, so the condition is false
        found.insert(place, b.constant(np.zeros(step.outputs[place].shape, bool)))
    return found


@rule("scan")
def _scan(b: Builder, node: Node, *values: Value) -> list[Name]:
    """Scan; the carry before each step is one more of its outputs where something reads it."""
    functions, numbers = _parts(node)
    step, n, m = functions["body"], numbers["n"], numbers["m"]
    outputs = len(step.outputs)
    if node.inputs[n].shape[0] == 0:  # which onnxruntime refuses
        shapes = [[int(size or 0) for size in shape] for shape in node.shape[n:]]
        empty = [b.filled(b.integers(shape), 0, one) for shape, one in zip(shapes, node.dtype[n:], strict=True)]
        return [*[value.name for value in values[:n]], *empty]
    kept = [i for i in range(n) if is_used(node, outputs + i)]
    inner = _values(b, step.inputs[: n + m])

    def write() -> list[Name]:
        found = b.inline(step, [*inner, *values[n + m :]], [*[None] * (n + m), *node.inputs[n + m :]])
        return [*found, *[inner[i].name for i in kept]]

    ends = [Value("", one.shape, one.dtype) for one in (*step.outputs, *[step.inputs[i] for i in kept])]
    body = b.graph("body", inner, write, ends)
    found = b.ops("Scan", outputs + len(kept), *values[: n + m], body=body, num_scan_inputs=m)
    before = dict(zip(kept, found[outputs:], strict=True))
    return [*found[:outputs], *[before.get(i, "") for i in range(n)]]
