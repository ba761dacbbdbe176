"""Answers to the task `workers`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811

# %% right: the node that is ready first to the worker that is free first


def simulate(inputs, seconds, workers):
    free, schedule = [0.0] * workers, {}
    while len(schedule) < len(inputs):
        ready = {
            name: max([schedule[one][2] for one in needed_], default=0.0)
            for name, needed_ in inputs.items()
            if name not in schedule and all(one in schedule for one in needed_)
        }
        name = min(ready, key=ready.get)
        worker = free.index(min(free))
        start = max(ready[name], free[worker])
        free[worker] = start + seconds[name]
        schedule[name] = (worker, start, free[worker])
    return schedule


# %% right: the longest way to the end first


def simulate(inputs, seconds, workers):
    rest = dict.fromkeys(inputs, 0.0)
    for _ in inputs:
        for name, sources in inputs.items():
            for one in sources:
                rest[one] = max(rest[one], rest[name] + seconds[name])
    now, running, schedule = 0.0, {}, {}
    while len(schedule) < len(inputs) or running:
        running = {worker: end for worker, end in running.items() if end > now}
        done = {name for name, (_, _, end) in schedule.items() if end <= now}
        ready = [name for name in inputs if name not in schedule and done.issuperset(inputs[name])]
        idle = [worker for worker in range(workers) if worker not in running]
        if ready and idle:
            name = max(ready, key=lambda name: rest[name] + seconds[name])
            schedule[name] = (idle[0], now, now + seconds[name])
            running[idle[0]] = now + seconds[name]
        elif running:
            now = min(running.values())
        else:
            break
    return schedule


# %% wrong: one worker does it all | has nothing to do


def simulate(inputs, seconds, workers):
    now, schedule = 0.0, {}
    while len(schedule) < len(inputs):
        name = next(n for n in inputs if n not in schedule and all(one in schedule for one in inputs[n]))
        schedule[name] = (0, now, now + seconds[name])
        now += seconds[name]
    return schedule


# %% wrong: a worker for each node | with 1 workers they are|with 2 workers they are|at the same time


def simulate(inputs, seconds, workers):
    schedule = {}
    while len(schedule) < len(inputs):
        for name in inputs:
            if name not in schedule and all(one in schedule for one in inputs[name]):
                start = max([schedule[one][2] for one in inputs[name]], default=0.0)
                schedule[name] = (len(schedule), start, start + seconds[name])
    return schedule


# %% wrong: two at the same time | at the same time


def simulate(inputs, seconds, workers):
    schedule = {}
    while len(schedule) < len(inputs):
        for name in inputs:
            if name not in schedule and all(one in schedule for one in inputs[name]):
                start = max([schedule[one][2] for one in inputs[name]], default=0.0)
                schedule[name] = (0, start, start + seconds[name])
    return schedule


# %% wrong: inputs are not waited for | which it is made from


def simulate(inputs, seconds, workers):
    free, schedule = [0.0] * workers, {}
    for name in inputs:
        worker = free.index(min(free))
        schedule[name] = (worker, free[worker], free[worker] + seconds[name])
        free[worker] += seconds[name]
    return schedule


# %% wrong: level by level | has nothing to do


def simulate(inputs, seconds, workers):
    now, schedule = 0.0, {}
    while len(schedule) < len(inputs):
        level = [n for n in inputs if n not in schedule and all(one in schedule for one in inputs[n])]
        free = [now] * workers
        for name in level:
            worker = free.index(min(free))
            schedule[name] = (worker, free[worker], free[worker] + seconds[name])
            free[worker] += seconds[name]
        now = max(free)
    return schedule


# %% wrong: the worker of the first input | has nothing to do|at the same time


def simulate(inputs, seconds, workers):
    free, schedule = [0.0] * workers, {}
    while len(schedule) < len(inputs):
        for name in inputs:
            if name not in schedule and all(one in schedule for one in inputs[name]):
                worker = schedule[inputs[name][0]][0] if inputs[name] else 0
                start = max([free[worker], *[schedule[one][2] for one in inputs[name]]])
                free[worker] = start + seconds[name]
                schedule[name] = (worker, start, free[worker])
    return schedule


# %% wrong: workers from 1 | they are 0 to


def simulate(inputs, seconds, workers):
    free, schedule = [0.0] * workers, {}
    while len(schedule) < len(inputs):
        ready = {
            name: max([schedule[one][2] for one in needed_], default=0.0)
            for name, needed_ in inputs.items()
            if name not in schedule and all(one in schedule for one in needed_)
        }
        name = min(ready, key=ready.get)
        worker = free.index(min(free))
        start = max(ready[name], free[worker])
        free[worker] = start + seconds[name]
        schedule[name] = (worker + 1, start, free[worker])
    return schedule


# %% wrong: the duration in place of the end | s, but runs from


def simulate(inputs, seconds, workers):
    free, schedule = [0.0] * workers, {}
    while len(schedule) < len(inputs):
        ready = {
            name: max([schedule[one][1] + schedule[one][2] for one in needed_], default=0.0)
            for name, needed_ in inputs.items()
            if name not in schedule and all(one in schedule for one in needed_)
        }
        name = min(ready, key=ready.get)
        worker = free.index(min(free))
        start = max(ready[name], free[worker])
        free[worker] = start + seconds[name]
        schedule[name] = (worker, start, seconds[name])
    return schedule


# %% wrong: the last nodes are forgotten | never runs


def simulate(inputs, seconds, workers):
    read = {one for needed_ in inputs.values() for one in needed_}
    free, schedule = [0.0] * workers, {}
    while len(schedule) < len(read):
        ready = {
            name: max([schedule[one][2] for one in inputs[name]], default=0.0)
            for name in read
            if name not in schedule and all(one in schedule for one in inputs[name])
        }
        name = min(ready, key=ready.get)
        worker = free.index(min(free))
        start = max(ready[name], free[worker])
        free[worker] = start + seconds[name]
        schedule[name] = (worker, start, free[worker])
    return schedule


# %% wrong: nodes in turn to workers in turn | has nothing to do


def simulate(inputs, seconds, workers):
    free, schedule, turn = [0.0] * workers, {}, 0
    while len(schedule) < len(inputs):
        for name in inputs:
            if name not in schedule and all(one in schedule for one in inputs[name]):
                worker, turn = turn % workers, turn + 1
                start = max([free[worker], *[schedule[one][2] for one in inputs[name]]])
                free[worker] = start + seconds[name]
                schedule[name] = (worker, start, free[worker])
    return schedule


# %% wrong: an input must be done before, not at, the start | has nothing to do|could be done


def simulate(inputs, seconds, workers):
    free, schedule = [0.0] * workers, {}
    while len(schedule) < len(inputs):
        ready = {
            name: max([schedule[one][2] + 0.1 for one in needed_], default=0.0)
            for name, needed_ in inputs.items()
            if name not in schedule and all(one in schedule for one in needed_)
        }
        name = min(ready, key=ready.get)
        worker = free.index(min(free))
        start = max(ready[name], free[worker])
        free[worker] = start + seconds[name]
        schedule[name] = (worker, start, free[worker])
    return schedule
