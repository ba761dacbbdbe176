"""Answers to the task `staleness`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821


# %% right: sets of steps


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.lr, self.bound = np.array(weights), lr, staleness
        self.pushed = [set() for _ in range(trainers)]
        self.gone = set()

    def push(self, trainer, step, gradient):
        if step in self.pushed[trainer]:
            return
        self.pushed[trainer].add(step)
        self.weights -= self.lr * gradient

    def pull(self, trainer, step):
        for other, steps in enumerate(self.pushed):
            if other not in self.gone and len(steps) + self.bound < step:
                return None
        return self.weights.copy()

    def lost(self, trainer):
        self.gone.add(trainer)


# %% right: a lost trainer is infinitely far


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.lr, self.staleness = np.array(weights), lr, staleness
        self.clocks = np.zeros(trainers)

    def push(self, trainer, step, gradient):
        if step + 1 > self.clocks[trainer]:
            self.clocks[trainer] = step + 1
            self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        return self.weights if step - self.clocks.min() <= self.staleness else None

    def lost(self, trainer):
        self.clocks[trainer] = np.inf


# %% wrong: stale by one clock more | lack the update|was let into step


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        if step >= self.clocks.get(trainer, 0):
            self.clocks[trainer] = step + 1
            self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        slowest = min(self.clocks.values(), default=step)
        return self.weights if slowest >= step - self.staleness - 1 else None

    def lost(self, trainer):
        self.clocks.pop(trainer, None)


# %% wrong: one clock less than allowed | was kept from step


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        if step >= self.clocks.get(trainer, 0):
            self.clocks[trainer] = step + 1
            self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        slowest = min(self.clocks.values(), default=step)
        return self.weights if slowest > step - self.staleness else None

    def lost(self, trainer):
        self.clocks.pop(trainer, None)


# %% wrong: the fastest clock decides | was let into step|lack the update


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        if step >= self.clocks.get(trainer, 0):
            self.clocks[trainer] = step + 1
            self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        return self.weights if max(self.clocks.values(), default=step) >= step - self.staleness else None

    def lost(self, trainer):
        self.clocks.pop(trainer, None)


# %% wrong: the average clock decides | was let into step|lack the update


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        if step >= self.clocks.get(trainer, 0):
            self.clocks[trainer] = step + 1
            self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        average = sum(self.clocks.values()) / max(1, len(self.clocks))
        return self.weights if average >= step - self.staleness else None

    def lost(self, trainer):
        self.clocks.pop(trainer, None)


# %% wrong: nobody waits | was let into step|lack the update


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        if step >= self.clocks.get(trainer, 0):
            self.clocks[trainer] = step + 1
            self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        return self.weights

    def lost(self, trainer):
        self.clocks.pop(trainer, None)


# %% wrong: a barrier | was kept from step


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        if step >= self.clocks.get(trainer, 0):
            self.clocks[trainer] = step + 1
            self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        slowest = min(self.clocks.values(), default=step)
        return self.weights if slowest >= step else None

    def lost(self, trainer):
        self.clocks.pop(trainer, None)


# %% wrong: only its own clock is looked at | was let into step|lack the update


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        if step >= self.clocks.get(trainer, 0):
            self.clocks[trainer] = step + 1
            self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        return self.weights if self.clocks.get(trainer, 0) >= step - self.staleness else None

    def lost(self, trainer):
        self.clocks.pop(trainer, None)


# %% wrong: a push that comes again moves the clock | was let into step|applied twice|lack


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        self.clocks[trainer] = self.clocks.get(trainer, 0) + 1
        self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        slowest = min(self.clocks.values(), default=step)
        return self.weights if slowest >= step - self.staleness else None

    def lost(self, trainer):
        self.clocks.pop(trainer, None)


# %% wrong: a push that comes again is applied again | applied twice


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        self.clocks[trainer] = step + 1
        self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        slowest = min(self.clocks.values(), default=step)
        return self.weights if slowest >= step - self.staleness else None

    def lost(self, trainer):
        self.clocks.pop(trainer, None)


# %% wrong: a dead trainer holds all others | is not waited for|gives None for ever


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        if step >= self.clocks.get(trainer, 0):
            self.clocks[trainer] = step + 1
            self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        slowest = min(self.clocks.values(), default=step)
        return self.weights if slowest >= step - self.staleness else None

    def lost(self, trainer):
        pass


# %% wrong: a dead trainer frees everybody | was let into step|lack the update


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        if step >= self.clocks.get(trainer, 0):
            self.clocks[trainer] = step + 1
            self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        slowest = min(self.clocks.values(), default=step)
        return self.weights if slowest >= step - self.staleness else None

    def lost(self, trainer):
        self.clocks.pop(trainer, None)
        self.staleness = 10**9


# %% wrong: the average in place of each gradient | divided by the number of trainers


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        if step >= self.clocks.get(trainer, 0):
            self.clocks[trainer] = step + 1
            self.weights = self.weights - self.lr * gradient / self.trainers

    def pull(self, trainer, step):
        slowest = min(self.clocks.values(), default=step)
        return self.weights if slowest >= step - self.staleness else None

    def lost(self, trainer):
        self.clocks.pop(trainer, None)


# %% wrong: gradients wait until a trainer pulls again | its own update|lack|not in the weights


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks, self.kept = dict.fromkeys(range(trainers), 0), []

    def push(self, trainer, step, gradient):
        if step >= self.clocks.get(trainer, 0):
            self.clocks[trainer] = step + 1
            self.kept.append(gradient)
            while len(self.kept) > self.trainers:
                self.weights = self.weights - self.lr * self.kept.pop(0)

    def pull(self, trainer, step):
        slowest = min(self.clocks.values(), default=step)
        return self.weights if slowest >= step - self.staleness else None

    def lost(self, trainer):
        self.clocks.pop(trainer, None)


# %% wrong: old weights are given out | its own update|lack


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        if step >= self.clocks.get(trainer, 0):
            self.clocks[trainer] = step + 1
            self.old = self.weights
            self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        slowest = min(self.clocks.values(), default=step)
        return getattr(self, "old", self.weights) if slowest >= step - self.staleness else None

    def lost(self, trainer):
        self.clocks.pop(trainer, None)


# %% wrong: the clock is the step that was pushed | was kept from step|gives None


class StaleServer:
    def __init__(self, weights, trainers, lr, staleness):
        self.weights, self.trainers, self.lr, self.staleness = np.array(weights), trainers, lr, staleness
        self.clocks = dict.fromkeys(range(trainers), 0)

    def push(self, trainer, step, gradient):
        if step >= self.clocks.get(trainer, 0):
            self.clocks[trainer] = step
            self.weights = self.weights - self.lr * gradient

    def pull(self, trainer, step):
        slowest = min(self.clocks.values(), default=step)
        return self.weights if slowest >= step - self.staleness else None

    def lost(self, trainer):
        self.clocks.pop(trainer, None)
