"""Answers to the task `batches`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B007, F811, F821, NPY002, RUF100

# %% right: the generator's own state, and what is left of the epoch


class Batches:
    def __init__(self, n, batch_size, seed=0):
        self.n, self.batch_size = n, batch_size
        self.rng = np.random.default_rng(seed)
        self.left = []

    def next_batch(self):
        if not self.left:
            self.left = self.rng.permutation(self.n).tolist()
        batch, self.left = self.left[: self.batch_size], self.left[self.batch_size :]
        return np.array(batch)

    def state_dict(self):
        return {"rng": self.rng.bit_generator.state, "left": list(self.left)}

    def load_state_dict(self, state):
        self.rng.bit_generator.state = state["rng"]
        self.left = list(state["left"])


# %% right: a count of batches says it all


class Batches:
    def __init__(self, n, batch_size, seed=0):
        self.n, self.batch_size, self.seed, self.taken = n, batch_size, seed, 0

    def next_batch(self):
        import random

        epoch, step = divmod(self.taken, -(-self.n // self.batch_size))
        order = list(range(self.n))
        random.Random(f"{self.seed} {epoch}").shuffle(order)
        self.taken += 1
        return np.array(order[step * self.batch_size : (step + 1) * self.batch_size])

    def state_dict(self):
        return {"taken": self.taken}

    def load_state_dict(self, state):
        self.taken = state["taken"]


# %% wrong: not shuffled | in their own order


class Batches(Batches):
    def next_batch(self):
        order = np.arange(self.n)
        batch = order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        if self.position >= self.n:
            self.epoch, self.position = self.epoch + 1, 0
        return batch


# %% wrong: shuffled once | same order


class Batches(Batches):
    def next_batch(self):
        order = np.random.default_rng(self.seed).permutation(self.n)
        batch = order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        if self.position >= self.n:
            self.epoch, self.position = self.epoch + 1, 0
        return batch


# %% wrong: the seed is ignored | Another seed


class Batches(Batches):
    def next_batch(self):
        order = np.random.default_rng(self.epoch).permutation(self.n)
        batch = order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        if self.position >= self.n:
            self.epoch, self.position = self.epoch + 1, 0
        return batch


# %% wrong: no seed at all | same seed give different|goes on with


class Batches(Batches):
    def next_batch(self):
        order = np.random.default_rng().permutation(self.n)
        batch = order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        if self.position >= self.n:
            self.epoch, self.position = self.epoch + 1, 0
        return batch


# %% wrong: drops the last batch | has what is left|rows


class Batches(Batches):
    def next_batch(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.n)
        batch = order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        if self.position + self.batch_size > self.n:
            self.epoch, self.position = self.epoch + 1, 0
        return batch


# %% wrong: batches across epochs | has what is left|rows|twice


class Batches:
    def __init__(self, n, batch_size, seed=0):
        self.n, self.batch_size, self.seed = n, batch_size, seed
        self.rng = np.random.default_rng(seed)
        self.order, self.position = self.rng.permutation(n), 0

    def next_batch(self):
        if self.position >= self.n:
            self.order, self.position = self.rng.permutation(self.n), 0
        batch = self.order[self.position : self.position + self.batch_size]
        if len(batch) < self.batch_size:
            batch = np.concatenate([batch, self.order[: self.batch_size - len(batch)]])
        self.position += self.batch_size
        return batch.copy()

    def state_dict(self):
        return {"position": self.position, "order": self.order.tolist(), "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state):
        self.position, self.order = state["position"], np.array(state["order"])
        self.rng.bit_generator.state = state["rng"]


# %% wrong: with replacement | a row twice


class Batches(Batches):
    def next_batch(self):
        order = np.random.default_rng([self.seed, self.epoch]).integers(0, self.n, self.n)
        batch = order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        if self.position >= self.n:
            self.epoch, self.position = self.epoch + 1, 0
        return batch


# %% wrong: resumes at the start of the epoch | starts its epoch anew|from the beginning


class Batches(Batches):
    def load_state_dict(self, state):
        self.epoch, self.position = state["epoch"], 0


# %% wrong: resumes at the start | from the beginning


class Batches(Batches):
    def load_state_dict(self, state):
        self.epoch, self.position = 0, 0


# %% wrong: only the epoch is in the state | whatever next_batch reads


class Batches(Batches):
    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]


# %% wrong: leaves out the next batch | leaves out a batch|goes on with


class Batches(Batches):
    def state_dict(self):
        return {"epoch": self.epoch, "position": self.position + self.batch_size}


# %% wrong: the generator is not saved | resumed


class Batches:
    def __init__(self, n, batch_size, seed=0):
        self.n, self.batch_size, self.seed = n, batch_size, seed
        self.rng = np.random.default_rng(seed)
        self.order, self.position = self.rng.permutation(n), 0

    def next_batch(self):
        if self.position >= self.n:
            self.order, self.position = self.rng.permutation(self.n), 0
        batch = self.order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        return batch.copy()

    def state_dict(self):
        return {"position": self.position, "order": self.order.tolist(), "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state):
        self.position, self.order = state["position"], np.array(state["order"])


# %% wrong: the order is not saved | resumed


class Batches:
    def __init__(self, n, batch_size, seed=0):
        self.n, self.batch_size, self.seed = n, batch_size, seed
        self.rng = np.random.default_rng(seed)
        self.order, self.position = self.rng.permutation(n), 0

    def next_batch(self):
        if self.position >= self.n:
            self.order, self.position = self.rng.permutation(self.n), 0
        batch = self.order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        return batch.copy()

    def state_dict(self):
        return {"position": self.position, "order": self.order.tolist(), "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state):
        self.position = state["position"]
        self.rng.bit_generator.state = state["rng"]


# %% wrong: the state is the loader's own dict | is to be a copy


class Batches:
    def __init__(self, n, batch_size, seed=0):
        self.n, self.batch_size, self.seed = n, batch_size, seed
        self.state = {"epoch": 0, "position": 0}

    def next_batch(self):
        s = self.state
        order = np.random.default_rng([self.seed, s["epoch"]]).permutation(self.n)
        batch = order[s["position"] : s["position"] + self.batch_size]
        s["position"] += self.batch_size
        if s["position"] >= self.n:
            s["epoch"] += 1
            s["position"] = 0
        return batch

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


# %% wrong: hands out its own order | spoil|wrote into a batch|-1|twice


class Batches:
    def __init__(self, n, batch_size, seed=0):
        self.n, self.batch_size, self.seed = n, batch_size, seed
        self.rng = np.random.default_rng(seed)
        self.order, self.position = self.rng.permutation(n), 0

    def next_batch(self):
        if self.position >= self.n:
            self.position = 0
            self.rng.shuffle(self.order)
        batch = self.order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        return batch

    def state_dict(self):
        return {"position": self.position, "order": self.order.tolist(), "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state):
        self.position, self.order = state["position"], np.array(state["order"])
        self.rng.bit_generator.state = state["rng"]


# %% wrong: an array in the state | json cannot write


class Batches:
    def __init__(self, n, batch_size, seed=0):
        self.n, self.batch_size, self.seed = n, batch_size, seed
        self.rng = np.random.default_rng(seed)
        self.order, self.position = self.rng.permutation(n), 0

    def next_batch(self):
        if self.position >= self.n:
            self.order, self.position = self.rng.permutation(self.n), 0
        batch = self.order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        return batch.copy()

    def state_dict(self):
        return {"position": self.position, "order": self.order, "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state):
        self.position, self.order = state["position"], np.array(state["order"])
        self.rng.bit_generator.state = state["rng"]


# %% wrong: the global generator | global generator|same seed


class Batches(Batches):
    def next_batch(self):
        np.random.seed(self.seed + self.epoch)
        order = np.random.RandomState(self.seed + self.epoch).permutation(self.n)
        batch = order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        if self.position >= self.n:
            self.epoch, self.position = self.epoch + 1, 0
        return batch


# %% wrong: asking for the state draws | same seed give different|resumed


class Batches:
    def __init__(self, n, batch_size, seed=0):
        self.n, self.batch_size, self.seed = n, batch_size, seed
        self.rng = np.random.default_rng(seed)
        self.order, self.position = self.rng.permutation(n), 0

    def next_batch(self):
        if self.position >= self.n:
            self.order, self.position = self.rng.permutation(self.n), 0
        batch = self.order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        return batch.copy()

    def state_dict(self):
        self.rng.random()
        return {"position": self.position, "order": self.order.tolist(), "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state):
        self.position, self.order = state["position"], np.array(state["order"])
        self.rng.bit_generator.state = state["rng"]


# %% wrong: gives lists | next_batch returned a list


class Batches(Batches):
    def next_batch(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.n)
        batch = order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        if self.position >= self.n:
            self.epoch, self.position = self.epoch + 1, 0
        return batch.tolist()


# %% wrong: not filled in | Not written yet


class Batches:
    def __init__(self, n, batch_size, seed=0):
        raise NotImplementedError("your code here")

    def next_batch(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.n)
        batch = order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        if self.position >= self.n:
            self.epoch, self.position = self.epoch + 1, 0
        return batch

    def state_dict(self):
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state):
        self.epoch, self.position = state["epoch"], state["position"]
