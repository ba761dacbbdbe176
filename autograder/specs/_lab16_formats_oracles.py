"""Who knows the answers of ``lab16_formats``: TensorFlow, PyTorch, onnxruntime, and the definitions.

Each oracle takes its framework module first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Node = dict[str, Any]

# --- signature ------------------------------------------------------------------------------------


def _wrong(signature: list[list[Any]], given: dict[str, np.ndarray]) -> list[str]:
    names = [name for name, _, _ in signature]
    return sorted(set(names) ^ set(given))


def signature_definition(numpy: Any, signature: list[list[Any]], given: dict[str, np.ndarray]) -> dict[str, Any]:
    """All pairs of (name of a size, size), looked at together."""
    wrong = set(_wrong(signature, given))
    bound: list[tuple[str, int, str]] = []
    for name, shape, dtype in signature:
        array = given.get(name)
        if array is None:
            continue
        fixed = array.ndim == len(shape) and all(
            isinstance(size, str) or size == came for size, came in zip(shape, array.shape, strict=True)
        )
        if array.dtype.name != dtype or not fixed:
            wrong.add(name)
            continue
        bound += [(size, came, name) for size, came in zip(shape, array.shape, strict=True) if isinstance(size, str)]
    for size, came, name in bound:
        for other, there, where in bound:
            if size == other and came != there:
                wrong |= {name, where}
    if wrong:
        return {"wrong": sorted(wrong)}
    return {"sizes": {size: came for size, came, _ in bound}}


def signature_tensorflow(tensorflow: Any, signature: list[list[Any]], given: dict[str, np.ndarray]) -> dict[str, Any]:
    """tf.TensorSpec for each array, and tf.debugging.assert_shapes for all of them together."""
    tf = tensorflow
    wrong = set(_wrong(signature, given))
    here = [(name, shape, dtype) for name, shape, dtype in signature if name not in wrong]
    tensors = {name: tf.constant(given[name]) for name, _, _ in here}
    for name, shape, dtype in here:
        spec = tf.TensorSpec([None if isinstance(size, str) else size for size in shape], dtype)
        if not spec.is_compatible_with(tensors[name]):
            wrong.add(name)
    fitting = [(name, shape) for name, shape, _ in here if name not in wrong and shape]
    sizes: dict[str, int] = {}
    for i, (name, shape) in enumerate(fitting):
        for other, there in fitting[i:]:
            # An array that differs from itself in one size is not held against one that has another size alone.
            shared = {*shape} & {*there}
            pair = [
                (tensor, [size if size in shared else came for size, came in zip(sizes_of, tensor.shape, strict=True)])
                for tensor, sizes_of in ((tensors[name], shape), (tensors[other], there))
            ]
            try:
                tf.debugging.assert_shapes([(tensor, tuple(sizes_of)) for tensor, sizes_of in pair])
            except ValueError:
                wrong |= {name, other}
        for axis, size in enumerate(shape):
            if isinstance(size, str):
                sizes[size] = int(tensors[name].shape[axis])
    # What fits its own spec and no other array's sizes is named with those it differs from.
    return {"wrong": sorted(wrong)} if wrong else {"sizes": sizes}


# --- freeze ---------------------------------------------------------------------------------------


def freeze_definition(
    numpy: Any, nodes: list[Node], values: dict[str, np.ndarray], outputs: list[str]
) -> dict[str, Any]:
    """From the last node to the first: kept is what an output is, or what a kept node reads."""
    kept = set(outputs)
    for one in reversed(nodes):
        if one["name"] in kept:
            kept |= set(one["inputs"])
    return _frozen([one for one in nodes if one["name"] in kept], values)


def freeze_torch(torch: Any, nodes: list[Node], values: dict[str, np.ndarray], outputs: list[str]) -> dict[str, Any]:
    """A torch.fx graph, from which dead code is eliminated."""
    from torch import fx

    graph = fx.Graph()
    made: dict[str, Any] = {}
    for one in nodes:
        inputs = [made[name] for name in one["inputs"]]
        made[one["name"]] = graph.call_function(len, (inputs,)) if inputs else graph.call_function(dict, ())
    graph.output(tuple(made[name] for name in outputs))
    graph.eliminate_dead_code()
    left = set(graph.nodes)
    return _frozen([one for one in nodes if made[one["name"]] in left], values)


def _frozen(kept: list[Node], values: dict[str, np.ndarray]) -> dict[str, Any]:
    writers = [one["name"] for one in kept if one["op"] == "assign"]
    if writers:
        return {"wrong": writers}
    frozen = []
    for one in kept:
        if one["op"] == "variable":
            value = values[one["name"]]
            frozen.append({"name": one["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append({key: one[key] for key in ("name", "op", "inputs", "attrs")})
    return {"nodes": frozen}


# --- sizes ----------------------------------------------------------------------------------------


def sizes_definition(numpy: Any, first: list[Node], second: list[Node], batches: list[int]) -> dict[str, Any]:
    """Number by number: the same, or the two batch sizes."""
    if len(first) != len(second):
        return {"wrong": [min(len(first), len(second))]}
    steps, wrong = [], []
    for i, (one, two) in enumerate(zip(first, second, strict=True)):
        merged = _merged(one["attrs"], two["attrs"], batches)
        if (one["op"], one["inputs"]) != (two["op"], two["inputs"]) or merged is None:
            wrong.append(i)
        else:
            steps.append({"op": one["op"], "inputs": one["inputs"], "attrs": merged})
    return {"wrong": wrong} if wrong else {"steps": steps}


def _merged(one: Any, two: Any, batches: list[int]) -> Any:
    """None where they differ otherwise than by the batch."""
    if isinstance(one, dict) and isinstance(two, dict):
        if one.keys() != two.keys():
            return None
        parts = {key: _merged(one[key], two[key], batches) for key in one}
        return None if None in parts.values() else parts
    if isinstance(one, list) and isinstance(two, list):
        entries = [_merged(a, b, batches) for a, b in zip(one, two, strict=False)]
        return None if None in entries or len(one) != len(two) else entries
    if type(one) is type(two) and one == two:
        return one
    return "batch" if type(one) is type(two) is int and [one, two] == batches else None


def sizes_torch(torch: Any, first: list[Node], second: list[Node], batches: list[int]) -> dict[str, Any]:
    """Each number as a line through its two values: of slope 0 it is one number, and of slope 1 through 0 the batch."""
    system = torch.tensor([[float(n), 1.0] for n in batches], dtype=torch.float64)
    if len(first) != len(second):
        return {"wrong": [min(len(first), len(second))]}
    wrong, steps = [], []
    for i, (one, two) in enumerate(zip(first, second, strict=True)):
        flat_one, flat_two = _flat(one), _flat(two)
        if [kind for kind, _ in flat_one] != [kind for kind, _ in flat_two]:
            wrong.append(i)
            continue
        found = []
        for (kind, a), (_, b) in zip(flat_one, flat_two, strict=True):
            if not kind.endswith("int"):
                found.append(a if a == b else None)
                continue
            ends = torch.tensor([float(a), float(b)], dtype=torch.float64)
            slope, start = torch.linalg.solve(system, ends).tolist()
            is_batch = abs(slope - 1) < 1e-9 and abs(start) < 1e-9
            found.append(a if abs(slope) < 1e-9 else "batch" if is_batch and "inputs" not in kind else None)
        if None in found:
            wrong.append(i)
            continue
        entries = iter(found)
        next(entries)  # the op
        steps.append({"op": one["op"], "inputs": [next(entries) for _ in one["inputs"]],
                      "attrs": {key: _again(one["attrs"][key], entries) for key in sorted(one["attrs"])}})  # fmt: skip
    return {"wrong": wrong} if wrong else {"steps": steps}


def _flat(step: Node) -> list[tuple[str, Any]]:
    """Every leaf with where it is and of which type."""
    found: list[tuple[str, Any]] = [("op", step["op"])]
    found += [(f"inputs {i} int", one) for i, one in enumerate(step["inputs"])]

    def walk(place: str, value: Any) -> None:
        if isinstance(value, list):
            for i, one in enumerate(value):
                walk(f"{place}/{i}", one)
        else:
            found.append((f"{place} {type(value).__name__}", value))

    for key in sorted(step["attrs"]):
        walk(key, step["attrs"][key])
    return found


def _again(value: Any, entries: Any) -> Any:
    return [_again(one, entries) for one in value] if isinstance(value, list) else next(entries)


# --- export ---------------------------------------------------------------------------------------


def export_torch(torch: Any, nodes: list[Node], weights: dict[str, np.ndarray], x: np.ndarray) -> dict[str, Any]:
    """The network in torch.nn.functional."""
    f = torch.nn.functional
    values: dict[str, Any] = {"x": torch.from_numpy(x.copy())}
    for one in nodes:
        name, op, attrs = one["name"], one["op"], one["attrs"]
        inputs = [values[read] for read in one["inputs"]]
        if op == "variable":
            values[name] = torch.from_numpy(weights[name].copy())
        elif op == "linear":
            values[name] = f.linear(inputs[0], inputs[1].T, inputs[2])
        elif op == "relu":
            values[name] = f.relu(inputs[0])
        elif op == "conv2d":
            values[name] = f.conv2d(*inputs, stride=attrs["stride"], padding=attrs["padding"])
        elif op == "max_pool2d":
            values[name] = f.max_pool2d(inputs[0], attrs["window"], stride=attrs["stride"])
        elif op == "reshape":
            values[name] = inputs[0].reshape(attrs["shape"])
    return {"y": values[nodes[-1]["name"]].numpy()}


def export_onnxruntime(
    onnxruntime: Any, nodes: list[Node], weights: dict[str, np.ndarray], x: np.ndarray
) -> dict[str, Any]:
    """A file written with the onnx package, run by onnxruntime."""
    from onnx import helper, numpy_helper

    onnxruntime.set_default_logger_severity(4)
    made, arrays = [], [numpy_helper.from_array(array, name) for name, array in weights.items()]
    for one in nodes:
        attrs, inputs, name = one["attrs"], list(one["inputs"]), one["name"]
        if one["op"] in ("placeholder", "variable"):
            continue
        kinds = {"linear": "Gemm", "relu": "Relu", "conv2d": "Conv", "max_pool2d": "MaxPool", "reshape": "Reshape"}
        kind, settings = kinds[one["op"]], dict[str, Any]()
        if kind == "Conv":
            settings = {"strides": [attrs["stride"]] * 2, "pads": [attrs["padding"]] * 4}
        elif kind == "MaxPool":
            settings = {"kernel_shape": [attrs["window"]] * 2, "strides": [attrs["stride"]] * 2}
        elif kind == "Reshape":
            arrays.append(numpy_helper.from_array(np.asarray(attrs["shape"], np.int64), f"{name}/shape"))
            inputs.append(f"{name}/shape")
        made.append(helper.make_node(kind, inputs, [name], **settings))
    last = nodes[-1]["name"]
    ends = [helper.make_tensor_value_info("x", 1, list(nodes[0]["attrs"]["shape"]))]
    ends += [helper.make_tensor_value_info(last, 1, None)]
    graph = helper.make_graph(made, "g", ends[:1], ends[1:], arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return {"y": session.run(None, {"x": x})[0]}
