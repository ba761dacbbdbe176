"""Answers to the task `buckets`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: divides before the sum


def average_gradients(gradients, capacity, peers, all_reduce):
    averages, bucket, held = [None] * len(gradients), [], 0

    def close():
        flat = np.concatenate([gradients[k].reshape(-1) / peers.size for k in bucket])
        summed = all_reduce(flat.astype(gradients[0].dtype), peers)
        ends = np.cumsum([gradients[k].size for k in bucket])
        for k, part in zip(bucket, np.split(summed, ends[:-1]), strict=True):
            averages[k] = part.reshape(gradients[k].shape)

    for k in range(len(gradients) - 1, -1, -1):
        bucket.append(k)
        held += gradients[k].nbytes
        if held >= capacity or k == 0:
            close()
            bucket, held = [], 0
    return averages


# %% right: one flat array, cut into buckets


def average_gradients(gradients, capacity, peers, all_reduce):
    order = list(range(len(gradients)))[::-1]
    found, first = {}, 0
    while first < len(order):
        last = first + 1
        while last < len(order) and sum(gradients[k].nbytes for k in order[first:last]) < capacity:
            last += 1
        total = all_reduce(np.concatenate([gradients[k].ravel() for k in order[first:last]]), peers)
        for k in order[first:last]:
            part, total = total[: gradients[k].size], total[gradients[k].size :]
            found[k] = np.true_divide(part, peers.size).reshape(gradients[k].shape)
        first = last
    return [found[k] for k in range(len(gradients))]


# %% wrong: averaged twice | divided by the number of ranks twice


def average_gradients(gradients, capacity, peers, all_reduce):
    buckets, held = [], capacity
    for k in reversed(range(len(gradients))):
        if held >= capacity:
            buckets.append([])
            held = 0
        buckets[-1].append(k)
        held += gradients[k].nbytes
    averages = [None] * len(gradients)
    for bucket in buckets:
        flat = np.concatenate([gradients[k].ravel() for k in bucket]) / peers.size
        mean = all_reduce(flat, peers) / peers.size
        start = 0
        for k in bucket:
            stop = start + gradients[k].size
            averages[k] = mean[start:stop].reshape(gradients[k].shape)
            start = stop
    return averages


# %% wrong: the sum | this is the sum


def average_gradients(gradients, capacity, peers, all_reduce):
    buckets, held = [], capacity
    for k in reversed(range(len(gradients))):
        if held >= capacity:
            buckets.append([])
            held = 0
        buckets[-1].append(k)
        held += gradients[k].nbytes
    averages = [None] * len(gradients)
    for bucket in buckets:
        total = all_reduce(np.concatenate([gradients[k].ravel() for k in bucket]), peers)
        for k in bucket:
            averages[k] = total[: gradients[k].size].reshape(gradients[k].shape)
            total = total[gradients[k].size :]
    return averages


# %% wrong: in the order of registration | order of registration


def average_gradients(gradients, capacity, peers, all_reduce):
    buckets, held = [], capacity
    for k in range(len(gradients)):
        if held >= capacity:
            buckets.append([])
            held = 0
        buckets[-1].append(k)
        held += gradients[k].nbytes
    averages = [None] * len(gradients)
    for bucket in buckets:
        mean = all_reduce(np.concatenate([gradients[k].ravel() for k in bucket]), peers) / peers.size
        for k in bucket:
            averages[k] = mean[: gradients[k].size].reshape(gradients[k].shape)
            mean = mean[gradients[k].size :]
    return averages


# %% wrong: one call for each gradient | pays the latency each time|not closed before


def average_gradients(gradients, capacity, peers, all_reduce):
    means = [all_reduce(one.ravel(), peers) / peers.size for one in gradients[::-1]]
    return [mean.reshape(one.shape) for mean, one in zip(means[::-1], gradients, strict=True)]


# %% wrong: closed before a gradient that does not fit | not closed before


def average_gradients(gradients, capacity, peers, all_reduce):
    buckets, held = [], 0
    for k in reversed(range(len(gradients))):
        if not buckets or held + gradients[k].nbytes > capacity:
            buckets.append([])
            held = 0
        buckets[-1].append(k)
        held += gradients[k].nbytes
    averages = [None] * len(gradients)
    for bucket in buckets:
        mean = all_reduce(np.concatenate([gradients[k].ravel() for k in bucket]), peers) / peers.size
        for k in bucket:
            averages[k] = mean[: gradients[k].size].reshape(gradients[k].shape)
            mean = mean[gradients[k].size :]
    return averages


# %% wrong: capacity in numbers | closed once it holds|expected buckets


def average_gradients(gradients, capacity, peers, all_reduce):
    buckets, held = [], capacity
    for k in reversed(range(len(gradients))):
        if held >= capacity:
            buckets.append([])
            held = 0
        buckets[-1].append(k)
        held += gradients[k].size
    averages = [None] * len(gradients)
    for bucket in buckets:
        mean = all_reduce(np.concatenate([gradients[k].ravel() for k in bucket]), peers) / peers.size
        for k in bucket:
            averages[k] = mean[: gradients[k].size].reshape(gradients[k].shape)
            mean = mean[gradients[k].size :]
    return averages


# %% wrong: the last bucket, which is not full, is forgotten | Some gradients are in no


def average_gradients(gradients, capacity, peers, all_reduce):
    averages, bucket, held = [np.array(one) for one in gradients], [], 0
    for k in reversed(range(len(gradients))):
        bucket.append(k)
        held += gradients[k].nbytes
        if held >= capacity:
            mean = all_reduce(np.concatenate([gradients[j].ravel() for j in bucket]), peers) / peers.size
            for j in bucket:
                averages[j] = mean[: gradients[j].size].reshape(gradients[j].shape)
                mean = mean[gradients[j].size :]
            bucket, held = [], 0
    return averages


# %% wrong: cut apart in the order of registration | is the average of parameter|has shape|begins with


def average_gradients(gradients, capacity, peers, all_reduce):
    buckets, held = [], capacity
    for k in reversed(range(len(gradients))):
        if held >= capacity:
            buckets.append([])
            held = 0
        buckets[-1].append(k)
        held += gradients[k].nbytes
    averages = [None] * len(gradients)
    for bucket in buckets:
        mean = all_reduce(np.concatenate([gradients[k].ravel() for k in bucket]), peers) / peers.size
        for k in sorted(bucket):
            averages[k] = mean[: gradients[k].size].reshape(gradients[k].shape)
            mean = mean[gradients[k].size :]
    return averages


# %% wrong: the averages come back last first | has shape|order of registration


def average_gradients(gradients, capacity, peers, all_reduce):
    buckets, held = [], capacity
    for k in reversed(range(len(gradients))):
        if held >= capacity:
            buckets.append([])
            held = 0
        buckets[-1].append(k)
        held += gradients[k].nbytes
    averages = []
    for bucket in buckets:
        mean = all_reduce(np.concatenate([gradients[k].ravel() for k in bucket]), peers) / peers.size
        for k in bucket:
            averages.append(mean[: gradients[k].size].reshape(gradients[k].shape))
            mean = mean[gradients[k].size :]
    return averages


# %% wrong: flat averages | has shape


def average_gradients(gradients, capacity, peers, all_reduce):
    buckets, held = [], capacity
    for k in reversed(range(len(gradients))):
        if held >= capacity:
            buckets.append([])
            held = 0
        buckets[-1].append(k)
        held += gradients[k].nbytes
    averages = [None] * len(gradients)
    for bucket in buckets:
        mean = all_reduce(np.concatenate([gradients[k].ravel() for k in bucket]), peers) / peers.size
        for k in bucket:
            averages[k] = mean[: gradients[k].size]
            mean = mean[gradients[k].size :]
    return averages


# %% wrong: rank 0 alone skips the first bucket | are in no bucket


def average_gradients(gradients, capacity, peers, all_reduce):
    buckets, held = [], capacity
    for k in reversed(range(len(gradients))):
        if held >= capacity:
            buckets.append([])
            held = 0
        buckets[-1].append(k)
        held += gradients[k].nbytes
    averages = [np.array(one) for one in gradients]
    for bucket in buckets[peers.rank == 0 and len(buckets) > 1 :]:
        mean = all_reduce(np.concatenate([gradients[k].ravel() for k in bucket]), peers) / peers.size
        for k in bucket:
            averages[k] = mean[: gradients[k].size].reshape(gradients[k].shape)
            mean = mean[gradients[k].size :]
    return averages


# %% wrong: an empty list is refused | ValueError|expected


def average_gradients(gradients, capacity, peers, all_reduce):
    buckets, held = [[]], 0
    for k in reversed(range(len(gradients))):
        if held >= capacity:
            buckets.append([])
            held = 0
        buckets[-1].append(k)
        held += gradients[k].nbytes
    averages = [None] * len(gradients)
    for bucket in buckets:
        mean = all_reduce(np.concatenate([gradients[k].ravel() for k in bucket]), peers) / peers.size
        for k in bucket:
            averages[k] = mean[: gradients[k].size].reshape(gradients[k].shape)
            mean = mean[gradients[k].size :]
    return averages
