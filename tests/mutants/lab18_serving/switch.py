"""Answers to the task `switch`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: E402, F811

# %% right: a list of what is in flight


class Versions:
    def __init__(self):
        self.ready, self.flying = set(), []

    def found(self, version):
        self.ready.discard(version)

    failed = found

    def warm(self, version):
        self.ready.add(version)

    def begin(self):
        if not self.ready:
            return None
        self.flying.append(max(self.ready))
        return self.flying[-1]

    def done(self, version):
        self.flying.remove(version)

    def drop(self):
        gone = self.ready - {max(self.ready, default=None)} - set(self.flying)
        self.ready -= gone
        return gone


# %% wrong: not written | has not been filled


class Versions:
    def __init__(self):
        raise NotImplementedError("your code here")


# %% wrong: a new version answers before it is warm | is not warm yet|failed to load


class Versions:
    def __init__(self):
        self.users, self.live = {}, None

    def found(self, version):
        self.users[version] = 0
        self.live = max(version, self.live or version)

    def failed(self, version):
        pass

    def warm(self, version):
        self.users.setdefault(version, 0)
        if self.live is None or version > self.live:
            self.live = version

    def begin(self):
        if self.live is not None:
            self.users[self.live] += 1
        return self.live

    def done(self, version):
        self.users[version] -= 1

    def drop(self):
        gone = [version for version, users in self.users.items() if version != self.live and not users]
        self.users = {version: users for version, users in self.users.items() if version not in gone}
        return gone


# %% wrong: requests in flight are lost in a switch | would be lost


class Versions:
    def __init__(self):
        self.users, self.live = {}, None

    found = failed = lambda self, version: None

    def warm(self, version):
        self.users[version] = 0
        self.live = version if self.live is None else max(version, self.live)

    def begin(self):
        if self.live is not None:
            self.users[self.live] = self.users.get(self.live, 0) + 1
        return self.live

    def done(self, version):
        if version in self.users:
            self.users[version] -= 1

    def drop(self):
        gone = [version for version, users in self.users.items() if version != self.live]
        self.users = {version: users for version, users in self.users.items() if version not in gone}
        return gone


# %% wrong: the old version goes as soon as a new one is found | would be lost|never warm|refused|not warm|is live


class Versions:
    def __init__(self):
        self.users, self.live = {}, None

    def found(self, version):
        self.live = None

    def failed(self, version):
        pass

    def warm(self, version):
        self.users[version] = 0
        self.live = version if self.live is None else max(version, self.live)

    def begin(self):
        if self.live is not None:
            self.users[self.live] += 1
        return self.live

    def done(self, version):
        self.users[version] -= 1

    def drop(self):
        gone = [version for version, users in self.users.items() if version != self.live and not users]
        self.users = {version: users for version, users in self.users.items() if version not in gone}
        return gone


# %% wrong: what became warm last is live | the newest that is warm


class Versions:
    def __init__(self):
        self.users, self.live = {}, None

    found = failed = lambda self, version: None

    def warm(self, version):
        self.users[version] = 0
        self.live = version

    def begin(self):
        if self.live is not None:
            self.users[self.live] += 1
        return self.live

    def done(self, version):
        self.users[version] -= 1

    def drop(self):
        gone = [version for version, users in self.users.items() if version != self.live and not users]
        self.users = {version: users for version, users in self.users.items() if version not in gone}
        return gone


# %% wrong: drops the same again and again | a second time


class Versions:
    def __init__(self):
        self.users, self.live = {}, None

    found = failed = lambda self, version: None

    def warm(self, version):
        self.users[version] = 0
        self.live = version if self.live is None else max(version, self.live)

    def begin(self):
        if self.live is not None:
            self.users[self.live] += 1
        return self.live

    def done(self, version):
        self.users[version] -= 1

    def drop(self):
        return [version for version, users in self.users.items() if version != self.live and not users]


# %% wrong: drops what is live | which is live


class Versions:
    def __init__(self):
        self.users, self.live = {}, None

    found = failed = lambda self, version: None

    def warm(self, version):
        self.users[version] = 0
        self.live = version if self.live is None else max(version, self.live)

    def begin(self):
        if self.live is not None:
            self.users[self.live] = self.users.get(self.live, 0) + 1
        return self.live

    def done(self, version):
        if version in self.users:
            self.users[version] -= 1

    def drop(self):
        gone = [version for version, users in self.users.items() if not users]
        self.users = {version: users for version, users in self.users.items() if version not in gone}
        return gone


# %% wrong: never lets go | nobody uses it any more


class Versions:
    def __init__(self):
        self.users, self.live = {}, None

    found = failed = lambda self, version: None

    def warm(self, version):
        self.users[version] = 0
        self.live = version if self.live is None else max(version, self.live)

    def begin(self):
        if self.live is not None:
            self.users[self.live] += 1
        return self.live

    def done(self, version):
        pass

    def drop(self):
        gone = [version for version, users in self.users.items() if version != self.live and not users]
        self.users = {version: users for version, users in self.users.items() if version not in gone}
        return gone


# %% wrong: a failed version answers | failed to load|is not warm


class Versions:
    def __init__(self):
        self.users, self.live = {}, None

    def found(self, version):
        pass

    def failed(self, version):
        self.warm(version)

    def warm(self, version):
        self.users[version] = 0
        self.live = version if self.live is None else max(version, self.live)

    def begin(self):
        if self.live is not None:
            self.users[self.live] += 1
        return self.live

    def done(self, version):
        self.users[version] -= 1

    def drop(self):
        gone = [version for version, users in self.users.items() if version != self.live and not users]
        self.users = {version: users for version, users in self.users.items() if version not in gone}
        return gone


# %% wrong: counts all requests together | nobody uses it any more|would be lost


class Versions:
    def __init__(self):
        self.ready, self.users = [], 0

    found = failed = lambda self, version: None

    def warm(self, version):
        self.ready.append(version)

    def begin(self):
        if not self.ready:
            return None
        self.users += 1
        return max(self.ready)

    def done(self, version):
        self.users -= 1

    def drop(self):
        if self.users:
            return []
        gone = [version for version in self.ready if version != max(self.ready)]
        self.ready = [max(self.ready)] if self.ready else []
        return gone


# %% wrong: names compared as text | the newest that is warm|which is live|nobody uses


class Versions:
    def __init__(self):
        self.users, self.live = {}, None

    found = failed = lambda self, version: None

    def warm(self, version):
        self.users[version] = 0
        if self.live is None or str(version) > str(self.live):
            self.live = version

    def begin(self):
        if self.live is not None:
            self.users[self.live] += 1
        return self.live

    def done(self, version):
        self.users[version] -= 1

    def drop(self):
        gone = [version for version, users in self.users.items() if version != self.live and not users]
        self.users = {version: users for version, users in self.users.items() if version not in gone}
        return gone


# %% wrong: version 0 taken for none | still answers


class Versions:
    def __init__(self):
        self.users, self.live = {}, None

    found = failed = lambda self, version: None

    def warm(self, version):
        self.users[version] = 0
        self.live = version if self.live is None else max(version, self.live)

    def begin(self):
        if self.live:
            self.users[self.live] += 1
        return self.live

    def done(self, version):
        self.users[version] = self.users.get(version, 0) - 1

    def drop(self):
        gone = [version for version, users in self.users.items() if version != self.live and users <= 0]
        self.users = {version: users for version, users in self.users.items() if version not in gone}
        return gone


# %% right: arrays of versions and users, whose entries are NumPy's numbers

import numpy as np


class Versions:
    def __init__(self):
        self.numbers, self.users = np.zeros(0, np.int64), np.zeros(0, np.int64)

    found = failed = lambda self, version: None

    def warm(self, version):
        self.numbers, self.users = np.append(self.numbers, version), np.append(self.users, 0)

    def begin(self):
        if not len(self.numbers):
            return None
        self.users[self.numbers.argmax()] += 1
        return self.numbers.max()

    def done(self, version):
        self.users[self.numbers == version] -= 1

    def drop(self):
        if not len(self.numbers):
            return []
        gone = (self.users == 0) & (self.numbers != self.numbers.max())
        dropped = list(self.numbers[gone])
        self.numbers, self.users = self.numbers[~gone], self.users[~gone]
        return dropped


# %% wrong: lets only one go at a time | nobody uses it any more


class Versions:
    def __init__(self):
        self.users, self.live = {}, None

    found = failed = lambda self, version: None

    def warm(self, version):
        self.users[version] = 0
        self.live = version if self.live is None else max(version, self.live)

    def begin(self):
        if self.live is not None:
            self.users[self.live] += 1
        return self.live

    def done(self, version):
        self.users[version] -= 1

    def drop(self):
        for version, users in self.users.items():
            if version != self.live and not users:
                del self.users[version]
                return [version]
        return []


# %% wrong: falls back when a version fails | the newest that is warm|which is live|was refused


class Versions:
    def __init__(self):
        self.users, self.live = {}, None

    def found(self, version):
        pass

    def warm(self, version):
        self.users[version] = 0
        self.live = version if self.live is None else max(version, self.live)

    def failed(self, version):
        self.live = max((one for one in self.users if one < version), default=None)

    def begin(self):
        if self.live is not None:
            self.users[self.live] += 1
        return self.live

    def done(self, version):
        self.users[version] -= 1

    def drop(self):
        gone = [version for version, users in self.users.items() if version != self.live and not users]
        self.users = {version: users for version, users in self.users.items() if version not in gone}
        return gone
