"""Who knows the answers of ``lab13_parameter_server``: torch and TensorFlow in one process, on everybody's data."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from autograder.drivers.lab13_parameter_server import start_of
from autograder.specs._lab13_parameter_server_cases import death

Answer = dict[str, Any]
EPS = 1e-10

# --- placement ------------------------------------------------------------------------------------


def placement_torch(torch: Any, sizes: dict[str, int], servers: int, split: int) -> list[list[Any]]:
    pieces: list[list[Any]] = []
    for name, size in sizes.items():
        whole = torch.arange(size)
        cut = whole.tensor_split(servers) if size > split else [whole]
        first = 0 if size > split else zlib.crc32(name.encode()) % servers
        start = 0
        for number, part in enumerate(cut):
            if len(part) or size == 0:
                pieces.append([name, first + number, start, start + len(part)])
            start += len(part)
    return sorted(pieces, key=lambda piece: (piece[0], piece[2]))


def placement_numpy(numpy: Any, sizes: dict[str, int], servers: int, split: int) -> list[list[Any]]:
    pieces: list[list[Any]] = []
    for name in sorted(sizes):
        size = sizes[name]
        if size <= split:
            pieces.append([name, _crc(name) % servers, 0, size])
            continue
        edges = [i * (size // servers) + min(i, size % servers) for i in range(servers + 1)]
        pieces += [[name, i, edges[i], edges[i + 1]] for i in range(servers) if edges[i + 1] > edges[i]]
    return pieces


def _crc(name: str) -> int:
    """CRC-32, bit by bit."""
    register = 0xFFFFFFFF
    for byte in name.encode():
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0xEDB88320 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


# --- barrier --------------------------------------------------------------------------------------


def _there(inputs: Answer, trainers: int, step: int) -> list[int]:
    victim, gone = death(inputs)
    return [trainer for trainer in range(trainers) if trainer != victim or step < gone]


def barrier_torch(torch: Any, **inputs: Any) -> Answer:
    """One process, the joined batch: the loss is the mean over the trainers that are there."""
    weights = torch.nn.Parameter(torch.tensor(inputs["weights"]))
    optimizer = torch.optim.SGD([weights], lr=inputs["lr"])
    slopes, targets = (torch.tensor(np.array(inputs[name])) for name in ("slopes", "targets"))
    seen = []
    for step in range(inputs["steps"]):
        seen.append(weights.detach().numpy().copy())
        there = _there(inputs, len(slopes), step)
        loss = (0.5 * slopes[there] * (weights - targets[there]) ** 2).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {"pulled": seen, "weights": weights.detach().numpy().copy()}


def barrier_tensorflow(tf: Any, **inputs: Any) -> Answer:
    weights = tf.Variable(inputs["weights"])
    optimizer = tf.keras.optimizers.SGD(inputs["lr"])
    slopes, targets = np.array(inputs["slopes"]), np.array(inputs["targets"])
    seen = []
    for step in range(inputs["steps"]):
        seen.append(weights.numpy().copy())
        there = _there(inputs, len(slopes), step)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.reduce_sum(0.5 * slopes[there] * (weights - targets[there]) ** 2, 1))
        # Keras takes its step size in float32; one half is the same in both.
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
    return {"pulled": seen, "weights": weights.numpy().copy()}


# --- staleness ------------------------------------------------------------------------------------


def _pushed(inputs: Answer) -> list[np.ndarray]:
    moves = np.array(inputs["moves"])
    trainers, steps = moves.shape
    found = []
    for step in range(steps):
        for trainer in _there(inputs, trainers, step):
            gradient = np.zeros(trainers * steps)
            gradient[trainer * steps + step] = moves[trainer, step]
            found.append(gradient)
    return found


def staleness_torch(torch: Any, **inputs: Any) -> Answer:
    weights = torch.nn.Parameter(torch.tensor(inputs["weights"]))
    optimizer = torch.optim.SGD([weights], lr=inputs["lr"])
    for gradient in _pushed(inputs):
        weights.grad = torch.tensor(gradient)
        optimizer.step()
    return {"weights": weights.detach().numpy().copy()}


def staleness_tensorflow(tf: Any, **inputs: Any) -> Answer:
    weights = tf.Variable(inputs["weights"])
    optimizer = tf.keras.optimizers.SGD(inputs["lr"])
    for gradient in _pushed(inputs):
        optimizer.apply_gradients([(tf.constant(gradient), weights)])
    return {"weights": weights.numpy().copy()}


# --- sparse ---------------------------------------------------------------------------------------


def _compact(inputs: Answer) -> tuple[np.ndarray, np.ndarray]:
    """All ids that are touched, and a dense table of just these."""
    touched = [one["ids"] for script in inputs["scripts"] for one in script]
    ids = np.unique(np.concatenate([np.zeros(0, np.int64), *touched]))
    start = start_of(inputs["seed"], inputs["dim"])
    rows = np.array([start(row) for row in ids]).reshape(len(ids), inputs["dim"])
    return ids, rows


def sparse_torch(torch: Any, **inputs: Any) -> Answer:
    """An embedding with sparse gradients, under Adagrad, one trainer after the other."""
    ids, rows = _compact(inputs)
    embedding = torch.nn.Embedding(max(1, len(ids)), inputs["dim"], sparse=True, dtype=torch.float64)
    with torch.no_grad():
        embedding.weight[: len(ids)] = torch.from_numpy(rows)
    optimizer = torch.optim.Adagrad(embedding.parameters(), lr=inputs["lr"], eps=EPS)
    pulled: list[list[np.ndarray]] = []
    for script in inputs["scripts"]:
        pulled.append([])
        for one in script:
            places = torch.from_numpy(np.searchsorted(ids, one["ids"]))
            if one["do"] == "pull":
                pulled[-1].append(embedding(places).detach().numpy().copy())
            elif len(places):
                optimizer.zero_grad()
                (embedding(places) * torch.from_numpy(np.array(one["gradients"]))).sum().backward()
                optimizer.step()
    return {"pulled": pulled, "known": ids, "rows": embedding.weight[: len(ids)].detach().numpy().copy()}


def sparse_tensorflow(tf: Any, **inputs: Any) -> Answer:
    """The same with tf.gather, whose gradients are IndexedSlices, and Adagrad's formula written out."""
    ids, rows = _compact(inputs)
    weights, sums = tf.Variable(rows), tf.Variable(np.zeros_like(rows))
    pulled: list[list[np.ndarray]] = []
    for script in inputs["scripts"]:
        pulled.append([])
        for one in script:
            places = np.searchsorted(ids, one["ids"])
            if one["do"] == "pull":
                pulled[-1].append(tf.gather(weights, places).numpy() if len(ids) else np.zeros((0, inputs["dim"])))
            elif len(places):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(tf.gather(weights, places) * np.array(one["gradients"]))
                slices = tape.gradient(loss, weights)
                gradient = tf.convert_to_tensor(slices)  # duplicates are summed
                sums.assign_add(gradient**2)
                weights.assign_sub(inputs["lr"] * gradient / (tf.sqrt(sums) + EPS))
    return {"pulled": pulled, "known": ids, "rows": weights.numpy().copy()}


# --- compress -------------------------------------------------------------------------------------


def compress_torch(torch: Any, k: int, gradients: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    rest = torch.zeros(len(gradients[0]), dtype=torch.from_numpy(gradients[0]).dtype)
    sent = []
    for gradient in gradients:
        rest = rest + torch.from_numpy(np.array(gradient))
        indices = rest.abs().topk(min(k, len(rest))).indices.sort().values
        sent.append({"indices": indices.numpy().copy(), "values": rest[indices].numpy().copy()})
        rest = rest.index_fill(0, indices, 0.0)
    return sent


def compress_tensorflow(tf: Any, k: int, gradients: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    rest = tf.zeros_like(gradients[0])
    sent = []
    for gradient in gradients:
        rest = rest + gradient
        size = len(gradient)
        indices = tf.sort(tf.math.top_k(tf.abs(rest), min(k, size)).indices)
        values = tf.gather(rest, indices)
        sent.append({"indices": indices.numpy().astype(np.int64), "values": values.numpy()})
        rest = tf.tensor_scatter_nd_update(rest, indices[:, None], tf.zeros_like(values)) if size else rest
    return sent
