"""Answers to the task `stale`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B905, F811, F821

# %% right: a function pair behind a class of nothing but a closure


def Saved(op, *tensors):
    then = tuple(tensor.version for tensor in tensors)
    state = {"open": True}

    class Taken:
        @staticmethod
        def take(retain=False):
            if not state["open"]:
                raise StaleTape(op + " has been used up")
            if then != tuple(tensor.version for tensor in tensors):
                raise StaleTape(op + " would read an array that is no longer the one it saw")
            state["open"] = retain
            return [tensor.data for tensor in tensors]

    return Taken


# %% right: versions only ever grow, so their sum will do


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.tensors, self.sum = op, tensors, sum(tensor.version for tensor in tensors)

    def take(self, retain=False):
        tensors = self.tensors
        if tensors is None or sum(tensor.version for tensor in tensors) > self.sum:
            raise StaleTape(f"stale: {self.op}")
        self.tensors = tensors if retain else None
        return tuple(tensor.data for tensor in tensors)


# %% wrong: never looks at versions | changed in place since


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.tensors = op, tensors

    def take(self, retain=False):
        if self.tensors is None:
            raise StaleTape(f"{self.op}: already used")
        arrays = tuple(tensor.data for tensor in self.tensors)
        if not retain:
            self.tensors = None
        return arrays


# %% wrong: keeps copies, and so never refuses | changed in place since


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.arrays = op, tuple(tensor.data.copy() for tensor in tensors)

    def take(self, retain=False):
        if self.arrays is None:
            raise StaleTape(f"{self.op}: already used")
        arrays = self.arrays
        if not retain:
            self.arrays = None
        return arrays


# %% wrong: compares values, not versions | changed in place since


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.tensors, self.then = op, tensors, [tensor.data.copy() for tensor in tensors]

    def take(self, retain=False):
        if self.tensors is None:
            raise StaleTape(f"{self.op}: already used")
        for tensor, array in zip(self.tensors, self.then):
            if not np.allclose(tensor.data, array):
                raise StaleTape(f"{self.op}: changed")
        arrays = tuple(tensor.data for tensor in self.tensors)
        if not retain:
            self.tensors = None
        return arrays


# %% wrong: refuses whatever was changed before | nothing it saved was changed


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.tensors = op, tensors

    def take(self, retain=False):
        if self.tensors is None:
            raise StaleTape(f"{self.op}: already used")
        if any(tensor.version > 0 for tensor in self.tensors):
            raise StaleTape(f"{self.op}: changed")
        arrays = tuple(tensor.data for tensor in self.tensors)
        if not retain:
            self.tensors = None
        return arrays


# %% wrong: one memory for all records | changed in place since


class Saved:
    versions = {}

    def __init__(self, op, *tensors):
        self.op, self.tensors = op, tensors
        for tensor in tensors:
            Saved.versions[id(tensor)] = tensor.version

    def take(self, retain=False):
        if self.tensors is None:
            raise StaleTape(f"{self.op}: already used")
        if any(tensor.version != Saved.versions[id(tensor)] for tensor in self.tensors):
            raise StaleTape(f"{self.op}: changed")
        arrays = tuple(tensor.data for tensor in self.tensors)
        if not retain:
            self.tensors = None
        return arrays


# %% wrong: does not say which op | does not name the op


class Saved:
    def __init__(self, op, *tensors):
        self.kept = [(tensor, tensor.version) for tensor in tensors]

    def take(self, retain=False):
        if self.kept is None or any(tensor.version != version for tensor, version in self.kept):
            raise StaleTape("a saved array was changed, or the tape was used already")
        arrays = tuple(tensor.data for tensor, _ in self.kept)
        if not retain:
            self.kept = None
        return arrays


# %% wrong: another kind of error | expected StaleTape


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.kept = op, [(tensor, tensor.version) for tensor in tensors]

    def take(self, retain=False):
        if self.kept is None or any(tensor.version != version for tensor, version in self.kept):
            raise RuntimeError(f"{self.op}: stale")
        arrays = tuple(tensor.data for tensor, _ in self.kept)
        if not retain:
            self.kept = None
        return arrays


# %% wrong: may be taken for ever | it was taken before


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.kept = op, [(tensor, tensor.version) for tensor in tensors]

    def take(self, retain=False):
        if any(tensor.version != version for tensor, version in self.kept):
            raise StaleTape(f"{self.op}: stale")
        return tuple(tensor.data for tensor, _ in self.kept)


# %% wrong: retain is ignored | not used up


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.kept = op, [(tensor, tensor.version) for tensor in tensors]

    def take(self, retain=False):
        if self.kept is None or any(tensor.version != version for tensor, version in self.kept):
            raise StaleTape(f"{self.op}: stale")
        kept, self.kept = self.kept, None
        return tuple(tensor.data for tensor, _ in kept)


# %% wrong: looks at the first tensor only | changed in place since


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.tensors, self.version = op, tensors, tensors[0].version

    def take(self, retain=False):
        if self.tensors is None or self.tensors[0].version != self.version:
            raise StaleTape(f"{self.op}: stale")
        arrays = tuple(tensor.data for tensor in self.tensors)
        if not retain:
            self.tensors = None
        return arrays


# %% wrong: checked the first time only | changed in place since


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.kept, self.good = op, [(tensor, tensor.version) for tensor in tensors], False

    def take(self, retain=False):
        if self.kept is None:
            raise StaleTape(f"{self.op}: already used")
        if not self.good and any(tensor.version != version for tensor, version in self.kept):
            raise StaleTape(f"{self.op}: stale")
        self.good = True
        arrays = tuple(tensor.data for tensor, _ in self.kept)
        if not retain:
            self.kept = None
        return arrays


# %% wrong: one version for all, the largest | changed in place since


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.tensors, self.version = op, tensors, max(tensor.version for tensor in tensors)

    def take(self, retain=False):
        if self.tensors is None or any(tensor.version > self.version for tensor in self.tensors):
            raise StaleTape(f"{self.op}: stale")
        tensors = self.tensors
        if not retain:
            self.tensors = None
        return tuple(tensor.data for tensor in tensors)


# %% wrong: a set of versions | changed in place since


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.tensors, self.versions = op, tensors, {tensor.version for tensor in tensors}

    def take(self, retain=False):
        if self.tensors is None or {tensor.version for tensor in self.tensors} != self.versions:
            raise StaleTape(f"{self.op}: stale")
        tensors = self.tensors
        if not retain:
            self.tensors = None
        return tuple(tensor.data for tensor in tensors)


# %% wrong: remembers by its name what is used up | not used up


class Saved:
    used = set()

    def __init__(self, op, *tensors):
        self.op, self.kept = op, [(tensor, tensor.version) for tensor in tensors]
        self.used.discard(op)

    def take(self, retain=False):
        if self.op in self.used or any(tensor.version != version for tensor, version in self.kept):
            raise StaleTape(f"{self.op}: stale")
        if not retain:
            self.used.add(self.op)
        return tuple(tensor.data for tensor, _ in self.kept)


# %% wrong: the versions are read too late | changed in place since


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.tensors = op, tensors

    @property
    def versions(self):
        return [tensor.version for tensor in self.tensors]

    def take(self, retain=False):
        if self.tensors is None:
            raise StaleTape(f"{self.op}: already used")
        for tensor, version in zip(self.tensors, self.versions):
            if tensor.version != version:
                raise StaleTape(f"{self.op}: stale")
        arrays = tuple(tensor.data for tensor in self.tensors)
        if not retain:
            self.tensors = None
        return arrays


# %% wrong: returns tensors, not arrays | tensor.data


class Saved:
    def __init__(self, op, *tensors):
        self.op, self.kept = op, [(tensor, tensor.version) for tensor in tensors]

    def take(self, retain=False):
        if self.kept is None or any(tensor.version != version for tensor, version in self.kept):
            raise StaleTape(f"{self.op}: stale")
        tensors = tuple(tensor for tensor, _ in self.kept)
        if not retain:
            self.kept = None
        return tensors


# %% wrong: the hole left open | not been filled


class Saved:
    def __init__(self, op, *tensors):
        raise NotImplementedError
