"""Answers to the task `queue`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811

# %% right: a dict of clocks


def timeline(events, launch):
    at = {"host": 0.0, "queue": 0.0, "link": 0.0}
    found = []
    for event in events:
        kind, seconds = event[0], event[1] if len(event) > 1 else 0.0
        asynchronous = kind in ("launch", "prefetch")
        at["host"] += launch if asynchronous else 0.0
        lane = {"work": "host", "wait": "host", "launch": "queue"}.get(kind, "link")
        start = max(at["host"], at[lane])
        if kind == "launch" and event[2] is not None:
            start = max(start, found[event[2]][1])
        if kind == "copy":
            start = max(start, at["queue"])
        end = max(at.values()) if kind == "wait" else start + seconds
        at[lane] = end
        if not asynchronous:
            at["host"] = end
        found.append((start, end, at["host"]))
    return found


# %% right: looking back at what came before, without clocks


def timeline(events, launch):
    times = []
    for place, event in enumerate(events):
        host = times[-1][2] if times else 0.0

        def ends(*kinds, place=place):
            return [times[k][1] for k in range(place) if events[k][0] in kinds]

        match event:
            case ("work", seconds):
                times.append([host, host + seconds, host + seconds])
            case ("wait",):
                end = max([host, *ends("launch", "copy", "prefetch")])
                times.append([host, end, end])
            case ("launch", seconds, reads):
                arrived = [] if reads is None else [times[reads][1]]
                start = max([host + launch, *ends("launch"), *arrived])
                times.append([start, start + seconds, host + launch])
            case ("prefetch", seconds):
                start = max([host + launch, *ends("copy", "prefetch")])
                times.append([start, start + seconds, host + launch])
            case ("copy", seconds):
                start = max([host, *ends("launch", "copy", "prefetch")])
                times.append([start, start + seconds, start + seconds])
    return times


# %% wrong: not written | has not been filled


def timeline(events, launch):
    raise NotImplementedError()


# %% wrong: the host waits for every kernel | does not wait for the end


def timeline(events, launch):
    times, now = [], 0.0
    for event in events:
        start = now + (launch if event[0] in ("launch", "prefetch") else 0.0)
        now = start + (event[1] if len(event) > 1 else 0.0)
        times.append((start, now, now))
    return times


# %% wrong: kernels do not wait for one another | the device works in order


def timeline(events, launch):
    host = queue = link = 0.0
    times = []
    for kind, *rest in events:
        host += launch if kind in ("launch", "prefetch") else 0.0
        start = host
        if kind == "launch":
            start = max(host, 0.0 if rest[1] is None else times[rest[1]][1])
            end = start + rest[0]
            queue = max(queue, end)
        elif kind == "prefetch":
            start = max(host, link)
            link = end = start + rest[0]
        elif kind == "copy":
            start = max(host, queue, link)
            host = link = end = start + rest[0]
        else:
            host = end = max(host, queue, link) if kind == "wait" else host + rest[0]
        times.append((start, end, host))
    return times


# %% wrong: launching costs nothing | handed it over|handing over


def timeline(events, launch):
    host = queue = link = 0.0
    times = []
    for kind, *rest in events:
        start = host
        if kind == "launch":
            start = max(host, queue, 0.0 if rest[1] is None else times[rest[1]][1])
            queue = end = start + rest[0]
        elif kind == "prefetch":
            start = max(host, link)
            link = end = start + rest[0]
        elif kind == "copy":
            start = max(host, queue, link)
            host = link = end = start + rest[0]
        else:
            host = end = max(host, queue, link) if kind == "wait" else host + rest[0]
        times.append((start, end, host))
    return times


# %% wrong: a kernel starts before it was handed over | handed it over


def timeline(events, launch):
    host = queue = link = 0.0
    times = []
    for kind, *rest in events:
        start = host
        if kind == "launch":
            start = max(host, queue, 0.0 if rest[1] is None else times[rest[1]][1])
            queue = end = start + rest[0]
            host += launch
        elif kind == "prefetch":
            start = max(host, link)
            link = end = start + rest[0]
            host += launch
        elif kind == "copy":
            start = max(host, queue, link)
            host = link = end = start + rest[0]
        else:
            host = end = max(host, queue, link) if kind == "wait" else host + rest[0]
        times.append((start, end, host))
    return times


# %% wrong: a copy does not wait for the kernels | the device works in order


def timeline(events, launch):
    host = queue = link = 0.0
    times = []
    for kind, *rest in events:
        host += launch if kind in ("launch", "prefetch") else 0.0
        start = host
        if kind == "launch":
            start = max(host, queue, 0.0 if rest[1] is None else times[rest[1]][1])
            queue = end = start + rest[0]
        elif kind == "prefetch":
            start = max(host, link)
            link = end = start + rest[0]
        elif kind == "copy":
            start = max(host, link)
            host = link = end = start + rest[0]
        else:
            host = end = max(host, queue, link) if kind == "wait" else host + rest[0]
        times.append((start, end, host))
    return times


# %% wrong: a kernel does not wait for what it reads | it reads what event


def timeline(events, launch):
    host = queue = link = 0.0
    times = []
    for kind, *rest in events:
        host += launch if kind in ("launch", "prefetch") else 0.0
        start = host
        if kind == "launch":
            start = max(host, queue)
            queue = end = start + rest[0]
        elif kind == "prefetch":
            start = max(host, link)
            link = end = start + rest[0]
        elif kind == "copy":
            start = max(host, queue, link)
            host = link = end = start + rest[0]
        else:
            host = end = max(host, queue, link) if kind == "wait" else host + rest[0]
        times.append((start, end, host))
    return times


# %% wrong: every kernel waits for all prefetches | for the one copy it reads


def timeline(events, launch):
    host = queue = link = 0.0
    times = []
    for kind, *rest in events:
        host += launch if kind in ("launch", "prefetch") else 0.0
        start = host
        if kind == "launch":
            start = max(host, queue, link)
            queue = end = start + rest[0]
        elif kind == "prefetch":
            start = max(host, link)
            link = end = start + rest[0]
        elif kind == "copy":
            start = max(host, queue, link)
            host = link = end = start + rest[0]
        else:
            host = end = max(host, queue, link) if kind == "wait" else host + rest[0]
        times.append((start, end, host))
    return times


# %% wrong: a prefetch stands in the queue | runs beside the queue


def timeline(events, launch):
    host = queue = link = 0.0
    times = []
    for kind, *rest in events:
        host += launch if kind in ("launch", "prefetch") else 0.0
        start = host
        if kind == "launch":
            start = max(host, queue, 0.0 if rest[1] is None else times[rest[1]][1])
            queue = end = start + rest[0]
        elif kind == "prefetch":
            start = max(host, link, queue)
            link = end = start + rest[0]
        elif kind == "copy":
            start = max(host, queue, link)
            host = link = end = start + rest[0]
        else:
            host = end = max(host, queue, link) if kind == "wait" else host + rest[0]
        times.append((start, end, host))
    return times


# %% wrong: a copy does not wait for a prefetch | there is one link


def timeline(events, launch):
    host = queue = link = 0.0
    times = []
    for kind, *rest in events:
        host += launch if kind in ("launch", "prefetch") else 0.0
        start = host
        if kind == "launch":
            start = max(host, queue, 0.0 if rest[1] is None else times[rest[1]][1])
            queue = end = start + rest[0]
        elif kind == "prefetch":
            start = max(host, link)
            link = end = start + rest[0]
        elif kind == "copy":
            start = max(host, queue)
            host = link = end = start + rest[0]
        else:
            host = end = max(host, queue, link) if kind == "wait" else host + rest[0]
        times.append((start, end, host))
    return times


# %% wrong: prefetches run side by side | there is one link


def timeline(events, launch):
    host = queue = link = 0.0
    times = []
    for kind, *rest in events:
        host += launch if kind in ("launch", "prefetch") else 0.0
        start = host
        if kind == "launch":
            start = max(host, queue, 0.0 if rest[1] is None else times[rest[1]][1])
            queue = end = start + rest[0]
        elif kind == "prefetch":
            end = start + rest[0]
            link = max(link, end)
        elif kind == "copy":
            start = max(host, queue, link)
            host = link = end = start + rest[0]
        else:
            host = end = max(host, queue, link) if kind == "wait" else host + rest[0]
        times.append((start, end, host))
    return times


# %% wrong: a wait does not wait for prefetches | when queue and copies are all done


def timeline(events, launch):
    host = queue = link = 0.0
    times = []
    for kind, *rest in events:
        host += launch if kind in ("launch", "prefetch") else 0.0
        start = host
        if kind == "launch":
            start = max(host, queue, 0.0 if rest[1] is None else times[rest[1]][1])
            queue = end = start + rest[0]
        elif kind == "prefetch":
            start = max(host, link)
            link = end = start + rest[0]
        elif kind == "copy":
            start = max(host, queue, link)
            host = link = end = start + rest[0]
        else:
            host = end = max(host, queue) if kind == "wait" else host + rest[0]
        times.append((start, end, host))
    return times


# %% wrong: the host goes on during a copy | it waits until this is done


def timeline(events, launch):
    host = queue = link = 0.0
    times = []
    for kind, *rest in events:
        host += launch if kind in ("launch", "prefetch") else 0.0
        start = host
        if kind == "launch":
            start = max(host, queue, 0.0 if rest[1] is None else times[rest[1]][1])
            queue = end = start + rest[0]
        elif kind == "prefetch":
            start = max(host, link)
            link = end = start + rest[0]
        elif kind == "copy":
            start = max(host, queue, link)
            link = end = start + rest[0]
        else:
            host = end = max(host, queue, link) if kind == "wait" else host + rest[0]
        times.append((start, end, host))
    return times


# %% wrong: kernels start at the latest end, the host's wait forgotten | the host has to have come so far


def timeline(events, launch):
    queue = link = host = 0.0
    times = []
    for kind, *rest in events:
        host += launch if kind in ("launch", "prefetch") else 0.0
        start = host
        if kind == "launch":
            start = max(queue or host, 0.0 if rest[1] is None else times[rest[1]][1])
            queue = end = start + rest[0]
        elif kind == "prefetch":
            start = max(host, link)
            link = end = start + rest[0]
        elif kind == "copy":
            start = max(host, queue, link)
            host = link = end = start + rest[0]
        else:
            host = end = max(host, queue, link) if kind == "wait" else host + rest[0]
        times.append((start, end, host))
    return times


# %% wrong: only starts and ends | expected \(start, end, host\)


def timeline(events, launch):
    return [(0.0, 1.0) for event in events]
