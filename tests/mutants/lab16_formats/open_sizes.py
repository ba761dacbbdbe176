"""Answers to the task `open_sizes`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: written out


def open_sizes(first, second, batches):
    if len(first) != len(second):
        raise SizeError("one record is longer")

    def one_of(a, b, i):
        if type(a) is not type(b):
            raise SizeError(f"step {i}")
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise SizeError(f"step {i}")
            return tuple([one_of(x, y, i) for x, y in zip(a, b, strict=False)])
        if a == b:
            return a
        if isinstance(a, bool) or (a, b) != (batches[0], batches[1]) or not isinstance(a, int):
            raise SizeError(f"step {i}")
        return "batch"

    found = []
    for i in range(len(first)):
        x, y = first[i], second[i]
        if x["op"] != y["op"] or x["inputs"] != y["inputs"] or set(x["attrs"]) != set(y["attrs"]):
            raise SizeError(f"step {i}")
        attrs = {name: one_of(x["attrs"][name], y["attrs"][name], i) for name in x["attrs"]}
        found.append({"op": x["op"], "inputs": x["inputs"], "attrs": attrs})
    return found


# %% right: by text


def open_sizes(first, second, batches):
    a, b = batches
    if len(first) != len(second):
        raise SizeError(f"step {min(len(first), len(second))}")

    def leaves(value, path=()):
        if isinstance(value, tuple):
            yield path, len(value)
            for i, part in enumerate(value):
                yield from leaves(part, (*path, i))
        else:
            yield path, value

    def replaced(value, path, places):
        if isinstance(value, tuple):
            return tuple(replaced(part, (*path, i), places) for i, part in enumerate(value))
        return "batch" if path in places else value

    result = []
    for i, (x, y) in enumerate(zip(first, second, strict=True)):
        if x["op"] != y["op"] or x["inputs"] != y["inputs"] or x["attrs"].keys() != y["attrs"].keys():
            raise SizeError(f"step {i} is another")
        attrs = {}
        for key in x["attrs"]:
            left, right = list(leaves(x["attrs"][key])), list(leaves(y["attrs"][key]))
            places = set()
            if len(left) != len(right):
                raise SizeError(f"step {i} has another {key}")
            for (path, one), (where, two) in zip(left, right, strict=True):
                if path == where and type(one) is type(two) and one == two:
                    continue
                if path != where or type(one) is not int or type(two) is not int or (one, two) != (a, b):
                    raise SizeError(f"step {i} has another {key}")
                places.add(path)
            attrs[key] = replaced(x["attrs"][key], (), places)
        result.append({**x, "attrs": attrs})
    return result


# %% wrong: not written | has not been filled


def open_sizes(first, second, batches):
    raise NotImplementedError("your code here")


# %% wrong: whatever differs is the batch | SizeError was not raised


def open_sizes(first, second, batches):
    if len(first) != len(second):
        raise SizeError("one record is longer")

    def one_of(a, b, i):
        if type(a) is not type(b):
            raise SizeError(f"step {i}")
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise SizeError(f"step {i}")
            return tuple([one_of(x, y, i) for x, y in zip(a, b, strict=False)])
        if a == b:
            return a
        return "batch"

    found = []
    for i in range(len(first)):
        x, y = first[i], second[i]
        if x["op"] != y["op"] or x["inputs"] != y["inputs"] or set(x["attrs"]) != set(y["attrs"]):
            raise SizeError(f"step {i}")
        attrs = {name: one_of(x["attrs"][name], y["attrs"][name], i) for name in x["attrs"]}
        found.append({"op": x["op"], "inputs": x["inputs"], "attrs": attrs})
    return found


# %% wrong: every size that is the first batch | expected


def open_sizes(first, second, batches):
    if len(first) != len(second):
        raise SizeError("one record is longer")

    def one_of(a, b, i):
        if type(a) is not type(b):
            raise SizeError(f"step {i}")
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise SizeError(f"step {i}")
            return tuple([one_of(x, y, i) for x, y in zip(a, b, strict=False)])
        if a == b and a != batches[0]:
            return a
        if a == batches[0] and type(a) is int:
            return "batch"
        if isinstance(a, bool) or (a, b) != (batches[0], batches[1]) or not isinstance(a, int):
            raise SizeError(f"step {i}")
        return "batch"

    found = []
    for i in range(len(first)):
        x, y = first[i], second[i]
        if x["op"] != y["op"] or x["inputs"] != y["inputs"] or set(x["attrs"]) != set(y["attrs"]):
            raise SizeError(f"step {i}")
        attrs = {name: one_of(x["attrs"][name], y["attrs"][name], i) for name in x["attrs"]}
        found.append({"op": x["op"], "inputs": x["inputs"], "attrs": attrs})
    return found


# %% wrong: multiples are the batch | SizeError was not raised


def open_sizes(first, second, batches):
    if len(first) != len(second):
        raise SizeError("one record is longer")

    def one_of(a, b, i):
        if type(a) is not type(b):
            raise SizeError(f"step {i}")
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise SizeError(f"step {i}")
            return tuple([one_of(x, y, i) for x, y in zip(a, b, strict=False)])
        if a == b:
            return a
        if (
            isinstance(a, bool)
            or (not isinstance(a, bool) and isinstance(a, int) and a * batches[1] != b * batches[0])
            or not isinstance(a, int)
        ):
            raise SizeError(f"step {i}")
        return "batch"

    found = []
    for i in range(len(first)):
        x, y = first[i], second[i]
        if x["op"] != y["op"] or x["inputs"] != y["inputs"] or set(x["attrs"]) != set(y["attrs"]):
            raise SizeError(f"step {i}")
        attrs = {name: one_of(x["attrs"][name], y["attrs"][name], i) for name in x["attrs"]}
        found.append({"op": x["op"], "inputs": x["inputs"], "attrs": attrs})
    return found


# %% wrong: ops are not compared | SizeError was not raised


def open_sizes(first, second, batches):
    if len(first) != len(second):
        raise SizeError("one record is longer")

    def one_of(a, b, i):
        if type(a) is not type(b):
            raise SizeError(f"step {i}")
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise SizeError(f"step {i}")
            return tuple([one_of(x, y, i) for x, y in zip(a, b, strict=False)])
        if a == b:
            return a
        if isinstance(a, bool) or (a, b) != (batches[0], batches[1]) or not isinstance(a, int):
            raise SizeError(f"step {i}")
        return "batch"

    found = []
    for i in range(len(first)):
        x, y = first[i], second[i]
        if x["inputs"] != y["inputs"] or set(x["attrs"]) != set(y["attrs"]):
            raise SizeError(f"step {i}")
        attrs = {name: one_of(x["attrs"][name], y["attrs"][name], i) for name in x["attrs"]}
        found.append({"op": x["op"], "inputs": x["inputs"], "attrs": attrs})
    return found


# %% wrong: inputs in any order | SizeError was not raised


def open_sizes(first, second, batches):
    if len(first) != len(second):
        raise SizeError("one record is longer")

    def one_of(a, b, i):
        if type(a) is not type(b):
            raise SizeError(f"step {i}")
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise SizeError(f"step {i}")
            return tuple([one_of(x, y, i) for x, y in zip(a, b, strict=False)])
        if a == b:
            return a
        if isinstance(a, bool) or (a, b) != (batches[0], batches[1]) or not isinstance(a, int):
            raise SizeError(f"step {i}")
        return "batch"

    found = []
    for i in range(len(first)):
        x, y = first[i], second[i]
        if x["op"] != y["op"] or sorted(x["inputs"]) != sorted(y["inputs"]) or set(x["attrs"]) != set(y["attrs"]):
            raise SizeError(f"step {i}")
        attrs = {name: one_of(x["attrs"][name], y["attrs"][name], i) for name in x["attrs"]}
        found.append({"op": x["op"], "inputs": x["inputs"], "attrs": attrs})
    return found


# %% wrong: the shorter record decides | SizeError was not raised


def open_sizes(first, second, batches):
    first, second = zip(*zip(first, second, strict=False), strict=True) if first and second else ((), ())

    def one_of(a, b, i):
        if type(a) is not type(b):
            raise SizeError(f"step {i}")
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise SizeError(f"step {i}")
            return tuple([one_of(x, y, i) for x, y in zip(a, b, strict=False)])
        if a == b:
            return a
        if isinstance(a, bool) or (a, b) != (batches[0], batches[1]) or not isinstance(a, int):
            raise SizeError(f"step {i}")
        return "batch"

    found = []
    for i in range(len(first)):
        x, y = first[i], second[i]
        if x["op"] != y["op"] or x["inputs"] != y["inputs"] or set(x["attrs"]) != set(y["attrs"]):
            raise SizeError(f"step {i}")
        attrs = {name: one_of(x["attrs"][name], y["attrs"][name], i) for name in x["attrs"]}
        found.append({"op": x["op"], "inputs": x["inputs"], "attrs": attrs})
    return found


# %% wrong: tuples are cut to the shorter | SizeError was not raised


def open_sizes(first, second, batches):
    if len(first) != len(second):
        raise SizeError("one record is longer")

    def one_of(a, b, i):
        if type(a) is not type(b):
            raise SizeError(f"step {i}")
        if isinstance(a, tuple):
            if False:
                raise SizeError(f"step {i}")
            return tuple([one_of(x, y, i) for x, y in zip(a, b, strict=False)])
        if a == b:
            return a
        if isinstance(a, bool) or (a, b) != (batches[0], batches[1]) or not isinstance(a, int):
            raise SizeError(f"step {i}")
        return "batch"

    found = []
    for i in range(len(first)):
        x, y = first[i], second[i]
        if x["op"] != y["op"] or x["inputs"] != y["inputs"] or set(x["attrs"]) != set(y["attrs"]):
            raise SizeError(f"step {i}")
        attrs = {name: one_of(x["attrs"][name], y["attrs"][name], i) for name in x["attrs"]}
        found.append({"op": x["op"], "inputs": x["inputs"], "attrs": attrs})
    return found


# %% wrong: truth values are numbers | SizeError was not raised


def open_sizes(first, second, batches):
    if len(first) != len(second):
        raise SizeError("one record is longer")

    def one_of(a, b, i):
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise SizeError(f"step {i}")
            return tuple([one_of(x, y, i) for x, y in zip(a, b, strict=False)])
        if a == b:
            return a
        if (a, b) != (batches[0], batches[1]) or not isinstance(a, int):
            raise SizeError(f"step {i}")
        return "batch"

    found = []
    for i in range(len(first)):
        x, y = first[i], second[i]
        if x["op"] != y["op"] or x["inputs"] != y["inputs"] or set(x["attrs"]) != set(y["attrs"]):
            raise SizeError(f"step {i}")
        attrs = {name: one_of(x["attrs"][name], y["attrs"][name], i) for name in x["attrs"]}
        found.append({"op": x["op"], "inputs": x["inputs"], "attrs": attrs})
    return found


# %% wrong: steps counted from 1 | does not say which step


def open_sizes(first, second, batches):
    if len(first) != len(second):
        raise SizeError("one record is longer")

    def one_of(a, b, i):
        if type(a) is not type(b):
            raise SizeError(f"step {i + 1}")
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise SizeError(f"step {i + 1}")
            return tuple([one_of(x, y, i) for x, y in zip(a, b, strict=False)])
        if a == b:
            return a
        if isinstance(a, bool) or (a, b) != (batches[0], batches[1]) or not isinstance(a, int):
            raise SizeError(f"step {i + 1}")
        return "batch"

    found = []
    for i in range(len(first)):
        x, y = first[i], second[i]
        if x["op"] != y["op"] or x["inputs"] != y["inputs"] or set(x["attrs"]) != set(y["attrs"]):
            raise SizeError(f"step {i + 1}")
        attrs = {name: one_of(x["attrs"][name], y["attrs"][name], i) for name in x["attrs"]}
        found.append({"op": x["op"], "inputs": x["inputs"], "attrs": attrs})
    return found


# %% wrong: the sizes are opened in the first record | changed the records


def open_sizes(first, second, batches):
    def merged(a, b, step):
        if type(a) is type(b) is tuple and len(a) == len(b):
            return tuple(merged(x, y, step) for x, y in zip(a, b, strict=True))
        if type(a) is type(b) and a == b:
            return a
        if type(a) is type(b) is int and (a, b) == tuple(batches):
            return "batch"
        raise SizeError(f"step {step}")

    if len(first) != len(second):
        raise SizeError("one is longer")
    for i, (one, two) in enumerate(zip(first, second, strict=True)):
        if one["op"] != two["op"] or one["inputs"] != two["inputs"] or one["attrs"].keys() != two["attrs"].keys():
            raise SizeError(f"step {i}")
        for key, value in one["attrs"].items():
            one["attrs"][key] = merged(value, two["attrs"][key], i)
    return first


# %% wrong: the batches in either order | SizeError was not raised


def open_sizes(first, second, batches):
    if len(first) != len(second):
        raise SizeError("one record is longer")

    def one_of(a, b, i):
        if type(a) is not type(b):
            raise SizeError(f"step {i}")
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise SizeError(f"step {i}")
            return tuple([one_of(x, y, i) for x, y in zip(a, b, strict=False)])
        if a == b:
            return a
        if isinstance(a, bool) or {a, b} != set(batches) or not isinstance(a, int):
            raise SizeError(f"step {i}")
        return "batch"

    found = []
    for i in range(len(first)):
        x, y = first[i], second[i]
        if x["op"] != y["op"] or x["inputs"] != y["inputs"] or set(x["attrs"]) != set(y["attrs"]):
            raise SizeError(f"step {i}")
        attrs = {name: one_of(x["attrs"][name], y["attrs"][name], i) for name in x["attrs"]}
        found.append({"op": x["op"], "inputs": x["inputs"], "attrs": attrs})
    return found


# %% wrong: inputs are opened too | expected a list of numbers of steps


def open_sizes(first, second, batches):
    if len(first) != len(second):
        raise SizeError("one record is longer")

    def one_of(a, b, i):
        if type(a) is not type(b):
            raise SizeError(f"step {i}")
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise SizeError(f"step {i}")
            return tuple([one_of(x, y, i) for x, y in zip(a, b, strict=False)])
        if a == b:
            return a
        if isinstance(a, bool) or (a, b) != (batches[0], batches[1]) or not isinstance(a, int):
            raise SizeError(f"step {i}")
        return "batch"

    found = []
    for i in range(len(first)):
        x, y = first[i], second[i]
        if x["op"] != y["op"] or len(x["inputs"]) != len(y["inputs"]) or set(x["attrs"]) != set(y["attrs"]):
            raise SizeError(f"step {i}")
        attrs = {name: one_of(x["attrs"][name], y["attrs"][name], i) for name in x["attrs"]}
        inputs = [one_of(a, b, i) for a, b in zip(x["inputs"], y["inputs"], strict=True)]
        found.append({"op": x["op"], "inputs": inputs, "attrs": attrs})
    return found
