"""Answers to the task `barrier`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821


# %% right: a running sum


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.lr, self.version = np.array(weights), lr, 0
        self.living, self.done, self.total = list(range(trainers)), [], 0

    def push(self, trainer, step, gradient):
        if step != self.version or trainer in self.done:
            return
        self.done.append(trainer)
        self.total = self.total + gradient
        self._look()

    def pull(self, trainer, step):
        if self.version < step:
            return None
        return self.weights.copy()

    def lost(self, trainer):
        if trainer in self.living:
            self.living.remove(trainer)
        self._look()

    def _look(self):
        if self.done and all(one in self.done for one in self.living):
            self.weights -= self.lr / len(self.done) * self.total
            self.done, self.total, self.version = [], 0, self.version + 1


# %% right: a round for each step


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.lr, self.version = np.array(weights), lr, 0
        self.rounds, self.gone, self.everyone = {}, set(), set(range(trainers))

    def push(self, trainer, step, gradient):
        self.rounds.setdefault(step, {}).setdefault(trainer, gradient)
        self.advance()

    def pull(self, trainer, step):
        return None if step > self.version else self.weights

    def lost(self, trainer):
        self.gone.add(trainer)
        self.advance()

    def advance(self):
        while len(self.everyone - self.gone - set(self.rounds.get(self.version, ()))) == 0 and self.rounds.get(
            self.version
        ):
            gradients = list(self.rounds[self.version].values())
            self.weights = self.weights - self.lr * np.mean(gradients, axis=0)
            self.version += 1


# %% wrong: the barrier is off by one | had pushed for step \d; trainers? .* had not|was given weights for step


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, set(range(trainers)), {}

    def push(self, trainer, step, gradient):
        if step == self.version and trainer not in self.came:
            self.came[trainer] = gradient
            self.close_round()

    def pull(self, trainer, step):
        return self.weights if self.version >= step else None

    def lost(self, trainer):
        self.alive.discard(trainer)
        self.close_round()

    def close_round(self):
        if len(self.came) >= len(self.alive) - 1 and self.came:
            self.weights = self.weights - self.lr * sum(self.came.values()) / len(self.came)
            self.came = {}
            self.version += 1


# %% wrong: averaged twice | average once


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, set(range(trainers)), {}

    def push(self, trainer, step, gradient):
        if step == self.version and trainer not in self.came:
            self.came[trainer] = gradient
            self.close_round()

    def pull(self, trainer, step):
        return self.weights if self.version >= step else None

    def lost(self, trainer):
        self.alive.discard(trainer)
        self.close_round()

    def close_round(self):
        if self.came and self.came.keys() >= self.alive:
            mean = sum(self.came.values()) / len(self.came)
            self.weights = self.weights - self.lr * mean / len(self.came)
            self.came = {}
            self.version += 1


# %% wrong: the sum | by the sum of the gradients


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, set(range(trainers)), {}

    def push(self, trainer, step, gradient):
        if step == self.version and trainer not in self.came:
            self.came[trainer] = gradient
            self.close_round()

    def pull(self, trainer, step):
        return self.weights if self.version >= step else None

    def lost(self, trainer):
        self.alive.discard(trainer)
        self.close_round()

    def close_round(self):
        if self.came and self.came.keys() >= self.alive:
            self.weights = self.weights - self.lr * sum(self.came.values())
            self.came = {}
            self.version += 1


# %% wrong: applied as it comes | An update waits until all have|had not pushed


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, set(range(trainers)), {}

    def push(self, trainer, step, gradient):
        if step == self.version and trainer not in self.came:
            self.weights = self.weights - self.lr * gradient / self.trainers
            self.came[trainer] = gradient
            self.close_round()

    def pull(self, trainer, step):
        return self.weights if self.version >= step else None

    def lost(self, trainer):
        self.alive.discard(trainer)
        self.close_round()

    def close_round(self):
        if self.came and self.came.keys() >= self.alive:
            self.came = {}
            self.version += 1


# %% wrong: a push that comes again completes the round | counts once|counted twice|had not


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, trainers, []

    def push(self, trainer, step, gradient):
        if step == self.version:
            self.came.append(gradient)
            self.close_round()

    def pull(self, trainer, step):
        return self.weights if self.version >= step else None

    def lost(self, trainer):
        self.alive -= 1
        self.close_round()

    def close_round(self):
        if self.came and len(self.came) >= self.alive:
            self.weights = self.weights - self.lr * sum(self.came) / len(self.came)
            self.came = []
            self.version += 1


# %% wrong: a push that comes again is added to the first | counted twice


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, set(range(trainers)), {}

    def push(self, trainer, step, gradient):
        if step == self.version:
            self.came[trainer] = self.came.get(trainer, 0) + gradient
            self.close_round()

    def pull(self, trainer, step):
        return self.weights if self.version >= step else None

    def lost(self, trainer):
        self.alive.discard(trainer)
        self.close_round()

    def close_round(self):
        if self.came and self.came.keys() >= self.alive:
            self.weights = self.weights - self.lr * sum(self.came.values()) / len(self.came)
            self.came = {}
            self.version += 1


# %% wrong: a push of a round that is over counts for the next | a round that was over|moved at the second|had not


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, set(range(trainers)), {}

    def push(self, trainer, step, gradient):
        if trainer not in self.came:
            self.came[trainer] = gradient
            self.close_round()

    def pull(self, trainer, step):
        return self.weights if self.version >= step else None

    def lost(self, trainer):
        self.alive.discard(trainer)
        self.close_round()

    def close_round(self):
        if self.came and self.came.keys() >= self.alive:
            self.weights = self.weights - self.lr * sum(self.came.values()) / len(self.came)
            self.came = {}
            self.version += 1


# %% wrong: nobody looks when a trainer is lost | have to move in lost


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, set(range(trainers)), {}

    def push(self, trainer, step, gradient):
        if step == self.version and trainer not in self.came:
            self.came[trainer] = gradient
            self.close_round()

    def pull(self, trainer, step):
        return self.weights if self.version >= step else None

    def lost(self, trainer):
        self.alive.discard(trainer)

    def close_round(self):
        if self.came and self.came.keys() >= self.alive:
            self.weights = self.weights - self.lr * sum(self.came.values()) / len(self.came)
            self.came = {}
            self.version += 1


# %% wrong: a lost trainer is still waited for | have to move in lost|did not move|gives None


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, set(range(trainers)), {}

    def push(self, trainer, step, gradient):
        if step == self.version and trainer not in self.came:
            self.came[trainer] = gradient
            self.close_round()

    def pull(self, trainer, step):
        return self.weights if self.version >= step else None

    def lost(self, trainer):
        pass

    def close_round(self):
        if self.came and self.came.keys() >= self.alive:
            self.weights = self.weights - self.lr * sum(self.came.values()) / len(self.came)
            self.came = {}
            self.version += 1


# %% wrong: what a lost trainer had pushed is thrown away | was not in the average


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, set(range(trainers)), {}

    def push(self, trainer, step, gradient):
        if step == self.version and trainer not in self.came:
            self.came[trainer] = gradient
            self.close_round()

    def pull(self, trainer, step):
        return self.weights if self.version >= step else None

    def lost(self, trainer):
        self.alive.discard(trainer)
        self.came.pop(trainer, None)
        self.close_round()

    def close_round(self):
        if self.came and self.came.keys() >= self.alive:
            self.weights = self.weights - self.lr * sum(self.came.values()) / len(self.came)
            self.came = {}
            self.version += 1


# %% wrong: divided by all there ever were | over those that came


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, set(range(trainers)), {}

    def push(self, trainer, step, gradient):
        if step == self.version and trainer not in self.came:
            self.came[trainer] = gradient
            self.close_round()

    def pull(self, trainer, step):
        return self.weights if self.version >= step else None

    def lost(self, trainer):
        self.alive.discard(trainer)
        self.close_round()

    def close_round(self):
        if self.came and self.came.keys() >= self.alive:
            self.weights = self.weights - self.lr * sum(self.came.values()) / self.trainers
            self.came = {}
            self.version += 1


# %% wrong: everybody may pull at any time | was given weights for step


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, set(range(trainers)), {}

    def push(self, trainer, step, gradient):
        if step == self.version and trainer not in self.came:
            self.came[trainer] = gradient
            self.close_round()

    def pull(self, trainer, step):
        return self.weights

    def lost(self, trainer):
        self.alive.discard(trainer)
        self.close_round()

    def close_round(self):
        if self.came and self.came.keys() >= self.alive:
            self.weights = self.weights - self.lr * sum(self.came.values()) / len(self.came)
            self.came = {}
            self.version += 1


# %% wrong: pull waits for one round too many | there from the start|gives None


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, set(range(trainers)), {}

    def push(self, trainer, step, gradient):
        if step == self.version and trainer not in self.came:
            self.came[trainer] = gradient
            self.close_round()

    def pull(self, trainer, step):
        return self.weights if self.version > step else None

    def lost(self, trainer):
        self.alive.discard(trainer)
        self.close_round()

    def close_round(self):
        if self.came and self.came.keys() >= self.alive:
            self.weights = self.weights - self.lr * sum(self.came.values()) / len(self.came)
            self.came = {}
            self.version += 1


# %% wrong: up the gradient | a step goes down


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights, self.trainers, self.lr = np.array(weights), trainers, lr
        self.version, self.alive, self.came = 0, set(range(trainers)), {}

    def push(self, trainer, step, gradient):
        if step == self.version and trainer not in self.came:
            self.came[trainer] = gradient
            self.close_round()

    def pull(self, trainer, step):
        return self.weights if self.version >= step else None

    def lost(self, trainer):
        self.alive.discard(trainer)
        self.close_round()

    def close_round(self):
        if self.came and self.came.keys() >= self.alive:
            self.weights = self.weights + self.lr * sum(self.came.values()) / len(self.came)
            self.came = {}
            self.version += 1


# %% wrong: not filled in | not been filled


class SyncServer:
    def __init__(self, weights, trainers, lr):
        self.weights = np.array(weights)
        raise NotImplementedError()
