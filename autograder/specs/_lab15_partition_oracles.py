"""Who knows the answers of ``lab15_partition``: TensorFlow's partitioner and placer, torch's store, and definitions.

Each oracle takes its framework module first.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np

from autograder.drivers.lab15_partition import Node, Plain, chain, graph_of

Steps = list[list[Any]]


# --- reach ----------------------------------------------------------------------------------------


def reach_tensorflow(tensorflow: Any, graph: Plain, fetches: list[str], length: int) -> list[str]:
    """What `extract_sub_graph` keeps of a tf.Graph with the same control edges."""
    whole, fetches = _whole(graph, fetches, length)
    if not fetches:
        return []
    with tensorflow.Graph().as_default() as built:
        _build(tensorflow, whole, {})
        kept = tensorflow.compat.v1.graph_util.extract_sub_graph(built.as_graph_def(), list(dict.fromkeys(fetches)))
    return sorted(node.name for node in kept.node if node.name in whole)


def reach_definition(numpy: Any, graph: Plain, fetches: list[str], length: int) -> list[str]:
    whole, fetches = _whole(graph, fetches, length)
    found = set(fetches)
    for name in reversed(whole):
        if name in found:
            found.update(whole[name].inputs, whole[name].controls)
    return sorted(found)


def _whole(graph: Plain, fetches: list[str], length: int) -> tuple[dict[str, Node], list[str]]:
    return (chain(length), [f"n{length - 1}"]) if length else (graph_of(graph), fetches)


def _build(tf: Any, graph: dict[str, Node], devices: dict[str, str]) -> dict[str, Any]:
    """The nodes as operations of TensorFlow; without inputs a value that can be fed, with some their sum."""
    made: dict[str, Any] = {}
    for name, node in graph.items():
        with ExitStack() as scopes:
            scopes.enter_context(tf.control_dependencies([made[one].op for one in node.controls]))
            if name in devices:
                scopes.enter_context(tf.device(devices[name]))
            if node.inputs:
                made[name] = tf.raw_ops.AddN(inputs=[made[one] for one in node.inputs], name=name)
            else:
                made[name] = tf.compat.v1.placeholder_with_default(np.float32(1.0), (), name=name)
    return made


# --- places ---------------------------------------------------------------------------------------


def places_tensorflow(tensorflow: Any, graph: Plain, default: str) -> dict[str, str]:
    """What `colocate_with` and `device` make of the same wishes."""
    tf, nodes = tensorflow, graph_of(graph)
    spelled = {str(tf.DeviceSpec.from_string(name).to_string()): name for name in [default, *_asked(nodes)]}
    made: dict[str, Any] = {}
    with tf.Graph().as_default(), tf.device(default):
        left = list(nodes)
        while left:
            name = next(one for one in left if nodes[one].beside is None or nodes[one].beside in made)
            left.remove(name)
            with ExitStack() as scopes:
                if nodes[name].device is not None:
                    scopes.enter_context(tf.device(nodes[name].device))
                beside = nodes[name].beside
                if beside is not None:
                    scopes.enter_context(tf.compat.v1.colocate_with(made[beside]))
                made[name] = tf.no_op(name=f"node_{name}")
    return {name: spelled[made[name].device] for name in nodes}


def places_definition(numpy: Any, graph: Plain, default: str) -> dict[str, str]:
    found = {}
    for name in graph:
        first = name
        while graph[first]["beside"] is not None:
            first = graph[first]["beside"]
        found[name] = graph[first]["device"] or default
    return found


def _asked(nodes: dict[str, Node]) -> list[str]:
    return [node.device for node in nodes.values() if node.device is not None]


# --- cut ------------------------------------------------------------------------------------------


def cut_tensorflow(tensorflow: Any, graph: Plain, places: dict[str, str]) -> list[list[str]]:
    """[node, device it is sent to], of the graphs that TensorFlow's own partitioner makes."""
    tf, nodes = tensorflow, graph_of(graph)
    if not nodes:
        return []
    v1, names = tf.compat.v1, sorted(set(places.values()))
    config = v1.ConfigProto(device_count={"CPU": len(names)}, allow_soft_placement=False)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    with tf.Graph().as_default():
        made = _build(tf, nodes, {name: f"/cpu:{names.index(place)}" for name, place in places.items()})
        told = v1.RunMetadata()
        with v1.Session(config=config) as session:
            options = v1.RunOptions(output_partition_graphs=True)
            session.run([one.op for one in made.values()], options=options, run_metadata=told)
    edges = set()
    for part in told.partition_graphs:
        for one in part.node:
            if one.op == "_Send":  # the tensor is called edge_12_name
                sent = one.attr["tensor_name"].s.decode().split("_", 2)[2]
                target = one.attr["recv_device"].s.decode().rpartition(":")[2]
                edges.add((sent, names[int(target)]))
    return sorted([sent, target] for sent, target in edges if sent in nodes)


def cut_definition(numpy: Any, graph: Plain, places: dict[str, str]) -> list[list[str]]:
    nodes = graph_of(graph)
    edges = {
        (source, places[name]) for name, node in nodes.items() for source in (*node.inputs, *node.controls)
        if places[source] != places[name]
    }  # fmt: skip
    return sorted([source, target] for source, target in edges)


# --- meet -----------------------------------------------------------------------------------------


def meet_torch(torch: Any, actions: list[list[Any]]) -> dict[str, Any]:
    """torch.distributed's key-value store, with the step in the key."""
    store, ended, taken = torch.distributed.HashStore(), set(), []
    keys: set[str] = set()
    for what, step, *rest in actions:
        key = f"{step}/{rest[0] if rest else ''}"
        if what == "put" and step not in ended:
            store.set(key, str(rest[1]))
            keys.add(key)
        elif what == "take":
            there = key in keys and store.check([key])
            taken.append(int(store.get(key)) if there else None)
            keys -= {key} if there and store.delete_key(key) else set()
        elif what == "abort":
            ended.add(step)
            for one in sorted(keys):
                if one.startswith(f"{step}/"):
                    store.delete_key(one)
                    keys.discard(one)
    return {"taken": taken, "held": sum(store.check([key]) for key in keys)}


def meet_definition(numpy: Any, actions: list[list[Any]]) -> dict[str, Any]:
    """Each `take`, looked up in what was done before it."""

    def there(until: int, step: int, name: str) -> Any:
        value = None
        for what, when, *rest in actions[:until]:
            if when != step:
                continue
            if what == "abort":
                return None
            if rest[0] == name:
                value = rest[1] if what == "put" else None
        return value

    taken = [there(i, step, rest[0]) for i, (what, step, *rest) in enumerate(actions) if what == "take"]
    known = {(step, rest[0]) for what, step, *rest in actions if what == "put"}
    held = sum(there(len(actions), step, name) is not None for step, name in known)
    return {"taken": taken, "held": held}


# --- share ----------------------------------------------------------------------------------------


def share_numpy(
    numpy: Any, parts: list[Steps], inputs: dict[str, list[str]], constants: dict[str, float], count: int,
    conditions: dict[str, Any],
) -> list[dict[str, float]]:  # fmt: skip
    """The whole graph in one process: for each step the value of each node."""
    return [_evaluated(inputs, constants, step, float) for step in range(count)]


def share_torch(
    torch: Any, parts: list[Steps], inputs: dict[str, list[str]], constants: dict[str, float], count: int,
    conditions: dict[str, Any],
) -> list[dict[str, float]]:  # fmt: skip
    """The same by (I - A)⁻¹ c, where A says who reads whom."""
    names = list(inputs)
    reads = torch.zeros((len(names), len(names)), dtype=torch.float64)
    for name, sources in inputs.items():
        for source in sources:
            reads[names.index(name), names.index(source)] += 1
    own = torch.tensor([constants[name] for name in names], dtype=torch.float64)
    found = []
    for step in range(count):
        values = torch.linalg.solve(torch.eye(len(names), dtype=torch.float64) - reads, own * (step + 1))
        found.append({name: float(round(float(value))) for name, value in zip(names, values, strict=True)})
    return found


def _evaluated(inputs: dict[str, list[str]], constants: dict[str, float], step: int, kind: Any) -> dict[str, float]:
    values: dict[str, float] = {}
    while len(values) < len(inputs):
        for name, sources in inputs.items():
            if name not in values and all(source in values for source in sources):
                values[name] = kind(constants[name] * (step + 1) + sum(values[source] for source in sources))
    return {name: values[name] for name in inputs}
