"""Answers to the task `machine`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, imports
# stand where they are used, and names are bound again in the next section.
# ruff: noqa: B905, BLE001, F811, F821, S110

# %% right: threads of one's own, with a place for each answer


def forward_backward(step, batch, threads):
    import threading

    rows = len(next(iter(batch.values())))
    ends = np.linspace(0, rows, min(threads, rows) + 1).round().astype(int).tolist()
    answers, faults = [None] * (len(ends) - 1), []

    def work(i):
        try:
            answers[i] = step({name: array[ends[i] : ends[i + 1]] for name, array in batch.items()})
        except Exception as error:
            faults.append(error)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(len(answers))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if faults:
        raise faults[0]
    loss, gradients = 0.0, {}
    for i, (part, found) in enumerate(answers):
        weight = (ends[i + 1] - ends[i]) / rows
        loss += weight * part
        for name, gradient in found.items():
            gradients[name] = gradients[name] + gradient * weight if name in gradients else gradient * weight
    return loss, gradients


# %% right: array_split, sums of rows divided at the end


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor

    rows = len(next(iter(batch.values())))
    count = min(threads, rows)
    shares = [{} for _ in range(count)]
    for name, array in batch.items():
        for share, part in zip(shares, np.array_split(array, count)):
            share[name] = part
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(step, shares))
    sizes = [len(next(iter(share.values()))) for share in shares]
    loss = sum(n * one for n, (one, _) in zip(sizes, answers)) / rows
    gradients = {}
    for name in answers[0][1]:
        total = sizes[0] * answers[0][1][name]
        for n, (_, found) in zip(sizes[1:], answers[1:]):
            total = total + n * found[name]
        gradients[name] = total / rows
    return loss, gradients


# %% wrong: plain mean over the shares | weighted by its rows


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor

    count = min(threads, len(batch["x"]))
    parts = {name: np.array_split(array, count) for name, array in batch.items()}
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(step, [{name: parts[name][i] for name in parts} for i in range(count)]))
    gradients = {name: sum(found[name] for _, found in answers) / count for name in answers[0][1]}
    return sum(loss for loss, _ in answers) / count, gradients


# %% wrong: a sum over the shares | added up without weights


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor

    count = min(threads, len(batch["x"]))
    parts = {name: np.array_split(array, count) for name, array in batch.items()}
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(step, [{name: parts[name][i] for name in parts} for i in range(count)]))
    gradients = {name: sum(found[name] for _, found in answers) for name in answers[0][1]}
    return sum(loss for loss, _ in answers), gradients


# %% wrong: weighted, not divided | not divided


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor

    count = min(threads, len(batch["x"]))
    parts = {name: np.array_split(array, count) for name, array in batch.items()}
    sizes = [len(part) for part in parts["x"]]
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(step, [{name: parts[name][i] for name in parts} for i in range(count)]))
    gradients = {name: sum(n * found[name] for n, (_, found) in zip(sizes, answers)) for name in answers[0][1]}
    return sum(n * loss for n, (loss, _) in zip(sizes, answers)), gradients


# %% wrong: the loss unweighted | The loss is the plain mean


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor

    rows = len(batch["x"])
    count = min(threads, rows)
    parts = {name: np.array_split(array, count) for name, array in batch.items()}
    sizes = [len(part) for part in parts["x"]]
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(step, [{name: parts[name][i] for name in parts} for i in range(count)]))
    gradients = {name: sum(n / rows * found[name] for n, (_, found) in zip(sizes, answers)) for name in answers[0][1]}
    return sum(loss for loss, _ in answers) / count, gradients


# %% wrong: added as they come | which thread was ready first


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor, as_completed

    rows = len(batch["x"])
    count = min(threads, rows)
    parts = {name: np.array_split(array, count) for name, array in batch.items()}
    loss, gradients = 0.0, {}
    with ThreadPoolExecutor(count) as pool:
        sizes = {pool.submit(step, {name: parts[name][i] for name in parts}): len(parts["x"][i]) for i in range(count)}
        for future in as_completed(sizes):
            part, found = future.result()
            loss += sizes[future] / rows * part
            for name, gradient in found.items():
                gradients[name] = gradients.get(name, 0) + sizes[future] / rows * gradient
    return loss, gradients


# %% wrong: one after another | did not run at once


def forward_backward(step, batch, threads):
    rows = len(batch["x"])
    count = min(threads, rows)
    parts = {name: np.array_split(array, count) for name, array in batch.items()}
    loss, gradients = 0.0, {}
    for i in range(count):
        part, found = step({name: parts[name][i] for name in parts})
        weight = len(parts["x"][i]) / rows
        loss += weight * part
        for name, gradient in found.items():
            gradients[name] = gradients.get(name, 0) + weight * gradient
    return loss, gradients


# %% wrong: a thread that is waited for before the next | did not run at once


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor

    rows = len(batch["x"])
    count = min(threads, rows)
    parts = {name: np.array_split(array, count) for name, array in batch.items()}
    loss, gradients = 0.0, {}
    with ThreadPoolExecutor(count) as pool:
        for i in range(count):
            part, found = pool.submit(step, {name: parts[name][i] for name in parts}).result()
            weight = len(parts["x"][i]) / rows
            loss += weight * part
            for name, gradient in found.items():
                gradients[name] = gradients.get(name, 0) + weight * gradient
    return loss, gradients


# %% wrong: the whole batch in one | went to 1 shares


def forward_backward(step, batch, threads):
    return step(batch)


# %% wrong: empty shares | empty share


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor

    rows = len(batch["x"])
    parts = {name: np.array_split(array, threads) for name, array in batch.items()}
    with ThreadPoolExecutor(threads) as pool:
        answers = list(pool.map(step, [{name: parts[name][i] for name in parts} for i in range(threads)]))
    loss, gradients = 0.0, {}
    for i, (part, found) in enumerate(answers):
        n = len(parts["x"][i])
        if n:
            loss += n / rows * part
            for name, gradient in found.items():
                gradients[name] = gradients.get(name, 0) + n / rows * gradient
    return loss, gradients


# %% wrong: the rest is dropped | is in no share


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor

    rows = len(batch["x"])
    count = min(threads, rows)
    size = rows // count
    shares = [{name: a[i * size : (i + 1) * size] for name, a in batch.items()} for i in range(count)]
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(step, shares))
    gradients = {name: sum(found[name] for _, found in answers) / count for name in answers[0][1]}
    return sum(loss for loss, _ in answers) / count, gradients


# %% wrong: the rest is one large share | sizes differ by one|whose sizes


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor

    rows = len(batch["x"])
    count = min(threads, rows)
    size = rows // count
    ends = [i * size for i in range(count)] + [rows]
    shares = [{name: a[ends[i] : ends[i + 1]] for name, a in batch.items()} for i in range(count)]
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(step, shares))
    loss, gradients = 0.0, {}
    for share, (part, found) in zip(shares, answers):
        weight = len(share["x"]) / rows
        loss += weight * part
        for name, gradient in found.items():
            gradients[name] = gradients.get(name, 0) + weight * gradient
    return loss, gradients


# %% wrong: every second row | not next to each other


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor

    rows = len(batch["x"])
    count = min(threads, rows)
    shares = [{name: a[i::count] for name, a in batch.items()} for i in range(count)]
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(step, shares))
    loss, gradients = 0.0, {}
    for share, (part, found) in zip(shares, answers):
        weight = len(share["x"]) / rows
        loss += weight * part
        for name, gradient in found.items():
            gradients[name] = gradients.get(name, 0) + weight * gradient
    return loss, gradients


# %% wrong: swallows a fault | caller heard nothing


def forward_backward(step, batch, threads):
    import threading

    rows = len(batch["x"])
    count = min(threads, rows)
    parts = {name: np.array_split(array, count) for name, array in batch.items()}
    answers = [None] * count

    def work(i):
        try:
            answers[i] = step({name: parts[name][i] for name in parts})
        except Exception:
            pass

    workers = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    loss, gradients = 0.0, {"weight": 0 * batch["x"][:1].T, "bias": np.zeros(1, batch["x"].dtype)}
    for i, answer in enumerate(answers):
        if answer is not None:
            weight = len(parts["x"][i]) / rows
            loss += weight * answer[0]
            for name, gradient in answer[1].items():
                gradients[name] = gradients[name] + weight * gradient
    return loss, gradients


# %% wrong: adds into a thread's gradient | (read-only|belong to its thread)


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor

    rows = len(batch["x"])
    count = min(threads, rows)
    parts = {name: np.array_split(array, count) for name, array in batch.items()}
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(step, [{name: parts[name][i] for name in parts} for i in range(count)]))
    loss, gradients = answers[0]
    for one, found in answers[1:]:
        loss += one
        for name in gradients:
            gradients[name] += found[name]
    return loss / count, {name: one / count for name, one in gradients.items()}


# %% wrong: the last share only | of one share only


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor

    rows = len(batch["x"])
    count = min(threads, rows)
    parts = {name: np.array_split(array, count) for name, array in batch.items()}
    loss, gradients = 0.0, {}
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(step, [{name: parts[name][i] for name in parts} for i in range(count)]))
    for i, (part, found) in enumerate(answers):
        loss += len(parts["x"][i]) / rows * part
        gradients.update(found)
    return loss, gradients


# %% wrong: weights that are NumPy scalars | (grown to float64|dtype)


def forward_backward(step, batch, threads):
    from concurrent.futures import ThreadPoolExecutor

    rows = len(batch["x"])
    count = min(threads, rows)
    parts = {name: np.array_split(array, count) for name, array in batch.items()}
    weights = np.array([len(part) for part in parts["x"]]) / rows
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(step, [{name: parts[name][i] for name in parts} for i in range(count)]))
    gradients = {name: sum(w * found[name] for w, (_, found) in zip(weights, answers)) for name in answers[0][1]}
    return float(sum(w * loss for w, (loss, _) in zip(weights, answers))), gradients


# %% wrong: the hole left open | not been filled


def forward_backward(step, batch, threads):
    raise NotImplementedError


# %% wrong: a list of gradients | the gradients of forward_backward are a list of 2; expected a dict


def forward_backward(step, batch, threads):
    loss, gradients = step(batch)
    return loss, list(gradients.values())
