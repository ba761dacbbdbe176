"""Answers to the task `freeze`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821, F841

# %% right: a stack of names


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += by_name[name]["inputs"]
    frozen = []
    for node in nodes:
        if node["name"] not in needed:
            continue
        if node["op"] == "assign":
            raise FreezeError(node["name"])
        if node["op"] == "variable":
            value = values[node["name"]]
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append(dict(node))
    return frozen


# %% right: depth first, in the order of the outputs


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    frozen = {}

    def visit(name):
        if name in frozen:
            return
        node = by_name[name]
        if node["op"] == "assign":
            raise FreezeError(f"{name} is an assignment")
        for read in node["inputs"]:
            visit(read)
        if node["op"] == "variable":
            node = {**node, "op": "constant", "inputs": [], "attrs": {"value": np.array(values[name])}}
        frozen[name] = node

    for name in outputs:
        visit(name)
    return list(frozen.values())


# %% wrong: not written | has not been filled


def freeze(nodes, values, outputs):
    raise NotImplementedError("your code here")


# %% wrong: everything stays | no output needs it


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += by_name[name]["inputs"]
    frozen = []
    for node in nodes:
        if False:
            continue
        if node["op"] == "assign":
            continue
        if node["op"] == "variable":
            value = values[node["name"]]
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append(dict(node))
    return frozen


# %% wrong: the outputs alone | is missing


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
    frozen = []
    for node in nodes:
        if node["name"] not in needed:
            continue
        if node["op"] == "assign":
            raise FreezeError(node["name"])
        if node["op"] == "variable":
            value = values[node["name"]]
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append(dict(node))
    return frozen


# %% wrong: the first output alone | is missing


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs[:1])
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += by_name[name]["inputs"]
    frozen = []
    for node in nodes:
        if node["name"] not in needed:
            continue
        if node["op"] == "assign":
            raise FreezeError(node["name"])
        if node["op"] == "variable":
            value = values[node["name"]]
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append(dict(node))
    return frozen


# %% wrong: one step back | is missing|FreezeError was not raised


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs)
    for name in stack:
        needed |= {name, *by_name[name]["inputs"]}
    frozen = []
    for node in nodes:
        if node["name"] not in needed:
            continue
        if node["op"] == "assign":
            raise FreezeError(node["name"])
        if node["op"] == "variable":
            value = values[node["name"]]
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append(dict(node))
    return frozen


# %% wrong: variables stay variables | expected constant


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += by_name[name]["inputs"]
    frozen = []
    for node in nodes:
        if node["name"] not in needed:
            continue
        if node["op"] == "assign":
            raise FreezeError(node["name"])
        if False:
            value = values[node["name"]]
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append(dict(node))
    return frozen


# %% wrong: constants have no value | expected


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += by_name[name]["inputs"]
    frozen = []
    for node in nodes:
        if node["name"] not in needed:
            continue
        if node["op"] == "assign":
            raise FreezeError(node["name"])
        if node["op"] == "variable":
            value = values[node["name"]]
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {}})
        else:
            frozen.append(dict(node))
    return frozen


# %% wrong: the value is a copy in float32 | does not have the variable


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += by_name[name]["inputs"]
    frozen = []
    for node in nodes:
        if node["name"] not in needed:
            continue
        if node["op"] == "assign":
            raise FreezeError(node["name"])
        if node["op"] == "variable":
            value = values[node["name"]].astype("float32")
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append(dict(node))
    return frozen


# %% wrong: assignments are kept | FreezeError was not raised


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += by_name[name]["inputs"]
    frozen = []
    for node in nodes:
        if node["name"] not in needed:
            continue
        if False:
            raise FreezeError(node["name"])
        if node["op"] == "variable":
            value = values[node["name"]]
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append(dict(node))
    return frozen


# %% wrong: any assignment is refused | no node that an output needs


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += by_name[name]["inputs"]
    frozen = []
    for node in nodes:
        if node["op"] == "assign":
            raise FreezeError(node["name"])
        if node["name"] not in needed:
            continue
        if node["op"] == "variable":
            value = values[node["name"]]
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append(dict(node))
    return frozen


# %% wrong: the message names nobody | does not name the node


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += by_name[name]["inputs"]
    frozen = []
    for node in nodes:
        if node["name"] not in needed:
            continue
        if node["op"] == "assign":
            raise FreezeError("no")
        if node["op"] == "variable":
            value = values[node["name"]]
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append(dict(node))
    return frozen


# %% wrong: back to front | stands before


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += by_name[name]["inputs"]
    frozen = []
    for node in nodes:
        if node["name"] not in needed:
            continue
        if node["op"] == "assign":
            raise FreezeError(node["name"])
        if node["op"] == "variable":
            value = values[node["name"]]
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append(dict(node))
    return frozen[::-1]


# %% wrong: twice for two outputs | twice


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += by_name[name]["inputs"]
    frozen = []
    for node in nodes:
        if node["name"] not in needed:
            continue
        if node["op"] == "assign":
            raise FreezeError(node["name"])
        if node["op"] == "variable":
            value = values[node["name"]]
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append(dict(node))
    return frozen + [one for one in frozen if outputs.count(one["name"]) > 1]


# %% wrong: attributes are lost | expected


def freeze(nodes, values, outputs):
    by_name = {node["name"]: node for node in nodes}
    needed, stack = set(), list(outputs)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += by_name[name]["inputs"]
    frozen = []
    for node in nodes:
        if node["name"] not in needed:
            continue
        if node["op"] == "assign":
            raise FreezeError(node["name"])
        if node["op"] == "variable":
            value = values[node["name"]]
            frozen.append({"name": node["name"], "op": "constant", "inputs": [], "attrs": {"value": value}})
        else:
            frozen.append({**node, "attrs": {}})
    return frozen


# %% wrong: variables become constants where they stand | changed the nodes and values


def freeze(nodes, values, outputs):
    needed = set(outputs)
    for node in reversed(nodes):
        if node["name"] in needed:
            needed.update(node["inputs"])
    frozen = [node for node in nodes if node["name"] in needed]
    for node in frozen:
        if node["op"] == "assign":
            raise FreezeError(node["name"])
        if node["op"] == "variable":
            node["op"] = "constant"
            node["inputs"] = []
            node["attrs"] = {"value": values[node["name"]]}
    return frozen
