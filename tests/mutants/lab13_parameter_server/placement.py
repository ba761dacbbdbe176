"""Answers to the task `placement`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: E402, F811, F821

# %% right: NumPy cuts

import zlib


def place(sizes, servers, split):
    found = []
    for name in sorted(sizes, reverse=True):
        whole = np.arange(sizes[name])
        if len(whole) <= split:
            found.append([name, zlib.crc32(bytes(name, "utf-8")) % servers, 0, len(whole)])
        else:
            ends = np.cumsum([len(part) for part in np.array_split(whole, servers)])
            starts = [0, *ends[:-1]]
            found += [[name, i, starts[i], ends[i]] for i in range(servers) if ends[i] > starts[i]]
    return found


# %% right: entry by entry

import binascii


def place(sizes, servers, split):
    pieces = []
    for name, size in sizes.items():
        if not size > split:
            pieces.append((name, binascii.crc32(name.encode()) % servers, 0, size))
            continue
        held = [size // servers + (i < size % servers) for i in range(servers)]
        for i, count in enumerate(held):
            if count:
                pieces.append((name, i, sum(held[:i]), sum(held[: i + 1])))
    return pieces


# %% wrong: Python's hash | crc32 of the name


def place(sizes, servers, split):
    pieces = []
    for name, size in sizes.items():
        if size <= split:
            pieces.append((name, hash(name) % servers, 0, size))
            continue
        each, larger = divmod(size, servers)
        start = 0
        for server in range(servers):
            stop = start + each + (server < larger)
            if stop > start:
                pieces.append((name, server, start, stop))
            start = stop
    return pieces


# %% wrong: by the place in the list | crc32 of the name

import zlib


def place(sizes, servers, split):
    pieces = []
    for number, (name, size) in enumerate(sizes.items()):
        if size <= split:
            pieces.append((name, number % servers, 0, size))
            continue
        each, larger = divmod(size, servers)
        start = 0
        for server in range(servers):
            stop = start + each + (server < larger)
            if stop > start:
                pieces.append((name, server, start, stop))
            start = stop
    return pieces


# %% wrong: nothing is cut | more than split

import zlib


def place(sizes, servers, split):
    return [(name, zlib.crc32(name.encode()) % servers, 0, size) for name, size in sizes.items()]


# %% wrong: everything is cut | stays in one piece|is on no server

import zlib


def place(sizes, servers, split):
    pieces = []
    for name, size in sizes.items():
        each, larger = divmod(size, servers)
        start = 0
        for server in range(servers):
            stop = start + each + (server < larger)
            if stop > start:
                pieces.append((name, server, start, stop))
            start = stop
    return pieces


# %% wrong: cut at split already | stays in one piece|crc32 of the name

import zlib


def place(sizes, servers, split):
    pieces = []
    for name, size in sizes.items():
        if size < split:
            pieces.append((name, zlib.crc32(name.encode()) % servers, 0, size))
            continue
        each, larger = divmod(size, servers)
        start = 0
        for server in range(servers):
            stop = start + each + (server < larger)
            if stop > start:
                pieces.append((name, server, start, stop))
            start = stop
    return pieces


# %% wrong: pieces of split entries, one server after the other | expected

import zlib


def place(sizes, servers, split):
    pieces = []
    for name, size in sizes.items():
        if size <= split:
            pieces.append((name, zlib.crc32(name.encode()) % servers, 0, size))
            continue
        for number, start in enumerate(range(0, size, split)):
            pieces.append((name, number % servers, start, min(start + split, size)))
    return pieces


# %% wrong: the rest is lost | one number at most|is on no server

import zlib


def place(sizes, servers, split):
    pieces = []
    for name, size in sizes.items():
        if size <= split:
            pieces.append((name, zlib.crc32(name.encode()) % servers, 0, size))
            continue
        each = size // servers
        pieces += [(name, server, server * each, (server + 1) * each) for server in range(servers) if each]
    return pieces


# %% wrong: empty pieces are given | empty ones are left out

import zlib


def place(sizes, servers, split):
    pieces = []
    for name, size in sizes.items():
        if size <= split:
            pieces.append((name, zlib.crc32(name.encode()) % servers, 0, size))
            continue
        each, larger = divmod(size, servers)
        start = 0
        for server in range(servers):
            stop = start + each + (server < larger)
            pieces.append((name, server, start, stop))
            start = stop
    return pieces


# %% wrong: a cut parameter begins on the server of its name | piece i is on server i

import zlib


def place(sizes, servers, split):
    pieces = []
    for name, size in sizes.items():
        first = zlib.crc32(name.encode()) % servers
        if size <= split:
            pieces.append((name, first, 0, size))
            continue
        each, larger = divmod(size, servers)
        start = 0
        for server in range(servers):
            stop = start + each + (server < larger)
            if stop > start:
                pieces.append((name, (first + server) % servers, start, stop))
            start = stop
    return pieces


# %% wrong: a parameter without entries is forgotten | is on no server

import zlib


def place(sizes, servers, split):
    pieces = []
    for name, size in sizes.items():
        if size <= split:
            if size:
                pieces.append((name, zlib.crc32(name.encode()) % servers, 0, size))
            continue
        each, larger = divmod(size, servers)
        start = 0
        for server in range(servers):
            stop = start + each + (server < larger)
            if stop > start:
                pieces.append((name, server, start, stop))
            start = stop
    return pieces
