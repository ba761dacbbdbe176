"""Answers to the task `where`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: a set, and a sorted list for the message


def common_device(op, inputs):
    devices = {x[0] for x in inputs if isinstance(x, tuple) and not (x[0] == "cpu" and x[1] == 0)}
    match sorted(devices):
        case []:
            return "cpu"
        case [one]:
            return one
        case [first, *_, last]:
            raise DeviceError(" ".join([op, "got arrays of", first, "and", last]))


# %% right: one after the other, with a weak and a strong opinion


def common_device(op, inputs):
    decided, strong = "cpu", False
    for x in inputs:
        if not isinstance(x, tuple):
            continue
        device, ndim = x
        weak = device == "cpu" and ndim == 0
        if weak:
            continue
        if strong and device != decided:
            raise DeviceError(f"{op}: {decided} meets {device}")
        decided, strong = device, True
    return decided


# %% wrong: not written | has not been filled


def common_device(op, inputs):
    raise NotImplementedError()


# %% wrong: the device of the first array | can't be used together|decides nothing where it meets|0 axes decides, unless


def common_device(op, inputs):
    arrays = [x for x in inputs if isinstance(x, tuple)]
    return arrays[0][0] if arrays else "cpu"


# %% wrong: strict, as internals is | as good as a number


def common_device(op, inputs):
    devices = list(dict.fromkeys(x[0] for x in inputs if isinstance(x, tuple)))
    if len(devices) > 1:
        raise DeviceError(f"{op}: {devices[0]} and {devices[1]}")
    return devices[0] if devices else "cpu"


# %% wrong: every array with 0 axes goes along | no number|0 axes decides, unless it is on the cpu


def common_device(op, inputs):
    devices = list(dict.fromkeys(x[0] for x in inputs if isinstance(x, tuple) and x[1] > 0))
    if len(devices) > 1:
        raise DeviceError(f"{op}: {devices[0]} and {devices[1]}")
    return devices[0] if devices else "cpu"


# %% wrong: the GPU wins over the host | Only an array of the cpu with 0 axes


def common_device(op, inputs):
    gpus = list(dict.fromkeys(x[0] for x in inputs if isinstance(x, tuple) and x[0] != "cpu"))
    if len(gpus) > 1:
        raise DeviceError(f"{op}: {gpus[0]} and {gpus[1]}")
    return gpus[0] if gpus else "cpu"


# %% wrong: the message does not name the operation | does not name the operation


def common_device(op, inputs):
    devices = list(dict.fromkeys(x[0] for x in inputs if isinstance(x, tuple) and x != ("cpu", 0)))
    if len(devices) > 1:
        raise DeviceError(f"inputs are on {devices[0]} and {devices[1]}")
    return devices[0] if devices else "cpu"


# %% wrong: the message names one device only | does not name both devices


def common_device(op, inputs):
    devices = list(dict.fromkeys(x[0] for x in inputs if isinstance(x, tuple) and x != ("cpu", 0)))
    if len(devices) > 1:
        raise DeviceError(f"{op}: expected everything on {devices[0]}")
    return devices[0] if devices else "cpu"


# %% wrong: a plain ValueError | A ValueError was raised where a DeviceError


def common_device(op, inputs):
    devices = list(dict.fromkeys(x[0] for x in inputs if isinstance(x, tuple) and x != ("cpu", 0)))
    if len(devices) > 1:
        raise ValueError(f"{op}: {devices[0]} and {devices[1]}")
    return devices[0] if devices else "cpu"


# %% wrong: only neighbours are compared | can't be used together


def common_device(op, inputs):
    arrays = [x for x in inputs if isinstance(x, tuple)]
    for k in range(1, len(arrays)):
        (one, a), (other, b) = arrays[k - 1], arrays[k]
        if one != other and ("cpu", 0) not in ((one, a), (other, b)):
            raise DeviceError(f"{op}: {one} and {other}")
    strong = [device for device, ndim in arrays if (device, ndim) != ("cpu", 0)]
    return strong[0] if strong else "cpu"


# %% wrong: None where only numbers are given | returned None


def common_device(op, inputs):
    devices = list(dict.fromkeys(x[0] for x in inputs if isinstance(x, tuple) and x != ("cpu", 0)))
    if len(devices) > 1:
        raise DeviceError(f"{op}: {devices[0]} and {devices[1]}")
    return devices[0] if devices else None


# %% wrong: cuda:0 and cuda:1 taken for one | can't be used together


def common_device(op, inputs):
    devices = [x[0] for x in inputs if isinstance(x, tuple) and x != ("cpu", 0)]
    kinds = list(dict.fromkeys(device.split(":")[0] for device in devices))
    if len(kinds) > 1:
        raise DeviceError(f"{op}: {', '.join(devices)}")
    return devices[0] if devices else "cpu"
