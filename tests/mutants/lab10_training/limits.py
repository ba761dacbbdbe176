"""Answers to the task `limits`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: PyTorch's factor, and NumPy's interpolation


def clip_by_global_norm(gradients, max_norm):
    lengths = [np.linalg.norm(g.ravel()) for g in gradients if g is not None]
    norm = np.linalg.norm(np.array(lengths)) if lengths else 0.0
    factor = min(1.0, max_norm / (norm + 1e-6))
    for g in gradients:
        if g is not None:
            np.multiply(g, factor, out=g)
    return norm


def warmup_cosine(step, peak, warmup, total, floor=0.0):
    if step <= warmup:
        return np.interp(step, [-1, warmup], [0.0, peak])
    if step >= total:
        return floor
    half = np.pi / 2 * (step - warmup) / (total - warmup)
    return floor + (peak - floor) * np.cos(half) ** 2


# %% right: everything in one long vector


def clip_by_global_norm(gradients, max_norm):
    flat = np.concatenate([np.zeros(1), *(g.reshape(-1) for g in gradients if g is not None)])
    norm = float(np.sqrt(flat @ flat))
    for g in gradients:
        if g is not None and norm > max_norm:
            g[...] = g * (max_norm / norm)
    return norm


def warmup_cosine(step, peak, warmup, total, floor=0.0):
    import math

    if step < warmup:
        return peak * (1 - (warmup - step) / (warmup + 1))
    left = max(0, total - step) / (total - warmup)
    return (peak + floor) / 2 - (peak - floor) / 2 * math.cos(math.pi * left)


# %% wrong: each gradient by its own norm | clipped by its own norm


def clip_by_global_norm(gradients, max_norm):
    present = [g for g in gradients if g is not None]
    norm = np.sqrt(sum(np.sum(g * g) for g in present))
    for g in present:
        own = np.sqrt(np.sum(g * g))
        if own > max_norm:
            g *= max_norm / own
    return float(norm)


# %% wrong: each gradient by its own norm, and the largest of them returned | The norm is .* clipped by its own norm


def clip_by_global_norm(gradients, max_norm):
    largest = 0.0
    for g in gradients:
        if g is not None:
            own = float(np.sqrt(np.sum(g * g)))
            largest = max(largest, own)
            if own > max_norm:
                g *= max_norm / own
    return largest


# %% wrong: entries clipped | Each entry is clipped


def clip_by_global_norm(gradients, max_norm):
    present = [g for g in gradients if g is not None]
    norm = np.sqrt(sum(np.sum(g * g) for g in present))
    for g in present:
        np.clip(g, -max_norm, max_norm, out=g)
    return float(norm)


# %% wrong: always scaled | are stretched|gradients\[|nan


def clip_by_global_norm(gradients, max_norm):
    present = [g for g in gradients if g is not None]
    norm = np.sqrt(sum(np.sum(g * g) for g in present))
    for g in present:
        g *= max_norm / max(norm, 1e-12)
    return float(norm)


# %% wrong: new arrays in the list | holds other arrays


def clip_by_global_norm(gradients, max_norm):
    present = [g for g in gradients if g is not None]
    norm = np.sqrt(sum(np.sum(g * g) for g in present))
    if norm > max_norm:
        gradients[:] = [None if g is None else g * (max_norm / norm) for g in gradients]
    return float(norm)


# %% wrong: new arrays for nobody | as they were


def clip_by_global_norm(gradients, max_norm):
    present = [g for g in gradients if g is not None]
    norm = np.sqrt(sum(np.sum(g * g) for g in present))
    if norm > max_norm:
        for g in present:
            g = g * max_norm / norm
    return float(norm)


# %% wrong: the sum of the norms | norms are added up|root of the sum


def clip_by_global_norm(gradients, max_norm):
    present = [g for g in gradients if g is not None]
    norm = sum(np.sqrt(np.sum(g * g)) for g in present)
    if norm > max_norm:
        for g in present:
            g *= max_norm / norm
    return float(norm)


# %% wrong: the root forgotten | the root is missing


def clip_by_global_norm(gradients, max_norm):
    present = [g for g in gradients if g is not None]
    norm = sum(np.sum(g * g) for g in present)
    if norm > max_norm:
        for g in present:
            g *= max_norm / norm
    return float(norm)


# %% wrong: the norm after clipping | norm before clipping|norm after clipping|one before


def clip_by_global_norm(gradients, max_norm):
    present = [g for g in gradients if g is not None]
    norm = np.sqrt(sum(np.sum(g * g) for g in present))
    if norm > max_norm:
        for g in present:
            g *= max_norm / norm
    return min(float(norm), max_norm)


# %% wrong: no return | returned None


def clip_by_global_norm(gradients, max_norm):
    present = [g for g in gradients if g is not None]
    norm = np.sqrt(sum(np.sum(g * g) for g in present))
    if norm > max_norm:
        for g in present:
            g *= max_norm / norm


# %% wrong: None not thought of | None


def clip_by_global_norm(gradients, max_norm):
    present = gradients
    norm = np.sqrt(sum(np.sum(g * g) for g in present))
    if norm > max_norm:
        for g in present:
            g *= max_norm / norm
    return float(norm)


# %% wrong: the mean and not the sum of squares | The norm is


def clip_by_global_norm(gradients, max_norm):
    present = [g for g in gradients if g is not None]
    norm = np.sqrt(sum(np.mean(g * g) for g in present))
    if norm > max_norm:
        for g in present:
            g *= max_norm / norm
    return float(norm)


# %% wrong: divides by a norm of zero | divided by zero


def clip_by_global_norm(gradients, max_norm):
    present = [g for g in gradients if g is not None]
    norm = float(np.sqrt(sum(np.sum(g * g) for g in present)))
    factor = max_norm / norm
    if factor < 1:
        for g in present:
            g *= factor
    return norm


# %% wrong: the warm-up starts at zero | does nothing


def warmup_cosine(step, peak, warmup, total, floor=0.0):
    if step < warmup:
        return peak * step / warmup
    along = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 + np.cos(np.pi * along)) / 2


# %% wrong: the warm-up is early at its peak | one step too early


def warmup_cosine(step, peak, warmup, total, floor=0.0):
    if step < warmup:
        return peak * (step + 1) / warmup
    along = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 + np.cos(np.pi * along)) / 2


# %% wrong: no warm-up | no warm-up


def warmup_cosine(step, peak, warmup, total, floor=0.0):
    along = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 + np.cos(np.pi * along)) / 2


# %% wrong: the cosine counts from step zero | counts from step 0


def warmup_cosine(step, peak, warmup, total, floor=0.0):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    along = min(1.0, step / (total - warmup))
    return floor + (peak - floor) * (1 + np.cos(np.pi * along)) / 2


# %% wrong: the cosine over all steps | stretched over all steps


def warmup_cosine(step, peak, warmup, total, floor=0.0):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    along = min(1.0, (step - warmup) / total)
    return floor + (peak - floor) * (1 + np.cos(np.pi * along)) / 2


# %% wrong: goes up again | goes up again


def warmup_cosine(step, peak, warmup, total, floor=0.0):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    along = (step - warmup) / (total - warmup)
    return floor + (peak - floor) * (1 + np.cos(np.pi * along)) / 2


# %% wrong: a line | along a line


def warmup_cosine(step, peak, warmup, total, floor=0.0):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    along = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 - along)


# %% wrong: degrees for radians | The step size at place


def warmup_cosine(step, peak, warmup, total, floor=0.0):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    along = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 + np.cos(180 * along)) / 2


# %% wrong: the floor forgotten | down to 0


def warmup_cosine(step, peak, warmup, total, floor=0.0):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    along = min(1.0, (step - warmup) / (total - warmup))
    return peak * (1 + np.cos(np.pi * along)) / 2


# %% wrong: the floor added | starts above peak


def warmup_cosine(step, peak, warmup, total, floor=0.0):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    along = min(1.0, (step - warmup) / (total - warmup))
    return floor + peak * (1 + np.cos(np.pi * along)) / 2


# %% wrong: not filled in | Not written yet


def clip_by_global_norm(gradients, max_norm):
    raise NotImplementedError("your code here")
