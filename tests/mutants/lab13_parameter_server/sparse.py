"""Answers to the task `sparse`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821


# %% right: NumPy sums


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start, self.state = dim, lr, start, {}

    def _touch(self, one):
        if one not in self.state:
            self.state[one] = [np.array(self.start(one), float), np.zeros(self.dim)]
        return self.state[one]

    def pull(self, ids):
        found = np.empty((len(ids), self.dim))
        for place, one in enumerate(ids):
            found[place] = self._touch(int(one))[0]
        return found

    def push(self, ids, gradients):
        unique, places = np.unique(ids, return_inverse=True)
        summed = np.zeros((len(unique), self.dim))
        np.add.at(summed, places, gradients)
        for one, gradient in zip(unique.tolist(), summed, strict=True):
            row, squares = self._touch(one)
            squares += gradient**2
            row -= self.lr * gradient / (np.sqrt(squares) + 1e-10)

    def known(self):
        return set(self.state)


# %% right: rows in one array that grows


class SparseTable:
    def __init__(self, dim, lr, start):
        self.lr, self.start, self.place = lr, start, {}
        self.values, self.squares = np.zeros((0, dim)), np.zeros((0, dim))

    def places(self, ids):
        for one in map(int, ids):
            if one not in self.place:
                self.place[one] = len(self.values)
                self.values = np.concatenate([self.values, np.reshape(self.start(one), (1, -1))])
                self.squares = np.concatenate([self.squares, np.zeros((1, self.squares.shape[1]))])
        return np.array([self.place[int(one)] for one in ids], int)

    def pull(self, ids):
        places = self.places(ids)
        return self.values[places]

    def push(self, ids, gradients):
        places = self.places(ids)
        summed = np.zeros_like(self.values)
        np.add.at(summed, places, gradients)
        touched = np.unique(places)
        self.squares[touched] += summed[touched] ** 2
        self.values[touched] -= self.lr * summed[touched] / (np.sqrt(self.squares[touched]) + 1e-10)

    def known(self):
        return self.place.keys()


# %% wrong: of duplicate rows the last one wins | only the last was used


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start = dim, lr, start
        self.rows, self.squares = {}, {}

    def pull(self, ids):
        found = [self.row(int(one)) for one in ids]
        return np.array(found).reshape(len(found), self.dim)

    def push(self, ids, gradients):
        for one, gradient in dict(zip(ids.tolist(), gradients, strict=True)).items():
            row = self.row(one)
            self.squares[one] = self.squares.get(one, 0) + gradient * gradient
            self.rows[one] = row - self.lr * gradient / (np.sqrt(self.squares[one]) + 1e-10)

    def known(self):
        return list(self.rows)

    def row(self, one):
        if one not in self.rows:
            self.rows[one] = np.array(self.start(one))
        return self.rows[one]


# %% wrong: duplicate rows one after the other | one after the other


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start = dim, lr, start
        self.rows, self.squares = {}, {}

    def pull(self, ids):
        found = [self.row(int(one)) for one in ids]
        return np.array(found).reshape(len(found), self.dim)

    def push(self, ids, gradients):
        for one, gradient in zip(ids.tolist(), gradients, strict=True):
            row = self.row(one)
            self.squares[one] = self.squares.get(one, 0) + gradient * gradient
            self.rows[one] = row - self.lr * gradient / (np.sqrt(self.squares[one]) + 1e-10)

    def known(self):
        return list(self.rows)

    def row(self, one):
        if one not in self.rows:
            self.rows[one] = np.array(self.start(one))
        return self.rows[one]


# %% wrong: duplicate rows are averaged | were averaged


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start = dim, lr, start
        self.rows, self.squares = {}, {}

    def pull(self, ids):
        found = [self.row(int(one)) for one in ids]
        return np.array(found).reshape(len(found), self.dim)

    def push(self, ids, gradients):
        for one in set(ids.tolist()):
            gradient = gradients[ids == one].mean(axis=0)
            row = self.row(one)
            self.squares[one] = self.squares.get(one, 0) + gradient * gradient
            self.rows[one] = row - self.lr * gradient / (np.sqrt(self.squares[one]) + 1e-10)

    def known(self):
        return list(self.rows)

    def row(self, one):
        if one not in self.rows:
            self.rows[one] = np.array(self.start(one))
        return self.rows[one]


# %% wrong: a row starts as the next of a sequence | in whatever order rows are made


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start = dim, lr, start
        self.rows, self.squares = {}, {}

    def pull(self, ids):
        found = [self.row(int(one)) for one in ids]
        return np.array(found).reshape(len(found), self.dim)

    def push(self, ids, gradients):
        summed = {}
        for one, gradient in zip(ids, gradients, strict=True):
            summed[int(one)] = summed.get(int(one), 0) + gradient
        for one, gradient in summed.items():
            row = self.row(one)
            self.squares[one] = self.squares.get(one, 0) + gradient * gradient
            self.rows[one] = row - self.lr * gradient / (np.sqrt(self.squares[one]) + 1e-10)

    def known(self):
        return list(self.rows)

    def row(self, one):
        if one not in self.rows:
            self.rows[one] = np.array(self.start(len(self.rows)))
        return self.rows[one]


# %% wrong: rows start as zeros | expected start|from zeros


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start = dim, lr, start
        self.rows, self.squares = {}, {}

    def pull(self, ids):
        found = [self.row(int(one)) for one in ids]
        return np.array(found).reshape(len(found), self.dim)

    def push(self, ids, gradients):
        summed = {}
        for one, gradient in zip(ids, gradients, strict=True):
            summed[int(one)] = summed.get(int(one), 0) + gradient
        for one, gradient in summed.items():
            row = self.row(one)
            self.squares[one] = self.squares.get(one, 0) + gradient * gradient
            self.rows[one] = row - self.lr * gradient / (np.sqrt(self.squares[one]) + 1e-10)

    def known(self):
        return list(self.rows)

    def row(self, one):
        return self.rows.setdefault(one, np.zeros(self.dim))


# %% wrong: a row that is only pulled is not kept | known\(\) does not have it


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start = dim, lr, start
        self.rows, self.squares = {}, {}

    def pull(self, ids):
        found = [self.rows[one] if one in self.rows else self.start(one) for one in ids.tolist()]
        return np.array(found).reshape(len(found), self.dim)

    def push(self, ids, gradients):
        summed = {}
        for one, gradient in zip(ids, gradients, strict=True):
            summed[int(one)] = summed.get(int(one), 0) + gradient
        for one, gradient in summed.items():
            row = self.row(one)
            self.squares[one] = self.squares.get(one, 0) + gradient * gradient
            self.rows[one] = row - self.lr * gradient / (np.sqrt(self.squares[one]) + 1e-10)

    def known(self):
        return list(self.rows)

    def row(self, one):
        if one not in self.rows:
            self.rows[one] = np.array(self.start(one))
        return self.rows[one]


# %% wrong: a push makes no row | does not have it|KeyError|did not move


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start = dim, lr, start
        self.rows, self.squares = {}, {}

    def pull(self, ids):
        found = [self.row(int(one)) for one in ids]
        return np.array(found).reshape(len(found), self.dim)

    def push(self, ids, gradients):
        summed = {}
        for one, gradient in zip(ids.tolist(), gradients, strict=True):
            if one in self.rows:
                summed[one] = summed.get(one, 0) + gradient
        for one, gradient in summed.items():
            self.squares[one] = self.squares.get(one, 0) + gradient * gradient
            self.rows[one] = self.rows[one] - self.lr * gradient / (np.sqrt(self.squares[one]) + 1e-10)

    def known(self):
        return list(self.rows)

    def row(self, one):
        if one not in self.rows:
            self.rows[one] = np.array(self.start(one))
        return self.rows[one]


# %% wrong: all rows up to the largest id exist | memory|nobody touched it|still at work


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start = dim, lr, start
        self.rows, self.squares = {}, {}

    def pull(self, ids):
        for one in range(int(max(ids, default=-1)) + 1):
            self.row(one)
            if one > 100_000:
                raise MemoryError("no room for another row")
        return np.array([self.row(int(one)) for one in ids]).reshape(len(ids), self.dim)

    def push(self, ids, gradients):
        summed = {}
        for one, gradient in zip(ids, gradients, strict=True):
            summed[int(one)] = summed.get(int(one), 0) + gradient
        for one, gradient in summed.items():
            row = self.row(one)
            self.squares[one] = self.squares.get(one, 0) + gradient * gradient
            self.rows[one] = row - self.lr * gradient / (np.sqrt(self.squares[one]) + 1e-10)

    def known(self):
        return list(self.rows)

    def row(self, one):
        if one not in self.rows:
            self.rows[one] = np.array(self.start(one))
        return self.rows[one]


# %% wrong: SGD | plain SGD


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start = dim, lr, start
        self.rows, self.squares = {}, {}

    def pull(self, ids):
        found = [self.row(int(one)) for one in ids]
        return np.array(found).reshape(len(found), self.dim)

    def push(self, ids, gradients):
        for one, gradient in zip(ids.tolist(), gradients, strict=True):
            self.rows[one] = self.row(one) - self.lr * gradient

    def known(self):
        return list(self.rows)

    def row(self, one):
        if one not in self.rows:
            self.rows[one] = np.array(self.start(one))
        return self.rows[one]


# %% wrong: squares are forgotten | not kept from push to push


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start = dim, lr, start
        self.rows, self.squares = {}, {}

    def pull(self, ids):
        found = [self.row(int(one)) for one in ids]
        return np.array(found).reshape(len(found), self.dim)

    def push(self, ids, gradients):
        summed = {}
        for one, gradient in zip(ids.tolist(), gradients, strict=True):
            summed[one] = summed.get(one, 0) + gradient
        for one, gradient in summed.items():
            self.rows[one] = self.row(one) - self.lr * gradient / (np.sqrt(gradient * gradient) + 1e-10)

    def known(self):
        return list(self.rows)

    def row(self, one):
        if one not in self.rows:
            self.rows[one] = np.array(self.start(one))
        return self.rows[one]


# %% wrong: one sum of squares for the table | expected


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start = dim, lr, start
        self.rows, self.squares = {}, {}

    def pull(self, ids):
        found = [self.row(int(one)) for one in ids]
        return np.array(found).reshape(len(found), self.dim)

    def push(self, ids, gradients):
        summed = {}
        for one, gradient in zip(ids.tolist(), gradients, strict=True):
            summed[one] = summed.get(one, 0) + gradient
        for one, gradient in summed.items():
            row = self.row(one)
            self.squares[0] = self.squares.get(0, 0) + gradient * gradient
            self.rows[one] = row - self.lr * gradient / (np.sqrt(self.squares[0]) + 1e-10)

    def known(self):
        return list(self.rows)

    def row(self, one):
        if one not in self.rows:
            self.rows[one] = np.array(self.start(one))
        return self.rows[one]


# %% wrong: no ids make an array without columns | shape


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start = dim, lr, start
        self.rows, self.squares = {}, {}

    def pull(self, ids):
        return np.array([self.row(int(one)) for one in ids])

    def push(self, ids, gradients):
        summed = {}
        for one, gradient in zip(ids, gradients, strict=True):
            summed[int(one)] = summed.get(int(one), 0) + gradient
        for one, gradient in summed.items():
            row = self.row(one)
            self.squares[one] = self.squares.get(one, 0) + gradient * gradient
            self.rows[one] = row - self.lr * gradient / (np.sqrt(self.squares[one]) + 1e-10)

    def known(self):
        return list(self.rows)

    def row(self, one):
        if one not in self.rows:
            self.rows[one] = np.array(self.start(one))
        return self.rows[one]


# %% wrong: the ids that are asked for are made unique | expected an array of shape|expected


class SparseTable:
    def __init__(self, dim, lr, start):
        self.dim, self.lr, self.start = dim, lr, start
        self.rows, self.squares = {}, {}

    def pull(self, ids):
        found = [self.row(one) for one in sorted(set(ids.tolist()))]
        return np.array(found).reshape(len(found), self.dim)

    def push(self, ids, gradients):
        summed = {}
        for one, gradient in zip(ids, gradients, strict=True):
            summed[int(one)] = summed.get(int(one), 0) + gradient
        for one, gradient in summed.items():
            row = self.row(one)
            self.squares[one] = self.squares.get(one, 0) + gradient * gradient
            self.rows[one] = row - self.lr * gradient / (np.sqrt(self.squares[one]) + 1e-10)

    def known(self):
        return list(self.rows)

    def row(self, one):
        if one not in self.rows:
            self.rows[one] = np.array(self.start(one))
        return self.rows[one]
