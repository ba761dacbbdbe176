"""Answers to the task `embedding`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: B905, F811, F821

# %% right: one row at a time


def embedding_rule(g, table, index):
    d = np.zeros_like(table)
    for place in np.ndindex(index.shape):
        d[index[place]] += g[place]
    return d


# %% right: a one-hot matrix product


def embedding_rule(g, table, index):
    flat = index.reshape(index.size)
    hot = (flat[None, :] == np.arange(len(table))[:, None]).astype(table.dtype)
    return hot @ g.reshape(flat.size, table.shape[1])


# %% right: sorted, and summed in runs


def embedding_rule(g, table, index):
    flat, rows = index.reshape(index.size), g.reshape(index.size, table.shape[1])
    d = np.zeros(table.shape, table.dtype)
    order = np.argsort(flat, kind="stable")
    names, starts = np.unique(flat[order], return_index=True)
    if len(names):
        d[names] = np.add.reduceat(rows[order], starts, axis=0)
    return d


# %% wrong: assigned | only the last of its cotangents


def embedding_rule(g, table, index):
    d = np.zeros_like(table)
    d[index] = g
    return d


# %% wrong: added through an index | only the last of its cotangents


def embedding_rule(g, table, index):
    d = np.zeros_like(table)
    d[index] += g
    return d


# %% wrong: averaged over repeats | averaged


def embedding_rule(g, table, index):
    d, times = np.zeros_like(table), np.zeros(len(table), table.dtype)
    np.add.at(d, index, g)
    np.add.at(times, index, 1)
    return d / np.maximum(times, 1)[:, None]


# %% wrong: starts from the table | table's own values


def embedding_rule(g, table, index):
    d = table.copy()
    np.add.at(d, index, g)
    return d


# %% wrong: hands the cotangent back | rows that were picked


def embedding_rule(g, table, index):
    return g.copy()


# %% wrong: only as many rows as are picked | largest row


def embedding_rule(g, table, index):
    d = np.zeros((int(index.max(initial=-1)) + 1, table.shape[1]), table.dtype)
    np.add.at(d, index, g)
    return d


# %% wrong: counts instead of cotangents | counts how often


def embedding_rule(g, table, index):
    d = np.zeros_like(table)
    np.add.at(d, index, 1)
    return d


# %% wrong: float64 whatever came | dtype grew


def embedding_rule(g, table, index):
    d = np.zeros(table.shape)
    np.add.at(d, index, g)
    return d


# %% wrong: only one-dimensional indices | index may have any shape


def embedding_rule(g, table, index):
    d = np.zeros_like(table)
    for row, cotangent in zip(index, g):
        for column in range(table.shape[1]):
            d[int(row), column] += cotangent[column]
    return d


# %% wrong: first one wins | first of its cotangents


def embedding_rule(g, table, index):
    d = np.zeros_like(table)
    flat, rows = index.reshape(-1), g.reshape(index.size, -1) if index.size else g.reshape(0, table.shape[1])
    names, places = np.unique(flat, return_index=True)
    d[names] = rows[places]
    return d


# %% wrong: writes into the table | only given to read


def embedding_rule(g, table, index):
    table[...] = 0
    np.add.at(table, index, g)
    return table


# %% wrong: the hole left open | not been filled


def embedding_rule(g, table, index):
    raise NotImplementedError
