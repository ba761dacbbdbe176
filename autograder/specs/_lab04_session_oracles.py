"""Who knows the answers of ``lab04_session``: TensorFlow's graphs, PyTorch's (torch.fx), and the definitions.

Each oracle takes its framework module first.
"""

from __future__ import annotations

import graphlib
from typing import Any

import numpy as np

from autograder.drivers.lab04_session import chain

Graph = dict[str, list[str]]


# --- prune ----------------------------------------------------------------------------------------


def prune_tensorflow(
    tensorflow: Any, inputs: Graph, fetches: list[str], fed: list[str], length: int
) -> dict[str, list[str]]:
    """A tf.Graph in which fed nodes are placeholders; what `extract_sub_graph` keeps of it."""
    tf = tensorflow
    inputs, fetches = _whole(inputs, fetches, length)
    if not fetches:
        return {"needed": []}
    with tf.Graph().as_default() as graph:
        made: dict[str, Any] = {}
        for name in _forward(inputs):
            if name in fed or not inputs[name]:
                made[name] = tf.compat.v1.placeholder(tf.float32, (), name=name)
            else:
                made[name] = tf.raw_ops.AddN(inputs=[made[one] for one in inputs[name]], name=name)
        kept = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), list(dict.fromkeys(fetches)))
    return {"needed": sorted(node.name for node in kept.node)}


def prune_torch(torch: Any, inputs: Graph, fetches: list[str], fed: list[str], length: int) -> dict[str, list[str]]:
    """A torch.fx graph, from which dead code is eliminated."""
    from torch import fx

    inputs, fetches = _whole(inputs, fetches, length)
    graph = fx.Graph()
    made: dict[str, Any] = {}
    for name in _forward(inputs):
        if name in fed or not inputs[name]:
            made[name] = graph.placeholder(f"p_{name}")
        else:
            made[name] = graph.call_function(sum, ([made[one] for one in inputs[name]],))
    graph.output(tuple(made[name] for name in fetches))
    graph.eliminate_dead_code()
    left = set(graph.nodes)
    # It keeps placeholders, the signature of the function, whether or not anybody reads them.
    return {"needed": sorted(name for name, node in made.items() if node in left and node.users)}


def prune_definition(
    numpy: Any, inputs: Graph, fetches: list[str], fed: list[str], length: int
) -> dict[str, list[str]]:
    inputs, fetches = _whole(inputs, fetches, length)
    found = set(fetches)
    for name in reversed(_forward(inputs)):
        if name in found and name not in fed:
            found.update(inputs[name])
    return {"needed": sorted(found)}


def _whole(inputs: Graph, fetches: list[str], length: int) -> tuple[Graph, list[str]]:
    return (chain(length), [f"n{length - 1}"]) if length else (inputs, fetches)


def _forward(inputs: Graph) -> list[str]:
    return list(graphlib.TopologicalSorter(inputs).static_order())


# --- order ----------------------------------------------------------------------------------------


def order_torch(torch: Any, inputs: Graph, length: int) -> dict[str, bool]:
    """Whether there is an order: torch.fx sorts a graph topologically, or says that it has a cycle."""
    from torch import fx
    from torch.fx.passes.tools_common import legalize_graph

    inputs = chain(length) if length else inputs
    graph = fx.Graph()
    made = {name: graph.call_function(sum, ([],)) for name in inputs}
    graph.output(tuple(made.values()))
    for name, needed in inputs.items():
        made[name].args = ([made[one] for one in needed],)
    try:
        legalize_graph(fx.GraphModule(torch.nn.Module(), graph))
    except RuntimeError as error:
        if "cycle" not in str(error):
            raise
        return {"cycle": True}
    return {"cycle": False}


def order_definition(numpy: Any, inputs: Graph, length: int) -> dict[str, bool]:
    try:
        _forward(chain(length) if length else inputs)
    except graphlib.CycleError:
        return {"cycle": True}
    return {"cycle": False}


# --- queue ----------------------------------------------------------------------------------------
# Many schedules are right. What does not depend on the choice is when each node is done with a worker for each.


def queue_torch(torch: Any, inputs: Graph, seconds: dict[str, float], workers: int) -> dict[str, float]:
    done: dict[str, Any] = {}
    for name in _forward(inputs):
        begin = torch.stack([done[one] for one in inputs[name]]).max() if inputs[name] else torch.zeros((), dtype=float)
        done[name] = begin + seconds[name]
    return {name: float(done[name]) for name in sorted(done)}


def queue_tensorflow(tensorflow: Any, inputs: Graph, seconds: dict[str, float], workers: int) -> dict[str, float]:
    tf = tensorflow
    done: dict[str, Any] = {}
    for name in _forward(inputs):
        begin = (
            tf.reduce_max(tf.stack([done[one] for one in inputs[name]])) if inputs[name] else tf.zeros((), tf.float64)
        )
        done[name] = begin + seconds[name]
    return {name: float(done[name].numpy()) for name in sorted(done)}


def queue_definition(numpy: Any, inputs: Graph, seconds: dict[str, float], workers: int) -> dict[str, float]:
    """The longest way to each node, by as many rounds of relaxation as there are nodes."""
    done = dict.fromkeys(inputs, 0.0)
    for _ in inputs:
        done = {name: seconds[name] + max([done[one] for one in inputs[name]], default=0.0) for name in inputs}
    return {name: done[name] for name in sorted(done)}


# --- free -----------------------------------------------------------------------------------------


def free_torch(torch: Any, order: list[str], inputs: Graph, fetches: list[str]) -> dict[str, list[list[str]]]:
    """torch.fx's interpreter frees values after their last use; this is what it looks up."""
    from torch import fx

    graph = fx.Graph()
    made: dict[str, Any] = {}
    for name in order:
        made[name] = graph.call_function(sum, ([made[one] for one in inputs[name]],))
    graph.output(tuple(made[name] for name in fetches))
    last = fx.Interpreter(fx.GraphModule(torch.nn.Module(), graph)).user_to_last_uses
    names = {node: name for name, node in made.items()}
    freed = [sorted(names[one] for one in last.get(made[name], ())) for name in order]
    for position, name in enumerate(order):
        if not made[name].users:  # the interpreter forgets those in its next step
            freed[position] = sorted([*freed[position], name])
    return {"freed": freed}


def free_definition(numpy: Any, order: list[str], inputs: Graph, fetches: list[str]) -> dict[str, list[list[str]]]:
    freed: list[list[str]] = []
    gone: set[str] = set(fetches)
    for position in range(len(order)):
        later = {one for name in order[position + 1 :] for one in inputs[name]}
        now = [name for name in order[: position + 1] if name not in later and name not in gone]
        gone.update(now)
        freed.append(sorted(now))
    return {"freed": freed}


# --- feed -----------------------------------------------------------------------------------------


def feed_tensorflow(
    tensorflow: Any, name: str, shape: list[int | None], dtype: str, value: np.ndarray
) -> dict[str, bool]:
    """Whether a tf.TensorSpec takes it."""
    tf = tensorflow
    return {"fits": bool(tf.TensorSpec(shape, tf.as_dtype(dtype)).is_compatible_with(tf.constant(value)))}


def feed_torch(torch: Any, name: str, shape: list[int | None], dtype: str, value: np.ndarray) -> dict[str, bool]:
    """Whether torch can view it with the sizes that are known, and takes it for this dtype's own."""
    tensor = torch.from_numpy(np.array(value))
    if tensor.dim() != len(shape) or tensor.dtype != getattr(torch, dtype):
        return {"fits": False}
    return {
        "fits": tensor.shape
        == torch.Size([n if size is None else size for size, n in zip(shape, tensor.shape, strict=True)])
    }


def feed_definition(numpy: Any, name: str, shape: list[int | None], dtype: str, value: np.ndarray) -> dict[str, bool]:
    sizes = len(shape) == value.ndim and all(a is None or a == b for a, b in zip(shape, value.shape, strict=True))
    return {"fits": bool(sizes and value.dtype.name == dtype)}
