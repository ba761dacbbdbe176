"""Drivers for ``lab13_parameter_server``: the learner's server in one process, scripted trainers in others.

Plain data in, plain data out. No answers here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from autograder.inside.peers import Peers
    from autograder.inside.ranks import Ended

Names = Mapping[str, Any]
Conditions = dict[str, Any]
Gradient = Callable[[int, int, np.ndarray], np.ndarray]
"""What a trainer computes from its number, its step, and the weights that it pulled."""


def placement(names: Names, sizes: dict[str, int], servers: int, split: int) -> list[list[Any]]:
    """The pieces that the learner gives, by name and start."""
    found = names["place"](dict(sizes), servers, split)
    if not isinstance(found, (list, tuple)):
        raise TypeError(f"place returned {_kind(found)}; expected a list of (name, server, start, stop).")
    pieces = []
    for piece in found:
        if not isinstance(piece, (list, tuple)) or len(piece) != 4 or not isinstance(piece[0], str):
            raise TypeError(f"place returned a list with {piece!r} in it; expected (name, server, start, stop).")
        pieces.append([piece[0], *map(_integer, piece[1:])])
    return sorted(pieces, key=lambda piece: (piece[0], piece[2], piece[3], piece[1]))


def barrier(
    names: Names,
    weights: np.ndarray,
    slopes: list[np.ndarray],
    targets: list[np.ndarray],
    lr: float,
    steps: int,
    repeat: list[list[int]],
    slow: list[float],
    conditions: Conditions,
) -> dict[str, Any]:
    """A job whose trainers each pull towards a target of their own."""
    trainers = len(slopes)

    def gradient(trainer: int, step: int, pulled: np.ndarray) -> np.ndarray:
        return slopes[trainer] * (pulled - targets[trainer])

    def make() -> Any:
        return names["SyncServer"](np.array(weights), trainers, lr)

    return _job(make, trainers, gradient, steps, repeat, slow, conditions)


def staleness(
    names: Names,
    weights: np.ndarray,
    moves: list[list[float]],
    lr: float,
    bound: int,
    repeat: list[list[int]],
    slow: list[float],
    conditions: Conditions,
) -> dict[str, Any]:
    """A job whose trainers each move, in each step, one entry of the weights that is theirs."""
    trainers, steps = len(moves), len(moves[0])

    def gradient(trainer: int, step: int, pulled: np.ndarray) -> np.ndarray:
        found = np.zeros(len(weights))
        found[trainer * steps + step] = moves[trainer][step]
        return found

    def make() -> Any:
        return names["StaleServer"](np.array(weights), trainers, lr, bound)

    return _job(make, trainers, gradient, steps, repeat, slow, conditions)


def sparse(
    names: Names, dim: int, lr: float, seed: int, scripts: list[list[dict[str, Any]]], conditions: Conditions
) -> dict[str, Any]:
    """A table of which trainers pull rows and push gradients; what each of them pulled, and the rows at the end."""

    def serve(peers: Peers) -> Any:
        table = names["SparseTable"](dim, lr, start_of(seed, dim))
        left = set(range(1, peers.size))
        while left:
            source, (do, ids, gradients) = peers.receive_any()
            if do == "pull":
                peers.send(source, _rows(table.pull(ids), len(ids), dim))
            elif do == "push":
                table.push(ids, gradients)
            else:
                left.discard(source)
        known = sorted(_integer(one) for one in table.known())
        return {
            "known": np.array(known, np.int64),
            "rows": _rows(table.pull(np.array(known, np.int64)), len(known), dim),
        }

    def train(peers: Peers) -> Any:
        pulled = []
        for one in scripts[peers.rank - 1]:
            if one["do"] == "pull":
                peers.send(0, ["pull", one["ids"], None])
                pulled.append(peers.receive(0))
            else:
                peers.send(0, ["push", one["ids"], one["gradients"]])
        peers.send(0, ["done", None, None])
        return pulled

    return _run(lambda peers: train(peers) if peers.rank else serve(peers), len(scripts) + 1, conditions)


def compress(names: Names, k: int, gradients: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    """What is sent of each gradient, by index."""
    compressor = names["TopK"](k)
    sent = []
    for gradient in gradients:
        given = np.array(gradient)
        answer = compressor.encode(given)
        if not isinstance(answer, (list, tuple)) or len(answer) != 2:
            raise TypeError(f"encode returned {_kind(answer)}; expected a pair (indices, values).")
        indices, values = (np.asarray(part) for part in answer)
        if indices.ndim != 1 or indices.shape != values.shape or (indices.size and indices.dtype.kind not in "iu"):
            raise TypeError(
                f"encode returned indices of {indices.dtype} {indices.shape} and values of shape {values.shape}; "
                "expected integers and numbers, one of each for every entry that is sent."
            )
        order = np.argsort(indices, kind="stable")
        sent.append({"indices": indices[order].astype(np.int64), "values": values[order], "given": given})
    return sent


def start_of(seed: int, dim: int) -> Callable[[int], np.ndarray]:
    """What a row of a sparse table starts with: a function of its id and nothing else."""

    def start(row: int) -> np.ndarray:
        return np.random.default_rng([seed, int(row)]).standard_normal(dim)

    return start


# --- a job ----------------------------------------------------------------------------------------


def _job(
    make: Callable[[], Any],
    trainers: int,
    gradient: Gradient,
    steps: int,
    repeat: list[list[int]],
    slow: list[float],
    conditions: Conditions,
) -> dict[str, Any]:
    """Rank 0 is the server; what each trainer pulled, and what happened at the server, in order.

    A slow trainer gets its weights when the others can do nothing more without it: so whatever they push comes before
    its own push or its end, on a machine of any speed.
    """

    def train(peers: Peers) -> Any:
        trainer, pulled = peers.rank - 1, []
        for step in range(steps):
            peers.send(0, ["pull", step, None])
            pulled.append(peers.receive(0))
            found = gradient(trainer, step, pulled[-1])
            for _ in range(1 + repeat.count([trainer, step])):
                peers.send(0, ["push", step, found])
        peers.send(0, ["done", steps, None])
        return pulled

    late = {trainer for trainer, more in enumerate(slow) if more}
    return _run(lambda peers: train(peers) if peers.rank else _serve(make(), peers, late), trainers + 1, conditions)


def _serve(server: Any, peers: Peers, late: set[int]) -> Any:
    log: list[list[Any]] = [["begin", -1, 0, _weights(server)]]
    peers.note = log
    waiting: dict[int, int] = {}
    answered: dict[int, np.ndarray] = {}
    left = set(range(peers.size - 1))
    while left:
        try:
            source, (do, step, gradient) = peers.receive_any()
            trainer = source - 1
        except ConnectionError as error:
            do, step, gradient, trainer = "lost", 0, None, error.peer - 1  # type: ignore[attr-defined]  # a PeerLost
        if do == "push":
            server.push(trainer, step, gradient)
        elif do == "pull":
            waiting[trainer] = step
        else:
            waiting.pop(trainer, None)
            answered.pop(trainer, None)
            if trainer not in left:
                continue
            left.discard(trainer)
            if do == "lost":
                server.lost(trainer)
        log.append([do, trainer, step, _weights(server)])
        for asking in sorted(waiting):
            answer = server.pull(asking, waiting[asking])
            log.append(["ask", asking, waiting[asking], answer is not None])
            if answer is not None:
                del waiting[asking]
                answered[asking] = _array(answer)
        at_work = left - waiting.keys() - answered.keys()
        prompt = answered.keys() - late
        for asking in sorted(prompt or (() if at_work else answered)):
            with contextlib.suppress(ConnectionError):  # it is told of once more when nothing else comes
                peers.send(asking + 1, answered.pop(asking))
    return {"log": log, "weights": _weights(server)}


def _run(on_rank: Callable[[Peers], Any], size: int, conditions: Conditions) -> dict[str, Any]:
    from ranks import raise_first, run_ranks  # type: ignore[import-not-found]  # beside the worker, in a sandbox

    ended: list[Ended] = run_ranks(on_rank, size, conditions=conditions, limit=4.0)
    raise_first(ended)
    for one in ended:
        one.pop("counts", None)
        one.pop("log", None)
    return {"ranks": ended}


def _weights(server: Any) -> np.ndarray:
    found = getattr(server, "weights", None)
    if not isinstance(found, np.ndarray):
        raise TypeError(f"server.weights is {_kind(found)}; the server keeps the weights there, as an array.")
    return np.array(found)


def _array(found: Any) -> np.ndarray:
    if not isinstance(found, np.ndarray):
        raise TypeError(f"pull returned {_kind(found)}; expected the weights, an array, or None.")
    return np.array(found)


def _rows(found: Any, count: int, dim: int) -> np.ndarray:
    if not isinstance(found, np.ndarray) or found.shape != (count, dim):
        raise TypeError(f"pull of {count} ids returned {_kind(found)}; expected an array of shape {(count, dim)}.")
    return np.array(found)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{value!r} stands where an integer was expected.")
    return int(value)


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return "nothing" if value is None else type(value).__name__
