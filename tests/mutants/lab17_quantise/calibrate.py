"""Answers to the task `calibrate`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: sorted, by hand


def calibrate(batches, percentile):
    together = np.sort(np.concatenate([np.ravel(batch) for batch in batches]))
    ends = []
    for part in ((100 - percentile) / 200, (100 + percentile) / 200):
        place = part * (len(together) - 1)
        below = int(place)
        above = min(below + 1, len(together) - 1)
        ends.append(float(together[below] + (place - below) * (together[above] - together[below])))
    return min(ends[0], 0.0), max(ends[1], 0.0)


# %% right: the end of the range is the integer 0


def calibrate(batches, percentile):
    every = np.concatenate([np.ravel(batch) for batch in batches])
    edge = (100 - percentile) / 2
    low, high = np.percentile(every, [edge, 100 - edge])
    return min(0, low), max(0, high)


# %% right: quantiles


def calibrate(batches, percentile):
    together = [float(one) for batch in batches for one in np.ravel(batch)]
    outside = (100 - percentile) / 200
    low, high = np.quantile(together, outside), np.quantile(together, 1 - outside)
    return min(float(low), 0.0), max(float(high), 0.0)


# %% wrong: all that is left out at either end | lie beyond it


def calibrate(batches, percentile):
    together = np.concatenate([np.ravel(batch) for batch in batches])
    low, high = np.percentile(together, [100 - percentile, percentile])
    return min(float(low), 0.0), max(float(high), 0.0)


# %% wrong: the range of all | lie beyond it


def calibrate(batches, percentile):
    together = np.concatenate([np.ravel(batch) for batch in batches])
    low, high = together.min(), together.max()
    return min(float(low), 0.0), max(float(high), 0.0)


# %% wrong: batches' ranges averaged | all batches together|no numbers|index


def calibrate(batches, percentile):
    outside = (100 - percentile) / 2
    ranges = [np.percentile(batch, [outside, 100 - outside]) for batch in batches if np.size(batch)]
    low, high = np.mean(ranges, axis=0)
    return min(float(low), 0.0), max(float(high), 0.0)


# %% wrong: the last batch alone | all batches together


def calibrate(batches, percentile):
    outside = (100 - percentile) / 2
    low, high = np.percentile(batches[-1], [outside, 100 - outside])
    return min(float(low), 0.0), max(float(high), 0.0)


# %% wrong: the range without 0 | has to hold 0


def calibrate(batches, percentile):
    together = np.concatenate([np.ravel(batch) for batch in batches])
    outside = (100 - percentile) / 2
    low, high = np.percentile(together, [outside, 100 - outside])
    return float(low), float(high)


# %% wrong: the same on both sides | end is


def calibrate(batches, percentile):
    together = np.concatenate([np.ravel(batch) for batch in batches])
    limit = float(np.percentile(np.abs(together), percentile))
    return -limit, limit


# %% wrong: the low end is the least number | low end


def calibrate(batches, percentile):
    together = np.concatenate([np.ravel(batch) for batch in batches])
    low, high = together.min(), np.percentile(together, 100 - (100 - percentile) / 2)
    return min(float(low), 0.0), max(float(high), 0.0)


# %% wrong: a number of the list, no interpolation | lie beyond it


def calibrate(batches, percentile):
    together = np.concatenate([np.ravel(batch) for batch in batches])
    outside = (100 - percentile) / 2
    low, high = np.percentile(together, [outside, 100 - outside], method="lower")
    return min(float(low), 0.0), max(float(high), 0.0)


# %% wrong: the widest of the batches | all batches together|end is


def calibrate(batches, percentile):
    outside = (100 - percentile) / 2
    ranges = [np.percentile(batch, [outside, 100 - outside]) for batch in batches if np.size(batch)]
    low, high = min(one[0] for one in ranges), max(one[1] for one in ranges)
    return min(float(low), 0.0), max(float(high), 0.0)


# %% wrong: a deviation in place of a percentile | end is


def calibrate(batches, percentile):
    together = np.concatenate([np.ravel(batch) for batch in batches])
    far = 3 * together.std()
    low, high = together.mean() - far, together.mean() + far
    return min(float(low), 0.0), max(float(high), 0.0)


# %% wrong: each number once | end is


def calibrate(batches, percentile):
    numbers = {float(number) for batch in batches for number in np.ravel(batch)}
    outside = (100 - percentile) / 2
    low, high = np.percentile(sorted(numbers), [outside, 100 - outside])
    return min(float(low), 0.0), max(float(high), 0.0)
