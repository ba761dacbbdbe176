"""Answers to the task `onnx`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821, F841

# %% right: a helper that adds


def export(nodes, weights):
    last = nodes[-1]["name"]
    rename = {node["name"]: node["name"] for node in nodes} | {last: "y"}
    made, arrays = [], {}

    def add(kind, node, *more, **attrs):
        inputs = [rename[name] for name in node["inputs"]] + list(more)
        made.append({"op_type": kind, "inputs": inputs, "outputs": [rename[node["name"]]], "attrs": attrs})

    for node in nodes:
        attrs = node["attrs"]
        if node["op"] == "variable":
            arrays[node["name"]] = weights[node["name"]]
        elif node["op"] == "linear":
            add("Gemm", node)
        elif node["op"] == "relu":
            add("Relu", node)
        elif node["op"] == "conv2d":
            s, p = attrs["stride"], attrs["padding"]
            add("Conv", node, strides=[s, s], pads=[p, p, p, p])
        elif node["op"] == "max_pool2d":
            k, s = attrs["window"], attrs["stride"]
            add("MaxPool", node, kernel_shape=[k, k], strides=[s, s])
        elif node["op"] == "reshape":
            shape = node["name"] + ":shape"
            arrays[shape] = np.array(attrs["shape"], dtype=np.int64)
            add("Reshape", node, shape)
    return {"nodes": made, "initializers": arrays}


# %% right: transposed weights, and everything written out


def export(nodes, weights):
    names = [node["name"] for node in nodes]
    result = {"nodes": [], "initializers": {}}
    used_by = {}
    for node in nodes:
        for name in node["inputs"]:
            used_by.setdefault(name, set()).add(node["op"])
    for node in nodes:
        op = node["op"]
        if op in ("placeholder", "variable"):
            if op == "variable":
                array = weights[node["name"]]
                turned = used_by[node["name"]] == {"linear"} and array.ndim == 2
                result["initializers"][node["name"]] = array.T.copy() if turned else array
            continue
        output = "y" if node["name"] == names[-1] else node["name"]
        inputs, attrs = list(node["inputs"]), {}
        if op == "linear":
            kind, attrs = "Gemm", {"transB": 1, "alpha": 1.0}
        elif op == "conv2d":
            kind = "Conv"
            attrs = {
                "kernel_shape": [int(k) for k in weights[inputs[1]].shape[2:]],
                "group": 1,
                "dilations": [1, 1],
                "strides": [node["attrs"]["stride"]] * 2,
                "pads": [node["attrs"]["padding"]] * 4,
            }
        elif op == "max_pool2d":
            kind = "MaxPool"
            attrs = {
                "kernel_shape": [node["attrs"]["window"]] * 2,
                "strides": [node["attrs"]["stride"]] * 2,
                "pads": [0, 0, 0, 0],
            }
        elif op == "reshape":
            kind = "Reshape"
            result["initializers"]["shape of " + output] = np.asarray(node["attrs"]["shape"])
            inputs.append("shape of " + output)
        else:
            kind = "Relu"
        result["nodes"].append({"op_type": kind, "inputs": inputs, "outputs": [output], "attrs": attrs})
    return result


# %% wrong: not written | has not been filled


def export(nodes, weights):
    raise NotImplementedError("your code here")


# %% wrong: the output has its own name | no node makes y


def export(nodes, weights):
    last = nodes[-1]["name"]
    rename = {node["name"]: node["name"] for node in nodes}
    made, arrays = [], {}

    def add(kind, node, *more, **attrs):
        inputs = [rename[name] for name in node["inputs"]] + list(more)
        made.append({"op_type": kind, "inputs": inputs, "outputs": [rename[node["name"]]], "attrs": attrs})

    for node in nodes:
        attrs = node["attrs"]
        if node["op"] == "variable":
            arrays[node["name"]] = weights[node["name"]]
        elif node["op"] == "linear":
            add("Gemm", node)
        elif node["op"] == "relu":
            add("Relu", node)
        elif node["op"] == "conv2d":
            s, p = attrs["stride"], attrs["padding"]
            add("Conv", node, strides=[s, s], pads=[p, p, p, p])
        elif node["op"] == "max_pool2d":
            k, s = attrs["window"], attrs["stride"]
            add("MaxPool", node, kernel_shape=[k, k], strides=[s, s])
        elif node["op"] == "reshape":
            shape = node["name"] + ":shape"
            arrays[shape] = np.array(attrs["shape"], dtype=np.int64)
            add("Reshape", node, shape)
    return {"nodes": made, "initializers": arrays}


# %% wrong: Gemm's weight turned | can't run on|other values


def export(nodes, weights):
    last = nodes[-1]["name"]
    rename = {node["name"]: node["name"] for node in nodes} | {last: "y"}
    made, arrays = [], {}

    def add(kind, node, *more, **attrs):
        inputs = [rename[name] for name in node["inputs"]] + list(more)
        made.append({"op_type": kind, "inputs": inputs, "outputs": [rename[node["name"]]], "attrs": attrs})

    for node in nodes:
        attrs = node["attrs"]
        if node["op"] == "variable":
            arrays[node["name"]] = weights[node["name"]]
        elif node["op"] == "linear":
            add("Gemm", node, transB=1)
        elif node["op"] == "relu":
            add("Relu", node)
        elif node["op"] == "conv2d":
            s, p = attrs["stride"], attrs["padding"]
            add("Conv", node, strides=[s, s], pads=[p, p, p, p])
        elif node["op"] == "max_pool2d":
            k, s = attrs["window"], attrs["stride"]
            add("MaxPool", node, kernel_shape=[k, k], strides=[s, s])
        elif node["op"] == "reshape":
            shape = node["name"] + ":shape"
            arrays[shape] = np.array(attrs["shape"], dtype=np.int64)
            add("Reshape", node, shape)
    return {"nodes": made, "initializers": arrays}


# %% wrong: the bias is left out | other values|read by no node


def export(nodes, weights):
    last = nodes[-1]["name"]
    rename = {node["name"]: node["name"] for node in nodes} | {last: "y"}
    made, arrays = [], {}

    def add(kind, node, *more, **attrs):
        inputs = [rename[name] for name in node["inputs"][:2]] + list(more)
        made.append({"op_type": kind, "inputs": inputs, "outputs": [rename[node["name"]]], "attrs": attrs})

    for node in nodes:
        attrs = node["attrs"]
        if node["op"] == "variable":
            arrays[node["name"]] = weights[node["name"]]
        elif node["op"] == "linear":
            add("Gemm", node)
        elif node["op"] == "relu":
            add("Relu", node)
        elif node["op"] == "conv2d":
            s, p = attrs["stride"], attrs["padding"]
            add("Conv", node, strides=[s, s], pads=[p, p, p, p])
        elif node["op"] == "max_pool2d":
            k, s = attrs["window"], attrs["stride"]
            add("MaxPool", node, kernel_shape=[k, k], strides=[s, s])
        elif node["op"] == "reshape":
            shape = node["name"] + ":shape"
            arrays[shape] = np.array(attrs["shape"], dtype=np.int64)
            add("Reshape", node, shape)
    return {"nodes": made, "initializers": arrays}


# %% wrong: two pads | pads is a list of 4


def export(nodes, weights):
    last = nodes[-1]["name"]
    rename = {node["name"]: node["name"] for node in nodes} | {last: "y"}
    made, arrays = [], {}

    def add(kind, node, *more, **attrs):
        inputs = [rename[name] for name in node["inputs"]] + list(more)
        made.append({"op_type": kind, "inputs": inputs, "outputs": [rename[node["name"]]], "attrs": attrs})

    for node in nodes:
        attrs = node["attrs"]
        if node["op"] == "variable":
            arrays[node["name"]] = weights[node["name"]]
        elif node["op"] == "linear":
            add("Gemm", node)
        elif node["op"] == "relu":
            add("Relu", node)
        elif node["op"] == "conv2d":
            s, p = attrs["stride"], attrs["padding"]
            add("Conv", node, strides=[s, s], pads=[p, p])
        elif node["op"] == "max_pool2d":
            k, s = attrs["window"], attrs["stride"]
            add("MaxPool", node, kernel_shape=[k, k], strides=[s, s])
        elif node["op"] == "reshape":
            shape = node["name"] + ":shape"
            arrays[shape] = np.array(attrs["shape"], dtype=np.int64)
            add("Reshape", node, shape)
    return {"nodes": made, "initializers": arrays}


# %% wrong: padding on one side | shape|other values


def export(nodes, weights):
    last = nodes[-1]["name"]
    rename = {node["name"]: node["name"] for node in nodes} | {last: "y"}
    made, arrays = [], {}

    def add(kind, node, *more, **attrs):
        inputs = [rename[name] for name in node["inputs"]] + list(more)
        made.append({"op_type": kind, "inputs": inputs, "outputs": [rename[node["name"]]], "attrs": attrs})

    for node in nodes:
        attrs = node["attrs"]
        if node["op"] == "variable":
            arrays[node["name"]] = weights[node["name"]]
        elif node["op"] == "linear":
            add("Gemm", node)
        elif node["op"] == "relu":
            add("Relu", node)
        elif node["op"] == "conv2d":
            s, p = attrs["stride"], attrs["padding"]
            add("Conv", node, strides=[s, s], pads=[p, p, 0, 0])
        elif node["op"] == "max_pool2d":
            k, s = attrs["window"], attrs["stride"]
            add("MaxPool", node, kernel_shape=[k, k], strides=[s, s])
        elif node["op"] == "reshape":
            shape = node["name"] + ":shape"
            arrays[shape] = np.array(attrs["shape"], dtype=np.int64)
            add("Reshape", node, shape)
    return {"nodes": made, "initializers": arrays}


# %% wrong: a stride that is a number | strides is a list of 2


def export(nodes, weights):
    last = nodes[-1]["name"]
    rename = {node["name"]: node["name"] for node in nodes} | {last: "y"}
    made, arrays = [], {}

    def add(kind, node, *more, **attrs):
        inputs = [rename[name] for name in node["inputs"]] + list(more)
        made.append({"op_type": kind, "inputs": inputs, "outputs": [rename[node["name"]]], "attrs": attrs})

    for node in nodes:
        attrs = node["attrs"]
        if node["op"] == "variable":
            arrays[node["name"]] = weights[node["name"]]
        elif node["op"] == "linear":
            add("Gemm", node)
        elif node["op"] == "relu":
            add("Relu", node)
        elif node["op"] == "conv2d":
            s, p = attrs["stride"], attrs["padding"]
            add("Conv", node, strides=s, pads=[p, p, p, p])
        elif node["op"] == "max_pool2d":
            k, s = attrs["window"], attrs["stride"]
            add("MaxPool", node, kernel_shape=[k, k], strides=[s, s])
        elif node["op"] == "reshape":
            shape = node["name"] + ":shape"
            arrays[shape] = np.array(attrs["shape"], dtype=np.int64)
            add("Reshape", node, shape)
    return {"nodes": made, "initializers": arrays}


# %% wrong: the pool's stride is left out | shape|other values|can't run


def export(nodes, weights):
    last = nodes[-1]["name"]
    rename = {node["name"]: node["name"] for node in nodes} | {last: "y"}
    made, arrays = [], {}

    def add(kind, node, *more, **attrs):
        inputs = [rename[name] for name in node["inputs"]] + list(more)
        made.append({"op_type": kind, "inputs": inputs, "outputs": [rename[node["name"]]], "attrs": attrs})

    for node in nodes:
        attrs = node["attrs"]
        if node["op"] == "variable":
            arrays[node["name"]] = weights[node["name"]]
        elif node["op"] == "linear":
            add("Gemm", node)
        elif node["op"] == "relu":
            add("Relu", node)
        elif node["op"] == "conv2d":
            s, p = attrs["stride"], attrs["padding"]
            add("Conv", node, strides=[s, s], pads=[p, p, p, p])
        elif node["op"] == "max_pool2d":
            k, s = attrs["window"], attrs["stride"]
            add("MaxPool", node, kernel_shape=[k, k])
        elif node["op"] == "reshape":
            shape = node["name"] + ":shape"
            arrays[shape] = np.array(attrs["shape"], dtype=np.int64)
            add("Reshape", node, shape)
    return {"nodes": made, "initializers": arrays}


# %% wrong: the shape is an attribute | no attribute shape|inputs, got 1


def export(nodes, weights):
    last = nodes[-1]["name"]
    rename = {node["name"]: node["name"] for node in nodes} | {last: "y"}
    made, arrays = [], {}

    def add(kind, node, *more, **attrs):
        inputs = [rename[name] for name in node["inputs"]] + list(more)
        made.append({"op_type": kind, "inputs": inputs, "outputs": [rename[node["name"]]], "attrs": attrs})

    for node in nodes:
        attrs = node["attrs"]
        if node["op"] == "variable":
            arrays[node["name"]] = weights[node["name"]]
        elif node["op"] == "linear":
            add("Gemm", node)
        elif node["op"] == "relu":
            add("Relu", node)
        elif node["op"] == "conv2d":
            s, p = attrs["stride"], attrs["padding"]
            add("Conv", node, strides=[s, s], pads=[p, p, p, p])
        elif node["op"] == "max_pool2d":
            k, s = attrs["window"], attrs["stride"]
            add("MaxPool", node, kernel_shape=[k, k], strides=[s, s])
        elif node["op"] == "reshape":
            shape = node["name"] + ":shape"
            add("Reshape", node, shape=list(attrs["shape"]))
    return {"nodes": made, "initializers": arrays}


# %% wrong: the batch is written down | this batch only|can't run


def export(nodes, weights):
    last = nodes[-1]["name"]
    rename = {node["name"]: node["name"] for node in nodes} | {last: "y"}
    made, arrays = [], {}

    def add(kind, node, *more, **attrs):
        inputs = [rename[name] for name in node["inputs"]] + list(more)
        made.append({"op_type": kind, "inputs": inputs, "outputs": [rename[node["name"]]], "attrs": attrs})

    for node in nodes:
        attrs = node["attrs"]
        if node["op"] == "variable":
            arrays[node["name"]] = weights[node["name"]]
        elif node["op"] == "linear":
            add("Gemm", node)
        elif node["op"] == "relu":
            add("Relu", node)
        elif node["op"] == "conv2d":
            s, p = attrs["stride"], attrs["padding"]
            add("Conv", node, strides=[s, s], pads=[p, p, p, p])
        elif node["op"] == "max_pool2d":
            k, s = attrs["window"], attrs["stride"]
            add("MaxPool", node, kernel_shape=[k, k], strides=[s, s])
        elif node["op"] == "reshape":
            shape = node["name"] + ":shape"
            arrays[shape] = np.array([3 if n == -1 else n for n in attrs["shape"]], dtype=np.int64)
            add("Reshape", node, shape)
    return {"nodes": made, "initializers": arrays}


# %% wrong: inputs are added to the nodes that were given | changed the nodes and weights


def export(nodes, weights):
    last = nodes[-1]["name"]
    made, arrays = [], {}
    for node in nodes:
        attrs, inputs = node["attrs"], node["inputs"]
        if node["op"] == "placeholder":
            continue
        if node["op"] == "variable":
            arrays[node["name"]] = weights[node["name"]]
            continue
        settings = {}
        if node["op"] == "conv2d":
            settings = {"strides": [attrs["stride"]] * 2, "pads": [attrs["padding"]] * 4}
        elif node["op"] == "max_pool2d":
            settings = {"kernel_shape": [attrs["window"]] * 2, "strides": [attrs["stride"]] * 2}
        elif node["op"] == "reshape":
            inputs.append(node["name"] + "_shape")
            arrays[inputs[-1]] = np.array(attrs["shape"], np.int64)
        kinds = {"linear": "Gemm", "relu": "Relu", "conv2d": "Conv", "max_pool2d": "MaxPool", "reshape": "Reshape"}
        out = "y" if node["name"] == last else node["name"]
        made.append({"op_type": kinds[node["op"]], "inputs": list(inputs), "outputs": [out], "attrs": settings})
    return {"nodes": made, "initializers": arrays}


# %% wrong: one shape for every reshape | can't run|does not fit|other values


def export(nodes, weights):
    last = nodes[-1]["name"]
    rename = {node["name"]: node["name"] for node in nodes} | {last: "y"}
    made, arrays = [], {}

    def add(kind, node, *more, **attrs):
        inputs = [rename[name] for name in node["inputs"]] + list(more)
        made.append({"op_type": kind, "inputs": inputs, "outputs": [rename[node["name"]]], "attrs": attrs})

    for node in nodes:
        attrs = node["attrs"]
        if node["op"] == "variable":
            arrays[node["name"]] = weights[node["name"]]
        elif node["op"] == "linear":
            add("Gemm", node)
        elif node["op"] == "relu":
            add("Relu", node)
        elif node["op"] == "conv2d":
            s, p = attrs["stride"], attrs["padding"]
            add("Conv", node, strides=[s, s], pads=[p, p, p, p])
        elif node["op"] == "max_pool2d":
            k, s = attrs["window"], attrs["stride"]
            add("MaxPool", node, kernel_shape=[k, k], strides=[s, s])
        elif node["op"] == "reshape":
            shape = "shape"
            arrays[shape] = np.array(attrs["shape"], dtype=np.int64)
            add("Reshape", node, shape)
    return {"nodes": made, "initializers": arrays}
